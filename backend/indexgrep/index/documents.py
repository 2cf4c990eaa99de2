"""From a file to the text of it that is indexed.

UTF-16 with a byte-order mark is transcoded to UTF-8, a UTF-8 byte-order mark is dropped, and of a file with
NUL bytes only the text before the first one counts. (Folding is left to the scan.)
"""

from __future__ import annotations

import codecs
import os
import stat
import time
from typing import NamedTuple

import xxhash

from ..tree.signature import NO_SIGNATURE, Signature, is_racy, signature_of
from .format import BAD_ENCODING, BINARY, CHANGED, NOT_INDEXED, TOO_LARGE, UNREADABLE, UTF16

#: The content id of a file that was not read.
NO_CONTENT = bytes(16)

#: Larger files are not indexed but searched every time.
SIZE_CAP = 64 << 20


class Text(NamedTuple):
    """What a file gave: ``size`` bytes of text from ``start`` of the buffer, the document's flags, the file's
    signature and the id of its content."""

    start: int
    size: int
    flags: int
    signature: Signature
    content: bytes


def content_id(data: bytes | memoryview) -> bytes:
    """What tells the raw content of a file from any other: its XXH3-128, 16 bytes."""
    return xxhash.xxh3_128_digest(data)


class TextBuffer:
    """A buffer that files are read into one behind another, and used again."""

    def __init__(self, size: int) -> None:
        self.data = bytearray(size)
        self.filled = 0

    def clear(self) -> None:
        self.filled = 0

    def reserve(self, size: int) -> None:
        """Make room for ``size`` more bytes."""
        if self.filled + size > len(self.data):
            grown = bytearray(max(2 * len(self.data), self.filled + size))
            grown[: self.filled] = memoryview(self.data)[: self.filled]
            self.data = grown

    def read(self, path: bytes, cap: int = SIZE_CAP) -> Text:
        """Append the text of the file at ``path``.

        The file is looked at before and after reading through the same descriptor: one that changed
        meanwhile is not indexed, and has no signature. One that was changed so shortly before that another
        change might not show is indexed, but has no signature either. Never blocks on a FIFO and follows no
        symbolic link.
        """
        observed = time.time_ns()
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return _refused(UNREADABLE)
        try:
            before = os.fstat(descriptor)
            if not stat.S_ISREG(before.st_mode):
                return _refused(UNREADABLE)
            if before.st_size > cap:
                return _refused(TOO_LARGE, signature_of(before))
            size = before.st_size
            self.reserve(size + 1)  # one more, to see the end
            start = self.filled
            read = 0
            with memoryview(self.data) as view:
                while read <= size:
                    more = os.readv(descriptor, [view[start + read : start + size + 1]])
                    if not more:
                        break
                    read += more
            signature = signature_of(before)
            if read != size or signature_of(os.fstat(descriptor)) != signature:
                return _refused(CHANGED)
        except OSError:
            return _refused(UNREADABLE)
        finally:
            os.close(descriptor)
        with memoryview(self.data) as view:
            content = content_id(view[start : start + size])
        return self._text(size, NO_SIGNATURE if is_racy(signature, observed) else signature, content)

    def append(self, content: bytes, cap: int = SIZE_CAP) -> Text:
        """Append the text of ``content``, which is not the working tree's."""
        if len(content) > cap:
            return _refused(TOO_LARGE)
        self.reserve(len(content))
        self.data[self.filled : self.filled + len(content)] = content
        return self._text(len(content), NO_SIGNATURE, content_id(content))

    def _text(self, size: int, signature: Signature, raw: bytes) -> Text:
        """The text in the ``size`` bytes that were put behind what is filled."""
        start = self.filled
        flags = 0
        head = bytes(memoryview(self.data)[start : start + min(size, 3)])
        if head[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
            encoding = "utf-16-le" if head[:2] == codecs.BOM_UTF16_LE else "utf-16-be"
            try:
                content = bytes(memoryview(self.data)[start + 2 : start + size]).decode(encoding).encode()
            except UnicodeDecodeError:
                return _refused(BAD_ENCODING, signature, raw)
            self.reserve(len(content))
            size = len(content)
            self.data[start : start + size] = content
            flags |= UTF16
        elif head == codecs.BOM_UTF8:
            start += 3
            size -= 3
        nul = self.data.find(b"\0", start, start + size)
        if nul >= 0:
            size = nul - start
            flags |= BINARY
        self.filled = start + size
        return Text(start, size, flags, signature, raw)


def _refused(flag: int, signature: Signature = NO_SIGNATURE, content: bytes = NO_CONTENT) -> Text:
    return Text(0, 0, flag | NOT_INDEXED, signature, content)
