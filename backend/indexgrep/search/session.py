"""One open worktree: its index, its freshness, its builds. What the server and ``--no-server`` talk to."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import IndexFault
from ..index.candidates import Candidates, candidates
from ..match import Matcher, compile_request
from ..match.pool import Pool
from ..overlay.bases import is_segment
from ..overlay.buffers import Snapshot
from ..overlay.keeper import Keeper
from ..overlay.overlay import Overlay, base_of
from ..overlay.policy import Policy
from ..overlay.view import Chosen, Layer, View
from ..pattern import CompiledPattern
from ..request import FileResult, SearchRequest, Summary
from ..tree.filter import Filter
from ..tree.root import Root, find_root
from ..tree.walk import Walk, walk
from .explain import explanation
from .running import Plan, Search
from .scope import Target, in_universe, path_order, targets, walk_options
from .shadows import Shadows

#: ripgrep maps files into memory when at most so many files, and nothing else, are named.
_MAPPED_FILES = 10


class Session:
    """An open worktree. Thread-safe: searches, explanations, status and one build may run at once."""

    def __init__(
        self,
        root: Root,
        *,
        watch: bool = True,
        workers: bool = False,
        keep: bool = False,
        policy: Policy | None = None,
    ) -> None:
        """
        Args:
            root: see ``find_root``.
            watch: ``False`` sweeps the tree for changes at every query.
            workers: have other processes help with large searches, which pays where there will be many.
            keep: maintain the index in a thread of its own, for as long as the session is open.
            policy: when to do what in maintenance.
        """
        self.root = root
        self._pool = Pool() if workers else None
        self._overlay = Overlay(root, watch=watch, policy=policy or Policy())
        self._keeper = Keeper(self._overlay) if keep else None

    @classmethod
    def open(cls, path: str, *, force_root: bool = False, **options: Any) -> Session:
        """The session for the worktree that ``path`` lies in. Raises ``RootError``."""
        return cls(find_root(path, force=force_root), **options)

    def close(self) -> None:
        """Free watches, threads and processes. Searches and builds that still run are to be cancelled before;
        the index goes with the last of them."""
        if self._keeper is not None:
            self._keeper.close()
        self._overlay.close()
        if self._pool is not None:
            self._pool.close()

    # Searching

    def search(
        self,
        request: SearchRequest,
        cancel: threading.Event | None = None,
        buffers: Snapshot | None = None,
    ) -> Search:
        """Start a search; see ``Search``. ``buffers`` are unsaved buffers that stand for their files.

        Raises ``PatternError`` and ``UsageError`` at once; ``RootError`` may also come while it runs.
        """
        started = time.monotonic()
        pattern = compile_request(request)
        matcher = Matcher(pattern, request)
        summary = Summary()

        def plan(summary: Summary) -> Plan:
            return self._planned(request, pattern, summary, buffers)[0]

        return Search(self.root.path, matcher, plan, summary, self._pool, cancel, started)

    def explain(self, request: SearchRequest, buffers: Snapshot | None = None) -> dict[str, Any]:
        """How a search would be answered; the map is described in ``search.explain``."""
        pattern = compile_request(request)
        started = time.perf_counter()
        summary = Summary()
        planned, found = self._planned(request, pattern, summary, buffers)
        return explanation(pattern, found) | {
            "candidates": len(planned.candidates),
            "documents": summary.documents,
            "overlay": summary.overlay,
            "served_by": summary.served_by,
            "all_reason": summary.scan_reason,
            "elapsed_ms": (time.perf_counter() - started) * 1000,
        }

    def changed(self, paths: Iterable[bytes]) -> None:
        """Have these files (relative to the root) looked at again before the next query. Never waits."""
        self._overlay.monitor.mark(paths)

    def _looked_at(self, wanted: list[Target], request: SearchRequest) -> tuple[View, list[_Reach | None]]:
        """The view of the tree as it is now, and of the same moment what each target reaches.

        ``None`` stands for a target that the universe does not tell: a file, or one that must be walked.
        """
        with self._overlay.looking() as view:
            return view, [self._reach(target, request) for target in wanted]

    def _reach(self, target: Target, request: SearchRequest) -> _Reach | None:
        options = walk_options(target, request)
        monitor = self._overlay.monitor
        if not in_universe(target, options, monitor):
            return None
        narrowed = Filter(self.root, options, target.argument)
        return _Reach(narrowed, monitor.beyond(narrowed) if narrowed.reaches_beyond else [])

    def _planned(
        self,
        request: SearchRequest,
        pattern: CompiledPattern,
        summary: Summary,
        buffers: Snapshot | None,
    ) -> tuple[Plan, Candidates | None]:
        """What to read for a request, and what the base said; fills in the summary's part about it."""
        started = time.perf_counter()
        shadows = Shadows(self.root, buffers)
        wanted = [shadows.seen(target) for target in targets(self.root, request)]
        view, reaches = self._looked_at(wanted, request)
        refreshed = time.perf_counter()
        found, reason = self._candidates(view, request, pattern)
        summary.commit = base_of(view).index.commit if view.layers else ""
        summary.overlay = _overlay_size(view)
        summary.freshness = view.how
        summary.served_by = "scan" if reason else "index"
        summary.scan_reason = reason
        chosen = Chosen(view, [None if each is None else each.documents for each in found])
        mapped = len(wanted) <= _MAPPED_FILES and all(target.kind == "file" for target in wanted)
        planned = Plan([], set(), mapped, [])
        for target, reach in zip(wanted, reaches, strict=True):
            self._add(target, reach, request, view, chosen, shadows, planned, summary)
        summary.buffers = shadows.used
        summary.candidates = len(planned.candidates)
        summary.elapsed["refresh"] = (refreshed - started) * 1000
        summary.elapsed["plan"] = (time.perf_counter() - refreshed) * 1000
        told = dict(zip(map(id, view.layers), found, strict=True))
        return planned, told[id(base_of(view))] if view.layers else None

    def _add(
        self,
        target: Target,
        reach: _Reach | None,
        request: SearchRequest,
        view: View,
        chosen: Chosen,
        shadows: Shadows,
        planned: Plan,
        summary: Summary,
    ) -> None:
        """Add the candidates of one target."""
        if target.kind == "missing":
            planned.errors.append(FileResult(os.fsdecode(target.name), error=target.error))
            return
        if target.kind == "file":
            summary.documents += 1
            planned.candidates.append(target.name)
            planned.explicit.add(target.name)
            planned.texts.update(shadows.named(target))
            return
        options = walk_options(target, request)
        placed = shadows.below(target, options)
        planned.texts.update(placed.texts)
        if reach is not None:
            narrowed = reach.narrowed
            files = chosen.below(target.prefix)
            if narrowed.narrows:
                files = narrowed.keep(files) + reach.beyond
            files = placed.over(files)
            if files or not narrowed.narrows or view.holds(narrowed.prefix, narrowed.keep):
                summary.documents += chosen.count(target.prefix) + placed.new
            errors = [
                (path.removesuffix(b"/"), message)
                for path, message in view.errors
                if path.startswith(target.prefix) and path not in placed.texts and _wants(narrowed, path)
            ]
        else:
            walked = walk(self.root, options) if target.kind == "directory" else Walk()
            summary.freshness = "walk"
            summary.documents += len(placed.over(walked.files))
            files = placed.over(chosen.among(walked.files))
            errors = [error for error in walked.errors if error[0] not in placed.texts]
        errors.sort(key=lambda error: path_order(error[0]))
        planned.errors.extend(FileResult(os.fsdecode(path), error=message) for path, message in errors)
        planned.candidates.extend(sorted(files, key=path_order))

    def _candidates(
        self, view: View, request: SearchRequest, pattern: CompiledPattern
    ) -> tuple[list[Candidates | None], str]:
        """What each layer's index says, ``None`` where it is not asked; and why nothing is ruled out, where
        that is so."""
        silent: list[Candidates | None] = [None] * len(view.layers)
        if not view.layers:
            return silent, self._overlay.fault or "there is no index yet"
        if request.no_index:
            return silent, "the index is switched off for this search"
        if request.invert or request.output == "files_without_match":
            return silent, "every file may answer a search for what does not match"
        # Only the text before a file's first NUL is indexed. With -U ripgrep looks for one in the file's
        # beginning and in what matches, so that text behind a later one may match too.
        after_nul = request.text or request.binary or request.multiline
        found: list[Candidates | None] = []
        for layer in view.layers:
            try:
                found.append(candidates(layer.index, pattern.query, after_nul=after_nul))
            except IndexFault as error:
                self._overlay.drop(layer.index, error)
                return silent, "the index is damaged"
        if all(each is None or each.documents is None for each in found):
            return found, "the pattern has no string of three or more bytes that every match contains"
        return found, ""

    # The index

    def build(
        self,
        progress: Callable[[dict[str, Any]], None] | None = None,
        cancel: threading.Event | None = None,
        force: bool = False,
    ) -> None:
        """Make the index of the present commit, and use it from then on; nothing to do when it is fresh.

        ``progress`` is called with maps as ``progress`` pushes carry (``doc/protocol.md``). Raises
        ``IndexFault`` where it cannot be made or written, and ``Cancelled``.
        """
        self._overlay.build(progress, cancel, force)

    def maintain(self, cancel: threading.Event | None = None) -> bool:
        """Do one step of what is due to keep searches fast (see ``overlay``); ``False`` when nothing is.

        Raises ``IndexFault`` and ``Cancelled``.
        """
        return self._overlay.maintain(cancel)

    def status(self) -> dict[str, Any]:
        """The session's part of the protocol's ``status``."""
        view = self._overlay.refreshed()
        index: dict[str, Any] = {"state": self._overlay.state(view), "fault": self._overlay.fault}
        if view.layers:
            indexes = [layer.index for layer in view.layers]
            index |= {
                "commit": base_of(view).index.commit,
                "documents": sum(each.document_count for each in indexes),
                "bytes": sum(each.postings_size + each.lookup_size for each in indexes),
                "lookup_bytes": sum(each.lookup_size for each in indexes),
                "text_bytes": sum(int(each.text_sizes.sum(dtype=np.uint64)) for each in indexes),
                "dir": os.fspath(base_of(view).index.directory),
                "layers": [_described(layer) for layer in view.layers],
            }
        return {
            "root": self.root.path,
            "commit": self.root.head(),
            "index": index,
            "freshness": view.how,
            "freshness_reason": view.reason,
            "documents": view.documents,
            "overlay": _overlay_size(view),
            "hot": len(view.hot) if view.layers else 0,
        }


def _described(layer: Layer) -> dict[str, Any]:
    """One layer, for ``status``."""
    return {
        "kind": "segment" if is_segment(layer.index) else "base",
        "name": layer.index.directory.name,
        "commit": layer.index.commit,
        "documents": layer.documents,
        "live": layer.live_count,
    }


def _overlay_size(view: View) -> int:
    """Files that no base stands for; 0 without an index."""
    if not view.layers:
        return 0
    return len(view.hot) + sum(layer.live_count for layer in view.layers if is_segment(layer.index))


def _wants(narrowed: Filter, path: bytes) -> bool:
    """Whether a file, or a directory (with a slash at its end), is among what is wanted."""
    return not narrowed.shuts(path) if path.endswith(b"/") else bool(narrowed.keep([path]))


@dataclass(frozen=True)
class _Reach:
    """A target that the standard universe tells: what is wanted of it, and what ``beyond`` it."""

    narrowed: Filter
    beyond: list[bytes]
