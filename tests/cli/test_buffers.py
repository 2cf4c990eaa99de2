"""``--buffers``: unsaved text of other clients on the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from indexgrep.client import Client
from indexgrep.server import lifecycle


@pytest.fixture
def tree(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory with a server of its own, in which the test runs."""
    monkeypatch.setenv("INDEXGREP_RUNTIME_DIR", str(short_tmp / "run"))
    monkeypatch.setenv("INDEXGREP_CACHE_DIR", str(short_tmp / "cache"))
    monkeypatch.setenv("INDEXGREP_LOG", str(short_tmp / "log"))
    root = short_tmp / "tree"
    (root / ".git").mkdir(parents=True)
    (root / "a.c").write_text("foo on disk\n")
    (root / "b.c").write_text("foo on disk\n")
    monkeypatch.chdir(root)
    yield root
    lifecycle.stop_server(root)


@pytest.fixture
def editor(tree: Path) -> Iterator[Client]:
    """Another client, with unsaved buffers of a file, a new file and one in a new directory."""
    with Client(tree) as client:
        client.set_buffer("b.c", 1, b"bar\nfoo unsaved\n")
        client.set_buffer("new.c", 1, b"foo unsaved\n")
        client.set_buffer("dir/new.c", 1, b"foo unsaved\n")
        yield client


@pytest.mark.usefixtures("editor")
def test_whose_buffers_are_searched(cli: Callable[..., tuple[int, bytes, bytes]]) -> None:
    disk = (0, b"a.c:1:foo on disk\nb.c:1:foo on disk\n", b"")
    assert cli("-n", "foo") == cli("-n", "--buffers=none", "foo") == disk
    assert cli("-n", "--buffers", "own", "foo") == disk
    unsaved = b"a.c:1:foo on disk\nb.c:2:foo unsaved\ndir/new.c:1:foo unsaved\nnew.c:1:foo unsaved\n"
    assert cli("-n", "--buffers=all", "foo") == (0, unsaved, b"")
    assert cli("-c", "--buffers=all", "--include-zero", "bar")[1] == b"a.c:0\nb.c:1\ndir/new.c:0\nnew.c:0\n"
    assert b"DEBUG: buffers: 3\n" in cli("--debug", "--buffers=all", "foo").err  # type: ignore[attr-defined]


@pytest.mark.usefixtures("editor")
def test_a_path_may_be_in_a_buffer_only(cli: Callable[..., tuple[int, bytes, bytes]], tree: Path) -> None:
    assert cli("--buffers=all", "foo", "new.c") == (0, b"foo unsaved\n", b"")
    absolute = f"{tree}/new.c"
    assert cli("--buffers=all", "-H", "foo", absolute)[1] == f"{absolute}:foo unsaved\n".encode()
    both = b"dir/new.c:foo unsaved\na.c:foo on disk\n"
    for directory in ("dir", "dir/"):
        assert cli("--buffers=all", "foo", directory, "a.c") == (0, both, b"")
    assert cli("--buffers=all", "--root", str(tree), "-l", "foo", "dir/new.c", "./dir")[1] == (
        b"dir/new.c\n./dir/new.c\n"
    )
    code, out, err = cli("--buffers=all", "foo", "none.c", "new.c")
    assert (code, out) == (2, b"new.c:foo unsaved\n")
    assert err == b"indexgrep: none.c: No such file or directory (os error 2)\n"
    assert cli("foo", "new.c")[:2] == (2, b"")


@pytest.mark.usefixtures("editor")
def test_json_marks_what_is_unsaved(cli: Callable[..., tuple[int, bytes, bytes]]) -> None:
    messages = [json.loads(line) for line in cli("--json", "--buffers=all", "foo")[1].splitlines()]
    assert [message["data"] for message in messages if message["type"] == "begin"] == [
        {"path": {"text": "a.c"}},
        {"path": {"text": "b.c"}, "source": "buffer"},
        {"path": {"text": "dir/new.c"}, "source": "buffer"},
        {"path": {"text": "new.c"}, "source": "buffer"},
    ]
    matches = [message["data"] for message in messages if message["type"] == "match"]
    assert [sorted(match) for match in matches] == [
        ["absolute_offset", "line_number", "lines", "path", "submatches"]
    ] * 4


@pytest.mark.usefixtures("editor")
def test_explain_and_status_know_of_buffers(cli: Callable[..., tuple[int, bytes, bytes]]) -> None:
    assert json.loads(cli("explain", "--json", "--buffers=all", "foo")[1])["candidates"] == 4
    assert json.loads(cli("explain", "--json", "foo")[1])["candidates"] == 2
    assert b"unsaved:    3 buffers of 1 client, 40 B\n" in cli("status")[1]


def test_the_last_client_takes_its_buffers_along(
    cli: Callable[..., tuple[int, bytes, bytes]], editor: Client
) -> None:
    editor.close()
    assert b"unsaved:    no buffers\n" in cli("status")[1]
    assert cli("--buffers=all", "unsaved")[0] == 1


def test_without_a_server_there_are_no_buffers(
    cli: Callable[..., tuple[int, bytes, bytes]], tree: Path
) -> None:
    code, out, err = cli("--no-server", "--buffers=all", "foo")
    assert (code, out) == (2, b"")
    assert err.startswith(b"indexgrep: --buffers=all needs a server")
    assert cli("--no-server", "--buffers=own", "-l", "foo") == (0, b"a.c\nb.c\n", b"")


def test_no_answer_without_the_buffers_that_were_asked_for(
    cli: Callable[..., tuple[int, bytes, bytes]], tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no server can be had, a search goes on without one, but not with ``--buffers=all``."""
    with monkeypatch.context() as changed:
        changed.setenv("INDEXGREP_RUNTIME_DIR", str(tree.parent / ("x" * 100)))
        assert cli("-l", "foo")[:2] == (0, b"a.c\nb.c\n")
        assert cli("-l", "--buffers=all", "foo")[:2] == (2, b"")


def test_other_values_are_refused(cli: Callable[..., tuple[int, bytes, bytes]]) -> None:
    assert cli("--buffers=mine", "foo") == (
        2,
        b"",
        b"indexgrep: error parsing flag --buffers: choice 'mine' is unrecognized\n",
    )
