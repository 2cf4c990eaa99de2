"""Line-oriented search of a whole buffer: which lines match.

The pattern runs over the whole buffer; work for single lines is done only around its matches. A *hit* is a
line that is to be reported: ``(start, end, spans)``, offsets in the buffer with the terminator included, and
the matches' spans relative to ``start``.
"""

from __future__ import annotations

from collections.abc import Container, Iterator

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


def matching_lines(engine: Engine, data: bytes, crlf: bool = False, alone: bool = False) -> Iterator[Hit]:
    """The lines of ``data`` that match, with all matches in each; matches must not cross line feeds.

    With ``crlf`` no span lies between the two characters of a terminator. With ``alone`` the spans are those
    that a search of each line by itself gives: the Rust engine has a fault by which what stands before a line
    can change them (see ``matcher.needs_lines_alone``).

    An empty match behind the last line's terminator is no line, and one at the end of a last line without
    terminator marks the line but is no span: both as ripgrep does.
    """
    if crlf or alone:
        for start, end, spans in matching_lines(engine, data):
            stop = end - start - (2 if crlf and data[end - 2 : end] == b"\r\n" else 0)
            if alone or (spans and spans[-1][1] > stop):
                spans = line_spans(engine, data[start:end], crlf)
            yield start, end, spans
        return
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
        spans = []
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


def anchored_lines(
    engine: Engine, exact: Engine, data: bytes, crlf: bool, starts: Container[int]
) -> Iterator[Hit]:
    r"""The lines that match a pattern with ``\A`` or ``\z``, which ripgrep tries on each line by itself.

    ``engine`` runs the pattern with those read as the line's start and end, ``exact`` as they are written.
    Two oddities of ripgrep's are kept. With ``crlf``, a line that ends in a bare line feed is tried with
    it, so that ``\z`` does not match before it. And the spans are looked for in the buffer up to the line's
    end, so that a match at ``\A`` has one only on a line that starts a buffer: those at ``starts``.
    """
    terminator = b"\r\n" if crlf else b"\n"
    lines: Iterator[Span]
    if crlf:  # what a bare line feed makes match, ``engine`` does not find
        lines = all_lines(data, 0, len(data))
    else:
        lines = ((start, end) for start, end, _ in matching_lines(engine, data))
    for start, end in lines:
        line = data[start:end]
        if not exact.is_match(line.removesuffix(terminator)):
            continue
        yield start, end, anchored_spans(exact, data, start, end, crlf, starts)


def anchored_spans(
    exact: Engine, data: bytes, start: int, end: int, crlf: bool, starts: Container[int]
) -> list[Span]:
    """The spans of ``anchored_lines`` in the line ``data[start:end]``."""
    if start in starts:
        return line_spans(exact, data[start:end], crlf)
    # The line feed before the line keeps \A from matching.
    spans = line_spans(exact, data[start - 1 : end], crlf)
    return [(first - 1, last - 1) for first, last in spans if first]


def line_spans(engine: Engine, text: bytes, crlf: bool) -> list[Span]:
    """The matches in a line, as ripgrep marks them: in the text without its terminator."""
    size = len(text)
    if text[-1:] == b"\n":
        text = text[: -2 if crlf and text[-2:-1] == b"\r" else -1]
    return [span for span in engine.spans(text) if span[0] < size]


def all_lines(data: bytes, start: int, end: int) -> Iterator[Span]:
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


def complement(data: bytes, taken: Iterator[Span]) -> Iterator[Span]:
    """The lines of ``data`` between the ordered ranges ``taken``."""
    position = 0
    for start, end in taken:
        yield from all_lines(data, position, start)
        position = end
    yield from all_lines(data, position, len(data))
