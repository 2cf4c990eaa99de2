"""indexgrep as it is measured: a server of its own, asked over its socket.

Answers are timed twice: as the bytes come (``RawClient``: messages are told apart, lines are not turned into
objects), and through ``indexgrep.client.Client``, line by line as a Python program would read them.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack

from indexgrep import runtime
from indexgrep.client import Client
from indexgrep.index.format import LOOKUP, POSTINGS, read_header
from indexgrep.request import Summary
from indexgrep.server import protocol

from .measure import Cost, memory, run_measured
from .queries import Query

#: How messages begin: [2, "results", ...] and so on (``doc/protocol.md``).
_RESULTS = b"\x93\x02\xa7results"
_DONE = b"\x93\x02\xa4done"
_FAILED = b"\x93\x02\xa6failed"

_INDEX = [sys.executable, "-m", "indexgrep", "index", "--force", "--no-server"]


class RawClient:
    """One connection, over which searches are read with no object made for a line."""

    def __init__(self, root: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(os.fspath(runtime.socket_path(root)))
        self._unpacker = msgpack.Unpacker(raw=False, max_buffer_size=0)
        self._pending = bytearray()
        self._position = 0
        self._next = 0

    def _messages(self) -> Iterator[bytes]:
        """The bytes of each message as it comes."""
        while True:
            data = self._socket.recv(1 << 20)
            if not data:
                raise ConnectionError("the server has closed the connection")
            self._unpacker.feed(data)
            self._pending += data
            while True:
                try:
                    self._unpacker.skip()
                except msgpack.OutOfData:
                    break
                size = self._unpacker.tell() - self._position
                self._position += size
                message = bytes(self._pending[:size])
                del self._pending[:size]
                yield message

    def results(self, query: Query) -> Iterator[bytes]:
        """Sends a search; yields the bytes of each push of results until it is done."""
        self._next += 1
        params = [self._next, query.request().to_wire()]
        self._socket.sendall(protocol.request(self._next, "search", params))
        for message in self._messages():
            if message.startswith(_RESULTS):
                yield message
            elif message.startswith(_DONE):
                return
            elif message.startswith(_FAILED):
                raise RuntimeError(f"{query.name}: {message!r}")

    def full(self, query: Query) -> None:
        """Read a whole answer."""
        for _ in self.results(query):
            pass

    def close(self) -> None:
        self._socket.close()


def first_lines(root: Path, query: Query, wanted: int = 100) -> float:
    """Seconds until ``wanted`` lines (or all there are) stand ready as objects; then the search is left."""
    client = RawClient(root)
    started = time.perf_counter()
    lines = 0
    for message in client.results(query):
        files = msgpack.unpackb(message, unicode_errors="surrogateescape")[2][2]
        lines += sum(len(file["lines"]) for file in files)
        if lines >= wanted:
            break
    elapsed = time.perf_counter() - started
    client.close()
    return elapsed


class Ours:
    """The server of ``tree`` with cache and sockets in ``work``, until ``close``."""

    def __init__(self, tree: Path, work: Path) -> None:
        self.tree = tree
        self._work = work
        # For this process too: it finds the socket by them.
        os.environ |= {
            "INDEXGREP_CACHE_DIR": str(work / "cache"),
            "INDEXGREP_RUNTIME_DIR": str(work / "run"),
            "INDEXGREP_LOG": str(work / "log"),
        }
        self._client: Client | None = None

    def compile_kernels(self) -> Cost:
        """Make the index of one file in the fresh cache: what the first build on a machine costs besides."""
        self._work.mkdir(parents=True, exist_ok=True)
        (self._work / "tiny").mkdir()
        (self._work / "tiny" / "file").write_text("a file\n")
        return run_measured(_INDEX, self._work / "tiny")

    def build(self) -> Cost:
        """Make the index anew, in a process of its own as the server makes it."""
        return run_measured(_INDEX, self.tree)

    def connect(self) -> None:
        """Start the server unless one runs; its index may still be opening or being built."""
        self._client = Client(self.tree)

    def start(self) -> None:
        """Start the server, and wait until its index is open."""
        self.connect()
        self.client.index()

    @property
    def client(self) -> Client:
        assert self._client is not None, "the server was not started"
        return self._client

    @property
    def pid(self) -> int:
        """The server's process."""
        pid: int = self.client.server["pid"]
        return pid

    def server_memory(self) -> int:
        """Resident bytes of the server, shared libraries and mapped index included."""
        return memory(self.pid, "Rss")

    def status(self) -> dict[str, Any]:
        return self.client.status()

    def parts(self) -> dict[str, int]:
        """Bytes of each section of the two files, by ``file.section``."""
        directory = Path(self.status()["index"]["dir"])
        sizes: dict[str, int] = {}
        for kind in (POSTINGS, LOOKUP):
            with open(directory / kind, "rb") as file:
                header, _, _ = read_header(file, kind, (directory / kind).stat().st_size)
            sizes |= {f"{kind}.{name}": size for name, (size, _) in header.sections.items()}
        return sizes

    def iterate(self, query: Query) -> None:
        """Read a whole answer line by line through the client."""
        for _ in self.client.search(query.request()):
            pass

    def answer(self, query: Query) -> tuple[list[bytes], Summary]:
        """The answer's lines as ripgrep prints them with ``-n``, sorted, and its summary."""
        return self.asked(self.client, query)

    @staticmethod
    def asked(client: Client, query: Query) -> tuple[list[bytes], Summary]:
        """The same through another client."""
        search = client.search(query.request())
        lines = [
            b"%b:%d:%b" % (os.fsencode(match.path), match.line_number, match.text.removesuffix(b"\n"))
            for match in search
        ]
        summary = search.summary
        assert summary is not None
        return sorted(lines), summary

    def close(self) -> None:
        """Stop the server, if one was started; ``connect`` and ``start`` start another."""
        if self._client is not None:
            self._client.shutdown()
            self._client = None
