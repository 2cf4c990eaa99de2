"""Where things are kept: private, and told apart by what they belong to."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from indexgrep import runtime
from indexgrep.errors import IndexGrepError


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_every_directory_that_is_made_is_private(tmp_path: Path) -> None:
    old = os.umask(0o022)
    try:
        runtime.private_dir(tmp_path / "a" / "b" / "c")
    finally:
        os.umask(old)
    assert [mode(tmp_path / name) for name in ("a", "a/b", "a/b/c")] == [0o700] * 3
    runtime.private_dir(tmp_path / "a" / "b" / "c")


def test_a_runtime_directory_that_others_may_enter_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INDEXGREP_RUNTIME_DIR", str(tmp_path / "run"))
    assert runtime.runtime_dir() == tmp_path / "run"
    (tmp_path / "run").chmod(0o750)
    with pytest.raises(IndexGrepError, match="not private") as caught:
        runtime.runtime_dir()
    assert "chmod 700" in caught.value.hint


def test_every_spelling_of_a_root_has_one_key(tmp_path: Path) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "link").symlink_to("tree")
    key = runtime.root_key(tmp_path / "tree")
    assert key == runtime.root_key(tmp_path / "link") == runtime.root_key(f"{tmp_path}/./tree/")
    assert key != runtime.root_key(tmp_path)


def test_a_socket_path_that_is_too_long_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDEXGREP_RUNTIME_DIR", str(tmp_path / ("x" * 100)))
    with pytest.raises(IndexGrepError, match="too long"):
        runtime.socket_path(tmp_path)
