"""Finding documents that have the content of hot files.

After a switch of branches and back, a ``touch``, in a linked worktree or another clone, files have new
signatures though an index has their very text. Such a file is read once and hashed; where a document of its
path has the same content id, the document's stamp becomes the file's present signature.

Going by content, and not by git's stat cache and blob ids, is exact under checkout filters, with entries
that git takes for unchanged without looking (``assume-unchanged``, racy ones), and without git. Reading and
hashing 10,000 files of the Linux tree takes about 0.4 s.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import xxhash

from ..errors import IndexCorrupt
from ..index.documents import SIZE_CAP
from ..index.merge import SourceCorrupt
from ..tree.signature import Signature, is_racy, signature_of
from .view import Layer, stamped

_READ = 1 << 20
_NO_CONTENT = bytes(16)


def content_of(directory: int, path: bytes) -> tuple[Signature, bytes] | None:
    """The signature and the content id (XXH3-128) of a file below an open ``directory``.

    ``None`` where no document has it (the file is too large to be indexed), and where it cannot be relied on:
    no regular file, not readable, changed while it was read, or so shortly before that a change since might
    not show.
    """
    observed = time.time_ns()
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, dir_fd=directory)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        signature = signature_of(status)
        if not stat.S_ISREG(status.st_mode) or status.st_size > SIZE_CAP or is_racy(signature, observed):
            return None
        digest = xxhash.xxh3_128()
        while data := os.read(descriptor, _READ):
            digest.update(data)
        if signature_of(os.fstat(descriptor)) != signature:
            return None
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return signature, digest.digest()


def adopted(
    root: str, layers: Sequence[Layer], paths: Sequence[bytes], cancel: threading.Event
) -> tuple[list[Layer], int]:
    """The layers with stamps for those of ``paths`` that a document has the content of, and how many are.

    Only files of a path that some layer has a document for are read. When ``cancel`` is set, what was found
    by then counts. Raises ``SourceCorrupt`` for a damaged index.
    """
    wanted = [_Wanted(layer, paths) for layer in layers]
    count = 0
    try:
        descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return list(layers), 0  # the root is gone, as the next refresh will say
    try:
        for place in np.flatnonzero(np.logical_or.reduce([one.known for one in wanted])).tolist():
            if cancel.is_set():
                break
            found = content_of(descriptor, paths[place])
            if found is not None:
                takers = [one for one in wanted if one.take(place, *found)]
                count += bool(takers)
    finally:
        os.close(descriptor)
    return [one.layer_then() for one in wanted], count


class _Wanted:
    """The documents of one layer that could be adopted."""

    def __init__(self, layer: Layer, paths: Sequence[bytes]) -> None:
        self._layer = layer
        documents = layer.index.locate(paths)
        try:
            contents = layer.index.contents_of(documents[documents >= 0])
        except IndexCorrupt as error:
            raise SourceCorrupt(layer.index, error.message) from error
        ids = [content.tobytes() for content in contents]
        self._documents = documents
        self._ids: dict[int, bytes] = {
            place: content
            for place, content in zip(np.flatnonzero(documents >= 0).tolist(), ids, strict=True)
            if content != _NO_CONTENT
        }
        self.known: npt.NDArray[np.bool_] = np.zeros(len(paths), np.bool_)
        self.known[list(self._ids)] = True
        self._taken: list[int] = []
        self._signatures: list[Signature] = []

    def take(self, place: int, signature: Signature, content: bytes) -> bool:
        """Adopt the file if this layer has its content."""
        if self._ids.get(place) != content:
            return False
        self._taken.append(int(self._documents[place]))
        self._signatures.append(signature)
        return True

    def layer_then(self) -> Layer:
        if not self._taken:
            return self._layer
        return stamped(self._layer, np.array(self._taken, np.int64), self._signatures)
