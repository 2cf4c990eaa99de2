"""Stat signatures: what must stay equal for a file to be taken as unchanged without reading it.

A signature is five fields of ``stat``: size, mtime and ctime in nanoseconds, inode and mode. ``ctime`` is what
catches an edit that keeps the size and restores the mtime: no ordinary call can set it back.
"""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt

#: One signature: size in bytes, times in nanoseconds since the epoch, inode number, ``st_mode``.
SIGNATURE = np.dtype(
    [("size", "<i8"), ("mtime_ns", "<i8"), ("ctime_ns", "<i8"), ("inode", "<u8"), ("mode", "<u4")]
)

#: A signature as plain values, in the order of ``SIGNATURE``'s fields; assignable to an array's element.
Signature = tuple[int, int, int, int, int]

#: The signature of no file: ``st_mode`` is never 0, so it equals no real one.
NO_SIGNATURE: Signature = (0, 0, 0, 0, 0)


def signature_of(status: os.stat_result) -> Signature:
    """The signature in a ``stat`` result."""
    return (status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_mode)


def signatures(count: int) -> npt.NDArray[np.void]:
    """An array of ``count`` signatures, all ``NO_SIGNATURE``."""
    return np.zeros(count, SIGNATURE)
