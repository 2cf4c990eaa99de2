"""Line-oriented search of a whole buffer: which lines match, and the records of them and their context.

The pattern runs over the whole buffer; work for single lines is done only around its matches. A *hit* is a
line that is to be reported: ``(start, end, spans)``, offsets in the buffer with the terminator included, and
the matches' spans relative to ``start``.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..request import Line
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


class Collector:
    """Turns hits into ``Line`` records with line numbers and context.

    Context lines are reported once, those after a hit before those before the next. After ``limit`` hits only
    the last one's after-context follows; lines in it that would be hits are reported as such, and count.
    """

    def __init__(self, engine: Engine, data: bytes, before: int, after: int, limit: int | None) -> None:
        self.lines: list[Line] = []
        #: Lines reported as matches (a block of lines counts all of its lines), and the matches in them.
        self.count = 0
        self.matches = 0
        #: End of the last line reported.
        self.visited = 0
        #: How far the search got before the limit stopped it; the buffer's size when nothing did.
        self.stopped_at = len(data)
        #: Whether the limit stopped the search, its after-context being complete.
        self.limited = False
        self._engine = engine
        self._data = data
        self._before = before
        self._after = after
        self._limit = limit
        self._number = 1
        self._counted = 0

    def plain(self, hits: Iterator[Hit]) -> None:
        """Collect ``hits``, one line each, without context: the hot path."""
        data = self._data
        lines = self.lines
        limit = self._limit
        number, counted, matches = 1, 0, 0
        for start, end, spans in hits:
            number += count_newlines(data, counted, start)
            counted = start
            matches += len(spans)
            lines.append(Line(number, start, data[start:end], spans))
            if len(lines) == limit:
                self.limited = True
                self.stopped_at = end
                break
        self.count = len(lines)
        self.matches = matches
        self.visited = lines[-1].offset + len(lines[-1].text) if lines else 0

    def with_context(self, hits: Iterator[Hit], invert: bool, blocks: bool = False) -> None:
        """Collect ``hits`` and their context lines.

        With ``invert`` context lines carry the spans of their matches. With ``blocks`` a hit may hold
        several lines.
        """
        data = self._data
        limit = self._limit
        remaining = 0
        pending = iter(hits)
        for taken, (start, end, spans) in enumerate(pending, 1):
            remaining = self._context_after(start, remaining, invert)
            self._context_before(start, invert)
            self._hit(start, end, spans, blocks)
            remaining = self._after
            if taken == limit:
                self.stopped_at = end
                self._after_limit(pending, invert, blocks)
                return
        self._context_after(len(data), remaining, invert)

    def _after_limit(self, hits: Iterator[Hit], invert: bool, blocks: bool) -> None:
        """The after-context of the last hit allowed, in which further hits count but earn no context."""
        remaining = self._after
        upcoming = next(hits, None) if remaining else None
        for start, end in all_lines(self._data, self.visited, len(self._data)):
            if remaining == 0:
                break
            remaining -= 1
            while upcoming is not None and upcoming[1] <= start:
                upcoming = next(hits, None)
            if upcoming is not None and upcoming[0] <= start:
                self._hit(start, end, upcoming[2] if upcoming[0] == start else [], blocks)
                self.stopped_at = end
            else:
                self._context(start, end, invert)
        self.limited = remaining == 0
        if not self.limited:
            self.stopped_at = len(self._data)

    def _hit(self, start: int, end: int, spans: list[Span], blocks: bool) -> None:
        data = self._data
        self.lines.append(Line(self._number_at(start), start, data[start:end], spans))
        self.count += len(list(all_lines(data, start, end))) if blocks else 1
        self.matches += len(spans)
        self.visited = end

    def _context(self, start: int, end: int, invert: bool) -> None:
        text = self._data[start:end]
        spans = self._spans_in(text) if invert else []
        self.lines.append(Line(self._number_at(start), start, text, spans, False))
        self.visited = end

    def _spans_in(self, text: bytes) -> list[Span]:
        return [span for hit in matching_lines(self._engine, text) for span in hit[2]]

    def _context_after(self, upto: int, remaining: int, invert: bool) -> int:
        if remaining:
            for start, end in all_lines(self._data, self.visited, upto):
                self._context(start, end, invert)
                remaining -= 1
                if not remaining:
                    break
        return remaining

    def _context_before(self, upto: int, invert: bool) -> None:
        wanted = self._before
        start = upto
        while wanted and start > self.visited:
            start = max(self._data.rfind(b"\n", self.visited, start - 1) + 1, self.visited)
            wanted -= 1
        for first, last in all_lines(self._data, start, upto):
            self._context(first, last, invert)

    def _number_at(self, offset: int) -> int:
        self._number += count_newlines(self._data, self._counted, offset)
        self._counted = offset
        return self._number
