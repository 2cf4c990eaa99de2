"""A session killed before any of its changes to the file system: the next one answers as ripgrep does.

The tree stays as it is meanwhile, so that what differs is the cache alone. ``tests/index/test_crash.py`` does
the same to the store.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from support.crash import kills

from .actions import ACTIONS, Action
from .world import World, restore


@pytest.mark.parametrize("prepare", ACTIONS, ids=lambda action: action.__name__)
def test_the_next_session_answers_right(
    world: World, cache: Path, tmp_path: Path, prepare: Callable[[World], Action]
) -> None:
    act = prepare(world)
    pristine = tmp_path / "pristine"
    if cache.exists():
        shutil.copytree(cache, pristine)
    expected = world.expected()

    def action() -> None:
        session = world.session()
        act(session)
        session.close()

    times = 0
    for number in kills(action, below=cache, prepare=lambda: restore(cache, pristine), writes=False):
        times += 1
        session = world.session()
        world.check(session, expected)
        world.settle(session)
        world.check(session, expected)
        if world.leftovers():  # which is for the next builder to remove
            session.build(force=True)
        session.close()
        assert world.leftovers() == [], f"killed before change {number}"
    assert times >= 5
