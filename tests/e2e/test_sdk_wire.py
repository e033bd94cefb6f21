"""What the Python package (sdk/python) reads from a server and out of a box, however it is cut, and hostile."""
import io
import os
import pathlib
import sys
import tarfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "sdk/python"))
import cove as sdk  # noqa: E402
from cove import _http, _tree, _ws  # noqa: E402

pytestmark = pytest.mark.once("user")


def entry(tar, name, kind=tarfile.REGTYPE, link="", data=b"evil", **more):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, link, 0o6777
    info.size = len(data) if kind == tarfile.REGTYPE else 0
    for key, value in more.items():
        setattr(info, key, value)
    tar.addfile(info, io.BytesIO(data) if info.size else None)


def test_a_hostile_tar_stays_inside(tmp):
    packed = io.BytesIO()
    outside = tmp / "outside"
    outside.mkdir()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        entry(tar, "d", tarfile.DIRTYPE)
        for name in ("/etc/x", "d/../../x", "../x", "d/a/../../../x"):
            entry(tar, name)
        entry(tar, "d/abs", tarfile.SYMTYPE, str(outside))
        entry(tar, "d/up", tarfile.SYMTYPE, "../outside")
        entry(tar, "d/later", tarfile.SYMTYPE, "sub/../../outside")
        entry(tar, "d/in", tarfile.SYMTYPE, "./sub")
        entry(tar, "d/sub", tarfile.DIRTYPE)
        entry(tar, "d/in/through")  # a link is not walked through
        entry(tar, "d/hard", tarfile.LNKTYPE, "d/../../outside/secret")
        entry(tar, "d/dev", tarfile.CHRTYPE)
        entry(tar, "d/fifo", tarfile.FIFOTYPE)
        entry(tar, "d/there/x")  # planted before
        entry(tar, "d/hard2", tarfile.LNKTYPE, "d/planted")  # of what did not come
        entry(tar, "d/hard3", tarfile.LNKTYPE, "d/there/secret")
        entry(tar, "d/planted")
        entry(tar, "d/good")
        entry(tar, "d/good/below")
        entry(tar, "d/same", tarfile.LNKTYPE, "d/good")
        entry(tar, "d/holes", pax_headers={"GNU.sparse.size": str(1 << 60), "GNU.sparse.map": "0,4"})
        entry(tar, "d/" + "n" * 300)
        entry(tar, "d/when", pax_headers={"mtime": "nan"})
    packed.seek(0)
    (outside / "secret").write_text("mine")
    (tmp / "to").mkdir()
    (tmp / "to/there").symlink_to(outside)
    (tmp / "to/planted").symlink_to(outside / "secret")
    left_out = _tree.Unpacker(str(tmp / "to")).unpack(packed)
    assert left_out == ["/etc/x", "d/../../x", "../x", "d/a/../../../x", "d/abs", "d/up", "d/later", "d/in/through",
                        "d/hard", "d/dev", "d/fifo", "d/there/x", "d/hard2", "d/hard3", "d/good/below", "d/holes",
                        "d/" + "n" * 300]
    assert (outside / "secret").read_text() == "mine" and os.listdir(outside) == ["secret"]
    assert sorted(os.listdir(tmp)) == ["outside", "to"]
    assert (tmp / "to/planted").read_text() == "evil" and (tmp / "to/same").read_text() == "evil"
    assert (tmp / "to/good").stat().st_mode & 0o7777 == 0o755


def test_links_of_a_hostile_tar_lead_nowhere(tmp):
    """However they are put together: all that is there leads to what is there."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for deep in range(1, 8):
            entry(tar, "d/" + "/".join("abcdefg"[:deep]), tarfile.DIRTYPE)
        entry(tar, "d/a/b/c/d/e/f/g/up", tarfile.SYMTYPE, "../" * 7)
        entry(tar, "d/a/b/c/d/e/f/g/out", tarfile.SYMTYPE, "../" * 8)
        entry(tar, "d/through", tarfile.SYMTYPE, "a/b/c/d/e/f/g/up/../../../../../etc/hostname")
        entry(tar, "d/around", tarfile.SYMTYPE, "a/./..//..")
        entry(tar, "d/higher", tarfile.LNKTYPE, "d/a/b/c/d/e/f/g/up")  # the same link from here leads out
        entry(tar, "d/to", tarfile.SYMTYPE, "a/b/c/d/e/f/g/up/a")
    packed.seek(0)
    left_out = _tree.Unpacker(str(tmp / "to")).unpack(packed)
    assert left_out == ["d/a/b/c/d/e/f/g/out", "d/through", "d/around", "d/higher"]
    for at, names, files in os.walk(tmp / "to"):
        for name in names + files:
            assert os.path.realpath(f"{at}/{name}").startswith(os.path.realpath(tmp / "to"))


def test_a_local_file_is_whole_or_as_it_was(tmp):
    (tmp / "there").write_text("kept")
    (tmp / "link").symlink_to("there")
    with pytest.raises(ZeroDivisionError), _tree.whole_file(str(tmp / "link")) as file:
        file.write(b"half")
        1 // 0
    assert (tmp / "there").read_text() == "kept" and sorted(os.listdir(tmp)) == ["link", "there"]
    with _tree.whole_file(str(tmp / "link")) as file:
        file.write(b"new")
        assert (tmp / "there").read_text() == "kept"
    assert (tmp / "there").read_text() == "new" and (tmp / "link").is_symlink()
    with _tree.whole_file("/dev/null") as file:
        file.write(b"gone")
    assert not os.path.isfile("/dev/null") and sorted(os.listdir(tmp)) == ["link", "there"]
    os.chmod(tmp, 0o500)
    with pytest.raises(PermissionError), _tree.whole_file(str(tmp / "new")):  # and not that nothing is there to remove
        pass
    os.chmod(tmp, 0o700)


def packed_by(kind, size, count=1):
    """Headers of a kind that come before an entry."""
    info = tarfile.TarInfo("x")
    info.type, info.size = kind, size
    return info.tobuf(tarfile.GNU_FORMAT) * count + b"\0" * 4096


@pytest.mark.parametrize("data", [b"", b"no tar" * 200, packed_by(tarfile.GNUTYPE_LONGNAME, 2 << 30),
                                  packed_by(tarfile.XHDTYPE, 2 << 30), packed_by(tarfile.XGLTYPE, 2 << 30),
                                  packed_by(tarfile.GNUTYPE_LONGNAME, 0, 5000)], ids=range(6))
def test_what_is_no_tar_is_an_error_of_ours(tmp, data):
    with pytest.raises(sdk.ProtocolError):
        _tree.Unpacker(str(tmp / "to")).unpack(io.BytesIO(data))
    assert os.listdir(tmp / "to") == []


def bodies(data, cut):
    """(status, body, rest) of an answer that comes in pieces."""
    response, body = _http.Response(), b""
    for at in range(0, len(data), cut):
        response.feed(data[at:at + cut])
        while response.head and (piece := response.take()):
            body += piece
    response.feed(b"")
    while piece := response.take():
        body += piece
    return response.head.status, body, bytes(response.rest)


@pytest.mark.parametrize("data, want", [
    (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP", (200, b"hello", b"HTTP")),
    (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0A\r\n0123456789\r\n0\r\nT: x\r\n\r\nrest",
     (200, b"abc0123456789", b"rest")),
    (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\nContent-Length: 9\r\n\r\n", (204, b"", b"")),
    (b"HTTP/1.0 200\nA: b\n\nto the end", (200, b"to the end", b"")),
    (b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\n\r\n\x81\x02hi", (101, b"", b"\x81\x02hi")),
])
def test_answers_however_they_are_cut(data, want):
    for cut in range(1, len(data) + 1):
        assert bodies(data, cut) == want


def test_an_answer_to_head_ends_with_its_head():
    for fields in (b"Content-Length: 9\r\n", b"Transfer-Encoding: chunked\r\n", b""):
        response = _http.Response("HEAD")
        response.feed(b"HTTP/1.1 502 Bad Gateway\r\n" + fields + b"\r\n")
        assert response.head.status == 502 and response.ended and response.take() == b"" and response.reusable


@pytest.mark.parametrize("data", [
    b"", b"\r\n\r\n", b"HTTP/2 200 OK\r\n\r\n", b"HTTP/1.1 20 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nA : b\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n", b"HTTP/1.1 200 OK\r\nX: " + b"a" * (65 << 10),
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"0" * 2000,
], ids=range(15))
def test_wrong_answers_are_refused(data):
    for cut in (1, 7, len(data) or 1):
        with pytest.raises((sdk.ProtocolError, sdk.ConnectionLost)):
            bodies(data, cut)


def test_events_however_they_are_cut():
    data = "\ufeff:c\n\nevent: a\r\ndata: é1\rdata:2\n\nid: 7\ndata\r\n\r\n\n\nevent: none\n\ndata: cut".encode()[3:]
    want = [_http.ServerEvent("a", "é1\n2", ""), _http.ServerEvent("message", "", "7")]
    for cut in range(1, len(data) + 1):
        parser, events = _http.EventParser(), []
        for at in range(0, len(data), cut):
            events += parser.feed(data[at:at + cut])
        assert events == want
    with pytest.raises(sdk.ProtocolError):
        list(_http.EventParser().feed(b"data: " + b"x" * (17 << 20)))


def ws_messages(data, cut):
    socket, messages = _ws.Socket(), []
    for at in range(0, len(data), cut):
        messages += socket.feed(data[at:at + cut])
    return messages, socket.closed, len(socket.out)


def test_websocket_however_it_is_cut():
    data = (b"\x81\x02hi\x02\x01a\x89\x04ping\x00\x01b\x80\x01c" + b"\x82\x7e\x00\x80" + b"x" * 128 + b"\x82\x00" +
            b"\x88\x02\x03\xe8\x81\x02no")
    want = ["hi", b"abc", b"x" * 128, b""], True, 10 + 8
    for cut in range(1, len(data) + 1):
        assert ws_messages(data, cut) == want
    sent = _ws.frame(2, b"x" * 70000)
    assert sent[:2] == b"\x82\xff" and _ws.mask(sent[14:], sent[10:14]) == b"x" * 70000


@pytest.mark.parametrize("data", [
    b"\x81\x82aaaahi", b"\xc1\x02hi", b"\x83\x00", b"\x09\x00", b"\x89\x7e\x00\x7e", b"\x80\x00", b"\x01\x01a\x81\x01b",
    b"\x81\x01\xff", b"\x82\x7e\x00\x05hello", b"\x82\x7f\x00\x00\x00\x00\x00\x00\x00\x05hello", b"\x88\x01x",
    b"\x82\x7f\xff\xff\xff\xff\xff\xff\xff\xff", b"\x82\x7f\x00\x00\x00\x00\x01\x00\x00\x01",
])
def test_wrong_websockets_are_refused(data):
    for cut in (1, len(data)):
        with pytest.raises(sdk.ProtocolError):
            ws_messages(data, cut)
