"""Reading: what is no file, what cannot be read, and what is too large."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from indexgrep.match import Matcher, compile_request
from indexgrep.match.reading import MAX_SIZE, ReadFailure, read_file
from indexgrep.request import FileResult, SearchRequest
from support.privileges import unprivileged


def search(path: Path, **options: int) -> FileResult | None:
    request = SearchRequest(("needle",), **options)  # type: ignore[arg-type]
    return Matcher(compile_request(request), request).search_file(os.fsencode(path), "name")


@pytest.mark.parametrize("size", [0, 1, 4096, 1 << 20])
def test_whole_files(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * size)
    assert read_file(os.fsencode(path)) == b"x" * size


def test_relative_to_a_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        assert read_file(b"file", descriptor) == b"text"
    finally:
        os.close(descriptor)


def test_size_unknown_beforehand() -> None:
    """Files of /proc say they have no bytes."""
    if not os.path.exists("/proc/self/status"):
        pytest.skip("no /proc")
    assert b"Name:" in (read_file(b"/proc/self/status") or b"")


def test_special_files_never_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    assert search(tmp_path / "fifo") is None
    with socket.socket(socket.AF_UNIX) as server:
        here = os.getcwd()
        os.chdir(tmp_path)  # the path of a socket must be short
        try:
            server.bind("socket")
        finally:
            os.chdir(here)
        assert search(tmp_path / "socket") is None
    assert search(Path("/dev/null")) is None


def test_errors_are_worded_as_ripgrep_words_them(tmp_path: Path) -> None:
    assert search(tmp_path / "gone") == FileResult("name", error="No such file or directory (os error 2)")
    assert search(tmp_path) == FileResult("name", error="Is a directory (os error 21)")
    (tmp_path / "loop").symlink_to("loop")
    result = search(tmp_path / "loop")
    assert result is not None
    assert result.error is not None
    assert result.error.startswith("Too many levels of symbolic links (os error ")


def test_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(b"needle")
    path.chmod(0)
    with unprivileged(tmp_path):
        assert search(path) == FileResult("name", error="Permission denied (os error 13)")


def test_too_large(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    with open(path, "wb") as file:
        file.truncate(MAX_SIZE + 1)
    with pytest.raises(ReadFailure, match="too large"):
        read_file(os.fsencode(path))
    result = search(path)
    assert result is not None
    assert result.error is not None
    assert "too large" in result.error


def test_size_limit_of_the_request(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"needle\n")
    assert search(path, max_filesize=6) is None
    assert search(path, max_filesize=7) is not None


def test_a_file_that_is_named_has_no_size_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"needle\n")
    request = SearchRequest(("needle",), max_filesize=6)
    matcher = Matcher(compile_request(request), request)
    assert matcher.search_file(os.fsencode(path), "name", explicit=True) is not None
