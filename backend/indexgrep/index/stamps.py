"""What one worktree knows of its own files: a third file in an index's directory, ``stamps-<key>``.

The *stamp* of a document is the stat signature that its file had in the worktree when the file's content was
known to be the document's. While the file still has that signature, the document stands for it. An index says
nothing of worktrees, so each of those that use it keeps its own stamps, named by ``runtime.root_key``::

    magic         8 bytes   b"IGREPstm"
    checksum      u64       XXH3 of all that follows, and then of the key
    identity      u64       ``Index.identity`` of the index that they are for
    documents     u64
    signatures    SIGNATURE (tree.signature) for each document; zeros for one that stands for no file

Integers are little-endian. The file is only a cache: where it is missing, damaged, of another index or of
another worktree, no document stands for any file until the files' contents have been compared. It is written
under a temporary name (``stamps-<key>.tmp-...``) and not synced: what a crash of the machine leaves of it is
found out by the checksum. Its mtime is when it was last written or read.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import stat
import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt
import xxhash

from ..errors import IndexCorrupt
from ..tree.signature import SIGNATURE
from .format import POSTINGS, read_header
from .reader import Index

#: Worktrees whose stamps are kept with one index; those used least recently go first. (They come and go: a
#: key does not tell whether its worktree is still there.)
KEPT = 32

_MAGIC = b"IGREPstm"
_CHECKSUM = struct.Struct("<Q")
_COUNTS = struct.Struct("<QQ")
_BODY = len(_MAGIC) + _CHECKSUM.size
_HEAD = _BODY + _COUNTS.size
_KEY = re.compile(r"[0-9A-Za-z]{1,64}")
_PREFIX = "stamps-"
_TEMPORARY = ".tmp-"


def stamps_path(directory: Path, key: str) -> Path:
    """The file of a worktree. Raises ``ValueError`` for what is no key."""
    return directory / _name(key)


def read_stamps(directory: Path, key: str, index: Index) -> npt.NDArray[np.void] | None:
    """``SIGNATURE`` of each document's file in the worktree ``key``; ``None`` where that is not known.

    Raises nothing, whatever the file is or holds.
    """
    path = stamps_path(directory, key)
    expected = _HEAD + SIGNATURE.itemsize * index.document_count
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(descriptor, "rb", buffering=0) as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_size != expected:
                return None
            data = file.read(expected)
            with contextlib.suppress(OSError):  # a cache that cannot be written still serves
                os.utime(descriptor)
    except OSError:
        return None
    if len(data) != expected or not data.startswith(_MAGIC):
        return None
    body = memoryview(data)[_BODY:]
    if _CHECKSUM.unpack_from(data, len(_MAGIC))[0] != _checksum(body, key):
        return None
    if _COUNTS.unpack_from(body) != (index.identity, index.document_count):
        return None
    return np.frombuffer(data, SIGNATURE, index.document_count, _HEAD)


def write_stamps(directory: Path, key: str, identity: int, signatures: npt.NDArray[np.void]) -> None:
    """Keep the stamps that the worktree ``key`` has for the index with this identity in ``directory``.

    Readers find the old ones or these. Raises ``OSError`` where they cannot be written, also where
    ``directory`` holds another index by now: that one's stamps are left alone.
    """
    folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # An index is replaced by another directory, never within its own: what holds here goes on to hold.
        if _index_in(folder) != (identity, len(signatures)):
            raise OSError(errno.ESTALE, "the index was replaced", os.fspath(directory))
        _write(folder, key, _COUNTS.pack(identity, len(signatures)) + signatures.tobytes())
    finally:
        os.close(folder)


def tidy(directory: Path) -> None:
    """Remove what killed writers left in an index's directory, and the stamps of all but ``KEPT`` worktrees.

    What cannot be removed stays.
    """
    kept: list[tuple[int, str]] = []
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if not entry.name.startswith(_PREFIX):
                continue
            if _TEMPORARY in entry.name:
                _remove_abandoned(entry.path)
            else:
                kept.append((entry.stat(follow_symlinks=False).st_mtime_ns, entry.path))
    for _, path in sorted(kept, reverse=True)[KEPT:]:
        with contextlib.suppress(OSError):
            os.unlink(path)


def _name(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise ValueError(f"{key!r} is not a key of a worktree")
    return _PREFIX + key


def _index_in(folder: int) -> tuple[int, int] | None:
    """The identity and the number of documents of the index in an open directory."""
    descriptor = os.open(POSTINGS, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    with open(descriptor, "rb", buffering=0) as file:
        try:
            header, _, identity = read_header(file, POSTINGS, os.fstat(descriptor).st_size)
        except IndexCorrupt:
            return None
    return identity, header.documents


def _write(folder: int, key: str, body: bytes) -> None:
    """Write the file into an open directory."""
    name = _name(key)
    temporary = f"{name}{_TEMPORARY}{secrets.token_hex(4)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600, dir_fd=folder)
    try:
        with open(descriptor, "wb", buffering=0) as file:
            with contextlib.suppress(OSError):  # not every file system has locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)  # see ``_remove_abandoned``
            view = memoryview(_MAGIC + _CHECKSUM.pack(_checksum(body, key)) + body)
            while view:
                view = view[file.write(view) :]
            os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def _remove_abandoned(path: str) -> None:
    """Remove a temporary file unless somebody is writing it: a writer locks it, and is not disturbed."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
        finally:
            os.close(descriptor)


def _checksum(body: bytes | memoryview, key: str) -> int:
    state = xxhash.xxh3_64(body)
    state.update(key.encode())
    return state.intdigest()
