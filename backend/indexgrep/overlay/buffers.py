"""The unsaved buffers of one client, as the ``buffer`` messages of ``doc/protocol.md`` bring them.

A buffer replaces the one of the same path before it, as a whole and only once all its parts have come,
unless its tick is older. What cannot be kept (too large, say) is refused with an error, and then the path has
no buffer at all: a search must rather see what is on disk than a text that its editor has moved on from.

Not thread-safe; the snapshots that searches work with never change.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ..errors import UsageError

#: The largest text of one buffer, and of all buffers of one client together, in bytes.
MAX_BUFFER_BYTES = 16 << 20
MAX_CLIENT_BYTES = 64 << 20
#: How many buffers one client may have, those that are on their way included.
MAX_BUFFERS = 10_000
#: The longest path of a buffer, in bytes: ``PATH_MAX``.
MAX_PATH_BYTES = 4096

#: Numbers the buffers of all clients in the order they came.
_arrivals = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Buffer:
    """One unsaved buffer."""

    #: Relative to the root, as it was spelled: symbolic links in it are not resolved.
    path: bytes
    #: Rises with every change of the buffer (Neovim's ``changedtick``).
    tick: int
    #: The bytes the file would have if it were written now.
    text: bytes
    #: Higher than that of every buffer that came before, of whatever client.
    received: int = 0


#: Buffers by path relative to the root; never changed.
Snapshot = Mapping[bytes, Buffer]


class _Arriving:
    """A buffer of which more parts are to come; ``refused`` when they are only to be thrown away."""

    __slots__ = ("parts", "refused", "size", "tick")

    def __init__(self, tick: int) -> None:
        self.tick = tick
        self.parts: list[bytes] = []
        self.size = 0
        self.refused: UsageError | None = None


class Buffers:
    """The buffers of one client. ``root`` is the real path of the worktree."""

    def __init__(self, root: str) -> None:
        self._root = os.fsencode(root)
        # By the path as the client spells it, so that it can be dropped although directories have moved.
        self._held: dict[bytes, Buffer] = {}
        self._arriving: dict[bytes, _Arriving] = {}
        self._snapshot: Snapshot | None = None
        #: Bytes of all texts, complete or not.
        self.size = 0

    def __len__(self) -> int:
        return len(self._held)

    def put(self, path: str, tick: int, text: bytes, *, more: bool = False) -> None:
        """Take a buffer, or with ``more`` a part of it that others of the same path and tick follow.

        One that is older than what is held is ignored. Raises ``UsageError``, naming the path, for one that
        cannot be kept; the path then has no buffer, and parts that still follow are refused too.
        """
        spelled = os.fsencode(path)
        key = inside(self._root, path)
        if not key:
            self.drop([path])
            raise UsageError(
                f"the buffer {path!r} does not lie in {os.fsdecode(self._root)}",
                "Send the absolute paths of files below the root.",
            )
        held = self._held.get(spelled)
        arriving = self._arriving.get(spelled)
        if (held is not None and tick < held.tick) or (arriving is not None and tick < arriving.tick):
            return
        if arriving is None or arriving.tick != tick:
            self._forget_arriving(spelled)
            arriving = self._arriving[spelled] = _Arriving(tick)
        if arriving.refused is None:
            arriving.refused = self._excess(spelled, path, arriving, len(text))
        if arriving.refused is not None:
            self.drop([path], and_rest=False)
            self.size -= arriving.size
            arriving.size, arriving.parts = 0, []
            if not more:
                del self._arriving[spelled]
            self._forget_refused()
            raise arriving.refused
        arriving.parts.append(text)
        arriving.size += len(text)
        self.size += len(text)
        if not more:
            del self._arriving[spelled]
            if held is not None:
                self.size -= len(held.text)
            whole = arriving.parts[0] if len(arriving.parts) == 1 else b"".join(arriving.parts)
            self._held[spelled] = Buffer(key, tick, whole, next(_arrivals))
            self._snapshot = None

    def _excess(self, spelled: bytes, path: str, arriving: _Arriving, more: int) -> UsageError | None:
        """Why ``more`` bytes of a buffer that is arriving are too many, if they are."""
        held = self._held.get(spelled)
        others = self.size - arriving.size - (len(held.text) if held is not None else 0)
        what = ""
        if arriving.size + more > MAX_BUFFER_BYTES:
            what = f"is larger than {MAX_BUFFER_BYTES >> 20} MiB"
        elif others + arriving.size + more > MAX_CLIENT_BYTES:
            what = f"does not fit: the buffers of a client may have {MAX_CLIENT_BYTES >> 20} MiB together"
        elif held is None and len(self) + len(self._arriving.keys() - self._held.keys()) > MAX_BUFFERS:
            what = f"is one too many: a client may have {MAX_BUFFERS}"
        if not what:
            return None
        return UsageError(f"the buffer {path!r} {what}", "Its file is searched as it is on disk.")

    def drop(self, paths: Iterable[str], *, and_rest: bool = True) -> int:
        """Forget the buffers of these paths, with ``and_rest`` also what is arriving; how many there were."""
        dropped = 0
        for path in paths:
            spelled = os.fsencode(path)
            held = self._held.pop(spelled, None)
            if held is not None:
                self.size -= len(held.text)
                self._snapshot = None
                dropped += 1
            if and_rest:
                self._forget_arriving(spelled)
        return dropped

    def _forget_arriving(self, spelled: bytes) -> None:
        arriving = self._arriving.pop(spelled, None)
        if arriving is not None:
            self.size -= arriving.size

    def _forget_refused(self) -> None:
        """Bound the memory of refused buffers whose client never sends the last part: the oldest goes."""
        if len(self._arriving) > 2 * MAX_BUFFERS:
            del self._arriving[next(path for path, it in self._arriving.items() if it.refused is not None)]

    def clear(self) -> None:
        """Forget everything."""
        self._held, self._arriving = {}, {}
        self._snapshot = None
        self.size = 0

    def snapshot(self) -> Snapshot:
        """The buffers that are complete now. Where two spellings are one path, the later counts."""
        if self._snapshot is None:
            self._snapshot = _newest(self._held.values())
        return self._snapshot


def merged(clients: Iterable[Buffers]) -> Snapshot:
    """The buffers of several clients together: of each path the one that came last."""
    return _newest(buffer for buffers in clients for buffer in buffers.snapshot().values())


def _newest(buffers: Iterable[Buffer]) -> Snapshot:
    found: dict[bytes, Buffer] = {}
    for buffer in buffers:
        known = found.get(buffer.path)
        if known is None or known.received < buffer.received:
            found[buffer.path] = buffer
    return MappingProxyType(found)


def inside(root: bytes, path: str) -> bytes | None:
    """``path``, which must be absolute, relative to ``root`` (``b""``: the root itself).

    ``None`` where it lies outside, by its name and also by what the links on the way to it lead to. Raises
    ``UsageError`` for what can be no absolute path.
    """
    name = os.fsencode(path)
    if not name.startswith(b"/") or b"\0" in name or len(name) > MAX_PATH_BYTES:
        shown = path if len(name) <= MAX_PATH_BYTES else path[:80] + "…"
        raise UsageError(f"{shown!r} is no absolute path", "Send the absolute paths of files.")
    parts = name.split(b"/")
    if b".." not in parts:
        key = _below(root, b"/" + b"/".join(part for part in parts if part not in (b"", b".")))
        if key is not None:
            return key
    directory, last = os.path.split(name.rstrip(b"/"))
    if last in (b"", b".", b".."):
        return _below(root, os.path.realpath(name))
    return _below(root, os.path.join(os.path.realpath(directory), last))


def _below(root: bytes, path: bytes) -> bytes | None:
    if path == root:
        return b""
    lead = root if root.endswith(b"/") else root + b"/"
    return path[len(lead) :] if path.startswith(lead) else None
