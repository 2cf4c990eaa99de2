"""The two files of an index, field by field, and their headers.

Integers are little-endian. Both files begin alike::

    magic         8 bytes   b"IGREPpst" (postings) or b"IGREPlkp" (lookup)
    header size   u32       bytes of the header map, n
    header hash   u64       XXH3 of the magic, the size and the header map
    header map    n bytes   msgpack, see ``Header``
    padding       zeros up to a multiple of 64

and then their sections follow, each padded with zeros to a multiple of 64 and described in the header by its
size in bytes before padding and its XXH3; the file ends with the last section's padding. Sections of
``postings``::

    paths         zlib of all paths, in ascending order of their bytes, one after another
    path_lengths  u16 for each document: bytes of its path
    contents      16 bytes for each document: the XXH3-128 of the raw bytes of the file that its text was
                  made from; zeros where it was not read (UNREADABLE, TOO_LARGE, CHANGED)
    flags         u8 for each document: NOT_INDEXED, ... below
    text_sizes    u64 for each document: bytes of text that were scanned
    lists         the posting lists in ascending order of their keys; no hash: see ``block_hashes``

Sections of ``lookup``, the only file that is mapped into memory::

    frequent      the frequent set's bits (grams.frequent); a power of two of bytes
    keys          u32, the keys of all stored grams, strictly ascending
    lengths       u32 for each key: bytes of its list
    counts        u32 for each key: documents in its list
    offsets       u64 for every OFFSET_STEP-th key: where its list starts in ``lists``
    block_hashes  u64 for every BLOCK bytes of ``lists``: their XXH3, verified when they are read

A posting list has one of three forms, told by its length:

* length 0: the gram is in one document only, whose number stands in ``counts``;
* length ceil(documents / 8): a bitmap, document d being bit d % 8 of byte d // 8 (unused bits are 0);
* any shorter length: gaps. ``document - previous - 1`` for each document, the first against -1, as base-128
  varints, least significant group first, the highest bit set on all but the last byte.

A list takes the bitmap form exactly when the gaps would not be shorter. ``lookup`` names the ``postings``
file it belongs to by that file's header hash, so that the halves of two builds are never read together.

So an index says what texts there are by what paths, and nothing of where or when: any worktree may use it.
What one worktree knows of its own files is in a third file beside the two, see ``index.stamps``.

Versions: 1, the first, had the files' stat signatures in the place of ``contents``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, BinaryIO

import msgpack
import numpy as np
import xxhash

from ..errors import IndexCorrupt
from ..grams.weights import weights_id

VERSION = 2
POSTINGS = "postings"
LOOKUP = "lookup"
MAGIC = {POSTINGS: b"IGREPpst", LOOKUP: b"IGREPlkp"}
SECTIONS = {
    POSTINGS: ("paths", "path_lengths", "contents", "flags", "text_sizes", "lists"),
    LOOKUP: ("frequent", "keys", "lengths", "counts", "offsets", "block_hashes"),
}
ALIGNMENT = 64
OFFSET_STEP = 64
BLOCK = 16 * 1024

#: Flags of a document. Its text is not (fully) in the index, so it is a candidate of every query ...
NOT_INDEXED = 1
#: ... since it could not be read (missing, no permission, not a regular file),
UNREADABLE = 2
#: ... since it is larger than the builder's cap,
TOO_LARGE = 4
#: ... since it changed while it was read,
CHANGED = 8
#: ... or since it is UTF-16 that does not decode (odd length, lone surrogates).
BAD_ENCODING = 16
#: It has a NUL byte, and only the text before the first one is in the index.
BINARY = 32
#: Its text was transcoded from UTF-16.
UTF16 = 64
ALL_FLAGS = 127

#: The type of an element of ``contents``.
CONTENT = np.dtype("V16")

_PREFIX = 8 + 4 + 8
_LARGEST_HEADER = 1 << 16


@dataclass(frozen=True)
class Header:
    """The header map. ``sections`` gives each section's size in bytes and XXH3 (0 for ``lists``), in file
    order."""

    kind: str
    commit: str
    documents: int
    sections: dict[str, tuple[int, int]]
    weights: str
    #: ``lookup`` only: the header hash of its ``postings`` file.
    postings_hash: int = 0
    version: int = VERSION

    def pack(self) -> tuple[bytes, int]:
        """The file's bytes up to its first section, and the header hash."""
        body: bytes = msgpack.packb(
            {
                "version": self.version,
                "weights": self.weights,
                "commit": self.commit,
                "documents": self.documents,
                "postings": self.postings_hash,
                "sections": [[name, size, digest] for name, (size, digest) in self.sections.items()],
            }
        )
        start = MAGIC[self.kind] + len(body).to_bytes(4, "little")
        digest = xxhash.xxh3_64_intdigest(start + body)
        packed = start + digest.to_bytes(8, "little") + body
        return packed + bytes(-len(packed) % ALIGNMENT), digest


def padded(size: int) -> int:
    return size + -size % ALIGNMENT


def read_header(file: BinaryIO, kind: str, size: int) -> tuple[Header, dict[str, int], int]:
    """The header of an open file of ``size`` bytes, where each section starts, and the header hash.

    Raises ``IndexCorrupt`` for anything but an undamaged header of this version, and where the file's size
    is not exactly what the header says.
    """
    start = file.read(_PREFIX)
    if len(start) < _PREFIX or start[:8] != MAGIC[kind]:
        raise IndexCorrupt(f"the {kind} file is not an index file")
    length = int.from_bytes(start[8:12], "little")
    if length > min(size, _LARGEST_HEADER):
        raise IndexCorrupt(f"the {kind} file's header is damaged")
    body = file.read(length)
    digest = xxhash.xxh3_64_intdigest(start[:12] + body)
    if digest != int.from_bytes(start[12:], "little"):
        raise IndexCorrupt(f"the {kind} file's header is damaged")
    padding = file.read(padded(_PREFIX + length) - _PREFIX - length)
    header = _checked(kind, body)
    starts = {}
    at = padded(_PREFIX + length)
    for name, (section_size, _) in header.sections.items():
        starts[name] = at
        at += padded(section_size)
    if at != size or any(padding):
        raise IndexCorrupt(f"the {kind} file has {size} bytes where its header says {at}")
    return header, starts, digest


def _checked(kind: str, body: bytes) -> Header:
    try:
        fields: Any = msgpack.unpackb(body)
        version, weights = fields["version"], fields["weights"]
        if version != VERSION:
            raise IndexCorrupt(f"the index is of format version {version}, not {VERSION}")
        if weights != weights_id():
            raise IndexCorrupt(f"the index was made with the weight table {weights}, not {weights_id()}")
        commit, documents, postings = fields["commit"], fields["documents"], fields["postings"]
        sections = {name: (section_size, digest) for name, section_size, digest in fields["sections"]}
        numbers = [documents, postings, *(value for pair in sections.values() for value in pair)]
        if not isinstance(commit, str) or any(type(value) is not int or value < 0 for value in numbers):
            raise IndexCorrupt(f"the {kind} file's header has a field of a wrong type")
    except (ValueError, TypeError, KeyError, msgpack.UnpackException) as error:
        raise IndexCorrupt(f"the {kind} file's header is not what this version writes") from error
    if tuple(sections) != SECTIONS[kind]:
        raise IndexCorrupt(f"the {kind} file's sections are not those of this version")
    return Header(kind, commit, documents, sections, weights, postings, version)
