"""One running query: a thread that takes batches from a search and hands them to the connection.

The thread stops at two gates: the connection's outbox, which holds a bounded number of bytes, and the
query's credits, the lines that the client has room for (``window`` and ``more``). So a slow reader costs the
server a waiting thread and no memory.

A query ends once, with ``done`` or ``failed``. Whatever wants it to end early calls ``stop`` with a reason;
the thread sees the event that ``stop`` sets, or wakes at its gate, and says the last word.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import traceback
from collections.abc import Callable
from typing import Any, Protocol

from .. import memory, runtime
from ..errors import Cancelled, IndexGrepError, ServerError
from ..overlay.buffers import Snapshot
from ..request import FileResult, SearchRequest, Summary
from . import protocol
from .interface import Session

log = logging.getLogger("indexgrep.server")


class Sink(Protocol):
    """Where a query's messages go: the connection. ``put`` and ``end`` are called from the query's thread."""

    #: Guards the outbox and the credits of every query of the connection.
    gate: threading.Condition
    push_kind: str

    def put(self, data: bytes, query: Query) -> bool:
        """Queue a push of results once there is room; ``False`` when the query was stopped meanwhile."""
        ...

    def end(self, data: bytes, query: Query) -> None:
        """Queue the last push of the query and forget it."""
        ...


class Query:
    """See the module. Made on the event loop."""

    def __init__(
        self,
        qid: int,
        request: SearchRequest,
        window: int | None,
        sink: Sink,
        buffers: Snapshot | None = None,
    ) -> None:
        self.qid = qid
        self.request = request
        #: The unsaved buffers that count, as they were when the query was accepted.
        self.buffers = buffers
        self.cancel = threading.Event()
        #: Why it was stopped: ``cancelled``, ``timeout``, ``shutdown`` or ``disconnected``; else empty.
        self.stopped = ""
        #: Its deadline, if it has one; the connection's.
        self.timer: asyncio.TimerHandle | None = None
        self._started = self._sealed = False
        self._sink = sink
        #: Lines that may still be pushed; ``None`` is no limit. Guarded by the sink's gate.
        self._credits = window
        self._seq = 0

    @property
    def discards(self) -> bool:
        """Whether results that wait in the outbox are no longer wanted."""
        return self.stopped in ("cancelled", "disconnected", "shutdown")

    def stop(self, reason: str) -> None:
        """From the event loop: make the query end soon, unless it has. The first reason counts."""
        with self._sink.gate:
            if self._sealed:
                return
            if not self.stopped:
                self.stopped = reason
            self.cancel.set()
            self._sink.gate.notify_all()
        if not self._started:
            self.refuse(Cancelled("the query was cancelled"))

    def more(self, lines: int) -> None:
        """Let ``lines`` more lines be pushed. What the last file pushed beyond its credits is forgiven."""
        with self._sink.gate:
            if self._credits is not None:
                self._credits = max(self._credits, 0) + lines
                self._sink.gate.notify_all()

    def start(self, session: Session) -> None:
        """From the event loop: answer the query with ``session``, in a thread, unless it was stopped."""
        if not self.cancel.is_set():
            self._started = True
            in_thread(f"query-{self.qid}", self._run, session)

    def _run(self, session: Session) -> None:
        try:
            last = self._answer(session)
        except IndexGrepError as error:
            last = self._ending(error)
        except Exception as error:
            last = self._ending(internal_error(error, "search"))
        self._sink.end(last, self)
        memory.give_back()

    def refuse(self, error: IndexGrepError) -> None:
        """End a query that no thread has been started for."""
        self._sink.end(self._ending(error), self)

    def _answer(self, session: Session) -> bytes:
        search = session.search(self.request, self.cancel, self.buffers)
        try:
            whole = all(self._push(batch) for batch in search)
        finally:
            search.close()
        if not self._seal() and (self.discards or not whole or not search.summary.complete):
            return self._cut(search.summary)
        return protocol.push(self._sink.push_kind, "done", [self.qid, search.summary.to_wire()])

    def _seal(self) -> bool:
        """Make the answer final: nothing can stop it any more, and so no part of it is dropped.

        ``False`` when the query was stopped before.
        """
        with self._sink.gate:
            self._sealed = not self.stopped
            return self._sealed

    def _ending(self, error: IndexGrepError) -> bytes:
        """The last push of a query that raised ``error``, which a stop may have caused."""
        if self.stopped and isinstance(error, Cancelled):
            return self._cut(Summary())
        return protocol.push(self._sink.push_kind, "failed", [self.qid, error.to_wire()])

    def _cut(self, summary: Summary) -> bytes:
        """The last push of a query that was stopped."""
        if self.stopped == "shutdown":
            return protocol.push(self._sink.push_kind, "failed", [self.qid, going().to_wire()])
        summary.complete, summary.reason = False, self.stopped
        return protocol.push(self._sink.push_kind, "done", [self.qid, summary.to_wire()])

    def _push(self, batch: list[FileResult]) -> bool:
        """Push a batch in messages of a bounded size, waiting at the gates. ``False`` when stopped."""
        packing = protocol.packer()
        packed: list[bytes] = []
        size = 0
        for file in batch:
            for entry, lines in protocol.entries(file, packing):
                if not self._has_credit():
                    if packed and not self._flush(packed, packing):
                        return False
                    packed, size = [], 0
                    if not self._wait_for_credit():
                        return False
                packed.append(entry)
                size += len(entry)
                self._spend(max(lines, 1))
                if size >= protocol.PUSH_BYTES:
                    if not self._flush(packed, packing):
                        return False
                    packed, size = [], 0
        return not packed or self._flush(packed, packing)

    def _flush(self, packed: list[bytes], packing: Any) -> bool:
        parts = [
            protocol.push_prefix(self._sink.push_kind, "results", packing),
            packing.pack_array_header(3),
            packing.pack(self.qid),
            packing.pack(self._seq),
            packing.pack_array_header(len(packed)),
            *packed,
        ]
        self._seq += 1
        return self._sink.put(b"".join(parts), self)

    def _has_credit(self) -> bool:
        with self._sink.gate:
            return self._credits is None or self._credits > 0

    def _wait_for_credit(self) -> bool:
        with self._sink.gate:
            self._sink.gate.wait_for(lambda: self.stopped or self._credits is None or self._credits > 0)
            return not self.stopped

    def _spend(self, lines: int) -> None:
        with self._sink.gate:
            if self._credits is not None:
                self._credits -= lines


def going() -> ServerError:
    """The error of a request that the server's own end cut off. A client may ask again: a new one starts."""
    return ServerError(
        "the indexgrep server is shutting down", "Search again: a new server starts on demand."
    )


#: Exceptions whose text cannot quote what was read from a file.
_SPEAKABLE = (OSError, ImportError, AttributeError, TypeError, NameError)


def internal_error(error: BaseException, doing: str) -> IndexGrepError:
    """An unexpected exception as its user sees it; where it came from goes to the log.

    The text of the exception goes there only where it cannot hold a part of somebody's file.
    """
    text = f": {error}" if isinstance(error, _SPEAKABLE) else ""
    frames = "".join(traceback.format_tb(error.__traceback__))
    log.error("fault in %s: %s%s\n%s", doing, type(error).__name__, text, frames)
    fault = IndexGrepError(
        f"internal fault in {doing}: {type(error).__name__}", f"The details are in {runtime.log_path()}."
    )
    fault.code = "internal"
    return fault


def in_thread(name: str, body: Callable[..., object], *args: object) -> None:
    """Run ``body`` in a daemon thread: a stuck one must not keep the process from ending."""
    threading.Thread(target=body, args=args, name=name, daemon=True).start()
