"""The weight of every pair of bytes: how rare it is in source code.

The table is made by ``tools/make_weights.py`` from the sources that ``weights.json`` names. An index records
the table's id, and one that was made with another table is rebuilt, never read: the weights decide which
substrings are grams.
"""

from __future__ import annotations

import functools
import hashlib
from importlib import resources

import numpy as np
import numpy.typing as npt


def table_id(table: bytes) -> str:
    """The name of a table (65,536 little-endian uint16): 16 hex digits of its SHA-256."""
    return hashlib.sha256(table).hexdigest()[:16]


@functools.cache
def _table_bytes() -> bytes:
    return resources.files(__package__).joinpath("weights.bin").read_bytes()


@functools.cache
def weights() -> npt.NDArray[np.uint16]:
    """The table: the weight of bytes ``a``, ``b`` stands at ``a * 256 + b``; the most common pair has 0.

    Read only, shape (65536,).
    """
    return np.frombuffer(_table_bytes(), "<u2").astype(np.uint16, copy=False)


@functools.cache
def weights_id() -> str:
    """The id of the table that ships."""
    return table_id(_table_bytes())
