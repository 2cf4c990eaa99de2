"""When the keeper does what, with an overlay and a monitor that only note what is asked of them."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from indexgrep.overlay.keeper import Keeper
from indexgrep.overlay.policy import Policy

QUIET = 0.25


class Script:
    """Stands for the overlay and its monitor. ``events`` tells for each wait whether events came, ``steps``
    for each call of ``maintain`` whether there was something to do; after that, nothing happens any more."""

    def __init__(self, events: Iterable[bool], steps: Iterable[bool]) -> None:
        self.policy = Policy(quiet_s=QUIET, unrest_s=600.0)
        self.monitor = self
        self.watching = True
        self.again_in = float("inf")
        self.calls: list[Any] = []
        self.over = threading.Event()
        self._events = iter(events)
        self._steps = iter(steps)
        self._bell = threading.Event()

    def wait(self, seconds: float) -> bool:
        came = next(self._events, None)
        if came is None:
            self.over.set()
            self._bell.wait()
            return False
        self.calls.append(("wait", seconds))
        return came

    def drain(self) -> None:
        self.calls.append("drain")

    def wake(self) -> None:
        self._bell.set()

    def refreshed(self) -> None:
        self.calls.append("refresh")

    def maintain(self, cancel: threading.Event) -> bool:
        self.calls.append("maintain")
        return next(self._steps, False)


def run(script: Script) -> list[Any]:
    keeper = Keeper(script)  # type: ignore[arg-type]
    assert script.over.wait(60)
    keeper.close()
    return script.calls


def test_every_step_waits_until_the_tree_rests() -> None:
    # Two steps are due at once; file events go on coming for a while after the first.
    calls = run(Script([False, True, True, True, False, False], [True, True, False]))
    quiet = ("wait", QUIET)
    assert calls == [
        *(("wait", 0.0), "refresh", "maintain"),
        *(quiet, "drain", quiet, "drain", quiet, "drain", quiet, "refresh", "maintain"),
        *(quiet, "refresh", "maintain"),
    ]


def test_with_nothing_to_do_it_sleeps_until_something_happens() -> None:
    calls = run(Script([False, True, False], []))
    assert calls[:3] == [("wait", 0.0), "refresh", "maintain"]
    name, seconds = calls[3]
    assert name == "wait"
    assert seconds > 60
    assert calls[4:] == ["drain", ("wait", QUIET), "refresh", "maintain"]
