"""One client's connection: requests in, responses and pushes out.

Everything here runs on the event loop, except ``put`` and ``end``, which query threads call. A fault of a
client ends at most its own connection.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol, TypeGuard

from .. import __version__
from ..errors import IndexGrepError, ServerError, UsageError
from ..overlay.buffers import Buffers, Snapshot, inside
from ..request import SearchRequest
from . import protocol
from .query import Query, internal_error

log = logging.getLogger("indexgrep.server")

#: Bytes of results that may wait in one connection's outbox before its query threads are held, and as much
#: again in the transport, whose own limits are given here too.
OUTBOX_BYTES = 512 << 10
TRANSPORT_HIGH, TRANSPORT_LOW = 256 << 10, 64 << 10
#: The most that asyncio reads at once: so much of what follows a message may lie in the decoder with it.
READ_BYTES = 256 << 10
#: A client that does not read its answers is not read either once this much waits for it.
UNREAD_BYTES = 4 << 20
#: Queries one client may have running.
MAX_QUERIES = 64
#: How long after its deadline a query is stopped from here.
DEADLINE_GRACE_S = 0.05


class Service(Protocol):
    """What a connection asks of the server."""

    root: str

    def about(self) -> dict[str, Any]:
        """The result of ``hello``."""
        ...

    def joined(self, connection: Connection) -> None: ...

    def greeted(self, connection: Connection) -> None: ...

    def closed(self, connection: Connection) -> None: ...

    def touched(self) -> None:
        """A request arrived: the server is not idle."""
        ...

    def start_query(self, query: Query) -> None:
        """Run the query in a thread as soon as the session is open."""
        ...

    def all_buffers(self) -> Snapshot:
        """The unsaved buffers of all clients."""
        ...

    def changed(self, paths: Iterable[bytes]) -> None:
        """These files (relative to the root) have changed: look at them before the next query."""
        ...

    async def explain(self, request: SearchRequest, buffers: Snapshot | None) -> dict[str, Any]: ...

    async def status(self) -> dict[str, Any]: ...

    async def index(self, force: bool) -> dict[str, Any]: ...

    def shutdown(self) -> None: ...


class Connection(asyncio.Protocol):
    """One client. ``gate`` guards the count of waiting bytes and the credits of the client's queries."""

    def __init__(self, service: Service, loop: asyncio.AbstractEventLoop) -> None:
        self.gate = threading.Condition()
        self.push_kind = "notify"
        self.wants_progress = False
        self.queries: dict[int, Query] = {}
        self.buffers = Buffers(service.root)
        self._service = service
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._unpacker = protocol.unpacker(protocol.MAX_REQUEST_BYTES + READ_BYTES)
        self._outbox: deque[tuple[Query | None, bytes]] = deque()
        self._waiting = 0
        self._writable = True
        self._tasks: set[asyncio.Task[None]] = set()
        #: Methods that are answered at once, and those that take the session and are answered by a task.
        self._calls: dict[str, Callable[[list[Any]], Any]] = {
            "hello": self._hello,
            "buffer": self._buffer,
            "buffer_gone": self._buffer_gone,
            "changed": self._changed,
            "cancel": self._cancel,
            "more": self._more,
            "ping": self._ping,
            "shutdown": self._shutdown,
        }
        self._slow_calls: dict[str, Callable[[list[Any]], Awaitable[Any]]] = {
            "explain": self._explain,
            "status": self._status,
            "index": self._index,
        }

    # Transport ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.set_write_buffer_limits(high=TRANSPORT_HIGH, low=TRANSPORT_LOW)
        self._transport = transport
        self._service.joined(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        for query in list(self.queries.values()):
            query.stop("disconnected")
        with self.gate:
            self._outbox.clear()
            self._waiting = 0
            self.gate.notify_all()
        self.buffers.clear()
        for task in self._tasks:
            task.cancel()
        self._service.closed(self)

    def data_received(self, data: bytes) -> None:
        try:
            self._unpacker.feed(data)
            for message in self._unpacker:
                self._receive(message)
                if self._transport is None:
                    return
        except Exception as error:  # msgpack has many, and none of them is a reason to go on
            self._reject(f"a message that cannot be decoded ({type(error).__name__})")

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        self._flush()

    def close(self) -> None:
        """Close once what is queued has been written."""
        self._flush()
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    # Messages out ---------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Queue a response or a push that is not a batch."""
        self._queue(None, data)

    @property
    def congested(self) -> bool:
        """Whether the client is behind with reading: news that can wait should."""
        return self._waiting >= OUTBOX_BYTES

    def put(self, data: bytes, query: Query) -> bool:
        """From a query's thread: queue a batch, waiting for room. ``False`` once the query is stopped."""
        with self.gate:
            self.gate.wait_for(lambda: query.stopped or self._waiting < OUTBOX_BYTES)
            if query.stopped:
                return False
            self._waiting += len(data)
        return self._on_loop(self._append, query, data)

    def end(self, data: bytes, query: Query) -> None:
        """From a query's thread: queue its last push."""
        self._on_loop(self._ended, data, query)

    def _on_loop(self, call: Callable[..., object], *args: object) -> bool:
        try:
            self._loop.call_soon_threadsafe(call, *args)
        except RuntimeError:  # the loop is closed: the server has ended
            return False
        return True

    def _ended(self, data: bytes, query: Query) -> None:
        if self.queries.get(query.qid) is query:
            del self.queries[query.qid]
            if query.timer is not None:
                query.timer.cancel()
            self.send(data)

    def _queue(self, query: Query | None, data: bytes) -> None:
        with self.gate:
            self._waiting += len(data)
        self._append(query, data)

    def _append(self, query: Query | None, data: bytes) -> None:
        """Take bytes that ``_waiting`` counts already."""
        if self._transport is None:
            return
        self._outbox.append((query, data))
        self._flush()
        if self._waiting >= UNREAD_BYTES:
            self._transport.pause_reading()

    def _flush(self) -> None:
        written = 0
        while self._outbox and self._writable and self._transport is not None:
            query, data = self._outbox.popleft()
            written += len(data)
            if query is None or not query.discards:
                self._transport.write(data)
        if written:
            with self.gate:
                self._waiting = max(self._waiting - written, 0)
                self.gate.notify_all()
            if self._waiting < OUTBOX_BYTES and self._transport is not None:
                self._transport.resume_reading()

    # Messages in ----------------------------------------------------------------------------------------

    def _reject(self, why: str) -> None:
        """Close the connection of a client that does not speak the protocol."""
        log.warning("closing a connection: %s", why)
        self.abort()

    def _receive(self, message: Any) -> None:
        match message:
            case [protocol.REQUEST, int(identifier), method, params] if not isinstance(identifier, bool):
                self._service.touched()
                self._dispatch(identifier, method, params)
            case [protocol.NOTIFICATION, method, params]:
                self._service.touched()
                self._dispatch(None, method, params)
            case [protocol.RESPONSE, _, _, _]:
                pass  # the server asks nothing of its clients
            case _:
                self._reject("a message that is not msgpack-RPC")

    def _dispatch(self, identifier: int | None, method: Any, params: Any) -> None:
        if params == {}:  # an empty Lua table
            params = []
        if not isinstance(params, list):
            self._answer(identifier, UsageError(f"the params of {method!r} must be a list"), None)
        elif method == "search":
            self._search(identifier, params)
        elif isinstance(method, str) and method in self._calls:
            try:
                result = self._calls[method](params)
            except Exception as error:
                self._answer(identifier, _as_error(error, method), None)
            else:
                self._answer(identifier, None, result)
        elif isinstance(method, str) and method in self._slow_calls:
            task = self._loop.create_task(self._answer_later(identifier, method, params))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            known = ", ".join(sorted([*self._calls, *self._slow_calls, "search"]))
            self._answer(identifier, UsageError(f"unknown method {method!r}", f"Methods: {known}."), None)

    async def _answer_later(self, identifier: int | None, method: str, params: list[Any]) -> None:
        try:
            result = await self._slow_calls[method](params)
        except Exception as error:
            self._answer(identifier, _as_error(error, method), None)
        else:
            self._answer(identifier, None, result)

    def _answer(self, identifier: int | None, error: IndexGrepError | None, result: Any) -> None:
        if identifier is None:
            if error is not None:
                log.info("a notification that could not be served: %s", error.code)
            return
        fault: Any = None if error is None else error.to_wire()
        if error is not None and self.push_kind == "nvim":
            fault = [0, str(error)]  # the only form that Neovim's rpcrequest() shows the text of
        try:
            data = protocol.response(identifier, fault, result)
        except Exception as unpackable:
            fault = internal_error(unpackable, "encoding an answer").to_wire()
            data = protocol.response(identifier, fault, None)
        self.send(data)

    # Methods --------------------------------------------------------------------------------------------

    def _hello(self, params: list[Any]) -> dict[str, Any]:
        options = _only(params, "hello", {})
        if not isinstance(options, dict):
            raise UsageError("hello takes a map")
        kind = options.get("push", "notify")
        if kind not in protocol.PUSH_KINDS:
            raise UsageError(f"unknown push {kind!r}", f"Use one of: {', '.join(protocol.PUSH_KINDS)}.")
        self.push_kind = kind
        theirs = options.get("protocol", protocol.PROTOCOL_VERSION)
        if theirs != protocol.PROTOCOL_VERSION:
            raise ServerError(
                f"the client speaks protocol {theirs!r}, this server (indexgrep {__version__}) speaks "
                f"{protocol.PROTOCOL_VERSION}",
                "Stop it with `indexgrep server stop`; the client then starts its own.",
            )
        self.wants_progress = True
        self._service.greeted(self)
        return self._service.about()

    def _search(self, identifier: int | None, params: list[Any]) -> None:
        qid = params[0] if params else None
        try:
            query = self._new_query(params)
        except IndexGrepError as error:
            if identifier is not None:
                self._answer(identifier, error, None)
            elif isinstance(qid, int) and not isinstance(qid, bool):
                self.send(protocol.push(self.push_kind, "failed", [qid, error.to_wire()]))
            else:
                self._answer(None, error, None)
            return
        self._answer(identifier, None, {"qid": qid})
        self.queries[query.qid] = query
        if query.request.timeout_ms is not None:
            # The session ends the search in time by itself, unless the query is held by its reader.
            seconds = query.request.timeout_ms / 1_000 + DEADLINE_GRACE_S
            query.timer = self._loop.call_later(seconds, query.stop, "timeout")
        self._service.start_query(query)

    def _new_query(self, params: list[Any]) -> Query:
        if len(params) != 2:
            raise UsageError("search takes a query id and a request")
        qid, wire = _identifier(params[0], "search"), params[1]
        if not isinstance(wire, dict):
            raise UsageError(f"a search request is a map, not {type(wire).__name__}")
        wire = dict(wire)
        window = wire.pop("window", None)
        if window is not None:
            window = _natural(window, "window")
        supersede = wire.pop("supersede", False)
        if not isinstance(supersede, bool):
            raise UsageError(f"search option 'supersede' must be of type bool, not {supersede!r}")
        request = SearchRequest.from_wire(wire)
        if supersede:
            for query in list(self.queries.values()):
                query.stop("cancelled")
        if qid in self.queries:
            raise UsageError(f"query id {qid} is in use", "Number each running query differently.")
        if len(self.queries) >= MAX_QUERIES:
            raise UsageError(f"this client has {MAX_QUERIES} queries running", "Cancel some of them.")
        return Query(qid, request, window, self, self._wanted_buffers(request))

    def _wanted_buffers(self, request: SearchRequest) -> Snapshot | None:
        """The unsaved buffers that a request asks for, as they are now."""
        if request.buffers == "none":
            return None
        return self.buffers.snapshot() if request.buffers == "own" else self._service.all_buffers()

    def _cancel(self, params: list[Any]) -> bool:
        query = self.queries.get(_identifier(_only(params, "cancel"), "cancel"))
        if query is None or query.stopped:
            return False
        query.stop("cancelled")
        return bool(query.stopped)

    def _more(self, params: list[Any]) -> bool:
        if len(params) != 2:
            raise UsageError("more takes a query id and a number of lines")
        query = self.queries.get(_identifier(params[0], "more"))
        lines = _natural(params[1], "more")
        if query is None:
            return False
        query.more(lines)
        return True

    def _buffer(self, params: list[Any]) -> bool:
        values = _only(params, "buffer")
        if not isinstance(values, dict) or not values.keys() <= _BUFFER_FIELDS:
            raise UsageError("buffer takes a map, {path, tick, text, more?}")
        path, tick, text = values.get("path"), values.get("tick"), values.get("text")
        more = values.get("more", False)
        if isinstance(text, str):  # all that Neovim can send
            text = text.encode("utf-8", "surrogateescape")
        if not isinstance(path, str):
            raise UsageError("the path of a buffer is a string")
        if not (isinstance(text, bytes) and _is_integer(tick) and isinstance(more, bool)):
            self.buffers.drop([path])  # whatever this was to say, the text before is not the last word
            raise UsageError("buffer takes a map, {path: string, tick: integer, text: bytes, more?: boolean}")
        self.buffers.put(path, tick, text, more=more)
        return True

    def _buffer_gone(self, params: list[Any]) -> int:
        return self.buffers.drop(_paths(params, "buffer_gone"))

    def _changed(self, params: list[Any]) -> bool:
        root = os.fsencode(self._service.root)
        paths = [inside(root, path) for path in _paths(params, "changed")]
        # What lies outside is looked at whenever it is searched.
        self._service.changed([path for path in paths if path is not None])
        return True

    async def _explain(self, params: list[Any]) -> dict[str, Any]:
        request = SearchRequest.from_wire(_only(params, "explain"))
        return await self._service.explain(request, self._wanted_buffers(request))

    async def _status(self, params: list[Any]) -> dict[str, Any]:
        return await self._service.status()

    async def _index(self, params: list[Any]) -> dict[str, Any]:
        options = _only(params, "index", {})
        force = options.get("force", False) if isinstance(options, dict) else None
        if not isinstance(force, bool):
            raise UsageError("index takes a map, {force: boolean}")
        return await self._service.index(force)

    def _ping(self, params: list[Any]) -> str:
        return "pong"

    def _shutdown(self, params: list[Any]) -> bool:
        self._loop.call_soon(self._service.shutdown)
        return True

    @property
    def busy(self) -> bool:
        """Whether a query or a call of this client has still to be answered."""
        return bool(self.queries or self._tasks)

    def stop_queries(self, reason: str) -> None:
        """Make every query of this client end soon."""
        for query in list(self.queries.values()):
            query.stop(reason)


def _as_error(error: Exception, method: str) -> IndexGrepError:
    return error if isinstance(error, IndexGrepError) else internal_error(error, method)


_REQUIRED: Any = object()

_BUFFER_FIELDS = {"path", "tick", "text", "more"}


def _only(params: list[Any], method: str, default: Any = _REQUIRED) -> Any:
    """The one parameter of a call; an empty Lua table, which arrives as a list, is an empty map."""
    if not params and default is not _REQUIRED:
        return default
    if len(params) != 1:
        raise UsageError(f"{method} takes one parameter, not {len(params)}")
    return {} if params[0] == [] else params[0]


def _paths(params: list[Any], method: str) -> list[str]:
    """The one parameter of a call that takes paths."""
    paths = _only(params, method)
    if paths == {}:  # an empty Lua table
        return []
    if not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise UsageError(f"{method} takes a list of paths")
    return paths


def _identifier(value: Any, method: str) -> int:
    if not _is_integer(value):
        raise UsageError(f"a query id is an integer; {method} got {value!r}")
    return value


def _is_integer(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _natural(value: Any, name: str) -> int:
    if not _is_integer(value) or value < 1:
        raise UsageError(f"{name} must be a number of lines, 1 or more, not {value!r}")
    return value
