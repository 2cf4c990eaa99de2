"""The text of a file: byte-order marks, and UTF-16 transcoded to UTF-8, as ripgrep's decoder does.

Everything is searched as UTF-8 bytes. A file without a byte-order mark is searched as it is, whatever its
encoding, so Latin-1 and other invalid UTF-8 lose nothing.
"""

from __future__ import annotations

import codecs
import re

_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}

_SURROGATE = re.compile("[\ud800-\udfff]")


def decode(data: bytes) -> bytes:
    """``data`` without its byte-order mark, and as UTF-8 when the mark says UTF-16.

    What UTF-16 cannot hold (an unpaired surrogate, half a code unit at the end) becomes U+FFFD, as the WHATWG
    decoder makes it.
    """
    head = data[:2]
    if head == b"\xef\xbb":
        return data[3:] if data[2:3] == b"\xbf" else data
    name = _UTF16.get(head)
    if name is None:
        return data
    if len(data) < 3:  # ripgrep needs three bytes to believe the mark, and drops these two all the same
        return b""
    return decode_utf16(data[2:], name)


def decode_utf16(data: bytes, name: str) -> bytes:
    """UTF-16 ``data`` (without the mark) as UTF-8. A second mark is dropped too, as ripgrep does."""
    if data[:2] == (codecs.BOM_UTF16_LE if name == "utf-16-le" else codecs.BOM_UTF16_BE):
        data = data[2:]
    even = len(data) & ~1
    # "surrogatepass" keeps unpaired surrogates, one code point each, to be replaced one by one. A pair cut in
    # half by the end of the file is one fault, not two: the WHATWG decoder replaces both parts at once.
    text = data[:even].decode(name, "surrogatepass")
    cut = even != len(data)
    if cut and text and "\ud800" <= text[-1] <= "\udbff":
        text = text[:-1]
    if _SURROGATE.search(text) is not None:
        text = _SURROGATE.sub("\ufffd", text)
    if cut:
        text += "\ufffd"
    return text.encode("utf-8")
