"""Stat signatures: what must stay equal for a file to be taken as unchanged without reading it.

A signature is five fields of ``stat``: size, mtime and ctime in nanoseconds, inode and mode. ``ctime`` is
what catches an edit that keeps the size and restores the mtime: no ordinary call can set it back.
"""

from __future__ import annotations

import os

import numpy as np

#: One signature: size in bytes, times in nanoseconds since the epoch, inode number, ``st_mode``.
SIGNATURE = np.dtype(
    [("size", "<i8"), ("mtime_ns", "<i8"), ("ctime_ns", "<i8"), ("inode", "<u8"), ("mode", "<u4")]
)

#: A signature as plain values, in the order of ``SIGNATURE``'s fields; assignable to an array's element.
Signature = tuple[int, int, int, int, int]

#: File systems stamp files with the time of the kernel's last tick, at most 10 ms ago; twice that for safety.
GRAIN_NS = 20_000_000
#: Time stamps of whole seconds come from file systems that store no fraction (FAT: every second one).
COARSE_GRAIN_NS = 2_000_000_000
SECOND_NS = 1_000_000_000

#: The signature of no file: ``st_mode`` is never 0, so it equals no real one.
NO_SIGNATURE: Signature = (0, 0, 0, 0, 0)


def signature_of(status: os.stat_result) -> Signature:
    """The signature in a ``stat`` result."""
    return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_mode)


def is_racy(signature: Signature, observed_ns: int) -> bool:
    """Whether a later change could leave a file's signature the same.

    ``observed_ns`` is ``time.time_ns()`` from just before the signature was taken. A file whose time
    stamps are older than that by more than their grain gets another ctime with any later change. One that
    was changed just before may be changed again within the same tick, with equal time stamps: what was
    read of it then must not be relied on (git calls this racy). A time stamp in the future (the clock was
    set back) is racy too.
    """
    stamp = max(signature[1], signature[2])
    grain = COARSE_GRAIN_NS if signature[2] % SECOND_NS == 0 else GRAIN_NS
    return stamp >= observed_ns - grain
