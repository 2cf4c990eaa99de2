"""Killing a process at each of its changes to the file system, one after another.

The action runs in a forked child, which is killed (SIGKILL) just before its n-th change: so every state that
a crash of the process can leave on disk, between any two changes, is there to be looked at::

    def action() -> None:
        Store(root, cache).build("x", str(root), paths)

    for number in kills(action, below=cache, prepare=lambda: restore(cache)):
        assert Store(root, cache).open("x") is None, f"killed before change {number}"

Changes are what Python announces of them (``sys.audit``: opening for writing, renaming, removing, making
directories, setting times, ...), and writing to files and syncing them, which are seen as calls. They count
in all threads of the child, but not in the processes that it starts.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

#: Events of ``sys.audit`` that come before a change, and how many of their arguments are paths.
_EVENTS = {
    "open": 1,
    "os.chmod": 1,
    "os.link": 2,
    "os.mkdir": 1,
    "os.remove": 1,
    "os.rename": 2,
    "os.rmdir": 1,
    "os.symlink": 2,
    "os.truncate": 1,
    "os.utime": 1,
}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND

#: Functions that change a file which is open already.
_CALLS = {os.write, os.writev, os.pwrite, os.pwritev, os.fsync, os.fdatasync}
_METHODS = {"write", "writelines", "flush", "truncate"}

#: A child that takes longer, in seconds, hangs.
_PATIENCE_S = 120


def kills(
    action: Callable[[], object],
    *,
    below: Path,
    prepare: Callable[[], object] = lambda: None,
    writes: bool = True,
    step: int = 1,
) -> Iterator[int]:
    """Yields after each time that ``action`` was killed: before its first change, its second, and so on.

    It ends when the action was not killed any more, for it made no more changes; that is not yielded.

    Args:
        below: changes elsewhere do not count.
        prepare: called in this process before each time.
        writes: whether writes to open files, and syncs, count too. They make a long action slower.
        step: the distance from one change that it is killed at to the next.
    """
    number = 1
    while True:
        prepare()
        if not killed_at(action, number, below=below, writes=writes):
            return
        yield number
        number += step


def killed_at(action: Callable[[], object], number: int, *, below: Path, writes: bool = True) -> bool:
    """Run ``action`` in a child that is killed just before its change ``number`` (from 1; see ``kills``).

    ``False`` where it came to its end before. Raises ``AssertionError`` where it failed or hung.
    """
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # numpy's threads do nothing that matters here
        child = os.fork()
    if not child:
        _run(action, number, below, writes, writing)
    os.close(writing)
    with open(reading, "rb") as pipe:
        complaint = pipe.read().decode(errors="replace")
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status == -signal.SIGKILL:
        return True
    assert status != -signal.SIGALRM, f"hung, with {number - 1} changes or more"
    assert status == 0, f"failed with status {status} before change {number}:\n{complaint}"
    return False


def _run(action: Callable[[], object], number: int, below: Path, writes: bool, complaints: int) -> None:
    """The child's life."""
    counter = _Counter(number, os.path.realpath(below))
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(_PATIENCE_S)
        if writes:
            threading.setprofile(counter.on_call)
            sys.setprofile(counter.on_call)
        sys.addaudithook(counter.on_event)
        action()
        os._exit(0)
    except BaseException:
        counter.active = False
        with contextlib.suppress(OSError):
            os.write(complaints, traceback.format_exc().encode())
        os._exit(1)


class _Counter:
    """Counts changes, and ends the process before the one that it is not to come to."""

    def __init__(self, left: int, below: str) -> None:
        self.active = True
        self._left = left
        self._below = below
        self._inside = os.path.join(below, "")

    def on_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        paths = _EVENTS.get(event)
        if paths is None or not self.active:
            return
        if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & _WRITING):
            return
        if any(map(self._counts, arguments[:paths])):
            self._count()

    def on_call(self, frame: object, event: str, function: Any) -> None:
        if event != "c_call" or not self.active:
            return
        try:
            if function in _CALLS:
                self._count()  # which file it is of cannot be told
            elif function.__name__ in _METHODS and stat.S_ISREG(os.fstat(function.__self__.fileno()).st_mode):
                self._count()
        except (AttributeError, OSError, ValueError, TypeError):
            pass  # no file, or one that is closed

    def _counts(self, path: object) -> bool:
        """Whether a change of ``path`` counts. Those relative to an open directory do."""
        if isinstance(path, int):
            return stat.S_ISREG(os.fstat(path).st_mode)
        if not isinstance(path, str | bytes | os.PathLike):
            return False
        name = os.fsdecode(path)
        return not os.path.isabs(name) or name == self._below or name.startswith(self._inside)

    def _count(self) -> None:
        self._left -= 1
        if not self._left:
            os.kill(os.getpid(), signal.SIGKILL)
