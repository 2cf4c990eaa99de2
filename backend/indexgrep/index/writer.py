"""Writing the two files. The format is described in ``index.format``."""

from __future__ import annotations

import os
import threading
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import xxhash

from ..errors import Cancelled
from ..grams.weights import weights_id
from .format import ALIGNMENT, BLOCK, LOOKUP, OFFSET_STEP, POSTINGS, SECTIONS, Header, padded

_COPY = 64 * BLOCK


def write_index(
    directory: Path,
    *,
    commit: str,
    paths: Sequence[bytes],
    contents: npt.NDArray[np.void],
    flags: npt.NDArray[np.uint8],
    text_sizes: npt.NDArray[np.uint64],
    frequent: npt.NDArray[np.uint8],
    keys: npt.NDArray[np.uint32],
    lengths: npt.NDArray[np.uint32],
    counts: npt.NDArray[np.uint32],
    lists: Sequence[Path],
    cancel: threading.Event,
) -> int:
    """Write ``postings`` and ``lookup`` into ``directory``, with mode 0600, and sync them.

    Answers what will be ``Index.identity``.

    ``paths`` are in ascending order; ``lists`` are files that hold, one after another, the lists that
    ``keys``, ``lengths`` and ``counts`` describe. Raises ``OSError``, and ``Cancelled`` when ``cancel`` is
    set.
    """
    table = {
        "paths": zlib.compress(b"".join(paths), 6),
        "path_lengths": np.fromiter(map(len, paths), "<u2", len(paths)).tobytes(),
        "contents": contents.tobytes(),
        "flags": flags.tobytes(),
        "text_sizes": text_sizes.astype("<u8").tobytes(),
    }
    sections = {name: (len(data), xxhash.xxh3_64_intdigest(data)) for name, data in table.items()}
    sections["lists"] = (int(lengths.sum(dtype=np.int64)), 0)
    header = Header(POSTINGS, commit, len(paths), sections, weights_id())
    packed, postings_hash = header.pack()
    with _create(directory / POSTINGS) as file:
        file.write(packed)
        for data in table.values():
            _write_padded(file, data)
        block_hashes = _copy_lists(file, lists, sections["lists"][0], cancel)
        _sync(file)

    ends = np.cumsum(lengths, dtype=np.uint64)
    starts = (ends - lengths)[::OFFSET_STEP]
    arrays = (
        frequent,
        keys.astype("<u4", copy=False),
        lengths.astype("<u4", copy=False),
        counts.astype("<u4", copy=False),
        starts.astype("<u8", copy=False),
        block_hashes.astype("<u8", copy=False),
    )
    sections = {
        name: (array.nbytes, xxhash.xxh3_64_intdigest(np.ascontiguousarray(array).data))
        for name, array in zip(SECTIONS[LOOKUP], arrays, strict=True)
    }
    header = Header(LOOKUP, commit, len(paths), sections, weights_id(), postings_hash)
    with _create(directory / LOOKUP) as file:
        file.write(header.pack()[0])
        for array in arrays:
            _write_padded(file, array.tobytes())
        _sync(file)
    return postings_hash


def _create(path: Path) -> BinaryIO:
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb")


def _write_padded(file: BinaryIO, data: bytes) -> None:
    file.write(data)
    file.write(bytes(-len(data) % ALIGNMENT))


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def _copy_lists(
    file: BinaryIO, lists: Sequence[Path], size: int, cancel: threading.Event
) -> npt.NDArray[np.uint64]:
    """Append the content of ``lists`` and the padding; the hash of every ``BLOCK`` bytes of the content."""
    hashes: list[int] = []
    buffer = bytearray(_COPY)
    view = memoryview(buffer)
    filled = 0
    for path in lists:
        with open(path, "rb", buffering=0) as part:
            while read := part.readinto(view[filled:]):
                filled += read
                if filled == _COPY:
                    if cancel.is_set():
                        raise Cancelled("the build was cancelled")
                    hashes += [
                        xxhash.xxh3_64_intdigest(view[at : at + BLOCK]) for at in range(0, _COPY, BLOCK)
                    ]
                    file.write(buffer)
                    filled = 0
    hashes += [xxhash.xxh3_64_intdigest(view[at : min(at + BLOCK, filled)]) for at in range(0, filled, BLOCK)]
    file.write(view[:filled])
    file.write(bytes(padded(size) - size))
    return np.array(hashes, np.uint64)
