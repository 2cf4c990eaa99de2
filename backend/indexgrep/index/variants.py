"""Figures for the choice of what is stored: the table of engine variants that ``make bench`` prints.

Each variant is a real index of the same files, made by the builder with another fraction c of the frequent
set: with c = 1 nothing is frequent and only trigrams are stored.
"""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..fold import fold
from ..pattern.query import Literal
from .builder import build
from .format import LOOKUP, POSTINGS
from .reader import Index
from .workers import Workers


@dataclass(frozen=True)
class Variant:
    """One row of the table."""

    #: The fraction c; 1 stands for trigrams only.
    c: float
    keys: int
    #: Bytes of both files, and of the lookup file.
    index_bytes: int
    lookup_bytes: int
    #: Bytes of text that were indexed.
    text_bytes: int
    #: Geometric mean over the queries of candidates by true documents, both at least 1.
    ratio: float
    #: Median milliseconds to find the candidates of a query.
    query_ms: float
    build_s: float

    def __str__(self) -> str:
        name = "trigrams" if self.c >= 1 else f"selective, c = {self.c:g}"
        return (
            f"{name:<20} {self.keys / 1e6:6.2f} M keys  {self.index_bytes / 1e6:7.1f} MB "
            f"{self.index_bytes / max(1, self.text_bytes):6.1%}  lookup {self.lookup_bytes / 1e6:5.1f} MB  "
            f"candidates/true {self.ratio:5.2f}  query {self.query_ms:6.2f} ms  build {self.build_s:5.1f} s"
        )


def variants(
    root: str,
    paths: Sequence[bytes],
    cs: Sequence[float],
    queries: Sequence[bytes],
    workers: Workers | None = None,
) -> list[Variant]:
    """Build an index for each c in ``cs`` and ask it the literals ``queries``, without regard to case.

    The true documents are found by reading every file once.
    """
    true = true_counts(root, paths, queries)
    rows = []
    for c in cs:
        directory = Path(tempfile.mkdtemp(prefix="indexgrep-variant-"))
        try:
            started = time.perf_counter()
            build(root, paths, directory / "index", workers=workers, fraction=c)
            built = time.perf_counter() - started
            rows.append(_row(directory / "index", c, queries, true, built))
        finally:
            shutil.rmtree(directory, ignore_errors=True)
    return rows


def true_counts(root: str, paths: Sequence[bytes], queries: Sequence[bytes]) -> list[int]:
    """In how many of the files each query is, folded as in an index."""
    folded = [fold(query) for query in queries]
    counts = [0] * len(folded)
    base = os.path.join(os.fsencode(root), b"")
    for path in paths:
        try:
            with open(base + path, "rb") as file:
                text = fold(file.read())
        except OSError:
            continue
        for number, query in enumerate(folded):
            counts[number] += query in text
    return counts


def _row(directory: Path, c: float, queries: Sequence[bytes], true: Sequence[int], built: float) -> Variant:
    index = Index(directory)
    ratios = []
    times = []
    for query, count in zip(queries, true, strict=True):
        started = time.perf_counter()
        found = index.candidates(Literal(fold(query)), after_nul=False).count
        times.append(time.perf_counter() - started)
        ratios.append(math.log(max(found, 1) / max(count, 1)))
    sizes = [os.stat(directory / name).st_size for name in (POSTINGS, LOOKUP)]
    row = Variant(
        c=c,
        keys=index.key_count,
        index_bytes=sum(sizes),
        lookup_bytes=sizes[1],
        text_bytes=int(index.text_sizes.sum()),
        ratio=math.exp(sum(ratios) / max(1, len(ratios))),
        query_ms=1000 * float(np.median(times)) if times else 0.0,
        build_s=built,
    )
    index.close()
    return row
