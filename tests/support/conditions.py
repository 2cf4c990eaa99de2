"""What a query tree means, as code: the reference the analysis is checked against."""

from __future__ import annotations

from indexgrep.fold import fold
from indexgrep.pattern import All, And, Literal, Nothing, Or, Query


def satisfies(text: bytes, query: Query) -> bool:
    """Whether ``text`` (as it is, not folded) satisfies ``query``."""
    return _holds(fold(text), query)


def _holds(folded: bytes, query: Query) -> bool:
    if isinstance(query, Literal):
        return query.data in folded
    if isinstance(query, And):
        return all(_holds(folded, child) for child in query.children)
    if isinstance(query, Or):
        return any(_holds(folded, child) for child in query.children)
    assert isinstance(query, (All, Nothing))
    return isinstance(query, All)
