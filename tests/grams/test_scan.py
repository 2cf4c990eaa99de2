"""The extraction against its definition, and the property the whole index stands on."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from indexgrep.fold import fold
from indexgrep.grams.cover import Gram, cover, grams
from indexgrep.grams.frequent import Frequent
from indexgrep.grams.kernels import scan_compiled
from indexgrep.grams.scan import BASE, KEYS_PER_BYTE, LONGEST, LOWER, MIX, OVERLAP, POWERS
from indexgrep.grams.weights import weights


def key_of(text: bytes) -> int:
    """The key of a gram, from the definition of the hash with plain integers."""
    value = 0
    for byte in text:
        value = (value * int(BASE) + byte + 1) % (1 << 64)
    return (((value ^ (value >> 32)) * int(MIX)) % (1 << 64)) >> 32


def defined(text: bytes, frequent: Frequent) -> list[Gram]:
    """The stored grams of ``text``, straight from the definition in ``grams.scan``."""
    text = fold(text)
    heights = [int(weights()[a * 256 + b]) for a, b in itertools.pairwise(text)]

    def bit(key: int) -> bool:
        number = key >> int(frequent.shift)
        return bool(frequent.bits[number >> 3] >> (number & 7) & 1)

    def is_sparse(left: int, right: int) -> bool:
        inner = heights[left + 1 : right]
        return right + 2 - left <= LONGEST and all(h < min(heights[left], heights[right]) for h in inner)

    def is_stored(left: int, right: int) -> bool:
        if right == left + 1:
            return True
        top = max(heights[left + 1 : right])
        cuts = [left, *(i for i in range(left + 1, right) if heights[i] == top), right]
        return all(is_frequent(a, b) for a, b in itertools.pairwise(cuts))

    def is_frequent(left: int, right: int) -> bool:
        return is_stored(left, right) and bit(key_of(text[left : right + 2]))

    return [
        Gram(left, right + 2, key_of(text[left : right + 2]))
        for right in range(len(heights))
        for left in range(right - 1, -1, -1)
        if is_sparse(left, right) and is_stored(left, right)
    ]


def compiled_keys(text: bytes, frequent: Frequent) -> list[int]:
    keys = np.empty(KEYS_PER_BYTE * len(text), np.uint32)
    count = scan_compiled(
        np.frombuffer(text, np.uint8),
        0,
        len(text),
        LOWER,
        weights(),
        POWERS,
        frequent.bits,
        frequent.shift,
        keys,
        np.empty((0, 2), np.int32),
    )
    return keys[:count].tolist()  # type: ignore[no-any-return]


def frequent_sets() -> st.SearchStrategy[Frequent]:
    """Frequent sets of all densities, some with so few bits that most grams share theirs."""
    return st.one_of(
        st.just(Frequent.empty()),
        st.just(Frequent.full()),
        st.tuples(st.integers(0, 2**32 - 1), st.sampled_from([0.2, 0.5, 0.9])).map(
            lambda pair: Frequent.from_counts(
                (np.random.default_rng(pair[0]).random(1 << 12) < pair[1]) * 3, 3, 0.0
            )
        ),
    )


#: Pieces that source code, and what is hard about it, is made of.
PIECES = [
    *(b"mutex_lock struct file_operations int return if ( ) ; == -> // \t\t    \n".split(b" ")),
    b"MAX_FILE_SIZE",
    b"        ",
    b"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    b"abababababababababababab",
    "\u212a".encode(),  # Kelvin sign
    "\u017f".encode(),  # long s
    "straße Größe".encode(),
    "漢字かな".encode(),
    b"\xe2\x84",
    b"\xc5",
    b"\xff\xfe\x80",
]


def texts(most: int = 40) -> st.SearchStrategy[bytes]:
    return st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=6)), max_size=most).map(b"".join)


@given(texts(12), frequent_sets())
@settings(max_examples=300)
@example(b"aaaaaaaaaaaaaaaaaaaaaaaa", Frequent.full())
@example(b"abcabcabcabcabcabc", Frequent.full())
def test_scan_finds_what_the_definition_says(text: bytes, frequent: Frequent) -> None:
    assert grams(text, frequent) == defined(text, frequent)


@given(texts(), frequent_sets())
@settings(max_examples=300)
def test_compiled_and_plain_scan_agree(text: bytes, frequent: Frequent) -> None:
    assert compiled_keys(text, frequent) == [gram.key for gram in grams(text, frequent)]


@given(texts(), frequent_sets(), st.data())
@settings(max_examples=500)
def test_grams_of_a_part_are_grams_of_the_whole(text: bytes, frequent: Frequent, data: st.DataObject) -> None:
    folded = fold(text)
    start = data.draw(st.integers(0, len(folded)))
    end = data.draw(st.integers(start, len(folded)))
    whole = {(gram.start, gram.end, gram.key) for gram in grams(text, frequent)}
    part = grams(folded[start:end], frequent)
    assert {(start + gram.start, start + gram.end, gram.key) for gram in part} <= whole


@given(texts(), frequent_sets(), st.data())
@settings(max_examples=200)
def test_pieces_that_overlap_give_all_grams(text: bytes, frequent: Frequent, data: st.DataObject) -> None:
    text = text * 4
    cut = data.draw(st.integers(0, len(text)))
    pieces = {*compiled_keys(text[:cut], frequent), *compiled_keys(text[max(0, cut - OVERLAP) :], frequent)}
    assert pieces >= set(compiled_keys(text, frequent))


@given(texts(), frequent_sets())
@settings(max_examples=200)
def test_never_more_keys_than_there_is_room_for(text: bytes, frequent: Frequent) -> None:
    assert len(compiled_keys(text, frequent)) <= max(0, 2 * len(fold(text)) - 2)


@pytest.mark.parametrize(
    ("written", "sought"),
    [
        ("MUTEX_LOCK(&Lock)", "mutex_lock(&lock)"),
        ("measured in \u212aelvin", "measured in kelvin"),
        ("\u017ftruct file", "struct FILE"),
        ("\u017f\u017f\u017f\u212a\u212a\u212a", "ssskkk"),
    ],
)
def test_folding_happens_in_the_scan(written: str, sought: str) -> None:
    found = [gram.key for gram in grams(written.encode(), Frequent.full())]
    assert found == [gram.key for gram in grams(sought.encode(), Frequent.full())]


@given(texts(8), frequent_sets())
@settings(max_examples=200)
def test_cover_touches_every_byte_and_has_no_gram_inside_another(text: bytes, frequent: Frequent) -> None:
    folded = fold(text)
    found = cover(folded, frequent)
    if len(folded) < 3:
        assert found == []
        return
    assert {place for gram in found for place in range(gram.start, gram.end)} == set(range(len(folded)))
    for first, second in itertools.pairwise(found):
        assert first.start < second.start
        assert first.end < second.end
    stored = grams(folded, frequent)
    assert set(found) <= set(stored)
    for gram in stored:
        assert any(outer.start <= gram.start and gram.end <= outer.end for outer in found)


def test_cover_descends_where_a_longer_gram_is_not_stored() -> None:
    everything = cover(b"max_file_size", Frequent.full())
    only_trigrams = cover(b"max_file_size", Frequent.empty())
    assert max(gram.end - gram.start for gram in everything) > 3
    assert [gram.end - gram.start for gram in only_trigrams] == [3] * 11


def test_keys_do_not_depend_on_the_platform() -> None:
    assert [gram.key for gram in grams(b"\xff\x00\x80key", Frequent.empty())] == [
        key_of(b"\xff\x00\x80"),
        key_of(b"\x00\x80k"),
        key_of(b"\x80ke"),
        key_of(b"key"),
    ]
    assert key_of(b"key") == 0x459717B8
