"""The directory traversal while the tree changes under it."""

from __future__ import annotations

import os
from pathlib import Path

from indexgrep.tree.ignore import IgnoreContext, IgnoreOptions, IgnoreReader
from indexgrep.tree.traverse import Selection, Traversal


def test_files_that_are_none_any_more_when_their_turn_comes(short_tmp: Path) -> None:
    for name in ("gone", "linked", "piped", "stays", "z-last"):
        (short_tmp / name).write_text("text\n")

    def change(directory: bytes, context: IgnoreContext, other: set[bytes], shut: set[bytes]) -> None:
        """Between listing and looking at what was listed."""
        for name in ("gone", "linked", "piped"):
            (short_tmp / name).unlink()
        (short_tmp / "linked").symlink_to("stays")
        os.mkfifo(short_tmp / "piped")

    top = os.fsencode(short_tmp)
    reader = IgnoreReader(IgnoreOptions(), top)
    traversal = Traversal(reader, Selection(), want_status=True, on_listed=change)
    (run,) = traversal.run(top, IgnoreContext())
    assert run.names == [b"stays", b"z-last"]
    assert [status.st_size for status in run.statuses] == [5, 5]
    assert traversal.errors == []


def test_what_is_no_file_takes_none_of_its_neighbours_along(short_tmp: Path) -> None:
    (short_tmp / "a").write_text("a\n")
    (short_tmp / "b").write_text("bb\n")

    def change(directory: bytes, context: IgnoreContext, other: set[bytes], shut: set[bytes]) -> None:
        (short_tmp / "a").unlink()
        os.mkfifo(short_tmp / "a")

    top = os.fsencode(short_tmp)
    traversal = Traversal(IgnoreReader(IgnoreOptions(), top), Selection(), want_status=True, on_listed=change)
    (run,) = traversal.run(top, IgnoreContext())
    assert (run.names, [status.st_size for status in run.statuses]) == ([b"b"], [3])
