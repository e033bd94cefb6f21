"""A6, A8, A13, A14, A15, A16, A20 and B16, B19: what the host's side is given to eat."""
import io
import os
import socket
import stat
import subprocess
import tarfile
import threading

from rig import DEADLINE, Broke, NotApplicable, alive, case, end, memory_of, need, wait_until

KEEPER_MAX = 64 << 20  # resident bytes; an honest one has well below 2 MiB


def entry(name, kind=tarfile.REGTYPE, data=b"", **fields):
    info = tarfile.TarInfo(name)
    info.type, info.size, info.mode = kind, len(data), 0o755
    for key, value in fields.items():
        setattr(info, key, value)
    return info, data


def tar_of(rig, *entries):
    """An image of the attack program, /tmp, and the entries."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name in ("bin", "tmp", "etc", "home"):
            tar.addfile(entry(name, tarfile.DIRTYPE, mode=0o1777 if name == "tmp" else 0o755)[0])
        tar.addfile(entry("bin/attack", data=rig.program.read_bytes())[0], io.BytesIO(rig.program.read_bytes()))
        tar.addfile(entry("etc/passwd", data=b"root:x:0:0::/:/bin/attack\n")[0],
                    io.BytesIO(b"root:x:0:0::/:/bin/attack\n"))
        for info, data in entries:
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def import_image(rig, *entries, raw=None):
    return rig.cove("image", "import", "hostile", "-", input=raw or tar_of(rig, *entries), timeout=300)


def try_image(rig, *entries, raw=None):
    """Imports and starts it: either is refused with a sentence, or the box is a box."""
    made = import_image(rig, *entries, raw=raw)
    if made.rc != 0:
        made.refused()
        return f"refused: {made.errors.strip()[:120]}"
    try:
        got = rig.cove("run", "--image", "hostile", *rig.flags(), "--", "/attack/attack", "A1_absolute_path")
        need(b"BROKE" not in got.out, got.text)
        masks = rig.cove("run", "--image", "hostile", *rig.flags(), "--", "/attack/attack", "A9_masks_are_there")
        said = masks.text.strip().removeprefix("BROKE ")
        need(b"BROKE" not in masks.out or rig.excuse("A9_masks_are_there", said), masks.text)
        if got.rc != 0:
            got.refused()
            return f"does not start: {got.errors.strip()[:120]}"
        return "harmless: " + got.text.strip()
    finally:
        rig.cove("image", "rm", "hostile")


def link(name, target):
    return entry(name, tarfile.SYMTYPE, linkname=str(target))


def image_case(name, line, held, make):
    @case(name, line, held)
    def run(rig):
        return try_image(rig, *make(rig))


image_case("A6_dev_is_a_link", "A6", "an image whose /dev is a link to a host path touches nothing there",
           lambda rig: [link("dev", rig.canary.dir)])
image_case("A6_dev_null_is_a_link", "A6", "an image's own /dev/null link is not used for masks",
           lambda rig: [entry("dev", tarfile.DIRTYPE), link("dev/null", rig.canary.file)])
image_case("A6_console_is_a_link", "A6", "an image's /dev/console link is never opened by the host",
           lambda rig: [entry("dev", tarfile.DIRTYPE), link("dev/console", rig.canary.file)])
image_case("A6_pts_is_a_link", "A6", "an image's /dev/pts and /dev/pts/0 links are never mounted on outside",
           lambda rig: [entry("dev", tarfile.DIRTYPE), link("dev/pts", rig.canary.dir),
                        link("dev/ptmx", rig.canary.file)])
image_case("A6_proc_is_a_link", "A6", "an image whose /proc is a link to a host path touches nothing there",
           lambda rig: [link("proc", rig.canary.dir)])
image_case("A6_etc_hosts_is_a_link", "A6", "files that Cove puts into /etc never land at a link's host target",
           lambda rig: [link("etc/hosts", rig.canary.file), link("etc/hostname", rig.canary.file),
                        link("etc/resolv.conf", "../../../../../.." + str(rig.canary.file))])
image_case("A6_mount_point_is_a_link", "A6", "mount points that are links to a host path stay inside",
           lambda rig: [link("attack", rig.canary.dir), link("workspace", rig.canary.dir)])
image_case("A15_absolute_name", "A15", "an entry with an absolute name stays in the image",
           lambda rig: [entry(str(rig.canary.dir) + "/absolute", data=b"x")])
image_case("A15_dotdot_name", "A15", "an entry with ../ stays in the image or is refused",
           lambda rig: [entry("../" * 30 + str(rig.canary.dir)[1:] + "/dots", data=b"x")])
image_case("A15_link_ancestor", "A15", "an entry below a link to a host directory is not written there",
           lambda rig: [link("way", rig.canary.dir), entry("way/through", data=b"x"),
                        entry("way/sub/file", data=b"x")])
image_case("A15_hard_link_out", "A15", "a hard link to a host file gives the image nothing of it",
           lambda rig: [entry("hard", tarfile.LNKTYPE, linkname=str(rig.canary.file)),
                        entry("hard2", tarfile.LNKTYPE, linkname="../" * 30 + str(rig.canary.file)[1:])])
image_case("A15_hard_link_through_link", "A15", "a hard link through a link in the image does not leave it",
           lambda rig: [link("way", rig.canary.dir), entry("hard", tarfile.LNKTYPE, linkname="way/secret")])
image_case("A15_device_node", "A15", "device nodes of an archive are not made usable",
           lambda rig: [entry("dev", tarfile.DIRTYPE),
                        entry("tmp/disk", tarfile.BLKTYPE, devmajor=8, devminor=0, mode=0o666),
                        entry("tmp/mem", tarfile.CHRTYPE, devmajor=1, devminor=1, mode=0o666)])
image_case("A15_fifo_entry", "A15", "a FIFO in an archive does not hang the import",
           lambda rig: [entry("tmp/fifo", tarfile.FIFOTYPE, mode=0o666)])
image_case("A15_duplicate_names", "A15", "a name given twice, as link and then as file, writes no target",
           lambda rig: [link("twice", rig.canary.file), entry("twice", data=b"over the link"),
                        entry("dir", tarfile.DIRTYPE), link("dir", rig.canary.dir),
                        entry("dir/file", data=b"x")])
image_case("A15_odd_names", "A15", "names with newlines and bytes that are no UTF-8 are kept or refused",
           lambda rig: [entry("tmp/new\nline", data=b"x"), entry("tmp/\udcff\udcfe", data=b"x"),
                        entry("tmp/ \x1b[31m", data=b"x")])
image_case("A15_long_name", "A15", "a name of 4,096 bytes and one of 300 in one part are refused or kept",
           lambda rig: [entry("tmp/" + "n" * 300, data=b"x"), entry("/".join(["d" * 200] * 20), data=b"x")])
image_case("A15_deep_directories", "A15", "a thousand directories in each other are made or refused",
           lambda rig: [entry("tmp/" + "/".join(["d"] * 1000), tarfile.DIRTYPE)])


@case("A15_setuid_and_capability", "A15", "setuid bits and security.capability of an archive give nothing outside")
def archive_setuid(rig):
    program = rig.program.read_bytes()
    caps = bytes([1, 0, 0, 2] + [255] * 16)
    info, data = entry("bin/up", data=program, mode=0o6755,
                       pax_headers={"SCHILY.xattr.security.capability": caps.decode("latin-1")})
    made = import_image(rig, (info, data))
    if made.rc != 0:
        made.refused()
        return "refused"
    try:
        got = rig.cove("run", "--image", "hostile", "-u", "12345:12345", *rig.flags(), "--", "/bin/up",
                       "B13_no_capability_outside_list")
        need(b"BROKE" not in got.out, got.text)
        for top, _, files in os.walk(rig.cove.home):
            for name in files:
                st = os.lstat(os.path.join(top, name))
                need(not (st.st_mode & stat.S_ISUID and st.st_uid == 0 and os.stat(rig.cove.home).st_mode & 0o077),
                     f"{top}/{name} is a setuid file that others can reach")
    finally:
        rig.cove("image", "rm", "hostile")
    return got.text.strip()


@case("A15_many_entries", "A15", "an archive of very many entries is imported, or refused with a sentence")
def archive_many(rig):
    many = 1_000 if rig.quick else 100_000
    out = io.BytesIO(tar_of(rig))
    blocks = [tarfile.TarInfo(f"tmp/e{i}").tobuf() for i in range(many)]
    return try_image(rig, raw=out.getvalue().rstrip(b"\0") + b"\0" * (-len(out.getvalue().rstrip(b"\0")) % 512)
                     + b"".join(blocks) + b"\0" * 1024)


@case("A15_size_that_is_not_there", "A15", "an entry that claims 8 EiB and ends early is refused, and leaves nothing")
def archive_claims(rig):
    info = tarfile.TarInfo("tmp/huge")
    info.size = (1 << 63) - 1
    before = set(os.listdir(rig.cove.home + "/layers")) if os.path.isdir(rig.cove.home + "/layers") else set()
    made = import_image(rig, raw=tar_of(rig).rstrip(b"\0").ljust(1 << 20, b"\0")[:0] +
                        info.tobuf(tarfile.GNU_FORMAT) + b"x" * 4096)
    made.refused()
    after = set(os.listdir(rig.cove.home + "/layers")) if os.path.isdir(rig.cove.home + "/layers") else set()
    need(after == before, f"left behind: {after - before}")
    return made.errors.strip()[:120]


@case("A15_sparse_bomb", "A15", "a sparse entry of 1 TiB does not become 1 TiB")
def archive_sparse(rig):
    info = tarfile.TarInfo("tmp/bomb")
    info.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "tmp/bomb",
                        "GNU.sparse.realsize": str(1 << 40)}
    body = b"1\n0\n0\n".ljust(512, b"\0")
    info.size = len(body)
    used = os.statvfs(rig.base)
    told = try_image(rig, (info, body))
    now = os.statvfs(rig.base)
    need((used.f_bfree - now.f_bfree) * now.f_frsize < 1 << 32, "it took gigabytes")
    return told


@case("A15_compressed_archive", "A16", "a compressed archive is as harmless as a plain one; a damaged one is refused")
def archive_compressed(rig):
    import gzip
    packed = gzip.compress(tar_of(rig, link("dev", rig.canary.dir)))
    import_image(rig, raw=packed[:-6] + b"\0" + packed[-5:]).refused()
    return try_image(rig, raw=packed)


@case("A16_no_program_of_the_box_runs", "A16", "copying in and out runs no program and loads no library of the box")
def no_program(rig):
    script = b"#!/bin/attack --touch\n"
    names = ["tar", "cp", "gzip", "sh", "bash", "mkdir", "cat", "nsenter", "id", "getent"]
    import_image(rig, *[entry(f"bin/{n}", data=script) for n in names],
                 entry("etc/nsswitch.conf", data=b"passwd: evil\n"),
                 entry("lib", tarfile.DIRTYPE), entry("lib/libnss_evil.so.2", data=script)).ok()
    box = rig.make("--image", "hostile")
    try:
        source = rig.tmp / "tree"
        source.mkdir(exist_ok=True)
        (source / "file").write_text("x")
        rig.cove("cp", source, f"{box}:/tmp").ok()
        rig.cove("cp", f"{box}:/tmp/tree", rig.tmp / "back").ok()
        rig.cove("exec", "-u", "root", box, "--", "/attack/attack", "--bytes", "1").ok()
        need(rig.cove("cp", f"{box}:/tmp/executed", "-").rc != 0, "a program of the box was run")
    finally:
        rig.cove("rm", "-f", box)
        rig.cove("image", "rm", "hostile")


# ---- A13: what an upload can meet ----

def upload_case(name, held, setup, path, may_succeed=False):
    @case(name, "A13", held)
    def run(rig):
        box = rig.box()
        rig.cove("exec", box, "--", "bash", "-c", setup)
        got = rig.cove("cp", "-", f"{box}:{path}", input=b"uploaded")
        if got.rc == 0 and not may_succeed:
            raise Broke(f"an upload to {path} succeeded")
        if got.rc != 0:
            return got.refused().errors.strip()[:100]
        return "replaced"


upload_case("A13_upload_to_fifo", "a FIFO does not hang an upload", "mkfifo /tmp/fifo", "/tmp/fifo", True)
upload_case("A13_upload_to_device", "a device is not written to", "true", "/dev/full")
upload_case("A13_upload_to_socket", "a socket does not hang an upload",
            "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('/tmp/sock')\"", "/tmp/sock", True)
upload_case("A13_upload_over_directory", "a full directory is not replaced by a file",
            "mkdir -p /tmp/dir/-", "/tmp/dir")
upload_case("A13_upload_to_unwritable", "a file without permissions in a directory of another user is refused",
            "true", "/etc/shadow-of-nobody")
upload_case("A13_upload_to_proc", "files of /proc take no upload", "true", "/proc/self/oom_score_adj")
upload_case("A13_upload_below_file", "a file as a directory is refused", "touch /tmp/plain", "/tmp/plain/below")
upload_case("A13_upload_to_link_loop", "a loop of links is refused", "ln -s l2 /tmp/l1; ln -s l1 /tmp/l2",
            "/tmp/l1/x")
upload_case("A13_upload_through_dangling_link", "a link to a host path is not followed there",
            "ln -sf $CANARY_PATH /tmp/dangling", "/tmp/dangling", True)


@case("A13_hard_link_of_another_box", "A13", "a hard link cannot reach another box's files: they share no mount")
def hard_link(rig):
    one, two = rig.make("--workspace", "attack-hl1"), rig.make("--workspace", "attack-hl2")
    rig.cove("exec", one, "--", "bash", "-c", "echo mine > /workspace/f").ok()
    got = rig.cove("exec", two, "--", "bash", "-c", "ln /workspace/../workspace/f /tmp/g; cat /workspace/f")
    rig.cove("rm", "-f", one, two)
    need(b"mine" not in got.out, "the other box's file is there")


# ---- A14: what a download can meet ----

def download(rig, box, path, seconds=DEADLINE):
    """Bytes that came in the time, and whether it ended by itself."""
    target = rig.tmp / "download"
    target.unlink(missing_ok=True)
    process = rig.cove.start("cp", f"{box}:{path}", target)
    try:
        _, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        end(process)
        return None, ""
    return process.returncode, err.decode(errors="replace")


@case("A14_download_growing_file", "A14", "a file that grows for ever ends, or can be given up; memory is bounded")
def growing(rig):
    box = rig.box()
    rig.cove("exec", "-d", box, "--", "bash", "-c", "timeout 3 /attack/attack --grow /tmp/grow; rm -f /tmp/grow")
    wait_until(lambda: rig.cove("exec", box, "--", "test", "-s", "/tmp/grow").rc == 0, "the file")
    rc, err = download(rig, box, "/tmp/grow", 10)
    need(memory_of(rig.keeper(box)) < KEEPER_MAX, "the keeper holds the file")
    (rig.tmp / "download").unlink(missing_ok=True)
    rig.cove("exec", box, "--", "rm", "-f", "/tmp/grow")
    return f"rc {rc} {err.strip()[:80]}"


@case("A14_download_huge_sparse_file", "A14", "a sparse file of 8 EiB can be given up; memory stays bounded")
def sparse(rig):
    box = rig.box()
    rig.cove("exec", box, "--", "bash", "-c", "truncate -s 7E /tmp/sparse || truncate -s 15T /tmp/sparse").ok()
    process = rig.cove.start("cp", f"{box}:/tmp/sparse", "-", stdout=subprocess.DEVNULL)
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:
        pass
    grown = memory_of(rig.keeper(box))
    end(process)
    rig.cove("exec", box, "--", "rm", "-f", "/tmp/sparse")
    need(grown < KEEPER_MAX, f"the keeper has {grown >> 20} MiB")
    return f"keeper {grown >> 10} KiB"


def endless_case(name, held, path):
    @case(name, "A14", held)
    def run(rig):
        box = rig.box()
        rc, err = download(rig, box, path)
        need(memory_of(rig.keeper(box)) < KEEPER_MAX, "the keeper holds it")
        size = (rig.tmp / "download").stat().st_size if (rig.tmp / "download").exists() else 0
        (rig.tmp / "download").unlink(missing_ok=True)
        need(rc is not None, f"{size} bytes and no end")
        return f"rc {rc}, {size} bytes {err.strip()[:80]}"


endless_case("A14_download_endless_device", "/dev/zero is no file to download", "/dev/zero")
endless_case("A14_download_terminal", "a terminal does not hang a download", "/dev/ptmx")
endless_case("A14_download_proc_file", "a file without a size ends", "/proc/self/status")
endless_case("A14_download_kmsg", "an endless file of /proc does not hang", "/proc/kmsg")
endless_case("A14_download_mem_of_init", "/proc/1/mem cannot be downloaded", "/proc/1/mem")


@case("A14_download_fifo", "A14", "a FIFO without a writer does not hang a download")
def fifo(rig):
    box = rig.box()
    rig.cove("exec", box, "--", "bash", "-c", "rm -f /tmp/ff; mkfifo /tmp/ff").ok()
    rc, err = download(rig, box, "/tmp/ff")
    need(rc is not None, "it hangs")
    return f"rc {rc} {err.strip()[:80]}"


@case("A14_download_flickering_file", "A14", "a file that is cut and grown while it is read gives an end, and no hang")
def flicker(rig):
    box = rig.box()
    process = rig.cove.start("exec", box, "--", "/attack/attack", "--flicker", "/tmp/flicker", "20000")
    wait_until(lambda: rig.cove("exec", box, "--", "test", "-e", "/tmp/flicker").rc == 0, "the file")
    ended = []
    while process.poll() is None and len(ended) < 40:
        rc, _ = download(rig, box, "/tmp/flicker")
        need(rc is not None, "a download hangs")
        ended.append(rc)
    end(process)
    return f"{len(ended)} downloads, {ended.count(0)} whole"


@case("A14_download_link_out", "A14", "a link to a host file comes out as a link or not at all")
def download_link(rig):
    box = rig.box()
    rig.cove("exec", box, "--", "bash", "-c", "mkdir -p /tmp/out && ln -sf $CANARY_PATH /tmp/out/l && "
             "ln -sfn ${CANARY_PATH%/*} /tmp/out/d").ok()
    target = rig.tmp / "links"
    rig.cove("cp", f"{box}:/tmp/out", target)
    if target.exists():
        need(not (target / "l").exists() or (target / "l").is_symlink(), "the link was followed")
    got = rig.cove("cp", f"{box}:/tmp/out/l", "-")
    need(rig.canary.mark.encode() not in got.out, "the canary was downloaded")


@case("A14_download_hostile_names", "A14", "names with ../ and control bytes cannot write outside the target")
def download_names(rig):
    box = rig.box()
    rig.cove("exec", box, "--", "bash", "-c", "mkdir -p /tmp/names && cd /tmp/names && touch -- '..hidden' '-rf' "
             "$'a\\nb' $'\\x1b]0;x' $'\\xff'; ln -s ../../../../../.. up; true").ok()
    target = rig.tmp / "names"
    rig.cove("cp", f"{box}:/tmp/names", target).ok()
    need({p.parent for p in target.rglob("*")} <= {target, *target.rglob("*")}, "something is outside")


# ---- A8: what a mask is made from ----

MASK_CASES = ("A9_masks_are_there", "A9_masked_directories_are_empty", "A9_read_only_parts_are_read_only")
SPOIL = """
for i in $(seq 100000); do
  for f in /dev/null /dev/zero; do
    chmod 1666 $f; touch $f; rm -f $f; mv $f $f.old; ln -sfn $CANARY_PATH $f; cp /etc/passwd $f.new
    mv -f $f.new $f; truncate -s 0 $f; echo leak > $f
  done
  for d in /proc/acpi /proc/bus /proc/driver /proc/fs /proc/irq /proc/scsi /proc/sys; do
    chmod 777 $d; touch $d/leak; mkdir $d/leak2; mv $d $d.old; ln -sfn $CANARY_PATH $d/l
  done
done
"""


def masks_hold(rig, count, *image):
    """That many boxes, four at a time, each asked about its masks. How many answered; one whose image was
    replaced under it may be refused, with a sentence."""
    answered, gone, wrong = [], [], []

    def lane(part):
        for i in part:
            name = MASK_CASES[i % len(MASK_CASES)]
            got = rig.cove("run", *image, *rig.flags(), "--", "/attack/attack", name)
            kind = answered if got.rc in (0, 2) and b"BROKE" not in got.out else wrong
            if image and got.rc == 125 and got.err and not got.out:
                kind = gone
            kind.append(f"{name}: {got!r}")
    threads = [threading.Thread(target=lane, args=(range(i, count, 4),)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    need(not wrong and len(answered) + len(gone) == count, f"{len(wrong)} of {count} boxes: {wrong[:1]}")
    need(len(answered) >= count // 2, f"only {len(answered)} of {count} boxes started: {gone[:1]}")
    return len(answered)


def nodes_of_the_host():
    return [(s.st_mode, s.st_rdev, s.st_uid) for s in map(os.lstat, ("/dev/null", "/dev/zero"))]


@case("A8_mask_source_from_another_box", "A8",
      "a box that works on /dev/null and the empty directories while others start spoils no mask of theirs")
def mask_from_box(rig):
    before = nodes_of_the_host()
    user = ("-u", "root") if rig.root_inside() else ()
    box = rig.make()
    spoiler = rig.cove.start("exec", *user, box, "--", "bash", "-c", "echo on; exec 2>&-; " + SPOIL)
    try:
        need(spoiler.stdout.readline() == b"on\n", "the spoiler did not start")
        count = masks_hold(rig, 8 if rig.quick else 100)
        need(spoiler.poll() is None, "the spoiler ended before the boxes had started")
    finally:
        end(spoiler)
        rig.cove("rm", "-f", box)
    need(nodes_of_the_host() == before, "the host's own device changed")
    return f"{count} boxes started meanwhile"


@case("A8_mask_source_from_the_image", "A8",
      "an image whose /dev/null and masked places are its own, and replaced while boxes start, spoils no mask")
def mask_from_image(rig):
    def image(i):
        kind = [entry("dev/null", data=b"kernel secrets", mode=0o666), link("dev/null", "/proc/kcore"),
                link("dev/null", rig.canary.file)][i % 3]
        return tar_of(rig, entry("dev", tarfile.DIRTYPE), kind, entry("empty", tarfile.DIRTYPE),
                      entry("empty/leak", data=b"x"), link("proc", "/empty") if i % 2 else
                      entry("proc", tarfile.DIRTYPE))
    import_image(rig, raw=image(0)).ok()
    stop, swaps, wrong, refused = threading.Event(), [0], [], []

    def swap():
        while not stop.is_set():
            swaps[0] += 1
            got = import_image(rig, raw=image(swaps[0]))
            if got.rc != 0:  # a box that uses it right now is a reason to refuse
                (refused if b"uses image" in got.err else wrong).append(repr(got))
    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        count = masks_hold(rig, 8 if rig.quick else 100, "--image", "hostile")
        for _ in range(20):  # on a busy machine one replacement takes longer than those boxes
            if swaps[0] < 3:
                count += masks_hold(rig, 8, "--image", "hostile")
    finally:
        stop.set()
        swapper.join()
        rig.cove("image", "rm", "hostile")
    need(not wrong and swaps[0] > 2, f"{swaps[0]} replacements: {wrong[:1]}")
    return f"{count} boxes; meanwhile the image was replaced {swaps[0] - len(refused)} times, {len(refused)} refused"


# ---- A20, B16, B19, B22 ----

@case("A20_setuid_in_given_directory", "A20",
      "a box cannot leave a setuid file of the caller's in a directory it was given")
def setuid_shared(rig):
    given = rig.shared / "suid"
    given.mkdir()
    given.chmod(0o777)
    box = rig.make("--mount", f"{given}:/given")
    for user in ((), ("-u", "root")) if rig.root_inside() else ((),):
        tag = "r" if user else "u"
        rig.cove("exec", *user, box, "--", "bash", "-c",
                 f"cp /attack/attack /given/{tag}; chmod 6755 /given/{tag}; chmod u+s /given/{tag}; "
                 f"install -m 4755 /attack/attack /given/{tag}2; true")
    rig.cove("rm", "-f", box)
    bad = [p.name for p in given.iterdir() if p.lstat().st_mode & stat.S_ISUID and
           p.lstat().st_uid == os.geteuid()]
    for path in given.iterdir():
        path.unlink()
    need(not bad, f"setuid files of uid {os.geteuid()} are left: {bad}")


@case("A20_others_files_in_given_directory", "A20",
      "in a given directory a box, its root included, has no rights over files of others than the directory's owner")
def others_shared(rig):
    if os.geteuid() != 0:
        raise NotApplicable("only root can give a directory that holds files of others")
    given = rig.shared / "others"
    given.mkdir()
    for name, uid, gid, mode in (("world", 0, 0, 0o666), ("group", 0, 42, 0o660), ("another", 4321, 4321, 0o600)):
        (given / name).write_text(name)
        os.chown(given / name, uid, gid)
        (given / name).chmod(mode)
    os.chown(given, 12345, 12345)
    box = rig.make("--mount", f"{given}:/given")
    line = ("cd /given; for f in world group another; do chown 1000:1000 $f; chmod 777 $f; cat $f; echo x > $f; "
            "mv $f $f.x; rm -f $f; setpriv --regid 42 --clear-groups sh -c \"cat $f; echo x > $f\"; "
            "done; true")
    got = b"".join(rig.cove("exec", *user, box, "--", "bash", "-c", line).out for user in ((), ("-u", "root")))
    rig.cove("rm", "-f", box)
    now = {p.name: (p.read_text(), p.stat().st_uid) for p in given.iterdir()}
    for path in given.iterdir():
        path.unlink()
    need(now == {"world": ("world", 0), "group": ("group", 0), "another": ("another", 4321)} and
         b"group" not in got and b"another" not in got, f"left: {now}, read: {got[:200]!r}")


@case("A20_source_replaced_with_a_link", "A20",
      "a box that may write where a mount of its own comes from cannot lead the next start elsewhere")
def replaced_source(rig):
    for number, source in enumerate(("a", "a/b", "a/b/c")):
        given = rig.shared / f"replaced{number}"
        (given / "a/b/c").mkdir(parents=True)
        box = rig.make("--mount", f"{given}:/given", "--mount", f"{given}/a/b/c:/data")
        done = rig.cove("exec", box, "--", "sh", "-c",
                        f"cd /given && mv {source} old && ln -s {rig.canary.dir} {source}")
        if rig.own_kernel and done.rc != 0:  # its kernel may hold what is shown twice
            rig.cove("rm", "-f", box)
            continue
        rig.cove("stop", box)
        started = rig.cove("start", box)
        got = rig.cove("exec", box, "--", "sh", "-c", "cat /data/canary-file; echo x > /data/canary-file")
        rig.cove("rm", "-f", box)
        need(started.rc != 0 and got.rc != 0, f"{source}: started {started.rc}, read {got.out[:80]!r}")


@case("A20_image_is_never_written", "A20", "what one box does to its root, no other box of the image sees")
def image_stays(rig):
    one, two = rig.make(), rig.make()
    user = ("-u", "root") if rig.root_inside() else ()
    rig.cove("exec", *user, one, "--", "bash", "-c", "echo changed > /etc/attack-was-here; echo x >> /etc/profile; "
             "chmod 000 /etc/profile; rm -f /etc/os-release; true")
    got = rig.cove("exec", two, "--", "bash", "-c", "cat /etc/attack-was-here; grep -x x /etc/profile")
    rig.cove("rm", "-f", one, two)
    need(b"changed" not in got.out and b"x\n" not in got.out, got.text)


@case("A5_script_whose_interpreter_is_init", "A5",
      "a script with #!/proc/self/exe (CVE-2019-5736) runs nothing of Cove's and harms nothing")
def shebang(rig):
    box = rig.box()
    rig.cove("exec", box, "--", "bash", "-c",
             "printf '#!/proc/self/exe\\n' > /tmp/s; printf '#!/proc/1/exe\\n' > /tmp/s1; "
             "chmod 755 /tmp/s /tmp/s1").ok()
    for name in ("/tmp/s", "/tmp/s1"):
        process = rig.cove("exec", "--timeout", "5s", box, "--", name)
        need(process.rc != 0, repr(process))


@case("B16_sibling_boxes_share_no_ipc", "B16", "abstract sockets and System V segments of a sibling are not found")
def siblings(rig):
    one, two = rig.box(), rig.box("second")
    name = str(rig.canary.key % 100000 + 7)
    holder = rig.cove.start("exec", one, "--", "/attack/attack", "--listen", name, "20")
    try:
        line = holder.stdout.readline()
        need(line == b"ready\n", f"the listener ended: {line!r}")
        got = rig.cove("exec", two, "--", "/attack/attack", "--reach", name)
        need(got.rc == 0, got.text)
    finally:
        end(holder)


@case("B19_same_walls_for_every_command", "B19",
      "run, exec, terminal, background, shell and after a restart: the same filter, capabilities, namespaces")
def same_walls(rig):
    box, seen = rig.make(), {}
    ask = ["/attack/attack", "--status", "all"]
    drop = (b"open files",)

    def lines(out):
        return tuple(x.strip() for x in out.replace(b"\r", b"").splitlines() if not x.startswith(drop))
    seen["exec"] = lines(rig.cove("exec", box, "--", *ask).ok().out)
    seen["exec -t"] = lines(rig.cove("exec", "-t", box, "--", *ask).out)
    seen["sh"] = lines(rig.cove("sh", box, " ".join(ask)).ok().out)
    job = rig.cove("exec", "-d", box, "--", *ask).ok().text.strip()
    wait_until(lambda: [e for e in rig.cove("ps", "--json", box).json if str(e["exec_id"]) == job and
                        e["state"] != "running"], "the background command")
    seen["exec -d"] = lines(rig.cove("logs", "--exec", job, box).out)
    if rig.root_inside():
        seen["as root"] = lines(rig.cove("exec", "-u", "root", box, "--", *ask).ok().out)
    different = {k: set(v) ^ set(seen["exec"]) for k, v in seen.items() if v != seen["exec"]}
    rig.cove("stop", "--grace", "0", box).ok()
    rig.cove("start", box).ok()
    spaces = (b"mnt", b"cgroup", b"uts", b"ipc", b"user", b"pid", b"net")

    def settings(rows):
        return [r for r in rows if r.split()[0] not in spaces]
    again = lines(rig.cove("exec", box, "--", *ask).ok().out)
    once = lines(rig.cove("run", *rig.flags(), "--", *ask).ok().out)
    rig.cove("rm", "-f", box)
    need(not different, f"not the same as exec: {different}")
    need(settings(again) == settings(seen["exec"]), f"after a restart: {settings(again)}")
    need(settings(once) == settings(seen["exec"]), f"run: {settings(once)}")


@case("B19_strict_has_no_root_and_no_gain", "B19", "--strict: no_new_privs for every command, and no root inside")
def strict(rig):
    if "--strict" not in rig.help:
        raise NotApplicable("this build has no --strict")
    box = rig.make("--strict")
    try:
        for got in (rig.cove("exec", box, "--", "/attack/attack", "--status", "all"),
                    rig.cove("sh", box, "/attack/attack --status all")):
            need(b"NoNewPrivs 1" in got.out, got.text)
        need(rig.cove("exec", "-u", "root", box, "--", "/attack/attack", "--bytes", "1").rc != 0, "there is a root")
    finally:
        rig.cove("rm", "-f", box)


@case("B22_socket_in_given_directory", "B22",
      "a host socket in a directory that was given is the caller's own choice; none of Cove's is ever there")
def given_socket(rig):
    given = rig.shared / "sockets"
    given.mkdir()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(given / "mine"))
    listener.listen()
    box = rig.make("--mount", f"{given}:/given")
    try:
        look = "find / -path /proc -prune -o -type s -printf '%i %p\\n' 2>/dev/null; cat /proc/net/unix"
        for user in ((), ("-u", "root")) if rig.root_inside() else ((),):
            text = rig.cove("exec", *user, box, "--", "bash", "-c", look).text
            need("/given/mine" in text, f"not even the given socket was found: {text[:300]}")
            for path in keeper_sockets(rig):
                need(f"{os.lstat(path).st_ino} /" not in text.replace(f"{(given / 'mine').stat().st_ino} /given", ""),
                     f"{path} is in the box")
            need("keeper" not in text and rig.cove.home not in text, text[:300])
    finally:
        rig.cove("rm", "-f", box)
        listener.close()
    return "the given one, and no socket of Cove's"


@case("B15_environment_of_the_caller", "F1", "nothing of the caller's environment is in a box")
def environment(rig):
    box = rig.box()
    got = rig.cove("exec", box, "--", "bash", "-c", "cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; env")
    need(b"DECOY_TOKEN" not in got.out and b"COVE_HOME" not in got.out, "the caller's variables are there")


def keeper_sockets(rig):
    return [os.path.join(top, name) for top, _, files in os.walk(rig.cove.home) for name in files
            if stat.S_ISSOCK(os.lstat(os.path.join(top, name)).st_mode)]


# Connects by path and by a descriptor that was opened for it; prints what came of each.
CONNECT = """
import os, socket, sys
for way in (sys.argv[1], f"/proc/self/fd/{sys.argv[2]}"):
    peer = socket.socket(socket.AF_UNIX)
    peer.settimeout(60)
    try:
        peer.connect(way)
        peer.send(b"x" * 64)
        print("reached", os.getuid())
    except OSError as reason:
        print(reason.strerror)
"""


def connect_as(rig, other, path):
    """The two answers, as the caller or as somebody else of this host."""
    fd = os.open(path, os.O_PATH)
    argv, who = ["/usr/bin/python3", "-c", CONNECT, path, str(fd)], {}
    if other and rig.is_root:
        who = {"user": 65534, "group": 65534, "extra_groups": []}
    elif other:  # one of the caller's subordinate ids, to the host a user like any other
        argv = ["unshare", "--user", "--map-root-user", "--map-auto", "setpriv", "--reuid", "1234", "--regid",
                "1234", "--clear-groups", *argv]
    try:
        done = subprocess.run(argv, pass_fds=[fd], capture_output=True, text=True, timeout=DEADLINE, cwd="/", **who)
    finally:
        os.close(fd)
    if other and not rig.is_root and done.returncode != 0 and not done.stdout:
        raise NotApplicable(f"this caller cannot become another user: {done.stderr.strip()[:100]}")
    need(done.returncode == 0, f"{done.stdout} {done.stderr}")
    return done.stdout.splitlines()


@case("A3_socket_of_the_keeper_is_private", "A3", "the keeper's socket cannot be reached by other users of the host")
def keeper_socket(rig):
    box = rig.box()
    need(alive(rig.keeper(box)), "no keeper")
    path = next((p for p in keeper_sockets(rig) if f"/{box}/" in p), None)
    need(path, "no socket was found")
    own = connect_as(rig, False, path)
    need(own[0].startswith("reached"), f"not even its own caller reaches it: {own}")
    others = connect_as(rig, True, path)
    need(others == ["Permission denied"] * 2, f"another user: {others}")
    return "by its path and by a descriptor of it: Permission denied"


def keeper_status(rig):
    text = open(f"/proc/{rig.keeper(rig.box())}/status").read()
    return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)


@case("B19_keeper_has_its_own_filter", "B19", "the keeper is in a system-call filter and has no_new_privs")
def keeper_filter(rig):
    status = keeper_status(rig)
    need(status["Seccomp"].strip() == "2", f"mode {status['Seccomp']}")
    need(status["NoNewPrivs"].strip() == "1", "it may gain privileges")


@case("B19_keeper_has_few_capabilities", "B19", "the keeper keeps KILL, DAC_OVERRIDE and FOWNER at most")
def keeper_caps(rig):
    if not rig.is_root:
        raise NotApplicable("an ordinary user's keeper has none to begin with")
    status = keeper_status(rig)
    kept = int(status["CapPrm"], 16) | int(status["CapEff"], 16) | int(status["CapInh"], 16) | int(status["CapAmb"], 16)
    need(status["NoNewPrivs"].strip() == "1", "what is left in the bounding set could be gained")
    need(not kept & ~(1 << 1 | 1 << 3 | 1 << 5), f"{kept:x}")
