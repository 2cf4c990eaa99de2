"""Search with matches that may span lines (``-U``): blocks of lines instead of lines."""

from __future__ import annotations

from collections.abc import Iterator

from ..pattern import CompiledPattern
from ..pattern.ast import Class, Dot, Literal, Look, LookKind, postorder
from ..pattern.classes import rust_class
from .engine import Engine, RustEngine, Span
from .lines import Hit, complement

_LINE_FEED = ord("\n")

#: The assertions that ripgrep takes for a sign that a match may touch a line feed.
_ANCHORS = frozenset(
    (
        LookKind.TEXT_START,
        LookKind.TEXT_END,
        LookKind.LINE_START,
        LookKind.LINE_END,
        LookKind.LINE_START_CRLF,
        LookKind.LINE_END_CRLF,
    )
)

#: More copying than this, in bytes, to restart the engine after each match is not done; see ``_matches``.
_COPY_LIMIT = 4 << 30


def crosses_lines(pattern: CompiledPattern) -> bool:
    """Whether ripgrep searches for ``pattern`` over line ends under ``-U``, rather than line by line.

    It does when a match may hold a line feed, and when the pattern has an anchor.
    """
    for node in postorder(pattern.ast):
        if isinstance(node, Look):
            if node.kind in _ANCHORS:
                return True
        elif isinstance(node, Literal):
            if "\n" in node.text:
                return True
        elif isinstance(node, Dot):
            if node.newline:
                return True
        elif isinstance(node, Class) and RustEngine(rust_class(node)).is_match(b"\n"):
            return True
    return False


def needs_restart(pattern: CompiledPattern, engine: Engine) -> bool:
    """Whether ``pattern`` can tell that a search was started anew after a match; see ``_matches``."""
    return any(isinstance(node, Look) for node in postorder(pattern.ast)) or engine.is_match(b"")


class Blocks(Iterator[Hit]):
    """The blocks of lines of ``data`` that its matches touch (blocks that meet are one), or the other lines.

    No more than ``limit`` matches are looked at; after the last of them, ``exceeded`` tells that it was
    reached.
    """

    def __init__(
        self, engine: Engine, data: bytes, *, invert: bool, restart: bool, limit: int | None
    ) -> None:
        self.exceeded = False
        #: Whether an empty match at the very end, behind the last line, was met. It is no hit, but the lines
        #: before it are given as its context, as ripgrep does.
        self.at_end = False
        self._engine = engine
        self._data = data
        self._limit = limit
        if invert:
            self._hits = self._between()
        else:
            self._hits = self._touched(self._limited(_matches(engine, data, restart)))

    def __next__(self) -> Hit:
        return next(self._hits)

    def _limited(self, matches: Iterator[Span]) -> Iterator[Span]:
        for taken, match in enumerate(matches, 1):
            self.exceeded = taken == self._limit
            yield match
            if self.exceeded:
                return

    def _touched(self, matches: Iterator[Span]) -> Iterator[Hit]:
        data = self._data
        start = end = -1
        for first, last in matches:
            if first >= start and last < end:  # within the block that is open: it cannot grow
                continue
            line_start, line_end = _line_range(data, first, last)
            if end >= 0 and line_start <= end:
                end = max(end, line_end)
                continue
            if end > start:
                yield start, end, spans_in(self._engine, data, start, end)
            start, end = line_start, line_end
        self.at_end = 0 <= start == end
        if end > start:
            yield start, end, spans_in(self._engine, data, start, end)

    def _between(self) -> Iterator[Hit]:
        """The lines no match touches. ripgrep goes on behind the lines of a match, not behind the match."""
        data = self._data
        for first, last in complement(data, self._limited(_touched_lines(self._engine, data))):
            yield first, last, []


def _matches(engine: Engine, data: bytes, restart: bool) -> Iterator[Span]:
    """The matches in ``data`` as ripgrep's searcher steps through them.

    It starts each search in the text that is left, which then looks like a text of its own: an assertion
    that looks behind finds nothing there, and an empty match may follow another match at once. With
    ``restart`` (for patterns that can tell) that is done so; else the engine's own iteration is the same
    and faster.
    """
    size = len(data)
    position = 0
    copied = 0
    while restart and position < size and copied < _COPY_LIMIT:
        found = engine.find(data[position:] if position else data)
        copied += size - position
        if found is None:
            return
        first, last = found[0] + position, found[1] + position
        yield first, last
        position = last + (first == last)
    if position < size:
        for first, last in engine.spans(data[position:] if position else data):
            yield first + position, last + position


def _touched_lines(engine: Engine, data: bytes) -> Iterator[Span]:
    """The lines of each match, when every search starts behind the lines of the match before."""
    size = len(data)
    position = 0
    while position < size:
        found = engine.find(data[position:] if position else data)
        if found is None:
            return
        start, end = _line_range(data, found[0] + position, found[1] + position)
        yield start, end
        position = max(end, position + 1)


def _line_range(data: bytes, first: int, last: int) -> Span:
    """The lines that the match ``[first, last)`` touches; a line feed at its end is not the next line's."""
    start = data.rfind(b"\n", 0, first) + 1
    if last > start and data[last - 1] == _LINE_FEED:
        return start, last
    return start, data.find(b"\n", last) + 1 or len(data)


#: A match is looked for in a block and so many bytes after it, as ripgrep's printer does.
_LOOK_AHEAD = 128


def spans_in(engine: Engine, data: bytes, start: int, end: int) -> list[Span]:
    """The matches that start in the block ``data[start:end]``, relative to ``start``."""
    spans = []
    length = end - start
    for first, last in engine.spans(data[start : end + _LOOK_AHEAD]):
        if first >= length:
            break
        spans.append((first, last))
    return spans
