"""From patterns and options, as a user gives them, to everything the engine needs."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import PatternError
from .ast import Alternation, Class, Concat, Empty, Literal, Look, LookKind, Node, Parsed, postorder
from .literals import analyse
from .parser import Flags, check_text, parse
from .printer import Lines, only_of, print_rust, restrict
from .query import Query
from .unicode import has_case


@dataclass(frozen=True)
class PatternOptions:
    """How patterns are read; the names and meanings are those of ``SearchRequest``."""

    fixed_strings: bool = False
    case: str = "sensitive"
    word: bool = False
    line: bool = False
    multiline: bool = False
    multiline_dotall: bool = False
    crlf: bool = False
    unicode: bool = True
    #: Refuse a pattern that asks for a NUL byte, as ripgrep does while binary detection is on.
    ban_nul: bool = False


@dataclass(frozen=True)
class CompiledPattern:
    """One or several patterns, joined and analysed."""

    patterns: tuple[str, ...]
    options: PatternOptions
    #: The joined tree with flags resolved, ``-w`` and ``-x`` around it, and line mode applied.
    ast: Node
    #: Whether the match ignores case, after smart case (a flag ``(?i)`` inside the pattern is not counted).
    case_insensitive: bool
    #: The bytes, when the pattern is exactly one case-sensitive literal and no assertion stands by it.
    literal: bytes | None
    #: Whether the pattern as written asks for the start or end of the *text* (``\\A``, ``\\z``). In line mode
    #: they are the line's; ripgrep then marks no submatch unless the line is the first or last.
    text_anchors: bool

    @property
    def _lines(self) -> Lines:
        return Lines(self.options.multiline, self.options.crlf)

    @functools.cached_property
    def rust(self) -> str:
        """The pattern for ``paula.BytesRegex`` over whole buffers; all flags are in it."""
        return print_rust(self.ast, self._lines)

    @functools.cached_property
    def python(self) -> str:
        """The same language for the ``regex`` module, on text decoded as UTF-8 with ``surrogateescape``.

        Offsets of its matches are in characters. Raises :class:`PatternError` where it cannot be said: a
        class without Unicode that matches a part of a character.
        """
        from .python import print_python

        return print_python(self.ast, self._lines, self.patterns[0])

    @functools.cached_property
    def query(self) -> Query:
        """The string conditions; every text that matches satisfies them."""
        return analyse(self.ast)


def compile_patterns(patterns: Sequence[str], options: PatternOptions) -> CompiledPattern:
    """Parse, join and check ``patterns``. Raises :class:`PatternError`, which names the pattern at fault."""
    return _compile(tuple(patterns), options)


@functools.lru_cache(maxsize=64)
def _compile(patterns: tuple[str, ...], options: PatternOptions) -> CompiledPattern:
    if not patterns:
        raise ValueError("compile_patterns needs at least one pattern")
    if options.case not in ("sensitive", "insensitive", "smart"):
        raise ValueError(f"unknown case mode {options.case!r}")
    insensitive = options.case == "insensitive"
    if options.case == "smart":  # a guess, right for almost all patterns: it saves parsing twice
        insensitive = not any(map(str.isupper, "".join(patterns)))
    parsed = _parse_all(patterns, options, insensitive)
    if options.case == "smart":
        any_literal = any(one.any_literal for one in parsed)
        smart = any_literal and not any(one.any_uppercase for one in parsed)
        if smart != insensitive:
            insensitive = smart
            parsed = _parse_all(patterns, options, insensitive)
    lines = Lines(options.multiline, options.crlf)
    text_anchors = False
    nodes: list[Node] = []
    for pattern, one in zip(patterns, parsed, strict=True):
        for node in postorder(one.node):
            if isinstance(node, Look):
                text_anchors |= node.kind in (LookKind.TEXT_START, LookKind.TEXT_END)
            elif options.ban_nul and _asks_for_nul(node):
                raise PatternError(
                    pattern,
                    *node.span,
                    'pattern contains "\\0" but it is impossible to match',
                    "Consider text mode (--text, -a): with binary detection a NUL byte is never matched.",
                )
        nodes.append(restrict(one.node, lines, pattern))
    root = nodes[0] if len(nodes) == 1 else Alternation(tuple(nodes))
    literal = _plain_literal(root)
    root = _bounded(root, options)
    return CompiledPattern(
        patterns=patterns,
        options=options,
        ast=root,
        case_insensitive=insensitive,
        literal=None if options.word or options.line else literal,
        text_anchors=text_anchors,
    )


def _asks_for_nul(node: Node) -> bool:
    if isinstance(node, Literal):
        return "\0" in node.text
    return isinstance(node, Class) and bool(only_of(node, "\0"))


def _parse_all(patterns: tuple[str, ...], options: PatternOptions, insensitive: bool) -> list[Parsed]:
    flags = Flags(
        i=insensitive,
        m=True,
        s=options.multiline and options.multiline_dotall,
        u=options.unicode,
        R=options.crlf,
    )
    parsed: list[Parsed] = []
    group, names = 1, frozenset[str]()
    for pattern in patterns:
        if options.fixed_strings:
            one = _parse_fixed(pattern, flags)
        else:
            one = parse(pattern, flags, first_group=group, taken_names=names)
            group += one.captures
            names |= one.names
        parsed.append(one)
    return parsed


def _parse_fixed(text: str, flags: Flags) -> Parsed:
    """A pattern under ``-F``: its text is what it matches."""
    check_text(text)
    node: Node
    if not text:
        node = Empty()
    else:
        node = Literal(text, flags.i and has_case(text, flags.u), flags.u, (0, len(text)))
    return Parsed(node, bool(text), any(map(str.isupper, text)))


def _plain_literal(root: Node) -> bytes | None:
    items = root.items if isinstance(root, Concat) else (root,)
    data = b""
    for item in items:
        if not isinstance(item, Literal) or item.fold:
            return None
        data += item.data
    return data or None


def _bounded(root: Node, options: PatternOptions) -> Node:
    """``root`` as a whole line or a whole word; ``-x`` wins over ``-w``."""
    if options.line:
        if options.crlf:
            kinds = (LookKind.LINE_START_CRLF, LookKind.LINE_END_CRLF)
        else:
            kinds = (LookKind.LINE_START, LookKind.LINE_END)
    elif options.word:
        kinds = (LookKind.WORD_START_HALF, LookKind.WORD_END_HALF)
    else:
        return root
    return Concat((Look(kinds[0], options.unicode), root, Look(kinds[1], options.unicode)), root.span)
