"""API keys: made, shown once, removed; and the owner of what one makes."""
import concurrent.futures
import os
import pathlib
import re
import signal

import pytest

from conftest import DEADLINE
from door_rig import in_tree
from embed import Owned
from image_kit import tar, tiny_root

pytestmark = pytest.mark.once("user")

TOKEN = re.compile(r"cove_([0-9a-f]{8})[0-9a-f]{64}")


@pytest.fixture
def home(new_home):
    """With an image that a key's box may stand on: the host's is none."""
    made = new_home()
    made("image", "import", "tiny", "-", input=tar(*tiny_root())).ok()
    return made


@pytest.fixture
def owned(cove, tmp):
    return Owned(cove, tmp)


def new_key(cove, name):
    return TOKEN.fullmatch(cove("key", "create", name).ok().text.strip())[1]


@pytest.fixture
def key(cove):
    """The id of a key."""
    name = "k" + os.urandom(4).hex()
    yield new_key(cove, name)
    cove("key", "rm", name).ok()


def keys(cove, *flags):
    return {k["name"]: k for k in cove("key", "ls", "--json", *flags).ok().json}


# ---- keys ----

def test_a_token_is_printed_once(home):
    made = home("key", "create", "ci").ok()
    token = made.text.rstrip("\n")
    found = TOKEN.fullmatch(token)
    assert found and made.text == token + "\n" and made.err == b""
    shown = keys(home)["ci"]
    assert shown["id"] == found[1] and shown["scopes"] == ["read", "run", "images", "network", "secrets"]
    assert shown["mounts"] == [] and set(shown["quotas"].values()) == {None} and shown["revoked_ms"] is None
    for words in (["key", "ls"], ["key", "ls", "--json"], ["key", "inspect", "ci"], ["key", "inspect", found[1]]):
        assert token[13:] not in home(*words).ok().text
    assert not in_tree(home.home, [token[13:].encode(), bytes.fromhex(token[13:])])
    assert home("key", "create", "--json", "two").ok().json.keys() == {"name", "id", "token"}


def test_all_that_a_key_may(home, tmp):
    (tmp / "real").mkdir()
    (tmp / "link").symlink_to("real")
    home("key", "create", "team", "--scope", "read,run", "--scope", f"audit,mount:{tmp}",
         "--quota", "boxes=20,mem=1536m,cpus=0.5,disk=100g,snapshots=50,images=10", "--mount", tmp / "link").ok()
    shown = home("key", "inspect", "--json", "team").ok().json
    assert shown["scopes"] == ["read", "run", "audit"] and shown["mounts"] == [str(tmp), str(tmp / "real")]
    assert shown["quotas"] == {"boxes": 20, "mem_bytes": 1536 << 20, "cpu_milli": 500, "disk_bytes": 100 << 30,
                               "snapshots": 50, "images": 10}
    line = home("key", "ls").ok().text
    assert "read,run,audit" in line and "mem=1536 MiB" in line and "cpus=0.5" in line


@pytest.mark.parametrize("kind, flags", [
    ("invalid", ["--scope", "raed"]), ("invalid", ["--scope", "read,"]), ("invalid", ["--scope", "mount:relative"]),
    ("invalid", ["--quota", "boxes=0"]), ("invalid", ["--quota", "pids=4"]), ("invalid", ["--quota", "mem=lots"]),
    ("invalid", ["--quota", "boxes=1,boxes=2"]), ("not_found", ["--mount", "/no/such/directory"]),
    ("invalid", ["--mount", "/dev/null"]), ("invalid", ["--scope", "admin", "--quota", "boxes=1"]),
    ("limit", [x for n in range(17) for x in ("--scope", "read")])])
def test_what_is_asked_for_is_exact(home, kind, flags):
    home.fails(kind, "key", "create", "x", *flags)
    assert keys(home, "--all") == {} and home("key", "ls", "-q").ok().out == b""


def test_help_has_every_scope(cove, owned):
    page = re.sub(r" +", " ", cove("help", "key", "create").ok().text)
    lines = owned.run("scopes").stdout.splitlines()
    assert {line.split()[0] for line in lines} >= {"read", "run", "admin"}
    for line in lines:
        assert f" {re.sub(' +', ' ', line)}\n" in page, line


@pytest.mark.parametrize("name", ["", "A", "a_b", "../x", "deadbeef", "x" * 64])
def test_names_of_keys(home, name):
    home.fails("invalid", "key", "create", name)


def test_removing_a_key(home):
    first = TOKEN.fullmatch(home("key", "create", "ci").ok().text.strip())[1]
    home.fails("exists", "key", "create", "ci")
    home("key", "rm", "ci").ok()
    home.fails("not_found", "key", "rm", "ci")
    home.fails("not_found", "key", "rm", first)
    home.fails("not_found", "key", "inspect", "ci")
    assert home("key", "ls", "-q").ok().out == b""
    # Its name is free, its id is not: that one stays known.
    second = TOKEN.fullmatch(home("key", "create", "ci").ok().text.strip())[1]
    assert first != second and home("key", "inspect", "--json", first).ok().json["revoked_ms"] > 0
    assert [k["id"] for k in home("key", "ls", "--json", "--all").ok().json] == [first, second]
    home("key", "rm", second).ok()


def test_a_token_that_nobody_got_is_of_no_key(home):
    with open("/dev/full", "wb") as full:
        p = home.start("key", "create", "ci", stdout=full)
        assert p.wait(DEADLINE) == 125
    assert keys(home) == {}


@pytest.fixture
def unnoted(home):
    """Breaks the audit log of keys: no row can be written. Called again it mends it."""
    home("key", "create", "first").ok()
    logs = pathlib.Path(home.home, "audit")
    assert logs.is_dir()

    def turn():
        if logs.is_dir():
            logs.rename(f"{logs}.away")
            logs.write_text("")
        else:
            logs.unlink()
            pathlib.Path(f"{logs}.away").rename(logs)
    return turn


def test_a_key_that_cannot_be_noted_is_none(home, unnoted):
    unnoted()
    assert home("key", "create", "ci").refused().out == b""
    assert list(keys(home)) == ["first"]
    unnoted()
    assert TOKEN.fullmatch(home("key", "create", "ci").ok().text.strip())


def test_a_key_whose_end_cannot_be_noted_ends(home, unnoted):
    unnoted()
    home("key", "rm", "first").refused()
    assert keys(home) == {}
    unnoted()
    home.fails("not_found", "key", "rm", "first")


def test_many_at_once_and_killed(home):
    """Of several with one name one is made. One that is killed has made a whole key or none."""
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: home("key", "create", "one"), range(8)))
    assert sorted(r.rc for r in made) == [0] + [125] * 7
    for n in range(10):
        p = home.start("key", "create", f"k{n}")
        if n % 2:
            p.stdout.read(1)
        p.send_signal(signal.SIGKILL)
        p.communicate(timeout=DEADLINE)
    for name, shown in keys(home).items():
        assert not shown["damaged"] and shown["scopes"], name
        home("key", "rm", name).ok()
    home("key", "create", "one").ok()


def test_a_damaged_key_is_shown_and_goes(home):
    made = TOKEN.fullmatch(home("key", "create", "ci").ok().text.strip())[1]
    home("key", "create", "other").ok()
    path = pathlib.Path(home.home, "keys", made)
    path.write_bytes(path.read_bytes().replace(b"scope read", b"scope admin"))
    assert [(k["name"], k["damaged"]) for k in home("key", "ls", "--json").ok().json if k["id"] == made] == [("", True)]
    found = home("system", "verify", "--json")
    assert found.rc == 1 and [(p["kind"], p["name"]) for p in found.json["problems"]] == [("key", made)]
    home("key", "rm", made).ok()
    assert list(keys(home)) == ["other"] and home("system", "verify", "--json").ok().json["damaged"] == 0


def test_others_read_no_key(home):
    made = TOKEN.fullmatch(home("key", "create", "ci").ok().text.strip())[1]
    assert os.stat(f"{home.home}/keys").st_mode & 0o777 == 0o700
    assert os.stat(f"{home.home}/keys/{made}").st_mode & 0o777 == 0o600


# ---- the owner of a box ----

def test_a_box_says_whose_it_is(cove, owned, key):
    (name,) = owned("create", name=f"{key}_web", owner=key)
    assert name == f"{key}_web"
    assert cove.inspect(name)["owner"] == key
    assert {b["name"]: b.get("owner") for b in cove("ls", "--json").ok().json}[name] == key
    # Inside it is called what its maker called it.
    assert cove("exec", name, "--", "hostname").ok().text == "web\n"
    cove("cp", f"{name}:/etc/hostname", "-").ok()
    cove("stop", name).ok()
    cove("start", name).ok()
    assert cove.inspect(name)["owner"] == key
    cove("audit", name, "--json").ok()
    (fresh,) = owned("create", owner=key)
    assert fresh.startswith(f"{key}_") and cove.inspect(fresh)["owner"] == key
    (mine,) = owned("create")
    assert cove.inspect(mine)["owner"] is None


def test_a_session_of_a_key(cove, owned, key):
    (name,) = owned("open", prefix=f"{key}_agent", owner=key)
    assert re.fullmatch(rf"{key}_agent-[0-9a-f]{{16}}", name)
    assert owned("open", prefix=f"{key}_agent", owner=key) == [name]
    assert cove.inspect(name)["workspace"] == name
    owned.fails("invalid", "open", prefix="agent", owner=key)
    cove("close", "--prefix", f"{key}_agent", "a session", "--delete").ok()
    cove("workspace", "rm", name).ok()


def test_names_and_owners_agree(cove, owned, key):
    owned.fails("invalid", "create", name="web", owner=key)
    owned.fails("invalid", "create", name="00000000_web", owner=key)
    owned.fails("invalid", "create", name=f"{key}_web")
    owned.fails("invalid", "create", name=f"{key}_web", owner=key[:7])
    owned.fails("denied", "create", name=f"{key}_web", owner=key, workspace="data")
    cove.fails("invalid", "create", "--name", f"{key}_web")
    assert not any(n.startswith(key) for n in cove.names())


def test_forks_and_snapshots_stay_their_keys(cove, owned, key):
    (name,) = owned("create", name=f"{key}_web", owner=key)
    (one,) = owned("fork", source=name, owner=key)
    (two,) = owned("fork", source=name)
    for fork in (one, two):
        assert re.fullmatch(rf"{key}_web-[0-9a-f]{{8}}", fork) and cove.inspect(fork)["owner"] == key
    cove.fails("invalid", "fork", name, "--name", "mine")
    owned.fails("denied", "fork", source=name, owner="00000000", name="00000000_x")
    snap = cove("snapshot", "create", name).ok().text.strip()
    assert snap.startswith(f"{key}_web-")
    cove("snapshot", "tag", snap, f"{key}_good").ok()
    (three,) = owned("fork", source=f"{key}_good", name=f"{key}_three")
    assert cove.inspect(three)["owner"] == key
    owned.fails("denied", "fork", source=snap, owner="00000000")
    cove("rollback", name, snap).ok()
    assert cove.inspect(name)["owner"] == key
    cove("snapshot", "rm", snap).ok()


def test_what_is_the_operators_may_be_given(cove, owned, key, box):
    names = owned("fork", source=box, owner=key, prefix=f"{key}_job", count=2)
    assert names == [f"{key}_job-1", f"{key}_job-2"]
    assert {cove.inspect(n)["owner"] for n in names} == {key} and cove.inspect(box)["owner"] is None
    (fresh,) = owned("fork", source=box, owner=key)
    assert fresh.startswith(f"{key}_{box}-")
    owned.fails("invalid", "fork", source=box, owner=key, name="job")


def test_a_keys_box_stands_on_no_image_of_another(cove, owned, key):
    """Whoever asks, and however it is spelled."""
    cove("image", "tag", "base", "00000000/theirs").ok()
    for image in ("host", "library/host", "00000000/theirs", "docker.io/00000000/theirs"):
        owned.fails("denied", "create", name=f"{key}_x", owner=key, image=image)
    cove("image", "rm", "00000000/theirs").ok()


def test_of_another_machine_it_is_nobodys(home, tmp):
    key = new_key(home, "ci")
    (name,) = Owned(home, tmp)("create", name=f"{key}_web", owner=key, image="tiny")
    home("snapshot", "create", name, f"{key}_snap").ok()
    home("snapshot", "export", f"{key}_snap", tmp / "f").ok()
    home("snapshot", "import", tmp / "f", "brought").ok()
    fork = home("fork", "brought").ok().text.strip()
    assert home.inspect(fork)["owner"] is None


def test_a_backup_keeps_it(home, new_home, tmp):
    key = new_key(home, "ci")
    Owned(home, tmp)("create", name=f"{key}_kept", owner=key, image="tiny")
    home("system", "backup", tmp / "b").ok()
    other = new_home()
    other("system", "restore", tmp / "b").ok()
    assert other.inspect(f"{key}_kept")["owner"] == key
    assert keys(other, "--all") == {}


def test_directories_of_the_host_are_below_a_root(cove, owned, key, tmp):
    """Also where a link leads out that was put there after somebody looked."""
    (tmp / "root/in").mkdir(parents=True)
    (tmp / "root2").mkdir()
    (tmp / "root/out").symlink_to("../root2")
    for n, good in enumerate(("root", "root/in", "root/in/../in")):
        owned("create", name=f"{key}_m{n}", owner=key, mount=f"{tmp}/{good}:/data", root=f"{tmp}/root")
    # Whether something is there is said of what is below alone: also where links of a box ask for it.
    (tmp / "root/asks").symlink_to("../root2/missing")
    (tmp / "root/back").symlink_to("../root2/../root/in")
    (tmp / "root/lost").symlink_to("in/missing")
    for bad in ("", "root2", "root/out", "root/../root2", "root/in/../..", "missing", "root/../missing", "root/asks",
                "root/out/missing", "root/back", "root2/../root/in"):
        for how in ({"mount": f"{tmp}/{bad}:/data"}, {"workspace": f"{tmp}/{bad}"}):
            owned.fails("denied", "create", name=f"{key}_x", owner=key, root=f"{tmp}/root", **how)
    for missing in ("root/missing", "root/in/missing/x", "root/lost"):
        for how in ({"mount": f"{tmp}/{missing}:/data"}, {"workspace": f"{tmp}/{missing}"}):
            owned.fails("not_found", "create", name=f"{key}_x", owner=key, root=f"{tmp}/root", **how)


# ---- secrets ----

POLICY = """version: 1
rules:
  - allow: api.test
    inject:
      headers: {Authorization: "Bearer {{ secret.%s }}"}
"""


def test_a_policy_is_checked_with_the_keys_secrets(cove, owned, key, tmp):
    name = "S" + os.urandom(4).hex().upper()
    policy = tmp / "p.yaml"
    policy.write_text(POLICY % name)
    cove("secret", "set", name, input=b"the operator's").ok()
    said = owned.fails("invalid", "create", name=f"{key}_web", owner=key, net=policy)
    assert f"{key}.{name}" in said
    owned.fails("invalid", "check", owner=key, input=POLICY % name)
    cove("secret", "set", f"{key}.{name}", input=b"its own").ok()
    owned("check", owner=key, input=POLICY % name)
    (box,) = owned("create", name=f"{key}_web", owner=key, net=policy)
    # The other way around: of the operator's box the operator's.
    cove("secret", "rm", name).ok()
    cove.fails("invalid", "create", "--net", policy)
    cove("policy", "apply", box, policy).ok()
    cove("stop", box).ok()
    cove("secret", "rm", f"{key}.{name}").ok()
    cove.fails("invalid", "start", box)
    cove.fails("invalid", "policy", "apply", box, policy)
    # A policy has no way to name a secret of somebody's namespace.
    policy.write_text(POLICY % f"{key}.{name}")
    cove.fails("invalid", "policy", "check", policy)
