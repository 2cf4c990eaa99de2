"""Reading an index: the document table in memory, the lookup table mapped, lists read on demand.

The format is described in ``index.format``. Everything a file says is checked before it is used: headers and
sections by their hashes when the index is opened, what is read later (posting lists, content ids) by theirs
each time it is read, and all numbers against what they count. What does not hold raises ``IndexCorrupt``.
"""

from __future__ import annotations

import bisect
import contextlib
import fcntl
import mmap
import os
import weakref
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt
import xxhash

from ..errors import IndexCorrupt, IndexFault
from ..grams.frequent import Frequent
from ..pattern.query import Query
from .candidates import Candidates, candidates
from .format import (
    ALL_FLAGS,
    BINARY,
    BLOCK,
    CONTENT,
    LOOKUP,
    NOT_INDEXED,
    OFFSET_STEP,
    POSTINGS,
    Header,
    read_header,
)
from .varint import decode_gaps

#: Paths from which on a table of all of them is faster than searching for each.
_MANY = 1000


class Entry(NamedTuple):
    """What the lookup table says about one key."""

    #: Documents in the list.
    documents: int
    #: Bytes of the list, 0 where it is ``only``.
    length: int
    #: Where the list starts in the section ``lists``.
    offset: int
    #: The only document of a list of one, else -1.
    only: int


class Stretch(NamedTuple):
    """What an index has for the keys of a range, in ascending order: columns of the table, and the lists."""

    keys: npt.NDArray[np.uint32]
    lengths: npt.NDArray[np.uint32]
    counts: npt.NDArray[np.uint32]
    #: uint8, one list after another.
    lists: npt.NDArray[np.uint8]


class Index:
    """An open index. Reading from several threads at once is safe.

    Its files are given back with the last reference to it, or before that by ``close``, which is not to be
    raced with reads.

    Documents are numbered from 0 in ascending order of their paths' bytes.
    """

    def __init__(self, directory: Path) -> None:
        """Open the index in ``directory``.

        Raises ``IndexCorrupt`` where it is damaged, of another version or made with another weight table,
        ``IndexFault`` where it is missing or cannot be read.
        """
        self.directory = directory
        self._postings = -1
        self._map: mmap.mmap | None = None
        try:
            header = self._open_postings(directory / POSTINGS)
            self._open_lookup(directory / LOOKUP, header)
        except FileNotFoundError as error:
            self.close()
            if directory.is_dir():
                raise IndexCorrupt(f"the index in {directory} is not complete") from error
            raise IndexFault(f"there is no index in {directory}") from error
        except OSError as error:
            self.close()
            raise IndexFault(f"cannot read the index in {directory}: {error.strerror}") from error
        except BaseException:
            self.close()
            raise

    # Opening

    def _open_postings(self, path: Path) -> Header:
        with open(path, "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            header, starts, identity = read_header(file, POSTINGS, size)
            count = header.documents

            def section(name: str, expected: int | None) -> bytes:
                length, digest = header.sections[name]
                if expected is not None and length != expected:
                    raise IndexCorrupt(f"section {name} has {length} bytes, not {expected}")
                data = _pread(file.fileno(), length, starts[name])
                if xxhash.xxh3_64_intdigest(data) != digest:
                    raise IndexCorrupt(f"section {name} is damaged")
                return data

            lengths = np.frombuffer(section("path_lengths", 2 * count), "<u2")
            self._ends = np.cumsum(lengths, dtype=np.int64)
            self._paths = _decompress(section("paths", None), int(self._ends[-1]) if count else 0)
            section("contents", CONTENT.itemsize * count)
            self._contents_start = starts["contents"]
            self._contents_hash = header.sections["contents"][1]
            #: uint8, the flags of each document (``index.format``).
            self.flags: npt.NDArray[np.uint8] = np.frombuffer(section("flags", count), np.uint8)
            #: uint64, bytes of text that were scanned, of each document.
            self.text_sizes: npt.NDArray[np.uint64] = np.frombuffer(section("text_sizes", 8 * count), "<u8")
            self._lists_start = starts["lists"]
            self._lists_size = header.sections["lists"][0]
            if any(
                _pread(
                    file.fileno(),
                    size - starts["lists"] - self._lists_size,
                    starts["lists"] + self._lists_size,
                )
            ):
                raise IndexCorrupt("the postings file's end is damaged")
            if np.any(self.flags & ~np.uint8(ALL_FLAGS)):
                raise IndexCorrupt("a document has flags that this version does not know")
            self._postings = os.dup(file.fileno())
            self._release = weakref.finalize(self, os.close, self._postings)
        self.document_count = count
        #: Tells this index from every other, also from another in the same place: the header hash.
        self.identity = identity
        #: The commit that the index stands for (hex), or empty.
        self.commit = header.commit
        #: Documents whose text is not fully indexed, ascending: candidates of every query.
        self.unindexed: npt.NDArray[np.int64] = np.flatnonzero(self.flags & NOT_INDEXED)
        #: Documents with a NUL byte, of which only the text before it is indexed, ascending.
        self.binary: npt.NDArray[np.int64] = np.flatnonzero(self.flags & BINARY)
        return header

    def _open_lookup(self, path: Path, postings: Header) -> None:
        with open(path, "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            header, starts, _ = read_header(file, LOOKUP, size)
            if header.postings_hash != self.identity or header.documents != postings.documents:
                raise IndexCorrupt("the lookup file belongs to another postings file")
            sizes = {name: length for name, (length, _) in header.sections.items()}
            keys = sizes["keys"] // 4
            frequent_bits = sizes["frequent"] * 8
            blocks = -(-self._lists_size // BLOCK)
            expected = (4 * keys, 4 * keys, 4 * keys, 8 * -(-keys // OFFSET_STEP), 8 * blocks)
            if (
                tuple(sizes[name] for name in ("keys", "lengths", "counts", "offsets", "block_hashes"))
                != expected
                or not 8 <= frequent_bits <= 1 << 32
                or frequent_bits & (frequent_bits - 1)
            ):
                raise IndexCorrupt("the lookup file's sections do not fit together")
            _check_lookup(file, header, starts, size, self.document_count, self._lists_size)
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        #: Bytes of the lookup file.
        self.lookup_size = size

        def array(name: str, kind: str) -> npt.NDArray[Any]:
            assert self._map is not None
            itemsize = np.dtype(kind).itemsize
            return np.frombuffer(self._map, kind, sizes[name] // itemsize, starts[name])

        self.frequent = Frequent(array("frequent", "u1"))
        self._keys = array("keys", "<u4")
        self._lengths = array("lengths", "<u4")
        self._counts = array("counts", "<u4")
        self._offsets = array("offsets", "<u8")
        self._block_hashes = array("block_hashes", "<u8")

    def close(self) -> None:
        """Give back the files. The index must not be used afterwards; closing twice is fine."""
        if self._postings >= 0:
            self._postings = -1
            self._release()
        # The arrays refer to the map, which is released with the last of them.
        for name in ("_keys", "_lengths", "_counts", "_offsets", "_block_hashes", "frequent"):
            self.__dict__.pop(name, None)
        self._map = None

    # Documents

    def is_on_disk(self) -> bool:
        """Whether its directory still holds this index, not another one or none."""
        try:
            there = os.stat(self.directory / POSTINGS)
            return os.path.samestat(there, os.fstat(self._postings))
        except OSError:
            return False

    def hold(self) -> None:
        """Tell other processes, while it is open, that it is in use: by a shared lock on ``postings``."""
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(self._postings, fcntl.LOCK_SH | fcntl.LOCK_NB)

    @property
    def postings_size(self) -> int:
        """Bytes of the postings file."""
        return os.fstat(self._postings).st_size

    @property
    def key_count(self) -> int:
        return len(self._keys)

    def path(self, document: int) -> bytes:
        """The path of a document, relative to the root."""
        end = int(self._ends[document])
        start = int(self._ends[document - 1]) if document else 0
        return self._paths[start:end]

    def paths_of(self, documents: Iterable[int]) -> list[bytes]:
        """The paths of some documents (an ndarray or any iterable of their numbers), in their order."""
        chosen = np.asarray(documents if isinstance(documents, np.ndarray) else list(documents), np.int64)
        ends = self._ends[chosen].tolist()
        starts = np.where(chosen > 0, self._ends[chosen - 1], 0).tolist()
        paths = self._paths
        return [paths[start:end] for start, end in zip(starts, ends, strict=True)]

    def paths(self) -> list[bytes]:
        """The paths of all documents; for 78,000 documents about 7 MB of objects."""
        return self.paths_of(np.arange(self.document_count))

    def find(self, path: bytes) -> int | None:
        """The document with this path."""
        at = bisect.bisect_left(_PathList(self), path)
        return at if at < self.document_count and self.path(at) == path else None

    def locate(self, paths: Sequence[bytes]) -> npt.NDArray[np.int64]:
        """The document of each of ``paths``, -1 where there is none. Faster than ``find`` for many paths."""
        if len(paths) < _MANY:
            found = (self.find(path) for path in paths)
            return np.fromiter((-1 if number is None else number for number in found), np.int64, len(paths))
        numbers = {path: number for number, path in enumerate(self.paths())}
        return np.fromiter((numbers.get(path, -1) for path in paths), np.int64, len(paths))

    def contents_of(self, documents: npt.NDArray[np.int64]) -> npt.NDArray[np.void]:
        """The content ids (``format.CONTENT``) of some documents, in their order.

        Zeros stand for a file that was not read in full, and are no content's id. The ids of all documents
        are read, so ask for many at once. Raises ``IndexFault`` where they cannot be read, ``IndexCorrupt``
        where they are damaged.
        """
        try:
            data = _pread(self._postings, CONTENT.itemsize * self.document_count, self._contents_start)
        except OSError as error:
            raise IndexFault(f"cannot read the index in {self.directory}: {error.strerror}") from error
        if xxhash.xxh3_64_intdigest(data) != self._contents_hash:
            raise IndexCorrupt("section contents is damaged")
        return np.frombuffer(data, CONTENT)[documents]

    # Queries

    def candidates(self, query: Query, *, after_nul: bool = True) -> Candidates:
        """The documents that may satisfy ``query``; see ``index.candidates.candidates``."""
        return candidates(self, query, after_nul=after_nul)

    # Lists

    def entries(self, keys: Sequence[int]) -> list[Entry | None]:
        """What the table says of each key; ``None`` for a key that no document has."""
        if not len(self._keys):
            return [None] * len(keys)
        wanted = np.asarray(keys, np.uint32)
        places = np.searchsorted(self._keys, wanted)
        places[places == len(self._keys)] = 0
        present = self._keys[places] == wanted
        found: list[Entry | None] = []
        for place, hit in zip(places.tolist(), present.tolist(), strict=True):
            if not hit:
                found.append(None)
                continue
            length = int(self._lengths[place])
            count = int(self._counts[place])
            if length == 0:
                found.append(Entry(1, 0, 0, count))
                continue
            found.append(Entry(count, length, self._list_start(place), -1))
        return found

    @property
    def bitmap_size(self) -> int:
        """Bytes of a list in bitmap form."""
        return -(-self.document_count // 8)

    def documents_of(self, entry: Entry) -> npt.NDArray[np.int64]:
        """The documents of a list, ascending. Raises ``IndexCorrupt`` where the list is damaged."""
        if entry.only >= 0:
            return np.array([entry.only], np.int64)
        if entry.length == self.bitmap_size:
            documents: npt.NDArray[np.int64] | None = np.flatnonzero(
                np.unpackbits(self.read_list(entry), bitorder="little")
            )
        else:
            documents = decode_gaps(self.read_list(entry))
        if documents is None or len(documents) != entry.documents or documents[-1] >= self.document_count:
            raise IndexCorrupt("a posting list is malformed")
        return documents

    def among(self, entry: Entry, documents: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Those of ``documents`` that are in a list of bitmap form."""
        bits = self.read_list(entry)
        found: npt.NDArray[np.int64] = documents[(bits[documents >> 3] >> (documents & 7)) & 1 == 1]
        return found

    def read_list(self, entry: Entry) -> npt.NDArray[np.uint8]:
        """The bytes of a list. Raises ``IndexCorrupt`` where a block of them is damaged."""
        return self._read_lists(entry.offset, entry.offset + entry.length)

    def _read_lists(self, start: int, stop: int) -> npt.NDArray[np.uint8]:
        """The bytes from ``start`` to ``stop`` of the lists."""
        first = start // BLOCK
        begin = first * BLOCK
        end = min(-(-stop // BLOCK) * BLOCK, self._lists_size)
        try:
            data = _pread(self._postings, end - begin, self._lists_start + begin)
        except OSError as error:
            raise IndexFault(f"cannot read the index in {self.directory}: {error.strerror}") from error
        view = memoryview(data)
        for number, at in enumerate(range(0, len(data), BLOCK), first):
            if xxhash.xxh3_64_intdigest(view[at : at + BLOCK]) != self._block_hashes[number]:
                raise IndexCorrupt("a block of posting lists is damaged")
        return np.frombuffer(data, np.uint8, stop - start, start - begin)

    # Ranges of keys

    @property
    def lists_size(self) -> int:
        """Bytes of all lists."""
        return self._lists_size

    def milestones(self) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.uint64]]:
        """Every ``OFFSET_STEP``-th key, and where its list starts among the bytes of all lists."""
        return self._keys[::OFFSET_STEP], self._offsets

    def stretch(self, low: int, high: int) -> Stretch:
        """All there is of the keys ``low``, ..., ``high`` - 1. Raises ``IndexCorrupt``, ``IndexFault``."""
        first, last = (
            int(np.searchsorted(self._keys, np.uint32(key))) if key < 1 << 32 else len(self._keys)
            for key in (low, high)
        )
        lengths = self._lengths[first:last]
        start = self._list_start(first)
        lists = self._read_lists(start, start + int(lengths.sum(dtype=np.int64)))
        return Stretch(self._keys[first:last], lengths, self._counts[first:last], lists)

    def _list_start(self, place: int) -> int:
        """Where the list of the key at ``place`` of the table starts."""
        step = place // OFFSET_STEP
        if step == len(self._offsets):
            return self._lists_size
        between = self._lengths[step * OFFSET_STEP : place].sum(dtype=np.int64)
        return int(self._offsets[step]) + int(between)


class _PathList(Sequence[bytes]):
    """The paths as a sequence, for ``bisect``."""

    def __init__(self, index: Index) -> None:
        self._index = index

    def __len__(self) -> int:
        return self._index.document_count

    def __getitem__(self, number: Any) -> Any:
        return self._index.path(number)


def _pread(descriptor: int, size: int, offset: int) -> bytes:
    """Exactly ``size`` bytes at ``offset``. Raises ``IndexCorrupt`` where the file ends before."""
    data = os.pread(descriptor, size, offset)
    while len(data) < size:  # a read may stop at 2 GB
        more = os.pread(descriptor, size - len(data), offset + len(data))
        if not more:
            raise IndexCorrupt("a file of the index is cut off")
        data += more
    return data


def _decompress(data: bytes, size: int) -> bytes:
    """The paths, which must be exactly ``size`` bytes."""
    decompressor = zlib.decompressobj()
    try:
        paths = decompressor.decompress(data, size + 1)
    except zlib.error as error:
        raise IndexCorrupt("the section paths does not decompress") from error
    if len(paths) != size or decompressor.unconsumed_tail or decompressor.unused_data:
        raise IndexCorrupt("the section paths has not the length that the paths have")
    return paths


def _check_lookup(
    file: BinaryIO, header: Header, starts: dict[str, int], size: int, documents: int, lists_size: int
) -> None:
    """Check the hashes and the numbers of the lookup table.

    The sections are read, not mapped, so that the check leaves no pages resident.
    """
    sections: dict[str, bytes] = {}
    end = min(starts.values())
    for name, (length, digest) in header.sections.items():
        data = _pread(file.fileno(), length, starts[name])
        if xxhash.xxh3_64_intdigest(data) != digest:
            raise IndexCorrupt(f"section {name} is damaged")
        if any(_pread(file.fileno(), starts[name] - end, end)):
            raise IndexCorrupt(f"the padding before section {name} is damaged")
        end = starts[name] + length
        if name in ("keys", "lengths", "counts", "offsets"):
            sections[name] = data
    if any(_pread(file.fileno(), size - end, end)):
        raise IndexCorrupt("the lookup file's end is damaged")
    keys = np.frombuffer(sections["keys"], "<u4")
    lengths = np.frombuffer(sections["lengths"], "<u4")
    counts = np.frombuffer(sections["counts"], "<u4")
    offsets = np.frombuffer(sections["offsets"], "<u8")
    if np.any(keys[1:] <= keys[:-1]):
        raise IndexCorrupt("the keys are not in ascending order")
    ends = np.cumsum(lengths, dtype=np.uint64)
    if (int(ends[-1]) if len(ends) else 0) != lists_size or np.any(
        (ends - lengths)[::OFFSET_STEP] != offsets
    ):
        raise IndexCorrupt("the lists' lengths do not fit their places")
    bound = np.where(lengths == 0, documents - 1, documents)
    least = np.where(lengths == 0, 0, 2)
    if np.any(counts > bound) or np.any(counts < least) or np.any(lengths > -(-documents // 8)):
        raise IndexCorrupt("a list has more documents than there are")
