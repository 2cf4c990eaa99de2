"""Output with one record a file: its path, a count, or nothing; and the statistics of a search."""

from __future__ import annotations

from collections.abc import Callable

from ..request import FileResult, Summary
from .options import Settings

_PATH = b"\x1b[0m\x1b[35m"
_RESET = b"\x1b[0m"


class FileTotal:
    """The figures of one whole file, gathered over the parts it came in."""

    __slots__ = ("binary_offset", "bytes_searched", "count", "matched_lines", "matches")

    def __init__(self) -> None:
        self.count = 0
        self.matches = 0
        #: Lines that a match touches, where lines were asked for.
        self.matched_lines = 0
        self.bytes_searched = 0
        self.binary_offset: int | None = None

    def add(self, result: FileResult) -> None:
        """Takes in the next part of the file."""
        self.count += result.count
        self.matches += result.matches
        self.matched_lines += sum(_line_count(line.text) for line in result.lines if line.match)
        self.bytes_searched += result.bytes_searched
        if result.binary_offset is not None:
            self.binary_offset = result.binary_offset


class FigurePrinter:
    """Prints what the ``mode`` of ``Settings`` says of each file: its path, or a count after it."""

    def __init__(self, settings: Settings, write: Callable[[bytes], None]) -> None:
        self._settings = settings
        self._write = write
        self._path = b""
        self._binary = "none"

    def begin(self, path: bytes, binary: str, source: str = "disk") -> None:
        """Starts the file shown as ``path``; ``binary`` is how a NUL byte in it is taken (``Settings``)."""
        self._path = _PATH + path + _RESET if self._settings.color else path
        self._binary = binary

    def lines(self, result: FileResult) -> None:
        """Lines are not printed here."""

    def end(self, total: FileTotal) -> None:
        """Prints the record of the file."""
        settings = self._settings
        if settings.quiet or (total.binary_offset is not None and self._binary == "quit"):
            return  # the search of a binary file ended early: its count would mislead
        if settings.mode == "files" or settings.mode == "files_without_match":
            if (total.count > 0) == (settings.mode == "files"):
                self._write(self._path + (settings.path_terminator or settings.line_terminator))
            return
        count = total.count
        # With --stats the lines were asked for, and the matches stand beside their count.
        if settings.stats and (settings.mode == "count_matches" or settings.multiline):
            count = total.matches
        if count or settings.include_zero:
            path = self._path + (settings.path_terminator or b":") if settings.with_filename else b""
            self._write(path + b"%d" % count + settings.line_terminator)


class Stats:
    """The figures of ``--stats`` and of the messages of ``--json``. Times are in seconds."""

    def __init__(self) -> None:
        self.matches = 0
        self.matched_lines = 0
        self.searches_with_match = 0
        self.searches = 0
        self.bytes_printed = 0
        self.bytes_searched = 0
        self.elapsed = 0.0

    def add_file(self, total: FileTotal) -> None:
        """Counts one whole file that was searched and had something to report."""
        self.matches += total.matches
        self.matched_lines += total.matched_lines
        self.searches_with_match += 1 if total.count else 0

    def add_summary(self, summary: Summary) -> None:
        """Takes what only the engine knows. Files that the index ruled out count as searched: they were."""
        self.searches += summary.documents
        self.bytes_searched += summary.bytes_searched
        self.elapsed += summary.elapsed.get("match", 0.0) / 1000

    def text(self, total: float) -> bytes:
        """The block that ``--stats`` prints; ``total`` is the time since the start."""
        return (
            f"\n{self.matches} matches\n{self.matched_lines} matched lines\n"
            f"{self.searches_with_match} files contained matches\n{self.searches} files searched\n"
            f"{self.bytes_printed} bytes printed\n{self.bytes_searched} bytes searched\n"
            f"{self.elapsed:.6f} seconds spent searching\n{total:.6f} seconds total\n"
        ).encode()


def _line_count(text: bytes) -> int:
    return text.count(b"\n") + (1 if not text.endswith(b"\n") else 0)
