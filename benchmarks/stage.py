"""Where freshness is measured: a tree that is changed, the server on it, ripgrep, and an outside process."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from indexgrep.client import Client
from indexgrep.request import Summary

from .changing import restore, text_files
from .measure import tree_cpu_seconds
from .ours import Ours
from .outside import Outside
from .peers import Peer
from .queries import Query

#: Queries are at their normal speed when they take at most so many times what they took.
NORMAL = 1.5
#: A server that takes less than this share of one core for a while (``Scale.quiet_s``) has nothing to do.
_QUIET_SHARE = 0.03
_LOOK_S = 0.5
#: Searches in one look, and how many looks in a row must be normal; the pauses leave the machine to others.
_SAMPLE = 5
_NORMAL_SAMPLE = 15
_IN_A_ROW = 2
_PAUSE_S = 0.5


@dataclass(frozen=True)
class Scale:
    """How much is measured; the defaults are the sizes that figures are wanted for."""

    #: Files that differ between the two commits.
    switched: int = 10_000
    #: Edits, each followed by a search; and outside edits that only the barrier is measured over.
    edits: int = 1_000
    barriers: int = 300
    #: Files that are edited at once, and that are while the server is off.
    dirty: int = 2_000
    while_off: int = 100
    #: Queries asked before memory is looked at.
    queries: int = 200
    #: Keys typed, and saves, in each of the editor's buffers.
    keys: int = 120
    saves: int = 25
    #: Rounds of what is slow (a start, a sweep).
    rounds: int = 5
    #: How long anything may take that is waited for, in seconds.
    patience_s: float = 60.0
    #: How long a server must have rested to be taken for quiet, in seconds.
    quiet_s: float = 3.0


@dataclass(frozen=True)
class Answer:
    """The lines of an answer as ripgrep prints them, sorted, and what it took."""

    lines: list[bytes]
    summary: Summary
    seconds: float


class Stage:
    """See the module. ``selective`` is the query whose speed is followed; ``work`` a new directory."""

    def __init__(self, tree: Path, work: Path, selective: Query, scale: Scale) -> None:
        self.tree = tree
        self.work = work
        self.selective = selective
        self.scale = scale
        self.ours = Ours(tree, work / "indexgrep")
        self.rg = Peer(tree, work)
        self.outside = Outside(tree)
        #: Every text file of the first commit, those that the second one changes first.
        self.all_files: list[str] = []
        self._beside = 0

    def prepare(self) -> float:
        """Start the server with a first index; returns the seconds that the index took."""
        self.ours.compile_kernels()
        restore(self.tree)
        self.all_files = text_files(self.tree)
        seconds = self.ours.build().wall_s
        self.ours.start()
        self._beside = self.ask(self.selective).summary.overlay
        return seconds

    def fresh(self) -> None:
        """The tree as committed, a server on it, and an index that nothing stands beside."""
        restore(self.tree)
        self.ours.connect()
        self.wait_quiet()
        if self.ask(self.selective).summary.overlay > self._beside or not self.served():
            self.ours.client.index(force=True)
            self.wait_quiet()
        self.ask(self.selective)  # the first query with another index sweeps the tree

    def served(self) -> bool:
        """Whether the index serves, of whatever commit."""
        return self.ask(self.selective).summary.served_by == "index"

    def close(self) -> None:
        self.outside.close()
        self.ours.close()
        restore(self.tree)

    def files(self, count: int) -> list[str]:
        """Text files that both commits have alike; fewer where there are not so many."""
        return self.all_files[-count:]

    # Asking

    def ask(self, query: Query) -> Answer:
        started = time.perf_counter()
        lines, summary = self.ours.answer(query)
        return Answer(lines, summary, time.perf_counter() - started)

    def expected(self, query: Query) -> list[bytes]:
        """ripgrep's lines."""
        return self.rg.lines(query)

    def normal_speed(self) -> float:
        """Seconds that the selective query takes while nothing else goes on: what is compared with."""
        return self.speed(count=_NORMAL_SAMPLE)

    def speed(self, client: Client | None = None, count: int = _SAMPLE) -> float:
        """Median seconds of the selective query now."""
        return statistics.median(self._sample(client or self.ours.client, count)[0])

    def _sample(self, client: Client, count: int) -> tuple[list[float], Summary]:
        """The seconds of some searches, and the last one's summary."""
        times = []
        for _ in range(count):
            started = time.perf_counter()
            search = client.search(self.selective.request())
            for _ in search:
                pass
            times.append(time.perf_counter() - started)
        assert search.summary is not None
        return times, search.summary

    def until_normal(
        self, since: float, normal_s: float, client: Client | None = None
    ) -> tuple[float, list[dict[str, float]]]:
        """Watch the selective query until it has its normal speed again.

        Returns the seconds from ``since`` (``perf_counter``) to the end of the first of two looks in a row
        that are normal, infinite when patience ends before, and all that was seen. The fastest search of a
        look counts: files that all must read show in every one, what else the machine does in some.
        """
        seen: list[dict[str, float]] = []
        reached: float | None = None
        row = 0
        while row < _IN_A_ROW:
            if time.perf_counter() - since > self.scale.patience_s:
                return float("inf"), seen
            times, summary = self._sample(client or self.ours.client, _SAMPLE)
            at = time.perf_counter() - since
            seen.append(
                {
                    "at_s": at,
                    "fastest_ms": min(times) * 1000,
                    "median_ms": statistics.median(times) * 1000,
                    "overlay": summary.overlay,
                }
            )
            if min(times) > normal_s * NORMAL:
                row, reached = 0, None
            else:
                row += 1
                reached = at if reached is None else reached
            time.sleep(_PAUSE_S)
        assert reached is not None
        return reached, seen

    def wait_quiet(self) -> bool:
        """Wait until the server has worked off what it does in the background; ``False`` if patience ends."""
        return wait_until(
            _Idle(self.ours.pid, self.scale.quiet_s), self.scale.patience_s, min(_LOOK_S, self.scale.quiet_s)
        )


class _Idle:
    """Called now and then, tells whether a process tree has not worked for ``quiet_s``."""

    def __init__(self, pid: int, quiet_s: float) -> None:
        self._pid = pid
        self._quiet_s = quiet_s
        self._since = self._looked = time.perf_counter()
        self._used = tree_cpu_seconds(pid)

    def __call__(self) -> bool:
        now, used = time.perf_counter(), tree_cpu_seconds(self._pid)
        if abs(used - self._used) > _QUIET_SHARE * (now - self._looked):
            self._since = now
        self._looked, self._used = now, used
        return now - self._since >= self._quiet_s


def wait_until(condition: Callable[[], bool], patience_s: float, pause_s: float) -> bool:
    """Whether the condition came true before patience ended."""
    deadline = time.perf_counter() + patience_s
    while not condition():
        if time.perf_counter() > deadline:
            return False
        time.sleep(pause_s)
    return True


def lines_of(paths: Sequence[str], number: int, text: str) -> list[bytes]:
    """The same line in each of some files, as ripgrep prints it, sorted."""
    return sorted(b"%b:%d:%b" % (os.fsencode(path), number, text.encode()) for path in paths)
