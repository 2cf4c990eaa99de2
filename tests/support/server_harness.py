"""A server in a thread of the test's process, raw peers for it, and environments for server processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from indexgrep.server import protocol
from indexgrep.server.service import Server

from .fake_session import FakeSession

FAKE_ENGINE = Path(__file__).resolve().parents[1] / "server" / "fake_engine"


class RunningServer:
    """A server, its session and its socket."""

    def __init__(self, server: Server, session: Any, path: Path, thread: threading.Thread) -> None:
        self.server, self.session, self.path, self.thread = server, session, path, thread

    def running_queries(self) -> int:
        return sum(len(connection.queries) for connection in self.server._connections)


@contextlib.contextmanager
def running_server(
    session: Any = None, *, root: str | None = None, **options: Any
) -> Iterator[RunningServer]:
    """Serve ``session`` (by default a new fake one) until the block is left."""
    session = FakeSession() if session is None else session
    with tempfile.TemporaryDirectory(prefix="ig-") as directory:
        path = Path(directory, "socket")
        if root is None:
            root = str(Path(directory, "root"))
            os.mkdir(root)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(path))
        listener.listen(64)
        listener.setblocking(False)
        opener = session if callable(session) else lambda: session
        server = Server(opener, root, listener, path, **options)
        faults: list[BaseException] = []

        async def main() -> None:
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(
                lambda _, context: faults.append(context.get("exception") or KeyError(str(context)))
            )
            await server.serve()

        thread = threading.Thread(target=lambda: asyncio.run(main()), daemon=True)
        thread.start()
        eventually(lambda: hasattr(server, "_session"))
        try:
            yield RunningServer(server, session, path, thread)
        finally:
            if thread.is_alive():
                with contextlib.suppress(RuntimeError):
                    server._loop.call_soon_threadsafe(server.shutdown)
            thread.join(10)
            assert not thread.is_alive(), "the server did not go"
            assert not faults, faults


class Peer:
    """A raw msgpack-RPC client: sends what it is told, and keeps all that comes."""

    def __init__(self, path: Path, timeout: float = 10.0) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(timeout)
        self.socket.connect(str(path))
        self.unpacker = protocol.unpacker()
        self.pushes: list[list[Any]] = []
        self._id = 0

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.socket.close()

    def send(self, message: Any) -> None:
        self.socket.sendall(protocol.packer().pack(message))

    def notify(self, method: str, *params: Any) -> None:
        self.send([2, method, list(params)])

    def message(self) -> Any:
        """The next message. Raises ``EOFError`` when the server closed the connection."""
        while True:
            for message in self.unpacker:
                return message
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionResetError:
                data = b""
            if not data:
                raise EOFError
            self.unpacker.feed(data)

    def call(self, method: Any, *params: Any) -> tuple[Any, Any]:
        """A request; its error and its result. Pushes that come first are kept."""
        self._id += 1
        self.send([0, self._id, method, list(params)])
        while True:
            message = self.message()
            if message[0] == 1:
                assert message[1] == self._id
                return message[2], message[3]
            self.pushes.append(message)

    def push(self) -> Any:
        """The next push: ``[event, params]``."""
        if self.pushes:
            message = self.pushes.pop(0)
        else:
            message = self.message()
        assert message[0] == 2, message
        return message[1:]

    def answer(self, qid: int) -> tuple[list[dict[str, Any]], str, Any]:
        """All files of a query up to its end: files, last event, its summary or error."""
        files: list[dict[str, Any]] = []
        seq = 0
        while True:
            event, params = self.push()
            if event == "progress" or params[0] != qid:
                continue
            if event != "results":
                return files, event, params[1]
            assert params[1] == seq
            seq += 1
            files += params[2]

    def search(self, qid: int, pattern: str, **options: Any) -> tuple[list[dict[str, Any]], str, Any]:
        self.notify("search", qid, {"patterns": [pattern], **options})
        return self.answer(qid)


def eventually(condition: Callable[[], Any], timeout: float = 5.0) -> None:
    """Wait until ``condition`` holds."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, "it never came to hold"
        time.sleep(0.002)


def fake_engine_environment() -> dict[str, str]:
    """Variables that give server processes the fake session in place of the engine."""
    path = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join([str(FAKE_ENGINE), *([path] if path else [])])}


def alive(pid: int) -> bool:
    """Whether a process runs (a zombie does not)."""
    if sys.platform != "linux":
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return True
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
