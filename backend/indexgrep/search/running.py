"""One running search: candidates in, batches of results and a summary out."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from ..match import Matcher
from ..request import FileResult, SearchRequest, Summary

#: A batch goes out when it has so many lines, or so much time (seconds) has passed since the one before. The
#: first goes out with the first file that has a match, so that something is on the screen at once.
_BATCH_LINES = 1000
_BATCH_SECONDS = 0.02


@dataclass(frozen=True)
class Candidate:
    """A file to be matched. ``path`` is relative to the root, or absolute outside it."""

    path: bytes
    #: Named by the request itself: an error in reading it is reported, and binary files are searched.
    explicit: bool = False
    #: ripgrep would map it into memory.
    mapped: bool = False


@dataclass(frozen=True)
class Plan:
    """What a search will read: ``candidates`` in order, ``errors`` for what could not be looked at."""

    candidates: list[Candidate]
    errors: list[FileResult]


class Search:
    """One search, as an iterator over batches of ``FileResult`` in the order of ``rg --sort path``.

    ``summary`` is complete once the iteration has ended. ``close`` ends it early.
    """

    def __init__(
        self,
        root: str,
        request: SearchRequest,
        matcher: Matcher,
        plan: Callable[[Summary], Plan],
        summary: Summary,
        cancel: threading.Event | None,
        started: float,
    ) -> None:
        self.summary = summary
        self._root = root
        self._request = request
        self._matcher = matcher
        self._plan = plan
        self._cancel = cancel
        self._started = started
        self._closed = False
        self._deadline = None if request.timeout_ms is None else started + request.timeout_ms / 1000

    def close(self) -> None:
        """End the search; what was found so far stays delivered."""
        self._closed = True

    def __iter__(self) -> Iterator[list[FileResult]]:
        planned = self._plan(self.summary)
        matching = time.perf_counter()
        try:
            if planned.errors:
                self.summary.errors += len(planned.errors)
                yield planned.errors
            if self._request.limit == 0:
                self._cut("limit")
            elif self._request.max_count != 0:
                yield from self._batches(planned.candidates)
        finally:
            now = time.perf_counter()
            self.summary.elapsed["match"] = (now - matching) * 1000
            self.summary.elapsed["total"] = (now - self._started) * 1000

    def _cut(self, reason: str) -> None:
        self.summary.complete = False
        self.summary.reason = reason

    def _stopped(self) -> bool:
        """Whether to stop now; notes why in the summary."""
        if self._closed or (self._cancel is not None and self._cancel.is_set()):
            self._cut("cancelled")
        elif self._deadline is not None and time.perf_counter() > self._deadline:
            self._cut("timeout")
        return not self.summary.complete

    def _batches(self, candidates: list[Candidate]) -> Iterator[list[FileResult]]:
        batch: list[FileResult] = []
        lines = 0
        flushed = 0.0  # the first result goes out at once
        for result in self._limited(self._results(candidates)):
            batch.append(result)
            lines += len(result.lines)
            now = time.perf_counter()
            if lines >= _BATCH_LINES or now - flushed > _BATCH_SECONDS:
                yield batch
                batch, lines, flushed = [], 0, now
        if batch:
            yield batch

    def _limited(self, results: Iterator[FileResult]) -> Iterator[FileResult]:
        """At most ``limit`` matching lines (or files, where no lines are wanted); counts what passes."""
        limit = self._request.limit
        for result in results:
            if result.error is not None:
                self.summary.errors += 1
                yield result
                continue
            size = result.count if self._request.output == "lines" else 1
            if limit is not None and size > limit:
                if limit > 0:
                    yield self._counted(_first(result, limit))
                self._cut("limit")
                return
            if limit is not None:
                limit -= size
            yield self._counted(result)

    def _counted(self, result: FileResult) -> FileResult:
        self.summary.matched_files += 1
        self.summary.matched_lines += result.count
        self.summary.matches += result.matches
        return result

    def _results(self, candidates: list[Candidate]) -> Iterator[FileResult]:
        """What the candidates answer, one after another, until the search is to stop."""
        search_file = self._matcher.search_file
        summary = self.summary
        try:
            root = os.open(self._root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            yield FileResult("", error=f"{error.strerror} (os error {error.errno})")
            return
        try:
            for candidate in candidates:
                if self._stopped():
                    return
                result = search_file(
                    candidate.path,
                    os.fsdecode(candidate.path),
                    dir_fd=root,
                    explicit=candidate.explicit,
                    mapped=candidate.mapped,
                )
                summary.verified += 1
                if result is None:
                    continue
                if result.error is not None and not candidate.explicit and not _exists(root, candidate.path):
                    continue  # it vanished after the search began: it has no text to miss
                summary.bytes_searched += result.bytes_searched
                yield result
        finally:
            os.close(root)


def _exists(root: int, path: bytes) -> bool:
    with suppress(OSError):
        os.lstat(path, dir_fd=root)
        return True
    return False


def _first(result: FileResult, limit: int) -> FileResult:
    """The first ``limit`` matching lines of ``result``, with the context before them."""
    kept = []
    count = 0
    for line in result.lines:
        if line.match:
            if count == limit:
                break
            count += 1
        kept.append(line)
    return replace(result, lines=kept, count=count, matches=sum(len(line.spans) for line in kept))
