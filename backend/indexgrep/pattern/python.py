"""From the syntax tree to the syntax of the ``regex`` module, the fallback where the Rust engine refuses a
pattern's size.

The text it runs on is decoded as UTF-8 with ``surrogateescape``: a byte that is not UTF-8 is a lone
surrogate. All classes are printed as explicit ranges taken from the Rust engine, so Unicode versions cannot
differ, and since those ranges hold no surrogate, a byte that is not UTF-8 never matches a class or a dot, as
in Rust.

What a pattern without Unicode (``(?-u)``) may match of the bytes of a character cannot be said on decoded
text; such patterns raise :class:`PatternError`, unless they only speak of ASCII and of bytes that are never
part of UTF-8.
"""

from __future__ import annotations

import functools
from typing import NoReturn

from ..errors import PatternError
from .ast import Alternation, Class, Concat, Dot, Group, Literal, Look, LookKind, Node, Repeat, postorder
from .classes import full_ranges, rust_class
from .printer import Lines
from .unicode import Ranges, case_variants, class_bytes, class_ranges

_NEVER = "(?!)"
#: Bytes that occur nowhere in UTF-8, so decoding always leaves them as they are.
_NEVER_UTF8 = frozenset((0xC0, 0xC1, *range(0xF5, 0x100)))
_SURROGATES = r"\ud800-\udfff"
_ASCII_WORD = "[0-9A-Za-z_]"

_LINE_START_CRLF = r"(?:(?<=\n)|(?<=\r)(?!\n)|\A)"
_LINE_END_CRLF = r"(?:(?=\r)|(?<!\r)(?=\n)|\Z)"
_LOOKS = {
    LookKind.TEXT_START: r"\A",
    LookKind.TEXT_END: r"\Z",
    LookKind.LINE_START: r"(?<![^\n])",
    LookKind.LINE_END: r"(?![^\n])",
    LookKind.LINE_START_CRLF: _LINE_START_CRLF,
    LookKind.LINE_END_CRLF: _LINE_END_CRLF,
}
_WORD_LOOKS = {
    LookKind.WORD: "(?:(?<={w})(?!{w})|(?<!{w})(?={w}))",
    LookKind.NOT_WORD: "(?:(?<={w})(?={w})|(?<!{w})(?!{w}))",
    LookKind.WORD_START: "(?<!{w})(?={w})",
    LookKind.WORD_END: "(?<={w})(?!{w})",
    LookKind.WORD_START_HALF: "(?<!{w})",
    LookKind.WORD_END_HALF: "(?!{w})",
}
#: Where Rust's Unicode assertions decode beside them, and are false next to a byte that is not UTF-8.
_VALID_LEFT = rf"(?<![{_SURROGATES}])"
_VALID_RIGHT = rf"(?![{_SURROGATES}])"


def print_python(root: Node, lines: Lines, pattern: str) -> str:
    """The tree as a pattern for ``regex.compile`` (version 0, no flags). Raises :class:`PatternError`."""
    stack: list[str] = []
    for node in postorder(root):
        if isinstance(node, Repeat):
            maximum = "" if node.maximum is None else node.maximum
            lazy = "" if node.greedy else "?"
            stack.append(f"(?:{stack.pop()}){{{node.minimum},{maximum}}}{lazy}")
        elif isinstance(node, Group):
            pass
        elif isinstance(node, (Concat, Alternation)):
            below = node.items if isinstance(node, Concat) else node.branches
            parts = stack[len(stack) - len(below) :]
            del stack[len(stack) - len(below) :]
            stack.append("".join(parts) if isinstance(node, Concat) else f"(?:{'|'.join(parts)})")
        else:
            stack.append(_leaf(node, lines, pattern))
    return stack.pop()


def _leaf(node: Node, lines: Lines, pattern: str) -> str:
    if isinstance(node, Literal):
        return "".join(_literal_char(char, node) for char in _decoded(node, pattern))
    if isinstance(node, Dot):
        if not node.unicode:
            _refuse(node, pattern)
        excepted = set(lines.terminators)
        if not node.newline:
            excepted |= set("\r\n" if node.crlf else "\n")
        return f"[^{''.join(_char(ord(char)) for char in sorted(excepted))}{_SURROGATES}]"
    if isinstance(node, Class):
        ranges = full_ranges(node) if node.unicode else _byte_ranges(node, pattern)
        return _class(_without(ranges, lines.terminators))
    if isinstance(node, Look):
        return _look(node)
    return ""


def _decoded(node: Literal, pattern: str) -> str:
    """The literal as decoded text has it; raw bytes must be whole characters or no part of any."""
    text = node.data.decode("utf-8", "surrogateescape")
    for char in text:
        if "\udc80" <= char <= "\udcff" and ord(char) - 0xDC00 not in _NEVER_UTF8:
            _refuse(node, pattern)
    return text


def _literal_char(char: str, node: Literal) -> str:
    if not node.fold or "\udc80" <= char <= "\udcff" or not (node.unicode or char.isascii()):
        return _char(ord(char))
    variants = case_variants(char)
    if not node.unicode:
        variants = "".join(filter(str.isascii, variants))
    return _class(tuple((ord(one), ord(one)) for one in variants))


def _byte_ranges(node: Class, pattern: str) -> Ranges:
    """The bytes of a class without Unicode, those above 0x7F as surrogates."""
    codes = []
    for byte in class_bytes(rust_class(node)):
        if byte > 0x7F and byte not in _NEVER_UTF8:
            _refuse(node, pattern)
        codes.append(byte if byte <= 0x7F else 0xDC00 + byte)
    return tuple((code, code) for code in codes)


def _without(ranges: Ranges, chars: str) -> Ranges:
    for code in map(ord, chars):
        split: list[tuple[int, int]] = []
        for first, last in ranges:
            if first <= code <= last:
                split += [(a, b) for a, b in ((first, code - 1), (code + 1, last)) if a <= b]
            else:
                split.append((first, last))
        ranges = tuple(split)
    return ranges


def _char(code: int) -> str:
    if code < 0x80 and chr(code).isalnum():
        return chr(code)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _class(ranges: Ranges) -> str:
    if not ranges:
        return _NEVER
    if len(ranges) == 1 and ranges[0][0] == ranges[0][1]:
        return _char(ranges[0][0])
    items = (_char(a) if a == b else f"{_char(a)}-{_char(b)}" for a, b in ranges)
    return f"[{''.join(items)}]"


@functools.lru_cache(maxsize=1)
def _unicode_word() -> str:
    return _class(class_ranges(r"\w"))


def _look(node: Look) -> str:
    if node.kind in _LOOKS:
        return _LOOKS[node.kind]
    text = _WORD_LOOKS[node.kind].format(w=_unicode_word() if node.unicode else _ASCII_WORD)
    if node.unicode:
        if node.kind in (LookKind.NOT_WORD, LookKind.WORD_START_HALF):
            text = _VALID_LEFT + text
        if node.kind in (LookKind.NOT_WORD, LookKind.WORD_END_HALF):
            text += _VALID_RIGHT
    return text


def _refuse(node: Literal | Dot | Class, pattern: str) -> NoReturn:
    raise PatternError(
        pattern,
        *node.span,
        "this part matches single bytes of characters, which the fallback engine cannot do",
        "The pattern is too large for the main engine. Make it smaller, or leave out (?-u) and --no-unicode.",
    )
