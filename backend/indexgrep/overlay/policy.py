"""When what lies beside the indexes is worth indexing, and when indexes are worth joining."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Policy:
    """The thresholds of ``maintenance``; the defaults are for a tree of any size.

    A hot file costs every query some 25 µs, a segment about 0.1 ms and the memory of its tables; making a
    segment costs about a second of one core, most of it for starting a process.
    """

    #: More hot files than this, or more bytes in them, are adopted or become a segment.
    hot_files: int = 64
    hot_bytes: int = 4 << 20
    #: More segments than this are thinned out: those that serve nothing go, then the rest are joined.
    segments: int = 6
    #: Segments that serve more than this share of the universe (and so many files) are joined with the bases.
    segment_share: float = 0.25
    segment_files: int = 1000
    #: With more than this share hot, after adoption, and so many files, a full build is the better way.
    rebuild_share: float = 0.5
    rebuild_files: int = 1000
    #: The tree has rested when no file event came for so many seconds; it is not waited for longer than
    #: the second.
    quiet_s: float = 0.2
    unrest_s: float = 5.0
    #: Files that the last segment had already wait so many times as long as it took to make: those that are
    #: always being written must not keep a core busy.
    rest: float = 3.0
