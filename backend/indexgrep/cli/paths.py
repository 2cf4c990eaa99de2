"""Between paths as the user spells them and paths as the engine has them.

The engine takes absolute paths without symbolic links and answers with paths relative to the root, in
ripgrep's order: in each directory files and directories together, by the bytes of their names. A user sees
what ``rg`` would print: the argument as it was spelled, and below it the rest; nothing before a path where no
argument was given. Several arguments are answered in the order they were given, each on its own.
"""

from __future__ import annotations

import os
import stat
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator

from ..errors import RootError
from ..request import FileResult
from .output import Messages, os_error


class Target:
    """One place to search: an argument, or the directory that is meant where none was given."""

    __slots__ = ("is_file", "real", "root", "shown")

    def __init__(self, shown: bytes, real: str, *, is_file: bool, root: str) -> None:
        #: What is printed before the path inside the target; for a file, all of its path.
        self.shown = shown
        #: Absolute, without symbolic links.
        self.real = real
        #: Anything but a directory. A file that is named is searched whatever the ignore rules say.
        self.is_file = is_file
        #: The root that the engine opens for it.
        self.root = root


def order(path: bytes) -> bytes:
    """The key by which ``rg --sort path`` orders paths."""
    return path.replace(b"/", b"\0")


def targets_of(
    arguments: list[str],
    *,
    root: str | None,
    root_of: Callable[[str], str],
    messages: Messages,
) -> list[Target]:
    """The places that the path ``arguments`` name; those that do not exist are reported and left out.

    ``root`` is ``--root``; ``root_of`` finds the root for a directory. Raises ``RootError`` when an argument
    lies outside a given root, or the root is no directory.
    """
    cwd = os.getcwd()
    fixed = None
    if root is not None:
        fixed = os.path.realpath(root)
        if not os.path.isdir(fixed):
            kind = "not a directory" if os.path.exists(fixed) else "no such directory"
            raise RootError(f"--root {root}: {kind}")
    if not arguments:
        if fixed is None or is_inside(cwd, fixed):
            return [Target(b"", cwd, is_file=False, root=fixed or root_of(cwd))]
        return [Target(_prefix(str(root)), fixed, is_file=False, root=fixed)]
    here = fixed
    targets = []
    for argument in arguments:
        try:
            mode = os.stat(argument).st_mode
        except (OSError, ValueError) as error:
            reason = os_error(error) if isinstance(error, OSError) else str(error)
            messages.error(f"{argument}: {reason}")
            continue
        real = os.path.realpath(argument)
        is_file = not stat.S_ISDIR(mode)
        if fixed is not None and not is_inside(real, fixed):
            raise RootError(f"{argument} lies outside the root {fixed}", "Give another --root, or none.")
        if here is None and is_inside(real, cwd):
            here = root_of(cwd)
        if here is not None and is_inside(real, here):
            own_root = here
        else:
            own_root = root_of(os.path.dirname(real) if is_file else real)
        shown = os.fsencode(argument) if is_file else _prefix(argument)
        targets.append(Target(shown, real, is_file=is_file, root=own_root))
    return targets


def is_inside(path: str, directory: str) -> bool:
    """Whether the absolute ``path`` is ``directory`` or lies below it."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def _prefix(argument: str) -> bytes:
    encoded = os.fsencode(argument)
    return encoded if encoded.endswith(b"/") else encoded + b"/"


class Group:
    """Targets that one request answers: of one root, none of them inside another."""

    def __init__(self, first: Target) -> None:
        self.root = first.root
        self.targets = [first]

    def takes(self, target: Target) -> bool:
        """Adds ``target`` where it fits."""
        if target.root != self.root or any(
            is_inside(target.real, other.real) or is_inside(other.real, target.real) for other in self.targets
        ):
            return False
        self.targets.append(target)
        return True

    def arrange(self, results: Iterable[FileResult], root: str) -> Iterator[tuple[FileResult, bytes, Target]]:
        """Each result with its path as it is shown and its target, in the order of the targets.

        ``results`` come in order of path, their paths relative to ``root``. Those of a target that is not
        the next one are held back until every target before it is known to have no more.
        """
        if len(self.targets) == 1:
            yield from self._single(results, root)
            return
        relative = [_relative(target.real, root) for target in self.targets]
        ranked = sorted(range(len(relative)), key=lambda index: order(relative[index]))
        keys = [order(relative[index]) for index in ranked]
        held: list[list[tuple[FileResult, bytes, Target]]] = [[] for _ in self.targets]
        finished = [False] * len(self.targets)
        turn = 0
        passed = 0
        for result in results:
            path = os.fsencode(result.path)
            rank = bisect_right(keys, order(path)) - 1
            while passed < rank:
                finished[ranked[passed]] = True
                passed += 1
            while finished[turn]:
                yield from held[turn]
                held[turn] = []
                turn += 1
            index = ranked[max(rank, 0)]
            target = self.targets[index]
            inner = path[len(relative[index]) :].lstrip(b"/")
            entry = (result, target.shown if target.is_file else target.shown + inner, target)
            if index == turn:
                yield entry
            else:
                held[index].append(entry)
        for entries in held[turn:]:
            yield from entries

    def _single(self, results: Iterable[FileResult], root: str) -> Iterator[tuple[FileResult, bytes, Target]]:
        target = self.targets[0]
        skip = len(_relative(target.real, root))
        skip = skip + 1 if skip else 0  # the slash
        shown = target.shown
        for result in results:
            path = os.fsencode(result.path)
            yield result, shown if target.is_file else shown + path[skip:], target


def groups_of(targets: list[Target]) -> list[Group]:
    """The targets in as few requests as their order allows."""
    groups: list[Group] = []
    for target in targets:
        if not groups or not groups[-1].takes(target):
            groups.append(Group(target))
    return groups


def _relative(path: str, root: str) -> bytes:
    """``path`` below ``root``, without a slash at either end."""
    return os.fsencode(path[len(root.rstrip("/")) :].strip("/"))
