"""What one worktree knows of its own files: a third file in an index's directory, ``stamps-<key>``.

The *stamp* of a document is the stat signature that its file had in the worktree when the file's content was
known to be the document's. While the file still has that signature, the document stands for it. An index says
nothing of worktrees, so each of those that use it keeps its own stamps, named by ``runtime.root_key``::

    magic         8 bytes   b"IGREPstm"
    identity      u64       ``Index.identity`` of the index that they are for
    checksum      u64       XXH3 of the signatures, seeded with the identity
    documents     u64
    signatures    SIGNATURE (tree.signature) for each document; zeros for one that stands for no file

Integers are little-endian. The file is only a cache: where it is missing, damaged or of another index, no
document stands for any file until the files' contents have been compared. It is written under a temporary
name and not synced: what a crash of the machine leaves of it is found out by the checksum.
"""

from __future__ import annotations

import os
import secrets
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt
import xxhash

from ..tree.signature import SIGNATURE
from .reader import Index

_MAGIC = b"IGREPstm"
_HEAD = struct.Struct("<8sQQQ")
_PREFIX = "stamps-"


def stamps_path(directory: Path, key: str) -> Path:
    return directory / f"{_PREFIX}{key}"


def read_stamps(directory: Path, key: str, index: Index) -> npt.NDArray[np.void] | None:
    """``SIGNATURE`` of each document's file in the worktree ``key``; ``None`` where that is not known."""
    try:
        data = stamps_path(directory, key).read_bytes()
        magic, identity, checksum, documents = _HEAD.unpack_from(data)
    except (OSError, struct.error):
        return None
    if (magic, identity, documents) != (_MAGIC, index.identity, index.document_count):
        return None
    body = data[_HEAD.size :]
    if len(body) != documents * SIGNATURE.itemsize or checksum != _checksum(identity, body):
        return None
    return np.frombuffer(body, SIGNATURE)


def write_stamps(directory: Path, key: str, identity: int, signatures: npt.NDArray[np.void]) -> None:
    """Keep the stamps that the worktree ``key`` has for the index with this identity in ``directory``.

    Raises ``OSError``.
    """
    body = signatures.tobytes()
    head = _HEAD.pack(_MAGIC, identity, _checksum(identity, body), len(signatures))
    path = stamps_path(directory, key)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb") as file:
            file.write(head)
            file.write(body)
        os.rename(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def remove_unfinished(directory: Path) -> None:
    """Remove what killed writers left in an index's directory. Raises ``OSError``."""
    for path in directory.glob(f".{_PREFIX}*"):
        path.unlink(missing_ok=True)


def _checksum(identity: int, body: bytes) -> int:
    return xxhash.xxh3_64_intdigest(body, seed=identity)
