"""``walk`` lists exactly what ``rg --files`` lists."""

from __future__ import annotations

import os
import socket
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexgrep.errors import UsageError
from indexgrep.tree.root import Root, find_root
from indexgrep.tree.walk import WalkOptions, absolute, relative_to, walk
from support.hostile import build_hostile
from support.privileges import unprivileged


def rg_flags(options: WalkOptions) -> list[str]:
    """The options as ripgrep's command line."""
    flags = [f"--glob={glob}" for glob in options.globs]
    flags += [f"--iglob={glob}" for glob in options.iglobs]
    flags += [f"--type={name}" for name in options.types]
    flags += [f"--type-not={name}" for name in options.types_not]
    for name in ("hidden", "no_ignore", "no_ignore_vcs", "follow"):
        if getattr(options, name):
            flags.append("--" + name.replace("_", "-"))
    if options.max_depth is not None:
        flags.append(f"--max-depth={options.max_depth}")
    if options.max_filesize is not None:
        flags.append(f"--max-filesize={options.max_filesize}")
    return [*flags, "--", *options.paths]


def rg_files(rg: str, root: Root, options: WalkOptions) -> list[bytes]:
    """What ripgrep lists, in the terms of ``Walk.files``."""
    cwd = options.cwd or root.path
    command = [rg, "--no-config", "--files", "--null", *rg_flags(options)]
    done = subprocess.run(command, cwd=cwd, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    real_cwd, top = os.path.realpath(os.fsencode(cwd)), os.fsencode(root.path)
    paths = {relative_to(top, absolute(real_cwd, path)) for path in done.stdout.split(b"\0")[:-1]}
    return sorted(paths)


def check(rg: str, root: Root, options: WalkOptions) -> list[bytes]:
    expected = rg_files(rg, root, options)
    found = walk(root, options).files
    assert found == expected, {
        "options": options,
        "extra": sorted(set(found) - set(expected))[:20],
        "missing": sorted(set(expected) - set(found))[:20],
    }
    return found


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Root:
    return find_root(build_hostile(tmp_path_factory.mktemp("hostile")))


FLAGS = [
    WalkOptions(),
    WalkOptions(hidden=True),
    WalkOptions(no_ignore=True),
    WalkOptions(no_ignore_vcs=True),
    WalkOptions(hidden=True, no_ignore=True),
    WalkOptions(hidden=True, no_ignore_vcs=True),
    WalkOptions(follow=True),
    WalkOptions(follow=True, hidden=True, no_ignore=True, globs=("!.git",)),
    WalkOptions(max_depth=0),
    WalkOptions(max_depth=1),
    WalkOptions(max_depth=2, hidden=True),
    WalkOptions(max_filesize=0),
    WalkOptions(max_filesize=30),
    WalkOptions(max_filesize=30, follow=True),
    WalkOptions(globs=("*.txt",)),
    WalkOptions(globs=("!*.txt",)),
    WalkOptions(globs=("*.txt", "!plain*")),
    WalkOptions(globs=("!plain*", "*.txt")),
    WalkOptions(globs=("src/**",)),
    WalkOptions(globs=("/src",)),
    WalkOptions(globs=("src/",)),
    WalkOptions(globs=("!src/",)),
    WalkOptions(globs=("!src",)),
    WalkOptions(globs=("!/src/util",)),
    WalkOptions(globs=("*.{c,h}",)),
    WalkOptions(globs=("*.[ch]", "!main.h")),
    WalkOptions(globs=("**/util/**",)),
    WalkOptions(globs=("*.log",)),
    WalkOptions(globs=("ignored-dir/**",)),
    WalkOptions(globs=(".hidden*",)),
    WalkOptions(globs=("[!a-m]*",)),
    WalkOptions(globs=("name[s]/*",)),
    WalkOptions(globs=("*é*",)),
    WalkOptions(globs=("*[é]*",)),
    WalkOptions(globs=("",)),
    WalkOptions(globs=("#literal",)),
    WalkOptions(globs=("*\nline*",)),
    WalkOptions(iglobs=("*.TXT",)),
    WalkOptions(iglobs=("!MAIN.c",)),
    WalkOptions(iglobs=("!*.C",), globs=("*.C", "*.c")),
    WalkOptions(types=("c",)),
    WalkOptions(types=("py", "c")),
    WalkOptions(types=("all",)),
    WalkOptions(types_not=("c",)),
    WalkOptions(types_not=("all",)),
    WalkOptions(types=("c",), types_not=("h",)),
    WalkOptions(types=("py",), globs=("!code*",)),
    WalkOptions(types=("py",), globs=("*.c",)),
    WalkOptions(types=("txt",), hidden=True, no_ignore=True),
    WalkOptions(paths=(".",)),
    WalkOptions(paths=("./",)),
    WalkOptions(paths=("src",)),
    WalkOptions(paths=("./src/",)),
    WalkOptions(paths=("src//util/.",)),
    WalkOptions(paths=("src/../ignore",)),
    WalkOptions(paths=("src", "src/util", "plain.txt", "names")),
    WalkOptions(paths=("ignored-dir",)),
    WalkOptions(paths=("src/ignored-dir/deep",)),
    WalkOptions(paths=(".config", ".hidden", "object.o")),
    WalkOptions(paths=("links/to-file", "links/to-dir", "links/out-of-tree")),
    WalkOptions(paths=("links/to-dir/util",)),
    WalkOptions(paths=("links/to-parent",), follow=True),
    WalkOptions(paths=("../outside", "../outside/secret.txt")),
    WalkOptions(paths=("no-such", "plain.txt", "links/broken")),
    WalkOptions(paths=("nested",)),
    WalkOptions(paths=("submodule",)),
    WalkOptions(paths=("nested/src",), globs=("!nested/src/*",)),
    WalkOptions(paths=("./src",), globs=("!/src/main.c",)),
    WalkOptions(paths=("plain.txt",), globs=("!plain.txt",), types=("c",), max_filesize=1),
    WalkOptions(paths=(".git",)),
    WalkOptions(paths=("src",), max_depth=1),
]


@pytest.mark.parametrize("options", FLAGS, ids=lambda options: " ".join(rg_flags(options))[:60] or "plain")
def test_hostile(rg: str, hostile: Root, options: WalkOptions) -> None:
    check(rg, hostile, options)


@pytest.mark.parametrize(
    "options",
    [
        WalkOptions(),
        WalkOptions(globs=("*.c",)),
        WalkOptions(globs=("/main.c",)),
        WalkOptions(globs=("!util/**",)),
        WalkOptions(paths=("..",)),
        WalkOptions(paths=("../ignore",), globs=("!*.gen",)),
        WalkOptions(paths=("..",), globs=("/src/*",)),
        WalkOptions(paths=("..", "main.c"), globs=("*.h",)),
        WalkOptions(paths=("util/..",)),
    ],
    ids=lambda options: " ".join(rg_flags(options)) or "plain",
)
def test_below_the_root(rg: str, hostile: Root, options: WalkOptions) -> None:
    """Globs and paths are relative to the working directory, the answer to the root."""
    options = WalkOptions(**{**vars(options), "cwd": os.path.join(hostile.path, "src")})
    assert check(rg, hostile, options) or options.globs


def test_absolute_paths(rg: str, hostile: Root) -> None:
    source = os.path.join(hostile.path, "src")
    outside = os.path.join(os.path.dirname(hostile.path), "outside")
    assert b"src/main.c" in check(rg, hostile, WalkOptions(paths=(source,)))
    check(rg, hostile, WalkOptions(paths=(source,), globs=("!src/main.c",)))
    check(rg, hostile, WalkOptions(paths=(source,), globs=("!/src/util",)))
    found = check(rg, hostile, WalkOptions(paths=(outside, source)))
    assert os.fsencode(os.path.join(outside, "secret.txt")) in found


def test_standard_library(rg: str) -> None:
    root = find_root(sysconfig.get_path("stdlib"))
    for options in (
        WalkOptions(),
        WalkOptions(types=("py",)),
        WalkOptions(globs=("!test*",)),
        WalkOptions(globs=("**/json/**", "*.txt")),
        WalkOptions(hidden=True, no_ignore=True),
    ):
        assert check(rg, root, options)


def test_global_excludes(rg: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``core.excludesFile`` counts in a repository only; its globs are relative to the working directory."""
    excludes = tmp_path / "excludes"
    excludes.write_text("*.global\n/top\n")
    config = tmp_path / "gitconfig"
    config.write_text(f'[core]\n\texcludesFile = "{excludes}"\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(config))
    top = tmp_path / "repo"
    for name in ("a.global", "top", "src/top", "src/b.global", "src/c"):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text("x")
    root = find_root(top)
    assert b"a.global" in check(rg, root, WalkOptions())
    subprocess.run(["git", "init", "--quiet", str(top)], check=True)
    root = find_root(top)
    assert check(rg, root, WalkOptions()) == [b"src/c", b"src/top"]
    assert check(rg, root, WalkOptions(cwd=str(top / "src"))) == [b"src/c"]
    assert check(rg, root, WalkOptions(cwd=str(top / "src"), paths=("..",))) == [b"src/c", b"src/top", b"top"]
    assert b"top" in check(rg, root, WalkOptions(no_ignore_vcs=True))
    config.write_text("[core]\nexcludesfile = ~/x\n")
    check(rg, root, WalkOptions())
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "none"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    default = tmp_path / "config" / "git" / "ignore"
    default.parent.mkdir(parents=True)
    try:
        default.write_text("c\n")
        assert b"src/c" not in check(rg, root, WalkOptions())
    finally:
        default.unlink()
        default.parent.rmdir()


def test_parents(rg: str, tmp_path: Path) -> None:
    """Ignore files above the root count, git's only within the same repository."""
    (tmp_path / ".ignore").write_text("by-ignore\n/root/sub/anchored\n")
    (tmp_path / ".gitignore").write_text("by-git\n")
    (tmp_path / "root" / "sub").mkdir(parents=True)
    for name in ("by-ignore", "by-git", "sub/anchored", "anchored", "sub/by-git"):
        (tmp_path / "root" / name).write_text("x")
    root = Root(str(tmp_path / "root"))
    assert check(rg, root, WalkOptions()) == [b"anchored", b"by-git", b"sub/by-git"]
    assert b"by-ignore" in check(rg, root, WalkOptions(no_ignore=True))
    check(rg, root, WalkOptions(paths=("sub",)))
    (tmp_path / ".git").mkdir()
    assert check(rg, root, WalkOptions()) == [b"anchored"]
    assert b"by-git" in check(rg, root, WalkOptions(no_ignore_vcs=True))
    (tmp_path / "root" / ".git").mkdir()
    assert b"by-git" in check(rg, root, WalkOptions())


def test_linked_worktree_excludes(rg: str, tmp_path: Path) -> None:
    """``info/exclude`` of the main repository counts in a linked worktree, whose ``.git`` is a file."""
    main, linked = tmp_path / "main", tmp_path / "linked"
    subprocess.run(["git", "init", "--quiet", str(main)], check=True)
    (main / "f").write_text("x")
    subprocess.run(["git", "-C", str(main), "add", "f"], check=True)
    subprocess.run(["git", "-C", str(main), "commit", "--quiet", "-m", "f"], check=True)
    subprocess.run(["git", "-C", str(main), "worktree", "add", "--quiet", str(linked)], check=True)
    (main / ".git" / "info" / "exclude").write_text("secret\n")
    (linked / "secret").write_text("x")
    assert check(rg, find_root(linked), WalkOptions()) == [b"f"]
    (main / ".git" / "info" / "exclude").write_text("")
    assert check(rg, find_root(linked), WalkOptions()) == [b"f", b"secret"]


def test_special_files(rg: str, hostile: Root) -> None:
    """Neither walked nor given does a FIFO or socket come out (ripgrep would block on the FIFO)."""
    found = walk(hostile, WalkOptions(paths=("special", "special/fifo", "special/socket")))
    assert found.files == []
    assert found.errors == []


def test_errors_are_collected(hostile: Root) -> None:
    found = walk(hostile, WalkOptions(paths=("no-such", "plain.txt", "links/broken", "links/loop-a")))
    assert found.files == [b"plain.txt"]
    assert [path for path, _ in found.errors] == [b"no-such", b"links/broken", b"links/loop-a"]
    assert found.errors[0][1] == "No such file or directory (os error 2)"


def test_link_loops_are_reported(hostile: Root) -> None:
    found = walk(hostile, WalkOptions(follow=True))
    assert (b"links/to-parent", "file system loop found") in found.errors


def test_unreadable_directory(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0)
    (tmp_path / "seen").write_text("x")
    root = Root(str(tmp_path))
    try:
        with unprivileged(tmp_path):
            found = walk(root, WalkOptions())
        assert found.files == [b"seen"]
        assert found.errors == [(b"closed", "Permission denied (os error 13)")]
    finally:
        (tmp_path / "closed").chmod(0o700)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (WalkOptions(types=("nonsense",)), "unrecognized file type: nonsense"),
        (WalkOptions(types_not=("pyhton",)), "pyhton"),
        (WalkOptions(globs=("[a",)), "unclosed character class"),
        (WalkOptions(globs=("{a",)), "unclosed alternate group"),
        (WalkOptions(globs=("a}",)), "unopened alternate group"),
        (WalkOptions(globs=("[z-a]",)), "invalid range"),
        (WalkOptions(globs=("a\\",)), "dangling"),
    ],
)
def test_usage_errors(rg: str, hostile: Root, options: WalkOptions, message: str) -> None:
    with pytest.raises(UsageError, match=message.replace("(", r"\(")):
        walk(hostile, options)
    done = subprocess.run(
        [rg, "--files", *rg_flags(options)], capture_output=True, check=False, cwd=hostile.path
    )
    assert done.returncode == 2


def test_socket_in_tree(rg: str, short_tmp: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(short_tmp / "s"))
        (short_tmp / "f").write_text("x")
        assert check(rg, Root(str(short_tmp.resolve())), WalkOptions()) == [b"f"]


# Random trees with random rules.

# fmt: off
NAMES = ("a", "b", "ab", "a.c", "b.c", "x.py", "A.C", ".h", ".h.c", "d.", "é", "a b", "[x]", "#a",
         "!a", "a\nb", "-")
DIRECTORIES = ("a", "b", "d", ".d", "a/b", "a/d", "d/a", "d/a/b", "b/.d", "é")
PIECES = (
    "a", "b", "c", "d", ".", "*", "**", "?", "/", "é", "[ab]", "[!a]", "[^.]", "[a-d]", "[.-0]", "{a,b}",
    "{a/b,d}", "{,a}", "{*.c,d/**}", "*.c", "\\a",
    "[", "]", "{", "}", ",", "-", " ", "#", "!", "\\", "A", "x",
)
# fmt: on


def globs(pieces: Sequence[str] = PIECES) -> st.SearchStrategy[str]:
    body = st.lists(st.sampled_from(pieces), min_size=1, max_size=5).map("".join)
    return st.tuples(
        st.sampled_from(("", "", "!", "/", "!/")), body, st.sampled_from(("", "", "/", "/**", " "))
    ).map("".join)


@st.composite
def trees(draw: st.DrawFn) -> dict[str, str]:
    """Files by path; the content of an ignore file is its rules. A ``.git/`` entry makes a repository."""
    places = ["", *(f"{directory}/" for directory in DIRECTORIES)]
    files = {
        place + name: "x" for place in places for name in draw(st.sets(st.sampled_from(NAMES), max_size=6))
    }
    for place in draw(st.lists(st.sampled_from(places[:6]), max_size=3)):
        kind = draw(st.sampled_from((".gitignore", ".gitignore", ".ignore", ".rgignore")))
        files[place + kind] = "\n".join(draw(st.lists(globs(), max_size=6)))
    for place in draw(st.sets(st.sampled_from(("", "", "a/", "d/a/")), max_size=2)):
        files[place + ".git/info/exclude"] = "\n".join(draw(st.lists(globs(), max_size=2)))
    return files


@st.composite
def flags(draw: st.DrawFn) -> WalkOptions:
    no_ignore = draw(st.integers(0, 5))
    return WalkOptions(
        paths=tuple(draw(st.lists(st.sampled_from((".", "./a", "d", "d/a/", "a/../b", ".d")), max_size=2))),
        cwd=draw(st.sampled_from(("", "", "", "d"))),
        globs=tuple(draw(st.lists(globs(), max_size=2))),
        iglobs=tuple(draw(st.lists(globs(), max_size=1))),
        types=tuple(draw(st.lists(st.sampled_from(("c", "py", "all")), max_size=1))),
        types_not=tuple(draw(st.lists(st.sampled_from(("c", "h")), max_size=1))),
        hidden=draw(st.booleans()),
        no_ignore=no_ignore == 0,
        no_ignore_vcs=no_ignore == 1,
        max_depth=draw(st.sampled_from((None, None, None, 1, 2))),
    )


def plant(directory: Path, files: dict[str, str]) -> None:
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_dir():
            path.write_text(content)


def check_random(rg: str, top: Path, options: WalkOptions) -> None:
    root = Root(str(top))
    if options.cwd:
        (top / options.cwd).mkdir(exist_ok=True)
        options = WalkOptions(**{**vars(options), "cwd": str(top / options.cwd)})
    try:
        found = walk(root, options).files
    except UsageError:
        command = [rg, "--files", *rg_flags(options)]
        assert subprocess.run(command, cwd=top, capture_output=True, check=False).returncode == 2
        return
    expected = rg_files(rg, root, options)
    assert found == expected, (sorted(set(found) - set(expected)), sorted(set(expected) - set(found)))


@settings(max_examples=150)
@given(tree=trees(), options=st.one_of(st.just(WalkOptions()), flags()))
def test_random_trees(
    rg: str, tmp_path_factory: pytest.TempPathFactory, tree: dict[str, str], options: WalkOptions
) -> None:
    top = tmp_path_factory.mktemp("random")
    # A name may be wanted as a file and as a directory: the directory wins.
    plant(top, {name: text for name, text in tree.items() if not any(k.startswith(name + "/") for k in tree)})
    check_random(rg, top, options)
