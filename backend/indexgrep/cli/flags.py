"""The flags, and the parser that reads a command line as ripgrep does.

One table names every flag of ripgrep 15 and our own. A flag of ripgrep's that is not served is in the table
too, so that it is refused by name and never taken for a typing error or ignored. Rules of the parser: short
flags bundle (``-nw``) and take their value attached or next (``-A3``, ``-A 3``, ``-A=3``); long flags take it
after ``=`` or next; a later flag overrides an earlier one; ``--`` ends the flags; ``-`` is an argument; names
are never abbreviated. ``argparse`` knows none of bundled values, negation pairs or order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..errors import UsageError
from .options import Options

#: Applies a flag: ``True``/``False`` for a switch and its negation, the text for one with a value.
Action = Callable[[Options, "bool | str"], None]


class Flag:
    """One flag. ``action`` is ``None`` for a flag that is known but not served."""

    __slots__ = ("action", "aliases", "long", "negated", "short", "valued")

    def __init__(
        self,
        long: str,
        short: str = "",
        *,
        negated: str = "",
        aliases: tuple[str, ...] = (),
        valued: bool = False,
        action: Action | None = None,
    ) -> None:
        self.long = long
        self.short = short
        self.negated = negated
        self.aliases = aliases
        self.valued = valued
        self.action = action


def _switch(name: str) -> Action:
    """Sets the option ``name`` to whether the flag or its negation was given."""

    def action(options: Options, value: bool | str) -> None:
        setattr(options, name, value)

    return action


def _constant(name: str, constant: object) -> Action:
    def action(options: Options, value: bool | str) -> None:
        setattr(options, name, constant)

    return action


def _mode(mode: str) -> Action:
    def action(options: Options, value: bool | str) -> None:
        options.set_mode(mode)

    return action


def _number(name: str) -> Action:
    def action(options: Options, value: bool | str) -> None:
        setattr(options, name, _parse_number(str(value)))

    return action


def _append(name: str) -> Action:
    def action(options: Options, value: bool | str) -> None:
        getattr(options, name).append(value)

    return action


def _source(kind: str) -> Action:
    def action(options: Options, value: bool | str) -> None:
        text = str(value)
        if kind == "regexp":
            _check_utf8(text)
        options.sources.append((kind, text))

    return action


def _only(*served: bool | str, refused: tuple[str, ...] = (), hint: str = "") -> Action:
    """A flag whose served values change nothing here; the ``refused`` ones are ripgrep's but not ours."""

    def action(options: Options, value: bool | str) -> None:
        if value in served:
            return
        if value in refused or not refused:
            raise _Refused(str(value), hint)
        raise ValueError(f"choice '{value}' is unrecognized")

    return action


def _accept(options: Options, value: bool | str) -> None:
    """A flag that changes how ripgrep works but never what it prints: nothing to do here."""


class _Refused(Exception):
    """A value that ripgrep serves and we do not."""

    def __init__(self, value: str, hint: str) -> None:
        super().__init__(value)
        self.value = value
        self.hint = hint


def _parse_number(text: str) -> int:
    """A Rust ``usize`` in decimal, with its messages."""
    digits = text.removeprefix("+")
    if not text:
        raise ValueError("value is not a valid number: cannot parse integer from empty string")
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError("value is not a valid number: invalid digit found in string")
    if len(digits.lstrip("0")) > 20 or int(digits) >= 1 << 64:
        raise ValueError("value is not a valid number: number too large to fit in target type")
    return int(digits)


def _parse_size(text: str) -> int:
    """Bytes from ``10``, ``10K``, ``10M`` or ``10G``."""
    digits, factor = text, 1
    if text[-1:] in ("K", "M", "G"):
        digits, factor = text[:-1], 1 << {"K": 10, "M": 20, "G": 30}[text[-1]]
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError(
            f"invalid size: invalid format for size '{text}', which should be a non-empty sequence of "
            "digits followed by an optional 'K', 'M' or 'G' suffix"
        )
    if len(digits) > 20 or int(digits) * factor >= 1 << 64:
        raise ValueError(f"invalid size: size too big in '{text}'")
    return int(digits) * factor


def _check_utf8(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("value is not valid UTF-8") from None


def _unescape(text: str) -> bytes:
    r"""Bytes of a separator: ``\n``, ``\r``, ``\t``, ``\0``, ``\\`` and ``\xFF`` are what they say."""
    _check_utf8(text)
    out, at = bytearray(), 0
    simple = {"n": 10, "r": 13, "t": 9, "0": 0, "\\": 92}
    while at < len(text):
        follow = text[at + 1 : at + 2]
        if text[at] == "\\" and follow in simple and follow:
            out.append(simple[follow])
            at += 2
        elif text[at] == "\\" and follow == "x" and _is_hex(text[at + 2 : at + 4]):
            out.append(int(text[at + 2 : at + 4], 16))
            at += 4
        else:
            out += text[at].encode()
            at += 1
    return bytes(out)


def _is_hex(text: str) -> bool:
    return len(text) == 2 and all(char in "0123456789abcdefABCDEF" for char in text)


def _separator(name: str) -> Action:
    def action(options: Options, value: bool | str) -> None:
        setattr(options, name, None if value is False else _unescape(str(value)))

    return action


def _set_color(options: Options, value: bool | str) -> None:
    if value not in ("never", "auto", "always", "ansi"):
        raise ValueError(f"choice '{value}' is unrecognized")
    options.color = str(value)


def _set_buffers(options: Options, value: bool | str) -> None:
    if value not in ("none", "own", "all"):
        raise ValueError(f"choice '{value}' is unrecognized")
    options.buffers = str(value)


def _set_binary(kind: str) -> Action:
    def action(options: Options, value: bool | str) -> None:
        options.binary = kind if value else "auto"

    return action


def _set_json(options: Options, value: bool | str) -> None:
    if value:
        options.set_mode("json")
    elif options.mode == "json":
        options.set_mode("lines")


def _set_ignore(*names: str) -> Action:
    def action(options: Options, value: bool | str) -> None:
        for name in names:
            setattr(options, f"no_ignore_{name}", value)

    return action


def _set_unrestricted(options: Options, value: bool | str) -> None:
    options.unrestricted += 1
    if options.unrestricted == 1:
        _NO_IGNORE(options, True)
    elif options.unrestricted == 2:
        options.hidden = True
    elif options.unrestricted == 3:
        options.binary = "search"
    else:
        raise ValueError("flag can only be repeated up to 3 times")


def _set_pretty(options: Options, value: bool | str) -> None:
    options.color, options.heading, options.line_number = "always", True, True


def _set_max_columns(options: Options, value: bool | str) -> None:
    options.max_columns = _parse_number(str(value)) or None


def _set_max_filesize(options: Options, value: bool | str) -> None:
    options.max_filesize = _parse_size(str(value))


def _set_messages(options: Options, value: bool | str) -> None:
    options.messages = not value


def _check_number(options: Options, value: bool | str) -> None:
    _parse_number(str(value))


_NO_IGNORE = _set_ignore("dot", "exclude", "global", "parent", "vcs")
_SORT_HINT = "Answers always come in order of path."

FLAGS: tuple[Flag, ...] = (
    # The pattern and what it means.
    Flag("regexp", "e", valued=True, action=_source("regexp")),
    Flag("file", "f", valued=True, action=_source("file")),
    Flag("fixed-strings", "F", negated="no-fixed-strings", action=_switch("fixed_strings")),
    Flag("ignore-case", "i", action=_constant("case", "insensitive")),
    Flag("case-sensitive", "s", action=_constant("case", "sensitive")),
    Flag("smart-case", "S", action=_constant("case", "smart")),
    Flag("word-regexp", "w", action=_constant("boundary", "word")),
    Flag("line-regexp", "x", action=_constant("boundary", "line")),
    Flag("invert-match", "v", negated="no-invert-match", action=_switch("invert")),
    Flag("multiline", "U", negated="no-multiline", action=_switch("multiline")),
    Flag("multiline-dotall", negated="no-multiline-dotall", action=_switch("multiline_dotall")),
    Flag("crlf", negated="no-crlf", action=_switch("crlf")),
    Flag("no-unicode", negated="unicode", action=_switch("no_unicode")),
    Flag("no-pcre2-unicode", negated="pcre2-unicode", action=_switch("no_unicode")),
    Flag("max-count", "m", valued=True, action=_number("max_count")),
    Flag("text", "a", negated="no-text", action=_set_binary("text")),
    Flag("binary", negated="no-binary", action=_set_binary("search")),
    # Which files.
    Flag("glob", "g", valued=True, action=_append("globs")),
    Flag("iglob", valued=True, action=_append("iglobs")),
    Flag(
        "glob-case-insensitive",
        negated="no-glob-case-insensitive",
        action=_switch("glob_case_insensitive"),
    ),
    Flag("type", "t", valued=True, action=_append("types")),
    Flag("type-not", "T", valued=True, action=_append("types_not")),
    Flag("type-list", action=_constant("mode", "type_list")),
    Flag("hidden", ".", negated="no-hidden", action=_switch("hidden")),
    Flag("follow", "L", negated="no-follow", action=_switch("follow")),
    Flag("max-depth", "d", aliases=("maxdepth",), valued=True, action=_number("max_depth")),
    Flag("max-filesize", valued=True, action=_set_max_filesize),
    Flag("no-ignore", negated="ignore", action=_NO_IGNORE),
    Flag("no-ignore-dot", negated="ignore-dot", action=_set_ignore("dot")),
    Flag("no-ignore-exclude", negated="ignore-exclude", action=_set_ignore("exclude")),
    Flag("no-ignore-global", negated="ignore-global", action=_set_ignore("global")),
    Flag("no-ignore-parent", negated="ignore-parent", action=_set_ignore("parent")),
    Flag("no-ignore-vcs", negated="ignore-vcs", action=_set_ignore("vcs")),
    Flag("unrestricted", "u", action=_set_unrestricted),
    # What is printed, and how.
    Flag("files-with-matches", "l", action=_mode("files")),
    Flag("files-without-match", action=_mode("files_without_match")),
    Flag("count", "c", action=_mode("count")),
    Flag("count-matches", action=_mode("count_matches")),
    Flag("json", negated="no-json", action=_set_json),
    Flag("include-zero", negated="no-include-zero", action=_switch("include_zero")),
    Flag("after-context", "A", valued=True, action=_number("after")),
    Flag("before-context", "B", valued=True, action=_number("before")),
    Flag("context", "C", valued=True, action=_number("context")),
    Flag(
        "context-separator",
        negated="no-context-separator",
        valued=True,
        action=_separator("context_separator"),
    ),
    Flag("field-match-separator", valued=True, action=_separator("field_match_separator")),
    Flag("field-context-separator", valued=True, action=_separator("field_context_separator")),
    Flag("line-number", "n", action=_constant("line_number", True)),
    Flag("no-line-number", "N", action=_constant("line_number", False)),
    Flag("column", negated="no-column", action=_switch("column")),
    Flag("byte-offset", "b", negated="no-byte-offset", action=_switch("byte_offset")),
    Flag("only-matching", "o", action=_constant("only_matching", True)),
    Flag("with-filename", "H", action=_constant("with_filename", True)),
    Flag("no-filename", "I", action=_constant("with_filename", False)),
    Flag("heading", negated="no-heading", action=_switch("heading")),
    Flag("color", valued=True, action=_set_color),
    Flag("pretty", "p", action=_set_pretty),
    Flag("vimgrep", action=_constant("vimgrep", True)),
    Flag("quiet", "q", action=_constant("quiet", True)),
    Flag("null", "0", action=_constant("null", True)),
    Flag("trim", negated="no-trim", action=_switch("trim")),
    Flag("max-columns", "M", valued=True, action=_set_max_columns),
    Flag(
        "max-columns-preview",
        negated="no-max-columns-preview",
        action=_switch("max_columns_preview"),
    ),
    Flag("stats", negated="no-stats", action=_switch("stats")),
    Flag("no-messages", negated="messages", action=_set_messages),
    Flag("debug", action=_constant("debug", True)),
    Flag("help", "h", action=_constant("special", "help")),
    Flag("version", "V", action=_constant("special", "version")),
    # Our own.
    Flag("no-server", negated="server", action=lambda options, value: setattr(options, "server", not value)),
    Flag("no-index", action=_constant("index", False)),
    Flag("buffers", valued=True, action=_set_buffers),
    Flag("root", valued=True, action=lambda options, value: setattr(options, "root", value)),
    Flag("force-root", action=_constant("force_root", True)),
    Flag("limit", valued=True, action=_number("limit")),
    Flag("timeout", valued=True, action=_number("timeout_ms")),
    # ripgrep's that change nothing of what is found or printed here.
    Flag("no-config", action=_accept),
    Flag("threads", "j", valued=True, action=_check_number),
    Flag("mmap", negated="no-mmap", action=_accept),
    Flag("line-buffered", negated="no-line-buffered", action=_accept),
    Flag("block-buffered", negated="no-block-buffered", action=_accept),
    Flag("no-ignore-messages", negated="ignore-messages", action=_accept),
    Flag("no-ignore-files", negated="ignore-files", action=_accept),
    Flag("sort-files", negated="no-sort-files", action=_accept),
    Flag(
        "sort",
        valued=True,
        action=_only("path", "none", refused=("modified", "accessed", "created"), hint=_SORT_HINT),
    ),
    Flag("engine", valued=True, action=_only("default", refused=("auto", "pcre2"))),
    Flag("encoding", "E", negated="no-encoding", valued=True, action=_only("auto", False)),
    # ripgrep's that are not served.
    Flag("auto-hybrid-regex", negated="no-auto-hybrid-regex"),
    Flag("colors", valued=True),
    Flag("dfa-size-limit", valued=True),
    Flag("files"),
    Flag("generate", valued=True),
    Flag("hostname-bin", valued=True),
    Flag("hyperlink-format", valued=True),
    Flag("ignore-file", valued=True),
    Flag("ignore-file-case-insensitive", negated="no-ignore-file-case-insensitive"),
    Flag("no-require-git", negated="require-git"),
    Flag("null-data"),
    Flag("one-file-system", negated="no-one-file-system"),
    Flag("passthru", aliases=("passthrough",)),
    Flag("path-separator", valued=True),
    Flag("pcre2", "P", negated="no-pcre2"),
    Flag("pcre2-version"),
    Flag("pre", negated="no-pre", valued=True),
    Flag("pre-glob", valued=True),
    Flag("regex-size-limit", valued=True),
    Flag("replace", "r", valued=True),
    Flag("search-zip", "z", negated="no-search-zip"),
    Flag("sortr", valued=True),
    Flag("stop-on-nonmatch"),
    Flag("trace"),
    Flag("type-add", valued=True),
    Flag("type-clear", valued=True),
)

_LONG: dict[str, tuple[Flag, bool]] = {}
_SHORT: dict[str, Flag] = {}
for _flag in FLAGS:
    for _name in (_flag.long, *_flag.aliases):
        _LONG[_name] = (_flag, True)
    if _flag.negated:
        _LONG[_flag.negated] = (_flag, False)
    if _flag.short:
        _SHORT[_flag.short] = _flag


def parse(arguments: Sequence[str]) -> Options:
    """The options that ``arguments`` (without the program's name) give.

    Arguments that are not UTF-8 hold surrogate escapes, as ``sys.argv`` has them. Raises ``UsageError`` for a
    flag that is unknown or not served, a missing or superfluous value, and a value that does not parse.
    """
    options = Options()
    at = 0
    while at < len(arguments):
        argument = arguments[at]
        at += 1
        if argument == "--":
            options.positional.extend(arguments[at:])
            break
        if argument.startswith("--"):
            at = _parse_long(options, argument, arguments, at)
        elif argument.startswith("-") and argument != "-":
            at = _parse_short(options, argument, arguments, at)
        else:
            options.positional.append(argument)
    return options


def _parse_long(options: Options, argument: str, arguments: Sequence[str], at: int) -> int:
    """Applies a long flag; the index of the next argument to read."""
    name, equals, attached = argument[2:].partition("=")
    found = _LONG.get(name)
    if found is None:
        raise UsageError(f"unrecognized flag --{name}", _suggest(name))
    flag, positive = found
    shown = f"--{name}"
    if not flag.valued or not positive:
        if equals:
            raise _superfluous(shown, attached)
        _apply(options, flag, shown, positive)
        return at
    if equals:
        value = attached
    elif at < len(arguments):
        value = arguments[at]
        at += 1
    else:
        raise UsageError(f"missing value for flag {shown}: missing argument for option '{shown}'")
    _apply(options, flag, shown, value)
    return at


def _parse_short(options: Options, argument: str, arguments: Sequence[str], at: int) -> int:
    """Applies a bundle of short flags; the index of the next argument to read."""
    position = 1
    while position < len(argument):
        name = argument[position]
        rest = argument[position + 1 :]
        shown = f"-{name}"
        if name == "=" and position > 1:
            raise _superfluous(f"-{argument[position - 1]}", rest)
        flag = _SHORT.get(name)
        if flag is None:
            raise UsageError(f"unrecognized flag {shown}")
        if not flag.valued:
            _apply(options, flag, shown, True)
            position += 1
            continue
        if rest:
            value = rest.removeprefix("=")
        elif at < len(arguments):
            value = arguments[at]
            at += 1
        else:
            raise UsageError(f"missing value for flag {shown}: missing argument for option '{shown}'")
        _apply(options, flag, shown, value)
        return at
    return at


def _superfluous(shown: str, value: str) -> UsageError:
    return UsageError(f"invalid CLI arguments: unexpected argument for option '{shown}': \"{value}\"")


def _apply(options: Options, flag: Flag, shown: str, value: bool | str) -> None:
    if shown == "--help":
        options.special = "long_help"
        return
    if flag.action is None:
        if value is False:  # the negation asks for what is so anyway
            return
        raise UsageError(f"--{flag.long} is not supported yet", "`rg` has it; see `indexgrep --help`.")
    try:
        flag.action(options, value)
    except _Refused as refused:
        raise UsageError(f"--{flag.long}={refused.value} is not supported yet", refused.hint) from None
    except ValueError as error:
        raise UsageError(f"error parsing flag {shown}: {error}") from None


def _suggest(unknown: str) -> str:
    """Flags whose names share at least 4 in 10 of the three-letter pieces of both names."""
    wanted = _pieces(unknown)
    similar = [
        f"--{name}"
        for name, (flag, _) in _LONG.items()
        if flag.action is not None and len(wanted & _pieces(name)) / len(wanted | _pieces(name)) >= 0.4
    ]
    return f"similar flags that are available: {', '.join(similar)}" if similar else ""


def _pieces(name: str) -> set[str]:
    return {name[at : at + 3] for at in range(len(name) - 2)} or {name}
