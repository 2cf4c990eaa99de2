"""The grams a query looks up: those that say all an index knows about a literal.

Every stored gram of a literal must be in a document that holds the literal. Where one stored gram lies inside
another, its list holds every document of the other's and adds nothing; what is left, the stored grams inside
no other, touches every byte of the literal (any three bytes are stored), and descends by itself to
shorter grams where the selective rule left a longer one out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .frequent import Frequent
from .scan import KEYS_PER_BYTE, LOWER, POWERS, scan
from .weights import weights


class Gram(NamedTuple):
    """A stored gram of a text: where it stands in the folded text, half open, and its key (32 bits)."""

    start: int
    end: int
    key: int


def grams(text: bytes, frequent: Frequent) -> list[Gram]:
    """All stored grams of fold(``text``), in the order of their ends, repetitions included."""
    data = np.frombuffer(text, np.uint8)
    keys = np.empty(len(text) * KEYS_PER_BYTE, np.uint32)
    spans = np.empty((len(keys), 2), np.int32)
    with np.errstate(over="ignore"):  # the hash is modulo 2 ** 64
        count = scan(data, 0, len(data), LOWER, weights(), POWERS, frequent.bits, frequent.shift, keys, spans)
    return [
        Gram(start, end, key)
        for (start, end), key in zip(spans[:count].tolist(), keys[:count].tolist(), strict=True)
    ]


def cover(literal: bytes, frequent: Frequent) -> list[Gram]:
    """The stored grams of fold(``literal``) that lie inside no other, from left to right.

    Empty for literals of fewer than three bytes: no gram can vouch for them.
    """
    found = sorted(grams(literal, frequent), key=lambda gram: (gram.start, -gram.end))
    covering: list[Gram] = []
    for gram in found:
        if not covering or gram.end > covering[-1].end:
            covering.append(gram)
    return covering
