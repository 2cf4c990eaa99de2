"""Several processes build, flush and join in one cache at once, for one worktree and for several."""

from __future__ import annotations

import os
import signal
import time
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import pytest

from indexgrep.client import Client
from indexgrep.errors import IndexLocked
from indexgrep.overlay import bases
from indexgrep.search import Session
from model.asking import Oracle
from model.tree import WORDS, Tree
from support.forked_server import ForkedServer
from support.oracle import Record

from .actions import NAMES, maintained
from .server_kills import asked
from .world import LOW, World

ROUNDS, RIVALS = 6, 3

Expected = dict[str, dict[str, Record]]


def at_once(works: list[Callable[[], None]]) -> None:
    """Do everything at the same time, each in a process of its own. Fails where one raises."""
    children = []
    for work in works:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # what threads there are hold nothing of ours
            child = os.fork()
        if not child:
            status = 1
            try:
                signal.alarm(120)
                work()
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(status)
        children.append(child)
    failed = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    assert failed == [0] * len(works)


def contend(world: World, root: Path, expected: Expected, rng: Random) -> None:
    """Build and maintain as if alone, and ask all the while."""
    session = Session.open(str(root), policy=LOW, watch=rng.random() < 0.5)
    for _ in range(4):
        if rng.random() < 0.4:
            session.build(force=rng.random() < 0.5)
        else:
            try:
                session.status()
                session.maintain()
            except IndexLocked:
                pass
        world.check(session, expected)
    session.close()


def test_sessions_of_one_worktree(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bases, "_LOCK_SECONDS", 0.01)
    rng = Random(1)
    for number in range(ROUNDS):
        world.edit(*rng.sample(NAMES, 4))
        if number % 3 == 2:
            world.tree.git("switch", "--force", rng.choice(("main", "side")))
            world.age()
        expected = world.expected()
        at_once(
            [
                partial(contend, world, world.tree.root, expected, Random(10 * number + rival))
                for rival in range(RIVALS)
            ]
        )
        session = world.session()
        world.check(session, expected)
        world.settle(session)
        world.check(session, expected)
        session.close()
        assert world.leftovers() == []


def test_worktrees_and_clones(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """They share the repository's folder, and the base of a commit."""
    monkeypatch.setattr(bases, "_LOCK_SECONDS", 0.01)
    rng = Random(2)
    trees = [world.tree]
    for name in ("linked", "clone"):
        trees.append(Tree(world.tree.root.parent / name))
        trees[-1].descend(name, world.tree)
    oracles = [Oracle(world.rg, tree.root, tree.root) for tree in trees]
    for number in range(ROUNDS):
        for tree in trees:
            for name in rng.sample(NAMES, 3):
                tree.write(name, (rng.randrange(8),), "plain", "truncate", False)
            if rng.random() < 0.5:
                tree.git("switch", "--force", "--detach", rng.choice(("main", "side")))
        world.age()
        everything = [oracle.words() for oracle in oracles]
        at_once(
            [
                partial(contend, world, tree.root, expected, Random(number))
                for tree, expected in zip(trees, everything, strict=True)
            ]
        )
        for tree, expected in zip(trees, everything, strict=True):
            session = Session.open(str(tree.root), policy=LOW)
            world.check(session, expected)
            session.close()


def test_servers_of_several_worktrees(world: World) -> None:
    trees = [world.tree]
    for name in ("linked", "clone"):
        trees.append(Tree(world.tree.root.parent / name))
        trees[-1].descend(name, world.tree)
    servers = [ForkedServer(tree.root, LOW) for tree in trees]
    rng = Random(4)
    try:
        for server in servers:
            server.wait_until_up()
        clients = [Client(tree.root, start=False) for tree in trees]
        oracles = [Oracle(world.rg, tree.root, tree.root) for tree in trees]
        for number in range(40):
            for tree, client, oracle in zip(trees, clients, oracles, strict=True):
                if number % 10 == 5:
                    client.index(force=True, wait=False)
                if rng.random() < 0.1:
                    tree.git("switch", "--force", "--detach", rng.choice(("main", "side")))
                for name in rng.sample(NAMES, 3):
                    tree.write(name, (rng.randrange(8),), "plain", "rename", False)
                asked(oracle, client, rng.choice(WORDS))
        for client in clients:
            client.index()
            assert client.status()["index"]["state"] == "ready"
            client.close()
        assert not any(server.ended() for server in servers)
    finally:
        for server in servers:
            server.kill()


def test_a_lock_that_was_left_behind_is_none(world: World) -> None:
    """What a killed builder wrote into it does not matter, nor that its process id is another's now."""
    session = world.session()
    store = bases.store_of(session.root)
    with store.lock():
        pass
    (store.directory / "lock").write_text(f"{os.getppid()}\n")
    session.build()
    world.check(session)
    session.close()


@pytest.mark.parametrize("watch", [True, False])
def test_a_clock_that_is_set_back(world: World, monkeypatch: pytest.MonkeyPatch, watch: bool) -> None:
    """What was indexed goes on to serve; what is written then is read until the clock has caught up."""
    session = world.session(watch=watch)
    session.build()
    with monkeypatch.context() as patch:
        real, real_ns = time.time, time.time_ns
        patch.setattr(time, "time", lambda: real() - 3600)
        patch.setattr(time, "time_ns", lambda: real_ns() - 3600 * 10**9)
        world.check(session)
        assert session.status()["hot"] == 0
        world.edit(*NAMES[:5])
        world.check(session)
        assert session.status()["hot"] == 5
        assert not session.maintain()  # they have stamps of the future
        other = world.session(watch=watch)
        world.check(other)
        other.build(force=True)
        for number in range(3):
            world.edit(*NAMES[number : number + 5])
            world.check(session)
            world.check(other)
        other.close()
    session.close()
    session = world.session(watch=watch)
    world.check(session)
    world.settle(session)
    world.check(session)
    assert session.status()["hot"] == 0
    session.close()


@pytest.mark.parametrize("watch", [True, False])
def test_files_from_the_future(world: World, watch: bool) -> None:
    session = world.session(watch=watch)
    session.build()
    for name in NAMES[:6]:
        world.tree.touch(name, 86400)
    world.age()
    world.check(session)
    maintained(session)
    world.check(session)
    for number in range(4):
        world.tree.substitute(NAMES[0], number, number + 1)  # with the same size and time
        world.check(session)
    session.build(force=True)
    world.edit(*NAMES[3:9])
    world.check(session)
    session.close()
