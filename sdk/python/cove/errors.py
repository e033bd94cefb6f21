"""What can go wrong: one tree of classes, made from the stable codes of the server's answers."""
from __future__ import annotations

import json
from typing import Any, Dict, Optional, TYPE_CHECKING, Type

if TYPE_CHECKING:
    from .types import ExecResult


class CoveError(Exception):
    """Any error of this package. ``code`` is a stable word; ``message`` is for people and may change. ``details`` has
    what else the server says, as the changes of a merge that both sides made."""

    def __init__(self, code: str, message: str, status: Optional[int] = None,
                 request_id: Optional[str] = None) -> None:
        super().__init__(code, message, status, request_id)
        self.code, self.message, self.status, self.request_id = code, message, status, request_id
        self.details: Dict[str, Any] = {}

    def __str__(self) -> str:
        return self.message


class Invalid(CoveError):
    """The request cannot be meant so: a wrong value, an unknown field."""


class NotFound(CoveError):
    """There is no such box, file, command, snapshot, program."""


class Conflict(CoveError):
    """Not in the state that things are in: the box is stopped or paused, something else is under way."""


class Exists(Conflict):
    """The name is taken."""


class Denied(CoveError):
    """You may not do that."""


class LimitReached(CoveError):
    """A quota or limit is in the way; later it may not be."""


class Full(CoveError):
    """A disk is full."""


class Unsupported(CoveError):
    """This host cannot do it; the message says what is missing."""


class Timeout(CoveError):
    """It took longer than the caller wanted to wait. A command whose own time is over is a result, not this."""


class Interrupted(CoveError):
    """It was broken off."""


class ProtocolError(CoveError):
    """The other side said something that cannot be understood."""


class InternalError(CoveError):
    """A failure in the server; ``request_id`` finds it in its log."""


class Damaged(CoveError):
    """A file that Cove keeps is not as it was written."""


class Unauthorized(CoveError):
    """The API key is missing or wrong."""


class MethodNotAllowed(CoveError):
    """The server does not know this operation: it is older than this package."""


class TooLarge(CoveError):
    """The request is larger than the server takes."""


class ConnectionFailed(CoveError):
    """No server was reached. Nothing was done."""


class ConnectionLost(CoveError):
    """The connection ended before the answer: whether it was done is not known."""


class CommandFailed(CoveError):
    """A command ended with another status than 0, and ``check=True`` was given. ``result`` has it."""

    def __init__(self, result: ExecResult) -> None:
        said = result.stderr.strip()[-500:]
        super().__init__("command_failed", f"the command ended with status {result.exit_code}" +
                         (f" ({result.cause})" if result.cause != "exit" else "") + (f": {said}" if said else ""))
        self.result = result


CLASSES: Dict[str, Type[CoveError]] = {
    "invalid": Invalid, "not_found": NotFound, "exists": Exists, "conflict": Conflict, "denied": Denied,
    "limit": LimitReached, "full": Full, "unsupported": Unsupported, "timeout": Timeout,
    "interrupted": Interrupted, "protocol": ProtocolError, "internal": InternalError, "damaged": Damaged,
    "unauthorized": Unauthorized, "method_not_allowed": MethodNotAllowed, "too_large": TooLarge,
}


def error_from(body: bytes, status: Optional[int], request_id: Optional[str] = None) -> CoveError:
    """The error that an answer holds. One from something that is no Cove server has the code "http"."""
    try:
        error = json.loads(body)["error"]
        code, message = str(error["code"]), str(error["message"])
    except (ValueError, KeyError, TypeError):
        text = body[:200].decode("utf-8", "replace").strip()
        return CoveError("http", f"the server answered {status}" + (f": {text}" if text else ""), status, request_id)
    made = CLASSES.get(code, CoveError)(code, message, status, error.get("request_id") or request_id)
    made.details = error.get("details") or {}
    return made
