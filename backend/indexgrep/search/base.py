"""The base index of a worktree: what goes into it, and where it is kept.

In a git worktree with a commit, the base stands for that commit: its files, as the working tree holds them
where git says they are unchanged, else from the object store. Without git, or before the first commit, it is
the files that ``rg`` would search.

A document counts only while its file has the stat signature that was recorded when it was read, so a base
serves the worktree it was made in: several worktrees of a repository share the folder, not the base.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

from ..errors import Cancelled, IndexLocked
from ..index.reader import Index
from ..index.store import Store
from ..runtime import root_key
from ..tree.commit import Blobs, head_commit
from ..tree.root import Root
from .view import View

#: How often a build that another process holds up looks again, in seconds.
_LOCK_SECONDS = 0.5


def store_of(root: Root) -> Store:
    return Store(root.common_dir or root.path)


def _suffix(root: Root) -> str:
    """What the names of this worktree's bases end in."""
    return "-" + root_key(root.path)[:8]


def _name(root: Root, commit: str) -> str:
    return (commit or "files") + _suffix(root)


def open_best(root: Root) -> Index | None:
    """The base of HEAD, else the one that was used last; ``None`` where there is none that can be used.

    Raises ``IndexFault`` where one is there but cannot be read.
    """
    store = store_of(root)
    suffix = _suffix(root)
    names = [name for name in store.names() if name.endswith(suffix)]
    names.sort(key=lambda name: name != _name(root, root.head()))
    for name in names:
        index = store.open(name)
        if index is not None:
            return index
    return None


def build(
    root: Root,
    view: View,
    progress: Callable[[dict[str, Any]], None] | None,
    cancel: threading.Event | None,
) -> Index:
    """Build and open the base of HEAD; ``view`` is the universe as it is now.

    While another process builds in the same repository this one waits (``progress`` then has the phase
    ``wait``), and takes what was made if it is the same. Raises ``IndexFault`` and ``Cancelled``.
    """
    commit = head_commit(root)
    paths = view.paths()
    store = store_of(root)
    name = _name(root, "" if commit is None else commit.id)
    read_blob = None
    if commit is not None:
        # Files that plain ``rg`` does not search (tracked but ignored) would never be asked for.
        paths = [path for path in paths if path in commit.files]
        read_blob = Blobs(root, commit).read
    waiting_since = time.time()
    while True:
        try:
            return store.build(
                name,
                root.path,
                paths,
                commit="" if commit is None else commit.id,
                read_blob=read_blob,
                progress=progress,
                cancel=cancel,
            )
        except IndexLocked:
            if progress is not None:
                progress({"phase": "wait"})
        (cancel or threading.Event()).wait(_LOCK_SECONDS)
        if cancel is not None and cancel.is_set():
            raise Cancelled("the build was cancelled")
        index = _built_since(store, name, waiting_since)
        if index is not None:
            return index


def _built_since(store: Store, name: str, when: float) -> Index | None:
    """The base ``name``, if another process has made it since ``when`` (seconds since the epoch)."""
    try:
        if os.stat(store.path(name)).st_mtime < when:
            return None
    except OSError:
        return None
    return store.open(name)


def quarantine(root: Root, index: Index) -> None:
    """Move the files of a damaged base aside, unless another process has replaced them already."""
    if index.is_on_disk():
        store_of(root).quarantine(index.directory.name)
