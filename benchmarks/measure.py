"""Wall time, CPU time and memory of process trees, from ``/proc``; medians of interleaved runs."""

from __future__ import annotations

import contextlib
import os
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_TICK = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Cost:
    """What a process and its descendants cost."""

    wall_s: float
    cpu_s: float
    #: Largest sum of proportional set sizes of the tree that a sample saw, in bytes.
    peak_bytes: int


class MemoryWatch:
    """Samples the memory of a process tree in a thread while it runs."""

    def __init__(self, pid: int, interval_s: float = 0.1) -> None:
        #: Largest sum of proportional set sizes of the tree, and largest resident set of ``pid`` alone.
        self.peak_bytes = self.peak_resident_bytes = 0
        self._pid = pid
        self._interval = interval_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stop.wait(self._interval):
            self._look()

    def _look(self) -> None:
        self.peak_bytes = max(self.peak_bytes, tree_memory(self._pid))
        self.peak_resident_bytes = max(self.peak_resident_bytes, memory(self._pid, "Rss"))

    def stop(self) -> int:
        self._stop.set()
        self._thread.join()
        return self.peak_bytes


def descendants(pid: int) -> list[int]:
    """``pid`` and every process below it."""
    found = [pid]
    for parent in found:
        for children in Path(f"/proc/{parent}/task").glob("*/children"):
            with contextlib.suppress(OSError):
                found.extend(map(int, children.read_text().split()))
    return found


def memory(pid: int, field: str = "Pss") -> int:
    """Bytes of one process, 0 when it is gone; ``Pss`` is its share of what is shared, ``Rss`` all of it."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024
    return 0


def tree_memory(pid: int) -> int:
    return sum(memory(process) for process in descendants(pid))


def cpu_seconds(pid: int) -> float:
    """CPU time of one process so far, with that of the children it has waited for."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) / _TICK


def tree_cpu_seconds(pid: int) -> float:
    """CPU time of a process and all below it so far; of those that ended, if they were waited for."""
    total = 0.0
    for process in descendants(pid):
        with contextlib.suppress(OSError):
            total += cpu_seconds(process)
    return total


def run_measured(
    command: Sequence[str | os.PathLike[str]], cwd: Path, environment: dict[str, str] | None = None
) -> Cost:
    """Run a command to its end. Raises ``CalledProcessError`` where it fails."""
    started = time.perf_counter()
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=os.environ | (environment or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    watch = MemoryWatch(process.pid)
    assert process.stderr is not None
    complaint = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stderr.close()
    peak = max(watch.stop(), usage.ru_maxrss * 1024)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, [*map(str, command)], stderr=complaint)
    return Cost(wall, usage.ru_utime + usage.ru_stime, peak)


def medians(actions: Mapping[str, Callable[[], None]], runs: int) -> dict[str, float]:
    """Median seconds of each action. One round runs all of them, so that they share the machine's weather;
    a round before the first warms up and is not counted."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for number in range(runs + 1):
        for name, action in actions.items():
            started = time.perf_counter()
            action()
            if number:
                times[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in times.items()}
