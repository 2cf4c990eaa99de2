"""The unsaved buffers as one search sees them: each stands for its file, exactly as if it had been written.

A text is written to where its path leads. So a buffer counts by the real path of its file, and for every name
under which a search reaches that: one, or several where links are followed. Two things stay as they are on
disk until the buffer is written: other hard links of its file, and, where it is an ignore file, the rules.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace

from ..overlay.buffers import Buffer, Snapshot
from ..tree.root import Root
from ..tree.supposed import Supposed, can_be_file
from ..tree.walk import WalkOptions, walk_supposed
from .scope import Target


@dataclass(frozen=True)
class Placed:
    """The buffers below one target, by the names of its files."""

    #: Of those buffers that are wanted.
    texts: dict[bytes, bytes] = field(default_factory=dict)
    #: The names of all buffers, wanted or not: what is on disk there must not be read.
    covered: frozenset[bytes] = frozenset()
    #: How many of the wanted ones have no file yet.
    new: int = 0

    def over(self, files: list[bytes]) -> list[bytes]:
        """``files`` as if the buffers had been written."""
        if not self.covered:
            return files
        return [name for name in files if name not in self.covered] + list(self.texts)


_NONE = Placed()


class Shadows:
    """See the module. ``buffers`` may lie anywhere in ``root``."""

    def __init__(self, root: Root, buffers: Snapshot | None) -> None:
        self._root = root
        self._top = os.fsencode(root.path)
        self._buffers: dict[bytes, Buffer] = {}
        known_paths = {self._top: self._top}
        for key, buffer in (buffers or {}).items():
            directory, name = os.path.split(os.path.join(self._top, key))
            real = os.path.join(_resolved(directory, known_paths), name)
            if os.path.islink(real):
                real = os.path.realpath(real)
            known = self._buffers.get(real)
            if can_be_file(real) and (known is None or known.received < buffer.received):
                self._buffers[real] = buffer
        self._supposed = Supposed({real: len(buffer.text) for real, buffer in self._buffers.items()})
        self._used: set[bytes] = set()

    @property
    def used(self) -> int:
        """How many buffers lay in the targets so far."""
        return len(self._used)

    def seen(self, target: Target) -> Target:
        """``target`` as if the buffers had been written: what is missing may be there."""
        if target.kind != "missing" or not self._buffers or b"\0" in target.name:
            return target
        real = self._real(target)
        if real in self._buffers:
            return replace(target, kind="file", error="")
        if self._supposed.has_directory(real):
            return replace(target, kind="supposed", error="")
        return target

    def named(self, target: Target) -> dict[bytes, bytes]:
        """The text that stands for a target which is a file, by its name; empty where none does."""
        if not self._buffers:
            return {}
        real = self._real(target)
        buffer = self._buffers.get(real)
        if buffer is None:
            return {}
        self._used.add(real)
        return {target.name: buffer.text}

    def below(self, target: Target, options: WalkOptions) -> Placed:
        """The buffers in a target which is a directory."""
        if not self._buffers:
            return _NONE
        if not options.follow and not self._supposed.has_directory(self._real(target)):
            return _NONE
        found = walk_supposed(self._root, options, self._supposed)
        self._used.update(found.wanted.values())
        return Placed(
            {name: self._buffers[real].text for name, real in found.wanted.items()},
            frozenset(found.met),
            sum(not os.path.lexists(real) for real in found.wanted.values()),
        )

    def _real(self, target: Target) -> bytes:
        return os.path.realpath(os.path.join(self._top, target.name))


def _resolved(directory: bytes, known: dict[bytes, bytes]) -> bytes:
    """The real path of a directory in the root; ``known`` are those of others, which it joins."""
    names = []
    while directory not in known:
        directory, name = os.path.split(directory)
        names.append(name)
    real = known[directory]
    for name in reversed(names):
        directory, real = os.path.join(directory, name), os.path.join(real, name)
        if os.path.islink(real):
            real = os.path.realpath(real)
        known[directory] = real
    return real
