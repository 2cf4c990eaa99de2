"""Killing servers at random moments, while their tree is changed and searched."""

from __future__ import annotations

import os
import signal
import threading
from random import Random

from indexgrep.client import Client
from indexgrep.errors import ServerError
from indexgrep.request import SearchRequest
from indexgrep.runtime import socket_path
from model.asking import Oracle
from model.tree import WORDS
from support.forked_server import ForkedServer

from .world import LOW, World

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
    "new.c",
)
#: A server lives at most so many seconds after it listens.
LIFE_S = 0.6


def asked(oracle: Oracle, client: Client, word: str) -> None:
    """Ask a server; what it answers, if it does, is right."""
    try:
        search = client.search(word)
        ours = [(match.path, match.line_number) for match in search]
    except ServerError:
        return  # it was killed
    assert search.summary is not None
    assert search.summary.complete
    theirs = oracle.answer(SearchRequest((word,)))
    assert sorted(ours) == sorted((path, line[0]) for path, record in theirs.items() for line in record.lines)


def change(world: World, rng: Random) -> None:
    """Change the tree in one way or another."""
    kind = rng.randrange(12)
    if kind == 0:
        world.tree.git("switch", "--force", "--detach", rng.choice(("main", "side")))
    elif kind == 1:
        world.tree.delete(rng.choice(NAMES))
    elif kind == 2:
        for name in NAMES:
            world.tree.touch(name, -rng.randrange(1000))
    else:
        for name in rng.sample(NAMES, rng.randrange(1, 6)):
            world.tree.write(
                name, (rng.randrange(8), rng.randrange(8)), "plain", rng.choice(("rename", "in-place")), False
            )


def live(world: World, server: ForkedServer, rng: Random, seconds: float) -> None:
    """Change and search the tree until the server, after so many seconds, is killed."""
    timer = threading.Timer(seconds, os.kill, (server.pid, signal.SIGKILL))
    timer.start()
    try:
        with Client(world.tree.root, start=False) as client:
            if rng.random() < 0.3:
                client.index(force=True, wait=False)
            while not server.ended():
                change(world, rng)
                asked(world.oracle, client, rng.choice(WORDS))
    except ServerError:
        pass  # no more
    finally:
        timer.cancel()
        timer.join()
        server.kill()


def kill_servers(world: World, rng: Random, times: int) -> set[str]:
    """Kill so many servers one after another, each over what the one before has left.

    Every answer that they complete is right, and so are those of the session that looks after each. Returns
    what kinds of layers those met.
    """
    kinds = set()
    for number in range(times):
        server = ForkedServer(world.tree.root, LOW)
        server.wait_until_up()
        live(world, server, rng, rng.uniform(0, LIFE_S))
        assert socket_path(world.tree.root).exists()  # which the next one has to see through
        session = world.session(watch=number % 2 == 0)
        world.check(session)
        kinds |= {layer["kind"] for layer in session.status()["index"].get("layers", [])}
        if number % 4 == 3:
            world.settle(session)
            world.check(session)
            if world.leftovers():  # which is for the next builder to remove
                session.build(force=True)
            assert world.leftovers() == []
        session.close()
    return kinds
