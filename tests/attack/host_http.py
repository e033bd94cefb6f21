"""D7, D12, E1, E4, E7 to E11: the door as a reader of TLS and HTTP, in front of a server that keeps every byte."""
import ssl
import time

import smuggling
from door_ground import OK, ground
from door_rig import Authority
from rig import NotApplicable, case, memory_of, need

DOOR_MEMORY = 48 << 20  # resident bytes of a proxy under load, far above what it has idle

# ---- E1: requests that two readers could read in two ways ----

NEXT = "GET /smuggled HTTP/1.1\r\nHost: {h}\r\n\r\n"


def post(*fields, body="", first="POST /probe HTTP/1.1", host="Host: {h}"):
    return "\r\n".join([first, *([host] if host else []), *fields, "", ""]) + body


CHUNKED = "Transfer-Encoding: chunked"
# What is not even begun to be sent on. Latin-1, with {h} for host:port.
REFUSED = {
    **smuggling.cases("request"),
    "too_many_fields": post(*[f"X-{i}: y" for i in range(400)]),
    "long_field": post("X-Long: " + "a" * (80 << 10)),
    "long_target": post(first="GET /probe" + "a" * (80 << 10) + " HTTP/1.1"),
}
# What fails in its body: the head may have left; no second request may.
BODIES = {
    **smuggling.cases("body"),
    "chunk_ext_long": post(CHUNKED, body="3;" + "a" * 5000 + "\r\nabc\r\n0\r\n\r\n" + NEXT),
}
SEND = """
h = 'raw.test:%d'
def fill(port):
    return data.replace('{h}', h % port).encode('latin-1')
def absolute(port):
    d = fill(port)
    return d.replace(b' /', b' http://' + (h % port).encode() + b'/', 1) if b' /probe' in d.split(b'\\r\\n')[0] else d
say([status(talk('raw.test', port, fill(port), wait)), status(https('raw.test', tls, fill(tls), wait)),
     status(proxy(absolute(port), wait))])
"""


def refused(name, data):
    @case(f"E1_{name}", "E1", "such a request is answered with a refusal, and no byte of it is sent on")
    def run(rig):
        g = ground(rig)
        g.raw.clear()
        got = g.run(SEND, data=data, port=g.raw.port, tls=g.raw.tls_port, wait=6)
        need(all(s == 0 or 400 <= s < 600 for s in got), f"answers {got}")
        sent = g.raw.all()
        need(not sent.strip(b"-\n"), f"the upstream got {sent[:300]!r}")
        return f"answers {got}"


for _name, _data in REFUSED.items():
    refused(_name, _data)


def bad_body(name, data):
    @case(f"E1_{name}", "E1", "a body that cannot be read in one way is cut: no second request comes of it")
    def run(rig):
        g = ground(rig)
        g.raw.clear(b"")
        g.run(SEND, data=data, port=g.raw.port, tls=g.raw.tls_port, wait=2)
        sent = g.raw.all()
        need(b"/smuggled" not in sent, f"the upstream got {sent[:400]!r}")
        ends = sent.count(b"\r\n0\r\n\r\n") + sent.count(b"\n0\r\n\r\n")
        need(ends == 0 or "bare" not in name and b"evil" not in sent and b"Authorization" not in sent,
             f"the upstream got a whole body: {sent[:400]!r}")


for _name, _body in BODIES.items():
    bad_body(_name, _body)


@case("E1_rewritten", "E1", "what is sent on is written anew: no extension, odd space, or field of the hop is left")
def rewritten(rig):
    g = ground(rig)
    g.raw.clear()
    data = post(CHUNKED, "X-Space:   padded \t ", "Connection: X-Hop, keep-alive", "X-Hop: 1", "Keep-Alive: 5",
                "Proxy-Connection: x", "Proxy-Authorization: Basic eDp5", "TE: trailers", "Upgrade: h2c",
                "HTTP2-Settings: AAMAAABkAAQAAP__", "Max-Forwards: 3", "Proxy: http://evil.test/",
                body="3;name=value\r\nabc\r\n0\r\nX-Trailer: t\r\n\r\n")
    got = g.run(SEND, data=data, port=g.raw.port, tls=g.raw.tls_port, wait=3)
    need(got == [200, 200, 200], f"answers {got}")
    sent = g.raw.all()
    need(sent.count(b"POST /probe HTTP/1.1\r\n") == 3, f"{sent[:500]!r}")
    for word in (b"name=value", b"X-Hop", b"Proxy", b"Upgrade", b"HTTP2", b"Max-Forwards", b"padded \t", b"http://"):
        need(word not in sent, f"{word!r} was sent on: {sent[:600]!r}")
    need(b"X-Space: padded\r\n" in sent, f"{sent[:500]!r}")


@case("E1_connection_names_host", "E1", "Connection cannot take Host, a length or an injected field away")
def connection_names(rig):
    g = ground(rig)
    g.raw.clear()
    for fields in (["Connection: Host"], ["Connection: Content-Length", "Content-Length: 3"],
                   ["Connection: close, Authorization"]):
        g.run("say(https('api.test', tls, data.replace('{h}', 'api.test:%d' % tls).encode(), 3))",
              data=post(*fields, body="abc" if len(fields) > 1 else ""), tls=g.raw.tls_port)
    sent = bytes(g.raw.all())
    need(sent.count(b"Host: api.test") == 3 and sent.count(b"Content-Length: 3") == 1, f"{sent[:800]!r}")
    need(sent.count(b"Authorization: Bearer ") == 3, "the injected field was taken away")


@case("E1_pipelined", "E1", "pipelined requests are each judged, and sent one at a time")
def pipelined(rig):
    g = ground(rig)
    with g.own_box([{"allow": "raw.test", "methods": ["GET"]}]) as box:
        g.raw.clear()
        got = g.run("""
h = 'raw.test:%d' % tls
data = ''.join('GET /%d HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n' % (i, h) for i in range(5))
data += 'DELETE /admin HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\nGET /after HTTP/1.1\\r\\nHost: %s\\r\\n\\r\\n' % (h, h)
say(https('raw.test', tls, data.encode(), 4))""", box, tls=g.raw.tls_port)
        sent = g.raw.all()
        need(b"DELETE" not in sent and b"/admin" not in sent, f"{sent[:400]!r}")
        need(got.count("HTTP/1.1 200") >= 5 and "HTTP/1.1 403" in got, f"{got[:600]}")


# ---- what upstreams send ----

ANSWERS = {
    **{name: text.encode("latin-1") for name, text in smuggling.cases("answer").items()},
    "long_head": b"HTTP/1.1 200 OK\r\nX: " + b"SPLIT" * 20000 + b"\r\n\r\n",
    "many_fields": b"HTTP/1.1 200 OK\r\n" + b"X: SPLIT\r\n" * 1000 + b"\r\n",
    "endless_1xx": b"HTTP/1.1 103 Hints\r\nX-A: b\r\n\r\n" * 5000 + b"HTTP/1.1 99 SPLIT\r\n\r\n",
}


def bad_answer(name, answer):
    @case(f"E1_answer_{name}", "E1", "such an answer is a 502 of the door's own: nothing of it comes into the box")
    def run(rig):
        g = ground(rig)
        g.raw.clear(answer)
        got = g.run("say([https('raw.test', tls, get('/', 'raw.test:%d' % tls), 5, most=1 << 19), "
                    "talk('raw.test', port, get('/', 'raw.test:%d' % port), 5, most=1 << 19)])", port=g.raw.port,
                    tls=g.raw.tls_port)
        g.raw.clear()
        need(not any("SPLIT" in a for a in got), f"{[a[:200] for a in got]}")
        need(all(a == "" or " 502 " in a[:20] or "HTTP/1.1 103" in a[:20] for a in got), f"{[a[:100] for a in got]}")
        g.works()


for _name, _answer in ANSWERS.items():
    bad_answer(_name, _answer)


@case("E1_answer_twice", "E1", "a second answer to one request is not taken for that of the next")
def answer_twice(rig):
    g = ground(rig)
    g.raw.clear(OK + b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nSTALE")
    got = g.run("""
s = secure('raw.test', tls)
r = 'GET /%%d HTTP/1.1\\r\\nHost: raw.test:%d\\r\\n\\r\\n' % tls
s.sendall((r % 1).encode()); a = read_all(s, 5, until=b'ok\\n')[0]
time.sleep(0.3)
try:
    s.sendall((r % 2).encode()); b = read_all(s, 3)[0]
except OSError:
    b = b''
say([a, b])""", tls=g.raw.tls_port)
    g.raw.clear()
    need("STALE" not in got[0] + got[1], f"{got}")


@case("E1_answer_chunk_overflow", "E1", "a chunk of 2^64 bytes in an answer ends it")
def answer_chunks(rig):
    g = ground(rig)
    g.raw.clear(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000005\r\nSPLIT\r\n0\r\n\r\n")
    got = g.run("say(https('raw.test', tls, get('/', 'raw.test:%d' % tls), 4))", tls=g.raw.tls_port)
    g.raw.clear()
    need("SPLIT" not in got, f"{got[:300]}")


# ---- D7: what a tunnel is for ----

def in_tunnel(name, code, held, hosts=("pass.test", "raw.test"), silent=True):
    @case(f"D7_{name}", "D7", held)
    def run(rig):
        g = ground(rig)
        said = []
        for host in hosts:
            g.raw.clear()
            got = g.run("""
host_name = host
s = tunnel(host, tls)
if isinstance(s, bytes):
    say(['refused', s]); sys.exit()
""" + code + """
try:
    for part in parts: s.sendall(part); time.sleep(pause)
except OSError: pass
say(['sent', read_all(s, 4)[0]])""", host=host, tls=g.raw.tls_port, pause=0)
            need("evil.test" not in g.raw.names, f"{host}: the upstream was asked for another name")
            need(not silent or not g.raw.all() and None not in g.raw.names,
                 f"{host}: {g.raw.names} {g.raw.all()[:200]!r}")
            need("HTTP/1.1 200" not in str(got[1]), f"{host}: {got}")
            said.append(f"{host}: {len(str(got[1]))} bytes")
        return ", ".join(said)


in_tunnel("other_sni", "parts = [hello('evil.test')]", "a hello for another name does not leave")
in_tunnel("no_sni", "parts = [hello(None)]", "a hello without a name does not leave")
in_tunnel("ech", "parts = [with_extension(hello(host), 0xfe0d, b'\\0' + b'x' * 80)]",
          "a hello with an encrypted name cannot be judged: it does not leave", hosts=("pass.test",))
in_tunnel("two_names", "parts = [with_extension(hello(host), 0, b'\\0\\x0c\\0\\0\\x09evil.test')]",
          "nor one with two names")
in_tunnel("name_with_nul", "h = hello(host); parts = [h.replace(host.encode(), host.encode()[:-1] + b'\\0')]",
          "nor one with a NUL in its name")
in_tunnel("split_other_sni", "parts = [bytes([b]) for b in hello('evil.test')]",
          "cut into bytes it is still another name")
in_tunnel("split_records_other_sni", "parts = [split_records(hello('evil.test'), 7)]",
          "and so in many records")
in_tunnel("oversized_hello", "parts = [with_extension(hello(host), 21, b'\\0' * 40000)[:60000]]",
          "a hello that is too long to be judged does not leave")
in_tunnel("half_a_hello", "parts = [hello(host)[:40]]", "half a hello says nothing, and does not leave")
in_tunnel("alert_first", "parts = [b'\\x15\\3\\1\\0\\2\\1\\x5a' + hello('evil.test')]",
          "a record before the hello does not hide its name")
in_tunnel("empty_record_first", "parts = [b'\\x16\\3\\1\\0\\0' + hello('evil.test')]",
          "nor does an empty record")
in_tunnel("change_cipher_first", "parts = [b'\\x14\\3\\3\\0\\1\\1' + hello('evil.test')]",
          "nor a ChangeCipherSpec")
in_tunnel("fragment_of_three_first", "h = hello('evil.test'); parts = [h[:3] + b'\\0\\3' + h[5:8] + h[:3] + "
                                     "struct.pack('!H', len(h) - 8) + h[8:]]",
          "nor a hello whose first record ends within its length")
in_tunnel("ssl2_hello", "parts = [b'\\x80\\x2e\\1\\3\\1\\0\\x15\\0\\0\\0\\x10' + b'\\0\\0\\x2f' * 7 + b'x' * 16]",
          "nor a hello of SSL 2, which has no name", silent=False)
in_tunnel("second_tunnel", "parts = [b'CONNECT evil.test:443 HTTP/1.1\\r\\nHost: evil.test:443\\r\\n\\r\\n']",
          "a CONNECT within a tunnel of a intercepted host is refused", hosts=("raw.test",))
in_tunnel("not_tls", "parts = [b'\\0\\1\\2\\3 not TLS at all\\r\\n\\r\\n']",
          "what is neither TLS nor HTTP does not leave for a host that is intercepted", hosts=("raw.test",))


@case("D7_plain_in_tunnel_to_tls_only", "D7", "HTTP without TLS in a tunnel gets no credential")
def plain_in_tunnel(rig):
    g = ground(rig)
    g.raw.clear()
    got = g.run("""
s = tunnel('api.test', port)
s.sendall(get('/', 'api.test:%d' % port))
say(read_all(s, 5)[0])""", port=g.raw.port)
    need(" 403 " in got[:20], f"{got[:200]}")
    need(not g.raw.all().strip(b"-\n"), "it was sent on")


@case("D7_plain_host_of_another", "D7",
      "HTTP without TLS to a host that passes as it is: the Host of another name does not leave")
def plain_host(rig):
    g = ground(rig)
    g.raw.clear()
    got = g.run("""
def odd(h): return [status(talk('pass.test', port, get('/odd', h), 4)),
                    status(proxy(get('http://pass.test:%d/odd' % port, h), 4))]
s = tunnel('pass.test', port)
s.sendall(get('/odd', 'evil.test'))
say([odd('evil.test'), odd('pass.test.evil.test'), status(read_all(s, 4)[0]), status(talk('pass.test', port,
    get('/right', 'pass.test:%d' % port), 4))])""",
                port=g.raw.port)
    sent = g.raw.all()
    need(b"/odd" not in sent, f"{got} {sent[:300]!r}")
    need(got[3] == 200 and b"/right" in sent, f"the right one did not pass: {got}")


@case("D7_connect_targets", "D7", "CONNECT to an address, to a port that no rule has, without a port: refused")
def connect_targets(rig):
    g = ground(rig)
    with g.own_box([{"allow": "raw.test", "ports": [443]}]) as box:
        got = g.run("""
out = {}
for t in ('127.0.0.1:443', '[::1]:443', 'raw.test', 'raw.test:', 'raw.test:80', 'raw.test:0', 'raw.test:65536',
          'raw.test:443x',
          'raw.test:+443', 'raw.test: 443', 'raw.test:0443', 'raw.test:99999999999443', 'http://raw.test:443',
          '/raw.test:443',
          'raw.test:443/', 'user@raw.test:443', 'raw.test:443:443', 'evil.test:443', 'raw.test:443#', 'raw.test:443?x',
          '*:443', ':443', 'raw.test%00.evil.test:443', 'raw..test:443', '.raw.test:443', 'raw.test.evil.test:443'):
    out[t] = status(proxy(('CONNECT %s HTTP/1.1\\r\\nHost: raw.test:443\\r\\n\\r\\n' % t).encode(), 6))
say(out)""", box)
        bad = {t: s for t, s in got.items() if s not in (400, 403)}
        # A port with a zero before it is the same number to everybody.
        need(not set(bad) - {"raw.test:0443"}, f"{bad}")


# ---- D12, E8: other protocols ----

@case("D12_h2_is_not_offered", "D12", "towards a client that is intercepted ALPN says http/1.1, whatever it asks for")
def alpn(rig):
    g = ground(rig)
    got = g.run("""
out = []
for names in (['h2', 'http/1.1'], ['h2'], ['http/1.1'], ['h3', 'h2c']):
    try:
        with secure('raw.test', tls, alpn=names) as s: out.append(s.selected_alpn_protocol())
    except OSError as e: out.append('failed')
say(out)""", tls=g.raw.tls_port)
    need("h2" not in got and got[0] == "http/1.1", f"{got}")


@case("D12_http2_prior_knowledge", "D12", "HTTP/2 without being asked (gRPC too) is refused, plain and within TLS")
def prior_knowledge(rig):
    g = ground(rig)
    g.raw.clear()
    got = g.run("""
pri = b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n' + b'\\0\\0\\0\\4\\0\\0\\0\\0\\0'
say([talk('raw.test', port, pri, 4), https('raw.test', tls, pri, 4)])""", port=g.raw.port, tls=g.raw.tls_port)
    need(not g.raw.all().strip(b"-\n"), f"{g.raw.all()[:100]!r}")
    need(all(a == "" or a.startswith("HTTP/1.1 4") or a.startswith("HTTP/1.1 5") for a in got), f"{got}")


@case("D12_h2c_upgrade", "D12", "an upgrade to h2c is not passed on: the request stays HTTP/1.1")
def h2c(rig):
    g = ground(rig)
    g.raw.clear()
    got = g.run("say(status(talk('raw.test', port, get('/h2c', 'raw.test:%d' % port, 'Connection: Upgrade, "
                "HTTP2-Settings', "
                "'Upgrade: h2c', 'HTTP2-Settings: AAMAAABkAAQAAP__').replace(b'Connection: close\\r\\n', b''), 3)))",
                port=g.raw.port)
    sent = g.raw.all().lower()
    need(got in (200, 400, 403) and b"upgrade" not in sent and b"http2" not in sent, f"{got} {sent[:300]!r}")


@case("D12_connect_udp", "D12", "CONNECT-UDP (MASQUE) is not passed on as an upgrade")
def connect_udp(rig):
    g = ground(rig)
    g.raw.clear(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: connect-udp\r\n\r\n")
    got = g.run("say(https('raw.test', tls, get('/.well-known/masque/udp/192.0.2.1/443/', 'raw.test:%d' % tls, "
                "'Connection: Upgrade', "
                "'Upgrade: connect-udp', 'Capsule-Protocol: ?1').replace(b'Connection: close\\r\\n', b''), 3))",
                tls=g.raw.tls_port)
    sent = g.raw.all().lower()
    g.raw.clear()
    need("HTTP/1.1 101" not in got and b"upgrade:" not in sent, f"{got[:200]} {sent[:300]!r}")


@case("D12_any_upgrade", "D12", "no protocol but WebSocket can be switched to")
def any_upgrade(rig):
    g = ground(rig)
    for name in ("tcp", "ssh", "TLS/1.0", "websocket2", "h2c, websocket"):
        g.raw.clear(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "
                    b"" + name.encode() + b"\r\n\r\n")
        got = g.run("""
s = secure('raw.test', tls)
s.sendall(('GET /up HTTP/1.1\\r\\nHost: raw.test:%d\\r\\nConnection: Upgrade\\r\\nUpgrade: %s\\r\\n\\r\\n' % (tls,
    name)).encode())
a = read_all(s, 3, until=b'\\r\\n\\r\\n')[0]
try:
    s.sendall(b'tunnelled bytes')
except OSError: pass
say(a + read_all(s, 2)[0])""", tls=g.raw.tls_port, name=name)
        sent = g.raw.all()
        need("HTTP/1.1 101" not in got and b"tunnelled" not in sent, f"{name}: {got[:100]} {sent[:200]!r}")
    g.raw.clear()


WS = """
import base64, hashlib
key = base64.b64encode(b'0123456789abcdef').decode()
s = secure('raw.test', tls)
s.sendall(('GET /ws HTTP/1.1\\r\\nHost: raw.test:%d\\r\\nConnection: Upgrade\\r\\nUpgrade: '
           'websocket\\r\\nSec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: %s\\r\\n\\r\\n' % (tls, key)).encode())
a = read_all(s, 5, until=b'\\r\\n\\r\\n')[0]
try:
    s.sendall(frame)
except OSError: pass
b = read_all(s, wait)[0]
say([status(a), b])
"""


def ws_accept(conn, data):
    import base64
    import hashlib
    import re
    key = re.search(rb"Sec-WebSocket-Key: (\S+)", data, re.I)
    if not key:
        return
    word = base64.b64encode(hashlib.sha1(key[1] + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
    conn.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                 b"Sec-WebSocket-Accept: " + word + b"\r\n\r\n")


FRAMES = {
    "unmasked": b"\x81\x05SPLIT",
    "huge_length": b"\x82\xff\xff\xff\xff\xff\xff\xff\xff\xffabcdSPLIT",
    "length_of_2_63": b"\x82\xff\x80\0\0\0\0\0\0\0abcdSPLIT",
    "long_form_of_a_short_length": b"\x81\xfe\0\x05abcdSPLIT",
    "reserved_bits": b"\xf1\x85abcdSPLIT",
    "unknown_opcode": b"\x83\x85abcdSPLIT",
    "long_ping": b"\x89\xfe\0\x80abcd" + b"SPLIT" * 30,
    "cut_ping": b"\x09\x85abcdSPLIT",
    "continuation_of_nothing": b"\x80\x85abcdSPLIT",
    "message_in_a_message": b"\x01\x81abcdx\x01\x85abcdSPLIT",
    "after_close": b"\x88\x80abcd\x81\x85abcdSPLIT",
    "http_after_upgrade": b"GET /SPLIT HTTP/1.1\r\nHost: raw.test\r\n\r\n",
}


def bad_frame(name, frame):
    @case(f"E11_{name}", "E11", "such a WebSocket frame does not reach the server")
    def run(rig):
        g = ground(rig)
        g.raw.clear(ws_accept)
        got = g.run("frame = frame.encode('latin-1')\n" + WS, tls=g.raw.tls_port, frame=frame.decode("latin-1"), wait=3)
        sent = g.raw.all()
        g.raw.clear()
        need(got[0] == 101, f"the handshake did not pass: {got}")
        need(b"SPLIT" not in sent, f"{sent[-100:]!r}")


for _name, _frame in FRAMES.items():
    bad_frame(_name, _frame)


@case("E11_server_masks", "E11", "a server's masked frame does not reach the box, and a wrong accept is no WebSocket")
def server_masks(rig):
    g = ground(rig)

    def answer(conn, data):
        ws_accept(conn, data)
        conn.sendall(b"\x81\x85abcdSPLIT")
    g.raw.clear(answer)
    first = g.run("frame = b''\n" + WS, tls=g.raw.tls_port, wait=3)
    g.raw.clear(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                b"Sec-WebSocket-Accept: AAAAAAAAAAAAAAAAAAAAAAAAAAA=\r\n\r\n\x81\x05SPLIT")
    second = g.run("frame = b''\n" + WS, tls=g.raw.tls_port, wait=3)
    g.raw.clear()
    need("SPLIT" not in str(first) + str(second) and second[0] in (0, 502), f"{first} {second}")


# ---- E4 ----

@case("E4_options_and_max_forwards", "E4", "OPTIONS is a request like others; Max-Forwards says nothing to the door")
def options(rig):
    g = ground(rig)
    g.raw.clear()
    got = g.run("""
h = 'raw.test:%d' % tls
say([status(https('raw.test', tls, get(p, h, 'Max-Forwards: 0', method=m), 4)) for m, p in
     (('OPTIONS', '*'), ('OPTIONS', '/x'), ('TRACE', '/x'), ('TRACK', '/x'), ('trace', '/x'), ('GET', '*'))])""",
                tls=g.raw.tls_port)
    sent = g.raw.all()
    need(got[2] == got[3] == 501 and got[5] == 400, f"{got}")
    need(b"Max-Forwards" not in sent and b"TRAC" not in sent.upper().replace(b"TRACE /X HTTP/1.1\r\nHOST: RAW.TEST",
        b"TRAC"
         if got[4] != 200 else b""), f"{got} {sent[:300]!r}")


# ---- E7: back-pressure ----

def most_memory(g, box, work):
    """The largest resident size of the door's proxy and the keeper while work runs."""
    proxy, keeper, most = g.doors(box)[0], g.rig.keeper(box), 0
    process = work()
    try:
        end = time.monotonic() + 6  # for as long as a stuck side would fill memory
        while time.monotonic() < end and process.poll() is None:
            most = max(most, memory_of(proxy), memory_of(keeper))
            time.sleep(0.05)
    finally:
        process.kill()
        process.communicate()
    need(most > 0, "the door was not to be seen")
    need(most < DOOR_MEMORY, f"{most >> 20} MiB of memory")
    return f"at most {most >> 20} MiB"


def flood(conn, _data):
    conn.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
    block = b"x" * (1 << 20)
    for _ in range(900):
        conn.sendall(block)


@case("E7_slow_client", "E7", "a client that reads nothing of a large answer costs a bounded amount of memory")
def slow_client(rig):
    g = ground(rig)
    with g.own_box(g.rules()) as box:
        g.works(box)
        g.raw.clear(flood)
        try:
            return most_memory(g, box, lambda: g.start("""
socks = []
for i in range(8):
    s = secure('raw.test', tls) if i % 2 else dial('raw.test', port)
    s.sendall(get('/', 'raw.test:%d' % (tls if i % 2 else port)))
    socks.append(s)
time.sleep(60)""", box, port=g.raw.port, tls=g.raw.tls_port))
        finally:
            g.raw.plain.cut()
            g.raw.secure.cut()
            g.raw.clear()


@case("E7_slow_upstream", "E7", "an upstream that reads nothing of a large upload costs a bounded amount of memory")
def slow_upstream(rig):
    g = ground(rig)

    def deaf(conn, _data):
        time.sleep(8)
    with g.own_box(g.rules()) as box:
        g.works(box)
        g.raw.clear(deaf)
        try:
            return most_memory(g, box, lambda: g.start("""
import threading
def up(i):
    try:
        s = secure('raw.test', tls) if i % 2 else dial('raw.test', port)
        s.sendall(get('/', 'raw.test:%d' % (tls if i % 2 else port), 'Content-Length: 1000000000', method='POST'))
        s.settimeout(60)
        for _ in range(900): s.sendall(b'x' * (1 << 20))
    except OSError: pass
for i in range(8): threading.Thread(target=up, args=(i,), daemon=True).start()
time.sleep(60)""", box, port=g.raw.port, tls=g.raw.tls_port))
        finally:
            g.raw.plain.cut()
            g.raw.secure.cut()
            g.raw.clear()


@case("E7_endless_head", "E7", "a head or a chunk that never ends is cut at its limit", slow=True)
def endless_head(rig):
    g = ground(rig)
    g.raw.clear()
    got = g.run("""
out = []
for first in (b'GET / HTTP/1.1\\r\\nX: ', b'GET /', b'A'):
    s = secure('raw.test', tls); n = 0
    s.sendall(first)
    try:
        while n < 64 << 20: s.sendall(b'a' * 65536); n += 65536
    except OSError: pass
    out.append(n)
say(out)""", tls=g.raw.tls_port)
    need(max(got) < 64 << 20, f"taken: {got}")
    need(not g.raw.all().strip(b"-\n"), "something was sent on")


# ---- E9: certificates of upstreams ----

def certificate(name, make, held="the door does not speak to such an upstream, and sends no credential"):
    @case(f"E9_{name}", "E9", held)
    def run(rig):
        g = ground(rig)
        host = f"{name.replace('_', '-')}.cert.test"
        seen = []

        def serve(conn):
            seen.append(conn.recv(65536))
            conn.sendall(OK)
        service = g.net.new_tcp(serve, tls=make(g, host))
        got = g.run("say(https(host, port, get('/', '%s:%d' % (host, port)), 8))", host=host, port=service.port)
        need(got[9:12] in ("502", "403"), f"{got[:200]!r}")
        need(not seen or not any(seen), f"the upstream got {bytes().join(seen)[:100]!r}")
        return got[got.find("{"):][:200]


def other_authority(g):
    path = g.dir / f"ca{len(list(g.dir.glob('ca*')))}"
    path.mkdir()
    return Authority(path, "Another authority")


def self_signed(g, host):
    path = g.dir / f"self-{host}"
    path.mkdir()
    authority = Authority(path, host)
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(authority.pem, authority.key)
    return made


def old_version(g, host):
    made = g.net.ca.context(host)
    made.set_ciphers("ALL:@SECLEVEL=0")
    made.minimum_version, made.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    return made


def client_certificate(g, host):
    """Its certificate is good for a client only."""
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(*g.net.ca.issue(host, client=True))
    return made


certificate("expired", lambda g, host: g.net.ca.context(host, days=-1))
certificate("wrong_name", lambda g, host: g.net.ca.context("elsewhere.test"))
certificate("name_of_a_parent", lambda g, host: g.net.ca.context("cert.test"))
certificate("wildcard_of_all", lambda g, host: g.net.ca.context("*.test"))
certificate("self_signed", self_signed)
certificate("other_authority", lambda g, host: other_authority(g).context(host))
certificate("client_only", client_certificate)
certificate("old_version", old_version, "an upstream that only has TLS 1.0 or 1.1 is not spoken to")


@case("E9_guest_authority", "E9", "an authority that the box trusts is not trusted by the door")
def guest_authority(rig):
    g = ground(rig)
    authority, seen = other_authority(g), []

    def serve(conn):
        seen.append(conn.recv(65536))
    service = g.net.new_tcp(serve, tls=authority.context("guest.cert.test"))
    got = g.run("""
open('/tmp/guest.pem', 'w').write(pem)
for name in ('SSL_CERT_FILE', 'CURL_CA_BUNDLE', 'REQUESTS_CA_BUNDLE',
             'NODE_EXTRA_CA_CERTS'): os.environ[name] = '/tmp/guest.pem'
os.environ['SSL_CERT_DIR'] = '/tmp'
say(https('guest.cert.test', port, get('/', 'guest.cert.test:%d' % port), 8, verify=False))""",
                port=service.port, pem=authority.pem.read_text())
    need(got[9:12] in ("502", "403") and not any(seen), f"{got[:200]!r} {seen}")


@case("E9_renegotiation", "E9", "a client's renegotiation is refused, and the door goes on")
def renegotiation(rig):
    g = ground(rig)
    g.raw.clear()
    result = rig.cove.sh(g.box, "(printf 'R\\n'; sleep 2; printf 'GET /again HTTP/1.1\\r\\n\\r\\n'; sleep 1) | timeout "
                                "10 openssl "
                         f"s_client -connect raw.test:{g.raw.tls_port} -servername raw.test -tls1_2 2>&1 | tail -c "
                         f"2000")
    if "openssl: " in result["stdout"] and "not found" in result["stdout"]:
        raise NotApplicable("this image has no openssl")
    need("RENEGOTIATING" in result["stdout"] or "no renegotiation" in result["stdout"], result["stdout"][-300:])
    need(b"/again" not in g.raw.all(), "it went on")
    g.works()


@case("E9_the_box_s_authority_signs_nothing_else", "E9", "the certificate that a box gets is for the name it asked "
                                                         "for, "
      "by an authority of this box alone")
def own_authority(rig):
    g = ground(rig)
    with g.own_box(g.rules()) as box:
        code = """
import hashlib
s = secure('raw.test', tls)
peer = s.getpeercert()
say([peer['subjectAltName'], hashlib.sha256(str(peer['issuer']).encode() + s.getpeercert(True)).hexdigest()])"""
        first, other = g.run(code, tls=g.raw.tls_port), g.run(code, box, tls=g.raw.tls_port)
        need(first[0] == [["DNS", "raw.test"]], f"{first}")
        need(first[1] != other[1], "two boxes have one certificate")
        pem = g.run("import glob\nout = []\nfor p in glob.glob('/etc/ssl/certs/*') + glob.glob('/etc/cove/*') + "
                    "glob.glob('/run/cove/*'):\n"
                    "    try: out.append('PRIVATE KEY' in open(p, errors='replace').read())\n    except OSError: "
                    "pass\nsay(any(out))")
        need(not pem, "a private key is in the box")
