"""What a session does to its cache: each action is prepared, and then done by a session of its own."""

from __future__ import annotations

import os
from collections.abc import Callable

from indexgrep.runtime import cache_dir
from indexgrep.search import Session
from model.tree import PATHS

from .world import World

#: Does the action with an open session.
Action = Callable[[Session], object]

#: Files of the tree, and not folders.
NAMES = (
    "a/x.c",
    "a/y.py",
    "a-b.txt",
    "a.c",
    "a0",
    "lib/x.c",
    "lib/x.log",
    "top.md",
    "x.log",
    "build/out.c",
    "é.txt",
)


def first_build(world: World) -> Action:
    return lambda session: session.build()


def forced_build(world: World) -> Action:
    settled(world)
    return lambda session: session.build(force=True)


def build_after_a_switch(world: World) -> Action:
    settled(world)
    world.tree.git("switch", "side")
    world.age()
    return lambda session: session.build()


def segment(world: World) -> Action:
    settled(world)
    world.edit(*NAMES[:4])
    return maintained


def adoption(world: World) -> Action:
    settled(world)
    for name in NAMES:
        world.tree.touch(name, -1000)
    world.age()
    return maintained


def joining_segments(world: World) -> Action:
    settled(world)
    for number in range(3):
        world.edit(*NAMES[3 * number : 3 * number + 3])
        settled(world, joined=False)
    return maintained


def compaction(world: World) -> Action:
    settled(world)
    world.edit(*PATHS)
    return maintained


def finding_damage(world: World) -> Action:
    settled(world)
    (postings,) = cache_dir().glob("repos/*/*/postings")
    os.truncate(postings, 100)
    return lambda session: session.build()


ACTIONS = [
    first_build,
    forced_build,
    build_after_a_switch,
    segment,
    adoption,
    joining_segments,
    compaction,
    finding_damage,
]


def settled(world: World, *, joined: bool = True) -> None:
    """Have an index, and everything maintained (or ``joined``: but for segments to be joined)."""
    session = world.session()
    if joined:
        world.settle(session)
    else:
        session.status()
        while not any(layer["live"] == 3 for layer in session.status()["index"]["layers"][:1]):
            assert session.maintain()
    session.close()


def maintained(session: Session) -> None:
    session.status()
    while session.maintain():
        session.status()
