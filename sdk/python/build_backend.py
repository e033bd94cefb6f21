"""Builds the wheel of this package with the standard library alone (PEP 517, PEP 660), so that `pip install` of this
directory needs no network and nothing but pip."""
import base64
import hashlib
import pathlib
import re
import tarfile
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
VERSION = re.search(r'^version = "([^"]+)"', (HERE / "pyproject.toml").read_text(), re.M).group(1)
NAME = f"cove-{VERSION}"
METADATA = f"""Metadata-Version: 2.1
Name: cove
Version: {VERSION}
Summary: Boxes for AI agents: a computer of its own for each of them
Requires-Python: >=3.9
Classifier: Typing :: Typed
Description-Content-Type: text/markdown

""" + (HERE / "README.md").read_text()
WHEEL = "Wheel-Version: 1.0\nGenerator: cove\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def write_wheel(directory, files):
    name = f"{NAME}-py3-none-any.whl"
    files = {**files, f"{NAME}.dist-info/METADATA": METADATA.encode(), f"{NAME}.dist-info/WHEEL": WHEEL.encode()}
    record = ""
    with zipfile.ZipFile(pathlib.Path(directory) / name, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{path},sha256={digest},{len(data)}\n"
            wheel.writestr(path, data)
        wheel.writestr(f"{NAME}.dist-info/RECORD", f"{record}{NAME}.dist-info/RECORD,,\n")
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    sources = sorted(p for p in (HERE / "cove").iterdir() if p.suffix == ".py" or p.name == "py.typed")
    return write_wheel(wheel_directory, {f"cove/{p.name}": p.read_bytes() for p in sources})


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return write_wheel(wheel_directory, {"__editable__.cove.pth": f"{HERE}\n".encode()})


def build_sdist(sdist_directory, config_settings=None):
    name = f"{NAME}.tar.gz"
    with tarfile.open(pathlib.Path(sdist_directory) / name, "w:gz", format=tarfile.PAX_FORMAT) as tar:
        for path in ["pyproject.toml", "build_backend.py", "README.md", "cove"]:
            tar.add(HERE / path, f"{NAME}/{path}", filter=lambda i: None if "__pycache__" in i.name else i)
    return name
