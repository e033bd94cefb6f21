"""Boxes for AI agents: ``with Sandbox() as sb: sb.run("echo hi")``. AsyncSandbox is the same for asyncio."""
from ._box import AsyncSandbox, session_name
from ._client import VERSION as __version__
from ._client import AsyncClient
from ._files import AsyncFiles
from ._process import AsyncProcess
from ._sync import Client, Files, Process, Sandbox
from .errors import (CommandFailed, Conflict, ConnectionFailed, ConnectionLost, CoveError, Damaged, Denied, Exists,
                     Full, InternalError, Interrupted, Invalid, LimitReached, MethodNotAllowed, NotFound,
                     ProtocolError, Timeout, TooLarge, Unauthorized, Unsupported)
from .types import (BoxInfo, BoxOptions, BuildEvent, Change, Denial, ExecInfo, ExecResult, FileInfo, Output, Port,
                    PortLink, PortResponse, Rollback, RunResult, SessionOptions, Snapshot)

__all__ = [
    "AsyncClient", "AsyncFiles", "AsyncProcess", "AsyncSandbox", "BoxInfo", "BoxOptions", "BuildEvent", "Change",
    "Client", "CommandFailed", "Conflict", "ConnectionFailed", "ConnectionLost", "CoveError", "Damaged", "Denial",
    "Denied", "ExecInfo", "ExecResult", "Exists", "FileInfo", "Files", "Full", "InternalError", "Interrupted",
    "Invalid", "LimitReached", "MethodNotAllowed", "NotFound", "Output", "Port", "PortLink", "PortResponse",
    "Process", "ProtocolError", "Rollback", "RunResult", "Sandbox", "SessionOptions", "Snapshot", "Timeout",
    "TooLarge", "Unauthorized", "Unsupported",
    "__version__", "session_name",
]
