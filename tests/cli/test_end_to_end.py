"""The whole way, in this process and through a server: the same output and exit codes as ripgrep.

The engine has its own tests against ripgrep; here flags for files and modes of output meet it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli.conftest import run_main
from support.hostile import build_hostile

#: Times, and what was read, which is less than ripgrep reads.
_FIGURES = re.compile(
    rb'"elapsed(?:_total)?":\{[^}]*\}|^\d+\.\d+ seconds [a-z ]+$|^\d+ bytes searched$'
    rb'|"bytes_searched":\d+(?=,"elapsed")',
    re.MULTILINE,
)


def _comparable(output: bytes) -> bytes:
    # The summary's keys are sorted: there the bytes come right before the times.
    return re.sub(rb'"bytes_searched":\d+,F', b"F", _FIGURES.sub(b"F", output))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    root = build_hostile(tmp_path_factory.mktemp("e2e"))
    yield root
    run_main("server", "stop", str(root))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A part of the standard library, committed to a repository and indexed."""
    root = tmp_path_factory.mktemp("library") / "lib"
    source = sysconfig.get_path("stdlib")
    root.mkdir()
    for name in ("asyncio", "email", "json", "concurrent", "logging"):
        shutil.copytree(os.path.join(source, name), root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "All"]):
        subprocess.run(["git", "-C", str(root), *command], check=True)
    assert run_main("index", str(root)).code == 0
    yield root
    run_main("server", "stop", str(root))


@pytest.fixture(params=["server", "process"])
def where(request: pytest.FixtureRequest) -> list[str]:
    """The flags that choose the engine."""
    return ["--no-server"] if request.param == "process" else []


HOSTILE = [
    ["needle"],
    ["-n", "--hidden", "needle"],
    ["-c", "-u", "needle"],
    ["-uu", "-C1", "-i", "needle"],
    ["-uuu", "-n", "needle"],
    ["-c", "--binary", "needle"],
    ["-a", "-o", "-b", "needle"],
    ["-L", "-l", "needle"],
    ["-l", "--no-ignore-vcs", "needle"],
    ["--heading", "-n", "--column", "-w", "needle"],
    ["--vimgrep", "needle"],
    ["--json", "-C1", r"needle\s+\w+"],
    ["--stats", "-q", "needle"],
    ["-v", "-c", "needle"],
    ["--files-without-match", "needle"],
    ["-c", "--include-zero", "needle"],
    ["-x", "needle"],
    ["-n", "^$"],
    ["-S", "Needle"],
    ["-F", "a.c"],
    ["-g", "*.txt", "-g", "!crlf*", "needle"],
    ["--iglob", "*.C", "-l", "needle"],
    ["-tpy", "-tc", "-n", "needle"],
    ["-Tc", "-c", "needle"],
    ["-d1", "needle"],
    ["--max-filesize", "1K", "-l", "needle"],
    ["--max-filesize=5", "-l", "needle", "plain.txt", "src"],
    ["-tjava", "needle"],
    ["-tjava", "needle", "src"],
    ["-g", "no/such/*", "-l", "needle"],
    ["-tc", "zzz-not-there"],
    ["--binary", r"\x00"],
    ["-uuu", r"(?:\x00)?"],
    ["-a", "-c", r"\x00"],
    ["-m2", "-n", "needle"],
    ["--crlf", "-n", "needle$"],
    ["-U", "-n", r"needle\n.*needle"],
    ["-M80", "--max-columns-preview", "--color=always", "needle"],
    ["--trim", "-n", "needle"],
    ["needle", "names/file:12:34"],
    ["-n", "needle", "src", "text/crlf.txt", "src-more"],
    ["needle", "./text/../src", "names/"],
    ["-c", "needle", ".", "src"],
    ["zzz-not-there"],
]


@pytest.mark.parametrize("arguments", HOSTILE, ids=" ".join)
def test_hostile(
    arguments: list[str],
    where: list[str],
    hostile: Path,
    cli: Callable,
    oracle: Callable,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(hostile)
    ours, theirs = cli(*where, *arguments), oracle(*arguments)
    assert _comparable(ours.out) == _comparable(theirs.out)
    assert ours.code == theirs.code
    assert bool(ours.err) == bool(theirs.err)


LIBRARY = [
    ["-n", "import logging"],
    ["-nw", "self"],
    ["-c", r"def \w+\("],
    ["-l", "Copyright"],
    ["--vimgrep", r"raise \w+Error"],
    ["-nC2", "get_running_loop"],
    ["--heading", "--color=always", "-n", "-i", "todo|xxx"],
    ["-o", r"\bPEP \d+"],
    ["--count-matches", "the"],
    ["-U", r"try:\n\s+import \w+"],
    ["--json", "JSONDecodeError"],
]


@pytest.mark.parametrize("arguments", LIBRARY, ids=" ".join)
def test_library(
    arguments: list[str],
    where: list[str],
    library: Path,
    cli: Callable,
    oracle: Callable,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for directory in (library, library / "asyncio"):
        monkeypatch.chdir(directory)
        ours, theirs = cli(*where, *arguments), oracle(*arguments)
        assert _comparable(ours.out) == _comparable(theirs.out)
        assert ours.code == theirs.code


def test_paths_elsewhere(
    where: list[str],
    library: Path,
    hostile: Path,
    cli: Callable,
    oracle: Callable,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Several repositories, a file in none, links, and a working directory in none."""
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "file.txt").write_text("needle and logging\n")
    (tmp_path / "link").symlink_to(library / "logging")
    arguments = [
        "-n",
        "needle|getLogger",
        str(tmp_path / "plain"),
        str(hostile / "src"),
        str(tmp_path / "link"),
    ]
    for directory in (library, tmp_path):
        monkeypatch.chdir(directory)
        ours, theirs = cli(*where, *arguments), oracle(*arguments)
        assert ours == theirs
    monkeypatch.chdir(library)
    for paths in (
        [str(tmp_path / "plain" / "file.txt")],
        ["../lib/json", "json"],
        [f"{library}/json/../email"],
    ):
        ours, theirs = cli(*where, "-n", "needle|def", *paths), oracle("-n", "needle|def", *paths)
        assert ours == theirs
    run_main("server", "stop", str(tmp_path))


def test_root_names_the_tree(
    where: list[str], library: Path, cli: Callable, oracle: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(library.parent)
    assert cli(*where, "--root", "lib", "-c", "import") == oracle("-c", "import", "lib/")
    monkeypatch.chdir(library / "json")
    assert cli(*where, "--root", str(library), "-c", "import") == oracle("-c", "import")


@pytest.mark.parametrize(
    "arguments",
    [["-t", "nope", "x"], ["-g", "[", "x"], ["("], ["[z-a]"], ["a{2,1}"], [r"(\1)"], ["(?=x)y"]],
    ids=" ".join,
)
def test_what_the_engine_refuses(
    arguments: list[str],
    where: list[str],
    library: Path,
    cli: Callable,
    oracle: Callable,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last line of ripgrep's first paragraph, which says what is wrong, is ours too."""
    monkeypatch.chdir(library)
    ours, theirs = cli(*where, *arguments), oracle(*arguments)
    assert ours.code == theirs.code == 2
    assert ours.out == theirs.out == b""
    reason = theirs.err.removeprefix(b"rg: ").split(b"\n\n")[0].splitlines()[-1]
    assert reason in ours.err
    assert b"Traceback" not in ours.err


def test_limit(where: list[str], library: Path, cli: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(library)
    outcome = cli(*where, "--limit=3", "import")
    assert outcome.code == 0
    assert outcome.out.count(b"\n") == 3
    assert outcome.err == b""


def test_debug_says_how(
    where: list[str], library: Path, cli: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(library)
    outcome = cli(*where, "--debug", "-l", "get_running_loop")
    assert b"DEBUG: served_by: index" in outcome.err
    assert b"DEBUG: served_by: scan" in cli(*where, "--debug", "--no-index", "-l", "get_running_loop").err


def test_explain(where: list[str], library: Path, cli: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(library)
    text = cli("explain", *where, "get_running_loop|x").out.decode()
    assert "AST:" in text
    assert "every file is read because" in text
    text = cli("explain", *where, "get_running_loop").out.decode()
    assert re.search(r"candidates: \d+ of \d+ documents", text)
    assert "weights left | inner | right" in text
    assert cli("explain", *where, "(").code == 2


def test_status_and_server(library: Path, cli: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(library)
    assert cli("server", "start").code == 0
    running = cli("status").out.decode()
    assert re.search(r"^server: +running, process \d+", running, re.MULTILINE)
    assert re.search(r"^index: +ready", running, re.MULTILINE)
    assert re.search(r"^socket: ", running, re.MULTILINE)
    assert cli("server", "status").code == 0
    assert b"already fresh" in cli("index").out
    assert b"indexed" in cli("index", "--force").out
    assert cli("server", "stop").code == 0
    assert cli("server", "status").code == 1
    assert b"no server runs" in cli("server", "stop").out
    stopped = cli("status").out.decode()
    assert re.search(r"^server: +not running", stopped, re.MULTILINE)
    assert re.search(r"^index: +ready", stopped, re.MULTILINE)
    assert b"already fresh" in cli("index", "--no-server").out
    assert cli("server", "status", "--json").code == 1


def test_a_sub_commands_name_is_a_pattern_elsewhere(
    where: list[str], library: Path, cli: Callable, oracle: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(library)
    for spelled in (["-e", "status"], ["--", "status"], ["-n", "status"]):
        assert cli(*where, *spelled) == oracle(*spelled)
