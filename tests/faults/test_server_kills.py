"""Servers killed in the middle of building, flushing and joining: the next session answers as ripgrep does.

Each is a process of its own that works as any does: it watches, builds and maintains by itself, while its
tree is edited and searched.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from random import Random

import pytest

from indexgrep.client import Client
from indexgrep.runtime import log_path
from model.tree import WORDS
from support.forked_server import forked_server, processes_with
from support.server_harness import eventually

from .server_kills import asked, kill_servers
from .world import LOW, World

#: How many servers are killed at random moments. ``make soak`` kills hundreds.
KILLS = 24


def test_killed_at_any_moment(world: World) -> None:
    assert kill_servers(world, Random(3), KILLS) == {"base", "segment"}
    assert world.tally.ruled_out > KILLS
    assert "Traceback" not in log_path().read_text()
    with forked_server(world.tree.root, LOW), Client(world.tree.root, start=False) as client:
        for word in WORDS:
            asked(world.oracle, client, word)


@pytest.mark.parametrize("after", [0.0, 0.3, 0.6, 1.0, 1.5])
def test_killed_with_its_build_processes_at_work(real_world: World, cache: Path, after: float) -> None:
    tree = real_world.tree
    with forked_server(tree.root, LOW) as server, Client(tree.root, start=False) as client:
        client.index(force=True, wait=False)
        time.sleep(after)
        server.kill()
    eventually(lambda: not others_of(cache, server.pid), timeout=30)
    session = real_world.session()
    real_world.check(session)
    session.close()


def test_build_processes_killed_under_it(real_world: World, cache: Path) -> None:
    tree = real_world.tree
    with forked_server(tree.root, LOW) as server, Client(tree.root, start=False) as client:
        for _ in range(2):
            client.index(force=True, wait=False)
            eventually(lambda: others_of(cache, server.pid), timeout=30)
            for process in others_of(cache, server.pid):
                os.kill(process, signal.SIGKILL)
            asked(real_world.oracle, client, WORDS[7])
            eventually(lambda: client.status()["index"]["state"] != "building", timeout=30)
            assert "SIGKILL" in client.status()["index"]["fault"]
        client.index(force=True)
        assert client.status()["index"]["state"] == "ready"
        asked(real_world.oracle, client, WORDS[7])


def others_of(cache: Path, server: int) -> list[int]:
    """The processes that work for a server: those that have its cache in their environment."""
    return [process for process in processes_with("INDEXGREP_CACHE_DIR", str(cache)) if process != server]
