"""Where indexes live: one folder a repository below the cache directory, shared by its worktrees.

::

    <cache>/repos/<key>/         key: a hash of the path that all worktrees of a repository share
        origin                   that path
        lock                     held (flock) by the one builder at work; has its process id
        <name>/                  one index
            postings, lookup     see ``index.format``; ``postings`` is locked (flock, shared) by processes
                                 that use the index
            stamps-...           one a worktree, see ``index.stamps``
            used                 empty; its mtime is when the index was last opened
        <name>.tmp-...           a build or removal at work, or what is left of one that was killed
        <name>.corrupt           a damaged index, moved aside; at most one a name

Two kinds of index are told by their names: ``segment-...`` are small ones, of files of one worktree that
changed (``overlay``); all others are bases, each of all files of a commit or a folder.

Directories have mode 0700 and files 0600: an index reveals the code. All indexes of the cache together stay
within a budget; the least recently used go first, of whichever kind.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import shutil
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import IndexCorrupt, IndexFault, IndexLocked
from ..grams.frequent import Frequent
from ..runtime import cache_dir, private_dir, root_key
from .builder import Progress, ReadBlob, build
from .format import LOOKUP, POSTINGS, read_header
from .merge import Source, merge
from .placing import TEMPORARY, discard, temporary_name, write_fault
from .reader import Index
from .stamps import tidy
from .workers import Workers

#: Bytes that all indexes together may take; ``INDEXGREP_CACHE_BUDGET`` overrides it.
BUDGET = 8 << 30

#: What the names of segments begin with.
SEGMENT = "segment-"

_CORRUPT = ".corrupt"
_NAME = re.compile(r"[0-9A-Za-z_-]{1,128}")

log = logging.getLogger("indexgrep.index")


@dataclass(frozen=True)
class Stored:
    """One index on disk, for ``status``."""

    #: The path that the repository's folder stands for, or empty where that is not known.
    origin: str
    name: str
    directory: Path
    #: The commit in its header; empty also where the header cannot be read.
    commit: str
    documents: int
    #: Bytes of all its files, and of the two.
    size: int
    postings: int
    lookup: int
    #: When it was last opened, in seconds since the epoch.
    used: float
    #: ``ready``, ``corrupt`` (moved aside) or ``building`` (or left by a killed build).
    state: str

    @property
    def kind(self) -> str:
        """``base`` or ``segment``."""
        return "segment" if self.name.startswith(SEGMENT) else "base"


class Store:
    """The indexes of one repository (or folder)."""

    def __init__(self, origin: str | os.PathLike[str], cache: Path | None = None) -> None:
        """``origin`` is what its worktrees share, git's common directory, or the root where there is no git.

        Nothing is created until something is written. ``cache`` replaces the user's cache directory.
        """
        self._cache = cache or cache_dir()
        self._origin = os.path.realpath(origin)
        self.directory = self._cache / "repos" / root_key(origin)

    @classmethod
    def holding(cls, index: Path) -> Store:
        """The store that has the index in the directory ``index``, whichever repository it is of."""
        store = cls.__new__(cls)
        store.directory = index.parent
        store._cache = index.parents[2]
        store._origin = _origin_of(index.parent)
        return store

    def path(self, name: str) -> Path:
        """The directory of the index ``name``. Raises ``ValueError`` for what is no name."""
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is not a name of an index")
        return self.directory / name

    def open(self, name: str) -> Index | None:
        """The index ``name``, or ``None`` where there is none that can be used.

        A damaged index is moved aside. Raises ``IndexFault`` where it is there but cannot be read.
        """
        directory = self.path(name)
        while True:
            identity = _identity(directory)
            if identity is None:
                return None
            try:
                index = Index(directory)
                break
            except IndexFault as error:
                if _identity(directory) != identity:
                    continue  # it was replaced meanwhile, and what was read may be halves of two
                if not isinstance(error, IndexCorrupt):
                    raise
                log.warning("moved a damaged index aside: %s: %s", directory, error.message)
                self.quarantine(name)
                return None
        self.touch(name)
        index.hold()
        return index

    def quarantine(self, name: str) -> None:
        """Move a damaged index aside, so that it is built again; removes it where that fails."""
        directory = self.path(name)
        aside = directory.with_name(name + _CORRUPT)
        try:
            shutil.rmtree(aside, ignore_errors=True)
            os.rename(directory, aside)
        except FileNotFoundError:
            pass  # another process was faster
        except OSError:
            discard(directory)

    def stored(self) -> list[Stored]:
        """The indexes that are there and whole, the most recently used first."""
        ready = [stored for stored in _stored(self.directory) if stored.state == "ready"]
        return sorted(ready, key=lambda stored: -stored.used)

    def touch(self, name: str) -> None:
        """Note that an index is being used. Nothing happens where that cannot be written."""
        with contextlib.suppress(OSError):
            descriptor = os.open(self.path(name) / "used", os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.utime(descriptor)
            finally:
                os.close(descriptor)

    def remove(self, name: str) -> None:
        """Remove an index; processes that have it open can go on using it."""
        discard(self.path(name))

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """Be the one builder of this repository. Raises ``IndexLocked`` where another is at work."""
        descriptor = -1
        try:
            for directory in (self._cache, self.directory.parent, self.directory):
                private_dir(directory)
            path = self.directory / "lock"
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, b"%d\n" % os.getpid(), 0)
            self._write_origin()
        except BlockingIOError:
            owner = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise IndexLocked(
                f"another process ({owner}) is building the index of {self._origin}",
                "Wait for it, or stop it.",
            ) from None
        except OSError as error:
            if descriptor >= 0:
                os.close(descriptor)
            raise write_fault(self.directory, error.strerror or str(error), error.errno) from error
        try:
            yield
        finally:
            os.close(descriptor)  # which unlocks

    def build(
        self,
        name: str,
        root: str,
        paths: Sequence[bytes],
        *,
        commit: str = "",
        workers: Workers | None = None,
        read_blob: ReadBlob | None = None,
        progress: Progress | None = None,
        cancel: threading.Event | None = None,
        frequent: Frequent | None = None,
        stamps_key: str = "",
    ) -> Index:
        """Build the index ``name`` (see ``builder.build``), replacing one that is there, and open it.

        Leftovers of killed builds are removed before, and what is over the budget after. Raises
        ``IndexLocked``, ``IndexFault`` and ``Cancelled``.
        """
        return self._made(
            name,
            lambda destination: build(
                root,
                paths,
                destination,
                commit=commit,
                workers=workers,
                read_blob=read_blob,
                progress=progress,
                cancel=cancel,
                frequent=frequent,
                stamps_key=stamps_key,
            ),
        )

    def merge(
        self,
        name: str,
        sources: Sequence[Source],
        *,
        commit: str = "",
        stamps_key: str = "",
        workers: Workers | None = None,
        progress: Progress | None = None,
        cancel: threading.Event | None = None,
    ) -> Index:
        """Make the index ``name`` of others (see ``merge.merge``), as ``build`` does of files.

        The sources stay as they are, and where they are. Raises what ``merge.merge`` does, and
        ``IndexLocked``.
        """
        return self._made(
            name,
            lambda destination: merge(
                sources,
                destination,
                commit=commit,
                stamps_key=stamps_key,
                workers=workers,
                progress=progress,
                cancel=cancel,
            ),
        )

    def _made(self, name: str, make: Callable[[Path], None]) -> Index:
        """Have the index ``name`` made, under the lock, and open it."""
        destination = self.path(name)
        with self.lock():
            self._remove_leftovers()
            make(destination)
            index = self.open(name)
        if index is None:
            raise IndexFault(f"the index that was just made in {destination} cannot be read")
        keep_budget(self._cache, keep=destination)
        return index

    def _write_origin(self) -> None:
        """Only under the lock: its holder removes what has a temporary name."""
        if self._origin and _origin_of(self.directory) != self._origin:
            origin = self.directory / "origin"
            temporary = temporary_name(origin)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(descriptor, "wb") as file:
                file.write(os.fsencode(self._origin))
            os.rename(temporary, origin)

    def _remove_leftovers(self) -> None:
        """Remove what killed builds left; only under the lock: a build at work looks the same."""
        for entry in os.scandir(self.directory):
            directory = entry.is_dir(follow_symlinks=False)
            if TEMPORARY in entry.name and directory:
                shutil.rmtree(entry.path, ignore_errors=True)
            elif TEMPORARY in entry.name:
                with contextlib.suppress(OSError):
                    os.unlink(entry.path)
            elif directory:
                tidy(Path(entry.path))


def listing(cache: Path | None = None) -> list[Stored]:
    """All indexes of the cache, of every repository."""
    repos = (cache or cache_dir()) / "repos"
    try:
        folders = sorted(entry.path for entry in os.scandir(repos) if entry.is_dir(follow_symlinks=False))
    except OSError:
        return []
    return [stored for folder in folders for stored in _stored(Path(folder))]


def find_commit(commit: str, cache: Path | None = None) -> list[Stored]:
    """The bases of a commit (hex), of every repository: other clones have it too.

    Those made of the commit alone come first, then those with some of a worktree's changes; the most recently
    used first among each.
    """
    found = [
        stored
        for stored in listing(cache)
        if stored.commit == commit and stored.kind == "base" and stored.state == "ready"
    ]
    return sorted(found, key=lambda stored: (stored.name != commit, -stored.used))


def budget() -> int:
    """Bytes that all indexes together may take."""
    try:
        return int(os.environ["INDEXGREP_CACHE_BUDGET"])
    except (KeyError, ValueError):
        return BUDGET


def keep_budget(cache: Path, keep: Path) -> None:
    """Remove damaged indexes, then the least recently used, until the budget is kept.

    Never ``keep``, and none that a process has open: its server would only build it again.

    What killed builds left is removed everywhere: nobody may ever build in that repository again.
    """
    everything = listing(cache)
    for folder in {stored.directory.parent for stored in everything if stored.state == "building"}:
        store = Store.holding(folder / "any")
        with contextlib.suppress(IndexFault), store.lock():  # unless a build is at work there
            store._remove_leftovers()
    found = [stored for stored in everything if stored.state != "building"]
    total = sum(stored.size for stored in found)
    limit = budget()
    for stored in sorted(found, key=lambda stored: (stored.state == "ready", stored.used)):
        if total <= limit:
            break
        if stored.directory != keep and not _is_held(stored.directory):
            log.info("removed the index %s to keep within %d bytes", stored.directory, limit)
            discard(stored.directory)
            total -= stored.size


def _is_held(directory: Path) -> bool:
    """Whether a process has the index in ``directory`` open."""
    try:
        descriptor = os.open(directory / POSTINGS, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    finally:
        os.close(descriptor)
    return False


def _stored(folder: Path) -> Iterator[Stored]:
    """The indexes in the folder of one repository."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    origin = _origin_of(folder)
    for entry in entries:
        if not entry.is_dir(follow_symlinks=False):
            continue
        directory = Path(entry.path)
        name, state = entry.name, "ready"
        if TEMPORARY in name:
            name, state = name.partition(TEMPORARY)[0], "building"
        elif name.endswith(_CORRUPT):
            name, state = name.removesuffix(_CORRUPT), "corrupt"
        postings, lookup = (_size(directory / part) for part in (POSTINGS, LOOKUP))
        commit, documents = _header_of(directory)
        yield Stored(
            origin,
            name,
            directory,
            commit,
            documents,
            _total(directory),
            postings,
            lookup,
            _used(directory),
            state,
        )


def _origin_of(folder: Path) -> str:
    """The path that the folder of a repository stands for; empty where that is not known."""
    try:
        return os.fsdecode((folder / "origin").read_bytes())
    except OSError:
        return ""


def _identity(directory: Path) -> tuple[int, int] | None:
    """What tells an index from another in its place; ``None`` where there is no directory."""
    try:
        status = os.stat(directory)
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISDIR(status.st_mode) else None


def _total(directory: Path) -> int:
    """Bytes of all files in a directory."""
    try:
        return sum(_size(path) for path in directory.iterdir())
    except OSError:
        return 0


def _size(path: Path) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _used(directory: Path) -> float:
    for path in (directory / "used", directory):
        with contextlib.suppress(OSError):
            return os.stat(path).st_mtime
    return 0.0


def _header_of(directory: Path) -> tuple[str, int]:
    """The commit and the number of documents in the header of an index, if that can be read."""
    try:
        with open(directory / POSTINGS, "rb", buffering=0) as file:
            header: Any = read_header(file, POSTINGS, os.fstat(file.fileno()).st_size)[0]
    except (OSError, IndexCorrupt):
        return "", 0
    return header.commit, header.documents
