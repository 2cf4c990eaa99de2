"""Putting an index in its place: everything is written beside it first, and takes its name when complete."""

from __future__ import annotations

import contextlib
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
    temporary = destination.with_name(f"{destination.name}{TEMPORARY}{os.getpid()}-{secrets.token_hex(4)}")
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
    if destination.exists():
        old = source.with_name("old")
        os.rename(destination, old)
    os.rename(source, destination)
    descriptor = os.open(destination.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
