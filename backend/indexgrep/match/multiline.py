"""Search with matches that may span lines (``-U``): blocks of lines instead of lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .engine import Engine
from .lines import Hit, complement


def crosses_lines(pattern: Any) -> bool:
    """Whether ripgrep would search for ``pattern`` over line ends rather than line by line."""
    literal = pattern.literal
    return literal is None or b"\n" in literal


def hits(engine: Engine, data: bytes, invert: bool) -> Iterator[Hit]:
    """The blocks of lines of ``data`` that its matches touch (merged where they meet), or the other lines."""
    if invert:
        return complement(data, ((start, end) for start, end, _ in blocks(engine, data)))
    return blocks(engine, data)


def blocks(engine: Engine, data: bytes) -> Iterator[Hit]:
    """The blocks of lines that the matches in ``data`` touch; blocks that meet are one."""
    size = len(data)
    start = end = -1
    spans = []
    for first, last in engine.spans(data):
        if end >= 0 and first < end:
            line_start, line_end = start, end
        else:
            line_start = data.rfind(b"\n", 0, first) + 1
            line_end = 0
        if last > line_start and data[last - 1 : last] == b"\n":
            line_end = max(line_end, last)
        else:
            line_end = max(line_end, data.find(b"\n", last) + 1 or size)
        if line_start >= size:
            break
        if end >= 0 and line_start <= end:
            end = max(end, line_end)
        else:
            if end >= 0:
                yield start, end, spans
            start, end, spans = line_start, line_end, []
        if first < size:
            spans.append((first - start, last - start))
    if end >= 0:
        yield start, end, spans
