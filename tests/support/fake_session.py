"""A search session in memory, with the interface that the server asks for, and with knobs for its tests."""

from __future__ import annotations

import os
import threading
import time
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from indexgrep.errors import PatternError, RootError
from indexgrep.overlay.buffers import Snapshot
from indexgrep.request import FileResult, Line, SearchRequest, Summary


class FakeSearch:
    """Answers a pattern of words ``files=N lines=N width=BYTES batch=FILES delay=SECONDS fail=FILE``.

    The pattern ``unsaved`` answers every unsaved buffer that the search was given, as one line.
    """

    def __init__(
        self, request: SearchRequest, cancel: threading.Event | None, buffers: Snapshot | None = None
    ) -> None:
        self.buffers = buffers
        text = request.patterns[0]
        self.unsaved = text == "unsaved"
        if text == "(":
            raise PatternError(text, 0, 1, "unclosed group")
        if text == "boom":
            raise RuntimeError("a secret line of somebody's file")
        self._options = dict(part.split("=") for part in text.split() if "=" in part)
        self._cancel = cancel or threading.Event()
        self.closed = False
        self.produced = 0
        self.summary = Summary(served_by="scan")

    def __iter__(self) -> Iterator[list[FileResult]]:
        if self.unsaved:
            for path, buffer in sorted((self.buffers or {}).items()):
                lines_of = [Line(1, 0, buffer.text)]
                yield [FileResult(os.fsdecode(path), lines_of, 1, 1, source="buffer")]
            return
        lines = int(self._options.get("lines", 1))
        width = int(self._options.get("width", 40))
        delay = float(self._options.get("delay", 0))
        files = int(self._options.get("files", 1))
        size = int(self._options.get("batch", 1))
        batch: list[FileResult] = []
        for number in range(files):
            if delay and self._cancel.wait(delay):
                pass
            if self._cancel.is_set():
                self.summary.complete, self.summary.reason = False, "cancelled"
                return
            text = b"x" * (width - 1) + b"\n"
            found = [Line(n + 1, n * width, text, [(0, 1)], True) for n in range(lines)]
            self.produced += lines
            self.summary.matched_files += 1
            self.summary.matched_lines += lines
            self.summary.matches += lines
            batch.append(
                FileResult(f"dir/file{number:06}.c", found, lines, lines, bytes_searched=lines * width)
            )
            if len(batch) == size or number == files - 1:
                yield batch
                batch = []
            if self._options.get("fail") == str(number):
                raise RuntimeError("late")

    def close(self) -> None:
        self.closed = True


class FakeSession:
    """See the module. ``searches`` keeps every search that was asked for."""

    def __init__(self, *, state: str = "ready", build_s: float = 0.05) -> None:
        self.searches: list[FakeSearch] = []
        self.state = state
        self.build_s = build_s
        self.builds = 0
        self.changes: list[bytes] = []
        self.closed = False
        self.root = types.SimpleNamespace(path="")

    @classmethod
    def open(cls, path: str, *, force_root: bool = False, **options: bool) -> FakeSession:
        if os.path.exists(os.path.join(path, "refuse")) and not force_root:
            raise RootError(f"{path} is refused", "Give --force-root.")
        time.sleep(float(os.environ.get("FAKE_OPEN_S", "0")))
        session = cls(state=os.environ.get("FAKE_STATE", "ready"))
        session.root.path = path
        return session

    def search(
        self,
        request: SearchRequest,
        cancel: threading.Event | None = None,
        buffers: Snapshot | None = None,
    ) -> FakeSearch:
        search = FakeSearch(request, cancel, buffers)
        self.searches.append(search)
        return search

    def explain(self, request: SearchRequest, buffers: Snapshot | None = None) -> dict[str, Any]:
        answer: dict[str, Any] = {"patterns": list(request.patterns)}
        return answer | {"buffers": len(buffers)} if buffers is not None else answer

    def changed(self, paths: Iterable[bytes]) -> None:
        self.changes += paths

    def status(self) -> dict[str, Any]:
        return {"index": {"state": self.state}, "freshness": "watch", "overlay": 0}

    def build(
        self,
        progress: Callable[[dict[str, Any]], None] | None,
        cancel: threading.Event | None = None,
        force: bool = False,
    ) -> None:
        self.builds += 1
        for phase in ("scan", "extract", "merge"):
            if progress is not None:
                progress({"phase": phase, "documents": 1, "documents_total": 3})
            if (cancel or threading.Event()).wait(self.build_s):
                return
        self.state = "ready"
        if progress is not None:
            progress({"phase": "ready", "documents": 3, "documents_total": 3})

    def close(self) -> None:
        self.closed = True
