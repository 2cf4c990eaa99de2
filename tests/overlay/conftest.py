"""Repositories whose layers are watched, with thresholds so low that a few files are many."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from indexgrep.overlay.policy import Policy
from indexgrep.request import SearchRequest, Summary
from indexgrep.search import Session
from support.oracle import ask_ripgrep, difference, records

#: Two hot files are left alone, three are not.
LOW = Policy(hot_files=2, segments=2, segment_files=10, segment_share=0.3, rebuild_files=10, rest=0.0)


def git(root: Path, *arguments: str) -> str:
    run = subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True)
    return run.stdout.strip()


def age() -> None:
    """Wait until no file that exists now is racy."""
    time.sleep(0.05)


def write(root: Path, *names: str, text: str = "text of {} needle") -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.format(name) + "\n")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository of twenty files and two commits, the second of which changes five."""
    root = tmp_path / "tree"
    write(root, *(f"src/file{number:02}.txt" for number in range(20)))
    git(root.parent, "init", "-q", str(root))
    git(root, "add", "-A")
    git(root, "commit", "-qm", "first")
    git(root, "checkout", "-qb", "other")
    write(root, *(f"src/file{number:02}.txt" for number in range(5)), text="other {} haystack")
    git(root, "commit", "-qam", "second")
    git(root, "checkout", "-q", "main")
    age()
    return root


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache for each test: the commits of two tests may be the same, and bases are shared by commit."""
    monkeypatch.setenv("INDEXGREP_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def open_session() -> Iterator[Callable[..., Session]]:
    """Opens sessions, and closes them after the test."""
    opened: list[Session] = []

    def open_one(root: Path, *, build: bool = False, **options: object) -> Session:
        session = Session.open(str(root), **{"policy": LOW, **options})
        opened.append(session)
        if build:
            session.build()
        return session

    yield open_one
    for session in opened:
        session.close()


def settle(session: Session) -> int:
    """Run maintenance until there is nothing to do; the number of its steps."""
    session.status()
    steps = 0
    while session.maintain():
        steps += 1
        assert steps < 20, "maintenance does not come to an end"
        session.status()
    return steps


def layers(session: Session) -> list[tuple[str, int]]:
    """Kind and live documents of each layer, newest first."""
    return [(layer["kind"], layer["live"]) for layer in session.status()["index"].get("layers", [])]


def ask(session: Session, pattern: str, **options: object) -> Summary:
    """Search; the summary of the answer."""
    search = session.search(SearchRequest((pattern,), **options))  # type: ignore[arg-type]
    for _ in search:
        pass
    return search.summary


def agree(session: Session, rg: str, root: Path) -> None:
    """Assert that answers are ripgrep's."""
    for pattern in ("needle", "haystack", r"file\d+", "^text of", "new thing", r"\w+"):
        request = SearchRequest((pattern,))
        assert difference(records(session.search(request)), ask_ripgrep(rg, root, request)) == ""
