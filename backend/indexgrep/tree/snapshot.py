"""The files of a tree with their signatures, at one moment, and which signatures cannot be trusted yet."""

from __future__ import annotations

import os
from array import array
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .signature import COARSE_GRAIN_NS, GRAIN_NS, SECOND_NS, SIGNATURE


def racy(signatures: npt.NDArray[np.void], observed_ns: int | npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """``is_racy`` for an array of ``SIGNATURE``; ``observed_ns`` is one time or one for each."""
    stamp = np.maximum(signatures["mtime_ns"], signatures["ctime_ns"])
    grain = np.where(signatures["ctime_ns"] % SECOND_NS == 0, COARSE_GRAIN_NS, GRAIN_NS)
    result: npt.NDArray[np.bool_] = stamp >= observed_ns - grain
    return result


@dataclass(frozen=True)
class Snapshot:
    """The standard universe at one moment.

    ``paths`` are relative to the root, sorted by their bytes; ``signatures`` (``SIGNATURE``) are parallel.
    ``observed_ns`` is the clock (``time.time_ns()``) before the first signature was taken.
    """

    paths: list[bytes]
    signatures: npt.NDArray[np.void]
    observed_ns: int

    @property
    def racy(self) -> npt.NDArray[np.bool_]:
        """For each path whether ``is_racy`` holds."""
        return racy(self.signatures, self.observed_ns)


#: The fields of a signature as ``array`` holds them.
_COLUMNS = {"size": "q", "mtime_ns": "q", "ctime_ns": "q", "inode": "Q", "mode": "I"}


class SnapshotBuilder:
    """Collects files in order, in columns of plain numbers: four times smaller than lists of integers."""

    def __init__(self, observed_ns: int) -> None:
        self.observed_ns = observed_ns
        self.paths: list[bytes] = []
        self._columns = {name: array(code) for name, code in _COLUMNS.items()}

    def add(self, directory: bytes, names: list[bytes], statuses: list[os.stat_result]) -> None:
        """Add a run of files of one directory with their stat results."""
        self.paths += [directory + name for name in names] if directory else names
        columns = self._columns
        columns["size"].extend([status.st_size for status in statuses])
        columns["mtime_ns"].extend([status.st_mtime_ns for status in statuses])
        columns["ctime_ns"].extend([status.st_ctime_ns for status in statuses])
        columns["inode"].extend([status.st_ino for status in statuses])
        columns["mode"].extend([status.st_mode for status in statuses])

    def build(self) -> Snapshot:
        table = np.empty(len(self.paths), SIGNATURE)
        for name, column in self._columns.items():
            table[name] = column
        return Snapshot(self.paths, table, self.observed_ns)
