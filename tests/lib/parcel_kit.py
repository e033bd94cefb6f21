"""Files for `cove snapshot import` and `cove workspace import` (src/store/parcel.h), made by hand."""
import hashlib
import struct


def sized(data, size=2):
    return len(data).to_bytes(size, "little") + data


def lines(**values):
    rows = [(k, str(v)) for k, many in values.items() for v in (many if isinstance(many, list) else [many])]
    return "".join(k + " " + v.replace("\\", "\\\\").replace("\n", "\\n") + "\n" for k, v in rows)


def with_sum(text):
    """As files that are kept begin (src/base/lines.h)."""
    crc = 0xffffffff
    for byte in text.encode():
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return f"sum crc32c:{crc ^ 0xffffffff:08x}\n{text}".encode()


def member(head, content=b"", piece=1 << 16, digest=None):
    """A member of the file, and its hash."""
    head = head.encode() if isinstance(head, str) else head
    parts = [content[i:i + piece] for i in range(0, len(content), piece)]
    digest = digest or hashlib.sha256(head + b"".join(parts)).digest()
    return b"M" + sized(head, 4) + b"".join(b"C" + sized(p, 4) for p in parts) + b"E" + digest, digest


def parcel(*members, kind="snapshot", count=None, tail=b""):
    sums = b"".join(digest for _, digest in members)
    end = b"Z" + struct.pack("<Q", len(members) if count is None else count) + hashlib.sha256(sums).digest()
    return f"cove pack 1 {kind}\n".encode() + b"".join(data for data, _ in members) + end + tail
