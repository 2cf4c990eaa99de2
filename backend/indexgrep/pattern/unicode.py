"""What the dialect needs to know about Unicode, asked of the Rust engine itself.

Property names, classes and case variants come from the tables of the matching engine, so the parser, the
planner and the printers can never disagree with it about a character. The engine is imported on first use;
patterns without properties and without non-ASCII case never need it.
"""

from __future__ import annotations

import array
import functools
import sys

#: The characters with the property White_Space, which the flag ``x`` skips.
WHITESPACE = frozenset("\t\n\x0b\x0c\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000") | frozenset(
    map(chr, range(0x2000, 0x200B))
)

_KELVIN_SIGN = "\u212a"
_LONG_S = "\u017f"

Ranges = tuple[tuple[int, int], ...]


def has_case(text: str, unicode: bool = True) -> bool:
    """Whether some character of ``text`` may have others equal to it under simple case folding.

    Errs only towards ``True``, for characters newer than Python's tables. Without ``unicode`` only ASCII
    letters have case.
    """
    if text.isascii():
        return text.lower() != text or text.upper() != text
    if not unicode:
        return any(char.isascii() and char.isalpha() for char in text)
    return any(_has_case(char) for char in text)


@functools.lru_cache(maxsize=4096)
def _has_case(char: str) -> bool:
    if char.isascii():
        return char.isalpha()
    if "\udc80" <= char <= "\udcff":
        return False
    # A small letter without a capital may get one in the next version of Unicode, which the engine may have.
    if char.islower() or char.isupper() or char.lower() != char or char.upper() != char:
        return True
    return char.casefold() != char or not char.isprintable()  # the latter: unassigned, for Python


@functools.lru_cache(maxsize=1024)
def case_variants(char: str) -> str:
    """All characters equal to ``char`` under simple case folding, itself included, in order."""
    if char.isascii():
        if not char.isalpha():
            return char
        extra = {"k": _KELVIN_SIGN, "s": _LONG_S}.get(char.lower(), "")
        return char.upper() + char.lower() + extra
    found = class_ranges(f"(?i:\\x{{{ord(char):x}}})")
    return "".join(chr(code) for first, last in found for code in range(first, last + 1))


@functools.lru_cache(maxsize=256)
def property_fault(body: str) -> str:
    """Why ``\\p{body}`` is not a class, in the engine's words; "" when it is one."""
    import paula

    if body in ("}", "{"):
        return "Unicode property not found"
    try:
        paula.BytesRegex(f"\\p{{{body}}}")
    except ValueError as error:
        return str(error).rsplit("error: ", 1)[-1].strip()
    return ""


@functools.lru_cache(maxsize=1)
def _all_characters() -> bytes:
    """Every Unicode scalar value in order, as UTF-8 (4.4 MB)."""
    return b"".join((_encoded(0, 0xD800), _encoded(0xE000, 0x110000)))


def _encoded(first: int, end: int) -> bytes:
    codes = array.array("I", range(first, end))
    if sys.byteorder == "big":
        codes.byteswap()
    return codes.tobytes().decode("utf-32-le").encode()


@functools.lru_cache(maxsize=128)
def class_ranges(rust: str) -> Ranges:
    """The characters that a Rust pattern for one character matches, as inclusive ranges of code points.

    Costs some 30 ms for a class that has not been asked for before, and 100 ms the first time.
    """
    import paula

    data = _all_characters()
    ranges: list[tuple[int, int]] = []
    for match in paula.BytesRegex(f"(?:{rust})+").find_iter(data):
        first, last = _code_at(data, match.start), _code_before(data, match.end)
        if first <= 0xD7FF and last >= 0xE000:
            ranges += [(first, 0xD7FF), (0xE000, last)]
        else:
            ranges.append((first, last))
    return tuple(ranges)


@functools.lru_cache(maxsize=128)
def class_bytes(rust: str) -> tuple[int, ...]:
    """The bytes that a Rust pattern for one byte matches, in order."""
    import paula

    regex = paula.BytesRegex(rust)
    return tuple(byte for byte in range(256) if regex.is_match(bytes((byte,))))


def _code_at(data: bytes, start: int) -> int:
    lead = data[start]
    length = 1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
    return ord(data[start : start + length].decode())


def _code_before(data: bytes, end: int) -> int:
    start = end - 1
    while 0x80 <= data[start] < 0xC0:
        start -= 1
    return ord(data[start:end].decode())


@functools.lru_cache(maxsize=1024)
def is_alphabetic(char: str) -> bool:
    """Whether ``char`` has the property Alphabetic."""
    import paula

    return bool(paula.BytesRegex(r"\p{Alphabetic}").is_match(char.encode()))


@functools.lru_cache(maxsize=1024)
def is_numeric(char: str) -> bool:
    """Whether ``char`` is of the general category Number."""
    import paula

    return bool(paula.BytesRegex(r"\p{N}").is_match(char.encode()))
