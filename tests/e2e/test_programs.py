"""Programs that people run in boxes: what the base image brings, and what the walls let them do."""
import pytest

from conftest import needs_base

pytestmark = pytest.mark.once("root")


@needs_base
def test_the_base_image_has_what_one_reaches_for(cove, shared):
    names = "bzip2 cmake gcc git nano node npm python3 rg rsync scp sqlite3 ssh vi wget xz zip"
    got = cove("exec", shared, "--", "sh", "-c", f"for p in {names}; do command -v $p >/dev/null || echo $p; done")
    assert got.ok().text == ""
    assert cove("exec", shared, "--", "sqlite3", ":memory:", "select 6 * 7").ok().text == "42\n"


@needs_base
def test_a_package_links_its_manual_pages_as_a_jdk_does(cove, box, inner_root):
    link = "update-alternatives --install /usr/bin/tryme tryme /bin/true 1 " \
        "--slave /usr/share/man/man1/tryme.1.gz tryme.1.gz /etc/hostname"
    cove("exec", "-u", "root", box, "--", "sh", "-c", f"{link} && readlink /usr/share/man/man1/tryme.1.gz").ok()
