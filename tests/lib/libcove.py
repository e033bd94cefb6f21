"""The file calls of libcove, for races that a program per call would be too slow for."""
import ctypes
import os

from programs import NotApplicable


class Error(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("code", ctypes.c_int), ("message", ctypes.c_char * 232)]


class FileInfo(ctypes.Structure):
    _fields_ = [("type", ctypes.c_char), ("name", ctypes.c_char_p), ("target", ctypes.c_char_p),
                ("mode", ctypes.c_uint), ("uid", ctypes.c_uint), ("gid", ctypes.c_uint),
                ("size", ctypes.c_uint64), ("mtime_ns", ctypes.c_uint64)]


class Refused(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class Box:
    """A running box; every call raises Refused or returns."""

    def __init__(self, rig, name):
        path = next(rig.cove.prefix.glob("lib/**/libcove.so"), None)
        try:
            self.lib = ctypes.CDLL(str(path))
        except OSError as reason:
            raise NotApplicable(f"libcove cannot be loaded here: {reason}") from None
        for key in ("COVE_HOME", "COVE_LIBEXEC", "COVE_WITHOUT"):
            if key in rig.cove.env:
                os.environ[key] = rig.cove.env[key]
        self.cove, self.box = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cove_new", ctypes.byref(self.cove), None)
        self.call("cove_find", self.cove, name.encode(), ctypes.byref(self.box))

    def call(self, name, *args):
        error = Error()
        result = getattr(self.lib, name)(*args, ctypes.byref(error))
        if result < 0:
            raise Refused(error.code, error.message.decode(errors="replace"))
        return result

    def put(self, path, data):
        fd = os.memfd_create("put")
        try:
            os.pwrite(fd, data, 0)
            self.call("cove_put_fd", self.box, fd, path.encode(), 0o644, None)
        finally:
            os.close(fd)

    def get(self, path):
        fd = os.memfd_create("get")
        try:
            self.call("cove_get_fd", self.box, path.encode(), fd, None)
            return os.pread(fd, 1 << 20, 0)
        finally:
            os.close(fd)

    def stat(self, path):
        info = FileInfo()
        self.call("cove_stat", self.box, path.encode(), ctypes.byref(info))
        return info

    def list(self, path):
        rows = ctypes.POINTER(FileInfo)()
        count = self.call("cove_list_dir", self.box, path.encode(), ctypes.byref(rows))
        names = [rows[i].name for i in range(count)]
        self.lib.cove_file_info_free(rows, ctypes.c_size_t(count))
        return names

    def mkdir(self, path):
        self.call("cove_mkdir", self.box, path.encode(), 0o755)

    def move(self, old, new):
        self.call("cove_move", self.box, old.encode(), new.encode())

    def remove(self, path):
        self.call("cove_unlink", self.box, path.encode(), ctypes.c_bool(True))

    def chmod(self, path, mode):
        self.call("cove_chmod", self.box, path.encode(), mode)

    def close(self):
        self.lib.cove_box_free(self.box)
        self.lib.cove_free(self.cove)
