"""The tools that indexgrep is compared with: how each builds its index, answers, and is cleaned up after."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from .measure import Cost, MemoryWatch, cpu_seconds, run_measured
from .queries import Query

#: How long a server of a peer may take to build its index.
_BUILD_PATIENCE_S = 1800.0


def find_tool(name: str) -> str | None:
    """The program, from this environment or PATH."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else shutil.which(name)


class Peer:
    """ripgrep, and the base of the others. ``work`` is a directory of its own for the index."""

    name = "rg"
    programs: tuple[str, ...] = ("rg",)

    def __init__(self, tree: Path, work: Path) -> None:
        self.tree = tree
        self.work = work
        self.environment: dict[str, str] = {}
        self._paths = {program: find_tool(program) for program in self.programs}

    @property
    def missing(self) -> str | None:
        """The first program that this machine has not."""
        return next((program for program, path in self._paths.items() if path is None), None)

    def program(self, name: str) -> str:
        path = self._paths[name]
        assert path is not None
        return path

    def build(self) -> Cost | None:
        """Build the index; ``None`` where there is none."""
        return None

    def index_bytes(self) -> int:
        return sum(path.stat().st_size for path in self.work.rglob("*") if path.is_file())

    def command(self, query: Query) -> list[str]:
        """Prints every matching line as ``path:number:text``."""
        flags = ["--no-config", "--no-heading", "--color=never", "-n"]
        return [self.program("rg"), *flags, *query.flags, "-e", query.pattern, "./"]

    def answer(self, query: Query) -> bytes:
        """What the command prints. Raises ``CalledProcessError`` where it fails."""
        run = subprocess.run(
            self.command(query),
            cwd=self.tree,
            env=os.environ | self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        if run.returncode not in (0, 1):
            raise subprocess.CalledProcessError(run.returncode, self.command(query))
        return run.stdout

    def lines(self, query: Query) -> list[bytes]:
        """The answer's lines, sorted, with paths relative to the tree and without notes on binary files."""
        prefixes = (b"./", os.fsencode(self.tree) + b"/")
        found = []
        for line in self.answer(query).split(b"\n"):
            for prefix in prefixes:
                line = line.removeprefix(prefix)
            if line and not _NOTE.search(line):
                found.append(line)
        return sorted(found)

    def close(self) -> None:
        """Stop what was started."""


_NOTE = re.compile(rb': (WARNING: stopped searching binary file after match|binary file matches) \(found "')


class Rgx(Peer):
    """ripgrepx: trigrams in a server, which is run here in the foreground."""

    name = "rgx"
    programs = ("rgx",)

    def __init__(self, tree: Path, work: Path) -> None:
        super().__init__(tree, work)
        self.environment = {"RGX_CACHE_DIR": str(work)}
        self._server: subprocess.Popen[bytes] | None = None

    def build(self) -> Cost:
        started = time.perf_counter()
        self._server = subprocess.Popen(
            [self.program("rgx"), "--server"],
            cwd=self.tree,
            env=os.environ | self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        watch = MemoryWatch(self._server.pid)
        while not self._ready():
            if time.perf_counter() - started > _BUILD_PATIENCE_S or self._server.poll() is not None:
                watch.stop()
                raise subprocess.CalledProcessError(1, ["rgx", "--server"])
            time.sleep(0.2)
        wall = time.perf_counter() - started
        return Cost(wall, cpu_seconds(self._server.pid), watch.stop())

    def _ready(self) -> bool:
        run = subprocess.run(
            [self.program("rgx"), "--server", "status"],
            cwd=self.tree,
            env=os.environ | self.environment,
            capture_output=True,
            check=False,
        )
        return re.search(rb"\bready\b", run.stdout) is not None and b"not ready" not in run.stdout

    def server_pid(self) -> int | None:
        return self._server.pid if self._server is not None else None

    def command(self, query: Query) -> list[str]:
        return [self.program("rgx"), "-n", *query.flags, "--", query.pattern]

    def close(self) -> None:
        if self._server is not None:
            self._server.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._server.wait(10)
            self._server.kill()
            self._server.wait()


class Glep(Peer):
    """glep: mapped trigrams, the tree swept at each query.

    It writes its index into the tree, so it gets a copy of it.
    """

    name = "glep"
    programs = ("glep",)

    def __init__(self, tree: Path, work: Path) -> None:
        super().__init__(tree, work)
        self.environment = {"GLEP_SYNC_BUILD": "1", "GLEP_BG": "0"}

    def build(self) -> Cost:
        copy = self.work / "tree"
        shutil.copytree(self.tree, copy, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        subprocess.run(["git", "init", "--quiet", copy], check=True)
        self.tree = copy
        return run_measured([self.program("glep"), "index"], self.tree, self.environment)

    def index_bytes(self) -> int:
        return sum(path.stat().st_size for path in (self.tree / ".glep").rglob("*") if path.is_file())

    def command(self, query: Query) -> list[str]:
        flags = ["-n", "--no-heading", "--color=never"]
        return [self.program("glep"), *flags, *query.flags, "-e", query.pattern, "./"]


class Csearch(Peer):
    """codesearch of 2012: trigrams, rebuilt by hand."""

    name = "csearch"
    programs = ("csearch", "cindex")

    def __init__(self, tree: Path, work: Path) -> None:
        super().__init__(tree, work)
        self.environment = {"CSEARCHINDEX": str(work / "index")}

    def build(self) -> Cost:
        return run_measured([self.program("cindex"), str(self.tree)], self.tree, self.environment)

    def command(self, query: Query) -> list[str]:
        pattern = re.escape(query.pattern) if "-F" in query.flags else query.pattern
        if "-w" in query.flags:
            pattern = rf"\b(?:{pattern})\b"
        flags = ["-n", *(["-i"] if "-i" in query.flags else [])]
        return [self.program("csearch"), *flags, pattern]


PEERS: tuple[type[Peer], ...] = (Peer, Rgx, Glep, Csearch)
