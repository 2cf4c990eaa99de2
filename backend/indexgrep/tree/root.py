"""From a path to the root of a search: the top of the git worktree it lies in, else the directory itself."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from pathlib import Path

import pygit2

from ..errors import RootError


@dataclass(frozen=True)
class Root:
    """The top of a worktree, or a plain directory.

    Paths are ``str`` with ``surrogateescape``, absolute and real, without a slash at the end.
    """

    path: str
    #: The git directory of this worktree (for a linked one: below ``common_dir``), ``None`` without git.
    git_dir: str | None = None
    #: The git directory that all worktrees of the repository share, ``None`` without git.
    common_dir: str | None = None

    def head(self) -> str:
        """The commit of HEAD now (hex); empty without git, on an unborn branch, or when HEAD cannot be read.

        About 0.1 ms.
        """
        return _head(self.git_dir) if self.git_dir is not None else ""


def find_root(path: str | os.PathLike[str], *, force: bool = False) -> Root:
    """The root that ``path`` (a directory, or a file in one) belongs to.

    Raises ``RootError`` when the path does not exist, is neither file nor directory, cannot be read, lies
    in a bare repository, or when the root would be ``/`` or the home directory and ``force`` is not set.
    A repository that git itself would not open (another owner, damaged) is taken as a plain directory.
    """
    given = os.fspath(path)
    try:
        start = os.path.realpath(given, strict=True)
        status = os.stat(start)
    except OSError as error:
        raise RootError(f"cannot search {given}: {error.strerror}", _hint(error)) from None
    if not stat.S_ISDIR(status.st_mode):
        if not stat.S_ISREG(status.st_mode):
            raise RootError(
                f"cannot search {given}: it is neither a file nor a directory",
                "Give a directory, or a file in one.",
            )
        start = os.path.dirname(start)
    root = _discover(start) or Root(start)
    if not os.access(root.path, os.R_OK | os.X_OK):
        raise RootError(
            f"cannot search {root.path}: Permission denied",
            "Ask for the right to read it, or search elsewhere.",
        )
    if not force:
        _refuse_too_wide(root.path)
    return root


def _hint(error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return "Check the spelling, or give a path that exists."
    if isinstance(error, NotADirectoryError):
        return "A part of the path is a file, not a directory."
    return "Give a path that you may read."


def _refuse_too_wide(path: str) -> None:
    home = os.path.realpath(Path.home())
    if path == "/":
        what = "the root of the file system"
    elif path == home:
        what = "your home directory"
    else:
        return
    raise RootError(
        f"refusing to search {path}: it is {what}",
        "Search a project instead, or force it with --force-root if you mean it.",
    )


def _discover(start: str) -> Root | None:
    """The worktree that ``start`` lies in, if any. Raises ``RootError`` for a bare repository."""
    try:
        found = pygit2.discover_repository(start)
    except (pygit2.GitError, KeyError, ValueError, OSError):
        return None
    if found is None:
        return None
    try:
        repository = pygit2.Repository(found)
        workdir, git_dir, bare = repository.workdir, repository.path, repository.is_bare
        repository.free()
    except (pygit2.GitError, KeyError, ValueError, OSError):
        return None
    if workdir is None or bare:
        raise RootError(
            f"cannot search {start}: it lies in a bare repository, which has no files",
            "Search one of its worktrees (`git worktree list`), or a clone.",
        )
    top = os.path.realpath(workdir)
    inside = start == top or start.startswith(top.rstrip("/") + "/")
    if not inside:
        # Below the git directory itself, or core.worktree points elsewhere: search what was asked for.
        return None
    git_dir = os.path.realpath(git_dir)
    return Root(top, git_dir, _common_dir(git_dir))


def _common_dir(git_dir: str) -> str:
    try:
        pointer = Path(git_dir, "commondir").read_text(errors="surrogateescape").strip()
    except OSError:
        return git_dir
    return os.path.realpath(os.path.join(git_dir, pointer))


def _head(git_dir: str) -> str:
    try:
        repository = pygit2.Repository(git_dir)
        try:
            return str(repository.head.target)
        finally:
            repository.free()
    except (pygit2.GitError, KeyError, ValueError, OSError):
        return ""
