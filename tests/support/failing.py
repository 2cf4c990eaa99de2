"""A file system that refuses changes, from a chosen one on."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

#: Events of ``sys.audit`` that come before a change, and how many of their arguments are paths.
_EVENTS = {
    "open": 1,
    "os.link": 2,
    "os.mkdir": 1,
    "os.rename": 2,
    "os.symlink": 2,
    "os.truncate": 1,
    "os.utime": 1,
}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Refusal:
    """Refuses every change below a directory after the first ``allowed``. Removing is always possible."""

    def __init__(self, below: Path, allowed: int, error: int) -> None:
        self.refused = 0
        self._below = os.path.join(os.path.realpath(below), "")
        self._left = allowed
        self._error = error

    def meet(self, event: str, arguments: tuple[Any, ...]) -> None:
        paths = _EVENTS.get(event)
        if paths is None:
            return
        if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & _WRITING):
            return
        if any(self._is_below(path) for path in arguments[:paths]):
            self._left -= 1
            if self._left < 0:
                self.refused += 1
                raise OSError(self._error, os.strerror(self._error))

    def _is_below(self, path: object) -> bool:
        """Whether a path is below the directory. Those relative to an open one are taken to be."""
        if not isinstance(path, str | bytes | os.PathLike):
            return False
        name = os.path.join(os.fsdecode(path), "")
        return not name.startswith("/") or name.startswith(self._below)


_active: list[Refusal] = []
_installed = False


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    for refusal in _active:
        refusal.meet(event, arguments)


@contextlib.contextmanager
def refusing_changes(below: Path, allowed: int, error: int) -> Iterator[Refusal]:
    """Have changes below a directory refused with the system's ``error``, but for the first ``allowed``."""
    global _installed
    if not _installed:  # there is no way to remove it
        sys.addaudithook(_hook)
        _installed = True
    refusal = Refusal(below, allowed, error)
    _active.append(refusal)
    try:
        yield refusal
    finally:
        _active.remove(refusal)
