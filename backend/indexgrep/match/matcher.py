"""One pattern, one request: what each file answers."""

from __future__ import annotations

import os
from collections.abc import Container
from dataclasses import replace

from ..errors import os_error
from ..pattern import CompiledPattern, PatternOptions, compile_patterns
from ..pattern.ast import Concat, Group, Literal, Look, Repeat, postorder
from ..pattern.printer import Lines, print_rust
from ..request import FileResult, SearchRequest
from .binary import Mode, Rolling, binary_mode, found_at_once
from .collector import Collector, Hits, Program, plain_lines
from .encoding import decode
from .engine import Timeout, compile_engine
from .lines import CHUNK, all_lines, anchored_lines, anchored_spans, complement, matching_lines
from .multiline import Blocks, crosses_lines, needs_restart
from .reading import ReadFailure, read_file

#: Where buffers start when the whole text is one.
_ONE_BUFFER = frozenset((0,))


class Matcher:
    """Matches files against one compiled pattern, as ripgrep 15 does with the request's options.

    Thread-safe: it holds nothing that a search changes.
    """

    def __init__(self, pattern: CompiledPattern, request: SearchRequest) -> None:
        """Raises ``PatternError`` when no engine can run the pattern."""
        self.request = request
        self.program = compile_program(pattern, request)
        self._plain = not (request.before or request.after or self.program.blocks)
        self._simple = (
            self._plain
            and self.program.exact is None
            and not self.program.alone
            and request.output == "lines"
            and request.max_count is None
            and not (request.invert or request.crlf or request.binary)
        )

    def search_file(
        self,
        path: bytes,
        relative: str,
        *,
        dir_fd: int | None = None,
        explicit: bool = False,
        mapped: bool = False,
    ) -> FileResult | None:
        """The answer of the file ``path`` (relative to ``dir_fd``, when given), reported as ``relative``.

        ``None`` when it has nothing to report, or is no regular file. ``explicit`` says that the user named
        the file, which is then searched to its end although it is binary; ``mapped`` that ripgrep would map
        it into memory (only files are named, ten at most), where it meets NUL bytes at other times.
        """
        limit = self.request.max_filesize
        try:
            # Like every filter, the limit is not for files that are named.
            if limit is not None and not explicit and os.stat(path, dir_fd=dir_fd).st_size > limit:
                return None
            data = read_file(path, dir_fd)
        except ReadFailure as failure:
            return FileResult(relative, error=str(failure))
        except OSError as error:
            return FileResult(relative, error=os_error(error))
        if data is None:
            return None
        return self.search_bytes(data, relative, explicit=explicit, mapped=mapped)

    def search_bytes(
        self, data: bytes, relative: str, *, explicit: bool = False, mapped: bool = False
    ) -> FileResult | None:
        """The answer of a file whose raw content is ``data``; see ``search_file``."""
        if self.request.max_count == 0:
            return None
        try:
            return self._search(data, relative, explicit, mapped)
        except Timeout:
            return FileResult(relative, error="the pattern took too long on this file")

    def _search(self, raw: bytes, relative: str, explicit: bool, mapped: bool) -> FileResult | None:
        text = decode(raw)
        if self._simple and not explicit and len(text) <= CHUNK:
            spans = self.program.engine.spans(text)
            if not spans:
                return None
            if self.request.text or b"\0" not in text:
                lines, matches = plain_lines(spans, text)
                return FileResult(relative, lines, len(lines), matches, None, len(text)) if lines else None
        request = self.request
        starts: Container[int] = _ONE_BUFFER
        if self.program.exact is not None and not (mapped and text is raw):
            ends = self._hit_ends(text)
            starts = Rolling(raw, text, None, request.before, request.after, ends).starts
        mode = binary_mode(text=request.text, binary=request.binary, explicit=explicit)
        if mode is Mode.CONVERT:
            nul = text.find(b"\0")
            if nul < 0:
                return self._answer(text, relative, self._hits(text, starts=starts))
        else:
            hits = self._hits(text, starts=starts)
            if not hits.any() and request.output != "files_without_match":
                return None
            nul = -1 if mode is Mode.TEXT else text.find(b"\0")
            if nul < 0:
                return self._answer(text, relative, hits)
        if self.program.blocks or (mapped and text is raw):
            return self._whole_file(text, relative, nul, mode)
        return self._rolling(raw, text, relative, nul, mode)

    # Without binary data

    def _hits(self, text: bytes, limit: int | None = None, starts: Container[int] = _ONE_BUFFER) -> Hits:
        request, program = self.request, self.program
        engine = program.engine
        if program.blocks:
            limit = request.max_count if limit is None else limit
            return Hits(Blocks(engine, text, invert=request.invert, restart=program.restart, limit=limit))
        exact = program.exact
        if exact is None:
            lines = matching_lines(engine, text, request.crlf, program.alone)
        else:
            lines = anchored_lines(engine, exact, text, request.crlf, starts)
        if not request.invert:
            return Hits(lines)
        rest = complement(text, ((start, end) for start, end, _ in lines))
        if exact is None:
            return Hits((start, end, []) for start, end in rest)
        return Hits(
            (start, end, anchored_spans(exact, text, start, end, request.crlf, starts)) for start, end in rest
        )

    def _collect(self, text: bytes, hits: Hits) -> Collector:
        collector = Collector(self.program, text)
        if self._plain:
            collector.plain(hits)
        else:
            collector.with_context(hits)
        return collector

    def _answer(self, text: bytes, relative: str, hits: Hits) -> FileResult | None:
        """The answer of a text in which nothing binary is met."""
        request = self.request
        if request.output == "files":
            if not hits.any():
                return None
            return FileResult(relative, count=1, matches=1, bytes_searched=len(text))
        if request.output == "files_without_match":
            if hits.any():
                return None
            return FileResult(relative, bytes_searched=len(text))
        return self._result(relative, self._collect(text, hits))

    def _result(self, relative: str, collector: Collector) -> FileResult | None:
        if not collector.count:
            return None
        result = FileResult(relative, collector.lines, collector.count, collector.matches)
        result.bytes_searched = collector.stopped_at
        output = self.request.output
        if output != "lines":
            lines = [line for line in result.lines if line.match]
            result.lines = []
            # Where blocks are reported, ripgrep counts matches for lines. It finds at least one in each.
            matches = sum(max(len(line.spans), 1) for line in lines)
            if output == "count_matches" or self.program.blocks:
                result.count = matches
            result.matches = matches
        return result

    # With binary data

    def _whole_file(self, text: bytes, relative: str, nul: int, mode: Mode) -> FileResult | None:
        """A text with a NUL byte that is searched as one piece."""
        output = self.request.output
        if output == "lines":
            if mode is Mode.QUIT and found_at_once(text):
                return None
            collector = self._collect(text, self._hits(text))
            result = self._result(relative, collector)
            return (
                result
                if result is None
                else _cut(result, self.program.blocks, mode, nul if found_at_once(text) else None)
            )
        if mode is Mode.CONVERT:
            return self._answer(text, relative, self._hits(text))
        # Mode.QUIT over blocks: a NUL byte that is met hides the file, unless the search ends before it.
        if found_at_once(text) or output == "files_without_match":
            return None
        collector = Collector(self.program, text)
        collector.with_context(self._hits(text, 1 if output == "files" else None))
        if any(b"\0" in line.text for line in collector.lines):
            return None
        return self._result(relative, collector)

    def _rolling(self, raw: bytes, text: bytes, relative: str, nul: int, mode: Mode) -> FileResult | None:
        """A text with a NUL byte that is searched through the rolling buffer."""
        request = self.request
        if mode is Mode.CONVERT:
            text = text.replace(b"\0", b"\n")
            if request.output != "lines":
                return self._answer(text, relative, self._hits(text))
        elif request.output == "files_without_match":
            return None
        elif (
            request.output == "files"
            and request.invert
            and request.max_count != 1
            and self.program.exact is None
        ):
            return None  # ripgrep's inverted search goes on after the first line, and meets the NUL byte
        ends = self._hit_ends(text[: text.rfind(b"\n", 0, nul) + 1])
        rolling = Rolling(raw, text, nul, request.before, request.after, ends)
        done = text[: rolling.searched]
        if request.output == "files":
            return self._answer(done, relative, self._hits(done))
        collector = self._collect(done, self._hits(done))
        if collector.limited:
            return self._result(relative, collector)
        if mode is Mode.QUIT:
            collector.stopped_at = rolling.start
            if request.output != "lines":
                return None
        else:
            collector.stopped_at = nul
            collector.count += self._notice(text, collector, rolling.searched)
        result = self._result(relative, collector)
        if result is not None:
            result.binary_offset = nul
        return result

    def _hit_ends(self, text: bytes) -> list[int]:
        """The ends of all hits, which only matter where there is context."""
        if not (self.request.before or self.request.after):
            return []
        return [end for _, end, _ in self._hits(text).source]

    def _notice(self, text: bytes, collector: Collector, searched: int) -> int:
        """1 when the search of the converted text first meets a hit after ``searched``, not context."""
        if searched < len(text) and collector.remaining:
            # The next line would be printed as context, unless it is a hit itself.
            end = text.find(b"\n", searched) + 1 or len(text)
            return int(self._hits(text[searched:end]).any())
        hit = next(self._hits(text[searched:]).source, None)
        if hit is None:
            return 0
        return int(not (self.request.before and collector.visited < searched + hit[0]))


def _cut(result: FileResult, blocks: bool, mode: Mode, found: int | None) -> FileResult | None:
    """``result`` up to the first line that is not printed because a NUL byte was met by then.

    That is the first line of all when a NUL byte was ``found`` at the start. The match that would come
    there is counted and not shown where NUL bytes are converted.
    """
    for index, line in enumerate(result.lines):
        nul = line.text.find(b"\0")
        if found is None and nul < 0:
            continue
        kept = result.lines[:index]
        hits = [other for other in kept if other.match]
        if line.match and mode is Mode.CONVERT:
            hits.append(line)
        if not hits:
            return None
        count = len(hits)
        if blocks:
            count = sum(len(list(all_lines(hit.text, 0, len(hit.text)))) for hit in hits)
        return replace(
            result,
            lines=kept,
            count=count,
            matches=sum(len(hit.spans) for hit in hits),
            binary_offset=line.offset + nul if found is None else found,
        )
    return result


def compile_request(request: SearchRequest) -> CompiledPattern:
    """The request's pattern. Raises ``PatternError``."""
    options = PatternOptions(
        fixed_strings=request.fixed_strings,
        case=request.case,
        word=request.word,
        line=request.line,
        multiline=request.multiline,
        multiline_dotall=request.multiline_dotall,
        crlf=request.crlf,
        unicode=request.unicode,
        ban_nul=not request.text,
    )
    return compile_patterns(request.patterns, options)


def compile_program(pattern: CompiledPattern, request: SearchRequest) -> Program:
    """``pattern`` made ready for the engines. Raises ``PatternError`` when no engine can run it."""
    engine = compile_engine(pattern.rust, lambda: pattern.python)
    blocks = request.multiline and crosses_lines(pattern)
    exact = None
    if pattern.text_anchors and not blocks:
        # Compiled for many lines, the tree keeps the anchors of the text; printed for one line, it still
        # does.
        written = compile_patterns(pattern.patterns, replace(pattern.options, multiline=True))
        exact = compile_engine(print_rust(written.ast, Lines(False, request.crlf)), lambda: written.python)
    restart = blocks and needs_restart(pattern, engine)
    return Program(request, engine, blocks, restart, needs_lines_alone(pattern), exact)


def needs_lines_alone(pattern: CompiledPattern) -> bool:
    """Whether the Rust engine might give other matches for a line by itself than within its text.

    Where a pattern starts with no literal but has one further on, the engine may look for that first and then
    backwards for the start, and it has a fault there: ``o+?|foo`` finds ``foo`` in ``foo``, but ``o`` in
    ``xfoo``. ripgrep marks what it finds from the start of each line. Such a pattern repeats something.
    """
    first = pattern.ast
    while isinstance(first, Concat | Group):
        if isinstance(first, Group):
            first = first.child
            continue
        first = next((item for item in first.items if not isinstance(item, Look)), first.items[0])
    if isinstance(first, Literal) and not first.fold:
        return False
    nodes = list(postorder(pattern.ast))
    return any(isinstance(node, Repeat) for node in nodes) and any(
        isinstance(node, Literal) for node in nodes
    )
