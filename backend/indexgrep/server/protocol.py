"""Framing of ``doc/protocol.md``: message types, limits, packers, and the bytes of pushes.

Both sides import this module, so it imports msgpack and nothing heavier.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import msgpack

from .. import errors
from ..request import FileResult

#: Raised when a message changes its meaning; a client and a server of different numbers do not talk.
PROTOCOL_VERSION = 1

#: Message types of msgpack-RPC.
REQUEST, RESPONSE, NOTIFICATION = 0, 1, 2

#: The largest request a client may send, in bytes.
MAX_REQUEST_BYTES = 8 << 20

#: A file's entry in a batch is split where it has more lines, or more bytes of text, than this.
MAX_ENTRY_LINES = 1_000
MAX_ENTRY_BYTES = 1 << 20

#: A push of results is sent on reaching this size, in bytes. One entry may be larger.
PUSH_BYTES = 128 << 10

#: What Neovim runs for each push.
NVIM_PUSH = "require('indexgrep.rpc').on_push(...)"

#: How a client may want pushes: as plain notifications, or as calls that Neovim runs.
PUSH_KINDS = ("notify", "nvim")


def packer() -> msgpack.Packer:
    """A packer of the protocol's strings. Not for use by two threads at once."""
    return msgpack.Packer(use_bin_type=True, unicode_errors="surrogateescape")


def unpacker(max_bytes: int = 0, arrays: type[list[Any]] | type[tuple[Any, ...]] = list) -> msgpack.Unpacker:
    """A streaming decoder. ``max_bytes`` bounds one message (0: no bound).

    Arrays decoded to tuples cost the garbage collector less: a third of the time on 27,000 lines.
    """
    return msgpack.Unpacker(
        raw=False,
        unicode_errors="surrogateescape",
        strict_map_key=False,
        use_list=arrays is list,
        max_buffer_size=max_bytes,
    )


def push_prefix(kind: str, event: str, packing: msgpack.Packer) -> bytes:
    """The bytes of a push up to its params, for a client that wants pushes of ``kind``."""
    if kind == "nvim":
        # [2, "nvim_exec_lua", [NVIM_PUSH, [event, params]]]
        parts = [
            packing.pack_array_header(3),
            packing.pack(NOTIFICATION),
            packing.pack("nvim_exec_lua"),
            packing.pack_array_header(2),
            packing.pack(NVIM_PUSH),
            packing.pack_array_header(2),
            packing.pack(event),
        ]
    else:
        parts = [packing.pack_array_header(3), packing.pack(NOTIFICATION), packing.pack(event)]
    return b"".join(parts)


def push(kind: str, event: str, params: list[Any]) -> bytes:
    """One whole push."""
    packing = packer()
    return push_prefix(kind, event, packing) + cast(bytes, packing.pack(params))


def request(identifier: int, method: str, params: Iterable[Any]) -> bytes:
    """One request, ``identifier`` unique among the peer's unanswered ones."""
    return cast(bytes, packer().pack([REQUEST, identifier, method, list(params)]))


def notification(method: str, params: Iterable[Any]) -> bytes:
    """One notification."""
    return cast(bytes, packer().pack([NOTIFICATION, method, list(params)]))


def response(identifier: int, error: Any, result: Any) -> bytes:
    """The answer to a request: an error map, or a result."""
    return cast(bytes, packer().pack([RESPONSE, identifier, error, result]))


def entries(file: FileResult, packing: msgpack.Packer) -> Iterable[tuple[bytes, int]]:
    """A file's entries in a batch, packed, each with its number of lines.

    There is one, or several where the file is too large for one message; counts of the parts then add up to
    those of the file.
    """
    lines = file.lines
    if len(lines) <= MAX_ENTRY_LINES and (
        len(lines) < 8 or sum(len(line.text) for line in lines) <= MAX_ENTRY_BYTES
    ):
        yield packing.pack(_entry(file)), len(lines)
        return
    start = count = matches = 0
    while start < len(lines):
        end, size = start, 0
        while end < len(lines) and end - start < MAX_ENTRY_LINES and size < MAX_ENTRY_BYTES:
            size += len(lines[end].text)
            end += 1
        part = FileResult(file.path, lines[start:end], source=file.source)
        if end == len(lines):
            part.count, part.matches = file.count - count, file.matches - matches
            part.bytes_searched = file.bytes_searched
            part.binary_offset, part.error = file.binary_offset, file.error
        else:
            part.count = min(sum(line.match for line in part.lines), file.count - count)
            part.matches = min(sum(len(line.spans) for line in part.lines), file.matches - matches)
        count, matches = count + part.count, matches + part.matches
        yield packing.pack(_entry(part)), end - start
        start = end


def _entry(file: FileResult) -> dict[str, Any]:
    """``FileResult.to_wire``, without a call a line: this is the hot path of a large answer."""
    lines = file.lines
    file_wire = FileResult(
        file.path,
        [],
        file.count,
        file.matches,
        file.binary_offset,
        file.bytes_searched,
        file.error,
        file.source,
    ).to_wire()
    file_wire["lines"] = [(line.number, line.offset, line.text, line.spans, line.match) for line in lines]
    return file_wire


_ERRORS: dict[str, type[errors.IndexGrepError]] = {
    kind.code: kind
    for kind in (
        errors.IndexGrepError,
        errors.UsageError,
        errors.RootError,
        errors.IndexFault,
        errors.IndexCorrupt,
        errors.IndexLocked,
        errors.ServerError,
        errors.Cancelled,
    )
}


def error_from_wire(wire: Any) -> errors.IndexGrepError:
    """The exception that an error map describes; a kind that is not known becomes ``ServerError``."""
    if not isinstance(wire, dict):
        return errors.ServerError(f"the server answered with a fault: {wire!r}")
    if wire.get("code") == errors.PatternError.code and "reason" in wire:
        return errors.PatternError(
            wire["pattern"], wire["start"], wire["end"], wire["reason"], wire.get("hint", "")
        )
    code = str(wire.get("code"))
    error = _ERRORS.get(code, errors.ServerError)(
        str(wire.get("message", "unknown fault")), str(wire.get("hint", ""))
    )
    error.code = code
    return error
