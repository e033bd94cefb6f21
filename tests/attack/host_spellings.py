"""D6: thousands of spellings of hosts through the real door. What is judged must be what is dialled: so for every
spelling the door's answer, the questions that left it and its record are compared with a model that shares no
code with it.

A host is drawn from names that are allowed, names that nearly are, and addresses, and is then spoilt: case, dots,
escapes, control bytes, other alphabets, user information, ports, lengths. Each goes one of four ways: CONNECT, a
URL with its Host, a question to the resolver followed by a connection, an SNI.
"""
import random
import re

from door_ground import ground
from rig import case, need

FULL, QUICK = 10000, 800
ALLOWED = ["allowed.test", "a-b.test", "x.wild.test", "deep.er.wild.test", "xn--bcher-kva.test"]
RULES = [{"name": "exact", "allow": ["allowed.test", "a-b.test", "xn--bcher-kva.test"]},
         {"name": "suffix", "allow": "*.wild.test"}, {"name": "no", "deny": "denied.wild.test"}]
NEAR = ["notallowed.test", "allowed.test.evil.example", "allowedXtest", "wild.test", "xwild.test", "denied.wild.test",
        "allowed.tes", "llowed.test", "allowed.testx", "evil.example", "127.0.0.1", "localhost", "[::1]", "10.0.0.1",
        "allowed-test", "allowed.test.test", "x.wild.test.evil.example", "denied.wild.test", "bücher.test"]
INSERT = ["\0", "\r", "\n", "\r\n", " ", "\t", "%00", "%2e", "%2E", "%0d%0a", "\\", "/", "_", "@", "#", "?", ";", ":",
          ",", "..", ".", "-", "*", "'", '"', "<", "|", "^", "`", "{", "~", "\x7f", "\x80", "\xff",
          "。", "．", "｡", "‍", "ａ", "ı", "ſ"]
LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
NAME = re.compile(rf"(?=.{{1,253}}\Z)(?:{LABEL}\.)*{LABEL}\Z")


def spell(rng):
    text = rng.choice(ALLOWED if rng.random() < 0.6 else NEAR)
    for _ in range(rng.choice((0, 0, 1, 1, 1, 2, 3))):
        at = rng.randrange(len(text) + 1)
        kind = rng.randrange(10)
        if kind == 0:
            text = "".join(c.upper() if rng.random() < 0.5 else c for c in text)
        elif kind == 1:
            text += rng.choice((".", "..", ".:80", ":80", ":", ":0", ":443", ":99999"))
        elif kind == 2:
            text = rng.choice((".", "*.", "www.", "user@", "allowed.test@", "user:pw@", "//", "http://", "[",
                               "xn--")) + text
        elif kind == 3:
            text += rng.choice((".", "@", "#", "/", "\\", "%00.", "\0.", "?.", ";", ",")) + "evil.example"
        elif kind == 4 and text:
            at = rng.randrange(len(text))
            text = text[:at] + f"%{ord(text[at]) & 255:02x}" + text[at + 1:]
        elif kind == 5:
            text = "a" * rng.choice((60, 63, 64, 200, 250, 254, 300)) + rng.choice((".", "")) + text
        elif kind == 6 and len(text) > 1:
            at = rng.randrange(len(text))
            text = text[:at] + text[at + 1:]
        else:
            text = text[:at] + rng.choice(INSERT) + text[at:]
    return text


def meant(text):
    """The one name that a spelling stands for, or None where it is refused."""
    if not text.isascii():
        return None
    name = text.lower()
    name = name[:-1] if name.endswith(".") else name
    last = name.rsplit(".", 1)[-1]
    if not NAME.fullmatch(name) or last.isdigit() or re.fullmatch(r"0x[0-9a-f]*", last):
        return None
    return name


def allowed(name):
    if name is None or name == "denied.wild.test":
        return False
    return name in ("allowed.test", "a-b.test", "xn--bcher-kva.test") or name.endswith(".wild.test")


CLIENT = """
out = []
end = b'\\r\\n\\r\\n'
def connect(h):
    h += b':%d' % port
    return status(proxy(b'CONNECT ' + h + b' HTTP/1.1\\r\\nHost: ' + h + end, 10, until=end))
def url(h):
    h += b':%d' % port
    head = b'GET http://' + h + b'/ HTTP/1.1\\r\\nHost: ' + h + b'\\r\\nConnection: close' + end
    return status(proxy(head, 10, until=end))
def name(h):
    labels = h.split(b'.')
    if h.endswith(b'.'): labels.pop()
    if any(not 0 < len(l) < 64 for l in labels): return -1
    return 200 if addresses(ask(question(encode_name(labels)))) else 403
def sni(h):
    try: s = tunnel('allowed.test', tls)
    except OSError: return 0
    if isinstance(s, bytes): return 0
    base = hello('placeholder.test')
    body = bytearray(base)
    at = body.find(b'placeholder.test')
    grow = len(h) - len(b'placeholder.test')
    body[at:at + 16] = h
    for where, size in ((3, 2), (6, 3), (at - 2, 2), (at - 5, 2), (at - 7, 2)):
        v = int.from_bytes(body[where:where + size], 'big') + grow
        body[where:where + size] = (v % (1 << 8 * size)).to_bytes(size, 'big')
    # the length of all extensions
    p = 5 + 4 + 34; p += 1 + body[p]; p += 2 + int.from_bytes(body[p:p + 2], 'big'); p += 1 + body[p]
    body[p:p + 2] = (int.from_bytes(body[p:p + 2], 'big') + grow).to_bytes(2, 'big')
    try: s.sendall(bytes(body))
    except OSError: return 0
    answer = read_all(s, 10, most=1)[0]
    s.close()
    return 200 if answer[:1] == b'\\x16' else 403
ways = {'connect': connect, 'url': url, 'name': name, 'sni': sni}
for way, text in spellings:
    try: out.append(ways[way](text.encode('utf-8')))
    except OSError: out.append(0)
say(out)
"""


@case("D6_spellings", "D6", f"{FULL} generated spellings of hosts: the door's answer is the model's, and what it "
      "asks for and dials is what it judged, and nothing else")
def spellings(rig):
    g = ground(rig)
    rng = random.Random(20260)
    count = QUICK if rig.quick else FULL
    work = [(("connect", "url", "name", "sni")[i % 4], spell(rng)) for i in range(count)]
    g.dns.table["localhost"] = ["127.0.0.1"]
    with g.own_box(RULES) as box:
        g.raw.clear()
        asked = len(g.dns.questions)
        let = 0
        for at in range(0, count, 1000):
            part = work[at:at + 1000]
            codes = g.run(CLIENT, box, 400, spellings=part, port=g.raw.port, tls=g.raw.tls_port)
            for (way, text), code in zip(part, codes):
                name = meant(text)
                if way == "sni":
                    expected = name == "allowed.test" and not text.endswith(".")
                    may = name == "allowed.test"
                elif way == "name" and (name == "localhost" or name and name.endswith(".localhost")):
                    continue  # answered in the box itself
                else:
                    expected = may = allowed(name)
                passed = code == 200
                let += passed
                need(not passed or may, f"{way} {text!r} was let through, and means {name!r}")
                # A refusal of what is allowed is no hole, but the model and the door would differ.
                need(passed or not expected or way in ("connect", "url") and ":" in text,
                     f"{way} {text!r} means {name!r} and got {code}")
        names = {n for n, _ in g.dns.questions[asked:]}
        odd = sorted(n for n in names if not allowed(n))
        need(names and not odd, f"asked outside: {odd[:5]}")
        rows = g.rows(box)
        judged = {r["host"] for r in rows if r.get("verdict") == "allow" and r.get("host")}
        need(names <= judged, f"asked for without being judged: {sorted(names - judged)[:5]}")
        odd = [h for h in judged if not allowed(h)]
        need(not odd, f"allowed in the record: {odd[:5]}")
        seen = {(n or "allowed.test").lower() for n in g.raw.names}
        need(seen <= {"allowed.test"}, f"the upstream was asked for {seen}")
        return f"{count} spellings, {let} let through, {len(names)} names asked for"
