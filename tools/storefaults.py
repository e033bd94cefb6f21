"""Operations on what is kept, killed or starved at every write: for tools/faults, part `store`.

Each operation has a state that it begins from, a command line, and what must hold whatever happened: nothing that is
referred to is gone, `cove system verify --deep` finds no damage, and saying it again finishes it. cove-store is traced
with the command line that starts it.
"""
import io
import pathlib
import shutil
import sys
import tarfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/lib"))

CALLS = ["write", "pwrite64", "mkdirat", "renameat", "renameat2", "linkat", "unlinkat", "fsync", "fdatasync",
         "ftruncate", "flock"]


def rootfs(path, text):
    with tarfile.open(path, "w") as tar:
        for name, data in (("bin/sh", b"#!/bin/sh\n"), ("usr/a", text.encode()), ("usr/b", b"b" * 70_000)):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


class Store:
    """What the operations begin from: two images, and what each adds."""

    def __init__(self, rig, broken):
        self.rig, self.broken = rig, broken
        self.copy = rig.base / "copy"
        self.file = rig.base / "file"
        rig.cove("image", "import", "one", str(rootfs(rig.base / "one.tar", "1")), check=True)
        rig.cove("image", "import", "two", str(rootfs(rig.base / "two.tar", "2")), check=True)
        self.kept = self.layers()
        self.others = self.workspaces()

    def workspaces(self):
        return {p.name for p in (self.rig.home / "workspaces").glob("*")}

    def layers(self):
        return {p.name for p in (self.rig.home / "layers").iterdir() if len(p.name) == 64}

    def add_unused(self):
        path = self.rig.home / "layers" / ("c" * 64) / "rootfs"
        path.mkdir(parents=True, exist_ok=True)
        (path / "file").write_bytes(b"x" * 10_000)

    def verify(self, home=None):
        env = {"COVE_HOME": str(home)} if home else None
        done = self.rig.cove("system", "verify", "--deep", env=env)
        if done.returncode != 0:
            raise self.broken(f"verify: {(done.stdout + done.stderr).decode(errors='replace').strip()}")

    def check_kept(self):
        if not self.kept <= self.layers():
            raise self.broken("a layer that an image refers to is gone")

    def remove_copy(self):
        shutil.rmtree(self.copy, ignore_errors=True)

    # ---- operations: prepare, arguments, what must hold after it ended somehow, then the same said again ----

    def gc_again(self):
        self.check_kept()
        self.rig.cove("image", "gc", check=True)
        self.check_kept()
        if "c" * 64 in self.layers():
            raise self.broken("a layer that nothing refers to stays")
        left = [p.name for p in (self.rig.home / "layers").iterdir() if p.name.startswith(".")]
        if left:
            raise self.broken(f"left below layers/: {left}")

    def import_prepare(self):
        self.rig.cove("image", "rm", "three")
        rootfs(self.rig.base / "three.tar", "3")

    def import_again(self):
        self.check_kept()
        self.rig.cove("image", "import", "three", str(self.rig.base / "three.tar"), check=True)

    def is_image(self, name):
        return self.rig.cove("image", "inspect", name).returncode == 0

    def tag_prepare(self):
        self.rig.cove("image", "rm", "three")

    def tag_again(self):
        self.check_kept()
        self.rig.cove("image", "tag", "one", "three", check=True)
        self.rig.cove("image", "rm", "three", check=True)
        self.check_kept()

    def rm_prepare(self):
        self.import_prepare()
        self.rig.cove("image", "import", "three", str(self.rig.base / "three.tar"), check=True)

    def rm_again(self):
        self.check_kept()
        self.rig.cove("image", "rm", "three")
        self.gc_again()
        if self.is_image("three") or self.layers() != self.kept:
            raise self.broken("it is not gone whole")

    def build_prepare(self):
        import image_kit as kit
        self.rig.cove("image", "rm", "three")
        context = self.rig.base / "context"
        if not context.exists():
            context.mkdir()
            (context / "file").write_text("copied\n")
            (context / "Dockerfile").write_text("FROM small\nUSER root\nCOPY file /\nRUN echo made > /made\n")
            (self.rig.base / "small.tar").write_bytes(kit.tar(*kit.tiny_root()))
            self.rig.cove("image", "import", "small", str(self.rig.base / "small.tar"), check=True)

    def check_built(self):
        line = "read a < /file; read b < /made; echo $a $b"
        done = self.rig.cove("run", "--image", "three", "--net", "none", "--", "/bin/sh", "-c", line)
        if done.stdout != b"copied made\n":
            raise self.broken(f"the image is not whole: {done}")

    def build_again(self):
        if self.is_image("three"):
            self.check_built()
        self.rig.cove(*self.build_args(), check=True)
        self.check_built()
        left = self.rig.cove("ls", "-q", check=True).stdout
        if left:
            raise self.broken(f"boxes are left: {left!r}")

    def build_args(self):
        return ["image", "build", "--net", "none", "--no-cache", "-t", "three", str(self.rig.base / "context")]

    # ---- workspaces ----

    def has_workspace(self):
        return b"work\n" in self.rig.cove("workspace", "ls", "-q", check=True).stdout

    def work_prepare(self):
        """None, but a file of one."""
        self.rig.cove("workspace", "rm", "work")
        file = self.rig.base / "work"
        if not file.exists():
            self.rig.cove("run", "--image", "host", "--workspace", "work", "--", "sh", "-c",
                          "cd /workspace; mkdir d; echo 1 > d/x; ln d/x y", check=True)
            self.rig.cove("workspace", "export", "work", str(file), check=True)
            self.rig.cove("workspace", "rm", "work", check=True)

    def check_work(self):
        done = self.rig.cove("run", "--image", "host", "--workspace", "work", "--", "sh", "-c",
                             "cd /workspace; cat d/x; stat -c %h y")
        if done.stdout != b"1\n2\n":
            raise self.broken(f"the workspace is not whole: {done}")

    def work_import_again(self):
        if self.has_workspace():
            self.check_work()
        self.rig.cove("workspace", "import", "--force", str(self.rig.base / "work"), check=True)
        self.check_work()

    def work_rm_prepare(self):
        self.work_prepare()
        self.rig.cove("workspace", "import", str(self.rig.base / "work"), check=True)

    def work_rm_again(self):
        if self.has_workspace():
            self.check_work()
            self.rig.cove("workspace", "rm", "work", check=True)
        left = sorted(self.workspaces() - self.others)
        if left or self.has_workspace():
            raise self.broken(f"left of a workspace: {left}")

    def catalogue_prepare(self):
        for path in self.rig.home.glob("cove.db*"):
            path.unlink()

    def catalogue_again(self):
        self.rig.cove("system", "df", check=True)

    def backup_prepare(self):
        self.file.unlink(missing_ok=True)
        for path in self.rig.base.glob(".cove-*"):
            path.unlink()

    def backup_again(self):
        if self.file.exists():
            self.remove_copy()
            self.rig.cove("system", "restore", str(self.file), env={"COVE_HOME": str(self.copy)}, check=True)
            self.verify(self.copy)
        self.rig.cove("system", "backup", "--force", str(self.file), check=True)

    def restore_prepare(self):
        if not self.file.exists():
            self.rig.cove("system", "backup", str(self.file), check=True)
        self.remove_copy()

    def restore_again(self):
        if self.copy.exists():
            self.verify(self.copy)
        self.rig.cove("system", "restore", "--force", str(self.file), env={"COVE_HOME": str(self.copy)}, check=True)
        self.verify(self.copy)
        if {p.name for p in (self.copy / "layers").iterdir()} != self.layers():
            raise self.broken("the copy has other layers")

    def operations(self):
        copy = {"COVE_HOME": str(self.copy)}
        return [
            ("gc", self.add_unused, ["image", "gc"], {}, self.gc_again),
            ("import", self.import_prepare, ["image", "import", "three", str(self.rig.base / "three.tar")], {},
             self.import_again),
            ("image tag", self.tag_prepare, ["image", "tag", "one", "three"], {}, self.tag_again),
            ("image rm", self.rm_prepare, ["image", "rm", "three"], {}, self.rm_again),
            ("workspace import", self.work_prepare, ["workspace", "import", str(self.rig.base / "work")], {},
             self.work_import_again),
            ("workspace rm", self.work_rm_prepare, ["workspace", "rm", "work"], {}, self.work_rm_again),
            ("catalogue", self.catalogue_prepare, ["system", "df"], {}, self.catalogue_again),
            ("backup", self.backup_prepare, ["system", "backup", str(self.file)], {}, self.backup_again),
            ("restore", self.restore_prepare, ["system", "restore", str(self.file)], copy, self.restore_again),
            ("build", self.build_prepare, self.build_args(), {}, self.build_again),
        ]


def injections(row, quick):
    """What is tried at each write. The sample has one of the two errors for each row, in turn."""
    errors = ["error=ENOSPC", "error=EIO"]
    return ["signal=SIGKILL", *([errors[row % 2]] if quick else errors)]


class Traced:
    """The command line and what it starts, as a target of tools/faults."""

    def __init__(self, rig, count):
        self.rig, self.who, self.log, self.count_log = rig, "cli", rig.base / "trace", count

    def arrange(self, *options):
        return ["strace", "-qq", "-f", "-o", str(self.log), *options], {}

    def count(self):
        return self.count_log(self)


def run(rig, report, quick, tools):
    """tools: Broken, every, moments and the counting of a Target, of tools/faults."""
    store = Store(rig, tools.Broken)
    for row, (title, prepare, args, env, again) in enumerate(store.operations()):
        target = Traced(rig, tools.count)

        def act(wrap, _env):
            prepare()
            done = rig.cove(*args, wrap=wrap, env=env)
            noticed = done.returncode != 0 or "(INJECTED)" in target.log.read_text(errors="replace")
            store.verify()
            again()
            store.verify()
            return noticed

        prepare()
        wrap, _ = target.arrange()
        rig.cove(*args, wrap=wrap, env=env, check=True)
        counts = target.count()
        again()
        for inject in injections(row, quick):
            # A lock that cannot be had is no matter of disks.
            names = CALLS if "signal" in inject else [c for c in CALLS if c != "flock"]
            todo = tools.moments(counts, names=names)
            tried, problems = tools.every(rig, target, todo, act, inject, quick)
            report.case(f"{title}, {inject.split('=')[1]}", f"at {tried} writes", problems)
    store.remove_copy()
    # What comes after it begins with nothing.
    rig.cove("image", "rm", "one", "two", "three", "small", check=True)

