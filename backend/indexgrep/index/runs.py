"""Sorted runs on disk, what extraction leaves for merging.

A run holds the postings of one stretch of documents (see ``index.kernels``). Its file has five columns of
uint32, one number for each key: the keys in ascending order, how many documents have it, the first of them,
the last, and the bytes of its gaps; then all gaps.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

#: Ranges of keys, of equal width, that merging is divided by.
RANGES = 256

#: The path of a run's file, and where each of the ``RANGES`` starts (and the last ends) among its keys and in
#: its gaps: plain values, for they go from worker to worker.
Run = tuple[str, list[int], list[int]]


def write_run(
    path: str, keys: npt.NDArray[np.uint32], columns: npt.NDArray[np.uint32], gaps: npt.NDArray[np.uint8]
) -> Run:
    """Write a run. ``columns`` are the other four, uint32[4, keys]."""
    with open(path, "wb") as file:
        file.write(keys.data)
        file.write(columns.data)
        file.write(gaps.data)
    key_edges = np.searchsorted(keys, np.arange(RANGES + 1, dtype=np.uint64) * ((1 << 32) // RANGES))
    gap_edges = np.concatenate([[0], np.cumsum(columns[3], dtype=np.int64)])[key_edges]
    return path, key_edges.tolist(), gap_edges.tolist()


def read_run(run: Run, low: int, high: int) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint8]]:
    """The five columns and the gaps that a run has in the ranges ``low`` .. ``high`` - 1."""
    path, key_edges, gap_edges = run
    start, stop, keys = key_edges[low], key_edges[high], key_edges[-1]
    columns = np.empty((5, stop - start), np.uint32)
    for number in range(5):
        columns[number] = np.fromfile(path, np.uint32, stop - start, offset=4 * (number * keys + start))
    size = gap_edges[high] - gap_edges[low]
    return columns, np.fromfile(path, np.uint8, size, offset=20 * keys + gap_edges[low])
