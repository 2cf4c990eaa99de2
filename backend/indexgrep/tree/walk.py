"""The files that ``rg --files`` lists, for any of its flags.

Differences from ripgrep, all deliberate:

- the answer is sorted by the bytes of the paths, and a file reached twice (``. ./src``) is in it once;
- FIFOs, sockets and devices are never in it, not even when they are given explicitly;
- ``-t`` counts before ``-T`` (ripgrep goes by the order of all of them), as does ``-g`` before
  ``--iglob`` (so too in ripgrep).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ..errors import UsageError, os_error
from .glob import GlobError
from .ignore import IgnoreOptions, IgnoreReader, literal_prefix, parse_ignore_line
from .root import Root
from .rules import Rule, RuleSet
from .supposed import Supposed, SupposedTraversal
from .traverse import Selection, Traversal, WalkError
from .types import type_rules


@dataclass(frozen=True)
class WalkOptions:
    """ripgrep's flags that choose files; the names and defaults are those of ``SearchRequest``."""

    #: Files and directories to start from, relative to ``cwd`` or absolute; empty means ``cwd``.
    paths: tuple[str, ...] = ()
    #: Absolute directory that ``paths`` and globs are relative to; empty means the root.
    cwd: str = ""
    globs: tuple[str, ...] = ()
    iglobs: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    types_not: tuple[str, ...] = ()
    hidden: bool = False
    no_ignore: bool = False
    no_ignore_vcs: bool = False
    follow: bool = False
    max_depth: int | None = None
    max_filesize: int | None = None


@dataclass
class Walk:
    """What a walk found. Paths are relative to the root where they lie in it (by name), else absolute."""

    #: Regular files, sorted.
    files: list[bytes] = field(default_factory=list)
    #: What could not be read: ``(path, message)``.
    errors: list[WalkError] = field(default_factory=list)


@dataclass
class WalkSupposed:
    """By what names a walk meets supposed files; values are their real paths."""

    #: Those that it would list.
    wanted: dict[bytes, bytes] = field(default_factory=dict)
    #: These, and those in directories it enters that are ignored, hidden, too large or not asked for.
    met: dict[bytes, bytes] = field(default_factory=dict)


def walk(root: Root, options: WalkOptions) -> Walk:
    """Exactly what ``rg --files`` with these flags lists, see the module for the exceptions.

    Raises ``UsageError`` for a glob that does not parse and for an unknown type. Paths that do not exist or
    cannot be listed are in ``errors``; the rest goes on.
    """
    flags = _Flags(root, options)
    found = Walk()
    for start in flags.starts():
        try:
            status = os.stat(start.path)
        except OSError as error:
            found.errors.append((start.name, os_error(error)))
            continue
        if not stat.S_ISDIR(status.st_mode):
            if stat.S_ISREG(status.st_mode):
                found.files.append(start.name)
            continue
        traversal = Traversal(flags.reader, flags.selection(start))
        found.files += flags.names(traversal, start)
        found.errors += [
            ((start.lead + name).removesuffix(b"/"), message) for name, message in traversal.errors
        ]
    if len(options.paths) > 1:
        found.files = sorted(set(found.files))
    return found


def walk_supposed(root: Root, options: WalkOptions, files: Supposed) -> WalkSupposed:
    """Which of ``files``, and by what names, ``walk`` with these flags would list if they were there.

    The paths of ``options`` are directories, in which nothing else is looked for.
    """
    flags = _Flags(root, options)
    found = WalkSupposed()
    for start in flags.starts():
        traversal = SupposedTraversal(flags.reader, flags.selection(start), files)
        wanted = flags.names(traversal, start)
        found.met |= {start.lead + name: real for name, real in traversal.met.items()}
        found.wanted.update((name, found.met[name]) for name in wanted)
    return found


class _Start(NamedTuple):
    """One argument of a walk."""

    literal: bytes
    #: Absolute.
    path: bytes
    #: As results name it, and what the names of files below it begin with.
    name: bytes
    lead: bytes


class _Flags:
    """The flags of a walk made ready: rules compiled, and what reads the ignore files."""

    def __init__(self, root: Root, options: WalkOptions) -> None:
        """Raises ``UsageError``."""
        self.options = options
        self.root = os.fsencode(root.path)
        self.cwd = os.path.realpath(os.fsencode(options.cwd or root.path))
        self.overrides = override_rules(options.globs, options.iglobs)
        self.types = type_rules(options.types, options.types_not)
        obeyed = IgnoreOptions(
            dot=not options.no_ignore, vcs=not (options.no_ignore or options.no_ignore_vcs)
        )
        self.reader = IgnoreReader(obeyed, self.cwd)

    def starts(self) -> Iterator[_Start]:
        for argument in self.options.paths or (".",):
            literal = os.fsencode(argument)
            path = absolute(self.cwd, literal)
            name = relative_to(self.root, path)
            yield _Start(literal, path, name, name + b"/" if name and not name.endswith(b"/") else name)

    def selection(self, start: _Start) -> Selection:
        options = self.options
        return Selection(
            hidden=options.hidden,
            overrides=self.overrides,
            overrides_lead=literal_prefix(start.literal, self.cwd),
            types=self.types,
            follow=options.follow,
            max_depth=options.max_depth,
            max_filesize=options.max_filesize,
        )

    def names(self, traversal: Traversal, start: _Start) -> list[bytes]:
        """The files that a traversal from ``start`` finds, as results name them."""
        found: list[bytes] = []
        context = self.reader.start(os.path.realpath(start.path), start.literal)
        for run in traversal.run(start.path, context):
            prefix = start.lead + run.directory
            found += [prefix + name for name in run.names] if prefix else run.names
        return found


def override_rules(globs: Sequence[str], iglobs: Sequence[str]) -> RuleSet | None:
    """The rules of ``-g`` and ``--iglob``, ``None`` when there are none. Raises ``UsageError``."""
    rules: list[Rule] = []
    for texts, ignore_case in ((globs, False), (iglobs, True)):
        for text in texts:
            try:
                # The syntax of an ignore file's line with the opposite meaning: a plain glob includes.
                rule = parse_ignore_line(text, ignore_case=ignore_case)
            except GlobError as error:
                raise UsageError(f"error parsing glob '{text}': {error}") from None
            if rule is not None:
                rules.append(Rule(rule.glob, not rule.include, rule.only_directories))
    if not rules:
        return None
    try:
        return RuleSet(rules)
    except ValueError as error:
        raise UsageError(f"a glob is too large to compile: {error}") from None


def absolute(cwd: bytes, argument: bytes) -> bytes:
    """``argument`` as an absolute path without ``.``, ``..`` and empty components.

    Symbolic links stay as they are written, except before a ``..``, which is the parent of the target.
    """
    path = os.path.join(cwd, argument)
    parts = [part for part in path.split(b"/") if part not in (b"", b".")]
    if b".." in parts:
        last = len(parts) - 1 - parts[::-1].index(b"..")
        head = os.path.realpath(b"/" + b"/".join(parts[: last + 1]))
        return os.path.join(head, *parts[last + 1 :])
    return b"/" + b"/".join(parts)


def relative_to(root: bytes, path: bytes) -> bytes:
    """``path`` relative to ``root`` when it lies in it (``b""`` for the root itself), else as it is."""
    if path == root:
        return b""
    lead = root if root.endswith(b"/") else root + b"/"
    return path[len(lead) :] if path.startswith(lead) else path
