"""Unsaved buffers stand for their files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

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
