"""Stamps are kept or lost, never wrong, and never an error to who reads them."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from indexgrep.index import Index
from indexgrep.index.builder import build
from indexgrep.index.stamps import KEPT, read_stamps, stamps_path, tidy, write_stamps
from indexgrep.tree.signature import SIGNATURE
from support.indexing import write_files

KEY = "0123456789abcdef"


@pytest.fixture
def index(tmp_path: Path, build_here: None) -> Index:
    """An index of ten files, without stamps."""
    return built(tmp_path, "index")


def built(directory: Path, name: str, **changed: bytes) -> Index:
    files = {b"%d" % number: b"text %d" % number for number in range(10)}
    files |= {path.encode(): content for path, content in changed.items()}
    shutil.rmtree(directory / "root", ignore_errors=True)
    build(str(directory / "root"), write_files(directory / "root", files), directory / name)
    return Index(directory / name)


def some_stamps(seed: int = 1) -> npt.NDArray[np.void]:
    return np.frombuffer(np.random.default_rng(seed).bytes(10 * SIGNATURE.itemsize), SIGNATURE)


def kept(index: Index, key: str = KEY) -> bytes | None:
    found = read_stamps(index.directory, key, index)
    return None if found is None else found.tobytes()


def test_each_worktree_has_its_own(index: Index) -> None:
    assert kept(index) is None
    first, second = some_stamps(1), some_stamps(2)
    write_stamps(index.directory, KEY, index.identity, first)
    write_stamps(index.directory, "b", index.identity, second)
    assert (kept(index), kept(index, "b"), kept(index, "c")) == (first.tobytes(), second.tobytes(), None)
    write_stamps(index.directory, KEY, index.identity, second)
    assert kept(index) == second.tobytes()
    assert stat.S_IMODE(os.stat(stamps_path(index.directory, KEY)).st_mode) == 0o600
    assert sorted(os.listdir(index.directory)) == ["lookup", "postings", f"stamps-{KEY}", "stamps-b"]


def test_those_of_no_documents(tmp_path: Path, build_here: None) -> None:
    build(str(tmp_path), [], tmp_path / "index", stamps_key=KEY)
    assert kept(Index(tmp_path / "index")) == b""


def test_any_changed_byte_loses_them(index: Index) -> None:
    write_stamps(index.directory, KEY, index.identity, some_stamps())
    path = stamps_path(index.directory, KEY)
    whole = path.read_bytes()
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= 1 + place % 255
        path.write_bytes(changed)
        assert kept(index) is None, place
    path.write_bytes(whole)
    assert kept(index) is not None


def test_cut_extended_and_emptied_ones_are_lost(index: Index) -> None:
    write_stamps(index.directory, KEY, index.identity, some_stamps())
    path = stamps_path(index.directory, KEY)
    whole = path.read_bytes()
    for content in [whole[:size] for size in range(len(whole))] + [
        whole + b"\0",
        whole * 2,
        bytes(len(whole)),
    ]:
        path.write_bytes(content)
        assert kept(index) is None


def test_those_of_another_worktree_are_not_taken(index: Index) -> None:
    write_stamps(index.directory, KEY, index.identity, some_stamps())
    shutil.copy(stamps_path(index.directory, KEY), stamps_path(index.directory, "b"))
    assert kept(index, "b") is None


@pytest.mark.parametrize("changed", [{"3": b"text 4"}, {"3": b"text 03"}])
def test_those_of_another_index_are_not_taken(
    tmp_path: Path, index: Index, changed: dict[str, bytes]
) -> None:
    """It has as many documents, of the same paths."""
    write_stamps(index.directory, KEY, index.identity, some_stamps())
    other = built(tmp_path, "other", **changed)
    assert other.identity != index.identity
    shutil.copy(stamps_path(index.directory, KEY), other.directory)
    assert kept(other) is None


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, lambda path: path.symlink_to(path.name)])
def test_what_is_no_file_is_no_error(index: Index, make: Callable[[Path], None]) -> None:
    """Nor is it waited for: a FIFO has no writer."""
    make(stamps_path(index.directory, KEY))
    assert kept(index) is None


def test_those_of_an_index_that_took_the_place_are_left_alone(tmp_path: Path, index: Index) -> None:
    now = built(tmp_path, "index", **{"3": b"other"})
    write_stamps(index.directory, KEY, now.identity, some_stamps(2))
    with pytest.raises(OSError, match="replaced") as caught:
        write_stamps(index.directory, KEY, index.identity, some_stamps(1))
    assert caught.value.errno == errno.ESTALE
    assert kept(now) == some_stamps(2).tobytes()
    assert kept(index) is None
    with pytest.raises(OSError, match="replaced"):
        write_stamps(now.directory, KEY, now.identity, some_stamps()[:9])
    with open(now.directory / "postings", "r+b") as file:
        file.write(b"damage")
    with pytest.raises(OSError, match="replaced"):
        write_stamps(now.directory, KEY, now.identity, some_stamps())
    assert len(os.listdir(now.directory)) == 3


def test_an_index_that_was_removed_cannot_take_any(index: Index) -> None:
    shutil.rmtree(index.directory)
    with pytest.raises(FileNotFoundError):
        write_stamps(index.directory, KEY, index.identity, some_stamps())
    assert kept(index) is None


def test_a_write_that_fails_leaves_the_old_ones_and_nothing_else(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_stamps(index.directory, KEY, index.identity, some_stamps(1))
    before = sorted(os.listdir(index.directory))

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", fail)
        with pytest.raises(OSError, match="No space"):
            write_stamps(index.directory, KEY, index.identity, some_stamps(2))
    assert kept(index) == some_stamps(1).tobytes()
    assert sorted(os.listdir(index.directory)) == before


def test_what_killed_writers_left_is_removed_and_one_at_work_is_not_disturbed(index: Index) -> None:
    write_stamps(index.directory, KEY, index.identity, some_stamps())
    abandoned = index.directory / f"stamps-{KEY}.tmp-00"
    abandoned.write_bytes(b"of a writer that was killed")
    at_work = index.directory / f"stamps-{KEY}.tmp-01"
    with open(at_work, "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        tidy(index.directory)
    assert sorted(os.listdir(index.directory)) == ["lookup", "postings", f"stamps-{KEY}", at_work.name]
    tidy(index.directory)
    assert sorted(os.listdir(index.directory)) == ["lookup", "postings", f"stamps-{KEY}"]
    assert kept(index) is not None
    shutil.rmtree(index.directory)
    tidy(index.directory)


def test_a_writer_locks_what_it_writes(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that tidying in another process tells it from what a killed one left."""
    rename = os.rename

    def tidied_before(*arguments: str, **options: int) -> None:
        tidy(index.directory)
        rename(*arguments, **options)

    monkeypatch.setattr(os, "rename", tidied_before)
    write_stamps(index.directory, KEY, index.identity, some_stamps())
    assert kept(index) == some_stamps().tobytes()


def test_the_stamps_of_worktrees_that_do_not_come_again_go(index: Index) -> None:
    for number in range(KEPT + 3):
        write_stamps(index.directory, f"{number:02}", index.identity, some_stamps())
        os.utime(stamps_path(index.directory, f"{number:02}"), (number, number))
    assert kept(index, "01") is not None  # which makes them the most recently used
    tidy(index.directory)
    gone = {number for number in range(KEPT + 3) if not stamps_path(index.directory, f"{number:02}").exists()}
    assert gone == {0, 2, 3}


@pytest.mark.parametrize("key", ["", "..", "a/b", "a.tmp-1", "a\n"])
def test_keys_that_could_lead_elsewhere_are_refused(index: Index, key: str) -> None:
    with pytest.raises(ValueError, match="not a key"):
        read_stamps(index.directory, key, index)
    with pytest.raises(ValueError, match="not a key"):
        write_stamps(index.directory, key, index.identity, some_stamps())
