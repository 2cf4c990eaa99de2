"""The files of a tree with their signatures, at one moment."""

from __future__ import annotations

import os
from array import array
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .signature import SIGNATURE


@dataclass(frozen=True)
class Snapshot:
    """The standard universe at one moment.

    ``paths`` are relative to the root, sorted by their bytes; ``signatures`` (``SIGNATURE``) are parallel.
    """

    paths: list[bytes]
    signatures: npt.NDArray[np.void]


#: The fields of a signature as ``array`` holds them.
_COLUMNS = {"size": "q", "mtime_ns": "q", "ctime_ns": "q", "inode": "Q", "mode": "I"}


class SnapshotBuilder:
    """Collects files in order, in columns of plain numbers: four times smaller than lists of integers."""

    def __init__(self) -> None:
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
        return Snapshot(self.paths, table)
