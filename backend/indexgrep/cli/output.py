"""Bytes to standard output and messages to standard error, straight through the file descriptors.

Paths and lines are bytes and need not be UTF-8. Python's own streams would also flush once more at exit and
complain about a pipe whose reader has gone.
"""

from __future__ import annotations

import os

from ..errors import IndexGrepError, os_error

#: Bytes gathered before a write; a batch of results is flushed at its end in any case.
_BUFFER = 1 << 16


class Output:
    """A buffered writer of bytes to a descriptor.

    Writing raises ``BrokenPipeError`` when nobody reads any more, ``IndexGrepError`` for other faults.
    """

    def __init__(self, descriptor: int = 1) -> None:
        self.descriptor = descriptor
        self._parts: list[bytes] = []
        self._size = 0

    def write(self, data: bytes) -> None:
        self._parts.append(data)
        self._size += len(data)
        if self._size >= _BUFFER:
            self.flush()

    def flush(self) -> None:
        if not self._parts:
            return
        data = memoryview(b"".join(self._parts))
        self._parts, self._size = [], 0
        try:
            while data:
                data = data[os.write(self.descriptor, data) :]
        except BrokenPipeError:
            raise
        except OSError as error:
            raise IndexGrepError(f"cannot write to standard output: {os_error(error)}") from error


class Messages:
    """Messages on standard error; remembers whether one was an error."""

    def __init__(self, *, show: bool = True, debug: bool = False) -> None:
        #: Whether errors of single files are shown (``--no-messages`` hides them); they count all the same.
        self.show = show
        self.debugging = debug
        self.errored = False

    def error(self, text: str) -> None:
        """A fault that does not end the search."""
        self.errored = True
        if self.show:
            complain(text)

    def warn(self, text: str) -> None:
        """Something to know that is no fault of the search."""
        if self.show:
            complain(f"warning: {text}")

    def debug(self, text: str) -> None:
        if self.debugging:
            complain(f"DEBUG: {text}")


def complain(text: str) -> None:
    """``indexgrep: text`` on standard error, where anybody listens."""
    try:
        os.write(2, os.fsencode(f"indexgrep: {text}\n"))
    except OSError:
        pass
