"""Random changes of a small tree, with searches between: every answer is ripgrep's.

The runs are the same every time. ``make soak`` has others, for as long as one likes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from indexgrep.overlay.view import Chosen

from .arena import arena
from .asking import Tally
from .machine import Kind, draw, reduced, run

#: Steps in each run.
STEPS = 40


@dataclass
class Few:
    """So many runs of one kind."""

    kind: Kind
    runs: int


KINDS = {
    "plain-sweep": Few(Kind(git=False, watch=False), 7),
    "plain-watch": Few(Kind(git=False, watch=True), 10),
    "git-sweep": Few(Kind(git=True, watch=False), 11),
    "git-watch": Few(Kind(git=True, watch=True), 16),
    "git-watch-keep": Few(Kind(git=True, watch=True, keep=True), 8),
}


@pytest.fixture
def base() -> Iterator[Path]:
    with arena() as directory:
        yield directory


@pytest.mark.parametrize("name", KINDS)
def test_every_answer_is_ripgreps(name: str, base: Path, rg: str) -> None:
    few, tally = KINDS[name], Tally()
    for seed in range(few.runs):
        steps = draw(Random(f"{name} {seed}"), STEPS, few.kind)
        fault = run(steps, base, rg, tally)
        if fault is not None:
            raise reduced(lambda fewer: run(fewer, base, rg, tally), fault) from None
    # It was a test of something.
    assert tally.searches > 50 * few.runs
    assert tally.ruled_out > tally.searches / 3
    assert tally.layered > few.runs / 2


def test_a_fault_is_found_and_reduced(base: Path, rg: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of an engine that never reads files that changed."""
    real = Chosen.below

    def below(self: Chosen, prefix: bytes) -> list[bytes]:
        changed = self._view.hot if self._view.layers else ()
        return [path for path in real(self, prefix) if path not in changed]

    monkeypatch.setattr(Chosen, "below", below)
    steps = [
        "start(git=False, watch=False)",
        "delete(name='a.c')",
        "write(name='a0', words=(1,), shape='plain', way='truncate', keep_time=False)",
        "touch(name='top.md', seconds=-10)",
        "ask_for(1)",
        "delete(name='lib')",
    ]
    fault = run(steps, base, rg, Tally())
    assert fault is not None
    assert fault.steps == steps[:5]
    assert "'a0': missing" in str(fault)
    fault = reduced(lambda fewer: run(fewer, base, rg, Tally()), fault)
    assert fault.steps in ([steps[0], steps[2], steps[4]], [steps[0], steps[3], steps[4]])
    monkeypatch.undo()
    assert run(steps, base, rg, Tally()) is None
