"""The indexes of one worktree on disk: what they are called, which of them to use, building a base.

=============================== ============================================================================
name                            what it is
=============================== ============================================================================
``<commit>``                    a base: the files of a commit, as the working tree held them where git said
                                they were unchanged, else from the object store
``<commit>-<root key>``         a base made of the layers of one worktree when its HEAD was that commit
``files-<root key>``            a base of a worktree without git or before its first commit: its files
``segment-<root key>-<random>`` a segment: files of one worktree that were hot
=============================== ============================================================================

Bases are content and say nothing of a worktree, so any worktree of the repository, or another clone of it,
may use any of them; what it knows of its own files is in its stamps (``index.stamps``).
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from ..errors import Cancelled, IndexFault, IndexLocked
from ..index.format import POSTINGS
from ..index.reader import Index
from ..index.stamps import read_stamps, stamps_path
from ..index.store import SEGMENT, Store, Stored, find_commit, listing
from ..index.workers import Workers
from ..runtime import root_key
from ..tree.commit import Blobs, distance, head_commit
from ..tree.root import Root
from .adopt import adopted
from .view import Layer, layer_of

log = logging.getLogger("indexgrep.overlay")

#: How often a build that another process holds up looks again, in seconds.
_LOCK_SECONDS = 0.5
#: A base is near when its commit differs from HEAD in no more than this share of its files.
_NEAR = 0.2
#: Bases whose distance from HEAD is looked at.
_COMPARED = 8
#: Hot files whose content is compared with a base's before it is used.
_SAMPLE = 64


def store_of(root: Root) -> Store:
    return Store(root.common_dir or root.path)


def key_of(root: Root) -> str:
    """What this worktree's stamps are called by."""
    return root_key(root.path)


def _short_key(root: Root) -> str:
    return key_of(root)[:8]


def base_name(root: Root, commit: str) -> str:
    """The name of a full build."""
    return commit or f"files-{_short_key(root)}"


def compacted_name(root: Root, commit: str) -> str:
    return f"{commit or 'files'}-{_short_key(root)}"


def new_segment_name(root: Root) -> str:
    return f"{SEGMENT}{_short_key(root)}-{secrets.token_hex(4)}"


def is_segment(index: Index) -> bool:
    return index.directory.name.startswith(SEGMENT)


# Opening


def open_layers(root: Root) -> list[Layer]:
    """The stack to start with: this worktree's segments, newest first, and the best base; or nothing.

    Raises ``IndexFault`` where a base is there but cannot be read.
    """
    store = store_of(root)
    stored = store.stored()
    base = _first_of(root, _ranked(root, [one for one in stored if _may_be_base(root, one)]))
    if base is None:
        return []
    own = f"{SEGMENT}{_short_key(root)}-"
    segments = [one for one in stored if one.name.startswith(own) and _has_stamps(root, one)]
    segments.sort(key=lambda one: _made(one.directory), reverse=True)
    layers = []
    for one in segments:
        try:
            index = store.open(one.name)
        except IndexFault as error:
            log.warning("a segment cannot be read: %s", error.message)
            continue
        if index is not None:
            layers.append(layer_with_stamps(root, index))
    return [*layers, base]


def nearer_base(root: Root, layers: Iterable[Layer], hot: list[bytes]) -> Layer | None:
    """A base, not among ``layers``, that would serve many of the ``hot`` files; ``None`` where there is none.

    That of HEAD's commit, or one whose commit differs from HEAD in less than half as many files: if it has
    the content of most of a sample of them.
    """
    head = root.head()
    opened = {layer.index.directory for layer in layers}
    bases = [
        one for one in store_of(root).stored() if _may_be_base(root, one) and one.directory not in opened
    ]
    exact = [one for one in bases if one.commit == head]
    exact += [one for one in _of_other_clones(root, head) if one.directory not in opened]
    near = []
    for one in bases[:_COMPARED]:
        if one not in exact and one.commit and head:
            apart = distance(root, one.commit, head)
            if apart is not None and 2 * apart < len(hot):
                near.append((apart, one))
    near.sort(key=lambda pair: pair[0])
    sample = hot[:: len(hot) // _SAMPLE + 1]
    for one in [*exact, *(one for _, one in near)]:
        layer = _first_of(root, [one])
        if layer is not None and 2 * adopted(root.path, [layer], sample, threading.Event())[1] > len(sample):
            return layer
    return None


def _of_other_clones(root: Root, commit: str) -> list[Stored]:
    """Bases of a commit that another repository's folder has."""
    own = store_of(root).directory
    return [
        one
        for one in (find_commit(commit) if commit else [])
        if one.directory.parent != own and _may_be_base(root, one)
    ]


def _may_be_base(root: Root, stored: Stored) -> bool:
    """Whether it is a base, and not the files of another worktree."""
    name = stored.name
    return (
        stored.state == "ready"
        and stored.kind == "base"
        and (not name.startswith("files-") or name == base_name(root, ""))
    )


def _has_stamps(root: Root, stored: Stored) -> bool:
    return stamps_path(stored.directory, key_of(root)).exists()


def _made(directory: Path) -> int:
    try:
        return os.stat(directory / POSTINGS).st_mtime_ns
    except OSError:
        return 0


def _ranked(root: Root, bases: list[Stored]) -> Iterator[Stored]:
    """The bases, best first: how many files each will serve, and whether its stamps are there already.

    ``bases`` are this repository's, the most recently used first.
    """
    head = root.head()
    known = [one for one in bases if _has_stamps(root, one)]
    exact = [one for one in bases if one.commit == head]
    yield from (one for one in exact if one in known)
    apart = _by_distance(root, head, [one for one in bases if one not in exact])
    yield from (one for far, one in apart if one in known and far <= _NEAR * one.documents)
    yield from exact
    yield from _of_other_clones(root, head)
    yield from (one for _, one in apart if one in known)
    yield from (one for _, one in apart)
    yield from _near_of_other_clones(root, head)


def _near_of_other_clones(root: Root, head: str) -> Iterator[Stored]:
    """Bases near HEAD that another repository's folder has: the one, say, that this clone used before HEAD
    moved."""
    own = store_of(root).directory
    others = [one for one in listing() if one.directory.parent != own and _may_be_base(root, one)]
    others.sort(key=lambda one: (not _has_stamps(root, one), -one.used))
    yield from (one for far, one in _by_distance(root, head, others) if far <= _NEAR * one.documents)


def _by_distance(root: Root, head: str, bases: list[Stored]) -> list[tuple[float, Stored]]:
    """The bases with the number of files in which their commit differs from HEAD, nearest first."""
    measured: list[tuple[float, Stored]] = []
    for one in bases[:_COMPARED]:
        apart = distance(root, one.commit, head) if one.commit and head else None
        measured.append((float("inf") if apart is None else apart, one))
    return sorted(measured, key=lambda pair: pair[0])


def _first_of(root: Root, bases: Iterable[Stored]) -> Layer | None:
    """The first that can be opened. Raises ``IndexFault`` where there is one, but none can be read."""
    fault: IndexFault | None = None
    for one in bases:
        try:
            index = Store.holding(one.directory).open(one.name)
        except IndexFault as error:
            log.warning("a base cannot be read: %s", error.message)
            fault = error
            continue
        if index is not None:
            return layer_with_stamps(root, index)
    if fault is not None:
        raise fault
    return None


def layer_with_stamps(root: Root, index: Index) -> Layer:
    """A layer of this worktree, in which nothing is live yet."""
    return layer_of(index, read_stamps(index.directory, key_of(root), index))


# Building


def build_base(
    root: Root,
    paths: list[bytes],
    workers: Workers,
    progress: Callable[[dict[str, Any]], None] | None,
    cancel: threading.Event,
) -> Layer:
    """Build and open the base of HEAD from ``paths``, the universe as it is now, in ascending order.

    While another process builds in the same repository this one waits (``progress`` then has the phase
    ``wait``), and takes what was made if it is the same. Raises ``IndexFault`` and ``Cancelled``.
    """
    commit = head_commit(root)
    store = store_of(root)
    name = base_name(root, "" if commit is None else commit.id)
    read_blob = None
    if commit is not None:
        # Files that plain ``rg`` does not search (tracked but ignored) would never be asked for.
        paths = [path for path in paths if path in commit.files]
        read_blob = Blobs(root, commit).read
    waiting_since = time.time()
    while True:
        try:
            index = store.build(
                name,
                root.path,
                paths,
                commit="" if commit is None else commit.id,
                stamps_key=key_of(root),
                workers=workers,
                read_blob=read_blob,
                progress=progress,
                cancel=cancel,
            )
            return layer_with_stamps(root, index)
        except IndexLocked:
            wait_for_lock(progress, cancel)
        made = _built_since(store, name, waiting_since)
        if made is not None:
            return layer_with_stamps(root, made)


def wait_for_lock(progress: Callable[[dict[str, Any]], None] | None, cancel: threading.Event) -> None:
    """Wait a moment, since another process builds in the same repository. Raises ``Cancelled``."""
    if progress is not None:
        progress({"phase": "wait"})
    if cancel.wait(_LOCK_SECONDS):
        raise Cancelled("the build was cancelled")


def _built_since(store: Store, name: str, when: float) -> Index | None:
    """The base ``name``, if another process has made it since ``when`` (seconds since the epoch)."""
    try:
        if os.stat(store.path(name) / POSTINGS).st_mtime < when:
            return None
    except OSError:
        return None
    return store.open(name)
