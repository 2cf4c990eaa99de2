"""A small tree with everything of its own, and what must hold of it after any fault."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

from indexgrep.overlay.policy import Policy
from indexgrep.runtime import cache_dir
from indexgrep.search import Session
from model.asking import Oracle, Tally, word_faults
from model.tree import WORDS, Tree
from support.oracle import Record

#: Few files are many: a handful of changes makes a segment, a few segments are joined.
LOW = Policy(
    hot_files=2, segments=2, segment_files=12, segment_share=0.4, rebuild_files=1000, rest=0.0, quiet_s=0.0
)

#: What an index's directory may hold, but for the worktrees' stamps.
FILES = {"postings", "lookup", "used"}


class World:
    """A repository of some twenty files, its cache, and ripgrep's answers."""

    def __init__(self, directory: Path, rg: str, tally: Tally | None = None) -> None:
        self.rg = rg
        self.tree = Tree(directory / "world" / "tree")
        self.oracle = Oracle(rg, self.tree.root, directory / "shadow")
        self.tally = tally or Tally()
        self.tree.populate()
        self.tree.init()
        self.age()

    def age(self) -> None:
        """Wait until no file that exists now is racy."""
        time.sleep(0.03)

    def session(self, **options: object) -> Session:
        return Session.open(str(self.tree.root), **{"watch": False, "policy": LOW, **options})

    def edit(self, *names: str) -> None:
        """Give files other texts."""
        for name in names:
            self.tree.write(name, (len(name) % 8, 3), "plain", "truncate", False)
        self.age()

    def expected(self) -> dict[str, dict[str, Record]]:
        return self.oracle.words()

    def check(self, session: Session, expected: dict[str, dict[str, Record]] | None = None) -> None:
        """Every answer is ripgrep's."""
        faults = word_faults(session, range(len(WORDS)), expected or self.expected(), self.oracle, self.tally)
        assert not faults, "\n".join(faults)

    def settle(self, session: Session) -> None:
        """Build what is missing, and maintain until there is nothing to do."""
        session.build()
        for _ in range(20):
            session.status()
            if not session.maintain():
                return
        raise AssertionError("maintenance does not come to an end")

    def leftovers(self) -> list[str]:
        """What is in the cache and should not be once a session has settled.

        A damaged index that was moved aside may: at most one of a name is kept.
        """
        cache = cache_dir()
        found = [name for name in os.listdir(cache) if name not in ("repos", "numba")]
        for repository in (cache / "repos").iterdir():
            indexes = [path for path in repository.iterdir() if path.is_dir() and path.suffix != ".corrupt"]
            found += [
                path.name
                for path in repository.iterdir()
                if not path.is_dir() and path.name not in ("lock", "origin")
            ]
            found += [path.name for path in indexes if not (path / "postings").exists()]
            found += [path.name for path in indexes if "." in path.name]
            for index in indexes:
                names = os.listdir(index)
                found += [
                    f"{index.name}/{name}" for name in names if name not in FILES and not _is_stamps(name)
                ]
            segments = [path.name for path in indexes if path.name.startswith("segment-")]
            found += segments[LOW.segments + 1 :]
        return found


def _is_stamps(name: str) -> bool:
    return name.startswith("stamps-") and "." not in name


def restore(cache: Path, pristine: Path) -> None:
    """Make the cache what it was."""
    shutil.rmtree(cache, ignore_errors=True)
    if pristine.exists():
        shutil.copytree(pristine, cache)
