"""Repositories to search, with files old enough to be trusted."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from indexgrep.request import SearchRequest
from indexgrep.search import Session


def git(root: Path, *arguments: str) -> str:
    run = subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True)
    return run.stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A small repository with one commit."""
    root = tmp_path / "repo"
    (root / "src" / "deep").mkdir(parents=True)
    (root / "src" / "main.c").write_text("int main(void)\n{\n\treturn needle_one();\n}\n")
    (root / "src" / "deep" / "other.c").write_text("needle_two\nnothing\nneedle_two again\n")
    (root / "readme.md").write_text("about needles: needle_one, needle_two\n")
    for number in range(40):
        (root / "src" / f"file{number:02}.txt").write_text(f"filler text number {number}\n" * 5)
    (root / ".gitignore").write_text("*.log\nbuild/\n")
    (root / "build").mkdir()
    (root / "build" / "made.c").write_text("needle_one in a build\n")
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    time.sleep(0.05)  # so that no file is racy when it is indexed
    return root


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache for each test: the commits of two tests may be the same, and bases are shared by commit."""
    monkeypatch.setenv("INDEXGREP_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def open_session() -> Iterator[Callable[..., Session]]:
    """Opens sessions, and closes them after the test."""
    opened: list[Session] = []

    def open_one(root: Path, *, build: bool = False, **options: bool) -> Session:
        session = Session.open(str(root), **options)
        opened.append(session)
        if build:
            session.build()
        return session

    yield open_one
    for session in opened:
        session.close()


def found(session: Session, pattern: str, **options: object) -> list[tuple[str, int]]:
    """Path and number of each matching line."""
    request = SearchRequest((pattern,), **options)  # type: ignore[arg-type]
    return [
        (file.path, line.number)
        for batch in session.search(request)
        for file in batch
        for line in file.lines
        if line.match
    ]
