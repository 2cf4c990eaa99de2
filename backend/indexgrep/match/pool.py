"""Matching many files: batches of answers, in the order of the paths, while the search goes on.

A few files are matched right here. For more, a ``Pool`` of worker processes helps: the searching thread goes
on matching and hands every other batch to a worker that is free. So nothing waits for a worker to start, and
one that crashes or hangs costs only time: what it was asked for is done here.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from typing import Any

from ..request import FileResult, Line
from .matcher import Matcher
from .worker import receive, search_batch, send

_log = logging.getLogger("indexgrep.match")

#: Files in the first batch, which should be early, and in the later ones.
FIRST_BATCH = 16
BATCH = 64

#: Workers are asked for help with more files than this. On the Linux tree (2 cores, warm) two processes took
#: 1.1 times as long as one for 800 files, 0.95 for 5,600, 0.6 for 13,600, and the first lines came later.
ALONE = 4000

#: Batches that a worker has in hand, so that it never waits for the next.
_IN_HAND = 2

#: Seconds that a search waits, when nothing is left to hand out, for a batch that a worker has in hand.
_PATIENCE = 0.2

#: Seconds that a frame may take to pass.
_FRAME_TIMEOUT = 10.0

#: Batches that may be finished ahead of the one that is to be given next: bounds memory.
_AHEAD = 64


def search_files(
    matcher: Matcher,
    paths: Sequence[bytes],
    *,
    root: bytes,
    cancel: threading.Event | None = None,
    deadline: float | None = None,
    explicit: Collection[bytes] = (),
    mapped: bool = False,
    pool: Pool | None = None,
    texts: Mapping[bytes, bytes] | None = None,
) -> Generator[list[FileResult], None, None]:
    """The answers of ``paths`` (relative to ``root``), in their order, in batches that may be empty.

    A batch comes for every so many files searched, with or without answers in it, so that the caller can
    look up. Ends early when ``cancel`` is set or the clock (``time.monotonic``, seconds) passes
    ``deadline``; the caller can tell by looking at the same. ``explicit`` are the paths that the user named,
    ``mapped`` says that these are all there are, and ten at most. ``pool`` helps with many files unless it
    is busy with another search. ``texts`` are the texts of those paths that are not to be read, for they are
    unsaved buffers. Raises ``OSError`` when ``root`` cannot be opened.
    """
    directory = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    run = _Run(matcher, paths, directory, cancel, deadline, explicit, mapped, texts)
    try:
        if pool is None or len(paths) <= ALONE or not pool.busy.acquire(blocking=False):
            yield from run.alone()
            return
        try:
            yield from pool.help(run, root)
        finally:
            pool.busy.release()
    finally:
        os.close(directory)


def searched_in(batches: int, files: int) -> int:
    """How many of ``files`` files the first ``batches`` batches of ``search_files`` are about."""
    return min(FIRST_BATCH + (batches - 1) * BATCH, files)


class _Run:
    """One search of many files, cut into numbered batches."""

    def __init__(
        self,
        matcher: Matcher,
        paths: Sequence[bytes],
        directory: int,
        cancel: threading.Event | None,
        deadline: float | None,
        explicit: Collection[bytes],
        mapped: bool,
        texts: Mapping[bytes, bytes] | None,
    ) -> None:
        self.matcher = matcher
        self.deadline = deadline
        self.mapped = mapped
        starts = [0, *range(FIRST_BATCH, len(paths), BATCH)] if paths else []
        self._bounds = [*starts, len(paths)]
        self._paths = paths
        self._directory = directory
        self._cancel = cancel
        self._explicit = explicit
        self._texts = texts or None

    def __len__(self) -> int:
        return len(self._bounds) - 1

    @property
    def over(self) -> bool:
        """Whether the search is cancelled or out of time."""
        if self._cancel is not None and self._cancel.is_set():
            return True
        return self.deadline is not None and time.monotonic() > self.deadline

    def _batch(self, number: int) -> Sequence[bytes]:
        return self._paths[self._bounds[number] : self._bounds[number + 1]]

    def _named(self, paths: Sequence[bytes]) -> list[bool]:
        """Which of ``paths`` are explicit (empty: none)."""
        return [path in self._explicit for path in paths] if self._explicit else []

    def files(self, number: int) -> tuple[Sequence[bytes], list[bool]]:
        """Those paths of a batch that are to be read, and which of them are explicit (empty: none)."""
        paths = self._batch(number)
        if self._texts is not None:
            paths = [path for path in paths if path not in self._texts]
        return paths, self._named(paths)

    def search(self, number: int) -> list[FileResult]:
        """Match a batch here."""
        return self._search(self._batch(number))

    def _search(self, paths: Sequence[bytes]) -> list[FileResult]:
        return search_batch(
            self.matcher,
            paths,
            self._directory,
            self._named(paths),
            self.mapped,
            self.deadline,
            self._texts,
        )

    def completed(self, number: int, answers: list[FileResult]) -> list[FileResult]:
        """The answers of a batch whose ``files`` answer ``answers``: those of its texts come in between."""
        texts = self._texts
        paths = self._batch(number)
        if texts is None or not any(path in texts for path in paths):
            return answers
        whole: list[FileResult] = []
        rest = deque(answers)
        for path in paths:
            if path in texts:
                whole += self._search([path])
            elif rest and os.fsencode(rest[0].path) == path:
                whole.append(rest.popleft())
        return whole

    def alone(self) -> Iterator[list[FileResult]]:
        for number in range(len(self)):
            if self.over:
                return
            yield self.search(number)


class Pool:
    """Worker processes that outlive a search. They start with the first that asks for help.

    Workers go by themselves when they idle or this process dies; ``close`` ends them at once.
    """

    def __init__(self, size: int | None = None) -> None:
        """``size`` is the number of workers; by default one less than there are cores, for this process
        matches too."""
        if size is None:
            size = min(max((os.cpu_count() or 1) - 1, 1), 7)
        self.size = size
        #: Held by the search that the pool helps with.
        self.busy = threading.Lock()
        self._workers: list[_Worker] = []
        self._job = 0
        self._closed = False

    def close(self) -> None:
        """End the workers. A search that they help with goes on without."""
        self._closed = True
        for worker in list(self._workers):
            worker.kill()

    def processes(self) -> list[int]:
        """The ids of the worker processes that live."""
        return [worker.pid for worker in self._workers if worker.alive]

    def ready(self) -> bool:
        """Whether every worker lives and is up."""
        return len(self._workers) == self.size and all(w.alive and w.ready for w in self._workers)

    def help(self, run: _Run, root: bytes) -> Iterator[list[FileResult]]:
        """Match the batches of ``run`` with the workers' help; ``busy`` is held by the caller."""
        self._job += 1
        self._start()
        todo = iter(range(len(run)))
        retry: list[int] = []
        done: dict[int, list[FileResult]] = {}
        given = 0
        while given < len(run):
            if run.over:
                return
            for number, answers in self._answers(0.0):
                if number >= given:
                    done[number] = run.completed(number, answers)
            if len(done) < _AHEAD:
                self._hand_out(todo, run, root)
            retry += self._forfeited()
            if given not in done:
                done |= self._next(run, given, len(done), todo, retry)
            while given in done:
                yield done.pop(given)
                given += 1

    def _next(
        self, run: _Run, given: int, ahead: int, todo: Iterator[int], retry: list[int]
    ) -> dict[int, list[FileResult]]:
        """Batches matched meanwhile: one done here, or some that workers had in hand."""
        # Too far ahead of a worker that has the next batch in hand: do that here as well.
        number = given if ahead >= _AHEAD else retry.pop() if retry else next(todo, None)
        if number is None:
            answers = dict(self._answers(_PATIENCE))
            if answers:
                return {
                    number: run.completed(number, batch)
                    for number, batch in answers.items()
                    if number >= given
                }
            number = given
        return {number: run.search(number)}

    def _start(self) -> None:
        self._workers = [worker for worker in self._workers if worker.alive]
        while len(self._workers) < self.size and not self._closed:
            try:
                self._workers.append(_Worker())
            except OSError as error:
                _log.warning("cannot start a matching process: %s", error)
                return

    def _hand_out(self, todo: Iterator[int], run: _Run, root: bytes) -> None:
        for worker in self._workers:
            while worker.alive and worker.ready and worker.in_hand < _IN_HAND:
                number = next(todo, None)
                if number is None:
                    return
                worker.ask(self._job, number, run, root)

    def _answers(self, timeout: float) -> list[tuple[int, list[FileResult]]]:
        """The batches that workers have answered; waits up to ``timeout`` seconds for the first."""
        answers = []
        with selectors.DefaultSelector() as selector:
            for worker in self._workers:
                if worker.alive:
                    selector.register(worker.connection, selectors.EVENT_READ, worker)
            for key, _ in selector.select(timeout) if selector.get_map() else ():
                answer = key.data.take(self._job)
                if answer is not None:
                    answers.append(answer)
        return answers

    def _forfeited(self) -> list[int]:
        """The batches that workers had in hand when they went."""
        numbers = []
        for worker in self._workers:
            if not worker.alive:
                numbers += worker.forfeit(self._job)
        return numbers


class _Worker:
    """One worker process, as its parent sees it."""

    def __init__(self) -> None:
        self.connection, theirs = socket.socketpair()
        with theirs:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "indexgrep.match.worker", str(theirs.fileno())],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            except OSError:
                self.connection.close()
                raise
        self.connection.settimeout(_FRAME_TIMEOUT)
        self.pid = self._process.pid
        self.alive = True
        self.ready = False
        self._asked: list[tuple[int, int]] = []
        self._job = 0

    @property
    def in_hand(self) -> int:
        """Batches asked for and not answered, those of earlier searches included."""
        return len(self._asked)

    def forfeit(self, job: int) -> list[int]:
        """The batches of ``job`` that are in hand, which then are not any more."""
        numbers = [number for owner, number in self._asked if owner == job]
        self._asked = []
        return numbers

    def ask(self, job: int, number: int, run: _Run, root: bytes) -> None:
        """Hand over a batch. The worker is not ``alive`` any more if it is gone."""
        paths, explicit = run.files(number)
        self._asked.append((job, number))
        try:
            if self._job != job:
                send(self.connection, [job, run.matcher.request.to_wire(), root])
                self._job = job
            send(self.connection, [job, number, paths, explicit, run.mapped, run.deadline])
        except OSError:
            self.kill()

    def take(self, job: int) -> tuple[int, list[FileResult]] | None:
        """The next answer, if it belongs to ``job``; the worker is not ``alive`` any more if it is gone."""
        try:
            owner, number, answers = receive(self.connection)
        except (EOFError, OSError):
            if self.alive:
                _log.warning("matching process %d is gone", self.pid)
            self.kill()
            return None
        if not owner:
            self.ready = True
            return None
        self._asked.remove((owner, number))
        if owner != job:
            return None
        return number, [_unpacked(answer) for answer in answers]

    def kill(self) -> None:
        self.alive = False
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(OSError):
            self.connection.close()


def _unpacked(answer: tuple[Any, ...]) -> FileResult:
    path, lines, *rest = answer
    return FileResult(
        path,
        [Line(number, offset, text, list(spans), match) for number, offset, text, spans, match in lines],
        *rest,
    )
