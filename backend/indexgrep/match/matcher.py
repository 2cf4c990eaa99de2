"""One pattern, one request: what each file answers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..request import FileResult, SearchRequest
from . import multiline
from .encoding import decode
from .engine import Engine, Timeout, compile_engine
from .lines import Collector, Hit, inverted_lines, matching_lines
from .reading import ReadFailure, read_file

if TYPE_CHECKING:
    from ..pattern import CompiledPattern


class Matcher:
    """Matches files against one compiled pattern, as ripgrep 15 does with the request's options.

    Thread-safe: it holds nothing that a search changes.
    """

    def __init__(self, pattern: CompiledPattern, request: SearchRequest) -> None:
        """Raises ``PatternError`` when no engine can run the pattern."""
        self.request = request
        self.engine: Engine = compile_engine(pattern.rust, lambda: pattern.python)
        self.blocks = request.multiline and multiline.crosses_lines(pattern)

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
        the file, which is then searched although it is binary; ``mapped`` that ripgrep would map it into
        memory (only files are named, at most ten), where it looks for NUL bytes at other places.
        """
        limit = self.request.max_filesize
        try:
            if limit is not None and os.stat(path, dir_fd=dir_fd).st_size > limit:
                return None
            data = read_file(path, dir_fd)
        except ReadFailure as failure:
            return FileResult(relative, error=str(failure))
        except OSError as error:
            return FileResult(relative, error=f"{error.strerror} (os error {error.errno})")
        if data is None:
            return None
        return self.search_bytes(data, relative, explicit=explicit, mapped=mapped)

    def search_bytes(
        self, data: bytes, relative: str, *, explicit: bool = False, mapped: bool = False
    ) -> FileResult | None:
        """The answer of a file whose raw content is ``data``; see ``search_file``."""
        try:
            return self._search(decode(data), relative)
        except Timeout:
            return FileResult(relative, error="the pattern took too long on this file")

    def _search(self, data: bytes, relative: str) -> FileResult | None:
        request = self.request
        if request.max_count == 0:
            return None
        if request.output in ("files", "files_without_match"):
            matched = next(self._hits(data), None) is not None
            if matched != (request.output == "files"):
                return None
            return FileResult(relative, count=int(matched), matches=int(matched), bytes_searched=len(data))
        collector = Collector(self.engine, data, request.before, request.after, request.max_count)
        if request.before or request.after or self.blocks:
            collector.with_context(self._hits(data), request.invert, self.blocks)
        else:
            collector.plain(self._hits(data))
        if not collector.count:
            return None
        result = FileResult(relative, collector.lines, collector.count, collector.matches)
        result.bytes_searched = collector.stopped_at
        if request.output != "lines":
            if request.output == "count_matches":
                result.count = sum(max(len(line.spans), 1) for line in result.lines if line.match)
            result.lines = []
        return result

    def _hits(self, data: bytes) -> Iterator[Hit]:
        if self.blocks:
            return multiline.hits(self.engine, data, self.request.invert)
        if self.request.invert:
            return inverted_lines(self.engine, data)
        return matching_lines(self.engine, data)
