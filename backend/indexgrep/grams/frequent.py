"""The frequent set: which grams are so common that the next longer ones are worth storing.

It is fixed for one index. A deterministic sample of the documents (those with the lowest hashes of their
paths) is scanned for all sparse grams, and a gram is frequent when more than a fraction c of the sample has
it, and at least ``LEAST_DOCUMENTS`` do. The set is kept as one bit for each possible value of the upper
bits of a gram's key: grams that share a bit are frequent together, which stores a little more and is
sound.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import xxhash

#: The set has at most 2 ** BITS bits, and at least 2 ** LEAST_BITS.
BITS = 23
LEAST_BITS = 10
#: Documents in a sample at most.
SAMPLE = 2048
LEAST_DOCUMENTS = 3
#: The fraction c: measured on Linux 6.1 (``indexgrep.index.variants``) as the best trade of index size for
#: candidates.
FRACTION = 0.02


class Frequent:
    """The set, as ``scan`` reads it."""

    def __init__(self, bits: npt.NDArray[np.uint8]) -> None:
        """``bits``: uint8, a power of two of them, at most 2 ** 29; the lowest bit comes first."""
        self.bits = bits
        #: A key shifted right by this is the number of its bit.
        self.shift = np.uint64(32 - (len(bits) * 8).bit_length() + 1)

    @classmethod
    def empty(cls) -> Frequent:
        """Nothing is frequent: only three-byte grams are stored."""
        return cls(np.zeros(1, np.uint8))

    @classmethod
    def full(cls) -> Frequent:
        """Everything is frequent: all sparse grams are stored."""
        return cls(np.full(1, 0xFF, np.uint8))

    @classmethod
    def from_counts(
        cls, counts: npt.NDArray[np.integer], sample: int, fraction: float = FRACTION
    ) -> Frequent:
        """The set for the document frequencies ``counts``, one for each bit, in ``sample`` documents."""
        least = max(LEAST_DOCUMENTS, int(fraction * sample) + 1)
        return cls(np.packbits(counts >= least, bitorder="little"))


def choose_bits(size: int) -> int:
    """The binary logarithm of the number of bits for documents of ``size`` bytes together."""
    return min(max(size.bit_length(), LEAST_BITS), BITS)


def choose_sample(paths: Sequence[bytes], size: int = SAMPLE) -> npt.NDArray[np.int64]:
    """Which of ``paths`` to sample: at most ``size`` of them, in ascending order."""
    if len(paths) <= size:
        return np.arange(len(paths))
    hashes = np.fromiter((xxhash.xxh3_64_intdigest(path) for path in paths), np.uint64, len(paths))
    return np.sort(np.argsort(hashes, kind="stable")[:size])
