"""The measures of freshness, one after another on one stage, each from a fresh index of the first commit."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import editor, edits, life, report, switch
from .figures import Measured
from .queries import LINUX, Query
from .stage import Scale, Stage

#: By the names that ``QUERIES`` selects.
MEASURES: dict[str, Callable[[Stage, Measured], None]] = {
    "fresh: start-up": life.start_up,
    "fresh: memory": life.server_memory,
    "fresh: barrier": edits.barrier,
    "fresh: edit, then search": edits.edit_then_search,
    "fresh: switch": switch.switch,
    "fresh: another worktree": switch.another_worktree,
    "fresh: cold": life.cold,
    "fresh: typing and saving": editor.typing_and_saving,
}


def selected(wanted: re.Pattern[str]) -> list[str]:
    return [name for name in MEASURES if wanted.search(name)]


def run(
    tree: Path, work: Path, names: list[str], scale: Scale | None = None, selective: Query = LINUX[0]
) -> list[Measured]:
    """Take the measures on ``tree``, a copy with two commits (``changing``), and print them as they come."""
    stage = Stage(tree, work, selective, scale or Scale())
    taken = []
    try:
        built_s = stage.prepare()
        print(f"\nfreshness, on {tree} ({len(stage.all_files):,} text files, indexed in {built_s:.1f} s)")
        for name in names:
            print(f"\r{name} …\033[K", end="", file=sys.stderr, flush=True)
            stage.fresh()
            measured = Measured(name)
            load = os.getloadavg()[0]
            MEASURES[name](stage, measured)
            loads = [load, os.getloadavg()[0]]
            measured.conditions += f"; load of the machine {loads[0]:.1f} before and {loads[1]:.1f} after"
            measured.details["load"] = loads
            taken.append(measured)
            print("\r\033[K", end="", file=sys.stderr, flush=True)
            print(f"\n{report.measure_table(measured)}")
    finally:
        stage.close()
    return taken


def to_json(taken: list[Measured]) -> dict[str, Any]:
    return {measured.name: measured.to_json() for measured in taken}
