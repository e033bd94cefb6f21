"""What the rows of the table share: a box through the door, and what it says when something does not work."""
import ipaddress
import os
import pathlib
import re
import socket
import subprocess

COVE, IMAGE = os.environ["COVE_TEST_PROGRAM"], os.environ["COVE_TEST_IMAGE"]
SECONDS = 240
SKIPPED = 77
NPM = "mkdir -p ~/n && cd ~/n && npm install --no-audit --no-fund "


def cove(*args, **kw):
    kw.setdefault("input", "")
    return subprocess.run([COVE, *args], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                          **kw)


def shell(box, line, *flags):
    return cove("exec", "--timeout", f"{SECONDS}s", *flags, box, "--", "sh", "-ec", line)


def last_line(text):
    """Why it did not work, in the words of the program, which often says more behind that."""
    text = re.sub(r"\x1b\[[\d;]*m", "", text)
    lines = [line for line in text.strip().splitlines() if line.strip()]
    telling = [line for line in lines if re.search(r"error|E:|403|denied|[Cc]ould not|cannot|failed", line)]
    said = (telling or lines or ["nothing was said"])[0].strip()
    return said if len(said) <= 300 else f"{said[:120]} ... {said[-175:]}"  # a cause comes last


def policy():
    """balanced, or, where this host's registries are mirrors at private addresses, a file made from it that lets it."""
    text = cove("policy", "show", "balanced").stdout
    for host in re.findall(r"allow: \[?([^],\s]+)", text)[:3]:
        try:
            found = socket.getaddrinfo(host, 443, proto=socket.IPPROTO_TCP)
        except OSError:
            continue
        if not all(ipaddress.ip_address(address[0]).is_global for *_, address in found):
            path = pathlib.Path("mirrors.yaml").absolute()
            path.write_text(re.sub(r"^    allow:", r"    private: true\n\g<0>", text, flags=re.M))
            return str(path)
    return "balanced"
