"""One running search: candidates in, batches of results and a summary out."""

from __future__ import annotations

import errno
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from ..errors import os_error
from ..match import Matcher
from ..match.pool import Pool, search_files, searched_in
from ..request import FileResult, Summary

#: A batch goes out when it has so many lines (the first with its first line, so that something is on the
#: screen at once; the second with a screenful; all others) ...
_BATCH_LINES = (1, 100, 1000)
#: ... or when so many seconds have passed since the one before.
_BATCH_SECONDS = 0.02

#: What reading says of a file that was there when the search began, and is not any more, or was not for a
#: moment: git, for one, removes a file before it writes the new one.
_ABSENT = frozenset(os_error(OSError(code, "")) for code in (errno.ENOENT, errno.ENOTDIR, errno.EISDIR))
#: How often a file that comes and goes is read, and a tree in which files move is searched for nothing.
_ATTEMPTS = 3


@dataclass(frozen=True)
class Plan:
    """What a search will read. Paths are relative to the root, or absolute outside it."""

    #: In the order of results.
    candidates: list[bytes]
    #: Those that the request names itself: binary files among them are searched.
    explicit: set[bytes]
    #: Whether ripgrep would map them into memory.
    mapped: bool
    #: What could not be looked at.
    errors: list[FileResult]
    #: The texts of those candidates that are unsaved buffers: they are not read from disk.
    texts: dict[bytes, bytes] = field(default_factory=dict)


class Search:
    """One search, as an iterator over batches of ``FileResult`` in the order of ``rg --sort path``.

    ``summary`` is complete once the iteration has ended. ``close`` ends it early.

    A file that is removed while the search runs has no text to miss, unless that is elsewhere by now: a file
    that is renamed may be in neither place when it is looked at. So the summary counts those that vanished,
    and before it says that nothing matches the tree is searched again.
    """

    def __init__(
        self,
        root: str,
        matcher: Matcher,
        plan: Callable[[Summary], Plan],
        summary: Summary,
        pool: Pool | None,
        cancel: threading.Event | None,
        started: float,
    ) -> None:
        self.summary = summary
        self._root = os.fsencode(root)
        self._request = request = matcher.request
        self._matcher = matcher
        self._plan = plan
        self._pool = pool
        self._cancel = cancel or threading.Event()
        self._started = started
        self._deadline = None if request.timeout_ms is None else started + request.timeout_ms / 1000

    def close(self) -> None:
        """End the search; what was found so far stays delivered."""
        self._cancel.set()

    def __iter__(self) -> Iterator[list[FileResult]]:
        planned = self._plan(self.summary)
        matching = time.monotonic()
        try:
            if planned.errors:
                self.summary.errors += len(planned.errors)
                yield planned.errors
            if self._request.limit == 0:
                self._cut("limit")
            elif self._request.max_count != 0:
                yield from self._batches(planned)
                for _ in range(1, _ATTEMPTS):
                    if not self.summary.vanished or self.summary.matched_files or self._stopped():
                        break
                    self.summary.documents = self.summary.vanished = 0
                    yield from self._batches(self._plan(self.summary))
        finally:
            now = time.monotonic()
            self.summary.elapsed["match"] = (now - matching) * 1000
            self.summary.elapsed["total"] = (now - self._started) * 1000

    def _cut(self, reason: str) -> None:
        self.summary.complete = False
        self.summary.reason = reason

    def _stopped(self) -> bool:
        """Whether to stop now; notes why in the summary."""
        if self._cancel.is_set():
            self._cut("cancelled")
        elif self._deadline is not None and time.monotonic() > self._deadline:
            self._cut("timeout")
        return not self.summary.complete

    def _batches(self, planned: Plan) -> Iterator[list[FileResult]]:
        batch: list[FileResult] = []
        lines = 0
        sizes = iter(_BATCH_LINES)
        size = next(sizes)
        flushed = time.monotonic()
        for result in self._limited(self._results(planned)):
            batch.append(result)
            lines += len(result.lines)
            now = time.monotonic()
            if lines >= size or now - flushed > _BATCH_SECONDS:
                yield batch
                batch, lines, flushed = [], 0, now
                size = next(sizes, size)
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

    def _results(self, planned: Plan) -> Iterator[FileResult]:
        """What the candidates answer, one after another, until the search is to stop."""
        batches = search_files(
            self._matcher,
            planned.candidates,
            root=self._root,
            cancel=self._cancel,
            deadline=self._deadline,
            explicit=planned.explicit,
            mapped=planned.mapped,
            pool=self._pool,
            texts=planned.texts,
        )
        try:
            for number, batch in enumerate(batches, 1):
                if self._stopped():
                    return
                self.summary.verified = searched_in(number, len(planned.candidates))
                for result in batch:
                    for seen in self._seen_again(result, planned):
                        self.summary.bytes_searched += seen.bytes_searched
                        yield seen
            self._stopped()  # the batches end early too
        finally:
            batches.close()

    def _seen_again(self, result: FileResult, planned: Plan) -> list[FileResult]:
        """What a file answers that was absent when it was read, if it is there again; else ``result``."""
        name = os.fsencode(result.path)
        found = [result]
        for _ in range(_ATTEMPTS):
            absent = len(found) == 1 and found[0].error in _ABSENT
            if not absent or name in planned.explicit or name in planned.texts:
                break
            try:
                there = stat.S_ISREG(os.stat(os.path.join(self._root, name)).st_mode)
            except OSError:
                there = False
            if not there:
                self.summary.vanished += 1
                return []
            found = [one for batch in search_files(self._matcher, [name], root=self._root) for one in batch]
        return found


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
