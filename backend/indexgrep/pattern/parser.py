"""The parser: from text in the dialect of the Rust ``regex`` crate (1.12) to :mod:`.ast`.

It accepts what the crate accepts and refuses what it refuses, with the crate's wording and an exact position.
The grammar is the one documented at https://docs.rs/regex/1.12/regex/#syntax, the corner cases are those of
``regex-syntax`` 0.8 as shipped with ripgrep 15 (octal escapes off, ``{,n}`` off, nesting limit 250).

Groups and classes are kept on explicit stacks: no pattern can exhaust Python's, and the time is linear in the
length of the pattern.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import NoReturn

from ..errors import PatternError
from . import unicode
from .ast import (
    Alternation,
    Class,
    ClassBracket,
    ClassItem,
    ClassLiteral,
    ClassOperation,
    ClassPerl,
    ClassPosix,
    ClassProperty,
    ClassRange,
    ClassUnion,
    Concat,
    Dot,
    Empty,
    Group,
    Literal,
    Look,
    LookKind,
    Node,
    Parsed,
    Repeat,
    Span,
)

#: How deep groups, classes, repetitions, alternations and concatenations may nest, as in the crate.
NEST_LIMIT = 250

_META = frozenset("\\.+*?()|[]{}^$#&-~")
_SPECIAL = {"a": "\x07", "f": "\x0c", "t": "\t", "n": "\n", "r": "\r", "v": "\x0b"}
_LOOKS = {
    "A": LookKind.TEXT_START,
    "z": LookKind.TEXT_END,
    "b": LookKind.WORD,
    "B": LookKind.NOT_WORD,
    "<": LookKind.WORD_START,
    ">": LookKind.WORD_END,
}
_WORD_LOOKS = {
    "start": LookKind.WORD_START,
    "end": LookKind.WORD_END,
    "start-half": LookKind.WORD_START_HALF,
    "end-half": LookKind.WORD_END_HALF,
}
_POSIX = re.compile(
    r"\[:(\^?)(alnum|alpha|ascii|blank|cntrl|digit|graph|lower|print|punct|space|upper|word|xdigit):\]"
)
#: A run of characters that stand for themselves outside a class; terminators and NUL stay single literals.
_PLAIN = re.compile(r"[^\\.+*?()|\[{^$\n\r\x00]+")
_UNMERGED = frozenset("\n\r\0")
_QUANTIFIERS = frozenset("?*+{")
_U32_MAX = 0xFFFF_FFFF

_NO_PCRE = "The flag -P (PCRE2: look-around, back-references) is not available yet."


@dataclass(frozen=True, eq=False, repr=False)
class Flags:
    """The flags in force at a place in the pattern, by their letters in the dialect."""

    i: bool = False
    m: bool = False
    s: bool = False
    U: bool = False
    u: bool = True
    x: bool = False
    R: bool = False


class _Marker:
    """Stands for ``(?flags)`` in a concatenation: counts as an item, matches nothing, cannot be repeated."""


_MARKER = _Marker()


@dataclass(eq=False, repr=False)
class _Char:
    """One literal character as the parser reads it; ``byte`` when it was written as ``\\xHH``."""

    char: str
    span: Span
    byte: bool = False


class _Frame:
    """An open group (or the whole pattern): what has been read of it so far."""

    __slots__ = ("alternatives", "count", "depth", "flags", "index", "items", "name", "start")

    def __init__(self, start: int, flags: Flags, index: int | None, name: str | None) -> None:
        self.start = start
        self.flags = flags  # those to restore at the end
        self.index = index
        self.name = name
        self.alternatives: list[Node] = []
        self.items: list[tuple[Node | _Marker, int]] = []  # with the depth of each
        self.count = 0  # items as the crate counts them: every character is one
        self.depth = 0  # of the deepest alternative so far


class _OpenClass:
    """An open bracket of a class: its items, and a pending set operation."""

    __slots__ = ("depth", "items", "left", "left_depth", "negated", "opener", "operator", "union_start")

    def __init__(self, opener: Span, negated: bool, items: list[ClassItem], union_start: int) -> None:
        self.opener = opener  # the bracket, with the ^, - and ] that may follow it at once
        self.negated = negated
        self.items = items
        self.depth = 0
        self.union_start = union_start
        self.operator = ""
        self.left: ClassItem | None = None
        self.left_depth = 0


def parse(
    pattern: str, flags: Flags, *, first_group: int = 1, taken_names: frozenset[str] = frozenset()
) -> Parsed:
    """Parse ``pattern`` with ``flags`` in force at its start.

    Groups are numbered from ``first_group``; a group name in ``taken_names`` counts as a duplicate. Raises
    :class:`PatternError`.
    """
    return _Parser(pattern, flags, first_group, taken_names).parse()


def check_text(pattern: str) -> None:
    """Refuse a pattern that holds a byte that was not UTF-8 (a surrogate, in ``str``)."""
    if pattern.isascii():
        return
    for i, char in enumerate(pattern):
        if "\ud800" <= char <= "\udfff":
            hint = r"Write a byte that is not UTF-8 as (?-u:\xFF)."
            raise PatternError(pattern, i, i + 1, "pattern is not valid UTF-8", hint)


class _Parser:
    def __init__(self, pattern: str, flags: Flags, first_group: int, taken_names: frozenset[str]) -> None:
        self.pattern = pattern
        self.end = len(pattern)
        self.pos = 0
        self.flags = flags
        self.first_group = first_group
        self.next_group = first_group
        self.taken_names = taken_names
        self.names: set[str] = set()
        self.any_literal = False
        self.any_uppercase = False
        self.deferred: PatternError | None = None
        self.frames = [_Frame(0, flags, None, None)]

    # Errors and movement. `char` is "" at the end of the pattern.

    def fail(self, start: int, end: int, reason: str, hint: str = "") -> NoReturn:
        raise PatternError(self.pattern, start, end, reason, hint)

    def defer(self, start: int, end: int, reason: str) -> None:
        """Note a fault of meaning; it counts once the syntax has turned out to be right, as in the crate."""
        if self.deferred is None:
            self.deferred = PatternError(self.pattern, start, end, reason)

    @property
    def char(self) -> str:
        return self.pattern[self.pos : self.pos + 1]

    def skip_space(self) -> None:
        """Skip blanks and comments where the flag ``x`` is in force."""
        if not self.flags.x:
            return
        while self.pos < self.end:
            char = self.pattern[self.pos]
            if char in unicode.WHITESPACE:
                self.pos += 1
            elif char == "#":
                line_end = self.pattern.find("\n", self.pos)
                self.pos = self.end if line_end < 0 else line_end + 1
            else:
                return

    def bump_space(self) -> str:
        """Go to the next character, past blanks in ``x`` mode; it is returned, or "" at the end."""
        self.pos += 1
        self.skip_space()
        return self.char

    def peek_space(self) -> str:
        """The character that :meth:`bump_space` would return, without going there."""
        here = self.pos
        char = self.bump_space()
        self.pos = here
        return char

    # The main loop.

    def parse(self) -> Parsed:
        check_text(self.pattern)
        while True:
            if self.flags.x:
                self.skip_space()
            if self.pos >= self.end:
                break
            char = self.pattern[self.pos]
            if not self.flags.x and (run := _PLAIN.match(self.pattern, self.pos)):
                self.plain(run.group())
            elif char == "(":
                self.open_group()
            elif char == ")":
                self.close_group()
            elif char == "|":
                self.next_branch()
            elif char == "[":
                item, depth = self.parse_class()
                self.push(self.make_class(item), depth)
            elif char == "?":
                self.repeat(0, 1)
            elif char == "*":
                self.repeat(0, None)
            elif char == "+":
                self.repeat(1, None)
            elif char == "{":
                self.counted_repeat()
            else:
                self.primitive()
        if len(self.frames) > 1:
            start = self.frames[-1].start
            self.fail(start, start + 1, "unclosed group")
        node, depth = self.finish(self.frames[0], self.end)
        self.check_depth(depth, 0, self.end)
        if self.deferred is not None:
            raise self.deferred
        return Parsed(
            node,
            self.any_literal,
            self.any_uppercase,
            self.next_group - self.first_group,
            frozenset(self.names),
        )

    def check_depth(self, depth: int, start: int, end: int) -> None:
        if depth > NEST_LIMIT:
            reason = f"exceed the maximum number of nested parentheses/brackets ({NEST_LIMIT})"
            self.fail(start, end, reason)

    # Concatenations and alternations.

    def push(self, node: Node | _Marker, depth: int = 0, count: int = 1) -> None:
        frame = self.frames[-1]
        frame.items.append((node, depth))
        frame.count += count

    def plain(self, run: str) -> None:
        """Push a run of plain characters; its last one alone where a repetition follows."""
        start, self.pos = self.pos, self.pos + len(run)
        self.any_literal = True
        if not self.any_uppercase:
            self.any_uppercase = run.lower() != run if run.isascii() else any(map(str.isupper, run))
        if len(run) > 1 and self.char in _QUANTIFIERS and self.char:
            self.push(self.literal(run[:-1], (start, self.pos - 1)), 0, len(run) - 1)
            self.push(self.literal(run[-1], (self.pos - 1, self.pos)))
        else:
            self.push(self.literal(run, (start, self.pos)), 0, len(run))

    def literal(self, text: str, span: Span) -> Literal:
        fold = self.flags.i and unicode.has_case(text, self.flags.u)
        return Literal(text, fold, self.flags.u, span)

    def concatenation(self, frame: _Frame, end: int) -> tuple[Node, int]:
        """The items read since the last ``|`` as one node, and its depth."""
        depth = max((depth for _, depth in frame.items), default=0)
        if frame.count > 1:
            depth += 1
        merged: list[Node] = []
        for item, _ in frame.items:
            if isinstance(item, (_Marker, Empty)) or (isinstance(item, Literal) and not item.text):
                continue
            last = merged[-1] if merged else None
            if isinstance(item, Literal) and isinstance(last, Literal) and _mergeable(last, item):
                span = (last.span[0], item.span[1])
                merged[-1] = Literal(last.text + item.text, last.fold, last.unicode, span)
            elif isinstance(item, Concat):
                merged.extend(item.items)
            else:
                merged.append(item)
        if not merged:
            return Empty((end, end)), depth
        if len(merged) == 1:
            return merged[0], depth
        return Concat(tuple(merged), (merged[0].span[0], merged[-1].span[1])), depth

    def next_branch(self) -> None:
        frame = self.frames[-1]
        node, depth = self.concatenation(frame, self.pos)
        frame.alternatives.append(node)
        frame.depth = max(frame.depth, depth)
        frame.items, frame.count = [], 0
        self.pos += 1

    def finish(self, frame: _Frame, end: int) -> tuple[Node, int]:
        """Everything in ``frame`` as one node, and its depth."""
        node, depth = self.concatenation(frame, end)
        if not frame.alternatives:
            return node, depth
        branches = (*frame.alternatives, node)
        return Alternation(branches, (branches[0].span[0], end)), max(depth, frame.depth) + 1

    # Groups.

    def open_group(self) -> None:
        start = self.pos
        self.pos += 1
        self.skip_space()
        rest = self.pattern[self.pos : self.pos + 3]
        for prefix in ("?=", "?!", "?<=", "?<!"):
            if rest.startswith(prefix):
                self.fail(
                    start, self.pos + len(prefix),
                    "look-around, including look-ahead and look-behind, is not supported", _NO_PCRE,
                )  # fmt: skip
        flags, name, capturing = self.flags, None, True
        if rest == "?P<" or rest.startswith("?<"):
            self.pos += 3 if rest == "?P<" else 2
            name = self.group_name()
        elif rest.startswith("?"):
            inside = self.pos
            self.pos += 1
            if self.pos >= self.end:
                self.fail(start, start + 1, "unclosed group")
            changed, any_flag = self.group_flags()
            closer = self.char
            self.pos += 1
            if closer == ")":
                if not any_flag:
                    self.fail(inside, inside + 1, "repetition operator missing expression")
                self.flags = changed
                self.push(_MARKER)
                return
            flags, capturing = changed, False
        index = None
        if capturing:
            index = self.next_group
            self.next_group += 1
        self.frames.append(_Frame(start, self.flags, index, name))
        self.check_depth(len(self.frames) - 1, start, start + 1)
        self.flags = flags

    def close_group(self) -> None:
        if len(self.frames) == 1:
            self.fail(self.pos, self.pos + 1, "unopened group")
        frame = self.frames.pop()
        node, depth = self.finish(frame, self.pos)
        self.flags = frame.flags
        self.pos += 1
        if frame.index is not None:
            node = Group(node, frame.index, frame.name, (frame.start, self.pos))
        self.push(_grouped(node) if isinstance(node, Empty) else node, depth + 1)

    def group_name(self) -> str:
        start = self.pos
        while self.pos < self.end and self.char != ">":
            if not _name_char(self.char, self.pos == start):
                self.fail(self.pos, self.pos + 1, "invalid capture group character")
            self.pos += 1
        if self.pos >= self.end:
            self.fail(self.end, self.end, "unclosed capture group name")
        name = self.pattern[start : self.pos]
        if not name:
            self.fail(start, start, "empty capture group name")
        if name in self.names or name in self.taken_names:
            self.fail(start, self.pos, "duplicate capture group name")
        self.names.add(name)
        self.pos += 1
        return name

    def group_flags(self) -> tuple[Flags, bool]:
        """The flags after ``(?``, up to ``:`` or ``)``: those now in force, and whether any was named."""
        changes: dict[str, bool] = {}
        negation: int | None = None
        while self.char not in (":", ")"):
            char = self.char
            if char == "-":
                if negation is not None:
                    self.fail(self.pos, self.pos + 1, "flag negation operator repeated")
                negation = self.pos
            elif char in "imsUuRx":
                if char in changes:
                    self.fail(self.pos, self.pos + 1, "duplicate flag")
                changes[char] = negation is None
            else:
                hint = (
                    _NO_PCRE if self.pattern.startswith("P=", self.pos) or char in ">|&(RC0123456789" else ""
                )
                self.fail(self.pos, self.pos + 1, "unrecognized flag", hint)
            self.pos += 1
            if self.pos >= self.end:
                self.fail(self.end, self.end, "expected flag but got end of regex")
        if negation is not None and self.pattern[self.pos - 1] == "-":
            self.fail(negation, negation + 1, "dangling flag negation operator")
        return replace(self.flags, **changes), bool(changes)

    # Repetitions.

    def take_repeated(self) -> tuple[Node, int]:
        """The item before a repetition operator, taken off its concatenation, with its depth."""
        frame = self.frames[-1]
        if frame.items:
            node, depth = frame.items[-1]
            if not isinstance(node, (_Marker, Empty)):
                frame.items.pop()
                return node, depth
        return self.fail(self.pos, self.pos + 1, "repetition operator missing expression")

    def repeat(self, minimum: int, maximum: int | None) -> None:
        node, depth = self.take_repeated()
        self.pos += 1
        self.add_repeat(node, depth, minimum, maximum)

    def add_repeat(self, node: Node, depth: int, minimum: int, maximum: int | None) -> None:
        """Put the repetition in the place of ``node``; reads the ``?`` of a lazy one."""
        greedy = True
        if self.char == "?":
            greedy = False
            self.pos += 1
        span = (node.span[0], self.pos)
        self.check_depth(depth + 1, *span)
        frame = self.frames[-1]
        if isinstance(node, Literal) and not node.text:  # a group around nothing
            node = Empty(node.span)
        repeat = Repeat(node, minimum, maximum, greedy != self.flags.U, span)
        frame.items.append((repeat, depth + 1))

    def counted_repeat(self) -> None:
        start = self.pos
        node, depth = self.take_repeated()
        unclosed = "unclosed counted repetition"
        if not self.bump_space():
            self.fail(start, self.pos, unclosed)
        minimum = self.decimal()
        if self.pos >= self.end:
            self.fail(start, self.pos, unclosed)
        maximum: int | None
        if self.char == ",":
            if not self.bump_space():
                self.fail(start, self.pos, unclosed)
            if self.char != "}":
                low = self.decimal_value(minimum)
                maximum = self.decimal_value(self.decimal())
            else:
                low, maximum = self.decimal_value(minimum), None
        else:
            low = maximum = self.decimal_value(minimum)
        if self.char != "}":
            self.fail(start, self.pos, unclosed)
        self.bump_space()
        if maximum is not None and maximum < low:
            end = self.pos + (self.char == "?")
            self.fail(start, end, "invalid repetition count range, the start must be <= the end")
        self.add_repeat(node, depth, low, maximum)

    def decimal(self) -> tuple[str, Span]:
        """Digits, blanks around them skipped, and where they are; there may be none."""
        while self.char and self.char in unicode.WHITESPACE:
            self.pos += 1
        start = self.pos
        digits = []
        while self.char and self.char in "0123456789":
            digits.append(self.char)
            self.bump_space()
        span = (start, self.pos)
        while self.char and self.char in unicode.WHITESPACE:
            self.bump_space()
        return "".join(digits), span

    def decimal_value(self, decimal: tuple[str, Span]) -> int:
        digits, (start, end) = decimal
        if not digits:
            self.fail(start, end, "repetition quantifier expects a valid decimal")
        stripped = digits.lstrip("0") or "0"
        if len(stripped) > 10 or int(stripped) > _U32_MAX:
            self.fail(start, end, "decimal literal invalid")
        return int(stripped)

    # Single characters, escapes.

    def primitive(self) -> None:
        char, start = self.pattern[self.pos], self.pos
        flags = self.flags
        if char == "\\":
            found = self.escape()
            if isinstance(found, _Char):
                self.push(self.literal(self.resolve(found), found.span))
            elif isinstance(found, LookKind):
                self.push(Look(found, flags.u, (start, self.pos)))
            else:
                self.push(self.make_class(found))
            return
        self.pos += 1
        span = (start, self.pos)
        if char == ".":
            self.push(Dot(flags.s, flags.R, flags.u, span))
        elif char == "^":
            kind = LookKind.LINE_START_CRLF if flags.R else LookKind.LINE_START
            self.push(Look(kind if flags.m else LookKind.TEXT_START, flags.u, span))
        elif char == "$":
            kind = LookKind.LINE_END_CRLF if flags.R else LookKind.LINE_END
            self.push(Look(kind if flags.m else LookKind.TEXT_END, flags.u, span))
        else:
            self.note_literal(char)
            self.push(self.literal(char, span))

    def note_literal(self, char: str) -> None:
        self.any_literal = True
        self.any_uppercase = self.any_uppercase or char.isupper()

    def resolve(self, found: _Char) -> str:
        """The character of a literal as it stands in the tree: a byte without the flag ``u`` is itself."""
        self.note_literal(found.char)
        if found.byte and not self.flags.u and found.char > "\x7f":
            return chr(0xDC00 + ord(found.char))
        return found.char

    def escape(self) -> _Char | LookKind | ClassPerl | ClassProperty:
        start = self.pos
        self.pos += 1
        char = self.char
        if not char:
            self.fail(start, self.pos, "incomplete escape sequence, reached end of pattern prematurely")
        if char in "0123456789":
            self.fail(start, self.pos + 1, "backreferences are not supported", _NO_PCRE)
        if char in "xuU":
            return self.hexadecimal(start)
        if char in "pP":
            return self.unicode_property(start)
        self.pos += 1
        span = (start, self.pos)
        if char in "dswDSW":
            return ClassPerl(char.lower(), char.isupper(), span)
        if char in _SPECIAL:
            return _Char(_SPECIAL[char], span)
        if char == "b" and self.char == "{":
            return self.special_word_boundary(start) or LookKind.WORD
        if char in _LOOKS:
            return _LOOKS[char]
        if char in _META or (char.isascii() and not char.isalnum()):
            return _Char(char, span)
        hint = _NO_PCRE if char in "kgGKRXZ" else ""
        return self.fail(start, self.pos, "unrecognized escape sequence", hint)

    def special_word_boundary(self, start: int) -> LookKind | None:
        """``\\b{...}`` from its brace on; ``None`` (and nothing read) when that is a counted repetition."""
        brace = self.pos
        if not self.bump_space():
            self.fail(
                start, self.pos,
                "found either the beginning of a special word boundary or a bounded repetition on a \\b with "
                "an opening brace, but no closing brace",
            )  # fmt: skip
        name_start = self.pos
        name = []
        while self.char and self.char.isascii() and (self.char.isalpha() or self.char == "-"):
            name.append(self.char)
            self.bump_space()
        if not name:
            self.pos = brace
            return None
        if self.char != "}":
            reason = "special word boundary assertion is either unclosed or contains an invalid character"
            self.fail(brace, self.pos, reason)
        name_end = self.pos
        self.pos += 1
        kind = _WORD_LOOKS.get("".join(name))
        if kind is None:
            self.fail(
                name_start, name_end,
                "unrecognized special word boundary assertion, valid choices are: start, end, start-half or "
                "end-half",
            )  # fmt: skip
        return kind

    def hexadecimal(self, start: int) -> _Char:
        kind = self.char
        incomplete = "incomplete escape sequence, reached end of pattern prematurely"
        if not self.bump_space():
            self.fail(self.pos, self.pos, incomplete)
        digits: list[str] = []
        brace = self.char == "{"
        digits_start = self.pos
        if brace:
            digits_start += 1
            while (char := self.bump_space()) != "}":
                if not char:
                    self.fail(digits_start - 1, self.pos, incomplete)
                if char not in "0123456789abcdefABCDEF":
                    self.fail(self.pos, self.pos + 1, "invalid hexadecimal digit")
                digits.append(char)
        else:
            for i in range({"x": 2, "u": 4, "U": 8}[kind]):
                char = self.bump_space() if i else self.char
                if not char:
                    self.fail(self.pos, self.pos, incomplete)
                if char not in "0123456789abcdefABCDEF":
                    self.fail(self.pos, self.pos + 1, "invalid hexadecimal digit")
                digits.append(char)
        digits_end = self.pos if brace else self.pos + 1
        self.bump_space()
        if not digits:
            self.fail(digits_start - 1, self.pos, "hexadecimal literal empty")
        significant = "".join(digits).lstrip("0")
        code = int(significant or "0", 16) if len(significant) <= 8 else _U32_MAX
        if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
            self.fail(digits_start, digits_end, "hexadecimal literal is not a Unicode scalar value")
        return _Char(chr(code), (start, self.pos), byte=kind == "x" and not brace)

    def unicode_property(self, start: int) -> ClassProperty:
        negated = self.char == "P"
        incomplete = "incomplete escape sequence, reached end of pattern prematurely"
        if not self.bump_space():
            self.fail(self.pos, self.pos, incomplete)
        if self.char == "{":
            parts = []
            while (char := self.bump_space()) != "}":
                if not char:
                    self.fail(self.pos, self.pos, incomplete)
                parts.append(char)
            body = "".join(parts)
            self.pos += 1
        else:
            body = self.char
            if body == "\\":
                self.fail(self.pos, self.pos + 1, "invalid Unicode character class")
            self.bump_space()
        reason = unicode.property_fault(body) if self.flags.u else "Unicode not allowed here"
        if reason:
            self.defer(start, self.pos, reason)
        return ClassProperty(body, negated, (start, self.pos))

    # Classes.

    def make_class(self, item: ClassItem) -> Class:
        return Class(item, self.flags.i, self.flags.u, item.span)

    def parse_class(self) -> tuple[ClassBracket, int]:
        """A bracketed class from its ``[`` on, with its depth."""
        open_classes: list[_OpenClass] = []
        while True:
            self.skip_space()
            if self.pos >= self.end:
                self.fail(*open_classes[-1].opener, "unclosed character class")
            char = self.pattern[self.pos]
            if char == "[":
                posix = _POSIX.match(self.pattern, self.pos) if open_classes else None
                if posix:
                    span = posix.span()
                    open_classes[-1].items.append(ClassPosix(posix[2], posix[1] == "^", span))
                    self.pos = posix.end()
                else:
                    open_classes.append(self.open_class())
                    self.check_depth(len(self.frames) - 1 + len(open_classes), self.pos - 1, self.pos)
            elif char == "]":
                closed, depth = self.close_class(open_classes.pop())
                if not open_classes:
                    return closed, depth
                open_classes[-1].items.append(closed)
                open_classes[-1].depth = max(open_classes[-1].depth, depth)
            elif char in "&-~" and self.pattern.startswith(char, self.pos + 1):
                self.pos += 2
                self.class_operator(open_classes[-1], char * 2)
            else:
                open_classes[-1].items.append(self.class_range(open_classes[-1].opener))

    def open_class(self) -> _OpenClass:
        start = self.pos
        unclosed = "unclosed character class"
        negated = False
        if not self.bump_space():
            self.fail(start, self.pos, unclosed)
        if self.char == "^":
            negated = True
            if not self.bump_space():
                self.fail(start, self.pos, unclosed)
        items: list[ClassItem] = []
        union_start = self.pos
        while self.char == "-" or (self.char == "]" and not items):
            self.note_literal(self.char)
            last = self.char == "]"
            items.append(ClassLiteral(self.char, (self.pos, self.pos + 1)))
            if not self.bump_space():
                self.fail(start, self.pos if last else start, unclosed)
            if last:
                break
        return _OpenClass((start, self.pos), negated, items, union_start)

    def class_union(self, opened: _OpenClass) -> tuple[ClassItem, int]:
        """The items read since the last operator as one item, with its depth."""
        if len(opened.items) == 1:
            return opened.items[0], opened.depth
        depth = opened.depth + 1 if opened.items else 0
        return ClassUnion(tuple(opened.items), (opened.union_start, self.pos)), depth

    def pending(self, opened: _OpenClass) -> tuple[ClassItem, int]:
        """As :meth:`class_union`, joined to the pending operation if there is one (left to right)."""
        right, depth = self.class_union(opened)
        if opened.left is None:
            return right, depth
        span = (opened.left.span[0], right.span[1])
        depth = max(depth, opened.left_depth) + 1
        self.check_depth(depth, *span)
        return ClassOperation(opened.operator, opened.left, right, span), depth

    def class_operator(self, opened: _OpenClass, operator: str) -> None:
        opened.left, opened.left_depth = self.pending(opened)
        opened.operator = operator
        opened.items, opened.depth, opened.union_start = [], 0, self.pos

    def close_class(self, opened: _OpenClass) -> tuple[ClassBracket, int]:
        item, depth = self.pending(opened)
        self.pos += 1
        return ClassBracket(opened.negated, item, (opened.opener[0], self.pos)), depth + 1

    def class_range(self, opener: Span) -> ClassItem:
        first = self.class_item()
        self.skip_space()
        if self.pos >= self.end:
            self.fail(*opener, "unclosed character class")
        if self.char != "-" or self.peek_space() in ("]", "-"):
            if isinstance(first, _Char):
                return ClassLiteral(self.class_char(first), first.span)
            if isinstance(first, tuple):
                self.fail(*first, "invalid escape sequence found in character class")
            return first
        if not self.bump_space():
            self.fail(*opener, "unclosed character class")
        last = self.class_item()
        for end in (first, last):
            if not isinstance(end, _Char):
                span = end if isinstance(end, tuple) else end.span
                self.fail(*span, "invalid range boundary, must be a literal")
        assert isinstance(first, _Char)
        assert isinstance(last, _Char)
        span = (first.span[0], last.span[1])
        if first.char > last.char:
            self.fail(*span, "invalid character class range, the start must be <= the end")
        return ClassRange(self.class_char(first), self.class_char(last), span)

    def class_char(self, found: _Char) -> str:
        """A character of a class; without the flag ``u`` it must be a byte."""
        char = self.resolve(found)
        if not self.flags.u and not (char <= "\x7f" or "\udc80" <= char <= "\udcff"):
            self.defer(*found.span, "Unicode not allowed here")
        return char

    def class_item(self) -> _Char | Span | ClassPerl | ClassProperty:
        """A character or escape inside brackets; a span for an assertion, which may not stand there."""
        start = self.pos
        if self.char != "\\":
            self.pos += 1
            return _Char(self.pattern[start], (start, self.pos))
        found = self.escape()
        return (start, self.pos) if isinstance(found, LookKind) else found


def _grouped(node: Empty) -> Literal:
    """``(?:)``: unlike nothing at all, a group around nothing can be repeated."""
    return Literal("", False, True, node.span)


def _mergeable(left: Literal, right: Literal) -> bool:
    """Whether two neighbouring literals mean the same as one."""
    if left.text in _UNMERGED or right.text in _UNMERGED:
        return False
    return left.unicode == right.unicode and left.fold == right.fold


def _name_char(char: str, first: bool) -> bool:
    if char == "_" or (not first and char in ".[]"):
        return True
    if char.isascii():
        return char.isalpha() or (not first and char.isdigit())
    return unicode.is_alphabetic(char) or (not first and unicode.is_numeric(char))
