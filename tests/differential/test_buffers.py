"""Answers with unsaved buffers equal ripgrep's on a copy of the tree into which their texts were written."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, example, given, note, settings
from hypothesis import strategies as st

from differential.test_ripgrep import TRIES
from indexgrep.overlay.buffers import Buffer, Snapshot
from indexgrep.request import FileResult, SearchRequest
from indexgrep.search import Session
from support.hostile import COMMITTED, UNTRACKED
from support.oracle import ask_ripgrep, difference, records, ripgrep_arguments

#: Names whose content is a rule: a buffer of one does not change the rules, as writing it would.
RULES = (b".gitignore", b".ignore", b".rgignore", b"exclude")

EXISTING = sorted(name for name in (*COMMITTED, *UNTRACKED) if not name.endswith(RULES))
#: New files in directories that are there, or not; ignored or not; and names that cannot be those of files.
NEW = (
    b"new.txt",
    b"src/new.c",
    b"src/new.h",
    b"src/util/new/deep/er.py",
    b"src-more/-/x",
    b".hidden-dir/new.c",
    b"src/.new.c",
    b".new",
    b"build/new.c",
    b"src/build/new.c",
    b"ignored-dir/new/x.c",
    b"src/ignored-dir/new.c",
    b"new/ignored-dir",
    b"new/cache/x",
    b"new/keep.log",
    b"new/x.log",
    b"text/new.log",
    b"docs/new/draft-2/x",
    b"docs/a/b/c/draft.c",
    b"x.bak/new.c",
    b"ignore/new.gen",
    b"ignore/new/important.gen",
    b"ignore/sub/new.txt",
    b"ignore/sub/kept.txt/x",
    b"ignore/deeper/new.gen",
    b"ignore/new.dotignored",
    b"ignore/new/by-rgignore.dotignored",
    b"ignore/x.rgignored/new",
    b"ignore/bom/new.bom",
    b"ignore/invalid-line/new.a",
    b"by-exclude.secret/new",
    b"src/more/new",
    b"state/deleted.txt",
    b"state/skip-worktree.txt",
    b"state/becomes-file/x.txt",
    b"nested/new.log",
    b"nested/new.skipped",
    b"nested/new/x.c",
    b"submodule/new.skip",
    b"submodule/new.o",
    b"names/new\nline\n.c",
    b"new\nline/x.c",
    b"names/\xff\xff",
    b"names/\xe9/x.txt",
    b"names/new.",
    b".../x.c",
    b".git/new.c",
    b"links/to-file",
    b"links/to-file/x",
    b"links/to-dir/main.c",
    b"links/to-dir/new.c",
    b"links/to-self-dir/to-dir/new.h",
    b"links/to-parent/new.txt",
    b"links/loop-a",
    b"links/loop-a/x",
    b"links/broken",
    b"links/broken/x.c",
    b"links/no-such-file",
    b"links/no-such-file/x.c",
    b"links/out-of-tree/dir/file.txt",
    b"links/out-of-tree/new.txt",
    b"links/out-of-tree.txt",
    b"links/hard-link.txt",
    b"special/fifo",
    b"special/fifo/x",
    b"special/empty-dir",
    b"special/empty-dir/x",
    b"src",
    b"plain.txt/x",
    b"new-dir/" + b"n" * 256,
)
TEXTS = (
    b"",
    b"nothing\n",
    b"needle\n",
    b"Needle needle\nnothing\nneedle",
    b"one\r\nneedle\r\n\r\n",
    b"needle \xff needle\n",
    b"\xef\xbb\xbfneedle\n",
    b"\xff\xfe" + "first\nneedle ünï\n".encode("utf-16-le"),
    b"\x00needle\n",
    b"needle\nneedle\x00\nneedle\n",
    b"needle\n" * 3 + b"x" * 70_000 + b"\nneedle\n",
    b"int needle;\n" * 200,
)
PATTERNS = (
    "needle",
    "Needle|nothing",
    r"(?i)needle$",
    "int needle",
    "needle\\s+needle",
    "nowhere at all",
    "^needle",
)

#: What a request may have besides its pattern. ``{top}`` is the tree, ``{out}`` the directory it lies in.
SCOPES: dict[str, tuple[Any, ...]] = {
    "hidden": (True,),
    "no_ignore": (True,),
    "no_ignore_vcs": (True,),
    "follow": (True,),
    "max_depth": (0, 1, 2, 3),
    "max_filesize": (0, 7, 60, 1000),
    "globs": (
        ("*.c",),
        ("!*.c",),
        ("src/**",),
        ("/new*",),
        ("build/*",),
        ("**/ignored-dir/**",),
        ("*.log", "!keep.log"),
        ("!src/",),
        (".*",),
        ("*",),
        ("!new",),
        ("new/",),
    ),
    "iglobs": (("*.C",), ("!*.TXT",)),
    "types": (("c",), ("py", "txt"), ("all",)),
    "types_not": (("c",), ("all",)),
    "paths": (
        ("src",),
        ("./src/",),
        ("src", "names"),
        ("new",),
        ("new/cache",),
        ("build",),
        (".hidden-dir",),
        ("src/new.c",),
        ("build/new.c",),
        ("plain.txt",),
        ("new.txt", "plain.txt"),
        ("new.txt", "src"),
        ("nested",),
        ("links",),
        ("links/to-dir",),
        ("links/to-dir/main.c",),
        ("links/to-file",),
        ("links/no-such-file",),
        ("links/broken",),
        ("src/..",),
        ("{top}/src",),
        ("{top}/src/util/..", "{top}/text"),
        ("{out}",),
        ("{out}/outside",),
        ("ignore",),
        ("x.bak",),
    ),
    "cwd": ("{top}/src", "{top}/ignore"),
}
OPTIONS: dict[str, tuple[Any, ...]] = {
    "case": ("insensitive", "smart"),
    "word": (True,),
    "invert": (True,),
    "multiline": (True,),
    "crlf": (True,),
    "text": (True,),
    "before": (1,),
    "after": (2,),
    "max_count": (1, 3),
    "no_index": (True,),
    "output": ("files", "files_without_match", "count", "count_matches"),
}


def chosen(fields: dict[str, tuple[Any, ...]], most: int) -> st.SearchStrategy[dict[str, Any]]:
    """A few of the fields, each with one of its values."""
    picks = st.lists(st.sampled_from(sorted(fields)), max_size=most, unique=True)
    return picks.flatmap(lambda names: st.fixed_dictionaries({n: st.sampled_from(fields[n]) for n in names}))


buffers_of = st.dictionaries(
    st.sampled_from(EXISTING) | st.sampled_from(NEW), st.sampled_from(TEXTS), max_size=8
)


def contradictory(top: Path, texts: dict[bytes, bytes]) -> bool:
    """Whether the texts cannot all be written: one file would lie below another."""
    paths = {os.path.realpath(os.path.join(os.fsencode(top), name)) for name in texts}
    return any(path.startswith(other + b"/") for path in paths for other in paths)


def snapshot(texts: dict[bytes, bytes]) -> Snapshot:
    return {name: Buffer(name, 1, text, number) for number, (name, text) in enumerate(texts.items())}


@contextlib.contextmanager
def written(top: Path, texts: dict[bytes, bytes]) -> Iterator[None]:
    """Write what can be written, making directories, following links, breaking hard links; undo it."""
    with contextlib.ExitStack() as undoing:
        for number, (name, text) in enumerate(texts.items()):
            path = os.path.realpath(os.path.join(os.fsencode(top), name))
            with contextlib.suppress(OSError):
                _make_directories(os.path.dirname(path), undoing)
                if os.path.lexists(path):
                    if not stat.S_ISREG(os.lstat(path).st_mode):
                        continue
                    aside = os.fsencode(top.parents[1] / f"aside{number}")
                    os.rename(path, aside)
                    undoing.callback(os.rename, aside, path)
                with open(path, "wb") as file:
                    undoing.callback(os.unlink, path)
                    file.write(text)
        yield


def _make_directories(path: bytes, undoing: contextlib.ExitStack) -> None:
    if not os.path.lexists(path):
        _make_directories(os.path.dirname(path), undoing)
        os.mkdir(path)
        undoing.callback(os.rmdir, path)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory, hostile: Path) -> Path:
    """A copy of the hostile tree, with what lies beside it."""
    place = tmp_path_factory.mktemp("copies") / "copy"
    subprocess.run(["cp", "-a", str(hostile.parent), str(place)], check=True)
    return place / hostile.name


def located(request: SearchRequest, top: Path) -> SearchRequest:
    """``request`` with its places in the tree ``top``."""
    places = {"top": str(top), "out": str(top.parent)}
    return dataclasses.replace(
        request,
        paths=tuple(path.format(**places) for path in request.paths),
        cwd=request.cwd.format(**places),
    )


#: Files of which ripgrep's answer depends on what the thread that reads them has read before.
UNSURE = "binary/late-nul"

#: The flag of each output that is one record a file.
FLAGS = {
    "files": "-l",
    "files_without_match": "--files-without-match",
    "count": "-c",
    "count_matches": "--count-matches",
}


def listed(rg: str, top: Path, request: SearchRequest) -> list[tuple[bytes, bytes]]:
    """What ripgrep says of each file in an output of one record a file: path in the tree, and count."""
    command = [rg, FLAGS[request.output], "--null", "-H", *ripgrep_arguments(request)]
    cwd = request.cwd or str(top)
    output = subprocess.run(command, cwd=cwd, capture_output=True, check=False).stdout
    found = []
    if request.output.startswith("files"):
        paths = [(path, b"") for path in output.split(b"\0")[:-1]]
    else:
        paths = []
        while output:
            path, _, output = output.partition(b"\0")
            count, _, output = output.partition(b"\n")
            paths.append((path, count.removesuffix(b"\r")))
    for path, count in paths:
        absolute = os.path.normpath(os.path.join(os.fsencode(cwd), path))
        found.append((os.path.relpath(absolute, os.fsencode(top)), count))
    return sorted(found)


def relative(file: FileResult, top: Path) -> FileResult:
    """A result with its path relative to the tree, also outside of it."""
    return dataclasses.replace(file, path=os.path.relpath(os.path.join(top, file.path), top))


def wrong(session: Session, rg: str, top: Path, copy: Path, request: SearchRequest, buffers: Snapshot) -> str:
    """What is wrong with the answer; empty where nothing is."""
    search = session.search(located(request, top), buffers=buffers)
    files = [relative(file, top) for batch in search for file in batch if file.error is None]
    files = [file for file in files if not file.path.startswith(UNSURE)]
    asked = located(request, copy)
    if len(request.paths) > 1 or request.paths[:1] == ("{out}",):  # target by target; in absolute order
        files.sort(key=lambda file: os.fsencode(file.path).split(b"/"))
    found = ""
    for _ in range(TRIES):
        if request.output == "lines":
            theirs = ask_ripgrep(rg, copy, asked)
            theirs = {path: record for path, record in theirs.items() if not path.startswith(UNSURE)}
            found = difference(records([files]), theirs)
        else:
            ours = sorted(
                (os.fsencode(file.path), b"%d" % file.count if "count" in request.output else b"")
                for file in files
            )
            others = [one for one in listed(rg, copy, asked) if not os.fsdecode(one[0]).startswith(UNSURE)]
            found = "" if ours == others else f"{set(ours) ^ set(others)}"
        if not found:
            break
    if not found and search.summary.candidates < len(files):
        found = "fewer candidates than answers"
    return found


@settings(max_examples=150)
@given(buffers_of, st.sampled_from(PATTERNS), chosen(SCOPES, 3), chosen(OPTIONS, 2))
@example({b"links/no-such-file": b"needle\n"}, "needle", {"follow": True}, {})
@example({b"links/no-such-file/x.c": b"needle\n"}, "needle", {"follow": True}, {})
@example({b"src/main.c": b"needle\n" * 9}, "needle", {"max_filesize": 20, "hidden": True}, {})
@example({b"new/cache/x": b"needle\n"}, "needle", {"paths": ("new",)}, {})
@example({b"links/to-dir/main.c": b"nothing\n"}, "needle", {}, {})
def test_a_buffer_is_as_good_as_written(
    hostile_session: Session,
    rg: str,
    hostile: Path,
    copy: Path,
    texts: dict[bytes, bytes],
    pattern: str,
    scope: dict[str, Any],
    options: dict[str, Any],
) -> None:
    assume(not contradictory(hostile, texts))
    if options.get("multiline"):
        options.pop("max_count", None)  # ripgrep fails an assertion of its own, and waits for ever
    request = SearchRequest((pattern,), **scope, **options)
    note(f"{request.to_wire()}")
    with written(copy, texts):
        fault = wrong(hostile_session, rg, hostile, copy, request, snapshot(texts))
    assert not fault, fault
