"""Stamps are kept or lost, never wrong."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pytest

from indexgrep.index import Index
from indexgrep.index.builder import build
from indexgrep.index.stamps import read_stamps, remove_unfinished, stamps_path, write_stamps
from indexgrep.tree.signature import SIGNATURE

SIGNATURES = np.array([(1, 2, 3, 4, 5), (6, 7, 8, 9, 10)], SIGNATURE)


@pytest.fixture
def index(tmp_path: Path) -> Index:
    return built(tmp_path, "one")


def built(directory: Path, text: str) -> Index:
    for name in ("a", "b"):
        (directory / name).write_text(text)
    build(str(directory), [b"a", b"b"], directory / f"index-{text}")
    return Index(directory / f"index-{text}")


def test_they_come_back(index: Index) -> None:
    assert read_stamps(index.directory, "key", index) is None
    write_stamps(index.directory, "key", index.identity, SIGNATURES)
    found = read_stamps(index.directory, "key", index)
    assert found is not None
    assert (found == SIGNATURES).all()
    assert read_stamps(index.directory, "other", index) is None
    assert stat.S_IMODE(os.stat(stamps_path(index.directory, "key")).st_mode) == 0o600


def test_every_damage_loses_them(index: Index) -> None:
    write_stamps(index.directory, "key", index.identity, SIGNATURES)
    path = stamps_path(index.directory, "key")
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at])
        assert read_stamps(index.directory, "key", index) is None
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert read_stamps(index.directory, "key", index) is None
    path.write_bytes(whole + b"\0")
    assert read_stamps(index.directory, "key", index) is None


def test_those_of_another_index_do_not_count(index: Index, tmp_path: Path) -> None:
    other = built(tmp_path, "two")
    assert other.identity != index.identity
    write_stamps(index.directory, "key", other.identity, SIGNATURES)
    assert read_stamps(index.directory, "key", index) is None
    assert read_stamps(index.directory, "key", other) is not None


def test_a_write_that_fails_leaves_the_old_ones_and_nothing_else(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_stamps(index.directory, "key", index.identity, SIGNATURES)
    before = sorted(os.listdir(index.directory))
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
        with pytest.raises(OSError, match="disk full"):
            write_stamps(index.directory, "key", index.identity, SIGNATURES[::-1])
    assert sorted(os.listdir(index.directory)) == before
    found = read_stamps(index.directory, "key", index)
    assert found is not None
    assert (found == SIGNATURES).all()
    (index.directory / ".stamps-key.00").write_bytes(b"of a writer that was killed")
    remove_unfinished(index.directory)
    assert sorted(os.listdir(index.directory)) == before
