"""A cache that cannot be written, or that is gone: answers stay right, and all is well again once it can."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from indexgrep.client import Client
from indexgrep.errors import IndexFault
from model.tree import WORDS
from support.failing import refusing_changes
from support.forked_server import forked_server
from support.privileges import bound_by_permissions

from .actions import ACTIONS, NAMES, Action, maintained
from .server_kills import asked
from .world import LOW, World, restore


@pytest.mark.parametrize("prepare", ACTIONS, ids=lambda action: action.__name__)
def test_no_space_from_any_change_on(
    world: World, cache: Path, tmp_path: Path, prepare: Callable[[World], Action]
) -> None:
    act = prepare(world)
    pristine = tmp_path / "pristine"
    if cache.exists():
        shutil.copytree(cache, pristine)
    expected = world.expected()
    allowed = 0
    while True:
        restore(cache, pristine)
        with refusing_changes(cache, allowed, errno.ENOSPC) as refusal:
            session = world.session()
            with contextlib.suppress(IndexFault):
                act(session)
            world.check(session, expected)
        if not refusal.refused:
            break
        world.settle(session)
        world.check(session, expected)
        if world.leftovers():  # which is for the next builder to remove
            session.build(force=True)
        session.close()
        assert world.leftovers() == [], f"refused after {allowed} changes"
        allowed += 1
    assert allowed >= 3


@pytest.mark.parametrize("size", [0, 100, 600, 1000, 2000, 5000])
def test_files_that_may_not_grow(world: World, size: int) -> None:
    session = world.session()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        with contextlib.suppress(IndexFault):
            session.build()
            world.edit(*NAMES[:4])
            maintained(session)
        world.check(session)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    world.settle(session)
    world.check(session)
    session.close()
    assert world.leftovers() == []


@pytest.fixture
def small_disk(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file system of 64 KiB for the cache."""
    disk = short_tmp / "disk"
    disk.mkdir()
    mounting = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(disk)]
    try:
        subprocess.run(mounting, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs the right to mount a file system")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_full_disk(small_disk: Path, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDEXGREP_CACHE_DIR", str(small_disk / "cache"))
    ballast = small_disk / "ballast"
    filled = 0
    with open(ballast, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            filled += file.write(b"x" * 4096)
    session = world.session()
    refused: list[IndexFault] = []
    while True:
        try:
            session.build(force=True)
            break
        except IndexFault as error:
            refused.append(error)
        world.check(session)
        filled -= 4096
        os.truncate(ballast, filled)
    assert all("No space left" in error.message for error in refused)
    assert all("INDEXGREP_CACHE_DIR" in error.hint for error in refused)
    assert len(refused) > 1
    world.check(session)
    for number in range(6):  # what is left is soon too little again
        world.edit(*NAMES[number : number + 4])
        with contextlib.suppress(IndexFault):
            maintained(session)
        world.check(session)
    session.close()
    ballast.unlink()
    session = world.session()
    world.check(session)
    world.settle(session)
    world.check(session)
    session.close()


def test_a_server_on_a_full_disk(small_disk: Path, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDEXGREP_CACHE_DIR", str(small_disk / "cache"))
    ballast = small_disk / "ballast"
    with open(ballast, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"x" * 4096)
    with forked_server(world.tree.root, LOW) as server, Client(world.tree.root, start=False) as client:
        with pytest.raises(IndexFault, match="No space left"):
            client.index()
        for word in WORDS:
            asked(world.oracle, client, word)
        assert "No space left" in client.status()["index"]["fault"]
        ballast.unlink()
        client.index()
        assert client.status()["index"]["state"] == "ready"
        for word in WORDS:
            asked(world.oracle, client, word)
        assert not server.ended()


def test_a_cache_that_may_only_be_read(world: World, cache: Path) -> None:
    session = world.session()
    session.build()
    session.close()
    with bound_by_permissions() as bound:
        if not bound:
            pytest.skip("root cannot be bound by permissions here")
        for directory in (cache, *cache.rglob("")):
            directory.chmod(0o500)
        try:
            session = world.session()
            world.check(session)
            assert world.tally.ruled_out
            world.edit(*NAMES[:4])
            with pytest.raises(IndexFault, match="Permission denied"):
                maintained(session)
            with pytest.raises(IndexFault, match="Permission denied") as caught:
                session.build(force=True)
            assert "INDEXGREP_CACHE_DIR" in caught.value.hint
            world.check(session)
            for name in NAMES:
                world.tree.touch(name, -100)
            world.age()
            with contextlib.suppress(IndexFault):  # adopted all the same, and not written down
                maintained(session)
            world.check(session)
            session.close()
        finally:
            for directory in (cache, *cache.rglob("")):
                directory.chmod(0o700)
    session = world.session()
    world.settle(session)
    world.check(session)
    session.close()
    assert world.leftovers() == []


@pytest.mark.parametrize("prepare", ACTIONS, ids=lambda action: action.__name__)
@pytest.mark.parametrize("part", ["cache", "repository", "indexes"])
def test_a_cache_that_is_removed_under_a_session(
    world: World, cache: Path, prepare: Callable[[World], Action], part: str
) -> None:
    act = prepare(world)
    session = world.session()
    session.status()
    for path in {"cache": [cache], "repository": cache.glob("repos/*"), "indexes": cache.glob("repos/*/*/")}[
        part
    ]:
        shutil.rmtree(path, ignore_errors=True)  # before the first build there is none
    world.check(session)
    with contextlib.suppress(IndexFault):
        act(session)
    world.check(session)
    world.settle(session)
    world.check(session)
    world.edit(*NAMES[:4])
    world.settle(session)
    world.check(session)
    session.close()
    again = world.session()
    world.check(again)
    assert again.status()["index"]["state"] == "ready"
    again.close()
    assert world.leftovers() == []
