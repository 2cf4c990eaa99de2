"""The weight table that ships and the frequent set."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import resources

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from indexgrep.grams.frequent import Frequent, choose_sample
from indexgrep.grams.weights import table_id, weights, weights_id


def test_weights_are_ranks() -> None:
    assert weights().shape == (65536,)
    assert sorted(weights().tolist()) == list(range(65536))


def test_common_pairs_weigh_less_than_rare_ones() -> None:
    def weight(pair: bytes) -> int:
        return int(weights()[pair[0] * 256 + pair[1]])

    assert weight(b"  ") == 0
    assert weight(b"in") < weight(b"_x") < weight(b"qz") < weight(b"QZ")


def test_the_table_is_the_one_that_its_origin_describes() -> None:
    origin = json.loads(resources.files("indexgrep.grams").joinpath("weights.json").read_text())
    table = resources.files("indexgrep.grams").joinpath("weights.bin").read_bytes()
    assert origin["id"] == table_id(table) == weights_id()
    assert len(origin["bytes_by_language"]) >= 6
    assert all(version and len(digest) == 64 for _, _, version, digest in origin["sources"])


@given(st.lists(st.binary(min_size=1, max_size=8), unique=True, max_size=60), st.integers(1, 30))
@settings(max_examples=100)
def test_sample_is_chosen_by_path_alone(paths: list[bytes], size: int) -> None:
    paths.sort()
    sample = choose_sample(paths, size)
    assert len(sample) == min(size, len(paths))
    assert sample.tolist() == sorted(set(sample.tolist()))
    # Taking a document away that is not in the sample changes nothing.
    chosen = {paths[number] for number in sample.tolist()}
    outside = [path for path in paths if path not in chosen]
    if outside and len(paths) - 1 > size:
        rest = [path for path in paths if path != outside[0]]
        assert {rest[number] for number in choose_sample(rest, size).tolist()} == chosen


def test_frequent_is_more_than_a_fraction_and_at_least_three_documents() -> None:
    counts = np.array([0, 2, 3, 20, 21, 100, 5, 1])
    assert np.unpackbits(Frequent.from_counts(counts, 1000, 0.02).bits, bitorder="little").tolist() == [
        0,
        0,
        0,
        0,
        1,
        1,
        0,
        0,
    ]
    assert Frequent.from_counts(counts, 10, 0.02).bits.tolist() == [0b01111100]


def test_a_query_does_not_import_numba() -> None:
    code = (
        "import sys; from indexgrep.grams.cover import cover; from indexgrep.grams.frequent import Frequent\n"
        "import indexgrep.index; cover(b'mutex_lock', Frequent.full()); print('numba' in sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"
