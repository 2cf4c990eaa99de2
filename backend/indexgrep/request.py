"""One search, as every surface asks it: the request, and the records that answer it.

These are the plain values that cross the protocol (``doc/protocol.md``) and that the engine consumes. They
import nothing heavy, so the command line can build a request without numpy.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from .errors import UsageError

CASES = ("sensitive", "insensitive", "smart")
BUFFERS = ("none", "own", "all")
OUTPUTS = ("lines", "files", "files_without_match", "count", "count_matches")


@dataclass(frozen=True)
class SearchRequest:
    """What to search for, where, and how much of the answer is wanted.

    The defaults are ripgrep's. Paths and globs are ``str`` with ``surrogateescape`` for bytes that are not
    UTF-8.
    """

    #: Alternatives: a line matches when any of them does. At least one.
    patterns: tuple[str, ...]
    #: Take the patterns as literal text (``-F``).
    fixed_strings: bool = False
    #: ``sensitive``, ``insensitive`` (``-i``) or ``smart`` (``-S``: insensitive iff no literal capital).
    case: str = "sensitive"
    #: The match must be a whole word (``-w``).
    word: bool = False
    #: The match must be a whole line (``-x``).
    line: bool = False
    #: Report the lines that do not match (``-v``).
    invert: bool = False
    #: Let matches span lines (``-U``).
    multiline: bool = False
    #: With ``multiline``, let ``.`` match a line feed too.
    multiline_dotall: bool = False
    #: Treat ``\r\n`` as the line terminator too (``--crlf``).
    crlf: bool = False
    #: Unicode classes and folding; ``False`` is ``--no-unicode``.
    unicode: bool = True
    #: Files and directories to search, relative to ``cwd`` or absolute; empty means ``cwd`` itself.
    paths: tuple[str, ...] = ()
    #: Absolute directory that relative ``paths`` and ``globs`` are resolved from; empty means the root.
    cwd: str = ""
    #: ``-g``: gitignore-style globs, ``!`` excludes; they override every ignore rule.
    globs: tuple[str, ...] = ()
    #: ``--iglob``: the same, compared without case.
    iglobs: tuple[str, ...] = ()
    #: ``-t``: names of file types (``indexgrep --type-list``); a file must be of one of them.
    types: tuple[str, ...] = ()
    #: ``-T``: a file must be of none of these types.
    types_not: tuple[str, ...] = ()
    #: Search hidden files and directories too (``--hidden``).
    hidden: bool = False
    #: Obey no ignore file (``--no-ignore``).
    no_ignore: bool = False
    #: Obey no ignore file of git's, but ``.ignore`` and ``.rgignore`` (``--no-ignore-vcs``).
    no_ignore_vcs: bool = False
    #: Search binary files as text (``-a``).
    text: bool = False
    #: Search binary files to their end, reporting only that they match (``--binary``).
    binary: bool = False
    #: Follow symbolic links (``-L``).
    follow: bool = False
    #: Descend at most so many directories below each path; ``None`` is no limit.
    max_depth: int | None = None
    #: Skip files larger than so many bytes; ``None`` is no limit.
    max_filesize: int | None = None
    #: Lines of context before and after each match (``-B``, ``-A``).
    before: int = 0
    after: int = 0
    #: Stop after so many matching lines in each file (``-m``).
    max_count: int | None = None
    #: Stop after so many matching lines in all; the summary then says it is not complete.
    limit: int | None = None
    #: What is wanted: every matching line, or only one record a file with no lines (``OUTPUTS``).
    output: str = "lines"
    #: Give up after so many milliseconds; the summary then says it is not complete. ``None``: no deadline.
    timeout_ms: int | None = None
    #: Whose unsaved buffers stand for their files: ``none``, the client's ``own``, or those of ``all``
    #: clients of the server.
    buffers: str = "none"
    #: Read every file, without asking the index (``--no-index``): for comparisons and doubts.
    no_index: bool = False

    def __post_init__(self) -> None:
        if not self.patterns:
            raise UsageError("no pattern given", "Give a pattern to search for.")
        if self.case not in CASES:
            raise UsageError(f"unknown case mode {self.case!r}", f"Use one of: {', '.join(CASES)}.")
        if self.output not in OUTPUTS:
            raise UsageError(f"unknown output {self.output!r}", f"Use one of: {', '.join(OUTPUTS)}.")
        if self.buffers not in BUFFERS:
            raise UsageError(f"unknown buffers {self.buffers!r}", f"Use one of: {', '.join(BUFFERS)}.")
        for name in ("max_depth", "max_filesize", "max_count", "limit", "timeout_ms", "before", "after"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise UsageError(f"{name} is {value}, but must not be negative")

    def to_wire(self) -> dict[str, Any]:
        """The fields that differ from their defaults, as a map for the protocol."""
        wire: dict[str, Any] = {}
        for spec in dataclasses.fields(self):
            value = getattr(self, spec.name)
            if spec.name == "patterns" or value != spec.default:
                wire[spec.name] = list(value) if isinstance(value, tuple) else value
        return wire

    @classmethod
    def from_wire(cls, wire: Any) -> SearchRequest:
        """The request that a protocol map describes.

        Raises ``UsageError`` that names the field for unknown names and for values of a wrong type: nothing
        a client asks for is ever ignored.
        """
        if not isinstance(wire, dict):
            raise UsageError(f"a search request is a map, not {type(wire).__name__}")
        values: dict[str, Any] = {}
        for name, value in wire.items():
            kind = _KINDS.get(name)
            if kind is None:
                raise UsageError(f"unknown search option {name!r}", f"Options: {', '.join(sorted(_KINDS))}.")
            values[name] = _checked(name, kind, value)
        if "patterns" not in values:
            raise UsageError("no pattern given", "Give `patterns`, a list of at least one string.")
        return cls(**values)


_KINDS = {spec.name: str(spec.type) for spec in dataclasses.fields(SearchRequest)}


def _checked(name: str, kind: str, value: Any) -> Any:
    """``value`` as the field's type, or ``UsageError``."""
    if kind.startswith("tuple"):
        if isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value):
            return tuple(value)
        if value == {}:  # an empty Lua table
            return ()
        raise UsageError(f"search option {name!r} must be a list of strings, not {value!r}")
    if kind == "bool" and isinstance(value, bool):
        return value
    if kind == "str" and isinstance(value, str):
        return value
    if kind.startswith("int") and isinstance(value, int) and not isinstance(value, bool):
        return value
    if kind.endswith("None") and value is None:
        return value
    raise UsageError(f"search option {name!r} must be of type {kind}, not {value!r}")


@dataclass(slots=True)
class Line:
    """One matching or context line (with ``multiline``: one block of lines that a match spans).

    ``number`` counts from 1; ``offset`` is its byte offset in the (decoded) file; ``text`` has its
    line terminator when the file has it; ``spans`` are half-open byte ranges of the matches in ``text``, in
    order; ``match`` tells matches from context. An inverted match has no spans, and then the context may.
    """

    number: int
    offset: int
    text: bytes
    spans: list[tuple[int, int]] = field(default_factory=list)
    match: bool = True

    def to_wire(self) -> list[Any]:
        return [self.number, self.offset, self.text, self.spans, self.match]

    @classmethod
    def from_wire(cls, wire: list[Any]) -> Line:
        number, offset, text, spans, match = wire
        return cls(number, offset, text, [(start, end) for start, end in spans], match)


@dataclass(slots=True)
class FileResult:
    """All that one file answers. ``path`` is relative to the root, ``/``-separated, ``surrogateescape``."""

    path: str
    lines: list[Line] = field(default_factory=list)
    #: Matching lines (with ``count_matches``: matches) in the file, also where ``lines`` is not wanted.
    count: int = 0
    #: Matches in the file, for statistics.
    matches: int = 0
    #: Where the first NUL byte is, if the file is binary and a match was found before the search stopped.
    binary_offset: int | None = None
    #: Bytes of the file that were searched.
    bytes_searched: int = 0
    #: Set when the file could not be searched; then there is nothing else. One line, no path in it.
    error: str | None = None
    #: ``disk``, or ``buffer`` where the text is an editor's unsaved buffer.
    source: str = "disk"

    def to_wire(self) -> dict[str, Any]:
        wire: dict[str, Any] = {"path": self.path, "count": self.count, "matches": self.matches}
        wire["bytes_searched"] = self.bytes_searched
        wire["lines"] = [line.to_wire() for line in self.lines]
        if self.binary_offset is not None:
            wire["binary_offset"] = self.binary_offset
        if self.error is not None:
            wire["error"] = self.error
        if self.source != "disk":
            wire["source"] = self.source
        return wire

    @classmethod
    def from_wire(cls, wire: dict[str, Any]) -> FileResult:
        return cls(
            path=wire["path"],
            lines=[Line.from_wire(line) for line in wire["lines"]],
            count=wire["count"],
            matches=wire["matches"],
            binary_offset=wire.get("binary_offset"),
            bytes_searched=wire["bytes_searched"],
            error=wire.get("error"),
            source=wire.get("source", "disk"),
        )


@dataclass
class Summary:
    """What a search did, sent when it ends. Times are in milliseconds."""

    #: The commit the base index stands for (hex), or empty.
    commit: str = ""
    #: ``index``: candidates came from the index; ``scan``: every file of the scope was read.
    served_by: str = "scan"
    #: Why a scan, when it is one (``there is no index yet``, say), else empty.
    scan_reason: str = ""
    #: How freshness was established: ``watch``, ``sweep`` or ``walk``.
    freshness: str = ""
    #: Files that stand over the base: changed, untracked or not indexable.
    overlay: int = 0
    #: Unsaved buffers in the scope: they were searched in place of their files.
    buffers: int = 0
    #: Files in the scope, files that had to be read, files actually read.
    documents: int = 0
    candidates: int = 0
    verified: int = 0
    matched_files: int = 0
    matched_lines: int = 0
    matches: int = 0
    bytes_searched: int = 0
    errors: int = 0
    #: Files that were there when the search began, and not any more when they were to be read.
    vanished: int = 0
    #: False when the answer is cut; ``reason`` is then ``limit``, ``timeout`` or ``cancelled``.
    complete: bool = True
    reason: str = ""
    #: Elapsed by phase: ``refresh``, ``plan``, ``match``, ``total``.
    elapsed: dict[str, float] = field(default_factory=dict)

    def to_wire(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_wire(cls, wire: dict[str, Any]) -> Summary:
        known = {spec.name for spec in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in wire.items() if name in known})
