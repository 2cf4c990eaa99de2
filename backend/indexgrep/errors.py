"""The errors a user can see, in one hierarchy.

Every surface (command line, RPC, Lua) shows ``message`` and then ``hint``, and never a traceback::

    IndexGrepError
    ├── UsageError          a flag, option or argument that cannot be served
    ├── PatternError        a pattern that does not parse; knows where
    ├── RootError           a search root that is missing, refused or unreadable
    ├── IndexFault          the index on disk cannot be used, made or written
    │   ├── IndexCorrupt    truncated, damaged, half-written or of another version
    │   └── IndexLocked     another builder is at work on the same index
    ├── ServerError         no server answers, or it answered with a fault
    └── Cancelled           the query was superseded or cancelled by its client
"""

from __future__ import annotations

import os
from typing import Any


class IndexGrepError(Exception):
    """What went wrong (``message``) and what the user can do about it (``hint``, may be empty)."""

    #: Stable, machine-readable name of the kind, as sent over the protocol.
    code = "error"

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message

    def to_wire(self) -> dict[str, Any]:
        """The error as a plain map for the protocol."""
        return {"code": self.code, "message": self.message, "hint": self.hint}


class UsageError(IndexGrepError):
    code = "usage"


class PatternError(IndexGrepError):
    """A pattern that does not parse.

    ``start`` and ``end`` are offsets in characters into ``pattern``, half open; ``reason`` is one line
    without the position. The message draws the pattern with a caret line under the fault.
    """

    code = "pattern"

    def __init__(self, pattern: str, start: int, end: int, reason: str, hint: str = "") -> None:
        self.pattern = pattern
        self.start = start
        self.end = max(end, start)
        self.reason = reason
        super().__init__(f"regex parse error:\n{_caret(pattern, start, self.end)}\nerror: {reason}", hint)

    def to_wire(self) -> dict[str, Any]:
        return super().to_wire() | {
            "pattern": self.pattern,
            "start": self.start,
            "end": self.end,
            "reason": self.reason,
        }


def _caret(pattern: str, start: int, end: int) -> str:
    """The line of ``pattern`` that holds ``start``, with carets under ``[start, end)``."""
    line_start = pattern.rfind("\n", 0, start) + 1
    line_end = pattern.find("\n", line_start)
    line = pattern[line_start:] if line_end < 0 else pattern[line_start:line_end]
    column = start - line_start
    width = max(1, min(end - start, len(line) - column))
    return f"    {line}\n    {' ' * column}{'^' * width}"


class RootError(IndexGrepError):
    code = "root"


class IndexFault(IndexGrepError):
    code = "index"


class IndexCorrupt(IndexFault):
    code = "index-corrupt"


class IndexLocked(IndexFault):
    code = "index-locked"


class ServerError(IndexGrepError):
    code = "server"


class Cancelled(IndexGrepError):
    code = "cancelled"


def os_error(error: OSError) -> str:
    """A system's error as ripgrep words it: ``Permission denied (os error 13)``."""
    number = error.errno or 0
    return f"{os.strerror(number)} (os error {number})"
