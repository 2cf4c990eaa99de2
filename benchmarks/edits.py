"""Measures of single edits by another process: what freshness costs, and whether it holds."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from indexgrep.search import Session

from .figures import Measured
from .queries import Query
from .stage import Stage, lines_of

_SEED = 20_240_607
#: Files that random edits go round in: more than are kept hot, so that they meet the work in the background.
_WORKING_SET = 400
#: What is done to them; as many files come as go.
_KINDS = (
    "write",
    "patch",
    "patch",
    "replace",
    "move",
    "create",
    "create in a new folder",
    "delete",
    "delete",
)


def barrier(stage: Stage, measured: Measured) -> None:
    """What a query pays for freshness: idle, after an edit, and without a watch."""
    rng = random.Random(_SEED)
    scale = stage.scale
    files = stage.files(_WORKING_SET)
    measured.conditions = (
        f"{scale.barriers} queries for {stage.selective.name}, each after an outside process wrote one of "
        f"{len(files)} files (seed {_SEED}); refresh is the server's own figure, whole as a client sees it"
    )

    def edit() -> None:
        stage.outside.edit("append", rng.choice(files), "/* appended */\n")

    stage.speed()  # a first query is not idle
    for name, before in (("idle", None), ("after an edit", edit)):
        refreshes, wholes = _timed(stage, scale.barriers, before, measured)
        measured.add_times(f"refresh, {name}", refreshes, 5.0)
        measured.add_times(f"whole query, {name}", wholes)
        measured.details[name] = {"refresh_s": refreshes, "whole_s": wholes}
    # One file changes before each sweep, too: the sweep is not what a watch is compared with otherwise.
    with_sweep = Session.open(str(stage.tree), watch=False)
    sweeps = []
    for _ in range(scale.rounds + 1):
        edit()
        search = with_sweep.search(stage.selective.request())
        for _ in search:
            pass
        measured.check(search.summary.freshness == "sweep", "the sweep was none")
        sweeps.append(search.summary.elapsed["refresh"] / 1000)
    with_sweep.close()
    measured.add_times("sweep, without a watch", sweeps[1:])


def _timed(
    stage: Stage, count: int, before: Callable[[], None] | None, measured: Measured
) -> tuple[list[float], list[float]]:
    """Seconds of the barrier and of the whole query, ``count`` times."""
    refreshes, wholes = [], []
    for _ in range(count):
        if before is not None:
            before()
        started = time.perf_counter()
        search = stage.ours.client.search(stage.selective.request())
        for _ in search:
            pass
        wholes.append(time.perf_counter() - started)
        assert search.summary is not None
        measured.check(search.summary.freshness == "watch", f"freshness by {search.summary.freshness}")
        refreshes.append(search.summary.elapsed["refresh"] / 1000)
    return refreshes, wholes


class _Editor:
    """Random edits of a set of files; it knows which word each file then holds, in a line of its own."""

    def __init__(self, stage: Stage) -> None:
        self._outside = stage.outside
        self._rng = random.Random(_SEED)
        self._next = 0
        #: The word of each file, and the number of its line.
        self.words: dict[str, tuple[str, int]] = {}
        for path in stage.files(_WORKING_SET):
            text = (stage.tree / path).read_bytes()
            line = "" if text.endswith(b"\n") else "\n"
            word = self._word()
            self._outside.edit("append", path, f"{line}{word}\n")
            self.words[path] = (word, text.count(b"\n") + len(line) + 1)
        #: With a slash at the end, empty for the root.
        self._folders = sorted({path[: path.rfind("/") + 1] for path in self.words})

    def _word(self) -> str:
        self._next += 1
        return f"benchword{self._next:06d}q"

    def edit(self) -> tuple[str, str, str]:
        """Make an edit: its kind, the word to find from now on, and the word that is gone (either may be
        empty)."""
        rng = self._rng
        kind = rng.choice(_KINDS)
        path = rng.choice(sorted(self.words))
        old, line = self.words[path]
        new = self._word()
        folder = rng.choice(self._folders)
        if kind == "create":
            created = f"{folder}{new}.c"
        elif kind == "create in a new folder":
            created = f"{folder}{new}/in/{new}.c"
        elif kind == "delete":
            self._outside.edit("delete", path)
            del self.words[path]
            return kind, "", old
        elif kind == "move":
            target = f"{folder}{new}_moved.c"
            self._outside.edit("move", path, target)
            self.words[target] = self.words.pop(path)
            return kind, old, ""
        else:
            self._outside.edit(kind, path, old, new)
            self.words[path] = (new, line)
            return kind, new, old
        self._outside.edit("create", created, f"{new}\n")
        self.words[created] = (new, 1)
        return kind, new, ""

    def lines(self, word: str) -> list[bytes]:
        """Where a word is now."""
        places = [(path, line) for path, (held, line) in self.words.items() if held == word]
        return [line for path, number in places for line in lines_of([path], number, word)]


def edit_then_search(stage: Stage, measured: Measured) -> None:
    """Random edits by an outside process, each followed at once by searches for what came and what went."""
    editor = _Editor(stage)
    count = stage.scale.edits
    measured.conditions = (
        f"{count} random edits by an outside process in {len(editor.words)} files (seed {_SEED}): written, "
        "overwritten in place with size and mtime kept, renamed over, created, also in new folders, deleted, "
        "moved; each followed at once by a search for the new word and one for the old"
    )
    seconds: list[float] = []
    right = 0
    for number in range(count):
        kind, new, old = editor.edit()
        words = [word for word in (new, old) if word]
        answers = [stage.ask(Query("literal", word)) for word in words]
        seconds.append(answers[0].seconds)
        right += all(
            measured.check(answer.lines == editor.lines(word), f"edit {number}, {kind}: {word}")
            for answer, word in zip(answers, words, strict=True)
        )
    measured.add(f"right answers of {count:,}", right, "", least=count)
    measured.add_times("first search after the edit", seconds)
    every = Query("literal", r"benchword[0-9]{6}q")
    answer = stage.ask(every)
    measured.check(answer.lines == stage.expected(every), "all words at the end differ from ripgrep's")
    measured.details["seconds"] = seconds
    measured.details["last"] = answer.summary.to_wire()
