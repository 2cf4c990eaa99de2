"""The helper that kills processes at their changes misses none of them."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from support.crash import killed_at, kills


def state(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else b"/"
        for path in sorted(folder.rglob("*"))
    }


def test_each_state_between_two_changes_is_seen(tmp_path: Path) -> None:
    work, elsewhere = tmp_path / "work", tmp_path / "elsewhere"

    def prepare() -> None:
        for folder in (work, elsewhere):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        (work / "old").write_bytes(b"old")

    def action() -> None:
        (work / "folder").mkdir()
        (elsewhere / "file").write_bytes(b"does not count")
        descriptor = os.open(work, os.O_RDONLY)
        new = os.open("new", os.O_WRONLY | os.O_CREAT, dir_fd=descriptor)
        os.write(new, b"ne")
        os.write(new, b"w")
        os.close(new)
        assert (work / "old").read_bytes() == b"old"  # reading is no change
        thread = threading.Thread(target=os.rename, args=(work / "new", work / "folder" / "new"))
        thread.start()
        thread.join()
        shutil.rmtree(work / "folder")
        os.utime(work / "old", (1, 1))
        with open(work / "old", "r+b") as file:
            file.truncate(1)

    seen = [
        state(work) | {"mtime": b"%d" % (work / "old").stat().st_mtime}
        for _ in kills(action, below=work, prepare=prepare)
    ]
    distinct = [now for now, before in zip(seen, [None, *seen], strict=False) if now != before]
    for now in distinct:
        if now["mtime"] != b"1":
            now["mtime"] = b"now"
    assert distinct == [
        {"old": b"old", "mtime": b"now"},
        {"old": b"old", "folder": b"/", "mtime": b"now"},
        {"old": b"old", "folder": b"/", "new": b"", "mtime": b"now"},
        {"old": b"old", "folder": b"/", "new": b"ne", "mtime": b"now"},
        {"old": b"old", "folder": b"/", "new": b"new", "mtime": b"now"},
        {"old": b"old", "folder": b"/", "folder/new": b"new", "mtime": b"now"},
        {"old": b"old", "folder": b"/", "mtime": b"now"},
        {"old": b"old", "mtime": b"now"},
        {"old": b"old", "mtime": b"1"},
    ]
    assert state(work) == {"old": b"o"}


@pytest.mark.parametrize("failure", [lambda: 1 / 0, lambda: os._exit(3)])
def test_an_action_that_fails_is_told_from_one_that_is_killed(
    tmp_path: Path, failure: Callable[[], object]
) -> None:
    with pytest.raises(AssertionError, match="failed with status"):
        killed_at(failure, 1, below=tmp_path)
    assert not killed_at(lambda: None, 1, below=tmp_path)
    assert killed_at(lambda: (tmp_path / "folder").mkdir(), 1, below=tmp_path)
    assert not killed_at(lambda: (tmp_path / "folder").mkdir(), 2, below=tmp_path)
    assert (tmp_path / "folder").is_dir()
