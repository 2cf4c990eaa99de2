"""The part of the tree a request asks for: its ``paths``, resolved, in the order they were given.

A target that the standard universe covers (the root, or a directory that plain ``rg`` would enter) is served
from the fresh view of the tree; any other request is walked when it is asked.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from ..errors import os_error
from ..request import SearchRequest
from ..tree.filter import needs_walk
from ..tree.monitor import Monitor
from ..tree.root import Root
from ..tree.walk import WalkOptions, absolute, relative_to


@dataclass(frozen=True)
class Target:
    """One path to search.

    ``name`` is relative to the root where it lies in it (``b""``: the root itself), else absolute;
    ``argument`` is the spelling the request gave, which the walk and its globs need.
    """

    name: bytes
    argument: str
    #: ``directory``, ``file``, ``missing``, or ``supposed``: a directory that only unsaved buffers make.
    kind: str
    error: str = ""

    @property
    def prefix(self) -> bytes:
        """What the paths of files below this directory start with."""
        return self.name + b"/" if self.name else b""


def targets(root: Root, request: SearchRequest) -> list[Target]:
    """The request's paths as targets; a path that cannot be searched is one with its ``error``."""
    cwd = os.path.realpath(os.fsencode(request.cwd or root.path))
    root_path = os.fsencode(root.path)
    return [_target(root_path, cwd, argument) for argument in request.paths or (".",)]


def _target(root_path: bytes, cwd: bytes, argument: str) -> Target:
    path = absolute(cwd, os.fsencode(argument))
    name = relative_to(root_path, path)
    try:
        status = os.stat(path)
    except OSError as error:
        return Target(name, argument, "missing", os_error(error))
    except ValueError:  # a NUL byte
        return Target(name, argument, "missing", "Invalid argument (os error 22)")
    if stat.S_ISDIR(status.st_mode):
        return Target(name, argument, "directory")
    return Target(name, argument, "file")


def in_universe(target: Target, options: WalkOptions, monitor: Monitor) -> bool:
    """Whether the files of ``target`` can be told from the standard universe, by ``Filter``.

    Flags that reach further than plain ``rg`` need a walk of their own.
    """
    return (
        target.kind == "directory"
        and not target.name.startswith(b"/")
        and monitor.covers(target.name)
        and not needs_walk(options)
        and not (monitor.depends_on_cwd and options.cwd)
    )


def walk_options(target: Target, request: SearchRequest) -> WalkOptions:
    """The walk that lists the files of one target."""
    return WalkOptions(
        paths=(target.argument,) if request.paths else (),
        cwd=request.cwd,
        globs=request.globs,
        iglobs=request.iglobs,
        types=request.types,
        types_not=request.types_not,
        hidden=request.hidden,
        no_ignore=request.no_ignore,
        no_ignore_vcs=request.no_ignore_vcs,
        follow=request.follow,
        max_depth=request.max_depth,
        max_filesize=request.max_filesize,
    )


def path_order(path: bytes) -> bytes:
    """The sort key of results: by components, as ``rg --sort path`` walks (``/`` before any other byte)."""
    return path.replace(b"/", b"\0")
