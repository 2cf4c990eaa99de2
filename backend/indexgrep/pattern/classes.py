"""Character classes: their Rust text, what is known of them without tables, and their full extent."""

from __future__ import annotations

from .ast import (
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
    class_postorder,
)
from .unicode import Ranges, class_ranges

_ASCII = (1 << 128) - 1


def _span_mask(first: int, last: int) -> int:
    """The set of the code points ``first`` to ``last`` that are ASCII, a bit each."""
    last = min(last, 127)
    return ((1 << (last + 1)) - (1 << first)) if first <= last else 0


def _mask(chars: str) -> int:
    mask = 0
    for char in chars:
        mask |= 1 << ord(char)
    return mask


_DIGIT = _span_mask(0x30, 0x39)
_UPPER = _span_mask(0x41, 0x5A)
_LOWER = _span_mask(0x61, 0x7A)
_PUNCT = _span_mask(0x21, 0x2F) | _span_mask(0x3A, 0x40) | _span_mask(0x5B, 0x60) | _span_mask(0x7B, 0x7E)
_SPACE = _mask("\t\n\x0b\x0c\r ")
_WORD = _DIGIT | _UPPER | _LOWER | _mask("_")
#: ASCII letters that a non-ASCII character folds to.
_FOLD_TARGETS = _mask("kKsS")

_POSIX = {
    "alnum": _DIGIT | _UPPER | _LOWER,
    "alpha": _UPPER | _LOWER,
    "ascii": _ASCII,
    "blank": _mask("\t "),
    "cntrl": _span_mask(0, 0x1F) | _mask("\x7f"),
    "digit": _DIGIT,
    "graph": _span_mask(0x21, 0x7E),
    "lower": _LOWER,
    "print": _span_mask(0x20, 0x7E),
    "punct": _PUNCT,
    "space": _SPACE,
    "upper": _UPPER,
    "word": _WORD,
    "xdigit": _DIGIT | _mask("abcdefABCDEF"),
}
_PERL = {"d": _DIGIT, "s": _SPACE, "w": _WORD}


def _fold_mask(mask: int) -> int:
    return mask | (mask & _UPPER) << 32 | (mask & _LOWER) >> 32


def ascii_bounds(node: Class) -> tuple[int, int]:
    """Which ASCII characters the class surely holds, and which it may hold; bit sets of 128 bits.

    The two differ only where a Unicode property or folding from non-ASCII characters has its say.
    """

    def folded(bounds: tuple[int, int]) -> tuple[int, int]:
        if not node.fold:
            return bounds
        must, may = map(_fold_mask, bounds)
        return must, may | (_FOLD_TARGETS if node.unicode else 0)

    stack: list[tuple[int, int]] = []
    for item in class_postorder(node.item):
        if isinstance(item, ClassLiteral):
            mask = _span_mask(ord(item.char), ord(item.char))
            stack.append((mask, mask))
        elif isinstance(item, ClassRange):
            mask = _span_mask(ord(item.first), ord(item.last))
            stack.append((mask, mask))
        elif isinstance(item, ClassPosix):
            must, may = folded((_POSIX[item.name], _POSIX[item.name]))
            stack.append((_ASCII & ~may, _ASCII & ~must) if item.negated else (must, may))
        elif isinstance(item, ClassPerl):
            mask = _PERL[item.kind]
            mask = _ASCII & ~mask if item.negated else mask
            stack.append((mask, mask))
        elif isinstance(item, ClassProperty):
            stack.append((0, _ASCII))
        elif isinstance(item, ClassBracket):
            must, may = folded(stack.pop())
            stack.append((_ASCII & ~may, _ASCII & ~must) if item.negated else (must, may))
        elif isinstance(item, ClassUnion):
            must = may = 0
            for _ in item.items:
                one_must, one_may = stack.pop()
                must, may = must | one_must, may | one_may
            stack.append((must, may))
        else:
            right_must, right_may = folded(stack.pop())
            left_must, left_may = folded(stack.pop())
            if item.operator == "&&":
                stack.append((left_must & right_must, left_may & right_may))
            elif item.operator == "--":
                stack.append((left_must & ~right_may, left_may & ~right_must))
            else:
                must = (left_must & ~right_may) | (right_must & ~left_may)
                stack.append((must, (left_may | right_may) & ~(left_must & right_must)))
    return stack.pop()


def small_set(node: Class, limit: int) -> list[str] | None:
    """The characters written out in a class before folding, if it is a plain list of at most ``limit``.

    ``None`` for anything else: negations, operations, properties, Perl classes.
    """
    chars: list[str] = []
    for item in class_postorder(node.item):
        if isinstance(item, ClassLiteral):
            chars.append(item.char)
        elif isinstance(item, ClassRange):
            first, last = ord(item.first), ord(item.last)
            if last - first > limit * 2 or first < 0xD800 <= last:
                return None
            chars.extend(map(chr, range(first, last + 1)))
        elif isinstance(item, ClassPosix) and not item.negated:
            mask = _POSIX[item.name]
            chars.extend(chr(code) for code in range(128) if mask >> code & 1)
        elif not (isinstance(item, ClassUnion) or (isinstance(item, ClassBracket) and not item.negated)):
            return None
        if len(chars) > limit * 3:
            return None
    return sorted(set(chars))


def full_ranges(node: Class) -> Ranges:
    """The extent of a Unicode class, or of one without ``unicode`` that holds ASCII only."""
    return class_ranges(rust_class(node))


_CLASS_META = frozenset("\\.+*?()|[]{}^$#&-~")


def _class_char(char: str) -> str:
    if char in _CLASS_META:
        return "\\" + char
    if "\udc80" <= char <= "\udcff":
        return f"\\x{ord(char) - 0xDC00:02X}"
    if char.isprintable():
        return char
    return {"\n": r"\n", "\r": r"\r", "\t": r"\t"}.get(char, f"\\x{{{ord(char):x}}}")


def rust_class(node: Class, without: str = "") -> str:
    """The class in Rust syntax with its flags, less the characters ``without`` (``\\n``, ``\\r``)."""
    text = rust_item(node.item)
    if without:
        removed = "".join(map(_class_char, without))
        text = f"[{text}--[{removed}]]" if len(without) > 1 else f"[{text}--{removed}]"
    # A Perl class by itself is never folded; as an operand it would be, to no effect.
    flags = ("i" if node.fold else "") + ("" if node.unicode else "-u")
    return f"(?{flags}:{text})" if flags else text


def rust_item(root: ClassItem) -> str:
    """A class item in Rust syntax; flags are the caller's concern."""
    stack: list[str] = []
    for item in class_postorder(root):
        if isinstance(item, ClassLiteral):
            stack.append(_class_char(item.char))
        elif isinstance(item, ClassRange):
            stack.append(f"{_class_char(item.first)}-{_class_char(item.last)}")
        elif isinstance(item, ClassPosix):
            stack.append(f"[:{'^' if item.negated else ''}{item.name}:]")
        elif isinstance(item, ClassPerl):
            stack.append("\\" + (item.kind.upper() if item.negated else item.kind))
        elif isinstance(item, ClassProperty):
            stack.append(f"\\{'P' if item.negated else 'p'}{{{item.body}}}")
        elif isinstance(item, ClassBracket):
            stack.append(f"[{'^' if item.negated else ''}{stack.pop() or _EMPTY}]")
        elif isinstance(item, ClassUnion):
            count = len(item.items)
            parts = stack[len(stack) - count :] if count else []
            del stack[len(stack) - count :]
            stack.append("".join(parts))
        elif isinstance(item, ClassOperation):
            right, left = stack.pop(), stack.pop()
            stack.append(f"[{left or _EMPTY}]{item.operator}[{right or _EMPTY}]")
    return stack.pop()


#: A class item that holds nothing (an operand may be empty in the pattern, which Rust reads as such too).
_EMPTY = "a&&b"
