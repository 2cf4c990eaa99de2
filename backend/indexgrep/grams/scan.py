"""Which substrings of a text are grams, and which of them an index stores: the one extraction.

The text is folded first (``indexgrep.fold``). Let w(i) be the weight of the folded bytes i and i + 1.

*Sparse grams.* The substring [l, r + 2) with l < r is a sparse gram iff it is at most ``LONGEST`` bytes long
and every weight strictly between l and r is lower than both w(l) and w(r); nothing between counts as lower,
so every three bytes are a gram. A text of n bytes has at most 2n - 2 of them, and a monotonic stack of
positions finds all in one pass.

*Selection.* A gram longer than three bytes splits at its highest interior weights (all of them, where several
are equally high) into shorter sparse grams, its children. Three bytes are always stored, a longer gram is
stored iff all its children are frequent. A gram is *frequent* iff it is stored and its bit is set in the
index's frequent set (``grams.frequent``). So where a child is already rare, the longer gram, which would tell
nothing more, is left out.

Both rules look at nothing but the bytes of the gram (and the fixed frequent set), which is what makes an
index sound: for any text Q inside a text D, the stored grams of fold(Q) are stored grams of fold(D) too.
Every change here has to keep that.

``scan`` is plain Python over numpy arrays and is also what ``grams.kernels`` compiles: a build and a query
run the same lines.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

#: The longest gram, in bytes of folded text.
LONGEST = 16
#: Raw bytes that two pieces of one text must share so that every gram is whole in one of them: a folded
#: byte stands for at most three raw ones, and a piece's first and last character may be cut.
OVERLAP = 64
#: A scan writes at most so many keys for each byte of text.
KEYS_PER_BYTE = 2

U64 = np.uint64
#: The hash of bytes b is the sum of (b[i] + 1) * BASE ** (length - 1 - i) modulo 2 ** 64 ...
BASE = U64(0x9E3779B97F4A7C15)
#: ... whose two halves are then combined, multiplied by MIX, and of which the upper 32 bits are the key.
MIX = U64(0xD6E8FEB86659FD93)
ONE = U64(1)
HALF = U64(32)

#: BASE to the power of 0 .. LONGEST.
POWERS: npt.NDArray[np.uint64] = np.array(
    [pow(int(BASE), exponent, 1 << 64) for exponent in range(LONGEST + 1)], np.uint64
)

#: Folding of one byte; the two characters of several bytes are handled in ``scan``.
LOWER: npt.NDArray[np.uint8] = np.array(
    [byte + 32 if 0x41 <= byte <= 0x5A else byte for byte in range(256)], np.uint8
)

_RING = 32  # a power of two above LONGEST: places for the stack's entries, used in rotation


def scan(
    data: Any,
    start: int,
    stop: int,
    lower: Any,
    weights: Any,
    powers: Any,
    frequent: Any,
    shift: Any,
    keys: Any,
    spans: Any,
) -> int:
    """Write the keys of all stored grams of ``data[start:stop]`` to ``keys`` and return their number.

    Args:
        data: uint8, the text, folded or not.
        start, stop: the part of it to scan.
        lower, powers: ``LOWER`` and ``POWERS``.
        weights: uint16[65536], the weight of each pair of bytes.
        frequent: uint8, the frequent set's bits (lowest bit first).
        shift: uint64, how far a key is shifted right to give its bit's number.
        keys: uint32, room for ``KEYS_PER_BYTE`` keys a byte of text. They come in order of where their grams
            end, and are not free of repetition.
        spans: int32[:, 2], where each gram starts and ends in the folded text; may have no rows where that is
            not wanted, and has as many as ``keys`` otherwise.
    """
    # One entry of the stack is a pair of bytes: its position in the folded text, its weight, the hash of
    # all text before it, and whether the gram from the entry below to this one is frequent.
    position = np.empty(_RING, np.int64)
    weight = np.empty(_RING, np.int64)
    prefix = np.empty(_RING, np.uint64)
    linked = np.empty(_RING, np.int64)
    bottom = 0
    top = 0
    record = spans.shape[0] > 0
    count = 0
    hash_before = U64(0)  # of all text before the pair
    hash_middle = U64(0)  # with the pair's first byte
    previous = np.int64(0)
    end = 0  # bytes of folded text so far
    index = start
    while index < stop:
        byte = lower[data[index]]
        index += 1
        if byte == 0xC5:
            if index < stop and data[index] == 0xBF:  # long s
                byte = np.uint8(0x73)
                index += 1
        elif byte == 0xE2 and index + 1 < stop and data[index] == 0x84 and data[index + 1] == 0xAA:  # Kelvin
            byte = np.uint8(0x6B)
            index += 2
        hash_all = hash_middle * BASE + (U64(byte) + ONE)
        end += 1
        if end > 1:
            height = np.int64(weights[(previous << 8) | byte])
            # Positions enter one by one, so at most one entry falls out of reach at a time. It is dropped
            # from below: what is above it still makes grams that are short enough.
            if bottom < top and end - position[bottom & 31] > 16:
                bottom += 1
            interior = np.int64(-1)  # the highest weight between the entry looked at and the new pair
            chained = np.int64(1)  # whether all children of the gram looked at are frequent
            at = top - 1
            while at >= bottom:
                entry = at & 31
                here = weight[entry]
                # Where the entry is only as high as one above it, the substring is no gram; the pieces
                # between equals are children of the next longer one.
                if chained and interior < here:
                    mixed = hash_all - prefix[entry] * powers[end - position[entry]]
                    mixed = (mixed ^ (mixed >> HALF)) * MIX
                    key = mixed >> HALF
                    keys[count] = key
                    if record:
                        spans[count, 0] = position[entry]
                        spans[count, 1] = end
                    count += 1
                    bit = np.int64(key >> shift)
                    chained = np.int64((frequent[bit >> 3] >> (bit & 7)) & 1)
                if here >= height:
                    break
                chained &= linked[entry]
                interior = here
                at -= 1
            at += 1
            entry = at & 31
            position[entry] = end - 2
            weight[entry] = height
            prefix[entry] = hash_before
            linked[entry] = chained
            top = at + 1
        hash_before = hash_middle
        hash_middle = hash_all
        previous = np.int64(byte)
    return count
