"""A matching process: ``python -m indexgrep.match.worker FD``, started by ``pool``.

It speaks over the socket ``FD``: frames of a 4-byte big-endian length and that many bytes of msgpack.

========================== =========================================================================
to the worker              meaning
========================== =========================================================================
``[job, request, root]``   the search that the following batches belong to
``[job, batch, paths, explicit, mapped, deadline]``
                           files to match: answered
========================== =========================================================================

It answers each batch with ``[job, batch, answers]``, and says ``[0, 0, []]`` when it is up. It goes when the
socket closes, which happens when the parent dies, and when nothing is asked of it for ``IDLE`` seconds.
"""

from __future__ import annotations

import gc
import os
import socket
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgpack

from ..request import FileResult, SearchRequest
from .matcher import Matcher, compile_request

#: Seconds without work after which a worker goes.
IDLE = 300.0

_LENGTH = struct.Struct(">I")


def send(connection: socket.socket, message: Any) -> None:
    """Send one frame. Raises ``OSError`` when the other side is gone."""
    body = msgpack.packb(message, unicode_errors="surrogateescape")
    connection.sendall(_LENGTH.pack(len(body)) + body)


def receive(connection: socket.socket) -> Any:
    """The next frame's message. Raises ``EOFError`` when the other side is gone, ``TimeoutError`` as set."""
    body = _exactly(connection, _LENGTH.unpack(_exactly(connection, _LENGTH.size))[0])
    return msgpack.unpackb(body, unicode_errors="surrogateescape", use_list=False)


def _exactly(connection: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        count = connection.recv_into(view)
        if not count:
            raise EOFError
        view = view[count:]
    return data


def search_batch(
    matcher: Matcher,
    paths: Sequence[bytes],
    directory: int,
    explicit: Sequence[bool],
    mapped: bool,
    deadline: float | None,
    texts: Mapping[bytes, bytes] | None = None,
) -> list[FileResult]:
    """The answers of the files ``paths``, until ``deadline`` (the machine's ``time.monotonic``).

    ``texts`` are unsaved buffers that stand for their files.
    """
    answers = []
    for index, path in enumerate(paths):
        if deadline is not None and time.monotonic() > deadline:
            break
        named = bool(explicit) and explicit[index]
        text = None if texts is None else texts.get(path)
        if text is None:
            answer = matcher.search_file(
                path, os.fsdecode(path), dir_fd=directory, explicit=named, mapped=mapped
            )
        else:
            answer = matcher.search_bytes(text, os.fsdecode(path), explicit=named, mapped=mapped)
            if answer is not None:
                answer.source = "buffer"
        if answer is not None:
            answers.append(answer)
    return answers


def pack(answer: FileResult) -> tuple[Any, ...]:
    """``answer`` as plain values, smaller than its wire form."""
    lines = [(line.number, line.offset, line.text, line.spans, line.match) for line in answer.lines]
    return (
        answer.path,
        lines,
        answer.count,
        answer.matches,
        answer.binary_offset,
        answer.bytes_searched,
        answer.error,
    )


def serve(connection: socket.socket) -> None:
    """Answer batches until the other side goes, or nothing comes for ``IDLE`` seconds."""
    connection.settimeout(IDLE)
    send(connection, [0, 0, []])
    current = 0
    directory = -1
    matcher: Matcher | None = None
    while True:
        message = receive(connection)
        if len(message) == 3:
            current, wire, root = message
            request = SearchRequest.from_wire(
                {name: list(value) if isinstance(value, tuple) else value for name, value in wire.items()}
            )
            matcher = Matcher(compile_request(request), request)
            if directory >= 0:
                os.close(directory)
            directory = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            continue
        job, batch, paths, explicit, mapped, deadline = message
        assert matcher is not None
        assert job == current
        answers = search_batch(matcher, paths, directory, explicit, mapped, deadline)
        send(connection, [job, batch, [pack(answer) for answer in answers]])


def main() -> None:
    # Answers hold no cycles, and looking for some costs as much as finding the matches.
    gc.freeze()
    gc.disable()
    connection = socket.socket(fileno=int(sys.argv[1]))
    try:
        serve(connection)
    except (EOFError, TimeoutError, OSError):
        pass


if __name__ == "__main__":
    main()
