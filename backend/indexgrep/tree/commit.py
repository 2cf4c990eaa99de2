"""The files of a commit, and which of them the working tree holds unchanged."""

from __future__ import annotations

from dataclasses import dataclass

import pygit2

from .root import Root

_FILES = (int(pygit2.enums.FileMode.BLOB), int(pygit2.enums.FileMode.BLOB_EXECUTABLE))


@dataclass(frozen=True)
class Commit:
    """A commit's regular files: paths in ascending order of their bytes, with the ids of their blobs.

    ``changed`` are those that the working tree does not hold as they were committed, by git's own stat cache
    (and its content comparison where that is in doubt).
    """

    id: str
    files: dict[bytes, pygit2.Oid]
    changed: frozenset[bytes]


class Blobs:
    """Reads the blobs of a commit's changed files from the object store."""

    def __init__(self, root: Root, commit: Commit) -> None:
        self._repository = pygit2.Repository(root.git_dir)
        self._commit = commit

    def read(self, path: bytes) -> bytes | None:
        """The committed content of a changed file; ``None`` for a file the working tree holds unchanged, and
        where the object is missing (a shallow or partial clone)."""
        if path not in self._commit.changed:
            return None
        try:
            blob = self._repository[self._commit.files[path]]
        except (KeyError, ValueError, pygit2.GitError):
            return None
        return blob.data if isinstance(blob, pygit2.Blob) else None


def head_commit(root: Root) -> Commit | None:
    """The commit of HEAD; ``None`` without git, on an unborn branch, or where git cannot read it.

    About 1 s for 78,000 files, most of it for comparing the working tree.
    """
    if root.git_dir is None:
        return None
    try:
        repository = pygit2.Repository(root.git_dir)
        commit = repository.revparse_single("HEAD").peel(pygit2.Commit)
        listing = pygit2.Index()
        listing.read_tree(commit.tree)
        files = {
            entry.path.encode("utf-8", "surrogateescape"): entry.id
            for entry in listing
            if int(entry.mode) in _FILES
        }
        status = repository.status(untracked_files="no", ignored=False)
    except (pygit2.GitError, KeyError, ValueError, OSError):
        return None
    changed = frozenset(path.encode("utf-8", "surrogateescape") for path in status)
    return Commit(str(commit.id), dict(sorted(files.items())), changed & files.keys())


def distance(root: Root, first: str, second: str) -> int | None:
    """In how many files two commits (hex) differ; ``None`` where this repository does not have them both.

    A comparison of trees: no content is read. About 0.05 s for trees of 78,000 files that differ widely.
    """
    if root.git_dir is None:
        return None
    try:
        repository = pygit2.Repository(root.git_dir)
        trees = [repository[commit].peel(pygit2.Tree) for commit in (first, second)]
        return len(trees[0].diff_to_tree(trees[1]))
    except (pygit2.GitError, KeyError, ValueError, OSError):
        return None
