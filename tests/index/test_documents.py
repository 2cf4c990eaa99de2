"""Which files get a signature with their text, so that the index may stand for them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
import xxhash

from indexgrep.index.documents import TextBuffer
from indexgrep.tree.signature import NO_SIGNATURE, signature_of


def test_a_file_at_rest_has_its_signature(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"text")
    time.sleep(0.05)
    text = TextBuffer(100).read(os.fsencode(tmp_path / "file"))
    assert (text.size, text.signature) == (4, signature_of((tmp_path / "file").stat()))


def test_a_file_that_may_change_unseen_is_indexed_without_one(tmp_path: Path) -> None:
    """Its time stamp is not older than the moment it is read: here, since it lies in the future."""
    (tmp_path / "file").write_bytes(b"text")
    future = time.time_ns() + 3_600_000_000_000
    os.utime(tmp_path / "file", ns=(future, future))
    text = TextBuffer(100).read(os.fsencode(tmp_path / "file"))
    assert (text.size, text.flags, text.signature) == (4, 0, NO_SIGNATURE)


@pytest.mark.parametrize(
    "raw",
    [b"", b"text", b"\xef\xbb\xbfwith a mark", "wide".encode("utf-16"), b"nul \0 in it", b"\xff\xfeodd"],
)
def test_the_content_id_is_of_the_raw_bytes(tmp_path: Path, raw: bytes) -> None:
    """Not of the text that is indexed: files with one text are different files."""
    (tmp_path / "file").write_bytes(raw)
    assert TextBuffer(100).read(os.fsencode(tmp_path / "file")).content == xxhash.xxh3_128_digest(raw)
    assert TextBuffer(100).append(raw).content == xxhash.xxh3_128_digest(raw)
