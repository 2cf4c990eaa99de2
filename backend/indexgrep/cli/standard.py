"""Matching lines in the format of ``rg``: plain, in colour, with headings, columns, offsets and context.

The printer is fed file by file. Its output is ripgrep's to the byte, including where that is odd: with
``--crlf`` separators end in CRLF, a match that spans lines has one column for all of them, and a long line is
reported in different words depending on whether its matches were looked for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..request import FileResult, Line
from .figures import FileTotal
from .options import Settings

_RESET = b"\x1b[0m"
_PATH = b"\x1b[0m\x1b[35m"
_LINE = b"\x1b[0m\x1b[32m"
_MATCH = b"\x1b[0m\x1b[1m\x1b[31m"
#: Columns and offsets have no colour of their own, but ripgrep resets around them.
_PLAIN = b"\x1b[0m"

_SPACES = b"\t\n\x0b\x0c\r "

Span = tuple[int, int]


class StandardPrinter:
    """Prints the lines of files, in the order they are given."""

    def __init__(self, settings: Settings, write: Callable[[bytes], None]) -> None:
        self._settings = settings
        self._write_out = write
        self._granular = settings.granular
        self._path = b""
        self._shown_path = b""
        self._binary = "none"
        #: Number of the line that would follow the last one printed; 0 before the first.
        self._next_number = 0
        self._written_ever = False
        self._written_here = False
        self._simple = not (
            self._granular
            or settings.heading
            or settings.trim
            or settings.max_columns is not None
            or settings.multiline
            or settings.byte_offset
            or settings.before
            or settings.after
            or settings.file_separator is not None
        )

    def begin(self, path: bytes, binary: str, source: str = "disk") -> None:
        """Starts the file shown as ``path``; ``binary`` is how a NUL byte in it is taken (``Settings``)."""
        self._path = path
        self._shown_path = _PATH + path + _RESET if self._settings.color else path
        self._binary = binary
        self._next_number = 0
        self._written_here = False

    def lines(self, result: FileResult) -> None:
        """Prints the lines of one part of the file."""
        if not result.lines:
            return
        if self._simple:
            self._print_simple(result.lines)
        else:
            for line in result.lines:
                self._print_line(line)

    def end(self, total: FileTotal) -> None:
        """Finishes the file."""
        if total.binary_offset is None or not total.count:
            return
        path = self._shown_path + b": " if self._settings.with_filename else b""
        words = b"binary file matches"
        if self._binary == "quit":
            words = b"WARNING: stopped searching binary file after match"
        self._write(path + words + b' (found "\\0" byte around offset %d)\n' % total.binary_offset)

    def _print_simple(self, lines: Sequence[Line]) -> None:
        """Nothing but path, number and text: the way of most searches in a pipe."""
        settings = self._settings
        path = b""
        if settings.with_filename:
            path = self._path + (settings.path_terminator or settings.field_match_separator)
        after_number = settings.field_match_separator
        end = settings.line_terminator
        parts = []
        for line in lines:
            text = line.text if line.text.endswith(b"\n") else line.text + end
            if settings.line_number:
                parts.append(b"%s%d%s%s" % (path, line.number, after_number, text))
            else:
                parts.append(path + text)
        self._write(b"".join(parts))

    def _print_line(self, line: Line) -> None:
        settings = self._settings
        gap = 0 < self._next_number < line.number
        if gap and (settings.before or settings.after) and settings.context_separator is not None:
            self._write(settings.context_separator + settings.line_terminator)
        self._next_number = line.number + max(1, _line_count(line.text))
        self._prelude()
        spans = line.spans if self._granular else []
        if settings.multiline and line.match:
            if spans:
                self._multi_line(line, spans)
            else:
                self._multi_line_fast(line)
        elif not spans:
            self._fields(line, line.offset, line.number, None)
            self._text(line, line.text)
        elif settings.only_matching:
            for start, end in spans:
                self._fields(line, line.offset + start, line.number, start + 1)
                self._colored(line, line.text[start:end], [(0, end - start)])
        elif settings.per_match:
            for start, end in spans:
                self._fields(line, line.offset + start, line.number, start + 1)
                self._colored(line, line.text, [(start, end)])
        else:
            self._fields(line, line.offset, line.number, spans[0][0] + 1)
            self._colored(line, line.text, spans)

    def _multi_line_fast(self, line: Line) -> None:
        offset = line.offset
        for index, text in enumerate(_split(line.text)):
            self._fields(line, offset, line.number + index, None)
            offset += len(text)
            self._text(line, text)

    def _multi_line(self, line: Line, spans: Sequence[Span]) -> None:
        settings = self._settings
        if settings.only_matching:
            self._multi_line_only_matching(line, spans)
            return
        if settings.per_match:
            self._multi_line_per_match(line, spans)
            return
        at = 0
        cursor = 0
        for index, text in enumerate(_split(line.text)):
            self._fields(line, line.offset + at, line.number + index, spans[0][0] + 1)
            start, end = self._trimmed(line.text, at, at + len(text))
            if self._too_long(end - start):
                cursor = self._long_line(line, line.text, start, end, spans, cursor)
            else:
                cursor = self._colored_range(line, line.text, start, end, spans, cursor)
                self._end_line()
            at += len(text)

    def _multi_line_only_matching(self, line: Line, spans: Sequence[Span]) -> None:
        at = 0
        cursor = 0
        for index, text in enumerate(_split(line.text)):
            start, end = at, self._without_terminator(line.text, at, at + len(text))
            start, end = self._trimmed(line.text, start, end)
            at += len(text)
            while start < end:
                if spans[cursor][1] <= start:
                    if cursor + 1 == len(spans):
                        break
                    cursor += 1
                    continue
                first, last = spans[cursor]
                if start < first:
                    start = min(end, first)
                    continue
                upto = min(end, last)
                self._fields(line, line.offset + first, line.number + index, first + 1)
                if self._too_long(upto - start):
                    cursor = self._long_line(line, line.text, start, upto, spans, cursor)
                else:
                    self._write(self._painted(line.text[start:upto]))
                    self._end_line()
                start = upto

    def _multi_line_per_match(self, line: Line, spans: Sequence[Span]) -> None:
        """One line for each match: its first, as Vim wants it."""
        for first, last in spans:
            at = 0
            for index, text in enumerate(_split(line.text)):
                start, end = at, at + len(text)
                at = end
                if start >= last:
                    break
                if end <= first:
                    continue
                self._fields(line, line.offset + start, line.number + index, max(0, first - start) + 1)
                end = self._without_terminator(line.text, start, end)
                start, end = self._trimmed(line.text, start, end)
                if self._too_long(end - start):
                    self._long_line(line, line.text, start, end, [(first, last)], 0)
                    continue
                before, after = max(start, min(first, end)), max(start, min(last, end))
                self._write(line.text[start:before])
                if after > before:
                    self._write(self._painted(line.text[before:after]))
                self._write(line.text[after:end])
                self._end_line()
                break

    def _prelude(self) -> None:
        """Before the first line of a file: what separates it from the last file, and its heading."""
        if self._written_here:
            return
        settings = self._settings
        if settings.file_separator is not None and self._written_ever:
            self._write(settings.file_separator + settings.line_terminator)
        if settings.heading and settings.with_filename:
            self._write(self._shown_path + (settings.path_terminator or settings.line_terminator))

    def _fields(self, line: Line, offset: int, number: int, column: int | None) -> None:
        """Path, line number, column and offset, as far as they are wanted, each with its separator."""
        settings = self._settings
        separator = settings.field_match_separator if line.match else settings.field_context_separator
        parts = []
        if settings.with_filename and not settings.heading:
            parts.append(self._shown_path + (settings.path_terminator or separator))
        if settings.line_number:
            parts.append(self._field(_LINE, number) + separator)
        if settings.column and column is not None:
            parts.append(self._field(_PLAIN, column) + separator)
        if settings.byte_offset:
            parts.append(self._field(_PLAIN, offset) + separator)
        if parts:
            self._write(b"".join(parts))

    def _field(self, color: bytes, value: int) -> bytes:
        return b"%s%d%s" % (color, value, _RESET) if self._settings.color else b"%d" % value

    def _text(self, line: Line, text: bytes) -> None:
        """A line without colours in it."""
        settings = self._settings
        start, end = self._trimmed(text, 0, len(text))
        if self._too_long(end - start):
            spans = line.spans if self._granular else []
            self._long_line(line, text[start:], 0, end - start, spans, 0)
            return
        self._write(text[start:])
        if not text.endswith(b"\n"):
            self._write(settings.line_terminator)

    def _colored(self, line: Line, text: bytes, spans: Sequence[Span]) -> None:
        """A line, or a piece of one, with its matches in colour when there is any."""
        if not self._settings.color:
            self._text(line, text)
            return
        start, end = self._trimmed(text, 0, len(text))
        if self._too_long(len(text)):
            self._long_line(line, text, start, end, spans, 0)
        else:
            self._colored_range(line, text, start, end, spans, 0)
            self._end_line()

    def _colored_range(
        self, line: Line, text: bytes, start: int, end: int, spans: Sequence[Span], cursor: int
    ) -> int:
        """``text[start:end]`` without its terminator; the index in ``spans`` of the last match touched."""
        end = self._without_terminator(text, start, end)
        if not self._settings.color or not spans:
            self._write(text[start:end])
            return cursor
        parts = []
        painting = False  # matches that touch are one stretch of colour
        while start < end:
            first, last = spans[cursor]
            if last <= start:
                if cursor + 1 < len(spans):
                    cursor += 1
                    continue
                first = last = end
            inside = start >= first
            upto = min(end, last if inside else first)
            if inside != painting:
                parts.append(_MATCH if inside else _RESET)
                painting = inside
            parts.append(text[start:upto])
            start = upto
        if painting:
            parts.append(_RESET)
        self._write(b"".join(parts))
        return cursor

    def _painted(self, text: bytes) -> bytes:
        return _MATCH + text + _RESET if self._settings.color else text

    def _too_long(self, length: int) -> bool:
        return self._settings.max_columns is not None and length > self._settings.max_columns

    def _long_line(
        self, line: Line, text: bytes, start: int, end: int, spans: Sequence[Span], cursor: int
    ) -> int:
        """What stands for ``text[start:end]``, which is longer than ``--max-columns``."""
        settings = self._settings
        if settings.max_columns_preview:
            shown = start + _graphemes_end(text[start:end], settings.max_columns or 0)
            cursor = self._colored_range(line, text, start, shown, spans, cursor)
            if not spans:
                self._write(b" [... omitted end of long line]")
            else:
                more = sum(1 for first, _ in spans if shown <= first < end)
                self._write(b" [... %d more %s]" % (more, b"match" if more == 1 else b"matches"))
        elif (line.spans and self._granular) and not settings.only_matching:
            self._write(b"[Omitted long line with %d matches]" % len(line.spans))
        elif line.match:
            self._write(b"[Omitted long matching line]")
        else:
            self._write(b"[Omitted long context line]")
        self._end_line()
        return cursor

    def _trimmed(self, text: bytes, start: int, end: int) -> Span:
        """The range without leading white space (but with its terminator) where ``--trim`` says so."""
        if self._settings.trim:
            while start < end and text[start] in _SPACES:
                if text[start] in self._settings.line_terminator:
                    break
                start += 1
        return start, end

    def _without_terminator(self, text: bytes, start: int, end: int) -> int:
        """Where the line ``text[start:end]`` ends without its terminator."""
        if end > start and text[end - 1] == 10:
            end -= 1
            if self._settings.line_terminator == b"\r\n" and end > start and text[end - 1] == 13:
                end -= 1
        return end

    def _end_line(self) -> None:
        self._write(self._settings.line_terminator)

    def _write(self, data: bytes) -> None:
        if data:
            self._written_here = self._written_ever = True
            self._write_out(data)


def _split(text: bytes) -> list[bytes]:
    r"""The lines of a block, each with its terminator; only ``\n`` ends one."""
    lines = text.split(b"\n")
    last = lines.pop()
    out = [line + b"\n" for line in lines]
    return [*out, last] if last else out


def _line_count(text: bytes) -> int:
    return text.count(b"\n") + (1 if text and not text.endswith(b"\n") else 0)


def _graphemes_end(text: bytes, count: int) -> int:
    """The byte offset after the first ``count`` grapheme clusters (bytes that are not UTF-8 stand alone)."""
    import regex

    shown = text.decode("utf-8", "surrogateescape")
    end = 0
    for index, cluster in enumerate(regex.finditer(r"\X", shown)):
        if index == count:
            break
        end = cluster.end()
    return len(shown[:end].encode("utf-8", "surrogateescape"))
