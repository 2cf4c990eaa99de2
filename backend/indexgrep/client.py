"""The protocol from Python: search a worktree through its server.

    from indexgrep.client import Client

    with Client("~/src/linux") as client:
        for match in client.search("mutex_lock", fixed_strings=True, globs=("*.c",)):
            print(match.path, match.line_number, match.text)

The server is started where none answers, and replaced where it is of another version. A client is for one
thread; a program with several makes one for each.

Imports are light (msgpack and the standard library): the command line makes a client for each query.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, NoReturn

from . import __version__, runtime
from .errors import IndexGrepError, RootError, ServerError, UsageError
from .request import FileResult, Line, SearchRequest, Summary
from .server import lifecycle, protocol

#: Lines that the server may send ahead of their reader. An unread search holds so much and no more.
WINDOW_LINES = 20_000
_RECEIVE_BYTES = 1 << 20
#: A large buffer is sent in parts of so many bytes.
_PART_BYTES = 1 << 20


class Match(NamedTuple):
    """One matching line (with ``multiline``: one block of lines that a match spans)."""

    #: Path relative to the root, ``surrogateescape`` where it is not UTF-8.
    path: str
    #: From 1.
    line_number: int
    #: Byte offset of the line in the file.
    offset: int
    #: The bytes of the line, with its terminator if it has one.
    text: bytes
    #: Half-open byte ranges of the matches in ``text``.
    spans: tuple[tuple[int, int], ...]
    #: ``disk``, or ``buffer`` for an editor's unsaved text.
    source: str


class Client:
    """A connection to the server of the worktree that holds ``root``.

    With ``start`` a server is started on demand, else ``ServerError`` is raised where none answers.
    ``timeout`` (seconds) bounds connecting, starting and single requests, and how long a server may be silent
    under a running search before it is asked whether it still lives. ``force_root`` lets the server serve a
    root that is refused otherwise (the home directory, ``/``).
    """

    def __init__(
        self,
        root: str | os.PathLike[str] = ".",
        *,
        start: bool = True,
        timeout: float = lifecycle.START_TIMEOUT_S,
        force_root: bool = False,
    ) -> None:
        self.root = lifecycle.worktree(os.path.expanduser(root))
        #: What the server said of itself: ``version, protocol, pid, root, log``.
        self.server: dict[str, Any] = {}
        self._start = start
        self._timeout = timeout
        self._force_root = force_root
        self._closed = False
        self._socket: socket.socket | None = None
        #: Counts connections, so that a search knows whether its own is still the current one.
        self._generation = 0
        self._unpacker = protocol.unpacker(arrays=tuple)
        self._next_id = 0
        self._responses: dict[int, tuple[Any, Any]] = {}
        self._searches: weakref.WeakValueDictionary[int, Search] = weakref.WeakValueDictionary()
        self._progress: deque[dict[str, Any]] = deque(maxlen=1_000)
        #: The unsaved buffers that the server has accepted, by path: a new server is given them again.
        self._buffers: dict[str, tuple[int, bytes]] = {}
        self._connect()

    # Public ---------------------------------------------------------------------------------------------

    def search(self, pattern: str | SearchRequest | None = None, **options: Any) -> Search:
        """Start a search; iterate over the result for its matching lines.

        ``options`` are the fields of ``indexgrep.request.SearchRequest``; ``pattern`` is short for one entry
        of ``patterns``. A whole request may stand in place of both. Raises ``UsageError`` for an option that
        does not exist or has a wrong type. Errors that only the server finds, such as a pattern that does
        not parse, are raised by the iteration.
        """
        return Search(self, _request(pattern, options))

    def explain(self, pattern: str | SearchRequest | None = None, **options: Any) -> dict[str, Any]:
        """How a search would be answered: AST, plan, grams, candidates. Parameters as of ``search``."""
        result: dict[str, Any] = self._call("explain", [_request(pattern, options).to_wire()])
        return result

    def set_buffer(self, path: str | os.PathLike[str], tick: int, text: bytes) -> None:
        """Have ``text`` stand for the content of the file ``path`` until ``drop_buffers`` or ``close``.

        It is seen by this client's searches with ``buffers="own"``, and by every client's with ``"all"``.

        ``text`` is what the file would hold if it were written now; ``tick`` rises with every change: a call
        with a lower one than before does nothing. Raises ``UsageError`` for a buffer that is too large or
        does not lie in the root; then the path has none any more.
        """
        name = _absolute(path)
        known = self._buffers.pop(name, None)
        if known is not None and tick < known[0]:
            self._buffers[name] = known
            return
        if self._socket is None:
            self._connect()
        generation = self._generation
        try:
            self._put_buffer(name, tick, text)
        except ConnectionLost:
            self._reconnect(generation)
            self._put_buffer(name, tick, text)
        self._buffers[name] = (tick, text)

    def drop_buffers(self, paths: Iterable[str | os.PathLike[str]]) -> None:
        """The buffers of these files are saved or abandoned: what is on disk counts again."""
        names = [_absolute(path) for path in paths]
        for name in names:
            self._buffers.pop(name, None)
        if self._socket is not None:
            self._call("buffer_gone", [names])

    def changed(self, paths: Iterable[str | os.PathLike[str]]) -> None:
        """Tell that these files were just written, made, renamed or removed.

        A server whose watch sees them knows that by itself; where it must compare all files at every search
        this does no harm.
        """
        self._call("changed", [[_absolute(path) for path in paths]])

    def status(self) -> dict[str, Any]:
        """What the server says of itself and its index, see ``status`` in ``doc/protocol.md``."""
        result: dict[str, Any] = self._call("status", [])
        return result

    def index(
        self,
        progress: Callable[[dict[str, Any]], None] | None = None,
        *,
        force: bool = False,
        wait: bool = True,
    ) -> bool:
        """Build the index unless it is fresh; ``False`` when it was.

        ``progress`` is called with the states that the server pushes. With ``wait`` the call returns when the
        build (also one that was running before) has ended, and raises the error that it failed with.
        """
        answer = self._call("index", [{"force": force}])
        self._progress.clear()  # what came before the answer is about earlier builds, or of no interest now
        if not answer["started"] and answer["reason"] != "running":
            return False
        while wait:
            while not self._progress:
                self._receive()
            state = self._progress.popleft()
            if progress is not None:
                progress(state)
            if state.get("phase") == "failed":
                raise protocol.error_from_wire(state.get("error"))
            if state.get("phase") == "ready":
                break
        return True

    def shutdown(self) -> None:
        """Stop the server, and wait until it is gone."""
        self._call("shutdown", [])
        with contextlib.suppress(ServerError):
            while True:
                self._receive()
        self.close()

    def close(self) -> None:
        """Close the connection; running searches are cancelled by that. Closing twice does no harm."""
        self._closed = True
        self._disconnect()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # Connection -----------------------------------------------------------------------------------------

    def _connect(self) -> None:
        """Connect and say hello, starting or replacing the server where that is needed."""
        if self._closed:
            raise ServerError("this client is closed", "Make a new one.")
        deadline = time.monotonic() + self._timeout
        path = runtime.socket_path(self.root)
        while True:
            try:
                self._dial(os.fspath(path))
                if self.server["version"] == __version__ or not self._start:
                    self._give_buffers()
                    return
                self._disconnect()  # a server of another version
            except (OSError, ConnectionLost) as error:
                self._disconnect()
                if not self._start:
                    raise ServerError(
                        f"no indexgrep server answers for {self.root}",
                        "Start it with `indexgrep server start`.",
                    ) from error
            if time.monotonic() > deadline:
                raise ServerError(f"the server for {self.root} goes as soon as it comes", self._log_hint())
            root = lifecycle.worktree(self.root)
            if root != self.root:  # a server for that one would not be found here
                raise RootError(
                    f"{self.root} is not the top of a tree any more: it belongs to {root}",
                    "Search that one.",
                )
            lifecycle.ensure_server(
                self.root, max(deadline - time.monotonic(), 1.0), force_root=self._force_root
            )

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _dial(self, path: str) -> None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(self._timeout)
            connection.connect(path)
        except OSError:
            connection.close()
            raise
        self._socket = connection
        self._generation += 1
        self._unpacker = protocol.unpacker(arrays=tuple)
        self._responses.clear()
        self.server = self._ask("hello", [{"client": "python"}])

    def _call(self, method: str, params: list[Any]) -> Any:
        """A request that may be asked of a new server when the old one went."""
        if self._socket is None:
            self._connect()
        generation = self._generation
        try:
            return self._ask(method, params)
        except ConnectionLost:
            self._reconnect(generation)
            return self._ask(method, params)

    def _ask(self, method: str, params: list[Any]) -> Any:
        """Send one request and wait for its response, at most ``timeout`` seconds of silence."""
        identifier = self._identify()
        self._send(protocol.request(identifier, method, params))
        while identifier not in self._responses:
            self._receive()
        error, result = self._responses.pop(identifier)
        if error is not None:
            raise protocol.error_from_wire(error)
        return result

    def _give_buffers(self) -> None:
        """Give a server that does not know them the unsaved buffers."""
        for name, (tick, text) in list(self._buffers.items()):
            try:
                self._put_buffer(name, tick, text)
            except UsageError:  # a link on its way leads elsewhere now
                del self._buffers[name]

    def _put_buffer(self, name: str, tick: int, text: bytes) -> None:
        """Send a buffer, in parts where it is large, and wait until it is accepted."""
        value = {"path": name, "tick": tick}
        last = max(len(text) - 1, 0) // _PART_BYTES * _PART_BYTES
        for at in range(0, last, _PART_BYTES):
            part = {**value, "text": text[at : at + _PART_BYTES], "more": True}
            self._send(protocol.notification("buffer", [part]))
        self._ask("buffer", [{**value, "text": text[last:]}])

    def _identify(self) -> int:
        self._next_id += 1
        return self._next_id

    def _send(self, data: bytes) -> None:
        if self._socket is None:
            self._lost(None)
        try:
            self._socket.sendall(data)
        except OSError as error:
            self._lost(error)

    def _receive(self) -> None:
        """Read what there is, waiting for something, and hand it out.

        A server that is silent for ``timeout`` seconds is asked whether it lives, and given up if it is
        silent for as long again.
        """
        if self._socket is None:
            self._lost(None)
        try:
            try:
                data = self._socket.recv(_RECEIVE_BYTES)
            except TimeoutError:
                self._socket.sendall(protocol.request(0, "ping", []))
                data = self._socket.recv(_RECEIVE_BYTES)
        except TimeoutError:
            self._disconnect()
            raise ServerError(
                f"the server for {self.root} does not answer (process {self.server.get('pid', 'unknown')})",
                "Stop it with `indexgrep server stop`.",
            ) from None
        except OSError as error:
            self._lost(error)
        if not data:
            self._lost(None)
        self._unpacker.feed(data)
        for message in self._unpacker:
            if message[0] == protocol.RESPONSE:
                if message[1]:  # 0 is a ping
                    self._responses[message[1]] = (_lists(message[2]), _lists(message[3]))
            elif message[1] == "progress":
                self._progress.append(_lists(message[2][0]))
            elif message[1] in ("results", "done", "failed"):
                search = self._searches.get(message[2][0])
                if search is not None:
                    search._take(message[1], message[2])

    def _lost(self, error: OSError | None) -> NoReturn:
        self._disconnect()
        raise ConnectionLost("the server went away", self._log_hint()) from error

    def _reconnect(self, generation: int) -> None:
        """Connect anew unless that was done since ``generation``; the old one's searches are told."""
        if self._generation != generation and self._socket is not None:
            return
        self._disconnect()
        searches = list(self._searches.values())
        self._searches.clear()
        for search in searches:
            search._orphan()
        self._connect()

    @staticmethod
    def _log_hint() -> str:
        return f"Search again: a new server starts on demand. Details may be in {runtime.log_path()}."


class ConnectionLost(ServerError):
    """The server ended, or was killed, while something was asked of it."""


class Search:
    """One search: an iterator over its matching lines, or over ``files()`` for all that files answer.

    ``summary`` is there once the iteration has ended. ``close`` ends the search early on the server too (as
    does leaving a ``with`` block, or dropping the object); the connection stays usable.

    A search whose server dies before anything was delivered is asked again of a new server, once. After that
    a dead server is a ``ServerError``: an answer is whole, or says that it is not (``summary.complete``), or
    raises.
    """

    def __init__(self, client: Client, request: SearchRequest) -> None:
        self.request = request
        self.summary: Summary | None = None
        self._client = client
        self._files: deque[tuple[dict[str, Any], ...]] = deque()
        #: Received and not yet taken, so that several loops go on where the last one was left.
        self._matches: deque[Match] = deque()
        self._error: IndexGrepError | None = None
        self._delivered = self._retried = self._closed = False
        self._unacknowledged = 0
        self._qid = self._generation = 0
        if client._socket is None:
            client._connect()
        try:
            self._ask()
        except ConnectionLost:
            self._retry()

    def __iter__(self) -> Iterator[Match]:
        take = self._matches.popleft
        while self._matches or self._fill():
            yield take()

    def __next__(self) -> Match:
        if self._matches or self._fill():
            return self._matches.popleft()
        raise StopIteration

    def _fill(self) -> bool:
        """Receive the next matches; ``False`` at the end."""
        for batch in self._wire_batches():
            self._matches.extend(
                Match(file["path"], number, offset, text, spans, file.get("source", "disk"))
                for file in batch
                for number, offset, text, spans, match in file["lines"]
                if match
            )
            if self._matches:
                return True
        return False

    def files(self) -> Iterator[FileResult]:
        """Every file that answers, with its context lines, counts and errors.

        A file of more than 1,000 lines comes in several consecutive parts.
        """
        for file in self._wire_files():
            lines = [
                Line(number, offset, text, list(spans), match)
                for number, offset, text, spans, match in file["lines"]
            ]
            yield FileResult(
                file["path"],
                lines,
                file["count"],
                file["matches"],
                file.get("binary_offset"),
                file["bytes_searched"],
                file.get("error"),
                file.get("source", "disk"),
            )

    def close(self) -> None:
        """End the search; its iteration then ends, too."""
        if self._closed:
            return
        self._closed = True
        self._files.clear()
        self._matches.clear()
        client = self._client
        if self._running and client._socket is not None:
            client._searches.pop(self._qid, None)
            with contextlib.suppress(ServerError):
                client._send(protocol.notification("cancel", [self._qid]))

    def __enter__(self) -> Search:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_qid"):
            self.close()

    @property
    def _running(self) -> bool:
        return self.summary is None and self._error is None

    def _ask(self) -> None:
        client = self._client
        self._qid = client._identify()
        self._unacknowledged = 0
        self._generation = client._generation
        client._searches[self._qid] = self
        wire = self.request.to_wire() | {"window": WINDOW_LINES}
        client._send(protocol.notification("search", [self._qid, wire]))

    def _retry(self) -> None:
        """Ask again of a new server, after the old one was lost."""
        self._client._searches.pop(self._qid, None)
        self._retried = True
        self._client._reconnect(self._generation)
        self._ask()

    def _take(self, event: str, params: tuple[Any, ...]) -> None:
        """A push for this search arrived."""
        if event == "results":
            self._files.append(params[2])
        elif event == "done":
            self.summary = Summary.from_wire(params[1])
        else:
            self._error = protocol.error_from_wire(params[1])

    def _orphan(self) -> None:
        """The connection that carried this search is gone; the client has another, or will have."""
        if self._running:
            self._error = ConnectionLost("the server went away", self._client._log_hint())

    def _wire_files(self) -> Iterator[dict[str, Any]]:
        for batch in self._wire_batches():
            yield from batch

    def _wire_batches(self) -> Iterator[tuple[dict[str, Any], ...]]:
        while not self._closed:
            if self._files:
                batch = self._files.popleft()
                self._delivered = True
                self._acknowledge(batch)
                yield batch
            elif self.summary is not None:
                return
            elif self._error is not None:
                self._recover()
            else:
                try:
                    self._client._receive()
                except ConnectionLost as error:
                    self._error = self._error or error

    def _recover(self) -> None:
        """Ask again if that hides nothing, else raise the error."""
        error = self._error
        assert error is not None
        if error.code != ServerError.code:
            raise error
        if self._delivered:
            raise ServerError(f"the answer is not complete: {error.message}", error.hint) from error
        if self._retried:
            raise error
        self._error = None
        self._retry()

    def _acknowledge(self, batch: tuple[dict[str, Any], ...]) -> None:
        """Give the server room for what has been read."""
        self._unacknowledged += sum(len(file["lines"]) or 1 for file in batch)
        if self._unacknowledged >= WINDOW_LINES // 2 and self._running:
            lines, self._unacknowledged = self._unacknowledged, 0
            with contextlib.suppress(ServerError):
                self._client._send(protocol.notification("more", [self._qid, lines]))


def _absolute(path: str | os.PathLike[str]) -> str:
    return os.path.join(os.getcwd(), os.fspath(path))


def _lists(value: Any) -> Any:
    """``value`` with lists for its tuples: what is read in bulk is decoded to tuples."""
    if isinstance(value, tuple):
        return [_lists(item) for item in value]
    if isinstance(value, dict):
        return {name: _lists(item) for name, item in value.items()}
    return value


def _request(pattern: str | SearchRequest | None, options: dict[str, Any]) -> SearchRequest:
    if isinstance(pattern, SearchRequest):
        if options:
            raise UsageError("a whole request leaves no room for options", f"Not both: {', '.join(options)}.")
        return pattern
    if pattern is not None:
        options = {**options, "patterns": [pattern, *options.get("patterns", ())]}
    return SearchRequest.from_wire(options)
