"""A worktree under a real server: what it answers, over the socket and on the command line, is ripgrep's."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cli.conftest import run_main
from indexgrep.client import Client
from indexgrep.index.store import Store
from indexgrep.overlay.policy import Policy
from indexgrep.request import SearchRequest, Summary
from indexgrep.server import lifecycle

from .oracle import Record, ask_ripgrep, difference, records

SEAMS = Path(__file__).with_name("seams")


def git(root: Path, *arguments: str, fails: bool = False) -> str:
    """What git prints. Raises where it fails, with ``fails`` where it does not."""
    run = subprocess.run(
        ["git", "-C", str(root), *arguments], capture_output=True, text=True, errors="surrogateescape"
    )
    assert (run.returncode != 0) == fails, f"git {' '.join(arguments)}: {run.stdout}{run.stderr}"
    return run.stdout


def keep_branches(root: Path, *kept: str) -> None:
    """Delete all branches but these."""
    for branch in git(root, "branch", "--format=%(refname:short)").split():
        if branch not in kept:
            git(root, "branch", "--quiet", "-D", branch)


class Served:
    """See the module. Its server is started by the first question, and stopped by ``close``."""

    def __init__(self, root: Path, rg: str, **seams: object) -> None:
        """``seams`` go into the server's environment; see ``support/seams/sitecustomize.py``."""
        self.root = root
        self.rg = rg
        self._seams = {name: str(value) for name, value in seams.items()}
        self._client: Client | None = None
        #: Of the last search.
        self.summary = Summary()

    # Its files

    def git(self, *arguments: str, fails: bool = False) -> str:
        return git(self.root, *arguments, fails=fails)

    def write(self, name: str, text: str | bytes) -> Path:
        """Write a file as a plain ``open`` does, with the directories it needs."""
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    def commit_all(self, message: str = "commit") -> str:
        """Commit everything there is; the id of the commit."""
        self.git("add", "--all", "--force")
        self.git("commit", "--quiet", "--message", message)
        return self.git("rev-parse", "HEAD").strip()

    # Its server

    @property
    def client(self) -> Client:
        if self._client is None:
            with self._surroundings():
                self._client = Client(self.root)
        return self._client

    @contextlib.contextmanager
    def _surroundings(self) -> Iterator[None]:
        """The environment in which a server is started."""
        if not self._seams:
            yield
            return
        path = os.environ.get("PYTHONPATH")
        before = dict(os.environ)
        os.environ.update(self._seams)
        os.environ["PYTHONPATH"] = os.pathsep.join([str(SEAMS), *([path] if path else [])])
        try:
            yield
        finally:
            os.environ.clear()
            os.environ.update(before)

    @property
    def pid(self) -> int:
        """Of the server that answers now."""
        return int(self.client.status()["pid"])

    def status(self) -> dict[str, Any]:
        return self.client.status()

    def index(self) -> None:
        """Have an index, and be served by it."""
        self.client.index()
        assert self.status()["index"]["state"] == "ready"

    def settle(self) -> None:
        """Wait until the background has made of the files that are in no index what is worth it."""
        deadline = time.monotonic() + 60
        while self.status()["hot"] > Policy().hot_files:
            assert time.monotonic() < deadline, self.status()
            time.sleep(0.03)

    def builds(self) -> dict[str, int]:
        """The bases that were built of whole commits, by commit; the numbers tell one from a later one."""
        return {
            one.name: one.directory.stat().st_ino
            for one in Store(self.root / ".git").stored()
            if one.name == one.commit
        }

    def restart(self, *, while_off: Any = None) -> None:
        """Stop the server, call ``while_off``, and start another with the next question."""
        self.close()
        if while_off is not None:
            while_off()

    def close(self) -> None:
        """Stop the server."""
        if self._client is not None:
            self._client.close()
            self._client = None
        if self.root.is_dir():
            lifecycle.stop_server(self.root)

    # Its answers

    def search(self, pattern: str, **options: Any) -> dict[str, Record]:
        """The server's answer alone; ``summary`` is of it. It is complete and without errors."""
        search = self.client.search(pattern, **options)
        answer = records([file] for file in search.files())
        assert search.summary is not None
        assert search.summary.complete
        assert search.summary.errors == 0
        self.summary = search.summary
        return answer

    def paths(self, pattern: str, **options: Any) -> list[str]:
        """The files that answer, as the server alone says."""
        return list(self.search(pattern, **options))

    def check(self, pattern: str, **options: Any) -> dict[str, Record]:
        """The answer of the server, which is that of ripgrep and, as lines of text, of the command line."""
        ours = self.search(pattern, **options)
        request = SearchRequest(patterns=(pattern,), **options)
        theirs = ask_ripgrep(self.rg, self.root, request)
        assert ours == theirs, f"{pattern!r}:\n{difference(ours, theirs)}"
        if not options:
            with contextlib.chdir(self.root):
                printed = run_main("--no-heading", "--color=never", "-n", "-e", pattern)
            assert (printed.out, printed.err) == (_as_text(ours), b""), pattern
            assert printed.code == (0 if ours else 1)
        return ours

    def expect(self, found: Mapping[str, list[str]]) -> None:
        """Each pattern is in just these files, say ripgrep, the server, and the command line."""
        for pattern, paths in found.items():
            assert sorted(self.check(pattern)) == sorted(paths), pattern


def _as_text(answer: dict[str, Record]) -> bytes:
    """An answer as ``rg -n`` prints it, for files that are all text."""
    return b"".join(
        b"%b:%d:%b" % (os.fsencode(path), number, text if text.endswith(b"\n") else text + b"\n")
        for path, record in answer.items()
        for number, _, text, _, _ in record.lines
    )


@contextlib.contextmanager
def serving(root: Path, rg: str, **seams: object) -> Iterator[Served]:
    """A served worktree, for the time of a block."""
    served = Served(root, rg, **seams)
    try:
        yield served
    finally:
        served.close()
