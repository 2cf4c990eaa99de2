"""Worlds of small trees, with caches and sockets of their own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from indexgrep.index import Workers, worker
from indexgrep.runtime import cache_dir
from support.indexing import WorkersHere

from .world import World


@pytest.fixture
def real_world(short_tmp: Path, rg: str, monkeypatch: pytest.MonkeyPatch) -> World:
    """See ``World``. Builds use processes, as ever."""
    monkeypatch.setenv("INDEXGREP_CACHE_DIR", str(short_tmp / "cache"))
    monkeypatch.setenv("INDEXGREP_RUNTIME_DIR", str(short_tmp / "run"))
    monkeypatch.setenv("INDEXGREP_LOG", str(short_tmp / "log"))
    return World(short_tmp, rg)


@pytest.fixture
def world(real_world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """See ``World``. Builds run in this process and in what is forked from it, and are not synced."""
    monkeypatch.setattr(Workers, "job", WorkersHere.job)
    monkeypatch.setattr(worker, "TABLE_BITS", 17)  # less memory to fill, as with the next
    monkeypatch.setattr(worker, "RUN_POSTINGS", 1 << 17)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    return real_world


@pytest.fixture
def cache(real_world: World) -> Path:
    return cache_dir()
