"""The command line in this process with captured output, a tree to search, and ripgrep for an engine."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from indexgrep.cli import engine, main
from indexgrep.request import FileResult, Line, SearchRequest, Summary


class Outcome(NamedTuple):
    code: int
    out: bytes
    err: bytes


def run_main(*arguments: str) -> Outcome:
    """``main(arguments)`` with descriptors 1 and 2 going to files."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        saved = os.dup(1), os.dup(2)
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        try:
            code = main(list(arguments))
        finally:
            os.dup2(saved[0], 1)
            os.dup2(saved[1], 2)
            os.close(saved[0])
            os.close(saved[1])
        out.seek(0)
        err.seek(0)
        return Outcome(code, out.read(), err.read())


@pytest.fixture
def cli() -> Callable[..., Outcome]:
    return run_main


@pytest.fixture
def oracle(rg: str) -> Callable[..., Outcome]:
    """The real ``rg --sort path`` in the current directory, with nothing on standard input."""

    def run(*arguments: str) -> Outcome:
        done = subprocess.run(
            [os.fsencode(part) for part in (rg, "--sort=path", *arguments)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    return run


class RipgrepAnswer:
    """Results read from ``rg --json``, so that the printers alone are under test."""

    def __init__(self, rg: str, root: str, request: SearchRequest) -> None:
        self._rg = rg
        self._root = root
        self._request = request
        self.summary = Summary()

    def batches(self) -> Iterator[list[FileResult]]:
        if self._request.output == "files_without_match":
            flags, paths = self._command()
            run = self._run([*flags, "--files-without-match", "--null"], paths)
            for path in run.stdout.split(b"\0")[:-1]:
                yield [FileResult(self._relative(path))]
            self.summary.documents = 1
            return
        flags, paths = self._command()
        run = self._run([*flags, "--json"], paths)
        for line in run.stderr.decode(errors="surrogateescape").splitlines():
            path, _, reason = line.removeprefix("rg: ").partition(": ")
            if reason:
                yield [FileResult(self._relative(os.fsencode(path)), error=reason)]
        current = FileResult("")
        for message in map(json.loads, run.stdout.splitlines()):
            data = message["data"]
            if message["type"] == "begin":
                current = FileResult(self._relative(_bytes(data["path"])))
            elif message["type"] in ("match", "context"):
                spans = [(item["start"], item["end"]) for item in data["submatches"]]
                current.lines.append(
                    Line(
                        data["line_number"],
                        data["absolute_offset"],
                        _bytes(data["lines"]),
                        spans,
                        message["type"] == "match",
                    )
                )
                current.count += message["type"] == "match"
            elif message["type"] == "end":
                current.binary_offset = data["binary_offset"]
                current.matches = data["stats"]["matches"]
                current.bytes_searched = data["stats"]["bytes_searched"]
                self._finish(current)
                yield [current]
            else:
                self.summary.documents = data["stats"]["searches"]
                self.summary.bytes_searched = data["stats"]["bytes_searched"]

    def close(self) -> None:
        pass

    def _finish(self, result: FileResult) -> None:
        request = self._request
        named = result.path in [self._relative(os.fsencode(path)) for path in self._paths()]
        if result.binary_offset is not None and (request.binary or named):
            result.lines = []  # small files: the NUL byte is seen before the first line is matched
        if request.output == "count_matches" or (request.output == "count" and request.multiline):
            result.count = result.matches
        if request.output != "lines":
            result.lines = []

    def _command(self) -> tuple[list[str], list[str]]:
        request = self._request
        flags = [f"--regexp={pattern}" for pattern in request.patterns]
        flags.append({"sensitive": "-s", "insensitive": "-i", "smart": "-S"}[request.case])
        switches = {
            "-F": request.fixed_strings,
            "-w": request.word,
            "-x": request.line,
            "-v": request.invert,
            "-U": request.multiline,
            "--multiline-dotall": request.multiline_dotall,
            "--crlf": request.crlf,
            "--no-unicode": not request.unicode,
            "--hidden": request.hidden,
            "--no-ignore": request.no_ignore,
            "--no-ignore-vcs": request.no_ignore_vcs,
            "-a": request.text,
            "--binary": request.binary,
            "-L": request.follow,
        }
        flags += [flag for flag, wanted in switches.items() if wanted]
        flags += [f"-g{glob}" for glob in request.globs] + [f"--iglob={glob}" for glob in request.iglobs]
        flags += [f"-t{name}" for name in request.types] + [f"-T{name}" for name in request.types_not]
        flags += [f"-A{request.after}", f"-B{request.before}"]
        if request.max_count is not None:
            flags.append(f"-m{request.max_count}")
        if request.max_depth is not None:
            flags.append(f"-d{request.max_depth}")
        return flags, self._paths()

    def _paths(self) -> list[str]:
        cwd = self._request.cwd
        return [os.path.join(cwd, path) for path in self._request.paths] or [cwd]

    def _run(self, flags: list[str], paths: list[str]) -> subprocess.CompletedProcess[bytes]:
        command = [self._rg, "--sort=path", *flags, "--", *paths]
        return subprocess.run(
            [os.fsencode(part) for part in command],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )

    def _relative(self, path: bytes) -> str:
        """As the engine names files: relative to the root where they lie in it, else absolute."""
        absolute = os.path.normpath(os.fsdecode(path))
        return os.path.relpath(absolute, self._root) if absolute.startswith(self._root + "/") else absolute


def _bytes(data: dict[str, str]) -> bytes:
    return data["text"].encode() if "text" in data else base64.b64decode(data["bytes"])


class RipgrepEngine:
    """An engine that asks ``rg``."""

    def __init__(self, rg: str, root: str) -> None:
        self._rg = rg
        self.root = root

    def search(self, request: SearchRequest) -> RipgrepAnswer:
        return RipgrepAnswer(self._rg, self.root, request)

    def explain(self, request: SearchRequest) -> dict[str, Any]:
        raise NotImplementedError

    def close(self) -> None:
        pass


@pytest.fixture
def rg_engine(rg: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes every search of the command line ask ``rg --json``."""
    monkeypatch.setattr(engine, "connect", lambda root, options, messages: RipgrepEngine(rg, root))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small directory with what makes printing hard: odd names, odd line ends, bytes that are no text."""
    root = tmp_path_factory.mktemp("tree")
    files = {
        "a/x.c": b"int foo(void);\n\tfoo(1); foo(2);\n\n  return foo;\nend\n",
        "a-b/x.c": b"foo\nbar\nfoo bar foo\n",
        "a.c": b"one\ntwo foo\nthree\nfour\nfive\nsix\nfoo seven foo\neight",
        "a b/with space.txt": b"foo bar\n",
        "B/upper.py": b"FOO = 'foo'\n# Foo\n",
        "crlf.txt": b"foo\r\nbar\r\nfoo bar\r\n\r\nend foo",
        "latin1.txt": b"caf\xe9 foo\nna\xefve foo\n",
        "unicode.txt": "größe foo ☃ foo\nfoo👩‍👩‍👧‍👦e\u0301x\n".encode(),
        "binary.bin": b"foo first\n\0 foo later\nfoo\n",
        "long.js": b"x" * 200 + b"foo" + b"y" * 100 + b" foo " + b"z" * 300 + b"\nshort foo\n",
        "multi.txt": b"begin foo\nbar end\nfoo\nbar\nfoo\n\nbar foo\nbar\n",
        "empty.txt": b"",
        "last": b"no newline foo",
        "escape.txt": b"\x1b[0m\x1b[0m\x1b[1m\x1b[31mfoo\x1b[0m foofoo\n",
        "new\nline": b"foo in an odd name\n",
        "colon:12:name": b"foo\n",
        ".hidden": b"foo hidden\n",
        "none.txt": b"nothing here\n",
    }
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    with open(os.fsencode(root) + b"/bad\xffname", "wb") as file:
        file.write(b"foo \xff\xfe\n")
    return root
