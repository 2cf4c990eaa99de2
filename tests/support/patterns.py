"""Generators of patterns in the Rust ``regex`` dialect, of broken ones, and of texts that match them."""

from __future__ import annotations

import random

from indexgrep.pattern import ast
from indexgrep.pattern.classes import rust_class
from indexgrep.pattern.unicode import case_variants, class_bytes, class_ranges

_WORDS = (
    "foo",
    "bar",
    "Baz",
    "struct",
    "int",
    "ab",
    "kilo",
    "mass",
    "x",
    "é",
    "Éa",
    "ſt",
    "\u212ag",
    "中",
    "ß",
    "_t",
)
_ESCAPES = (r"\.", r"\t", r"\x41", r"\x{e9}", r"\u006b", r"\U00000053", r"\-", r"\*", r"\\", r"\/")
_CLASSES = (
    r"\d", r"\w", r"\s", r"\W", r"\S", r"\D", r"[abc]", r"[a-d]", r"[^a]", r"[^\s]", r"[[:alpha:]_]",
    r"[\w&&[^b]]", r"[a-z--[aeiou]]", r"[k-s~~m-z]", r"\pL", r"\p{Greek}", r"\PN", r"[^[:punct:]\s]",
    r"[\pL\d]", r"[ks]", r"[éa]", r"[[a-c][x]]", r"[]a]", r"[-a]", r"\p{Lu}", r"[0-9A-Fa-f]",
)  # fmt: skip
_LOOKS = ("^", "$", r"\b", r"\B", r"\b{start}", r"\b{end}", r"\b{start-half}", r"\b{end-half}", r"\<", r"\>")
_FLAGS = ("(?i)", "(?-i)", "(?s)", "(?U)", "(?x)", "(?m)", "(?i-u)", "(?-u)", "(?u)", "(?R)", "(?-m)")
_QUANTIFIERS = ("*", "+", "?", "{2}", "{1,3}", "{2,}", "{0,2}", "*?", "+?", "??", "{1,2}?", "{0}")


def random_pattern(rng: random.Random, depth: int = 3, *, flags: bool = True, anchors: bool = True) -> str:
    """A pattern that is well formed, but for a class that the flags around it may forbid."""
    if depth == 0:
        return _atom(rng, anchors)
    parts = []
    for _ in range(rng.choice((1, 1, 2, 2, 3, 4))):
        kind = rng.random()
        if kind < 0.55:
            part = _atom(rng, anchors)
        elif kind < 0.65:
            part = f"({random_pattern(rng, depth - 1, flags=flags, anchors=anchors)})"
        elif kind < 0.8:
            part = f"(?:{random_pattern(rng, depth - 1, flags=flags, anchors=anchors)})"
        elif kind < 0.85 and flags:
            flag = rng.choice(("i", "s", "x", "i-s", "U"))
            part = f"(?{flag}:{random_pattern(rng, depth - 1, flags=flags, anchors=anchors)})"
        elif kind < 0.88 and flags:
            parts.append(rng.choice(_FLAGS))
            continue
        else:
            branches = [random_pattern(rng, depth - 1, flags=flags, anchors=anchors) for _ in range(2)]
            if rng.random() < 0.2:
                branches.append("")
            part = f"(?:{'|'.join(branches)})"
        if rng.random() < 0.25:
            if not part.endswith((")", "]")) and len(part) > 1 and not part.startswith("\\"):
                part = f"(?:{part})"
            part += rng.choice(_QUANTIFIERS)
        parts.append(part)
    return "".join(parts)


def _atom(rng: random.Random, anchors: bool) -> str:
    kind = rng.random()
    if kind < 0.55:
        return rng.choice(_WORDS)
    if kind < 0.65:
        return rng.choice(_ESCAPES)
    if kind < 0.85:
        return rng.choice(_CLASSES)
    if kind < 0.93 or not anchors:
        return "."
    return rng.choice(_LOOKS)


_NOISE = (
    "(", ")", "[", "]", "{", "}", "*", "+", "?", "|", "\\", "^", "$", "-", "&&", "--", "~~", "[:", ":]",
    ":", ",", "1", "0", "9", "a", "x", "b", "p", "P", "L", "u", "U", "{2", "{,", "{1,", "(?", "(?P<",
    "(?<n>", ">", "<", "=", "!", "i", "s", " ", "#", "\n", "\\b{", "start", "\\p{", "\\x", "\\u{", "é", ".",
    "\\<", "\\Q", "[^", "[]", "[a-", "(?i", "(?-", "(?x)", "(?-u)", "\\pN", "\\p{sc=Greek}",
    "\\p{scx!=Latn}", "\\p{age:3.0}", "\\p{gc=Lu}", "\\p{ white space }", "\\p{isGreek}", "\\p{cf}",
    "\\xff", "\\d", "[[:word:]]", "[[:^digit:]]", "[\\d-z]", "\\1", "\\k", "(?=", "(?<!", "\\A", "\\z",
    "\\Z", "\\_", "\\e", "\\\u00a0", "\u2003", "(?P=n)", "(?P<n>)", "(?<é1>)", "99999999999", "\\x{110000}",
    "\\x{d800}", "\\u00e9", "{0}", "{3,2}", "a{ 2 , 3 }",
)  # fmt: skip


def broken_pattern(rng: random.Random) -> str:
    """Anything, well formed or not: noise, or a mutation of a well-formed pattern."""
    if rng.random() < 0.4:
        return "".join(rng.choice(_NOISE) for _ in range(rng.randint(1, 9)))
    pattern = random_pattern(rng, 2)
    for _ in range(rng.randint(1, 3)):
        at = rng.randint(0, len(pattern))
        cut = rng.randint(0, 2)
        pattern = pattern[:at] + (rng.choice(_NOISE) if rng.random() < 0.7 else "") + pattern[at + cut :]
    return pattern


def matching_text(rng: random.Random, root: ast.Node) -> bytes:
    """A text made to match ``root``; assertions are hoped for, so check before relying on it."""
    parts: list[bytes] = []
    stack: list[ast.Node] = [root]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Literal):
            for char in node.text:
                byte = char.encode("utf-8", "surrogateescape")
                if node.fold and (node.unicode or char.isascii()):
                    variants = case_variants(char)
                    if not node.unicode:
                        variants = "".join(filter(str.isascii, variants))
                    byte = rng.choice(variants).encode()
                parts.append(byte)
        elif isinstance(node, ast.Dot):
            parts.append(rng.choice((b"a", b"Z", b" ", "é".encode(), "\u212a".encode())))
        elif isinstance(node, ast.Class):
            parts.append(_member(rng, node))
        elif isinstance(node, ast.Repeat):
            most = node.minimum + 2 if node.maximum is None else min(node.maximum, node.minimum + 2)
            stack.extend([node.child] * rng.randint(node.minimum, most))
        elif isinstance(node, ast.Group):
            stack.append(node.child)
        elif isinstance(node, ast.Concat):
            stack.extend(reversed(node.items))
        elif isinstance(node, ast.Alternation):
            stack.append(rng.choice(node.branches))
    return b"".join(parts)


def _member(rng: random.Random, node: ast.Class) -> bytes:
    """Some character of a class, preferably one of its first."""
    text = rust_class(node)
    if not node.unicode:
        members = [byte for byte in class_bytes(text) if byte not in (0x0A, 0x0D)]
        return bytes((rng.choice(members),)) if members else b""
    ranges = class_ranges(text)
    if not ranges:
        return b""
    first, last = rng.choice(ranges[:6] if rng.random() < 0.8 else ranges)
    code = rng.randint(first, min(last, first + 40))
    return chr(0x61 if code in (0x0A, 0x0D) and first <= 0x61 <= last else code).encode()


_TEXT_PIECES = (
    b"foo", b"bar", b"Baz", b"struct", b"int", b"ab", b"kilo", b"KILO", b"mass", b"MASS", b"x", b"\t", b" ",
    b"_", b"1", b"42", b".", b"-", b"(", "é".encode(), "É".encode(), "ſ".encode(), "\u212a".encode(),
    "中".encode(), "ß".encode(), "Ω".encode(), b"\xff", b"\xc3", b"\r", b"a", b"b", b"A", b"s", b"k", b"t",
    b"",
)  # fmt: skip


def random_line(rng: random.Random) -> bytes:
    """A line (without its terminator) of the pieces that :func:`random_pattern` uses, and some others."""
    return b"".join(rng.choice(_TEXT_PIECES) for _ in range(rng.randint(0, 8)))


def random_text(rng: random.Random, lines: int) -> bytes:
    """Lines with various terminators; the last may have none."""
    text = b"".join(random_line(rng) + rng.choice((b"\n", b"\n", b"\n", b"\r\n")) for _ in range(lines))
    return text + (random_line(rng) if rng.random() < 0.5 else b"")
