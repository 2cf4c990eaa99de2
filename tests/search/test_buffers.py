"""Unsaved buffers stand for their files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from indexgrep.match.engine import Timeout
from indexgrep.overlay.buffers import Buffer, Snapshot
from indexgrep.request import FileResult, SearchRequest, Summary
from indexgrep.search import Session

from .conftest import found


def snapshot(**texts: str) -> Snapshot:
    """Buffers by path; ``__`` stands for a slash and ``_`` for a dot."""
    paths = {name.replace("__", "/").replace("_", "."): text for name, text in texts.items()}
    return {
        path.encode(): Buffer(path.encode(), 1, text.encode(), number)
        for number, (path, text) in enumerate(paths.items())
    }


def asked(
    session: Session, pattern: str, buffers: Snapshot, **options: object
) -> tuple[list[FileResult], Summary]:
    search = session.search(SearchRequest((pattern,), **options), buffers=buffers)  # type: ignore[arg-type]
    return [file for batch in search for file in batch], search.summary


def test_a_buffer_stands_for_its_file(repository: Path, open_session: Callable[..., Session]) -> None:
    session = open_session(repository, build=True)
    buffers = snapshot(src__main_c="nothing of that\nneedle_new\n", src__added_c="needle_one\n")
    files, summary = asked(session, "needle_(one|new)", buffers)
    assert [(file.path, file.source, [line.number for line in file.lines]) for file in files] == [
        ("readme.md", "disk", [1]),
        ("src/added.c", "buffer", [1]),
        ("src/main.c", "buffer", [2]),
    ]
    assert (summary.buffers, summary.candidates, summary.served_by) == (2, 3, "index")
    assert found(session, "needle_(one|new)") == [("readme.md", 1), ("src/main.c", 3)]
    plain = asked(session, "needle_one", {})[1]
    assert summary.documents == plain.documents + 1


def test_the_text_on_disk_of_a_buffer_is_never_a_candidate(
    repository: Path, open_session: Callable[..., Session]
) -> None:
    session = open_session(repository, build=True)
    buffers = snapshot(src__main_c="", readme_md="")
    assert asked(session, "needle_one", buffers)[0] == []
    request = SearchRequest(("needle_one",))
    assert session.explain(request, buffers)["candidates"] == 2


@pytest.mark.parametrize("no_index", [False, True], ids=["index", "scan"])
def test_ignored_buffers_are_searched_only_when_asked_for(
    repository: Path, open_session: Callable[..., Session], no_index: bool
) -> None:
    session = open_session(repository, build=True)
    buffers = snapshot(build__made_c="needle_new\n", x_log="needle_new\n", _hidden="needle_new\n")

    def paths(**options: object) -> list[str]:
        return [file.path for file in asked(session, "needle_new", buffers, no_index=no_index, **options)[0]]

    assert paths() == []
    assert paths(no_ignore=True) == ["build/made.c", "x.log"]
    assert paths(no_ignore=True, hidden=True) == [".hidden", "build/made.c", "x.log"]
    assert paths(globs=("*.log",)) == ["x.log"]
    assert paths(paths=("build",)) == ["build/made.c"]
    assert paths(paths=("build/made.c", "x.log")) == ["build/made.c", "x.log"]


def test_what_no_buffer_makes_is_still_missing(
    repository: Path, open_session: Callable[..., Session]
) -> None:
    session = open_session(repository)
    buffers = snapshot(new__deep__a_c="needle_new\n")
    wanted = ("no\0name", "none", "n" * 5000, "readme.md/x", "new/deep/a.c/x", "new/deep", "new/deep/a.c")
    files, summary = asked(session, "needle_new", buffers, paths=wanted)
    assert [(file.path[:20], file.error) for file in files] == [
        ("no\0name", "Invalid argument (os error 22)"),
        ("none", "No such file or directory (os error 2)"),
        ("n" * 20, "File name too long (os error 36)"),
        ("readme.md/x", "Not a directory (os error 20)"),
        ("new/deep/a.c/x", "No such file or directory (os error 2)"),
        ("new/deep/a.c", None),
        ("new/deep/a.c", None),
    ]
    assert (summary.buffers, summary.documents, summary.errors) == (1, 2, 5)


@pytest.mark.parametrize("limit", range(5))
def test_a_limit_counts_the_lines_of_buffers(
    repository: Path, open_session: Callable[..., Session], limit: int
) -> None:
    session = open_session(repository, build=True)
    buffers = snapshot(a_txt="needle_one\nneedle_one\n", src__main_c="needle_one\n")
    files, summary = asked(session, "needle_one", buffers, limit=limit)
    assert [(file.path, len(file.lines)) for file in files] == (
        [[], [("a.txt", 1)], [("a.txt", 2)]][limit]
        if limit < 3
        else [("a.txt", 2), ("readme.md", 1), ("src/main.c", 1)][: limit - 1]
    )
    assert summary.complete == (limit == 4)


def test_a_buffer_without_a_file_that_takes_too_long_is_an_error(
    repository: Path, open_session: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has no file to have vanished."""
    session = open_session(repository)

    def give_up(*arguments: object) -> None:
        raise Timeout

    monkeypatch.setattr("indexgrep.match.matcher.Matcher._search", give_up)
    files, summary = asked(session, "needle_one", snapshot(new_txt="needle_one\n"), globs=("new*",))
    assert [file.path for file in files] == ["new.txt"]
    assert files[0].error == "the pattern took too long on this file"
    assert summary.errors == 1


@pytest.mark.parametrize("depth", [1, 900, 2000])
def test_a_path_as_long_as_paths_can_be(
    repository: Path, open_session: Callable[..., Session], depth: int
) -> None:
    session = open_session(repository)
    name = b"d/" * depth + b"f"
    buffers = {name: Buffer(name, 1, b"needle_one\n", 1)}
    files, _ = asked(session, "needle_one", buffers, globs=("f",))
    assert [file.path for file in files] == [name.decode()]
