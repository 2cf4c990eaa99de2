"""Time stamps as of a file system that stores coarse ones."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from unittest import mock

from indexgrep.tree import signature, snapshot
from indexgrep.tree.signature import Signature


@contextlib.contextmanager
def coarse_time_stamps(grain_ns: int) -> Iterator[None]:
    """Have all stat signatures tell times in multiples of ``grain_ns``, as where no finer ones are stored.

    Two changes within that time cannot be told apart then, which with real time stamps takes two within some
    milliseconds. What the code takes for a whole second, by which it knows such file systems, is that long.
    """
    real_signature, real_build = signature.signature_of, snapshot.SnapshotBuilder.build

    def cut(status: os.stat_result) -> Signature:
        size, modified, changed, inode, mode = real_signature(status)
        return (size, modified // grain_ns * grain_ns, changed // grain_ns * grain_ns, inode, mode)

    def build(self: snapshot.SnapshotBuilder) -> snapshot.Snapshot:
        made = real_build(self)
        for name in ("mtime_ns", "ctime_ns"):
            made.signatures[name] //= grain_ns
            made.signatures[name] *= grain_ns
        return made

    with contextlib.ExitStack() as patches:
        patches.enter_context(mock.patch.object(signature, "SECOND_NS", grain_ns))
        patches.enter_context(mock.patch.object(signature, "COARSE_GRAIN_NS", 2 * grain_ns))
        patches.enter_context(mock.patch.object(snapshot.SnapshotBuilder, "build", build))
        for name, module in list(sys.modules.items()):
            if name.startswith("indexgrep.") and hasattr(module, "signature_of"):
                patches.enter_context(mock.patch.object(module, "signature_of", cut))
        yield
