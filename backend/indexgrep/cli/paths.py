"""Between paths as the user spells them and paths as the engine has them.

The engine answers with paths relative to the root, target by target, each in ripgrep's order: in a directory
files and directories together, by the bytes of their names. A user sees what ``rg`` would print: the argument
as it was spelled, and below it the rest; nothing before a path where no argument was given. Symbolic links in
arguments keep their names, as they do with ripgrep.
"""

from __future__ import annotations

import os
import stat
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator

from ..errors import RootError, os_error
from ..request import FileResult
from .output import Messages


def current_directory() -> str:
    """The working directory. Raises ``RootError`` where somebody has removed it."""
    try:
        return os.getcwd()
    except FileNotFoundError:
        raise RootError("the current directory is gone", "Change to another one.") from None


class Target:
    """One place to search: an argument, or the directory that is meant where none was given."""

    __slots__ = ("is_file", "path", "root", "sent", "shown")

    def __init__(self, shown: bytes, path: str, *, sent: str, is_file: bool, root: str) -> None:
        #: What is printed before the path inside the target; for a file, all of its path.
        self.shown = shown
        #: Absolute, without ``.`` and ``..``.
        self.path = path
        #: How the engine is told of it: relative to the working directory, or absolute.
        self.sent = sent
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
    unsaved: bool = False,
) -> list[Target]:
    """The places that the path ``arguments`` name; those that do not exist are reported and left out.

    With ``unsaved`` they may be in an unsaved buffer, and are left to the engine.

    ``root`` is ``--root``; ``root_of`` finds the root for a directory. Without ``--root`` the working
    directory's root serves what lies in it, and also what lies in no repository: a file named somewhere on
    the disk is no reason to index the directory around it. Raises ``RootError`` when an argument lies
    outside a given root, or that root is no directory.
    """
    cwd = current_directory()
    if root is not None:
        return _targets_below(root, arguments, cwd, root_of, messages, unsaved)
    here = root_of(cwd)
    if not arguments:
        return [Target(b"", cwd, sent=".", is_file=False, root=here)]
    too_wide = here in ("/", os.path.realpath(os.path.expanduser("~")))
    targets = []
    for argument, is_file in _existing(arguments, messages, unsaved):
        path = absolute(cwd, argument)
        if is_inside(path, here) and not too_wide:
            targets.append(_named(argument, path, argument, is_file, here))
            continue
        real = os.path.realpath(path)
        own = root_of(_directory(real) if is_file else real)
        if too_wide or os.path.lexists(os.path.join(own, ".git")):
            targets.append(_named(argument, real, real, is_file, own))
        else:
            targets.append(_named(argument, path, argument, is_file, here))
    return targets


def _targets_below(
    root: str,
    arguments: list[str],
    cwd: str,
    root_of: Callable[[str], str],
    messages: Messages,
    unsaved: bool,
) -> list[Target]:
    """``targets_of`` with ``--root``."""
    given = os.path.realpath(root)
    if not os.path.isdir(given):
        kind = "not a directory" if os.path.exists(given) else "no such directory"
        raise RootError(f"--root {root}: {kind}")
    top = root_of(given)
    if not arguments:
        if is_inside(cwd, given):
            return [Target(b"", cwd, sent=".", is_file=False, root=top)]
        return [_named(root, given, given, False, top)]
    targets = []
    for argument, is_file in _existing(arguments, messages, unsaved):
        path, sent = absolute(cwd, argument), argument
        if not is_inside(path, given):
            path = sent = os.path.realpath(argument)
        if not is_inside(path, given):
            raise RootError(f"{argument} lies outside the root {given}", "Give another --root, or none.")
        targets.append(_named(argument, path, sent, is_file, top))
    return targets


def _existing(arguments: list[str], messages: Messages, unsaved: bool) -> Iterator[tuple[str, bool]]:
    """The arguments that exist, each with whether it is a file (anything but a directory).

    With ``unsaved`` those that do not exist are in it as well, by their spelling.
    """
    for argument in arguments:
        try:
            mode = os.stat(argument).st_mode
        except FileNotFoundError as error:
            if unsaved and argument:
                yield argument, not argument.endswith("/")
            else:
                messages.error(f"{argument}: {os_error(error)}")
        except (OSError, ValueError) as error:
            messages.error(f"{argument}: {os_error(error) if isinstance(error, OSError) else error}")
        else:
            yield argument, not stat.S_ISDIR(mode)


def _directory(path: str) -> str:
    """The directory that a file lies in, or that its missing ones lie in."""
    directory = os.path.dirname(path)
    while not os.path.isdir(directory):
        directory = os.path.dirname(directory)
    return directory


def _named(argument: str, path: str, sent: str, is_file: bool, root: str) -> Target:
    """The target of an argument, shown as it is spelled."""
    shown = os.fsencode(argument)
    if not is_file and not shown.endswith(b"/"):
        shown += b"/"
    return Target(shown, path, sent=sent, is_file=is_file, root=root)


def absolute(cwd: str, argument: str) -> str:
    """``argument`` as an absolute path without ``.``, ``..`` and empty components.

    Symbolic links stay as they are written, except before a ``..``: the parent of what they point to.
    """
    parts = [part for part in os.path.join(cwd, argument).split("/") if part not in ("", ".")]
    if ".." not in parts:
        return "/" + "/".join(parts)
    last = len(parts) - 1 - parts[::-1].index("..")
    return os.path.join(os.path.realpath("/" + "/".join(parts[: last + 1])), *parts[last + 1 :])


def is_inside(path: str, directory: str) -> bool:
    """Whether the absolute ``path`` is ``directory`` or lies below it."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


class Group:
    """Targets that one request answers: of one root, none of them inside another."""

    def __init__(self, first: Target) -> None:
        self.root = first.root
        self.targets = [first]

    def takes(self, target: Target) -> bool:
        """Adds ``target`` where it fits."""
        if target.root != self.root or any(
            is_inside(target.path, other.path) or is_inside(other.path, target.path) for other in self.targets
        ):
            return False
        self.targets.append(target)
        return True

    def named(self, results: Iterable[FileResult], root: str) -> Iterator[tuple[FileResult, bytes, Target]]:
        """Each result with its path as it is shown and its target; ``results`` are relative to ``root``."""
        top = os.fsencode(root.rstrip("/")) + b"/"
        outside = not all(is_inside(target.path, root) for target in self.targets)
        places = []
        for target in self.targets:
            place = os.fsencode(target.path.rstrip("/"))
            places.append((place if outside else place[len(top) :], target))
        places.sort(key=lambda place: order(place[0]))
        keys = [order(place) for place, _ in places]
        for result in results:
            path = os.fsencode(result.path)
            if outside:  # the root may lie in a target
                path = os.path.join(top, path)
            place, target = places[max(bisect_right(keys, order(path)) - 1, 0)]
            inner = path[len(place) :].lstrip(b"/")
            if target.is_file and inner:  # a directory after all, which only unsaved buffers make
                inner = b"/" + inner
            yield result, target.shown + inner, target


def groups_of(targets: list[Target]) -> list[Group]:
    """The targets in as few requests as their order allows."""
    groups: list[Group] = []
    for target in targets:
        if not groups or not groups[-1].takes(target):
            groups.append(Group(target))
    return groups
