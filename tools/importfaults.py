"""An import of an OCI layout, killed or starved at every write: for tools/faults, part `import`.

What holds for a pull holds here too (pullfaults.py): every blob that has a name is what its name says, the image is
there whole or not at all, and importing once more finishes it with nothing left beside.
"""
import pathlib
import sys
import types

import pullfaults

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/lib"))


class Import(pullfaults.Pull):
    def __init__(self, rig, path, image, broken):
        self.rig, self.image, self.broken = rig, image, broken
        self.args = ["image", "import", "pulled", str(path)]


def run(rig, report, quick, tools):
    import image_kit as kit
    layers = [kit.tar(kit.d("bin/"), kit.f("bin/a", b"a" * 70_000)), kit.tar(kit.d("etc/"), kit.f("etc/b"))]
    layout, path = kit.Layout(layers), rig.base / "layout.tar"
    path.write_bytes(layout.tar())
    path.chmod(0o644)
    blobs = ["sha256:" + kit.sha(b) for b in layout.blobs]
    image = types.SimpleNamespace(blobs=blobs, digest="sha256:" + layout.digest)
    work, target = Import(rig, path, image, tools.Broken), pullfaults.Traced(rig, tools.count)
    target.who = "import"

    def act(wrap, _env):
        work.prepare()
        done = rig.cove(*work.args, wrap=wrap)
        noticed = done.returncode != 0 or "(INJECTED)" in target.log.read_text(errors="replace")
        work.check(done.returncode)
        return noticed

    work.prepare()
    rig.cove(*work.args, wrap=target.arrange()[0], check=True)
    counts = target.count()
    work.check(0)
    for inject, names in (("signal=SIGKILL", pullfaults.CALLS), ("error=ENOSPC", pullfaults.ERRORS),
                          ("error=EIO", pullfaults.ERRORS)):
        todo = tools.moments(counts, names=names)
        tried, problems = tools.every(rig, target, todo, act, inject, quick)
        report.case(f"import, {inject.split('=')[1]}", f"at {tried} calls", problems)
    work.prepare()
