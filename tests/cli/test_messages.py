"""Bad input, broken pipes, terminals, interruptions: one clear message each, the right code, no traceback."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from indexgrep import __version__
from indexgrep.cli import engine, main
from indexgrep.errors import PatternError, RootError
from indexgrep.request import FileResult, Line, SearchRequest, Summary


class CannedAnswer:
    def __init__(self, batches: Iterator[list[FileResult]], summary: Summary) -> None:
        self._batches = batches
        self.summary = summary

    def batches(self) -> Iterator[list[FileResult]]:
        return self._batches

    def close(self) -> None:
        pass


class CannedEngine:
    """An engine whose answers, or faults, are given."""

    def __init__(self, root: str, answer: Callable[[SearchRequest], CannedAnswer]) -> None:
        self.root = root
        self._answer = answer

    def search(self, request: SearchRequest) -> CannedAnswer:
        return self._answer(request)

    def close(self) -> None:
        pass


@pytest.fixture
def canned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Sets what every search of the command line answers, in an empty directory of its own."""
    monkeypatch.chdir(tmp_path)

    def set_answer(
        results: list[FileResult] | None = None,
        *,
        summary: Summary | None = None,
        fault: BaseException | None = None,
    ) -> None:
        def answer(request: SearchRequest) -> CannedAnswer:
            if fault is not None:
                raise fault
            return CannedAnswer(iter([results or []]), summary or Summary(documents=1))

        monkeypatch.setattr(
            engine, "connect", lambda root, options, messages: CannedEngine(str(tmp_path), answer)
        )

    return set_answer


def _result(path: str, text: bytes = b"foo\n") -> FileResult:
    return FileResult(path, [Line(1, 0, text, [(0, 3)])], count=1, matches=1, bytes_searched=len(text))


def test_version_and_help(cli: Callable) -> None:
    assert cli("--version").out == cli("-V").out == f"indexgrep {__version__}\n".encode()
    short, long = cli("-h"), cli("--help")
    assert short.code == long.code == 0
    assert b"USAGE" in short.out
    assert long.out.startswith(short.out)
    assert b"DIFFERENCES" in long.out


def test_type_list_is_that_of_ripgrep(cli: Callable, oracle: Callable) -> None:
    assert cli("--type-list").out == oracle("--type-list").out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], b"a search needs at least one pattern\n\nUsage: "),
        (["--foo"], b"unrecognized flag --foo\n"),
        (["--headings", "x"], b"unrecognized flag --headings\n\nsimilar flags that are available: --heading"),
        (["-A", "x", "foo"], b"error parsing flag -A: value is not a valid number: invalid digit"),
        (["--pcre2", "foo"], b"--pcre2 is not supported yet\n"),
        (["foo", "-"], b"searching standard input is not supported\n"),
        (["\udcff"], b"the pattern is not valid UTF-8\n"),
        (["-e\udcff"], b"error parsing flag -e: value is not valid UTF-8\n"),
        (["-f", "nope"], b"nope: No such file or directory (os error 2)\n"),
        (["-f", "."], b".: Is a directory (os error 21)\n"),
        (["--root", "nope", "foo"], b"--root nope: no such directory\n"),
        (["--root", "/dev/null", "foo"], b"--root /dev/null: not a directory\n"),
        (["index", "--what"], b"unrecognized flag --what\n"),
        (["index", "a", "b"], b"one path at most, not 2\n"),
        (["server"], b"the action is start, stop, status or run, and none was given\n"),
        (["server", "restart"], b"the action is start, stop, status or run, not 'restart'\n"),
        (["status", "nope"], b"nope"),
        (["explain"], b"a search needs at least one pattern\n"),
    ],
    ids=lambda value: ascii(" ".join(value)) if isinstance(value, list) else "",
)
def test_bad_command_lines(
    arguments: list[str], message: bytes, cli: Callable, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    outcome = cli(*arguments)
    assert outcome.code == 2
    assert outcome.out == b""
    assert outcome.err.startswith(b"indexgrep: ")
    assert message in outcome.err
    assert b"Traceback" not in outcome.err


def test_a_bad_pattern_shows_where(cli: Callable, canned: Callable) -> None:
    canned(fault=PatternError("a(b", 1, 2, "unclosed group"))
    outcome = cli("a(b")
    assert outcome == (2, b"", b"indexgrep: regex parse error:\n    a(b\n     ^\nerror: unclosed group\n")


def test_a_refused_root(cli: Callable, canned: Callable) -> None:
    canned(fault=RootError("refusing to search /", "Use --force-root."))
    assert cli("x") == (2, b"", b"indexgrep: refusing to search /\n\nUse --force-root.\n")


def test_a_path_outside_the_given_root(cli: Callable, tmp_path: Path) -> None:
    outcome = cli("--root", str(tmp_path), "x", "/dev")
    assert outcome.code == 2
    assert b"lies outside the root" in outcome.err


def test_file_errors_do_not_end_the_search(cli: Callable, canned: Callable) -> None:
    def results() -> list[FileResult]:
        return [FileResult("a", error="Permission denied (os error 13)"), _result("b")]

    canned(results())
    expected = b"indexgrep: a: Permission denied (os error 13)\n"
    assert cli("foo") == (2, b"b:foo\n", expected)
    canned(results())
    assert cli("--no-messages", "foo") == (2, b"b:foo\n", b"")
    canned(results())
    assert cli("-q", "foo") == (0, b"", expected)


def test_an_internal_fault_names_the_log(cli: Callable, canned: Callable) -> None:
    canned(fault=ZeroDivisionError("oh"))
    outcome = cli("foo")
    log = os.environ["INDEXGREP_LOG"]
    assert outcome.code == 2
    assert outcome.err == f"indexgrep: internal fault: ZeroDivisionError: oh; details are in {log}\n".encode()
    assert "ZeroDivisionError" in Path(log).read_text()


def test_an_interruption_is_quiet(cli: Callable, canned: Callable) -> None:
    canned(fault=KeyboardInterrupt())
    assert cli("foo") == (130, b"", b"")


def test_nothing_searched_is_said(cli: Callable, canned: Callable) -> None:
    canned(summary=Summary(documents=0))
    outcome = cli("foo")
    assert outcome.code == 2
    assert b"No files were searched" in outcome.err
    canned(summary=Summary(documents=0))
    assert cli("foo", ".") == (1, b"", b"")


def test_running_out_of_time_is_an_error_and_a_limit_is_not(cli: Callable, canned: Callable) -> None:
    canned([_result("a")], summary=Summary(documents=1, complete=False, reason="timeout"))
    outcome = cli("--timeout=1", "foo")
    assert outcome.code == 2
    assert outcome.out == b"a:foo\n"
    assert b"ran out of time" in outcome.err
    canned([_result("a")], summary=Summary(documents=1, complete=False, reason="limit"))
    assert cli("--limit=1", "foo") == (0, b"a:foo\n", b"")


def test_a_closed_pipe_is_quiet(canned: Callable) -> None:
    canned([_result(f"file{number:06}", b"foo " * 50 + b"\n") for number in range(5_000)])
    reader, writer = os.pipe()
    saved = os.dup(1)
    os.dup2(writer, 1)
    os.close(writer)
    os.close(reader)
    try:
        code = main(["foo"])
    finally:
        os.dup2(saved, 1)
        os.close(saved)
    assert code == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
def test_a_full_disk_is_said(canned: Callable) -> None:
    run = subprocess.run(
        ["sh", "-c", f'"{sys.executable}" -m indexgrep --help > /dev/full'], capture_output=True, check=False
    )
    assert run.returncode == 2
    assert run.stderr == (
        b"indexgrep: cannot write to standard output: No space left on device (os error 28)\n"
    )


def test_parts_of_a_file_are_one_file(cli: Callable, canned: Callable) -> None:
    def parts() -> list[FileResult]:
        lines = [Line(number, number * 4, b"foo\n", [(0, 3)]) for number in range(1, 7)]
        whole = [FileResult("a", lines[at : at + 2], count=2, matches=2) for at in (0, 2, 4)]
        return [*whole, _result("b")]

    canned(parts())
    assert cli("--heading", "foo").out == b"a\n" + b"foo\n" * 6 + b"\nb\nfoo\n"
    canned(parts())
    assert cli("-c", "foo").out == b"a:6\nb:1\n"
    canned(parts())
    assert cli("-l", "foo").out == b"a\nb\n"
    canned(parts())
    assert cli("--json", "foo").out.count(b'"type":"begin"') == 2


def test_a_terminal_gets_headings_colours_and_numbers(
    rg: str, tree: Path, rg_engine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tree)
    for arguments in (["foo"], ["-C1", "bar"], ["-c", "foo"], ["-N", "foo", "a.c"], ["--vimgrep", "foo"]):
        ours = _through_terminal(lambda arguments=arguments: main(arguments))
        command = [rg, "--sort=path", *arguments]
        theirs = _through_terminal(lambda command=command: subprocess.run(command, check=False))
        assert b"\x1b[" in ours
        assert ours == theirs


def _through_terminal(run: Callable[[], object]) -> bytes:
    """What ``run`` writes to descriptor 1 when that is a terminal."""
    controller, terminal = pty.openpty()
    saved, saved_in = os.dup(1), os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(terminal, 1)
    os.dup2(null, 0)
    os.close(terminal)
    os.close(null)
    try:
        run()
    finally:
        os.dup2(saved, 1)
        os.dup2(saved_in, 0)
        os.close(saved)
        os.close(saved_in)
    data = b""
    while select.select([controller], [], [], 0.2)[0]:
        try:
            chunk = os.read(controller, 65536)
        except OSError:  # how Linux says that the terminal has been closed
            break
        if not chunk:
            break
        data += chunk
    os.close(controller)
    return data


def test_as_a_program() -> None:
    run = subprocess.run([sys.executable, "-m", "indexgrep", "--nope"], capture_output=True, check=False)
    assert run.returncode == 2
    assert run.stderr == b"indexgrep: unrecognized flag --nope\n"


def test_the_status_says_what_is_wrong_and_where_the_log_is(
    cli: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = {
        "root": "/r",
        "index": {"state": "absent", "fault": "the index was damaged"},
        "freshness": "sweep",
        "freshness_reason": "the limit of watches is reached",
        "overlay": 1234,
    }
    monkeypatch.setattr("indexgrep.server.lifecycle.server_status", lambda path: status)
    said = dict(re.split(r":\s+", line, maxsplit=1) for line in cli("status").out.decode().splitlines())
    assert said == {
        "root": "/r",
        "index": "absent",
        "fault": "the index was damaged",
        "freshness": "sweep: the limit of watches is reached",
        "overlay": "1,234",
        "server": "not running",
        "log": os.environ["INDEXGREP_LOG"],
    }


def test_a_server_in_the_foreground_takes_no_module_of_the_working_directory(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    commands: list[list[str]] = []
    monkeypatch.setattr(os, "execv", lambda program, command: commands.append(command))
    main(["server", "run", str(tmp_path)])
    (tmp_path / "argparse.py").write_text("raise SystemExit(9)\n")
    [[*command, _]] = commands
    assert (
        subprocess.run([*command, "--help"], cwd=tmp_path, capture_output=True, check=False).returncode == 0
    )


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a working directory cannot be removed")
@pytest.mark.parametrize(
    "arguments", [["x"], ["x", "/"], ["--no-server", "x"], ["index"], ["status"], ["explain", "x"]]
)
def test_a_current_directory_that_is_gone(tmp_path: Path, arguments: list[str]) -> None:
    code = "import os, sys; os.rmdir(os.getcwd()); os.execv(sys.argv[1], sys.argv[1:])"
    here = tmp_path / "gone"
    here.mkdir()
    command = [sys.executable, "-c", code, sys.executable, "-m", "indexgrep", *arguments]
    run = subprocess.run(command, cwd=here, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "the current directory is gone" in run.stderr
    assert "internal" not in run.stderr


def test_a_query_imports_nothing_heavy() -> None:
    """Everything that a search over a warm server loads, short of the server's answer."""
    code = (
        "import sys, indexgrep.cli.search, indexgrep.cli.standard, indexgrep.cli.flags, indexgrep.client\n"
        "print(' '.join(sorted(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert not loaded & {"numpy", "numba", "pygit2", "regex", "paula", "argparse", "asyncio"}
    assert not [
        name for name in loaded if re.match(r"indexgrep\.(search|tree|index|match|grams|pattern)", name)
    ]


def test_without_a_server_the_search_goes_on_with_a_warning(
    cli: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "file.txt").write_text("a needle\n")
    monkeypatch.chdir(tmp_path / "tree")
    (tmp_path / "public").mkdir()
    (tmp_path / "public").chmod(0o777)  # whatever the umask
    monkeypatch.setenv("INDEXGREP_RUNTIME_DIR", str(tmp_path / "public"))
    outcome = cli("needle")
    assert (outcome.code, outcome.out) == (0, b"file.txt:a needle\n")
    assert outcome.err.startswith(b"indexgrep: warning: the runtime directory ")
    assert b"--no-server" in outcome.err
    assert cli("--no-messages", "needle") == (0, b"file.txt:a needle\n", b"")
