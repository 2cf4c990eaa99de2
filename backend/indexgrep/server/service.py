"""The server of one worktree: one session, any number of clients, and when to go.

The event loop only moves bytes. Whatever takes the session (searches, explanations, status, builds) runs in
threads of its own. The socket answers before the session is open; requests that need it wait.

The server goes when

* it has had no client and no request for ``idle_s`` seconds. A connected client keeps it, however silent:
  an editor left open over lunch finds a warm server, as with a language server;
* it is told to (``shutdown``, SIGTERM, SIGINT);
* its root directory is gone or replaced by another, or its socket is;
* the session cannot be opened: every request is answered with that error until the clients have left.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import resource
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from .. import __version__, memory, runtime
from ..errors import Cancelled, IndexGrepError, RootError
from ..overlay.buffers import Snapshot, merged
from ..request import SearchRequest
from . import protocol
from .connection import Connection
from .interface import Session
from .query import Query, going, in_thread, internal_error

log = logging.getLogger("indexgrep.server")

_T = TypeVar("_T")

#: How long a server without clients stays, in seconds, unless told otherwise.
DEFAULT_IDLE_S = 900.0
#: How often the server looks whether it should go, in seconds.
_WATCH_S = 1.0
#: How long it waits for its threads when it goes, and stays to tell its clients why it cannot serve.
_GOODBYE_S = 3.0
#: How long it waits for clients to read their last words: a starter may be waiting for the lock.
_DRAIN_S = 0.5
#: How often a server in use looks whether its index is worth renewing, in seconds.
_RENEW_S = 30.0
#: How long after a build that failed the next is tried: the first time, the second, and from then on.
_RETRY_S = (5.0, 60.0, 600.0)
#: Progress pushes come at most once in so many seconds, except when the phase changes.
_PROGRESS_S = 0.1


class Server:
    """See the module.

    ``open_session`` is called in a thread once the socket listens. ``listener`` is a bound and listening Unix
    socket at ``path``. ``opened`` is called with ``None`` or the error when the session is open or will never
    be. With ``auto_build`` an index that is not ready is built at once.
    """

    def __init__(
        self,
        open_session: Callable[[], Session],
        root: str,
        listener: socket.socket,
        path: Path,
        *,
        idle_s: float = DEFAULT_IDLE_S,
        auto_build: bool = True,
        opened: Callable[[IndexGrepError | None], None] | None = None,
    ) -> None:
        self.root = root
        self._open_session = open_session
        self._listener = listener
        self._path = path
        self._idle_s = idle_s
        self._auto_build = auto_build
        self._on_opened = opened
        self._started = self._last_active = time.monotonic()
        self._root_identity = _identity(root)
        self._socket_identity = _identity(path)
        self._connections: set[Connection] = set()
        self._session: asyncio.Future[Session]
        self._loop: asyncio.AbstractEventLoop
        self._stop: asyncio.Event
        self._stopping = False
        self._build: threading.Event | None = None
        #: How many builds have failed one after another, and when the next may be tried.
        self._failures = 0
        self._retry_at = 0.0
        self._tidied = 0.0
        self._looked_at_index = time.monotonic()
        self._progress: dict[str, Any] | None = None
        self._outcome: dict[str, Any] = {}
        self._progress_sent = 0.0

    # Life -----------------------------------------------------------------------------------------------

    async def serve(self) -> None:
        """Serve until the server has reason to go, then leave nothing behind."""
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._session = self._loop.create_future()
        server = await self._loop.create_unix_server(
            lambda: Connection(self, self._loop), sock=self._listener
        )
        opening = self._loop.create_task(self._open())
        watching = self._loop.create_task(self._watch())
        try:
            await self._stop.wait()
        finally:
            self._stopping = True
            self._remove_socket()  # first of all, so that a client from now on starts a new server
            server.close()
            watching.cancel()
            await self._leave()
            await asyncio.wait({opening}, timeout=_GOODBYE_S)
            if self._session.exception() is None:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._in_thread("close", self._session.result().close), _GOODBYE_S)

    def shutdown(self) -> None:
        """Go, from the event loop."""
        self._stop.set()

    async def _open(self) -> None:
        try:
            session = await self._in_thread("open", self._open_session)
        except Exception as fault:
            error = fault if isinstance(fault, IndexGrepError) else internal_error(fault, "opening the index")
            log.error("the session cannot be opened: %s", error.message)
            self._give_up(error)
            if self._on_opened is not None:
                self._on_opened(error)
            return
        if self._session.done():  # told to go meanwhile
            session.close()
            return
        self._session.set_result(session)
        if self._on_opened is not None:
            self._on_opened(None)
        if self._auto_build and not self._stopping:
            await self._build_if_needed(session)

    def _give_up(self, error: IndexGrepError) -> None:
        """Answer every request that needs the session with ``error``."""
        if not self._session.done():
            self._session.set_exception(error)
            self._session.exception()  # seen: each client that asks is told

    async def _build_if_needed(self, session: Session) -> None:
        try:
            status = await self._in_thread("status", session.status)
            if status.get("index", {}).get("state") != "ready":
                self._start_build(session, force=False)
        except Exception as error:
            internal_error(error, "looking at the index")

    async def _watch(self) -> None:
        """Look every second whether there is a reason to go."""
        while True:
            await asyncio.sleep(min(_WATCH_S, self._idle_s / 4 + 0.01))
            why = self._reason_to_go()
            if why:
                log.info("going: %s", why)
                self._stop.set()
                return
            self._tidy()
            await self._renew()

    def _tidy(self) -> None:
        """Once the server rests, collect the few cycles that connections leave, and give memory back."""
        if self._tidied < self._last_active and not any(c.queries for c in self._connections):
            self._tidied = time.monotonic()
            gc.collect()  # what was there when the session opened is frozen, so this takes a millisecond
            in_thread("tidy", lambda: memory.give_back(now=True))

    async def _renew(self) -> None:
        """Build anew once the tree has moved far from the index; not again and again where that fails."""
        now = time.monotonic()
        used = self._last_active > self._looked_at_index
        early = now < max(self._looked_at_index + _RENEW_S, self._retry_at)
        if not self._auto_build or not used or early:
            return
        self._looked_at_index = now
        if self._build is None and self._session.done() and self._session.exception() is None:
            await self._build_if_needed(self._session.result())

    def _reason_to_go(self) -> str:
        if _identity(self.root) != self._root_identity:
            return "the root is gone"
        if _identity(self._path) != self._socket_identity:
            return "the socket is gone"
        silent = time.monotonic() - self._last_active
        if self._session.done() and self._session.exception() is not None:
            return "no session" if silent > _GOODBYE_S or (not self._connections and silent > 1) else ""
        if not self._connections and silent > self._idle_s:
            return "idle"
        return ""

    async def _leave(self) -> None:
        """End queries and builds, and let the clients have their last words."""
        if self._build is not None:
            self._build.set()
        self._give_up(going())
        for connection in self._connections:
            connection.stop_queries("shutdown")
        deadline = time.monotonic() + _GOODBYE_S
        while time.monotonic() < deadline and (
            self._build is not None or any(connection.busy for connection in self._connections)
        ):
            await asyncio.sleep(0.01)
        for connection in list(self._connections):
            connection.close()
        deadline = time.monotonic() + _DRAIN_S
        while time.monotonic() < deadline and self._connections:
            await asyncio.sleep(0.005)
        for connection in list(self._connections):
            connection.abort()

    def _remove_socket(self) -> None:
        if _identity(self._path) == self._socket_identity:
            with contextlib.suppress(OSError):
                self._path.unlink()

    def _in_thread(self, name: str, body: Callable[..., _T], *args: Any) -> asyncio.Future[_T]:
        """Run ``body`` in a thread of its own; a daemon, unlike the executor's."""
        future: asyncio.Future[_T] = self._loop.create_future()

        def settle(setter: Callable[[Any], None], value: Any) -> None:
            if not future.done():
                setter(value)

        def run() -> None:
            try:
                outcome: tuple[Callable[[Any], None], Any] = (future.set_result, body(*args))
            except BaseException as error:
                outcome = (future.set_exception, error)
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(settle, *outcome)

        in_thread(name, run)
        return future

    # For connections ------------------------------------------------------------------------------------

    def joined(self, connection: Connection) -> None:
        self._connections.add(connection)
        self.touched()

    def closed(self, connection: Connection) -> None:
        self._connections.discard(connection)
        self.touched()

    def touched(self) -> None:
        self._last_active = time.monotonic()

    def about(self) -> dict[str, Any]:
        return {
            "version": __version__,
            "protocol": protocol.PROTOCOL_VERSION,
            "pid": os.getpid(),
            "root": self.root,
            "log": str(runtime.log_path()),
        }

    def greeted(self, connection: Connection) -> None:
        if self._build is not None and self._progress is not None:
            progress = protocol.push(connection.push_kind, "progress", [self._progress])
            self._loop.call_soon(connection.send, progress)  # after the answer to hello

    def start_query(self, query: Query) -> None:
        if _identity(self.root) != self._root_identity:
            # Deleted, or deleted and made anew: the session knows the old one. The client asks a new server.
            self._stop.set()
            query.refuse(going())
        elif self._stopping:
            query.refuse(going())
        elif self._session.done():
            self._run_query(query)
        else:
            self._session.add_done_callback(lambda _: self._run_query(query))

    def _run_query(self, query: Query) -> None:
        error = self._session.exception()
        if error is None:
            query.start(self._session.result())
        else:
            query.refuse(error if isinstance(error, IndexGrepError) else RootError(str(error)))

    def all_buffers(self) -> Snapshot:
        return merged(connection.buffers for connection in self._connections)

    def changed(self, paths: Iterable[bytes]) -> None:
        def tell(opened: asyncio.Future[Session]) -> None:
            if opened.exception() is None:
                opened.result().changed(paths)

        if self._session.done():
            tell(self._session)
        else:
            self._session.add_done_callback(tell)

    async def explain(self, request: SearchRequest, buffers: Snapshot | None) -> dict[str, Any]:
        session = await asyncio.shield(self._session)
        return await self._in_thread("explain", session.explain, request, buffers)

    async def status(self) -> dict[str, Any]:
        session = await asyncio.shield(self._session)
        status = await self._in_thread("status", session.status)
        index = dict(status.get("index", {}))
        if self._build is not None:
            index["state"], index["progress"] = "building", self._progress
        return {
            **status,
            **self.about(),
            "socket": str(self._path),
            "uptime_s": time.monotonic() - self._started,
            "rss_bytes": _resident_bytes(),
            "clients": len(self._connections),
            "buffers": self._count_buffers(),
            "queries": sum(len(connection.queries) for connection in self._connections),
            "index": index,
        }

    def _count_buffers(self) -> dict[str, int]:
        """How many unsaved buffers of how many clients there are, and the bytes they take."""
        held = [connection.buffers for connection in self._connections if connection.buffers.size]
        return {
            "count": sum(len(buffers) for buffers in held),
            "clients": len(held),
            "bytes": sum(buffers.size for buffers in held),
        }

    # Builds ---------------------------------------------------------------------------------------------

    async def index(self, force: bool) -> dict[str, Any]:
        session = await asyncio.shield(self._session)
        if not force and self._build is None:
            status = await self._in_thread("status", session.status)
            if status.get("index", {}).get("state") == "ready" and not status.get("hot"):
                return {"started": False, "reason": "fresh"}
        if self._build is not None:
            return {"started": False, "reason": "running"}
        if self._stopping:
            raise going()
        self._start_build(session, force)
        return {"started": True, "reason": ""}

    def _start_build(self, session: Session, force: bool) -> None:
        if self._build is not None:
            return
        self._build = cancel = threading.Event()
        self._progress = {"phase": "scan"}
        self._outcome = {}
        build = self._in_thread("build", session.build, self._report, cancel, force)
        build.add_done_callback(self._built)

    def _built(self, build: asyncio.Future[None]) -> None:
        self._build = None
        self.touched()
        error = build.exception()
        self._failures = 0 if error is None else self._failures + 1
        if self._failures:
            self._retry_at = time.monotonic() + _RETRY_S[min(self._failures, len(_RETRY_S)) - 1]
        if error is None:
            self._broadcast({**(self._progress or {}), **self._outcome, "phase": "ready"})
        elif not isinstance(error, Cancelled):
            if not isinstance(error, IndexGrepError):
                error = internal_error(error, "building the index")
            log.error("the index could not be built: %s", error.message)
            self._broadcast({"phase": "failed", "error": error.to_wire()})

    def _report(self, state: dict[str, Any]) -> None:
        """From the build's thread."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._reported, dict(state))

    def _reported(self, state: dict[str, Any]) -> None:
        if state.get("phase") == "ready":
            self._outcome = state  # told once the build is over: who hears it may ask for the status
        else:
            self._broadcast(state)

    def _broadcast(self, state: dict[str, Any]) -> None:
        last = self._progress or {}
        self._progress = state
        self.touched()
        now = time.monotonic()
        news = state.get("phase") != last.get("phase")
        if not news and now - self._progress_sent < _PROGRESS_S:
            return
        self._progress_sent = now
        for connection in self._connections:
            if connection.wants_progress and (news or not connection.congested):
                connection.send(protocol.push(connection.push_kind, "progress", [state]))


def _identity(path: str | Path) -> tuple[int, int] | None:
    """What a path names now, to be compared; ``None`` where there is nothing."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _resident_bytes() -> int:
    try:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * resource.getpagesize()
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
