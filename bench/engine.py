"""A docker engine that a benchmark starts: with a data root, a socket and a containerd of its own, and no network."""
import contextlib
import os
import pathlib
import shutil
import subprocess
import time

SECONDS = 30  # until it answers
KEY = "/etc/docker/key.json"  # which an engine makes
NETWORK = ["--bridge", "none", "--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false"]


class Absent(Exception):
    """No engine runs here; why."""


def last_line(path):
    lines = path.read_text(errors="replace").strip().splitlines()
    return lines[-1][-120:] if lines else "it says nothing"


def unmount_below(top):
    mounts = [line.split()[4] for line in open("/proc/self/mountinfo")]
    for at in sorted((m for m in mounts if m.startswith(f"{top}/")), reverse=True):
        subprocess.run(["umount", "-l", at], stderr=subprocess.DEVNULL)


def wait_ready(process, docker, log):
    end = time.monotonic() + SECONDS
    while process.poll() is None and time.monotonic() < end:
        if docker("info", check=False).returncode == 0:
            return
        time.sleep(0.1)
    raise Absent(f"dockerd does not start here: {last_line(log)}")


def stop(process, docker):
    ids = docker("ps", "-aq", check=False).stdout.split()
    if ids:
        docker("rm", "-f", *ids, check=False)
    process.terminate()
    try:
        process.wait(SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def started(top):
    """A call that runs docker, and the engine's data root. Absent where there is none."""
    for name in ("dockerd", "docker"):
        if not shutil.which(name):
            raise Absent(f"{name} is not installed")
    if os.geteuid() != 0:
        raise Absent("an engine needs root")
    top.mkdir()
    log, had_key = top / "log", os.path.exists(KEY)
    env = {**os.environ, "DOCKER_HOST": f"unix://{top}/sock"}
    argv = ["dockerd", "--data-root", f"{top}/data", "--exec-root", f"{top}/exec", "--pidfile", f"{top}/pid",
            "--host", f"unix://{top}/sock", *NETWORK]

    def docker(*args, check=True, stdin=subprocess.DEVNULL):
        done = subprocess.run(["docker", *args], env=env, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True)
        if check and done.returncode:
            raise Absent(f"docker {args[0]}: {done.stderr.strip()[-120:]}")
        return done

    with open(log, "wb") as out:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)
    try:
        wait_ready(process, docker, log)
        yield docker, pathlib.Path(top, "data")
    finally:
        stop(process, docker)
        unmount_below(top)
        shutil.rmtree(top, ignore_errors=True)
        if not had_key:
            pathlib.Path(KEY).unlink(missing_ok=True)
