"""cove image pull: against Debian's docker-registry on loopback, and against servers that are not what they should
be."""
import base64
import json
import os
import pathlib
import pty
import signal
import subprocess
import threading

import pytest
import registry as reg
import registry_hostile as hostile
from conftest import wait_until
from programs import NotApplicable

STATIC = "/sbin/ldconfig"  # a program that needs nothing


def some_bytes(n, seed):
    """Such as do not compress."""
    return subprocess.run(["openssl", "enc", "-aes-128-ctr", "-nosalt", "-pass", f"pass:{seed}"],
                          input=bytes(n), capture_output=True, check=True).stdout


@pytest.fixture(scope="module")
def image():
    program = pathlib.Path(STATIC).read_bytes()
    passwd = b"root:x:0:0::/root:/bin/sh\nworker:x:1000:1000::/:/bin/sh\n"
    return reg.Image([{"bin/tool": (0o755, program), "etc/passwd": passwd, "etc/group": b"root:x:0:\n"},
                      {"data/big": some_bytes(3 << 20, 1)}, {"data/more": some_bytes(1 << 20, 2)}],
                     settings={"Entrypoint": ["/bin/tool"], "Cmd": ["--version"], "User": "1000"})


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("pull")


@pytest.fixture(scope="module")
def tls(place):
    (place / "tls").mkdir()
    return reg.make_certificate(place / "tls")


@pytest.fixture(scope="module")
def plain(place, image):
    """docker-registry without TLS, with one image."""
    (place / "plain").mkdir()
    try:
        with reg.docker_registry(place / "plain") as url:
            reg.push(url, "team/tool", "v1", image)
            yield url.split("//")[1]
    except NotApplicable as e:
        pytest.skip(str(e))


@pytest.fixture
def cove(new_home):
    return new_home(HOME="/nonexistent")


def pull(cove, ref, *more, **kw):
    return json.loads(cove("image", "pull", "--json", ref, *more, **kw).ok().out)


def names(cove):
    return [i["name"] for i in json.loads(cove("image", "ls", "--json").ok().out)]


def blobs(cove):
    at = pathlib.Path(cove.home, "blobs")
    return sorted(p.name for p in at.iterdir()) if at.exists() else []


def is_clean(cove):
    """Nothing became an image, and no layer stays."""
    at = pathlib.Path(cove.home, "layers")
    return names(cove) == ["host"] and [p.name for p in at.iterdir() if not p.name.startswith(".host")] == []


# ---- against docker-registry ----

def test_pulled_and_run(cove, plain, image):
    ref = f"{plain}/team/tool:v1"
    got = pull(cove, ref)
    assert got["digest"] == image.digest and got["layers"] == 3 and got["layers_there"] == 0
    assert got["fetched"] == got["bytes"] == sum(map(len, image.blobs.values()))
    assert names(cove) == [ref, "host"]
    assert blobs(cove) == sorted(d[7:] for d in [*image.blobs, image.digest])
    assert b"ldconfig" in cove("run", "--image", ref).ok().out
    assert "worker" in cove("image", "inspect", ref).text or '"1000"' in cove("image", "inspect", ref).text


def test_nothing_is_fetched_twice(cove, plain, image):
    ref = f"{plain}/team/tool:v1"
    first = pull(cove, ref)
    again = pull(cove, ref, "--name", "second")
    assert first["fetched"] > 0 and again["fetched"] == 0 and again["layers_there"] == 3
    assert names(cove) == [ref, "second", "host"]


@pytest.mark.once("root")
def test_names(cove, plain):
    assert pull(cove, f"{plain}/team/tool:v1", "--name", "tool")["name"] == "tool"
    cove.fails("not_found", "image", "pull", f"{plain}/team/tool")
    cove.fails("not_found", "image", "pull", f"{plain}/team/other:v1")
    cove.fails("invalid", "image", "pull", f"http://{plain}/team/tool:v1")
    cove.fails("invalid", "image", "pull", f"{plain}/Team/tool")
    assert "--name" in cove.fails("invalid", "image", "pull", f"[::1]:{plain.split(':')[1]}/team/tool:v1")


@pytest.mark.once("root")
def test_by_digest(cove, plain, image):
    ref = f"{plain}/team/tool@{image.digest}"
    assert pull(cove, ref)["digest"] == image.digest
    assert names(cove) == [ref, "host"]
    other = "sha256:" + "0" * 64
    cove.fails("not_found", "image", "pull", f"{plain}/team/tool@{other}")


@pytest.mark.once("root")
def test_platforms(cove, plain):
    kinds = [("amd64", None), ("arm64", "v8"), ("arm", "v6"), ("arm", "v7")]
    images = [reg.Image([{"kind": f"{a}{v}".encode()}], arch=a, variant=v) for a, v in kinds]
    url = f"http://{plain}"
    reg.push(url, "many", "latest", None, images)
    for platform, which in (("linux/amd64", 0), ("linux/arm64", 1), ("linux/arm", 3), ("linux/arm/v6", 2)):
        got = pull(cove, f"{plain}/many", "--platform", platform, "--name", "m")
        assert got["digest"] == images[which].digest
    host = {"x86_64": 0, "aarch64": 1}.get(os.uname().machine)
    if host is not None:
        assert pull(cove, f"{plain}/many")["digest"] == images[host].digest
        assert f"{plain}/many" in names(cove)
    said = cove.fails("not_found", "image", "pull", f"{plain}/many", "--platform", "linux/s390x")
    assert "linux/arm/v7" in said
    cove.fails("invalid", "image", "pull", f"{plain}/many", "--platform", "amd64")
    # One that is for another machine only, without an index.
    reg.push(url, "foreign", "latest", reg.Image([{"a": b"b"}], arch="s390x"))
    cove.fails("not_found", "image", "pull", f"{plain}/foreign")
    assert f"{plain}/foreign" not in names(cove)
    assert pull(cove, f"{plain}/foreign", "--platform", "linux/s390x")["layers"] == 1


@pytest.mark.once("root")
def test_what_is_shown(cove, plain, image):
    said = cove("image", "pull", f"{plain}/team/tool:v1").ok()
    assert said.out == b"" and said.errors.count("sha256:") == 3 and "is ready" in said.errors
    quiet = cove("image", "pull", "-q", f"{plain}/team/tool:v1", "--name", "q").ok()
    assert quiet.out == b"q\n" and quiet.err == b""
    again = cove("image", "pull", f"{plain}/team/tool:v1").ok()
    assert again.errors.count("already there") == 3


@pytest.mark.once("root")
def test_one_line_on_a_terminal(cove, image):
    going, release = threading.Event(), threading.Event()

    def slow(server, handler):
        if "/blobs/" in handler.path and len(server.blobs.get(handler.path, b"")) > 2 << 20:
            data = server.blobs[handler.path]
            handler.send_response(200)
            handler.send_header("Content-Length", str(len(data)))
            handler.end_headers()
            handler.wfile.write(data[:1 << 20])
            going.set()
            while not release.wait(0.05):
                handler.wfile.write(data[1 << 20:(1 << 20) + 1])
                data = data[:1 << 20] + data[(1 << 20) + 1:]
            handler.wfile.write(data[1 << 20:])
            return True
        return False

    with reg.Scripted({("a", "latest"): image}, slow) as server:
        ours, theirs = pty.openpty()
        process = cove.start("image", "pull", f"{server.host}/a", stderr=theirs, stdout=theirs)
        os.close(theirs)
        shown = b""
        while b" MiB, " not in shown:
            shown += os.read(ours, 4096)
        release.set()
        with pytest.raises(OSError):
            while True:
                shown += os.read(ours, 4096)
        assert process.wait() == 0
        os.close(ours)
    assert b"\r" in shown and b"/s" in shown and b"is ready" in shown and b"sha256" not in shown


def test_a_missing_image_names_the_remedy(cove):
    assert "cove image pull registry.example/x:1" in cove.fails("not_found", "run", "--image", "registry.example/x:1",
                                                                "--", "true")


# ---- logins ----

def login(directory, host, **entry):
    directory.mkdir(exist_ok=True)
    (directory / "config.json").write_text(json.dumps({"auths": {host: entry}}))
    return {"DOCKER_CONFIG": str(directory)}


def in_base64(user, password):
    return base64.b64encode(f"{user}:{password}".encode()).decode()


def test_tls_and_tokens(cove, place, tls, image, tmp):
    ca = ["--ca", str(tls[0])]
    where = tmp / "tokens"
    where.mkdir()
    try:
        with reg.TokenServer(tls, users={"ann": "s3cr:et-decoy"}) as tokens, \
             reg.docker_registry(where, tls=tls, token=tokens) as url:
            host = url.split("//")[1]
            mine = tokens.token_for({"service": ["test-registry"], "scope": ["repository:team/x:pull,push"]})
            reg.push(url, "team/x", "latest", image, verify=str(tls[0]), headers={"Authorization": f"Bearer {mine}"})
            cove.fails("denied", "image", "pull", f"{host}/team/x")  # its authority is not trusted
            cove.fails("denied", "image", "pull", f"{host}/team/x", *ca)  # anonymous
            config = tmp / "docker"
            wrong = login(config, host, auth=in_base64("ann", "wrong-decoy"))
            assert "decoy" not in cove.fails("denied", "image", "pull", f"{host}/team/x", *ca, env=wrong)
            right = login(config, host, auth=in_base64("ann", "s3cr:et-decoy"))
            assert pull(cove, f"{host}/team/x", *ca, env=right)["digest"] == image.digest
            assert pull(cove, f"{host}/team/x", "--insecure", "--name", "i", env=right)["layers_there"] == 3
            trusted = {**right, "SSL_CERT_FILE": str(tls[0])}  # what the host trusts
            assert pull(cove, f"{host}/team/x", "--name", "t", env=trusted)["layers_there"] == 3
            refresh = login(config, host, identitytoken="s3cr:et-decoy")
            assert pull(cove, f"{host}/team/x", *ca, "--name", "r", env=refresh)["layers"] == 3
            assert [r for r in tokens.requests if r[0] == "POST"]
            assert all("scope=repository%3Ateam%2Fx%3Apull" in r[1] for r in tokens.requests if r[0] == "GET")
    except NotApplicable as e:
        pytest.skip(str(e))
    left = subprocess.run(["grep", "-rl", "decoy", cove.home], capture_output=True, text=True)
    assert left.stdout == ""


@pytest.mark.once("user")
def test_basic_and_a_helper(cove, tmp, image):
    where = tmp / "basic"
    where.mkdir()
    try:
        with reg.docker_registry(where, password=("bob", "hunter2-decoy")) as url:
            host = url.split("//")[1]
            reg.push(url, "x", "latest", image, auth=("bob", "hunter2-decoy"))
            cove.fails("denied", "image", "pull", f"{host}/x")
            config = tmp / "docker"
            wrong = login(config, host, auth=in_base64("bob", "no"))
            cove.fails("denied", "image", "pull", f"{host}/x", env=wrong)
            # A helper: asked by name, its answer used, nothing of it shown.
            (config / "config.json").write_text(json.dumps({"credHelpers": {host: "test"}}))
            helper = tmp / "docker-credential-test"
            said = cove.fails("unsupported", "image", "pull", f"{host}/x", env=wrong)
            assert "docker-credential-test" in said
            helper.write_text(f"#!/bin/sh\n[ \"$(cat)\" = {host} ] && [ $1 = get ] && "
                              "echo '{\"Username\":\"bob\",\"Secret\":\"hunter2-decoy\"}'\n")
            helper.chmod(0o755)
            env = {**wrong, "PATH": f"{tmp}:{os.environ['PATH']}"}
            assert pull(cove, f"{host}/x", env=env)["layers"] == 3
    except NotApplicable as e:
        pytest.skip(str(e))


def test_a_token_goes_to_its_registry_only(cove, image):
    with reg.Scripted({}) as cdn:
        cdn.token = None

        def elsewhere(server, handler):
            if "/blobs/" in handler.path and handler.headers.get("Authorization"):
                cdn.blobs[handler.path] = server.blobs[handler.path]
                handler.answer(307, b"", {"Location": cdn.url + handler.path})
                return True
            return False

        with reg.Scripted({("a", "latest"): image}, elsewhere, token="tok-decoy") as server:
            pull(cove, f"{server.host}/a")
            assert any("Authorization" in r[2] for r in server.requests)
        assert len(cdn.asked("/blobs/")) == 4
        assert not any("Authorization" in r[2] or "decoy" in str(r) for r in cdn.requests)


@pytest.mark.once("root")
def test_a_redirect_within_the_registry_keeps_the_token(cove, image):
    def moved(server, handler):
        if "/blobs/" in handler.path and "moved" not in handler.path:
            server.blobs[handler.path + "?moved"] = server.blobs[handler.path]
            handler.answer(302, b"", {"Location": handler.path + "?moved"})
            return True
        return False

    with reg.Scripted({("a", "latest"): image}, moved, token="tok") as server:
        pull(cove, f"{server.host}/a")
        assert all(r[2].get("Authorization") == "Bearer tok" for r in server.asked("?moved"))
        assert len(server.asked("?moved")) == 4


@pytest.mark.once("root")
def test_an_expired_token_is_renewed(cove, image):
    calls = []

    def expires(server, handler):
        if "/blobs/" in handler.path:
            calls.append(handler.path)
            if len(calls) == 2:
                server.token = "new"
        return False

    with reg.Scripted({("a", "latest"): image}, expires, token="old") as server:
        assert pull(cove, f"{server.host}/a")["layers"] == 3
        assert len(server.asked("/token")) == 2


# ---- going on, and trying again ----

def half_then_wait(going, size=1 << 20):
    """Sends a part of the large layer, says so, and then nothing."""
    def hook(server, handler):
        data = server.blobs.get(handler.path, b"")
        if len(data) < 2 << 20:
            return False
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(data)))
        handler.end_headers()
        handler.wfile.write(data[:size])
        handler.wfile.flush()
        going.set()
        handler.connection.recv(1)  # until the other side goes
        handler.close_connection = True
        return True
    return hook


def part_size(cove, image):
    large = max(image.layers, key=len)
    at = pathlib.Path(cove.home, "blobs", ".part-" + reg.digest(large)[7:])
    return at.stat().st_size if at.exists() else 0


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_goes_on_where_it_was_ended(cove, image, ending):
    going = threading.Event()
    with reg.Scripted({("a", "latest"): image}, half_then_wait(going)) as server:
        ref = f"{server.host}/a"
        process = cove.start("image", "pull", ref)
        assert going.wait(60)
        wait_until(lambda: part_size(cove, image) == 1 << 20, "half of it")
        process.send_signal(ending)
        _, said = process.communicate(timeout=60)
        assert process.returncode == (-9 if ending == signal.SIGKILL else 128 + ending)
        assert is_clean(cove)
        server.hook = None
        server.requests.clear()
        got = pull(cove, ref)
        large = max(image.layers, key=len)
        assert got["digest"] == image.digest
        ranges = [r[2]["Range"] for r in server.requests if "Range" in r[2]]
        assert f"bytes={1 << 20}-" in ranges
        assert got["fetched"] <= got["bytes"] - (1 << 20)
        assert reg.digest(large)[7:] in blobs(cove) and not any(b.startswith(".") for b in blobs(cove))
    if ending == signal.SIGINT:
        assert b"kept for the next time" in said


@pytest.mark.once("root")
def test_two_at_once_share_the_work(cove, image):
    with reg.Scripted({("a", "latest"): image}) as server:
        both = [cove.start("image", "pull", f"{server.host}/a", "--name", f"n{i}") for i in range(2)]
        for process in both:
            _, said = process.communicate(timeout=120)
            assert process.returncode == 0, said
        whole = [r for r in server.asked("/blobs/")]
        assert len(whole) == len(image.blobs)
    assert names(cove) == ["n0", "n1", "host"]


@pytest.mark.once("root")
def test_tries_again(cove, image):
    seen = {}

    def flaky(server, handler):
        n = seen[handler.path] = seen.get(handler.path, 0) + 1
        if n == 1:
            handler.answer(503)
        elif n == 2:
            handler.answer(429, b"", {"Retry-After": "0"})
        elif n == 3 and "/blobs/" in handler.path:
            data = server.blobs[handler.path]
            handler.send_response(200)
            handler.send_header("Content-Length", str(len(data)))
            handler.end_headers()
            handler.wfile.write(data[:len(data) // 2])
            handler.close_connection = True
        else:
            return False
        return True

    with reg.Scripted({("a", "latest"): image}, flaky) as server:
        got = pull(cove, f"{server.host}/a")
        assert got["fetched"] == got["bytes"]
        assert set(seen.values()) == {3, 4}


@pytest.mark.once("root")
def test_a_server_that_knows_no_parts(cove, image):
    going = threading.Event()
    with reg.Scripted({("a", "latest"): image}, half_then_wait(going)) as server:
        process = cove.start("image", "pull", f"{server.host}/a")
        assert going.wait(60)
        wait_until(lambda: part_size(cove, image) > 0, "a part")
        process.kill()
        process.communicate()

        def whole(_server, handler):
            if "Range" in handler.headers:
                handler.answer(200, server.blobs[handler.path])
                return True
            return False

        server.hook = whole
        assert pull(cove, f"{server.host}/a")["digest"] == image.digest


@pytest.mark.once("root")
def test_a_damaged_part_is_fetched_anew(cove, image):
    large = max(image.layers, key=len)
    at = pathlib.Path(cove.home, "blobs")
    cove("image", "ls").ok()
    at.mkdir(parents=True)
    (at / (".part-" + reg.digest(large)[7:])).write_bytes(b"x" * 1000)
    with reg.Scripted({("a", "latest"): image}) as server:
        assert pull(cove, f"{server.host}/a")["digest"] == image.digest


def damage(cove, data, how):
    path = pathlib.Path(cove.home, "blobs", reg.digest(data)[7:])
    whole = path.read_bytes()
    assert whole == data
    path.write_bytes(whole[:-1] if how == "short" else whole[:-1] + bytes([whole[-1] ^ 1]))


@pytest.mark.once("root")
@pytest.mark.parametrize("how, finds", [("short", None), ("changed", "verify"), ("changed", "export")])
def test_a_damaged_layer_is_healed_by_a_pull(cove, image, tmp, how, finds):
    large = max(image.layers, key=len)
    with reg.Scripted({("a", "latest"): image}) as server:
        ref = f"{server.host}/a"
        pull(cove, ref)
        damage(cove, large, how)
        if finds == "verify":
            assert reg.digest(large)[7:] in cove("system", "verify").text
        elif finds == "export":
            cove.fails("damaged", "image", "export", ref, tmp / "out.tar")
            cove.fails("damaged", "image", "export", ref, tmp / "out.tar")
        got = pull(cove, ref)
        assert got["fetched"] == len(large) and got["layers_there"] == 2
        cove("system", "verify").ok()
        assert blobs(cove) == sorted(d[7:] for d in [*image.blobs, image.digest])
        cove("image", "export", ref, tmp / "out.tar").ok()


@pytest.mark.once("root")
def test_a_damaged_layer_that_is_not_unpacked_yet(cove, image):
    """The pull that stumbles over it says so, and the next one fetches it."""
    large = max(image.layers, key=len)
    with reg.Scripted({("a", "latest"): image}) as server:
        ref = f"{server.host}/a"
        pull(cove, ref)
        cove("image", "rm", ref).ok()
        damage(cove, large, "changed")
        cove.fails("damaged", "image", "pull", ref)
        assert pull(cove, ref)["fetched"] == len(large)
        cove("system", "verify", "--deep").ok()


@pytest.mark.once("root")
def test_a_damaged_config_or_manifest_is_fetched_anew(cove, image):
    with reg.Scripted({("a", "latest"): image}) as server:
        ref = f"{server.host}/a"
        pull(cove, ref)
        at = pathlib.Path(cove.home, "blobs")
        small = [d[7:] for d in [*image.blobs, image.digest] if (at / d[7:]).stat().st_size < 10_000]
        good = {d: (at / d).read_bytes() for d in small}
        assert image.digest[7:] in good and len(good) >= 2
        for d, data in good.items():
            (at / d).write_bytes(bytes([data[0] ^ 1]) + data[1:])
        assert pull(cove, ref)["digest"] == image.digest
        assert {d: (at / d).read_bytes() for d in small} == good
        cove("system", "verify").ok()


# ---- servers that lie, stall and lead astray ----

@pytest.mark.once("user")
@pytest.mark.parametrize("case", hostile.CASES)
def test_hostile(cove, image, case):
    hook, kind = hostile.CASES[case]()
    with reg.Scripted({("a", "latest"): image}, hook) as server:
        said = cove.fails(kind, "image", "pull", f"{server.host}/a", env=hostile.NOWHERE)
    assert "\n" not in said
    assert is_clean(cove)
    if isinstance(hook, hostile.Endless):
        assert hook.sent < 64 << 20


@pytest.mark.once("user")
def test_tokens_without_end(cove, image):
    """The registry takes no token that its own server gives."""
    def never(server, handler):
        if handler.path.startswith("/token"):
            handler.answer(200, b'{"token":"useless"}')
            return True
        return False

    with reg.Scripted({("a", "latest"): image}, never, token="another") as server:
        cove.fails("denied", "image", "pull", f"{server.host}/a")
        assert len(server.requests) < 10


@pytest.mark.once("user")
@pytest.mark.parametrize("body", [b"", b"[]", b'{"token":7}', b'{"token":"a\\r\\nX-Injected: 1"}',
                                  b'{"token":"' + b"a" * (1 << 20) + b'"}'])
def test_a_token_that_is_none(cove, image, body):
    def hook(_server, handler):
        if handler.path.startswith("/token"):
            handler.answer(200, body)
            return True
        return False

    with reg.Scripted({("a", "latest"): image}, hook, token="another") as server:
        cove.fails("protocol", "image", "pull", f"{server.host}/a")
        assert not any("X-Injected" in r[2] for r in server.requests)


@pytest.mark.once("user")
def test_a_slow_server_is_given_up(cove, image):
    """A byte now and then is as good as none."""
    stop = threading.Event()

    def drip(server, handler):
        if "/manifests/" not in handler.path:
            return False
        handler.send_response(200)
        handler.send_header("Content-Type", reg.MANIFEST)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        while not stop.wait(0.2):
            handler.wfile.write(b" ")
        return True

    with reg.Scripted({("a", "latest"): image}, drip) as server:
        cove.fails("timeout", "image", "pull", "--stall", "1s", f"{server.host}/a", rc=124)
        stop.set()
    assert is_clean(cove)


@pytest.mark.once("user")
def test_plain_http_is_for_this_machine_only(cove):
    # Never asked: 192.0.2.0/24 leads nowhere, and the address is not one of this machine's.
    cove.fails("protocol", "image", "pull", "192.0.2.1:5000/x", "--stall", "1s", env=hostile.NOWHERE)


@pytest.mark.once("root")
def test_a_full_disk(cove, image, tmp):
    size = 6 << 20
    disk = tmp / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        full = type(cove)(f"{disk}/h", image="host", env={"HOME": "/nonexistent"})
        with reg.Scripted({("a", "latest"): image}) as server:
            (disk / "fill").write_bytes(bytes(size - (3 << 20)))
            assert "MiB more" in full.fails("full", "image", "pull", f"{server.host}/a")
            assert is_clean(full)
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)
