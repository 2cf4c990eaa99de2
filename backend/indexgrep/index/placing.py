"""Putting an index in its place and taking it away: under its name there is a complete index or nothing.

Everything is written beside it first, and takes its name when it is complete and synced; it gives its name up
before anything of it is removed. What is left of who was killed has a name that tells so (``TEMPORARY``).
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from ..errors import IndexFault
from ..runtime import private_dir

#: What a temporary directory's name has behind that of its destination.
TEMPORARY = ".tmp-"


@contextlib.contextmanager
def replacing(destination: Path) -> Iterator[Path]:
    """A temporary directory, in which the block makes the directory ``index``, complete and synced.

    That takes the place of ``destination``, whose parent is made where it is missing. Whatever else is in
    the temporary directory, or happens, it is removed. An ``OSError`` of the block becomes an ``IndexFault``.
    """
    temporary = temporary_name(destination)
    try:
        private_dir(destination.parent)
        temporary.mkdir(mode=0o700)
        try:
            yield temporary
            _replace(temporary / "index", destination)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        raise write_fault(destination, error.strerror or str(error), error.errno) from error


def temporary_name(place: Path) -> Path:
    """A name for what is to become ``place``, or was it, that nothing else has."""
    return place.with_name(f"{place.name}{TEMPORARY}{os.getpid()}-{secrets.token_hex(4)}")


def discard(directory: Path) -> None:
    """Remove an index, if it is there and can be removed; who has it open can go on using it."""
    aside = temporary_name(directory)
    try:
        os.rename(directory, aside)
    except OSError:
        return
    shutil.rmtree(aside, ignore_errors=True)


def write_fault(place: Path, detail: str, number: int | None = None) -> IndexFault:
    """The error of a ``place`` that could not be written, with a hint for the system's error ``number``."""
    hint = ""
    if number == errno.ENOSPC or "No space left" in detail:
        hint = "Free some space, or set INDEXGREP_CACHE_DIR to a directory on another disk."
    elif number in (errno.EACCES, errno.EROFS, errno.EPERM):
        hint = "Make the directory writable, or set INDEXGREP_CACHE_DIR to a directory of your own."
    return IndexFault(f"cannot write the index {place}: {detail}", hint)


def _replace(source: Path, destination: Path) -> None:
    """Give ``source`` the name ``destination``; readers that have the old index open are not disturbed."""
    _sync(source)
    if not _exchange(source, destination):
        with contextlib.suppress(FileNotFoundError):  # usually there is none
            os.rename(destination, source.with_name("old"))
        os.rename(source, destination)
    _sync(destination.parent)


def _sync(directory: Path) -> None:
    """Have the names in a directory on disk."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _exchange(first: Path, second: Path) -> bool:
    """Have two directories change names, in one step; ``False`` where that cannot be done."""
    library = ctypes.CDLL(None)
    names = os.fsencode(first), os.fsencode(second)
    if hasattr(library, "renameat2"):  # Linux
        here = ctypes.c_int(-100)
        return not library.renameat2(here, names[0], here, names[1], ctypes.c_uint(2))
    if hasattr(library, "renamex_np"):  # macOS
        return not library.renamex_np(*names, ctypes.c_uint(2))
    return False
