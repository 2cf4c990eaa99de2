"""The directory traversal: list a directory, decide its names all at once, descend in the order of paths.

Everything is relative to one start directory: a *directory* here is its name below the start with a slash
at its end (``b"a/b/"``), empty for the start. Files come in the order of their paths' bytes, which is the
order of ``sorted`` on whole paths: a directory sorts as its name with the slash.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

from ..errors import os_error
from .ignore import MARKER_NAMES, IgnoreContext, IgnoreReader
from .rules import RuleSet

_OPEN = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
#: What ``os.fsencode`` uses; called directly it costs half.
_ENCODING, _ENCODING_ERRORS = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()
_SLASH = ord("/")
_DOT = ord(".")

#: ``(path, message)`` of something that could not be listed; the path as the caller names results.
WalkError = tuple[bytes, str]


@dataclass(frozen=True)
class Selection:
    """Which entries of a tree are wanted, besides what ignore files say."""

    #: Hidden entries too.
    hidden: bool = False
    #: ``-g`` rules; their globs see a directory as ``overrides_lead + directory[overrides_skip:]``.
    overrides: RuleSet | None = None
    overrides_lead: bytes = b""
    overrides_skip: int = 0
    #: ``-t`` and ``-T`` rules.
    types: RuleSet | None = None
    #: Follow symbolic links.
    follow: bool = False
    #: Levels to descend; ``None`` is no limit.
    max_depth: int | None = None
    #: Largest size in bytes of a file; ``None`` is no limit.
    max_filesize: int | None = None

    def keep(
        self, context: IgnoreContext, directory: bytes, names: list[bytes], *, directories: bool
    ) -> list[bytes]:
        """Those of the ``names`` in ``directory`` that are wanted, in their order."""
        if not names:
            return names
        joined = b"\n".join(names)
        included: set[bytes] = set()
        excluded: set[bytes] = set()
        settled: dict[bytes, bool] = {}
        if self.overrides is not None:
            prefix = self.overrides_lead + directory[self.overrides_skip :]
            settled = self.overrides.decide(prefix, names, joined, directories=directories)
            if self.overrides.has_include and not directories:
                return [name for name in names if settled.get(name, False)]
            for name, include in settled.items():
                (included if include else excluded).add(name)
        for name, include in context.decide(directory, names, joined, directories=directories).items():
            if name not in settled:
                (included if include else excluded).add(name)
        if self.types is not None and not directories:
            verdicts = self.types.decide(b"", names, joined, directories=False)
            for name in names:
                if name in settled:
                    continue
                # ripgrep takes a name that ends in a dot for no file name, and so for none of a type's.
                verdict = None if name[-1] == _DOT else verdicts.get(name)
                if verdict is False or (verdict is None and self.types.has_include):
                    excluded.add(name)
                elif verdict:
                    included.add(name)
        if not self.hidden and (joined.startswith(b".") or b"\n." in joined):
            excluded.update(
                name for name in names if name[0] == _DOT and name[-1] != _DOT and name not in included
            )
        return [name for name in names if name not in excluded] if excluded else names


class Run(NamedTuple):
    """Neighbouring files of one directory, in order. ``statuses`` are parallel to ``names``, or empty."""

    directory: bytes
    names: list[bytes]
    statuses: list[os.stat_result]


class Directory(NamedTuple):
    """A directory that is to be listed."""

    directory: bytes
    path: bytes
    context: IgnoreContext
    depth: int
    #: ``(device, inode)`` of the directories above, for loops of followed links.
    above: tuple[tuple[int, int], ...]


class Entries(NamedTuple):
    """What a directory holds."""

    #: Files by name; the values (``os.DirEntry``) are for ``_stat``.
    files: dict[bytes, Any]
    directories: list[bytes]
    #: Those of ``MARKER_NAMES`` that are in it.
    markers: set[bytes]
    #: As in ``Directory``, for the directories in it.
    above: tuple[tuple[int, int], ...]


#: Called with a directory's name and path before it is listed.
EnterHook = Callable[[bytes, bytes], None]
#: Called with a directory's name and its own ignore context once it is listed, then with the files and the
#: directories in it that are not wanted.
ListedHook = Callable[[bytes, IgnoreContext, set[bytes], set[bytes]], None]


class Traversal:
    """One traversal from ``path`` (absolute), a directory.

    ``want_status`` asks for the stat result of every file. ``on_enter`` is called before a directory is
    listed, ``on_listed`` after. Errors go to ``errors`` with the names below the start; a file or
    directory that vanishes meanwhile is no error.
    """

    def __init__(
        self,
        reader: IgnoreReader,
        selection: Selection,
        *,
        want_status: bool = False,
        on_enter: EnterHook | None = None,
        on_listed: ListedHook | None = None,
    ) -> None:
        self.reader = reader
        self.selection = selection
        self.want_status = want_status or selection.max_filesize is not None
        self.on_enter = on_enter
        self.on_listed = on_listed
        self.errors: list[WalkError] = []

    def run(self, path: bytes, context: IgnoreContext, directory: bytes = b"") -> Iterator[Run]:
        """The wanted files below ``path``, itself wanted, whose name below the start is ``directory``."""
        selection = self.selection
        stack: list[Directory | Run] = [Directory(directory, path, context, 0, ())]
        while stack:
            item = stack.pop()
            if isinstance(item, Run):
                if item.names:
                    yield item
                continue
            if selection.max_depth is not None and item.depth >= selection.max_depth:
                continue
            try:
                stack.extend(self._list(item))
            except OSError as error:
                if not item.directory or error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                    self.errors.append((item.directory, os_error(error)))

    def _list(self, item: Directory) -> list[Directory | Run]:
        """The content of a directory as items for the stack: the last is first in the order of paths."""
        selection = self.selection
        if self.on_enter is not None:
            self.on_enter(item.directory, item.path)
        descriptor = self._open(item)
        try:
            files, directories, markers, above = self._entries(item, descriptor)
            context = item.context
            if markers:
                context = self.reader.enter(context, item.path, item.directory, markers)
            names = selection.keep(context, item.directory, list(files), directories=False)
            entered = selection.keep(context, item.directory, directories, directories=True)
            if self.on_listed is not None:
                other = files.keys() - set(names) if len(names) < len(files) else set()
                shut = set(directories) - set(entered) if len(entered) < len(directories) else set()
                self.on_listed(item.directory, context, other, shut)
            statuses: dict[bytes, os.stat_result] = {}
            if self.want_status:
                names = self._stat(item, names, files, statuses)
        finally:
            if descriptor >= 0:
                os.close(descriptor)
        if not entered:
            names.sort()
            return [Run(item.directory, names, [statuses[name] for name in names] if statuses else [])]
        path = item.path if item.path.endswith(b"/") else item.path + b"/"
        order = sorted(names + [name + b"/" for name in entered], reverse=True)
        items: list[Directory | Run] = []
        for is_directory, group in groupby(order, lambda name: name[-1] == _SLASH):
            if is_directory:
                items.extend(
                    Directory(item.directory + name, path + name[:-1], context, item.depth + 1, above)
                    for name in group
                )
            else:
                run = list(group)[::-1]
                items.append(Run(item.directory, run, [statuses[name] for name in run] if statuses else []))
        return items

    def _open(self, item: Directory) -> int:
        """A descriptor of a directory. Raises ``OSError``."""
        # One that became a link since its parent was listed must not lead out of the tree.
        flags = _OPEN if self.selection.follow or not item.directory else _OPEN | os.O_NOFOLLOW
        return os.open(item.path, flags)

    def _entries(self, item: Directory, descriptor: int) -> Entries:
        """What an open directory holds."""
        follow = self.selection.follow
        files: dict[bytes, Any] = {}
        directories: list[bytes] = []
        markers: set[bytes] = set()
        above = item.above
        if follow:
            status = os.fstat(descriptor)
            above = (*above, (status.st_dev, status.st_ino))
        with os.scandir(descriptor) as entries:
            for entry in entries:
                name = entry.name.encode(_ENCODING, _ENCODING_ERRORS)
                if entry.is_file(follow_symlinks=False):
                    files[name] = entry
                elif entry.is_dir(follow_symlinks=False):
                    directories.append(name)
                elif follow and entry.is_symlink():
                    self._follow(item, name, entry, files, directories, above)
                if name[0] == _DOT and name in MARKER_NAMES:
                    markers.add(name)
        return Entries(files, directories, markers, above)

    def _stat(
        self,
        item: Directory,
        names: list[bytes],
        files: dict[bytes, Any],
        statuses: dict[bytes, os.stat_result],
    ) -> list[bytes]:
        """Fill ``statuses``; returns the names that are still files and not too large.

        In a directory that may be listed but not entered, that cannot be told of any of them.
        """
        follow, limit = self.selection.follow, self.selection.max_filesize
        if limit is None:  # all at once is faster, and hardly ever fails
            with suppress(OSError):
                found = [files[name].stat(follow_symlinks=follow) for name in names]
                if all(map(stat.S_ISREG, [status.st_mode for status in found])):
                    statuses.update(zip(names, found, strict=True))
                    return names
        for name in names:
            try:
                status = files[name].stat(follow_symlinks=follow)
            except PermissionError as error:
                self.errors.append((item.directory + name, os_error(error)))
                continue
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode) and (limit is None or status.st_size <= limit):
                statuses[name] = status
        return names if len(statuses) == len(names) else list(statuses)

    def _follow(
        self,
        item: Directory,
        name: bytes,
        entry: os.DirEntry[str],
        files: dict[bytes, Any],
        directories: list[bytes],
        above: tuple[tuple[int, int], ...],
    ) -> None:
        """Sort the target of a symbolic link in."""
        try:
            status = entry.stat()
        except OSError as error:
            self.errors.append((item.directory + name, os_error(error)))
            return
        if stat.S_ISREG(status.st_mode):
            files[name] = entry
        elif stat.S_ISDIR(status.st_mode):
            if (status.st_dev, status.st_ino) in above:
                self.errors.append((item.directory + name, "file system loop found"))
            else:
                directories.append(name)
