"""Worktrees under real servers. Many tests share one, and each has a directory in it to itself."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.served import Served, git, serving

#: Directories in the shared worktree, and in each these files, each with words of its own.
PLACES = 40
FILES = ("code.c", "notes.txt", "sub/inner.c", "sub/deep/leaf.py", "sub/deep/more/end.h")

#: What a server is told of its surroundings so that it must sweep.
SWEEPING = {"TEST_WATCHES": 0}


class Place:
    """A directory of the shared worktree that is one test's own. Names are relative to it."""

    def __init__(self, tree: Served, name: str) -> None:
        self.tree = tree
        self.name = name
        self.path = tree.root / name

    def word(self, file: str) -> str:
        """The word that only this file has."""
        return word(self.name, file)

    def write(self, file: str, text: str | bytes) -> Path:
        return self.tree.write(f"{self.name}/{file}", text)

    def expect(self, found: dict[str, list[str]]) -> None:
        """See ``Served.expect``."""
        self.tree.expect(
            {pattern: [f"{self.name}/{file}" for file in files] for pattern, files in found.items()}
        )

    def found(self, pattern: str) -> list[str]:
        """The files that the server alone says have ``pattern``."""
        return [os.path.relpath(path, self.name) for path in self.tree.paths(pattern)]


def word(place: str, file: str) -> str:
    stem = file.replace("/", "_").replace(".", "_")
    return f"{place}_{stem}_word"


def make_tree(root: Path, places: int) -> None:
    """A repository of ``places`` directories with ``FILES`` each, committed."""
    for number in range(places):
        place = f"p{number:02}"
        for file in FILES:
            path = root / place / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"// {file}\nint {word(place, file)} = shared_word + {number};\n\n")
    git(root.parent, "init", "--quiet", str(root))
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "start")
    time.sleep(0.03)  # a file that was just written is indexed, but not yet relied on


def in_memory() -> str | None:
    """A directory whose files git writes five times as fast, if there is one with room."""
    memory = "/dev/shm"
    if os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 500_000_000:
        return memory
    return None


@pytest.fixture(scope="session")
def short_base() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ig-") as name:
        yield Path(name)


@pytest.fixture(scope="session", params=["watch", "sweep"])
def shared(request: pytest.FixtureRequest, short_base: Path, rg: str) -> Iterator[Served]:
    """A worktree that is indexed once: under a watch, and under a server that has no watches left."""
    root = short_base / f"shared-{request.param}"
    make_tree(root, PLACES)
    with serving(root, rg, **(SWEEPING if request.param == "sweep" else {})) as tree:
        tree.index()
        pid = tree.pid
        yield tree
        assert tree.pid == pid, "the server was lost on the way"


@pytest.fixture(scope="session")
def _numbers() -> dict[str, Iterator[int]]:
    return {}


@pytest.fixture
def place(shared: Served, _numbers: dict[str, Iterator[int]]) -> Place:
    """A directory of files that the index of the shared worktree rules out."""
    name = f"p{next(_numbers.setdefault(str(shared.root), itertools.count())):02}"
    place = Place(shared, name)
    place.expect({f"{name}_.*_word": list(FILES)})
    assert place.found(place.word("code.c")) == ["code.c"]
    assert shared.summary.served_by == "index"
    assert shared.summary.freshness == ("sweep" if "sweep" in shared.root.name else "watch")
    # The index rules out the files of other places, or there would be nothing to get wrong.
    assert shared.summary.candidates <= shared.summary.overlay + len(FILES)
    return place


Make = Callable[..., Served]


@pytest.fixture
def served(tmp_path: Path, rg: str) -> Iterator[Make]:
    """Makes worktrees with servers of their own: ``served(name, **seams)``; the directory may be there."""
    with ExitStack() as stack:

        def make(name: str = "tree", **seams: object) -> Served:
            root = tmp_path / name
            root.mkdir(exist_ok=True)
            return stack.enter_context(serving(root, rg, **seams))

        yield make
