"""Line-oriented search of a whole buffer: which lines match.

The pattern runs over the whole buffer; work for single lines is done only around its matches. A *hit* is a
line that is to be reported: ``(start, end, spans)``, offsets in the buffer with the terminator included, and
the matches' spans relative to ``start``.
"""

from __future__ import annotations

from collections.abc import Iterator

from .engine import Engine, Span

Hit = tuple[int, int, list[Span]]

#: Buffers are searched in pieces of about so many bytes, cut at line ends: the engine returns all matches of
#: a piece at once, and a pattern may match at every byte.
CHUNK = 256 << 10

#: From so many bytes on, counting line feeds with numpy beats ``bytes.count``.
_NUMPY_FROM = 4096


def count_newlines(data: bytes, start: int, end: int) -> int:
    """The number of line feeds in ``data[start:end]``."""
    if end - start < _NUMPY_FROM:
        return data.count(b"\n", start, end)
    import numpy

    view = numpy.frombuffer(data, numpy.uint8, end - start, start)
    return int(numpy.count_nonzero(view == 10))


def matching_lines(engine: Engine, data: bytes) -> Iterator[Hit]:
    """The lines of ``data`` that match, with all matches in each; matches must not cross line feeds.

    An empty match behind the last line's terminator is no line, and one at the end of a last line without
    terminator marks the line but is no span: both as ripgrep does.
    """
    size = len(data)
    base = 0
    while base < size:
        if size - base <= CHUNK:
            chunk, length = (data if base == 0 else data[base:]), size - base
        else:
            cut = data.rfind(b"\n", base, base + CHUNK) + 1
            if cut <= 0:
                cut = data.find(b"\n", base + CHUNK) + 1 or size
            chunk, length = data[base:cut], cut - base
        end = -1
        spans: list[Span] = []
        line_start = 0
        for first, last in engine.spans(chunk):
            if first < end:
                spans.append((first - line_start, last - line_start))
                continue
            if end >= 0:
                yield base + line_start, base + end, spans
            line_start = chunk.rfind(b"\n", max(end, 0), first) + 1 or max(end, 0)
            if line_start >= length:
                end = -1
                break
            end = chunk.find(b"\n", last) + 1
            if end == 0:
                # The last line, without a terminator: its end is no place for a span.
                end = length
                if first == length:
                    yield base + line_start, base + end, []
                    end = -1
                    break
            spans = [(first - line_start, last - line_start)]
        if end >= 0:
            if spans and spans[-1][0] == spans[-1][1] == length - line_start and chunk[-1:] != b"\n":
                spans.pop()
            yield base + line_start, base + end, spans
        base += length


def all_lines(data: bytes, start: int, end: int) -> Iterator[tuple[int, int]]:
    """The lines of ``data[start:end]``, which starts and ends at line ends, as half-open ranges."""
    while start < end:
        stop = data.find(b"\n", start, end) + 1 or end
        yield start, stop
        start = stop


def preceding(data: bytes, start: int, end: int, count: int) -> int:
    """Start of the line ``count`` lines before the last line of ``data[start:end]``, not below ``start``."""
    position = end
    for _ in range(count + 1):
        if position <= start:
            break
        position = data.rfind(b"\n", start, position - 1) + 1 or start
    return position


def inverted_lines(engine: Engine, data: bytes) -> Iterator[Hit]:
    """The lines of ``data`` that do not match."""
    return complement(data, ((start, end) for start, end, _ in matching_lines(engine, data)))


def complement(data: bytes, taken: Iterator[tuple[int, int]]) -> Iterator[Hit]:
    """The lines of ``data`` between the ordered ranges ``taken``, as hits without spans."""
    position = 0
    for start, end in taken:
        for first, last in all_lines(data, position, start):
            yield first, last, []
        position = end
    for first, last in all_lines(data, position, len(data)):
        yield first, last, []
