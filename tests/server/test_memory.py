"""What one very large answer took is given back."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from support.server_harness import Peer, eventually, running_server

CODE = """
from indexgrep.memory import give_back

def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096 >> 20

# Many small blocks below one that stays: freeing them leaves a hole that the C library keeps.
blocks = [bytes(2000) for _ in range(50_000)]
stays = bytes(2000)
before = resident()
del blocks
kept = resident()
give_back(now=True)
print(before, kept, resident())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc has it")
def test_freed_memory_goes_back_to_the_system() -> None:
    run = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    before, kept, after = map(int, run.stdout.split())
    assert kept > before - 20, "the C library gave it back by itself: the test tests nothing"
    assert after < before - 80


def test_a_server_that_rests_gives_memory_back(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[bool] = []
    monkeypatch.setattr("indexgrep.memory.give_back", lambda *, now=False: given.append(now))
    monkeypatch.setattr("indexgrep.server.service._WATCH_S", 0.02)
    with running_server() as running, Peer(running.path) as peer:
        eventually(lambda: True in given)  # after the session was opened
        given.clear()
        time.sleep(0.1)
        assert not given  # nothing happened since
        peer.search(1, "lines=3")
        eventually(lambda: True in given)
