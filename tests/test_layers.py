"""Imports point one way, and what must be light stays light."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]

#: What a process that only talks to the server must not pay for.
HEAVY = ("numpy", "numba", "llvmlite", "pygit2", "regex", "paula", "asyncio", "multiprocessing")


def _modules_after(statement: str) -> set[str]:
    """Names of all modules loaded in a fresh interpreter once it has run ``statement``."""
    code = f"{statement}\nimport json, sys; print(json.dumps(sorted(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return set(json.loads(run.stdout.splitlines()[-1]))


def test_imports_point_one_way() -> None:
    run = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("module", ["indexgrep", "indexgrep.client", "indexgrep.cli", "indexgrep.request"])
def test_a_client_process_is_light(module: str) -> None:
    loaded = _modules_after(f"import {module}")
    assert not loaded.intersection(HEAVY)


def test_the_engine_imports_no_compiler() -> None:
    """numba costs a quarter of a second and 65 MB: only processes that extract in bulk pay for it."""
    loaded = _modules_after("import indexgrep.search, indexgrep.server")
    assert not loaded.intersection({"numba", "llvmlite"})
