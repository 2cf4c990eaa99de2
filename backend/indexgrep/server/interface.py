"""What the server asks of a search session; ``indexgrep.search.Session`` is the real one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol

from ..overlay.buffers import Snapshot
from ..request import FileResult, SearchRequest, Summary

#: Called with the state of a build, as ``progress`` pushes carry it.
Progress = Callable[[dict[str, Any]], None]


class Search(Protocol):
    """One running search: batches of files in order of path; ``summary`` is complete after the last."""

    @property
    def summary(self) -> Summary: ...

    def __iter__(self) -> Iterator[list[FileResult]]: ...

    def close(self) -> None: ...


class Session(Protocol):
    """An open worktree. Its methods are called from several threads at once."""

    def search(
        self,
        request: SearchRequest,
        cancel: threading.Event | None = None,
        buffers: Snapshot | None = None,
    ) -> Search:
        """Raises ``IndexGrepError`` for what cannot be searched; ``cancel`` ends the search early.

        ``buffers`` are the unsaved buffers that stand for their files.
        """
        ...

    def explain(self, request: SearchRequest, buffers: Snapshot | None = None) -> dict[str, Any]: ...

    def changed(self, paths: Iterable[bytes]) -> None:
        """These files (relative to the root) were written, made or removed just now. Never waits."""
        ...

    def status(self) -> dict[str, Any]:
        """At least ``index``, a map whose ``state`` is ``ready`` when queries are served by it."""
        ...

    def build(
        self, progress: Progress | None, cancel: threading.Event | None = None, force: bool = False
    ) -> None: ...

    def close(self) -> None: ...
