"""Where files would be found that are only supposed to be there: unsaved buffers.

Whether a walk lists a file depends on nothing but its path, its size and what is around it. So the traversal
itself decides, over directories that hold no more than the names on the way to the files in question; only
where links are followed all else must be listed too, for any link may lead to them. Ignore files are those
on disk.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping
from typing import Any

from .ignore import MARKER_NAMES, IgnoreReader
from .traverse import Directory, Entries, Selection, Traversal

#: The longest name a file can have, in bytes (``NAME_MAX``).
_MAX_NAME = 255


class Supposed:
    """Files with their sizes in bytes, by real path (absolute, without links)."""

    def __init__(self, sizes: Mapping[bytes, int]) -> None:
        self.sizes = sizes
        #: The names of the files in a directory, and of the directories on the way to them.
        self.files: dict[bytes, set[bytes]] = {}
        self.directories: dict[bytes, set[bytes]] = {}
        for path in sizes:
            directory, name = os.path.split(path)
            self.files.setdefault(directory, set()).add(name)
            while directory != b"/":
                above, name = os.path.split(directory)
                names = self.directories.setdefault(above, set())
                if name in names:
                    break
                names.add(name)
                directory = above

    def has_directory(self, real: bytes) -> bool:
        """Whether any of the files lies below this real path."""
        return real in self.files or real in self.directories


class SupposedTraversal(Traversal):
    """A traversal that finds no other files than those that are supposed. Its ``errors`` mean nothing."""

    def __init__(self, reader: IgnoreReader, selection: Selection, supposed: Supposed) -> None:
        super().__init__(reader, selection)
        #: The real paths of all that were met, wanted or not, by name below the start.
        self.met: dict[bytes, bytes] = {}
        self._supposed = supposed
        self._start = b""

    def _real(self, item: Directory) -> bytes:
        """The real path of a directory. Only the start can be a link, or lie below one, unless all may."""
        if self.selection.follow or not item.directory:
            self._start = os.path.realpath(item.path)
            return self._start
        return os.path.join(self._start, item.directory[:-1])

    def _open(self, item: Directory) -> int:
        try:
            return super()._open(item)
        except FileNotFoundError:
            if self._supposed.has_directory(self._real(item)):
                return -1
            raise

    def _entries(self, item: Directory, descriptor: int) -> Entries:
        real = self._real(item)
        files: dict[bytes, Any] = dict.fromkeys(self._supposed.files.get(real, ()))
        directories = list(self._supposed.directories.get(real, ()))
        above = item.above
        for name in files:
            self.met[item.directory + name] = os.path.join(real, name)
        if descriptor < 0:
            return Entries(files, directories, set(), above)
        if not self.selection.follow:
            lead = item.path + b"/"
            markers = {name for name in MARKER_NAMES if os.path.lexists(lead + name)}
            return Entries(files, directories, markers, above)
        present = super()._entries(item, descriptor)
        for name in present.files:
            if item.directory + name in self.met:
                files[name] = None
        directories = list({*directories, *present.directories})
        return Entries(files, directories, present.markers, present.above)

    def _follow(
        self,
        item: Directory,
        name: bytes,
        entry: os.DirEntry[str],
        files: dict[bytes, Any],
        directories: list[bytes],
        above: tuple[tuple[int, int], ...],
    ) -> None:
        real = os.path.realpath(os.path.join(item.path, name))
        if real in self._supposed.sizes:
            self.met[item.directory + name] = real
            files[name] = entry
        elif self._supposed.has_directory(real) and not os.path.lexists(real):
            directories.append(name)
        else:
            super()._follow(item, name, entry, files, directories, above)

    def _stat(
        self,
        item: Directory,
        names: list[bytes],
        files: dict[bytes, Any],
        statuses: dict[bytes, os.stat_result],
    ) -> list[bytes]:
        limit = self.selection.max_filesize
        if limit is None:
            return names
        sizes = self._supposed.sizes
        return [name for name in names if sizes[self.met[item.directory + name]] <= limit]


def can_be_file(real: bytes) -> bool:
    """Whether at a real path there is a regular file, or could be one."""
    try:
        return stat.S_ISREG(os.lstat(real).st_mode)
    except OSError as error:
        # Below a directory that is not there the system does not look at the rest of the name.
        return error.errno == errno.ENOENT and all(len(part) <= _MAX_NAME for part in real.split(b"/"))
