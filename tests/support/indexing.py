"""Building small indexes in tests, and the truth that candidates are held against."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest

from indexgrep.errors import Cancelled
from indexgrep.fold import fold
from indexgrep.index import Workers
from indexgrep.index.worker import Worker
from indexgrep.pattern.query import All, And, Literal, Nothing, Or, Query


class WorkerHere:
    """In the place of a job's processes: the same tasks, done one after another in this process."""

    size = 1

    def __init__(self, cancel: threading.Event | None = None) -> None:
        self._cancel = cancel or threading.Event()
        self._progress: list[tuple[int, int]] = []
        self._worker = Worker(self._send)

    def _send(self, message: dict[str, Any]) -> None:
        self._progress.append(tuple(message["progress"]))

    def _do(self, task: dict[str, Any]) -> dict[str, Any]:
        if self._cancel.is_set():
            raise Cancelled("the build was cancelled")
        fields = msgpack.unpackb(msgpack.packb(task))  # as it would arrive
        return msgpack.unpackb(msgpack.packb(getattr(self._worker, fields.pop("task"))(**fields)))  # type: ignore[no-any-return]

    def broadcast(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        return [self._do(message)]

    def run(
        self, tasks: Iterator[dict[str, Any]], step: Callable[[tuple[int, int]], None]
    ) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        for task in tasks:
            answer = self._do(task)
            for progress in self._progress:
                step(progress)
            self._progress.clear()
            yield task, answer


class WorkersHere(Workers):
    """Workers without processes."""

    @contextlib.contextmanager
    def job(self, count: int, place: Path, cancel: threading.Event | None = None) -> Iterator[Any]:
        yield WorkerHere(cancel)


@pytest.fixture
def build_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Builds run in the test's own process: fast, and what a test patches counts in them."""
    monkeypatch.setattr(Workers, "job", WorkersHere.job)


def write_files(root: Path, files: dict[bytes, bytes]) -> list[bytes]:
    """Write files below ``root``; their paths in the order of an index."""
    for path, content in files.items():
        place = root / Path(*map(_decoded, path.split(b"/")))
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
    return sorted(files)


def _decoded(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def satisfies(text: bytes, query: Query) -> bool:
    """Whether a text satisfies a query, by the query's definition."""
    if isinstance(query, Literal):
        return query.data in fold(text)
    if isinstance(query, And):
        return all(satisfies(text, child) for child in query.children)
    if isinstance(query, Or):
        return any(satisfies(text, child) for child in query.children)
    if isinstance(query, Nothing):
        return False
    assert isinstance(query, All)
    return True


def true_documents(texts: Iterable[bytes], query: Query) -> set[int]:
    return {number for number, text in enumerate(texts) if satisfies(text, query)}
