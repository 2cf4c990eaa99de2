"""The universe through a filter, and what lies beyond it, are exactly what ``rg --files`` lists."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexgrep.errors import UsageError
from indexgrep.tree.filter import Filter, needs_walk
from indexgrep.tree.monitor import Monitor
from indexgrep.tree.root import Root, find_root
from indexgrep.tree.walk import WalkOptions, walk
from support.hostile import build_hostile

CASES = [
    WalkOptions(),
    WalkOptions(globs=("*.txt",)),
    WalkOptions(globs=("!*.txt",)),
    WalkOptions(globs=("*.txt", "!plain*")),
    WalkOptions(globs=("!plain*", "*.txt")),
    WalkOptions(globs=("src/**",)),
    WalkOptions(globs=("/src",)),
    WalkOptions(globs=("!src/",)),
    WalkOptions(globs=("!src", "main.c")),
    WalkOptions(globs=("*", "!src")),
    WalkOptions(globs=("**/*.c", "!/src")),
    WalkOptions(globs=("*.log", "*.o")),
    WalkOptions(globs=("ignored-dir",)),
    WalkOptions(globs=("ignored-dir/**",)),
    WalkOptions(globs=(".*", "!.git")),
    WalkOptions(globs=("!*\nline*",)),
    WalkOptions(globs=("*\nline*",)),
    WalkOptions(globs=("!names/another*",)),
    WalkOptions(iglobs=("*.TXT",)),
    WalkOptions(iglobs=("!MAIN.c", "!NAMES")),
    WalkOptions(types=("c",)),
    WalkOptions(types=("py",)),
    WalkOptions(types=("all",)),
    WalkOptions(types_not=("c",)),
    WalkOptions(types=("c",), types_not=("h",)),
    WalkOptions(types=("py",), globs=("!code*",)),
    WalkOptions(types=("py",), globs=("*.c",)),
]


def through_filter(
    monitor: Monitor, universe: list[bytes], options: WalkOptions, argument: str
) -> list[bytes]:
    wanted = Filter(monitor.root, options, argument)
    kept = wanted.keep(universe)
    beyond = monitor.beyond(wanted)
    assert kept == sorted(kept)
    assert not set(kept) & set(beyond)
    assert wanted.reaches_beyond or not beyond
    return sorted(kept + beyond)


def check(monitor: Monitor, options: WalkOptions, argument: str = ".") -> None:
    """``walk`` is compared with ripgrep in ``test_walk``."""
    universe = walk(monitor.root, WalkOptions()).files
    expected = walk(monitor.root, WalkOptions(**{**vars(options), "paths": (argument,)})).files
    assert through_filter(monitor, universe, options, argument) == expected


@pytest.fixture(scope="module", params=[True, False], ids=["watch", "sweep"])
def monitor(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Monitor]:
    root = find_root(build_hostile(tmp_path_factory.mktemp("hostile")))
    monitor = Monitor(root, watch=request.param)
    monitor.refresh()
    yield monitor
    monitor.close()


@pytest.mark.parametrize("options", CASES, ids=lambda options: repr(options)[:60])
def test_hostile(monitor: Monitor, options: WalkOptions) -> None:
    assert not needs_walk(options)
    check(monitor, options)
    for argument in ("src", "./names", "ignore/../src/util", "nested"):
        check(monitor, options, argument)
    below = WalkOptions(**{**vars(options), "cwd": os.path.join(monitor.root.path, "src")})
    for argument in (".", "..", "util", "../nested"):
        check(monitor, below, argument)


def test_after_changes(tmp_path: Path) -> None:
    """What lies beyond the universe is kept up to date too."""
    (tmp_path / "a").mkdir()
    (tmp_path / ".ignore").write_text("*.o\nshut\n")
    monitor = Monitor(Root(str(tmp_path)))
    monitor.refresh()
    options = [WalkOptions(globs=("*.o",)), WalkOptions(types=("py",)), WalkOptions(globs=("shut/**",))]
    changes = [
        lambda: (tmp_path / "a" / "x.o").write_text("x"),
        lambda: (tmp_path / ".x.py").write_text("x"),
        lambda: (tmp_path / "a" / ".x.py").write_text("x"),
        lambda: (tmp_path / "shut").mkdir(),
        lambda: (tmp_path / "shut" / "f").write_text("x"),
        lambda: (tmp_path / "a" / "x.o").rename(tmp_path / "y.o"),
        lambda: (tmp_path / ".x.py").unlink(),
        lambda: (tmp_path / "shut").rename(tmp_path / "open"),
        lambda: (tmp_path / "a").rename(tmp_path / "shut"),
    ]
    for change in changes:
        change()
        monitor.refresh()
        for each in options:
            check(monitor, each)
    monitor.close()


@pytest.mark.parametrize(
    "options",
    [
        WalkOptions(hidden=True),
        WalkOptions(no_ignore=True),
        WalkOptions(no_ignore_vcs=True),
        WalkOptions(follow=True),
        WalkOptions(max_depth=3),
        WalkOptions(max_filesize=3),
    ],
)
def test_some_flags_need_a_walk(options: WalkOptions) -> None:
    assert needs_walk(options)


def test_usage_errors(tmp_path: Path) -> None:
    root = Root(str(tmp_path))
    with pytest.raises(UsageError, match="unclosed"):
        Filter(root, WalkOptions(globs=("{a",)))
    with pytest.raises(UsageError, match="nonsense"):
        Filter(root, WalkOptions(types_not=("nonsense",)))


LINES = (
    "a",
    "b",
    "*.c",
    "*.o",
    "a/*",
    "/a",
    "**/b",
    "a/**",
    "*",
    "[ab]",
    "{a,b}",
    ".h",
    ".*",
    "b/",
    "**",
    "é",
)


@settings(max_examples=100)
@given(
    rules=st.lists(st.sampled_from(LINES), max_size=3),
    globs=st.lists(
        st.builds(str.__add__, st.sampled_from(("", "!", "/")), st.sampled_from(LINES)), max_size=3
    ),
    types=st.lists(st.sampled_from(("c", "py")), max_size=1),
    types_not=st.lists(st.sampled_from(("c", "py")), max_size=1),
    argument=st.sampled_from((".", "a", "c/a")),
)
def test_random(
    tmp_path_factory: pytest.TempPathFactory,
    rules: list[str],
    globs: list[str],
    types: list[str],
    types_not: list[str],
    argument: str,
) -> None:
    top = tmp_path_factory.mktemp("filter")
    for place in ("", "a/", "a/b/", "c/a/", ".h/", "b/.h/", "é/a/"):
        (top / place).mkdir(parents=True, exist_ok=True)
        for name in ("f", "x.c", "y.o", ".p.py", "d.", "q.py"):
            (top / place / name).write_text("x")
    (top / ".ignore").write_text("\n".join(rules))
    monitor = Monitor(Root(str(top)))
    monitor.refresh()
    options = WalkOptions(globs=tuple(globs), types=tuple(types), types_not=tuple(types_not))
    if monitor.covers(b"" if argument == "." else argument.encode()):
        check(monitor, options, argument)
    monitor.close()
