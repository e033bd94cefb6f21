"""What a box with a network has before anything uses it: an authority of its own that its programs trust, the
variables they look at, and a launcher beside its keeper that waits to start its door."""
import base64
import hashlib
import os
import pathlib
import shutil
import signal
import subprocess

import pytest
from conftest import DEADLINE, PREFIX, wait_until

TRUST = "/dev/cove-trust/bundle.pem"
OWN = "/dev/cove-trust/box.pem"
BUNDLE = "/etc/ssl/certs/ca-certificates.crt"
JAVA = "/etc/ssl/certs/java/cacerts"

pytestmark = [pytest.mark.once("root"), pytest.mark.skipif(not (PREFIX / "libexec/cove/cove-door").exists(),
                                                           reason="cove-door is not installed")]


def set_net(cove, box, net):
    """Gives a stopped box another policy, in its record."""
    record = pathlib.Path(cove.home, "boxes", box, "record")
    text = record.read_text()
    # As an older Cove wrote it, without checksums: what the box is, and beside it what its last run was.
    if "form 2\n" in text:
        (record.parent / "lock").write_text(text[-1024:])
        text = text[:-1024].replace("form 2\n", "")
    lines = [line for line in text.splitlines() if line and not line.startswith(("net ", "sum "))]
    record.write_text("\n".join(lines + ["net " + net]) + "\n")


def make(cove, *flags, net="balanced"):
    box = cove("create", *flags).ok().text.strip()
    cove("stop", box).ok()
    set_net(cove, box, net)
    cove("start", box).ok()
    return box


def used(cove, box):
    """The files of the box's authority: one while it runs."""
    return list(pathlib.Path(cove.home, "door/used").glob(f"{box}.*.pem"))


def ca_of(cove, box):
    """The certificate of a box's authority, as text and as DER."""
    (path,) = used(cove, box)
    text = path.read_text()
    begin, end = "-----BEGIN CERTIFICATE-----\n", "-----END CERTIFICATE-----\n"
    body = text[text.index(begin) + len(begin):text.index(end)]
    return begin + body + end, base64.b64decode(body)


def spares(cove):
    return {p.name for p in pathlib.Path(cove.home, "door/ca").glob("*.pem")}


def launchers(cove, box):
    """The keeper's children that wait for it to ask for a door."""
    keeper = cove.inspect(box)["keeper_pid"]
    children = pathlib.Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()
    return [int(c) for c in children if pathlib.Path(f"/proc/{c}/comm").read_text().strip() == "cove-launcher"]


def cat(cove, box, path):
    return cove("exec", box, "--", "cat", path).ok().out


def test_the_bundle(cove):
    box = make(cove)
    cert, _ = ca_of(cove, box)
    bundle = cat(cove, box, TRUST).decode()
    # After it are what the host's administrator trusts, if there is any.
    assert cert in bundle and "PRIVATE KEY" not in bundle
    out = cove("exec", box, "--", "sh", "-c", "echo $SSL_CERT_FILE $CURL_CA_BUNDLE $NODE_EXTRA_CA_CERTS "
               "$GIT_SSL_CAINFO; echo $HTTPS_PROXY $no_proxy").ok().text.splitlines()
    assert out[0].split() == [TRUST, TRUST, OWN, TRUST]
    assert cat(cove, box, OWN).decode().startswith(cert)
    assert out[1] == "http://127.0.0.1:3128 localhost,127.0.0.1,::1"
    # The image's own file is the same, for programs that mind no variable; and neither can be changed.
    if cove("exec", box, "--", "test", "-s", BUNDLE).rc == 0:
        assert cat(cove, box, BUNDLE).decode() == bundle and bundle.count("BEGIN CERTIFICATE") > 1
    for path in (TRUST, BUNDLE):
        assert cove("exec", box, "--", "sh", "-c", f"echo x >> {path}").rc != 0
        assert cove("exec", box, "--", "rm", "-f", path).rc != 0


@pytest.mark.once("both")
@pytest.mark.once("root")
def test_a_bundle_is_made_anew(cove):
    """As Debian does it when a certificate is added, or a JDK is installed: by rename, of files in a directory that
    the authority is in, too. So it is there afterwards, and so is that of each later start."""
    box = make(cove)
    if cove("exec", "-u", "root", box, "--", "sh", "-c", "command -v update-ca-certificates openssl").rc != 0:
        pytest.skip("no root inside, or an image that has no update-ca-certificates")
    first = ca_of(cove, box)[0]
    # What a JDK's package reads when it is installed.
    assert cat(cove, box, "/etc/ssl/certs/cove-box.pem").decode().startswith(first)
    mine = cove("exec", "-u", "root", box, "--", "sh", "-ec",
                "openssl req -x509 -newkey rsa:2048 -nodes -keyout /dev/null -subj /CN=mine 2>/dev/null "
                "-out /usr/local/share/ca-certificates/mine.crt; mkdir -p /etc/ca-certificates/update.d; "
                "printf '#!/bin/sh\\ncat > /root/hooked\\n' > /etc/ca-certificates/update.d/zz; "
                "chmod +x /etc/ca-certificates/update.d/zz; update-ca-certificates >&2; "
                "cat /usr/local/share/ca-certificates/mine.crt").ok().text
    assert "+/etc/ssl/certs/mine.pem" in cove("exec", "-u", "root", box, "--", "cat", "/root/hooked").ok().text
    bundle = cat(cove, box, BUNDLE).decode()
    assert first in bundle and mine in bundle and bundle.count("BEGIN CERTIFICATE") > 2
    count = None
    for _ in range(3):
        cove("stop", box).ok()
        wait_until(lambda: not used(cove, box), "the launcher's end")
        for spare in pathlib.Path(cove.home, "door/ca").glob("*.pem"):
            if first in spare.read_text():
                spare.unlink()  # it was given back unused, and would do again
        cove("start", box).ok()
        now = ca_of(cove, box)[0]
        for path in (TRUST, BUNDLE):
            bundle = cat(cove, box, path).decode()
            assert now in bundle and mine in bundle
        assert count in (None, bundle.count("BEGIN CERTIFICATE")), "they do not add up"
        count = bundle.count("BEGIN CERTIFICATE")
    assert now != first
    cove("exec", "-u", "root", box, "--", "update-ca-certificates", "--fresh").ok()
    bundle = cat(cove, box, BUNDLE).decode()
    assert now in bundle and mine in bundle and first not in bundle


def test_python_accepts_the_bundle(cove):
    box = make(cove)
    if cove("exec", box, "--", "python3", "-c", "import ssl").rc != 0:
        pytest.skip("the image has no Python with ssl")
    _, der = ca_of(cove, box)
    out = cove("exec", box, "--", "python3", "-c",
               "import ssl, hashlib\nfor c in ssl.create_default_context().get_ca_certs(True):\n"
               " print(hashlib.sha256(c).hexdigest())").ok().text.split()
    assert hashlib.sha256(der).hexdigest() in out


def test_the_java_store(cove):
    box = make(cove)
    if cove("exec", box, "--", "test", "-f", JAVA).rc != 0:
        pytest.skip("the image has no Java store")
    _, der = ca_of(cove, box)
    store = cat(cove, box, JAVA)
    password = "changeit".encode("utf-16-be") + b"Mighty Aphrodite"
    assert hashlib.sha1(password + store[:-20]).digest() == store[-20:]
    assert store.startswith(bytes.fromhex("feedfeed00000002")) and der in store
    count, at = int.from_bytes(store[8:12], "big"), 12
    for _ in range(count):
        assert store[at:at + 4] == b"\0\0\0\2"
        at += 4
        at += 2 + int.from_bytes(store[at:at + 2], "big") + 8  # alias, date
        at += 2 + int.from_bytes(store[at:at + 2], "big")  # X.509
        at += 4 + int.from_bytes(store[at:at + 4], "big")
    assert at == len(store) - 20


def test_the_callers_variables_win(cove):
    box = make(cove, "-e", "SSL_CERT_FILE=/mine", "-e", "https_proxy=")
    out = cove("exec", box, "--", "sh", "-c", "echo $SSL_CERT_FILE; echo [$https_proxy]").ok().text.split()
    assert out == ["/mine", "[]"]


def test_each_box_has_its_own_and_gives_it_back(cove):
    a, b = make(cove), make(cove)
    assert ca_of(cove, a)[1] != ca_of(cove, b)[1]
    assert oct(used(cove, a)[0].stat().st_mode & 0o777) == "0o600"
    before, key, (launcher,) = spares(cove), used(cove, a)[0].read_bytes(), launchers(cove, a)
    cove("stop", a).ok()
    wait_until(lambda: not os.path.exists(f"/proc/{launcher}"), "the launcher's end")
    assert not used(cove, a)
    # No door ever had it, so it is as good as new.
    back = spares(cove) - before
    assert [pathlib.Path(cove.home, "door/ca", n).read_bytes() for n in back] == [key]


def test_a_bundle_of_the_hosts_is_not_written(cove, tmp):
    (tmp / "certs").mkdir()
    (tmp / "certs/ca-certificates.crt").write_text("of the host's")
    make(cove, "--mount", f"{tmp}/certs:/etc/ssl/certs")
    assert (tmp / "certs/ca-certificates.crt").read_text() == "of the host's"


def test_the_launcher_gives_it_back_without_a_keeper(cove):
    box = make(cove)
    before, (launcher,) = spares(cove), launchers(cove, box)
    os.kill(cove.inspect(box)["keeper_pid"], signal.SIGKILL)
    wait_until(lambda: not os.path.exists(f"/proc/{launcher}"), "the launcher's end")
    assert not used(cove, box) and len(spares(cove)) == len(before) + 1


def test_what_a_lost_launcher_left_is_not_used_again(cove):
    box = make(cove)
    before, (launcher,), old = spares(cove), launchers(cove, box), ca_of(cove, box)
    os.kill(launcher, signal.SIGKILL)
    cove("stop", box).ok()
    assert spares(cove) == before and ca_of(cove, box) == old
    cove("start", box).ok()
    # A start drops what the box's last life left, and takes a spare.
    assert len(spares(cove)) == len(before) - 1 and ca_of(cove, box) != old


def test_the_launcher(cove):
    box = make(cove)
    (launcher,) = launchers(cove, box)
    init = cove.inspect(box)["init_pid"]
    # Outside of the box: not in its groups, and with nothing open but the way to the keeper, word of its end
    # and of children, and the groups of the keeper, which it joins again at the end.
    groups = [pathlib.Path(f"/proc/{p}/cgroup").read_text() for p in (launcher, cove.inspect(box)["keeper_pid"], init)]
    assert groups[0] == groups[1]
    if os.access(f"/proc/{launcher}/fd", os.R_OK | os.X_OK):
        open_fds = {int(n): os.readlink(f"/proc/{launcher}/fd/{n}") for n in os.listdir(f"/proc/{launcher}/fd")}
        assert {n for n, path in open_fds.items() if not path.startswith("/sys/fs/cgroup/")} == {0, 1, 2, 3, 4, 5}
        words = {os.readlink(f"/proc/{launcher}/fd/{n}") for n in (4, 5)}
        assert words == {"anon_inode:[pidfd]", "anon_inode:[signalfd]"}
    assert cove.inspect(box)["network"]["door"]["running"] is False
    cove("stop", box).ok()
    wait_until(lambda: not os.path.exists(f"/proc/{launcher}"), "the launcher's end")


def test_a_closed_box_has_nothing_of_it(cove):
    box = make(cove, net="closed")
    assert launchers(cove, box) == [] and not used(cove, box)
    assert cove("exec", box, "--", "sh", "-c", "env | grep -i -e proxy -e cove-trust").rc == 1
    assert cove("exec", box, "--", "test", "-e", "/dev/cove-trust").rc == 1
    assert cove.inspect(box)["network"] == {"policy": "closed", "mode": "none", "door": None}


@pytest.mark.parametrize("plant", [
    "mkfifo {0}", "mkdir {0}", "ln -s /proc/1/mem {0}", "ln -s {0} {0}", "ln -s ../../../../../../etc/passwd {0}",
    "dd if=/dev/zero of={0} bs=1M count=6 2>/dev/null", ": > {0}", "true", "ln -s /dev/zero {0}",
])
def test_a_bundle_that_a_box_planted(cove, plant):
    """A box that is started again brings a tree that it wrote itself."""
    box = make(cove, net="closed")
    if cove("exec", "-u", "root", box, "--", "true").rc != 0:
        pytest.skip("no root inside")
    cove("exec", "-u", "root", box, "--", "sh", "-c", f"rm -rf {BUNDLE} /etc/ssl/cert.pem /etc/pki; "
         f"mkdir -p /etc/ssl/certs && {plant.format(BUNDLE)}").ok()
    cove("stop", box).ok()
    set_net(cove, box, "balanced")
    cove("start", box).ok()
    bundle = cat(cove, box, TRUST)
    cert = ca_of(cove, box)[0]
    before, found, _ = bundle.decode().partition(cert)
    assert found == cert and len(before + cert) < 8192
    if plant.startswith("ln -s ../"):
        # A link within the tree is one of the image's own; nothing of the host's is in it.
        assert b"root:" in bundle


def test_without_the_program(cove, tmp_path):
    """A box that needs a door says so when there is none; another does not."""
    box = make(cove, net="closed")
    cove("stop", box).ok()
    for name in ("cove-keeper", "cove-init"):
        shutil.copy(PREFIX / "libexec/cove" / name, tmp_path / name)
    os.chmod(tmp_path, 0o755)
    env = {"COVE_LIBEXEC": str(tmp_path)}
    for spare in pathlib.Path(cove.home, "door/ca").glob("*.pem") if os.path.exists(cove.home + "/door") else ():
        spare.unlink()
    cove("start", box, env=env).ok()
    cove("stop", box).ok()
    set_net(cove, box, "balanced")
    cove.fails("unsupported", "start", box, env=env)
    cove("start", box).ok()


def test_what_the_administrator_trusts(cove):
    """A root of a network that inspects TLS, where update-ca-certificates looks for such: trusted inside, too."""
    added = pathlib.Path("/usr/local/share/ca-certificates")
    if not added.is_dir():
        pytest.skip(f"this host has no {added}")
    root = pathlib.Path(BUNDLE).read_text().split("-----END")[0] + "-----END CERTIFICATE-----"
    line = f'mount -t tmpfs none {added} && mkdir {added}/corp && cat >{added}/corp/inspection.crt && exec "$@"'
    argv = cove.argv(["run", "--net", "balanced", "--", "cat", OWN])
    got = subprocess.run(["unshare", "-m", "sh", "-c", line, "sh", *argv], input=root.encode(), env=cove.env,
                         capture_output=True, timeout=DEADLINE)
    assert got.returncode == 0, got
    inside = got.stdout.decode()
    assert inside.count("BEGIN CERTIFICATE") == 2 and root.split("\n", 1)[1] in inside
