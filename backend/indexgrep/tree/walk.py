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
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..errors import UsageError, os_error
from .glob import GlobError
from .ignore import IgnoreOptions, IgnoreReader, literal_prefix, parse_ignore_line
from .root import Root
from .rules import Rule, RuleSet
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


def walk(root: Root, options: WalkOptions) -> Walk:
    """Exactly what ``rg --files`` with these flags lists, see the module for the exceptions.

    Raises ``UsageError`` for a glob that does not parse and for an unknown type. Paths that do not exist or
    cannot be listed are in ``errors``; the rest goes on.
    """
    cwd = os.path.realpath(os.fsencode(options.cwd or root.path))
    overrides = override_rules(options.globs, options.iglobs)
    types = type_rules(options.types, options.types_not)
    reader = IgnoreReader(
        IgnoreOptions(dot=not options.no_ignore, vcs=not (options.no_ignore or options.no_ignore_vcs)), cwd
    )
    root_path = os.fsencode(root.path)
    found = Walk()
    for argument in options.paths or (".",):
        literal = os.fsencode(argument)
        path = absolute(cwd, literal)
        name = relative_to(root_path, path)
        try:
            status = os.stat(path)
        except OSError as error:
            found.errors.append((name, os_error(error)))
            continue
        if not stat.S_ISDIR(status.st_mode):
            if stat.S_ISREG(status.st_mode):
                found.files.append(name)
            continue
        lead = name + b"/" if name and not name.endswith(b"/") else name
        selection = Selection(
            hidden=options.hidden,
            overrides=overrides,
            overrides_lead=literal_prefix(literal, cwd),
            types=types,
            follow=options.follow,
            max_depth=options.max_depth,
            max_filesize=options.max_filesize,
        )
        traversal = Traversal(reader, selection)
        context = reader.start(os.path.realpath(path), literal)
        for run in traversal.run(path, context):
            prefix = lead + run.directory
            found.files += [prefix + name for name in run.names] if prefix else run.names
        found.errors += [((lead + name).removesuffix(b"/"), message) for name, message in traversal.errors]
    if len(options.paths) > 1:
        found.files = sorted(set(found.files))
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
