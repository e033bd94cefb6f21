"""A release build has no switch for its protections; tools/test-runner installs one for these tests."""
import pathlib

from conftest import PREFIX

NAMES = [b"COVE_WITHOUT", b"host-files", b"nofollow-delete", b"userns-sysctl", b"cgroup-kill"]


def programs():
    found = [PREFIX / "bin/cove", PREFIX / "libexec/cove/cove-keeper", PREFIX / "libexec/cove/cove-init"]
    return found + [p for p in PREFIX.glob("lib/**/libcove.so*") if not p.is_symlink()]


def test_no_program_knows_the_names_of_controls():
    paths = programs()
    assert len(paths) >= 4, paths
    for path in paths:
        data = pathlib.Path(path).read_bytes()
        for name in NAMES:
            assert name not in data, f"{path} knows {name.decode()}"


def test_version_says_nothing_of_tests(cove):
    assert "TESTS" not in cove("version").ok().text


def test_the_environment_switches_nothing_off(cove, tmp):
    """The directory that a link in the box leads to is the host's: nothing arrives there."""
    target = tmp / "canary"
    target.mkdir()
    (target / "canary").write_text("old")
    source = tmp / "new"
    source.write_text("new")
    env = {"COVE_WITHOUT": "host-files,nofollow-delete"}
    box = cove("create", env=env).ok().text.strip()
    cove("exec", box, "--", "ln", "-s", str(target), "/tmp/link").ok()
    assert cove("cp", str(source), f"{box}:/tmp/link/canary", env=env).rc != 0
    cove("rm", "-f", box, env=env).ok()
    assert (target / "canary").read_text() == "old"
