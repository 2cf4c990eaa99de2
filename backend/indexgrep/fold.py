"""The folding of text for the index, and nothing else.

Both sides of the index use it: the grams of a document are cut from ``fold(text)``, and the strings a pattern
needs are stored folded. It maps ASCII ``A``-``Z`` to ``a``-``z``, and the only two other characters that
Unicode's simple case folding equates with an ASCII letter to that letter: U+212A (Kelvin sign) to ``k`` and
U+017F (long s) to ``s``. So one index serves case-sensitive and case-insensitive searches.
"""

from __future__ import annotations

_LOWER = bytes(byte + 32 if 0x41 <= byte <= 0x5A else byte for byte in range(256))

#: UTF-8 of U+212A KELVIN SIGN, folded to ``k``.
KELVIN_SIGN = b"\xe2\x84\xaa"
#: UTF-8 of U+017F LATIN SMALL LETTER LONG S, folded to ``s``.
LONG_S = b"\xc5\xbf"


def fold(data: bytes) -> bytes:
    """``data`` as the index sees it; never longer than ``data``, and ``fold(fold(x)) == fold(x)``.

    Works on bytes, so text that is not UTF-8 passes through: only the five bytes of the two special
    characters, in sequence, are ever more than a byte to themselves.
    """
    folded = data.translate(_LOWER)
    if KELVIN_SIGN in folded:
        folded = folded.replace(KELVIN_SIGN, b"k")
    if LONG_S in folded:
        folded = folded.replace(LONG_S, b"s")
    return folded
