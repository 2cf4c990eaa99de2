"""The base index of a worktree: what goes into it, and where it is kept.

In a git worktree with a commit, the base stands for that commit: its files, as the working tree holds them
where git says they are unchanged, else from the object store. Without git, or before the first commit, it is
the files that ``rg`` would search.

A document counts only while its file has the stat signature that was recorded when it was read, so a base
serves the worktree it was made in: several worktrees of a repository share the folder, not the base.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ..index.reader import Index
from ..index.store import Store
from ..runtime import root_key
from ..tree.commit import Blobs, head_commit
from ..tree.root import Root
from .view import View


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

    Raises ``IndexFault``, ``IndexLocked`` and ``Cancelled``.
    """
    commit = head_commit(root)
    universe = view.paths()
    if commit is None:
        return store_of(root).build(_name(root, ""), root.path, universe, progress=progress, cancel=cancel)
    # Files that plain ``rg`` does not search (tracked but ignored) would never be asked for.
    paths = [path for path in universe if path in commit.files]
    blobs = Blobs(root, commit)
    return store_of(root).build(
        _name(root, commit.id),
        root.path,
        paths,
        commit=commit.id,
        read_blob=blobs.read,
        progress=progress,
        cancel=cancel,
    )


def quarantine(root: Root, index: Index) -> None:
    """Move the files of a damaged base aside."""
    store_of(root).quarantine(index.directory.name)
