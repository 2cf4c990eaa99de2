"""Where ripgrep stops in a file that has NUL bytes.

ripgrep calls a file binary when it meets a NUL byte, and it meets one when the buffer that holds it is
filled, not when a line with it matches. Which matches before the NUL byte it still reports therefore
depends on its reads, which this module replays. There are three ways to treat a binary file (``Mode``) and
two ways to meet the NUL byte:

*Rolling buffer* (files found by a walk, and many named files). The buffer holds 64 KiB, more for a longer
line. Each filling keeps the unfinished line (and lines that may be wanted as context), reads until it has a
line end, and is then searched up to its last line end. A NUL byte is met by the filling that reads it: what
was searched before stands, nothing of that buffer is searched any more (``QUIT``), or NUL bytes become line
feeds and the search goes on, but the first line it would print is replaced by one notice (``CONVERT``).

*Whole file* (ten named files at most, which ripgrep maps into memory, and any search over line ends). The
first 64 KiB are looked through at the start, and then each line that is about to be printed.
"""

from __future__ import annotations

import codecs
import enum
from bisect import bisect_right
from collections.abc import Iterator

from .encoding import decode_utf16
from .lines import preceding

BUFFER = 64 << 10

#: ripgrep's decoder reads its input in pieces of this size.
_DECODER_BUFFER = 8 << 10


class Mode(enum.Enum):
    """What a NUL byte does: nothing (``-a``), ends the search, or ends the printing of lines."""

    TEXT = 0
    QUIT = 1
    CONVERT = 2


def binary_mode(*, text: bool, binary: bool, explicit: bool) -> Mode:
    """How to treat binary data under ``-a``, ``--binary``, and in a file that was named by the user."""
    if text:
        return Mode.TEXT
    return Mode.CONVERT if binary or explicit else Mode.QUIT


class Rolling:
    """The fillings of ripgrep's rolling buffer over one file, up to the one that meets the NUL byte, if any.

    Offsets are in ``text``, the decoded form of the file ``raw``. ``before`` and ``after`` are the lines of
    context, ``hit_ends`` the ends of the matching lines, in order; both only matter for what a filling keeps.
    """

    def __init__(
        self, raw: bytes, text: bytes, nul: int | None, before: int, after: int, hit_ends: list[int]
    ) -> None:
        #: End of what had been searched when the NUL byte was met.
        self.searched = 0
        #: Offset of the buffer's first byte at that time: what ripgrep then gives as bytes searched.
        self.start = 0
        #: Where the buffer started in each filling that was searched.
        self.starts = {0}
        self._text = text
        self._before = before
        self._after = after
        self._hit_ends = hit_ends
        self._replay(_reads(raw, text), nul)

    def _replay(self, reads: Iterator[int], nul: int | None) -> None:
        text = self._text
        capacity = BUFFER
        end = 0  # of what has been read
        available = 0  # of the read that is under way
        while True:
            if end - self.start >= capacity:
                capacity *= 3
            if not available:
                available = next(reads)
            count = min(available, capacity - (end - self.start), len(text) - end)
            available -= count
            if not count or (nul is not None and nul < end + count):
                return
            terminator = text.rfind(b"\n", end, end + count)
            end += count
            if terminator >= 0:
                self.start = self._kept_from(terminator + 1)
                self.searched = terminator + 1
                self.starts.add(self.start)

    def _kept_from(self, searched: int) -> int:
        """Start of what the buffer keeps after the search up to ``searched``."""
        if not (self._before or self._after):
            return searched
        context = preceding(self._text, self.start, searched, self._before)
        return max(context, self._visited(searched))

    def _visited(self, searched: int) -> int:
        """End of the last line printed after the search up to ``searched``, after-context included."""
        index = bisect_right(self._hit_ends, searched)
        if not index:
            return 0
        end = self._hit_ends[index - 1]
        for _ in range(self._after):
            if end >= searched:
                break
            end = self._text.find(b"\n", end, searched) + 1 or searched
        return end


def _reads(raw: bytes, text: bytes) -> Iterator[int]:
    """The most bytes that each successive read gives; endless."""
    head = raw[:2]
    if head in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        # The mark is looked for in three bytes, so the pieces that follow begin within a code unit.
        name = "utf-16-le" if head == codecs.BOM_UTF16_LE else "utf-16-be"
        done = 0
        for end in range(3 + _DECODER_BUFFER, len(raw), _DECODER_BUFFER):
            piece = raw[2 : end - (end & 1)]
            if (piece[-1] if name == "utf-16-le" else piece[-2]) & 0xFC == 0xD8:
                piece = piece[:-2]  # half a surrogate pair waits for the rest
            total = len(decode_utf16(piece, name))
            yield total - done
            done = total
    elif not raw.startswith(codecs.BOM_UTF8):
        yield 3  # the bytes in which a byte-order mark was looked for come first, alone
    while True:
        yield max(len(text), 1)


def found_at_once(text: bytes) -> bool:
    """Whether a search of the whole file meets a NUL byte before it looks at any line."""
    return text.find(b"\0", 0, BUFFER) >= 0
