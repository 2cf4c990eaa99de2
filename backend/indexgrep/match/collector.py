"""From the lines that match to the records of them: line numbers, context, the limit a file has."""

from __future__ import annotations

from collections.abc import Iterator

from ..request import Line
from .engine import Engine, Span
from .lines import Hit, all_lines, count_newlines, matching_lines
from .multiline import Blocks, spans_in


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
        #: Lines of after-context that the last hit still asks for.
        self.remaining = 0
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

    def with_context(self, hits: Iterator[Hit], invert: bool) -> None:
        """Collect ``hits`` and their context lines.

        With ``invert`` context lines carry the spans of their matches. Hits that are blocks of lines (those
        of ``Blocks``) keep their own limit.
        """
        limit = None if isinstance(hits, Blocks) else self._limit
        for taken, (start, end, spans) in enumerate(hits, 1):
            self._context_after(start, invert)
            self._context_before(start, invert)
            self._hit(start, end, spans)
            self.remaining = self._after
            if taken == limit:
                self.stopped_at = end
                self._after_limit(hits, invert)
                return
        if isinstance(hits, Blocks) and hits.exceeded:
            self._after_limit(self._single_lines(invert), invert)
        self._context_after(len(self._data), invert)

    def _after_limit(self, hits: Iterator[Hit], invert: bool) -> None:
        """The after-context of the last hit allowed, in which further hits count but earn no context."""
        upcoming = next(hits, None) if self.remaining else None
        for start, end in all_lines(self._data, self.visited, len(self._data)):
            if not self.remaining:
                break
            self.remaining -= 1
            while upcoming is not None and upcoming[1] <= start:
                upcoming = next(hits, None)
            if upcoming is not None and upcoming[0] == start:
                self._hit(start, end, upcoming[2])
                self.stopped_at = end
            else:
                self._context(start, end, invert)
        self.limited = not self.remaining
        if not self.limited:
            self.stopped_at = len(self._data)

    def _single_lines(self, invert: bool) -> Iterator[Hit]:
        """The lines after the last one reported that match (or do not) each by itself."""
        for start, end in all_lines(self._data, self.visited, len(self._data)):
            if self._engine.is_match(self._data[start:end].rstrip(b"\n")) != invert:
                yield start, end, spans_in(self._engine, self._data, start, end)

    def _hit(self, start: int, end: int, spans: list[Span]) -> None:
        text = self._data[start:end]
        self.lines.append(Line(self._number_at(start), start, text, spans))
        self.count += max(text.count(b"\n") + (text[-1:] != b"\n"), 1)
        self.matches += len(spans)
        self.visited = end

    def _context(self, start: int, end: int, invert: bool) -> None:
        text = self._data[start:end]
        spans = self._spans_in(text) if invert else []
        self.lines.append(Line(self._number_at(start), start, text, spans, False))
        self.visited = end

    def _spans_in(self, text: bytes) -> list[Span]:
        return [span for hit in matching_lines(self._engine, text) for span in hit[2]]

    def _context_after(self, upto: int, invert: bool) -> None:
        if self.remaining:
            for start, end in all_lines(self._data, self.visited, upto):
                self._context(start, end, invert)
                self.remaining -= 1
                if not self.remaining:
                    break

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
