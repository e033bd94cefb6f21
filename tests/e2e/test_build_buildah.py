"""Dockerfiles of everyday shape come out as buildah builds them: same files, modes, owners and settings."""
import json
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from conftest import IS_ROOT

DATA = pathlib.Path(__file__).resolve().parent.parent / "data/dockerfiles/everyday"
PROGRAMS = "sh bash cat ls id mkdir chmod chown ln rm cp touch find stat sort env grep true".split()
# What the two put into every box, each in its own way.
OWN = re.compile(r"\./(proc|sys|dev|run|tmp)(/| )|\./etc/(hosts|hostname|resolv\.conf|mtab) |\.(/etc)? ")

pytestmark = [pytest.mark.once("root"), pytest.mark.skipif(not IS_ROOT, reason="needs root"),
              pytest.mark.skipif(not shutil.which("buildah"), reason="buildah is missing: nothing to compare with")]


def make_root(root):
    """A small root filesystem of this host's programs."""
    (root / "bin").mkdir(parents=True)
    for program in PROGRAMS:
        path = os.path.realpath(shutil.which(program))
        shutil.copy(path, root / "bin" / program)
        needed = subprocess.run(["ldd", path], capture_output=True, text=True).stdout
        for library in re.findall(r"(/\S+)", needed):
            (root / library.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(os.path.realpath(library), root / library.lstrip("/"))
    for name in ("etc", "tmp", "root", "home/app", "proc", "dev", "sys", "run"):
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\napp:x:500:501:app:/home/app:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\napp:x:501:\nstaff:x:50:\n")


class Buildah:
    def __init__(self, base):
        self.words = ["buildah", "--root", f"{base}/store", "--runroot", f"{base}/run", "--storage-driver", "vfs"]

    def __call__(self, *args):
        done = subprocess.run([*self.words, *map(str, args)], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done
        return done.stdout.strip()


@pytest.fixture(scope="module")
def both(session_cove, tmp_path_factory):
    """Cove and buildah, each with the image `mini`."""
    base = tmp_path_factory.mktemp("buildah")
    make_root(base / "mini")
    buildah = Buildah(base)
    container = buildah("from", "scratch")
    buildah("add", "-q", container, base / "mini", "/")
    buildah("commit", "-q", container, "localhost/mini")
    session_cove("image", "import", "mini", base / "mini").ok()
    yield session_cove, buildah
    session_cove("image", "rm", "mini")
    buildah("rm", "--all")


LISTING = "cd / && find . -xdev -printf '%p %y %m %U %G %l %s\\n' | sort"


def listing(text):
    """Without the sizes of directories, which are the filesystem's."""
    lines = [line for line in text.splitlines() if not OWN.match(line)]
    return [re.sub(r"^(\S+ d .*) \d+$", r"\1", line) for line in lines]


def settings_of(info):
    config = info["config"]
    config["labels"] = [item for item in config["labels"] if not item.startswith("maintainer=")]  # there: the author
    pairs = {name: dict(item.split("=", 1) for item in config[name]) for name in ("env", "labels")}
    return {"user": config["user"] or "root", "cwd": config["cwd"] or "/", "entrypoint": config["entrypoint"],
            "cmd": config["cmd"], "ports": sorted(config["ports"]), "stop": config["stop_signal"], **pairs}


def their_settings(info):
    config = info["OCIv1"]["config"]
    env = dict(item.split("=", 1) for item in config.get("Env") or [])
    labels = {k: v for k, v in (config.get("Labels") or {}).items() if not k.startswith("io.buildah")}
    return {"user": config.get("User") or "root", "cwd": config.get("WorkingDir") or "/",
            "entrypoint": config.get("Entrypoint") or [], "cmd": config.get("Cmd") or [],
            "ports": sorted(config.get("ExposedPorts") or {}), "stop": config.get("StopSignal"),
            "env": env, "labels": labels}


@pytest.mark.parametrize("name", sorted(p.name for p in DATA.iterdir()))
def test_same_as_buildah(both, tmp, name):
    cove, buildah = both
    context = tmp / "context"
    shutil.copytree(DATA / name, context, symlinks=True)
    for path in context.rglob("*"):  # git keeps less of a mode than a context has
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.suffix == ".sh" else 0o600 if path.name == "s" else 0o644)
    ours = f"same-{name}"
    cove("image", "build", "-t", ours, context).ok()
    try:
        got = listing(cove("run", "--image", ours, "--entrypoint", "", "-u", "0:0", "-w", "/", "--net", "none", "--",
                           "/bin/sh", "-c", LISTING).ok().text)
        info = cove("image", "inspect", "--json", ours).ok().json
    finally:
        cove("image", "rm", ours)
    buildah("bud", "-q", "--isolation", "chroot", "--layers=false", "-t", ours, context)
    container = buildah("from", ours)
    root = buildah("mount", container)
    text = subprocess.run(["/bin/sh", "-c", LISTING.replace("cd /", f"cd {root}")], capture_output=True,
                          text=True).stdout
    assert got == listing(text)
    mine, theirs = settings_of(info), their_settings(json.loads(buildah("inspect", "--type", "image", ours)))
    if "PATH" not in mine["env"]:
        theirs["env"].pop("PATH", None)  # buildah adds one where the image has none
    assert mine == theirs
