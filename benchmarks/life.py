"""Measures of a server's life: its starts, its first index, its memory."""

from __future__ import annotations

import shutil
import statistics
import time
from pathlib import Path

from .figures import Measured
from .measure import MemoryWatch, descendants, memory
from .queries import LINUX, Query
from .stage import Stage, lines_of, wait_until

_START_S = 1.0
_IDLE_MB, _DIRTY_MB = 150.0, 200.0
_WORD = "written_while_the_server_was_off"
#: The server gives memory back when it has rested so long.
_REST_S = 2.0


def start_up(stage: Stage, measured: Measured) -> None:
    """A server starting on an existing index, until its first right answer."""
    scale = stage.scale
    measured.conditions = (
        f"{scale.rounds} starts, files in the page cache; from the start of the process to the whole answer "
        f"of {stage.selective.name}, or of a word in the {scale.while_off} files written while it was off"
    )
    expected = stage.expected(stage.selective)
    clean, changed = [], []
    for _ in range(scale.rounds):
        stage.ours.close()
        clean.append(_first_answer(stage, stage.selective, expected, measured))
    files = stage.files(scale.while_off)
    lines = [(stage.tree / path).read_bytes().count(b"\n") + 1 for path in files]
    for number in range(scale.rounds):
        stage.ours.close()
        word = f"{_WORD}_{number}"
        for path in files:
            stage.outside.edit("append", path, f"{word}\n")
        held = sorted(
            line
            for path, first in zip(files, lines, strict=True)
            for line in lines_of([path], first + number, word)
        )
        changed.append(_first_answer(stage, Query("literal", word), held, measured))
    for name, seconds in (("nothing", clean), (f"{len(files)} files", changed)):
        measured.add(f"first answer, {name} changed, median", statistics.median(seconds), "s", _START_S)
        measured.add("the same, longest", max(seconds), "s")
        measured.details[name] = seconds


def _first_answer(stage: Stage, query: Query, expected: list[bytes], measured: Measured) -> float:
    started = time.perf_counter()
    stage.ours.connect()
    answer = stage.ask(query)
    seconds = time.perf_counter() - started
    measured.check(answer.lines == expected, f"the first answer of {query.name}")
    measured.check(answer.summary.served_by == "index", f"{query.name} was not served by the index")
    measured.details.setdefault("elapsed_ms", []).append(answer.summary.elapsed)
    return seconds


def cold(stage: Stage, measured: Measured) -> None:
    """No index at all: the first answer, and the time until the index serves."""
    measured.conditions = "the repository's indexes removed, kernels compiled, files in the page cache"
    expected = stage.expected(stage.selective)
    directory = Path(stage.ours.status()["index"]["dir"]).parent
    stage.ours.close()
    shutil.rmtree(directory)
    started = time.perf_counter()
    stage.ours.connect()
    first = stage.ask(stage.selective)
    first_s = time.perf_counter() - started
    measured.check(first.lines == expected, "the first answer")
    answers = 0

    def serves() -> bool:
        nonlocal answers
        answer = stage.ask(stage.selective)
        answers += 1
        measured.check(answer.lines == expected, "an answer while the index was built")
        return answer.summary.served_by == "index"

    served = wait_until(serves, stage.scale.patience_s, 0.2)
    seconds = time.perf_counter() - started
    measured.add(f"first answer, by {first.summary.served_by}", first_s, "s")
    measured.add("until the index serves", seconds if served else float("inf"), "s")
    measured.details |= {"first": first.summary.to_wire(), "answers_meanwhile": answers}


def server_memory(stage: Stage, measured: Measured) -> None:
    """What the server and its processes take: idle, after queries, with many files just written."""
    scale = stage.scale
    files = stage.files(scale.dirty)
    measured.conditions = (
        "server: resident bytes of its process, shared libraries and mapped index included; with children: "
        "proportional share of it and of the processes that help it; settled: those that build have gone"
    )
    stage.ours.close()
    stage.ours.start()
    stage.wait_quiet()
    _add(stage, measured, "idle", _IDLE_MB)
    queries = [query for query in LINUX if query.kind != "no literal"]
    for number in range(scale.queries):
        stage.ours.iterate(queries[number % len(queries)])
    time.sleep(_REST_S)
    _add(stage, measured, f"after {scale.queries} queries", _IDLE_MB)
    helpers = len(descendants(stage.ours.pid))
    watch = MemoryWatch(stage.ours.pid)
    word = "written_all_at_once"
    for path in files:
        stage.outside.edit("append", path, f"\n{word}\n")
    query = Query("literal", word)
    answer = stage.ask(query)
    measured.check(answer.lines == stage.expected(query), f"a word in {len(files)} files just written")
    _add(stage, measured, f"{len(files):,} files just written", _DIRTY_MB)
    stage.wait_quiet()
    answer = stage.ask(query)
    measured.check(answer.lines == stage.expected(query), "the same, settled")
    # Processes that build are kept for a while, for they are slow to start.
    wait_until(lambda: len(descendants(stage.ours.pid)) <= helpers, scale.patience_s, 0.5)
    time.sleep(_REST_S)
    _add(stage, measured, "the same, settled", _DIRTY_MB)
    tree_peak = watch.stop()
    measured.add("server, peak meanwhile", watch.peak_resident_bytes / 1e6, "MB")
    measured.add("with children, peak meanwhile", tree_peak / 1e6, "MB")
    measured.details["overlay_settled"] = answer.summary.overlay


def _add(stage: Stage, measured: Measured, name: str, wanted: float) -> None:
    pid = stage.ours.pid
    own = memory(pid, "Rss")
    shares = {process: memory(process) for process in descendants(pid)}
    measured.add(f"server, {name}", own / 1e6, "MB", wanted)
    measured.add(f"with {len(shares) - 1} children, {name}", sum(shares.values()) / 1e6, "MB")
    measured.details[name] = {
        "rss": own,
        "pss": shares[pid],
        "children_pss": [share for process, share in shares.items() if process != pid],
    }
