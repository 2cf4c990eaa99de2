"""The corpora of the differential tests, and sessions over them with an index built once."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from indexgrep.search import Session
from support.hostile import build_hostile


def git(root: Path, *arguments: str) -> str:
    """What git prints; raises where it fails."""
    run = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True)
    return run.stdout


def _standard_library(destination: Path) -> Path:
    """A committed copy of this Python's standard library, without installed and compiled files."""
    unwanted = shutil.ignore_patterns("site-packages", "__pycache__", "*.a", "*.o")
    shutil.copytree(sysconfig.get_path("stdlib"), destination, ignore=unwanted, symlinks=True)
    git(destination, "init", "--quiet")
    git(destination, "add", "--all", "--force")
    git(destination, "commit", "--quiet", "--message", "standard library")
    return destination


@pytest.fixture(scope="session")
def stdlib(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python standard library as a clean repository. Not to be changed."""
    return _standard_library(tmp_path_factory.mktemp("corpus") / "stdlib")


@pytest.fixture(scope="session")
def stdlib_session(stdlib: Path) -> Iterator[Session]:
    session = Session.open(str(stdlib))
    session.build()
    yield session
    session.close()


@pytest.fixture(scope="session")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The hostile repository. Not to be changed."""
    return build_hostile(tmp_path_factory.mktemp("hostile"))


@pytest.fixture(scope="session")
def hostile_session(hostile: Path) -> Iterator[Session]:
    session = Session.open(str(hostile))
    session.build()
    yield session
    session.close()


@pytest.fixture(scope="session")
def sources(stdlib: Path) -> list[str]:
    """The Python sources of the corpus, sorted: what patterns are cut out of."""
    return sorted(name for name in git(stdlib, "ls-files", "-z").split("\0") if name.endswith(".py"))
