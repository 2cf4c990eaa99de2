"""A server that speaks ``doc/protocol.md`` and does what a test tells it, for races a real one seldom has.

The test gives a function that plays each query; it is called in a thread of its own::

    def play(query: FakeQuery) -> None:
        query.results([file_result("a.c", (1, b"int foo;\\n", [(4, 7)]))])
        query.done()

    with FakeServer(runtime.socket_path(root), play) as server:
        ...
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import msgpack

_PUSH_BY_LUA = "require('indexgrep.rpc').on_push(...)"


def file_result(path: str, *lines: tuple[int, bytes, list[tuple[int, int]]], **extra: Any) -> dict[str, Any]:
    """The map of a file: ``lines`` are number, text and spans."""
    wire: dict[str, Any] = {
        "path": path,
        "count": len(lines),
        "matches": sum(len(spans) for _, _, spans in lines),
        "bytes_searched": 1000,
        "lines": [[number, (number - 1) * 10, text, spans, True] for number, text, spans in lines],
    }
    return wire | extra


def summary(**fields: Any) -> dict[str, Any]:
    """The map of a summary of a complete answer."""
    return {
        "commit": "",
        "served_by": "index",
        "complete": True,
        "reason": "",
        "matched_files": 0,
        "matched_lines": 0,
        "elapsed": {},
    } | fields


class FakeQuery:
    """One ``search`` request; its methods push."""

    def __init__(self, client: _Client, qid: int, request: dict[str, Any]) -> None:
        self._client = client
        self.qid = qid
        self.request = request
        #: Set when the client cancelled it.
        self.cancelled = threading.Event()
        self._seq = 0

    @property
    def pattern(self) -> str:
        return str(self.request["patterns"][0])

    def results(self, files: list[dict[str, Any]], seq: int | None = None) -> None:
        self._client.push("results", [self.qid, self._seq if seq is None else seq, files])
        self._seq += 1

    def done(self, **fields: Any) -> None:
        self._client.push("done", [self.qid, summary(**fields)])

    def failed(self, code: str, message: str, hint: str = "") -> None:
        self._client.push("failed", [self.qid, {"code": code, "message": message, "hint": hint}])

    def progress(self, **state: Any) -> None:
        self._client.push("progress", [state])

    def raw(self, data: bytes) -> None:
        """Send bytes that need not be msgpack-RPC."""
        self._client.send(data)

    def hang_up(self) -> None:
        """End the connection, as a server that is killed does."""
        self._client.close()


class _Client:
    def __init__(self, server: FakeServer, connection: socket.socket) -> None:
        self._server = server
        self._socket = connection
        self._lock = threading.Lock()
        self._by_lua = False
        self.queries: dict[int, FakeQuery] = {}

    def send(self, data: bytes) -> None:
        with self._lock:
            try:
                self._socket.sendall(data)
            except OSError:
                pass

    def push(self, event: str, params: list[Any]) -> None:
        message: list[Any] = [2, event, params]
        if self._by_lua:
            message = [2, "nvim_exec_lua", [_PUSH_BY_LUA, [event, params]]]
        self.send(msgpack.packb(message, unicode_errors="surrogateescape"))

    def close(self) -> None:
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._socket.close()

    def serve(self) -> None:
        unpacker = msgpack.Unpacker(unicode_errors="surrogateescape")
        while True:
            try:
                data = self._socket.recv(65536)
            except OSError:
                return
            if not data:
                return
            unpacker.feed(data)
            for message in unpacker:
                identifier = message[1] if message[0] == 0 else None
                self._take(identifier, message[-2], message[-1])

    def _answer(self, identifier: int | None, error: Any, result: Any) -> None:
        if identifier is not None:
            self.send(msgpack.packb([1, identifier, error, result]))

    def _take(self, identifier: int | None, method: str, params: list[Any]) -> None:
        self._server.calls.append((method, params))
        if method == "hello":
            self._by_lua = params[0].get("push") == "nvim"
            about = {"version": "0", "protocol": self._server.protocol, "pid": os.getpid(), "root": "/"}
            self._answer(identifier, None, about)
        elif method == "search":
            query = FakeQuery(self, params[0], params[1])
            self.queries[query.qid] = query
            refusal = self._server.refusal
            self._answer(identifier, refusal, {"qid": query.qid} if refusal is None else None)
            if refusal is None:
                threading.Thread(target=self._server.play, args=(query,), daemon=True).start()
        elif method == "cancel":
            query = self.queries[params[0]]
            query.cancelled.set()
            self._answer(identifier, None, True)
        elif method == "buffer":
            refusal = self._server.buffer_refusal
            self._answer(identifier, refusal, True if refusal is None else None)
        elif method in ("buffer_gone", "changed"):
            self._answer(identifier, None, True)
        elif method == "status":
            self._answer(identifier, None, self._server.status)
        elif method == "shutdown":
            self._answer(identifier, None, True)
            self._server.close()
        else:
            error = {"code": "usage", "message": f"unknown method {method}", "hint": ""}
            self._answer(identifier, error, None)


class FakeServer:
    """Listens at ``path`` until it is closed; ``play`` is called for each query."""

    def __init__(self, path: Path, play: Callable[[FakeQuery], None]) -> None:
        self.path = path
        self.play = play
        #: Every request and notification that came: method and parameters.
        self.calls: list[tuple[str, list[Any]]] = []
        #: The error that a ``search`` request is answered with, if any.
        self.refusal: dict[str, Any] | None = None
        #: The error that a ``buffer`` request is answered with, if any.
        self.buffer_refusal: dict[str, Any] | None = None
        self.protocol = 1
        self.status: dict[str, Any] = {
            "version": "0",
            "pid": os.getpid(),
            "root": "/",
            "log": "/log",
            "uptime_s": 1,
            "rss_bytes": 1_000_000,
            "clients": 1,
            "index": {"state": "ready", "commit": "abc", "documents": 3, "bytes": 100, "progress": None},
            "freshness": "watch",
            "overlay": 0,
        }
        self._clients: list[_Client] = []
        self._listener = socket.socket(socket.AF_UNIX)

    def __enter__(self) -> FakeServer:
        self._listener.bind(os.fspath(self.path))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            client = _Client(self, connection)
            self._clients.append(client)
            threading.Thread(target=client.serve, daemon=True).start()

    def close(self) -> None:
        """Go away: no socket, no connections."""
        self.path.unlink(missing_ok=True)
        try:
            self._listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._listener.close()
        for client in self._clients:
            client.close()

    def count(self, method: str) -> int:
        """How often ``method`` was called."""
        return sum(name == method for name, _ in self.calls)
