"""The standard universe kept fresh: ``refresh`` answers for the tree as it was when called.

*Sweep*: list every directory and take every file's signature. *Watch* (Linux, local file systems): sweep
once with an inotify watch on each directory, set before the directory is listed, so that no change falls
between; from then on a refresh reads the queued events and looks again at the names they mention. The
kernel queues an event inside the system call that makes the change, so reading the queue until it is
empty is a barrier: every change that was finished before is in it.

An event only says which name to look at; what is true is read from the file system then. So events may come
in any order, be merged or be late, and the state is still right:

- a name that is, or was, a directory: its subtree is dropped, and if it is a directory now, swept anew;
- a file: whether it is wanted is decided by the ignore rules of its directory, which are kept;
- a name that ignore rules depend on, the queue's overflow, an unmounted file system: sweep everything anew.

What inotify cannot tell is compared at every refresh, some tens of calls: the ignore files outside the
tree, the identity of the root, the mounts below it, and the signatures of files with several hard links
(which may be written through another name). On network file systems, and where the limit of watches is
reached, every refresh is a sweep.

Limits: writes through a shared memory map raise no event until the map and the file are closed, or the file
is touched otherwise; a sweep sees them once the kernel updates the time stamps. (It does so at the first
write to a page since it was written back: more writes to that page, after somebody read the file, leave no
trace.) Nor is there an event on a file when a hard link to it is made. One in a watched directory is met by
its own event; writes through one elsewhere (outside the tree, hidden, ignored), or one that is removed
again before the next refresh, are seen by the next sweep or with the next event on the file.

Memory for 78,000 files in 5,000 directories: 7 MB, half of it the names, each once. The paths and
signatures of a snapshot are the caller's.
"""

from __future__ import annotations

import errno
import os
import select
import stat
import struct
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from ..errors import RootError
from .filter import Filter
from .ignore import MARKER_NAMES, IgnoreContext, IgnoreOptions, IgnoreReader, source_state
from .mounts import Mounts
from .root import Root
from .signature import Signature, is_racy, signature_of
from .snapshot import Snapshot, SnapshotBuilder
from .traverse import Selection, Traversal, WalkError

if TYPE_CHECKING:
    from inotify_simple import INotify

#: ``_CLOSE_WRITE`` is what tells of writes through a shared memory map.
_MODIFY, _ATTRIB, _CLOSE_WRITE = 0x2, 0x4, 0x8
_MOVED_FROM, _MOVED_TO, _CREATE, _DELETE = 0x40, 0x80, 0x100, 0x200
_DELETE_SELF, _MOVE_SELF = 0x400, 0x800
_UNMOUNT, _Q_OVERFLOW, _IGNORED = 0x2000, 0x4000, 0x8000
_ONLYDIR, _DONT_FOLLOW, _EXCL_UNLINK = 0x1000000, 0x2000000, 0x4000000
_MASK = (
    _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _DELETE_SELF | _MOVE_SELF
    | _ONLYDIR | _DONT_FOLLOW | _EXCL_UNLINK
)  # fmt: skip
_EVENT = struct.Struct("iIII")
_READ_SIZE = 1 << 18

#: Files with several hard links that are compared at each refresh (1.5 µs each); with more, every refresh
#: sweeps.
_MAX_LINKED = 5_000
#: Paths marked between two refreshes; with more, the next refresh sweeps.
_MAX_MARKED = 10_000


@dataclass(frozen=True)
class Refresh:
    """What changed since the refresh before.

    Either ``full``: ``snapshot`` is the whole universe and replaces all that was known; or ``changed``
    maps each path that may have changed to its signature, or to ``None`` where it is not (or no longer)
    in the universe.
    """

    #: Rises by one with every refresh that found a change (each sweep counts as one).
    version: int
    full: bool
    #: How freshness was established.
    how: Literal["watch", "sweep"]
    #: Why it was a sweep, else empty.
    reason: str
    snapshot: Snapshot | None = None
    changed: dict[bytes, Signature | None] = field(default_factory=dict)
    #: What of the universe cannot be looked at now, with messages; all of it. Directories have a slash at
    #: their end; files are here where their directory may be listed but not entered.
    errors: tuple[WalkError, ...] = ()


_LINK_MADE = "a hard link was made"

#: Most directories have nothing hidden and no directory below them: they share this. Never added to.
_NONE: set[bytes] = set()


class _Node:
    """A directory of the universe: its rules, its wanted files and directories, its watch."""

    __slots__ = ("children", "context", "directory", "names", "other", "shut", "watch")

    def __init__(self, directory: bytes, context: IgnoreContext, watch: int) -> None:
        self.directory = directory
        self.context = context
        self.names: tuple[bytes, ...] = ()
        self.children = _NONE
        #: Files and directories in it that are hidden or ignored.
        self.other = _NONE
        self.shut = _NONE
        self.watch = watch


class _NoWatch(Exception):
    """Watching is impossible; the text says why."""


class Monitor:
    """Keeps the standard universe of ``root`` fresh. Safe to call from several threads.

    There is one stream of changes: each ``Refresh`` tells what happened since the one before, whoever
    asked. Its consumer must hold a lock of its own over ``refresh`` and the application of its result.
    ``watch=False`` sweeps at every refresh.
    """

    def __init__(self, root: Root, *, watch: bool = True) -> None:
        self.root = root
        self._path = os.fsencode(root.path)
        self._lock = threading.Lock()
        self._closed = False
        self._version = 0
        self._selection = Selection()
        #: Why there can be no watch, ever; empty while there can.
        self._sweep_reason = "" if watch else "watching is off"
        #: Whether every directory is being listed, so that all names of a file are met.
        self._listing_all = False
        #: Why the next refresh must sweep although it can watch.
        self._stale = "first refresh"
        #: Paths to look at again; others append while a refresh runs.
        self._marked: deque[bytes] = deque()
        #: What ``wake`` writes to and ``wait`` reads from.
        self._bell, self._ring = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        #: Held by who waits.
        self._waited_for = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._notify: INotify | None = None
        self._mounts: Mounts | None = None
        self._identity: tuple[int, int] = (0, 0)
        self._reader = IgnoreReader(IgnoreOptions(), self._path)
        self._nodes: dict[bytes, _Node] = {}
        #: Watch descriptor to directories: several only where one is mounted in two places.
        self._watched: dict[int, list[bytes]] = {}
        #: Files with several hard links: device and signature when they were looked at last.
        self._linked: dict[bytes, tuple[int, Signature]] = {}
        self._dirty: dict[bytes, set[bytes]] = {}
        #: What could not be looked at the last time, with messages; as in ``Refresh.errors``.
        self._unreadable: dict[bytes, str] = {}

    def beyond(self, wanted: Filter) -> list[bytes]:
        """The files outside the standard universe that a filter wants, sorted, as of the last refresh.

        Hidden or ignored files in directories of the universe are known; a hidden or ignored directory that a
        glob includes is walked now. Some milliseconds on 5,000 directories.
        """
        if not wanted.reaches_beyond:
            return []
        found: list[bytes] = []
        reader = IgnoreReader(IgnoreOptions(), self._path)
        selection = wanted.selection
        with self._lock:
            nodes = [node for node in self._nodes.values() if node.other or node.shut]
            for node in nodes:
                directory = node.directory
                if not directory.startswith(wanted.prefix) or wanted.shuts(directory):
                    continue
                names = selection.keep(node.context, directory, list(node.other), directories=False)
                found += [directory + name for name in names]
                for name in selection.keep(node.context, directory, list(node.shut), directories=True):
                    path = os.path.join(self._path, directory, name)
                    traversal = Traversal(reader, selection)
                    for run in traversal.run(path, node.context, directory + name + b"/"):
                        found += [run.directory + name for name in run.names]
        found.sort()
        return found

    @property
    def depends_on_cwd(self) -> bool:
        """Whether the universe is another for another working directory than the root.

        So it is where git's global excludes file has globs with a path: ripgrep takes them relative to the
        working directory. A search from below the root then needs a walk.
        """
        return self._reader.depends_on_cwd

    def covers(self, directory: bytes) -> bool:
        """Whether a directory is known to belong to the universe, as of the last refresh.

        ``directory`` is relative to the root, without a slash at its end; ``b""`` is the root. Without a
        watch only the root is known.
        """
        return not directory or directory + b"/" in self._nodes

    def resweep(self, reason: str) -> None:
        """Make the next refresh a full one, for a consumer that starts anew; it gives ``reason``."""
        with self._lock:
            self._stale = self._stale or reason

    def mark(self, paths: Iterable[bytes]) -> None:
        """Have the next refresh look again at these, whatever the watch tells. Never waits.

        ``paths`` are relative to the root: files or directories that were written, made, renamed or removed,
        in the universe or not.
        """
        self._marked.extend(paths)
        if len(self._marked) > _MAX_MARKED:
            self._marked.clear()
            self._marked.append(b"")  # the root: everything

    def refresh(self) -> Refresh:
        """The changes since the last refresh, everything at the first.

        Raises ``RootError`` when the root is gone or cannot be listed, ``ValueError`` after ``close``.
        """
        with self._lock:
            if self._closed:
                raise ValueError("the monitor is closed")
            try:
                return self._refresh()
            except BaseException:
                # Whatever was half done is done anew.
                self._stale = self._stale or "an earlier refresh failed"
                raise

    @property
    def watching(self) -> bool:
        """Whether changes are told by events, so that a refresh without any costs next to nothing."""
        return self._notify is not None

    def wait(self, seconds: float) -> bool:
        """Sleep until there are file events, ``wake`` is called, or so many seconds have passed.

        ``True`` when there are events. Without a watch there are none. For one thread at a time.
        """
        with self._lock:
            if self._closed:
                return False
            self._waited_for.acquire()  # before anybody can release what is waited for
            events = self._notify.fileno() if self._notify is not None else -1
            bell = self._bell
        try:
            poll = select.poll()
            poll.register(bell, select.POLLIN)
            if events >= 0:
                poll.register(events, select.POLLIN)
            ready = {descriptor for descriptor, _ in poll.poll(seconds * 1000)}
            if bell in ready:
                with suppress(BlockingIOError):
                    os.read(bell, 4096)
            return events in ready
        finally:
            self._waited_for.release()

    def wake(self) -> None:
        """End a ``wait``, or the next one."""
        with self._lock:
            if not self._closed:
                self._ring_bell()

    def _ring_bell(self) -> None:
        with suppress(BlockingIOError):  # a full pipe will do as well
            os.write(self._ring, b"\0")

    def drain(self) -> None:
        """Take the events that have come out of the kernel's bounded queue, for the next refresh.

        Whoever calls this while many files change (a switch of branches) saves that refresh a sweep. Where it
        must sweep anyway, what was taken is of no use, but ``wait`` is for new events again.
        """
        with self._lock:
            if not self._closed and self._notify is not None:
                self._read_events()

    def close(self) -> None:
        """Free the watches. Idempotent."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._release()
            self._forget()
            os.close(self._ring)
            os.close(self._bell)

    def _release(self) -> None:
        """Give back the watches, once nobody waits for their events."""
        if not self._waited_for.acquire(blocking=False):
            self._ring_bell()
            self._waited_for.acquire()
        self._waited_for.release()  # nobody begins to wait while the lock is held
        if self._notify is not None:
            self._notify.close()
            self._notify = None
        if self._mounts is not None:
            self._mounts.close()
            self._mounts = None

    # Refreshing

    def _refresh(self) -> Refresh:
        identity = self._root_identity()
        if self._sweep_reason:
            return self._sweep(self._sweep_reason)
        if not self._stale:
            self._stale = self._why_stale(identity)
        if not self._stale:
            self._read_events()
            self._take_marked()
        if self._stale:
            return self._sweep(self._stale)
        self._check_linked()
        if not self._dirty:
            return self._delta({})
        return self._update()

    def _root_identity(self) -> tuple[int, int]:
        try:
            status = os.stat(self._path)
        except OSError as error:
            self._stale = "the root vanished"
            raise RootError(
                f"cannot search {self.root.path}: {error.strerror}", "The directory was moved or removed."
            ) from None
        return status.st_dev, status.st_ino

    def _why_stale(self, identity: tuple[int, int]) -> str:
        if identity != self._identity:
            return "the root was replaced"
        if self._mounts is not None and self._mounts.changed():
            return "mounts changed"
        for path, state in self._reader.sources.items():
            if source_state(path) != state:
                return f"ignore rules changed ({os.fsdecode(path)})"
        return ""

    def _read_events(self) -> None:
        """Empty the event queue into ``_dirty``; sets ``_stale`` where events do not tell enough."""
        assert self._notify is not None
        descriptor = self._notify.fileno()
        dirty = self._dirty
        while True:
            try:
                data = os.read(descriptor, _READ_SIZE)
            except BlockingIOError:
                return
            at = 0
            while at < len(data):
                watch, mask, _, size = _EVENT.unpack_from(data, at)
                at += _EVENT.size + size
                name = data[at - size : at].rstrip(b"\0")
                if mask & _Q_OVERFLOW:
                    self._stale = "the queue of file events overflowed"
                elif mask & _UNMOUNT:
                    self._stale = "a file system was unmounted"
                elif mask & _IGNORED:
                    # The watch is gone with its directory, which its parent's events tell of.
                    self._watched.pop(watch, None)
                elif name in MARKER_NAMES:
                    self._stale = f"ignore rules changed ({os.fsdecode(name)})"
                else:
                    for directory in self._watched.get(watch, ()):
                        if name:
                            dirty.setdefault(directory, set()).add(name)
                        elif not directory:  # something happened to the root itself
                            self._stale = "the root changed"

    def _take_marked(self) -> None:
        """Make what was marked dirty: the name itself, or the one above it that a known directory has."""
        while True:
            try:
                path = self._marked.popleft()
            except IndexError:
                return
            directory, _, name = path.rpartition(b"/")
            directory += b"/" if directory else b""
            if (name in MARKER_NAMES and directory in self._nodes) or not _is_plain(path):
                self._stale = f"{os.fsdecode(path) or 'the root'} was said to have changed"
                continue
            while directory and directory not in self._nodes:
                directory, _, name = directory[:-1].rpartition(b"/")
                directory += b"/" if directory else b""
            self._dirty.setdefault(directory, set()).add(name)

    def _check_linked(self) -> None:
        """Mark those files with several links that look different, or could without it showing."""
        for path, (_, known) in self._linked.items():
            try:
                signature = signature_of(os.lstat(os.path.join(self._path, path)))
            except OSError:
                signature = None
            if signature != known or is_racy(known, time.time_ns()):
                directory, _, name = path.rpartition(b"/")
                self._dirty.setdefault(directory + b"/" if directory else b"", set()).add(name)

    def _update(self) -> Refresh:
        """Look again at everything dirty."""
        dirty, self._dirty = self._dirty, {}
        changed: dict[bytes, Signature | None] = {}
        # Subtrees are dropped before any is added: a moved directory keeps its watch descriptor.
        for directory, names in dirty.items():
            node = self._nodes.get(directory)
            if node is not None:
                for name in node.children & names:
                    self._drop(directory + name + b"/", changed)
                    node.children.discard(name)
        traversal = self._traversal()
        try:
            for directory, names in dirty.items():
                node = self._nodes.get(directory)
                if node is not None:
                    self._look(node, names, traversal, changed)
        except _NoWatch as error:
            self._sweep_reason = str(error)
            return self._sweep(self._sweep_reason)
        if len(self._linked) > _MAX_LINKED:
            self._sweep_reason = _too_many_links()
            return self._sweep(self._sweep_reason)
        if self._stale:
            return self._sweep(self._stale)
        if self._unreadable:
            looked_at = tuple(directory + name + b"/" for directory in dirty for name in dirty[directory])
            self._unreadable = {
                path: message for path, message in self._unreadable.items() if not path.startswith(looked_at)
            }
        self._unreadable.update(traversal.errors)
        if changed:
            self._version += 1
        return self._delta(changed)

    def _delta(self, changed: dict[bytes, Signature | None]) -> Refresh:
        errors = tuple(self._unreadable.items())
        return Refresh(self._version, False, "watch", "", changed=changed, errors=errors)

    def _drop(self, directory: bytes, changed: dict[bytes, Signature | None]) -> None:
        """Forget a directory and all below it; its files are gone."""
        stack = [directory]
        while stack:
            directory = stack.pop()
            node = self._nodes.pop(directory, None)
            if node is None:
                continue
            for name in node.names:
                changed[directory + name] = None
                self._linked.pop(directory + name, None)
            stack += [directory + name + b"/" for name in node.children]
            self._unwatch(node)

    def _look(
        self,
        node: _Node,
        names: set[bytes],
        traversal: Traversal,
        changed: dict[bytes, Signature | None],
    ) -> None:
        """Take the present state of ``names`` in a directory."""
        path = os.path.join(self._path, node.directory)
        files: dict[bytes, os.stat_result] = {}
        directories: list[bytes] = []
        for name in names:
            try:
                status = os.lstat(path + name)
            except PermissionError:
                self._stale = "a directory may not be entered"
                continue
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                files[name] = status
            elif stat.S_ISDIR(status.st_mode):
                directories.append(name)
        wanted = set(self._selection.keep(node.context, node.directory, list(files), directories=False))
        before = set(node.names)
        for name in names:
            file = node.directory + name
            if name in wanted:
                changed[file] = self._note(file, files[name])
            elif name in before:
                self._linked.pop(file, None)
                changed[file] = None
        node.names = tuple((before - names) | wanted)
        entered = self._selection.keep(node.context, node.directory, directories, directories=True)
        other = files.keys() - wanted
        if any(files[name].st_nlink > 1 for name in other - node.other):
            self._stale = _LINK_MADE
        node.other = (node.other - names) | other or _NONE
        node.shut = (node.shut - names) | (set(directories) - set(entered)) or _NONE
        for name in entered:
            directory = node.directory + name + b"/"
            for run in traversal.run(path + name, node.context, directory):
                self._nodes[run.directory].names += tuple(run.names)
                for file_name, status in zip(run.names, run.statuses, strict=True):
                    file = run.directory + file_name
                    changed[file] = self._note(file, status)

    def _note(self, path: bytes, status: os.stat_result) -> Signature:
        """The signature of a file that was looked at again; keeps account of its hard links."""
        signature = signature_of(status)
        if status.st_nlink == 1:
            self._linked.pop(path, None)
            return signature
        known = self._linked.get(path)
        self._linked[path] = (status.st_dev, signature)
        if known is None or known[1][3] != status.st_ino:
            names = sum(
                device == status.st_dev and other[3] == status.st_ino
                for device, other in self._linked.values()
            )
            if names < status.st_nlink:
                # Another file of the tree may be the same one, and no event told of it.
                self._stale = _LINK_MADE
        return signature

    # Sweeping

    def _sweep(self, reason: str) -> Refresh:
        """The whole universe anew, with watches where they can be."""
        self._marked.clear()
        self._release()
        self._forget()
        if not self._sweep_reason:
            try:
                self._start_watch()
                return self._list_all(reason)
            except _NoWatch as error:
                reason = self._sweep_reason = str(error)
                self._release()
                self._forget()
        return self._list_all(reason)

    def _list_all(self, reason: str) -> Refresh:
        self._identity = self._root_identity()
        builder = SnapshotBuilder()
        traversal = self._traversal()
        context = self._reader.start(self._path, b".")
        self._stale = ""  # it may be set again on the way
        self._listing_all = True
        watching = self._notify is not None
        for run in traversal.run(self._path, context):
            builder.add(run.directory, run.names, run.statuses)
            if watching:
                self._nodes[run.directory].names += tuple(run.names)
                for name, status in zip(run.names, run.statuses, strict=True):
                    if status.st_nlink > 1:
                        self._linked[run.directory + name] = (status.st_dev, signature_of(status))
        self._listing_all = False
        for directory, message in traversal.errors:
            if not directory:
                raise RootError(f"cannot search {self.root.path}: {message}")
        if len(self._linked) > _MAX_LINKED:
            self._sweep_reason = _too_many_links()
            self._release()
        self._version += 1
        self._unreadable.update(traversal.errors)
        return Refresh(
            self._version, True, "sweep", reason, snapshot=builder.build(), errors=tuple(traversal.errors)
        )

    def _traversal(self) -> Traversal:
        on_enter = self._enter if self._notify is not None else None
        return Traversal(
            self._reader, self._selection, want_status=True, on_enter=on_enter, on_listed=self._listed
        )

    # Watching

    def _start_watch(self) -> None:
        if sys.platform != "linux":
            raise _NoWatch(f"no watching on {sys.platform}")
        try:
            import inotify_simple

            self._mounts = Mounts(self._path)
            self._notify = inotify_simple.INotify(nonblocking=True)
        except ImportError:
            raise _NoWatch("inotify_simple is not installed") from None
        except OSError as error:
            raise _NoWatch(f"cannot watch: {error.strerror}") from None
        remote = self._mounts.remote()
        if remote is not None:
            raise _NoWatch(f"a file system of type {os.fsdecode(remote)} raises no events for remote changes")

    def _enter(self, directory: bytes, path: bytes) -> None:
        """Watch a directory before it is listed."""
        assert self._notify is not None
        try:
            watch = self._notify.add_watch(path, _MASK)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.ENOMEM):
                raise _NoWatch("the limit of watches is reached (fs.inotify.max_user_watches)") from None
            # Vanished, replaced or unreadable: listing it fails as well, and the parent's events tell of it.
            return
        self._watched.setdefault(watch, []).append(directory)
        self._nodes[directory] = _Node(directory, IgnoreContext(), watch)

    def _listed(self, directory: bytes, context: IgnoreContext, other: set[bytes], shut: set[bytes]) -> None:
        """A directory is listed: it belongs to the universe."""
        node = self._nodes.get(directory)
        if node is None:
            if self._notify is not None:  # it could not be watched a moment ago, but now be listed
                self._stale = "a directory changed while it was looked at"
            self._nodes[directory] = node = _Node(directory, context, -1)
        node.context = context
        if not self._listing_all and any(self._has_links(directory + name) for name in other):
            self._stale = _LINK_MADE
        node.other = other or _NONE
        node.shut = shut or _NONE
        if directory:
            parent, _, name = directory[:-1].rpartition(b"/")
            above = self._nodes[parent + b"/" if parent else b""]
            if above.children:
                above.children.add(name)
            else:
                above.children = {name}

    def _has_links(self, path: bytes) -> bool:
        try:
            return os.lstat(os.path.join(self._path, path)).st_nlink > 1
        except OSError:
            return False

    def _unwatch(self, node: _Node) -> None:
        directories = self._watched.get(node.watch)
        if directories is None or node.directory not in directories:
            return
        directories.remove(node.directory)
        if not directories:
            del self._watched[node.watch]
            if self._notify is not None:
                with suppress(OSError):
                    self._notify.rm_watch(node.watch)


def _is_plain(path: bytes) -> bool:
    """Whether a relative path is spelled as the traversal would spell it."""
    return not any(part in (b"", b".", b"..") for part in path.split(b"/"))


def _too_many_links() -> str:
    return f"more than {_MAX_LINKED} files have several hard links"
