"""What the flags of one command line say, before and after their interplay is resolved.

``flags.parse`` fills an ``Options``; ``resolve`` turns it into the request for the engine and the settings of
the printers, by ripgrep's rules for defaults that depend on a terminal and for flags that override others.
This module is on the way of every start: it makes no data classes and imports the request late.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import UsageError

if TYPE_CHECKING:
    from ..request import SearchRequest

#: A regex that matches nowhere: what an empty list of patterns means.
_NEVER = r"\b\B"


class Options:
    """The state of every flag, as ripgrep keeps it while it reads its arguments. ``None``: not given."""

    def __init__(self) -> None:
        #: What to do: ``lines``, ``json``, ``count``, ``count_matches``, ``files``, ``files_without_match``,
        #: ``type_list``, or ``help``, ``long_help``, ``version``.
        self.mode = "lines"
        self.special: str | None = None
        #: ``(kind, value)`` with kind ``regexp`` or ``file``, in the order given.
        self.sources: list[tuple[str, str]] = []
        self.positional: list[str] = []

        self.case = "sensitive"
        self.fixed_strings = False
        #: ``word``, ``line`` or ``None``; the later of ``-w`` and ``-x`` wins.
        self.boundary: str | None = None
        self.invert = False
        self.multiline = False
        self.multiline_dotall = False
        self.crlf = False
        self.no_unicode = False
        self.max_count: int | None = None
        #: ``auto``, ``text`` (``-a``) or ``search`` (``--binary``).
        self.binary = "auto"

        self.globs: list[str] = []
        self.iglobs: list[str] = []
        self.glob_case_insensitive = False
        self.types: list[str] = []
        self.types_not: list[str] = []
        self.hidden = False
        self.follow = False
        self.max_depth: int | None = None
        self.max_filesize: int | None = None
        self.no_ignore_dot = False
        self.no_ignore_exclude = False
        self.no_ignore_global = False
        self.no_ignore_parent = False
        self.no_ignore_vcs = False
        self.unrestricted = 0

        self.before: int | None = None
        self.after: int | None = None
        self.context: int | None = None
        self.context_separator: bytes | None = b"--"
        self.field_match_separator = b":"
        self.field_context_separator = b"-"
        self.line_number: bool | None = None
        self.column: bool | None = None
        self.byte_offset = False
        self.only_matching = False
        self.with_filename: bool | None = None
        self.heading: bool | None = None
        #: ``auto``, ``always``, ``never`` or ``ansi``.
        self.color = "auto"
        self.quiet = False
        self.null = False
        self.include_zero = False
        self.vimgrep = False
        self.stats = False
        self.trim = False
        self.max_columns: int | None = None
        self.max_columns_preview = False
        self.messages = True

        self.server = True
        self.index = True
        #: Whose unsaved buffers are searched: ``none``, ``own`` or ``all``.
        self.buffers = "none"
        self.root: str | None = None
        self.force_root = False
        self.limit: int | None = None
        self.timeout_ms: int | None = None
        self.debug = False

    def set_mode(self, mode: str) -> None:
        """The last mode given wins, but a search mode never overrides one that does not search."""
        if self.mode != "type_list":
            self.mode = mode


class Settings:
    """How results are to be printed, with every default resolved."""

    def __init__(self, options: Options, *, terminal: bool, one_file: bool) -> None:
        """``terminal``: standard output is one; ``one_file``: a single path was given and is no directory."""
        mode = options.mode
        if mode == "count_matches" and options.invert:
            mode = "count"  # an inverted line has no matches to count
        elif mode == "count" and options.only_matching:
            mode = "count_matches"
        self.mode = mode
        self.color = options.color in ("always", "ansi") or (options.color == "auto" and terminal)
        self.column = options.vimgrep if options.column is None else options.column
        self.heading = (terminal if options.heading is None else options.heading) and not options.vimgrep
        self.with_filename = options.with_filename
        if self.with_filename is None:
            self.with_filename = options.vimgrep or not one_file
        if options.line_number is not None:
            self.line_number = options.line_number
        elif mode == "json":
            self.line_number = True
        else:
            self.line_number = terminal or self.column or options.vimgrep
        self.byte_offset = options.byte_offset
        self.only_matching = options.only_matching
        self.per_match = options.vimgrep
        self.trim = options.trim
        self.max_columns = options.max_columns
        self.max_columns_preview = options.max_columns_preview
        self.include_zero = options.include_zero
        self.quiet = options.quiet
        self.stats = options.stats or mode == "json"
        self.multiline = options.multiline
        self.line_terminator = b"\r\n" if options.crlf else b"\n"
        self.path_terminator = b"\0" if options.null else None
        self.field_match_separator = options.field_match_separator
        self.field_context_separator = options.field_context_separator
        self.context_separator = options.context_separator
        self.before, self.after = context_of(options)
        #: ``convert``: a binary file is searched to its end and reported as one; ``none``: it is text. The
        #: files that a walk finds are otherwise left at the first NUL byte (``quit``).
        self.binary = {"auto": "quit", "text": "none", "search": "convert"}[options.binary]
        #: Printed between the files; ``None``: nothing.
        self.file_separator: bytes | None = None
        if mode == "lines" and self.heading:
            self.file_separator = b""
        elif mode == "lines" and (self.before or self.after):
            self.file_separator = options.context_separator

    @property
    def granular(self) -> bool:
        """Whether the place of each match in a line is printed in any way."""
        return bool(self.color or self.column or self.per_match or self.only_matching or self.stats)


def context_of(options: Options) -> tuple[int, int]:
    """Lines of context before and after: ``-A`` and ``-B`` override ``-C`` wherever they stand."""
    both = options.context or 0
    before = both if options.before is None else options.before
    after = both if options.after is None else options.after
    return before, after


def request_of(
    options: Options,
    settings: Settings,
    patterns: list[str],
    *,
    paths: tuple[str, ...],
    cwd: str,
) -> SearchRequest:
    """The request that answers these options over ``paths`` (empty: all of ``cwd``).

    Raises ``UsageError`` for a combination of ignore flags that the engine does not know.
    """
    from ..request import SearchRequest

    no_ignore, no_ignore_vcs = _ignore_rules(options)
    fixed_strings = options.fixed_strings
    if not patterns:
        patterns, fixed_strings = [_NEVER], False
    globs, iglobs = options.globs, options.iglobs
    if options.glob_case_insensitive:
        globs, iglobs = [], globs + iglobs
    # Figures over all matches are wanted with --stats, also where only names or counts are printed.
    output = "lines" if settings.stats or settings.mode == "json" else settings.mode
    if settings.quiet and not settings.stats and output != "files_without_match":
        output = "files"
    lines = output == "lines" and settings.mode in ("lines", "json") and not settings.quiet
    return SearchRequest(
        patterns=tuple(patterns),
        fixed_strings=fixed_strings,
        case=options.case,
        word=options.boundary == "word",
        line=options.boundary == "line",
        invert=options.invert,
        multiline=options.multiline,
        multiline_dotall=options.multiline_dotall,
        crlf=options.crlf,
        unicode=not options.no_unicode,
        paths=paths,
        cwd=cwd,
        globs=tuple(globs),
        iglobs=tuple(iglobs),
        types=tuple(options.types),
        types_not=tuple(options.types_not),
        hidden=options.hidden,
        no_ignore=no_ignore,
        no_ignore_vcs=no_ignore_vcs,
        text=options.binary == "text",
        binary=options.binary == "search",
        follow=options.follow,
        max_depth=options.max_depth,
        max_filesize=options.max_filesize,
        before=settings.before if lines else 0,
        after=settings.after if lines else 0,
        max_count=options.max_count,
        limit=options.limit,
        output=output,
        timeout_ms=options.timeout_ms,
        buffers=options.buffers,
        no_index=not options.index,
    )


def _ignore_rules(options: Options) -> tuple[bool, bool]:
    """``(no_ignore, no_ignore_vcs)`` of the request."""
    others = (options.no_ignore_dot, options.no_ignore_parent)
    git = (options.no_ignore_exclude, options.no_ignore_global)
    if options.no_ignore_vcs:
        if all(others):  # without git's files, its exclude and global ones say nothing either
            return True, False
        if not any(others):
            return False, True
    elif not any(others) and not any(git):
        return False, False
    raise UsageError(
        "this combination of --no-ignore and --ignore flags is not supported yet",
        "Use --no-ignore, --no-ignore-vcs or neither.",
    )
