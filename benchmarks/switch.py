"""Measures of many files at once: a branch switch, another clone, a linked worktree."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

from indexgrep.client import Client

from .changing import COMMON_WORD, FIRST, RARE_WORD, SECOND, differing, git
from .figures import Measured
from .ours import Ours
from .queries import Query
from .stage import NORMAL, Stage

#: The line of a file that came with the second commit, in about a hundredth of the files that differ.
_RARE = Query("selective literal", RARE_WORD)
_COMMON = Query("broad literal", COMMON_WORD)
_NEXT_S, _NORMAL_S = 1.5, 15.0


def switch(stage: Stage, measured: Measured) -> None:
    """``git switch`` between the commits: the next query, and how soon queries are as fast as before."""
    measured.conditions = (
        f"{differing(stage.tree):,} files differ; the next query is for {RARE_WORD}, sent when git has "
        f"returned; normal: {stage.selective.name} takes at most {NORMAL}x what it took before (the fastest "
        f"of five), asked for at most {stage.scale.patience_s:.0f} s"
    )
    _one_switch(stage, measured, "there", SECOND)
    _one_switch(stage, measured, "back", FIRST)
    _one_switch(stage, measured, "there again", SECOND)
    _one_switch(stage, measured, "back while the server is off", FIRST, off=True)


def _one_switch(stage: Stage, measured: Measured, name: str, branch: str, *, off: bool = False) -> None:
    settled = stage.wait_quiet()
    before = stage.normal_speed()
    if off:
        stage.ours.close()
    started = time.perf_counter()
    git(stage.tree, "switch", "--quiet", branch)
    git_s = time.perf_counter() - started
    returned = time.perf_counter()
    if off:
        stage.ours.connect()
    first = stage.ask(_RARE)
    first_s = time.perf_counter() - returned
    right = measured.check(first.lines == stage.expected(_RARE), f"{name}: the next query")
    normal_s, seen = stage.until_normal(returned, before)
    last = stage.ask(_COMMON)
    measured.check(last.lines == stage.expected(_COMMON), f"{name}: a query after that")
    start = ", with the start" if off else ""
    measured.add(f"{name}: git itself", git_s, "s")
    measured.add(f"{name}: next query{start}{'' if right else ' (WRONG)'}", first_s, "s", _NEXT_S)
    measured.add(f"{name}: until normal", normal_s, "s", _NORMAL_S)
    measured.add(f"{name}: files over the base, next query", first.summary.overlay, "")
    measured.add(f"{name}: the same once normal", last.summary.overlay, "")
    measured.details[name] = {
        "before_s": before,
        "settled_before": settled,
        "first": first.summary.to_wire(),
        "curve": seen,
        "last": last.summary.to_wire(),
        "memory": stage.ours.server_memory(),
    }


def another_worktree(stage: Stage, measured: Measured) -> None:
    """A second clone and a linked worktree of the commit that is indexed: how soon they have use of it."""
    measured.conditions = (
        f"the same commit, checked out anew; from the start of a server for it; normal: "
        f"{stage.selective.name} takes at most {NORMAL}x what it takes in the first tree"
    )
    before = stage.normal_speed()
    clone = stage.work / "clone"
    subprocess.run(["git", "clone", "--quiet", "--branch", FIRST, stage.tree, clone], check=True)
    try:
        _served(stage, measured, "second clone", clone, before)
    finally:
        shutil.rmtree(clone)
    linked = stage.work / "linked"
    git(stage.tree, "worktree", "add", "--quiet", "--detach", str(linked), FIRST)
    try:
        _served(stage, measured, "linked worktree", linked, before)
    finally:
        git(stage.tree, "worktree", "remove", "--force", str(linked))


def _served(stage: Stage, measured: Measured, name: str, tree: Path, before: float) -> None:
    """Start a server for ``tree``, and wait until queries there are as fast as in the first tree."""
    expected = stage.expected(stage.selective)
    started = time.perf_counter()
    with Client(tree) as client:
        lines, first = Ours.asked(client, stage.selective)
        first_s = time.perf_counter() - started
        measured.check(lines == expected, f"{name}: the first answer")
        normal_s, seen = stage.until_normal(started, before, client)
        lines, last = Ours.asked(client, stage.selective)
        measured.check(lines == expected, f"{name}: an answer once normal")
        measured.add(f"{name}: first answer, by {first.served_by}", first_s, "s")
        measured.add(f"{name}: until normal", normal_s, "s")
        measured.details[name] = {
            "first": first.to_wire(),
            "curve": seen,
            "last": last.to_wire(),
            "status": client.status(),
        }
        client.shutdown()
