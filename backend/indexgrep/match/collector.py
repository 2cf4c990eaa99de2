"""From the lines that match to the records of them: line numbers, context, the limit a file has."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

from ..request import Line, SearchRequest
from .engine import Engine, Span
from .lines import Hit, all_lines, count_newlines, line_spans
from .multiline import Blocks, spans_in


@dataclass(frozen=True)
class Program:
    """A request made ready to run: the engine and what else decides how lines are found."""

    request: SearchRequest
    engine: Engine
    #: Matches may span lines: blocks of lines are reported. See ``multiline``.
    blocks: bool = False
    #: Restart the engine after each match; see ``multiline.Blocks``.
    restart: bool = False
    #: Look for the spans in each line by itself; see ``matcher.needs_lines_alone``.
    alone: bool = False
    #: Line by line only: the pattern with ``\\A`` and ``\\z`` as written; see ``lines.anchored_lines``.
    exact: Engine | None = None


def plain_lines(spans: list[Span], data: bytes) -> tuple[list[Line], int]:
    """The lines of a whole small text with all its matches, and how many matches they hold.

    The same as ``lines.matching_lines`` and ``Collector.plain``, in one loop: most files are answered here.
    """
    lines = []
    size = len(data)
    number = 1
    counted = end = start = 0
    inside: list[Span] = []
    matches = 0
    for first, last in spans:
        if first < end:
            inside.append((first - start, last - start))
            matches += 1
            continue
        begin = data.rfind(b"\n", end, first) + 1 or end
        if begin >= size:
            break
        start = begin
        number += count_newlines(data, counted, start)
        counted = start
        end = data.find(b"\n", last) + 1 or size
        inside = [(first - start, last - start)]
        matches += 1
        lines.append(Line(number, start, data[start:end], inside))
    if end == size and inside and inside[-1][0] == size - start and data[-1:] != b"\n":
        inside.pop()
        matches -= 1
    return lines, matches


class Hits:
    """The hits of one text, to be run through once."""

    def __init__(self, source: Iterator[Hit]) -> None:
        self.source = source
        #: The source itself, when its hits are blocks of lines.
        self.blocks = source if isinstance(source, Blocks) else None

    def any(self) -> bool:
        """Whether there is a hit (left). It stays there."""
        first = next(self.source, None)
        if first is None:
            return False
        self.source = itertools.chain((first,), self.source)
        return True


class Collector:
    """Turns hits into ``Line`` records with line numbers and context.

    Context lines are reported once, those after a hit before those before the next. After ``max_count`` hits
    only the last one's after-context follows; lines in it that would be hits are reported as such, and count.
    """

    def __init__(self, program: Program, data: bytes) -> None:
        self.lines: list[Line] = []
        #: Lines reported as matches (a block of lines counts all of its lines), and the matches in them.
        self.count = 0
        self.matches = 0
        #: End of the last line reported.
        self.visited = 0
        #: Lines of after-context that the last hit still asks for.
        self.remaining = 0
        #: Whether the limit stopped the search, its after-context being complete.
        self.limited = False
        #: How far the search got before the limit stopped it; the buffer's size when nothing did. (ripgrep
        #: gives up to a buffer more in an inverted search, which has then looked for the next match.)
        self.stopped_at = len(data)
        self._program = program
        self._request = program.request
        self._data = data
        self._number = 1
        self._counted = 0

    def plain(self, hits: Hits) -> None:
        """Collect ``hits``, one line each, without context: the hot path."""
        data = self._data
        lines = self.lines
        limit = self._request.max_count
        number, counted, matches = 1, 0, 0
        for start, end, spans in hits.source:
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

    def with_context(self, hits: Hits) -> None:
        """Collect ``hits`` and their context lines.

        In an inverted search context lines carry the spans of their matches.
        """
        blocks = hits.blocks  # keeps the limit by itself
        size = len(self._data)
        limit = None if blocks else self._request.max_count
        for taken, (start, end, spans) in enumerate(hits.source, 1):
            self._context_after(start)
            self._context_before(start)
            self._hit(start, end, spans)
            self.remaining = self._request.after
            if taken == limit:
                self.stopped_at = end
                self._after_limit(hits.source)
                return
        if blocks and blocks.exceeded and not blocks.at_end:
            self._after_limit(self._single_lines())
        self._context_after(size)
        if blocks and blocks.at_end:
            self._context_before(size)

    def _after_limit(self, hits: Iterator[Hit]) -> None:
        """The after-context of the last hit allowed, in which further hits count but earn no context."""
        data = self._data
        if self._program.exact is not None:
            # Where it goes line by line, ripgrep takes no line for a match any more once the limit is
            # reached.
            hits = iter(())
        upcoming = next(hits, None) if self.remaining else None
        for start, end in all_lines(data, self.visited, len(data)):
            if not self.remaining:
                break
            self.remaining -= 1
            while upcoming is not None and upcoming[1] <= start:
                upcoming = next(hits, None)
            if upcoming is not None and upcoming[0] == start:
                self._hit(start, end, upcoming[2])
                self.stopped_at = end
            else:
                self._context(start, end)
        self.limited = not self.remaining
        if self._program.exact is not None:
            self.stopped_at = self.visited
        elif not self.limited and not self._program.blocks:
            self.stopped_at = len(data)

    def _single_lines(self) -> Iterator[Hit]:
        """The lines after the last one reported that match (or do not) each by itself."""
        engine = self._program.engine
        terminator = b"\r\n" if self._request.crlf else b"\n"
        for start, end in all_lines(self._data, self.visited, len(self._data)):
            if engine.is_match(self._data[start:end].removesuffix(terminator)) != self._request.invert:
                yield start, end, spans_in(engine, self._data, start, end)

    def _hit(self, start: int, end: int, spans: list[Span]) -> None:
        text = self._data[start:end]
        self.lines.append(Line(self._number_at(start), start, text, spans))
        self.count += text.count(b"\n") + (text[-1:] != b"\n")
        self.matches += len(spans)
        self.visited = end

    def _context(self, start: int, end: int) -> None:
        text = self._data[start:end]
        spans: list[Span] = []
        if self._request.invert:
            program = self._program
            if program.blocks:
                spans = spans_in(program.engine, text, 0, len(text))
            else:
                spans = line_spans(program.exact or program.engine, text, self._request.crlf)
        self.lines.append(Line(self._number_at(start), start, text, spans, False))
        self.visited = end

    def _context_after(self, upto: int) -> None:
        if self.remaining:
            for start, end in all_lines(self._data, self.visited, upto):
                self._context(start, end)
                self.remaining -= 1
                if not self.remaining:
                    break

    def _context_before(self, upto: int) -> None:
        wanted = self._request.before
        start = upto
        while wanted and start > self.visited:
            start = max(self._data.rfind(b"\n", self.visited, start - 1) + 1, self.visited)
            wanted -= 1
        for first, last in all_lines(self._data, start, upto):
            self._context(first, last)

    def _number_at(self, offset: int) -> int:
        self._number += count_newlines(self._data, self._counted, offset)
        self._counted = offset
        return self._number
