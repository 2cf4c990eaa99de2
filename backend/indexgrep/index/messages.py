"""How messages between a build and its processes go through the pipes: as msgpack maps, one after another.

Strings may be the names of files, which need not be UTF-8.
"""

from __future__ import annotations

from typing import Any

import msgpack


def pack(message: dict[str, Any]) -> bytes:
    packed: bytes = msgpack.packb(message, unicode_errors="surrogateescape")
    return packed


def unpacking() -> msgpack.Unpacker:
    """What makes messages again of the bytes that come."""
    return msgpack.Unpacker(raw=False, max_buffer_size=0, unicode_errors="surrogateescape")
