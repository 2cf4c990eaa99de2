"""One open worktree: its index, its freshness, its builds. What the server and ``--no-server`` talk to."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import IndexCorrupt, IndexFault
from ..index.candidates import Candidates, candidates
from ..index.reader import Index
from ..match import Matcher, compile_request
from ..match.pool import Pool
from ..overlay.buffers import Snapshot
from ..pattern import CompiledPattern
from ..request import FileResult, SearchRequest, Summary
from ..tree.filter import Filter
from ..tree.monitor import Monitor
from ..tree.root import Root, find_root
from ..tree.traverse import WalkError
from ..tree.walk import Walk, walk
from . import base
from .explain import explanation
from .running import Plan, Search
from .scope import Target, in_universe, path_order, targets, walk_options
from .shadows import Shadows
from .view import View, documents_below, empty_view

log = logging.getLogger("indexgrep.search")

#: ripgrep maps files into memory when at most so many files, and nothing else, are named.
_MAPPED_FILES = 10
#: An index is worth renewing when so many files, and this share of all, stand beside it.
_RENEW_FILES = 1000
_RENEW_SHARE = 0.05
#: Paths that are looked through together for one that a filter keeps.
_AT_A_TIME = 1000


class Session:
    """An open worktree. Thread-safe: searches, explanations, status and one build may run at once."""

    def __init__(self, root: Root, *, watch: bool = True, workers: bool = False) -> None:
        """``watch=False`` sweeps the tree for changes at every query; ``workers`` has other processes help
        with large searches, which pays where there will be more than one."""
        self.root = root
        self._pool = Pool() if workers else None
        self._lock = threading.Lock()  # over the monitor's refreshes and the view they make
        self._building = threading.Lock()
        self._monitor = Monitor(root, watch=watch)
        self._fault = ""  # why the last index was not usable
        self._view = empty_view(self._opened())

    @classmethod
    def open(
        cls, path: str, *, force_root: bool = False, watch: bool = True, workers: bool = False
    ) -> Session:
        """The session for the worktree that ``path`` lies in. Raises ``RootError``."""
        return cls(find_root(path, force=force_root), watch=watch, workers=workers)

    def close(self) -> None:
        """Free watches and processes. Searches that still run are to be cancelled before; the index goes with
        the last of them."""
        self._monitor.close()
        if self._pool is not None:
            self._pool.close()
        with self._lock:
            self._view = empty_view(None)

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
        self._monitor.mark(paths)

    def _refreshed(self) -> View:
        """The view of the tree as it is now."""
        with self._lock:
            self._view = self._view.refreshed(self._monitor.refresh())
            return self._view

    def _looked_at(self, wanted: list[Target], request: SearchRequest) -> tuple[View, list[_Reach | None]]:
        """The view of the tree as it is now, and of the same moment what each target reaches.

        ``None`` stands for a target that the universe does not tell: a file, or one that must be walked.
        """
        with self._lock:
            self._view = self._view.refreshed(self._monitor.refresh())
            return self._view, [self._reach(target, request) for target in wanted]

    def _reach(self, target: Target, request: SearchRequest) -> _Reach | None:
        options = walk_options(target, request)
        if not in_universe(target, options, self._monitor):
            return None
        narrowed = Filter(self.root, options, target.argument)
        return _Reach(narrowed, self._monitor.beyond(narrowed) if narrowed.reaches_beyond else [])

    def _planned(
        self,
        request: SearchRequest,
        pattern: CompiledPattern,
        summary: Summary,
        buffers: Snapshot | None,
    ) -> tuple[Plan, Candidates | None]:
        """What to read for a request, and what the index said; fills in the summary's part about it."""
        started = time.perf_counter()
        shadows = Shadows(self.root, buffers)
        wanted = [shadows.seen(target) for target in targets(self.root, request)]
        view, reaches = self._looked_at(wanted, request)
        refreshed = time.perf_counter()
        found, reason = self._candidates(view, request, pattern)
        summary.commit = view.index.commit if view.index is not None else ""
        summary.overlay = len(view.extra) if view.index is not None else 0
        summary.freshness = view.how
        summary.served_by = "scan" if found is None or found.documents is None else "index"
        summary.scan_reason = reason
        chosen = _Chosen(view, found)
        mapped = len(wanted) <= _MAPPED_FILES and all(target.kind == "file" for target in wanted)
        planned = Plan([], set(), mapped, [])
        for target, reach in zip(wanted, reaches, strict=True):
            self._add(target, reach, request, chosen, shadows, planned, summary)
        summary.buffers = shadows.used
        summary.candidates = len(planned.candidates)
        summary.elapsed["refresh"] = (refreshed - started) * 1000
        summary.elapsed["plan"] = (time.perf_counter() - refreshed) * 1000
        return planned, found

    def _add(
        self,
        target: Target,
        reach: _Reach | None,
        request: SearchRequest,
        chosen: _Chosen,
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
            if files or not narrowed.narrows or chosen.holds(narrowed):
                summary.documents += chosen.count(target.prefix) + placed.new
            errors = [
                (directory[:-1], message)
                for directory, message in chosen.errors(target.prefix)
                if not narrowed.shuts(directory)
            ]
        else:
            walked = walk(self.root, options) if target.kind == "directory" else Walk()
            summary.freshness = "walk"
            summary.documents += len(placed.over(walked.files))
            files = placed.over(chosen.among(walked.files))
            errors = [error for error in walked.errors if error[0] not in placed.texts]
        planned.errors.extend(FileResult(os.fsdecode(path), error=message) for path, message in errors)
        planned.candidates.extend(sorted(files, key=path_order))

    def _candidates(
        self, view: View, request: SearchRequest, pattern: CompiledPattern
    ) -> tuple[Candidates | None, str]:
        """What the index says, or ``None``; and why it rules nothing out, where that is so."""
        if view.index is None:
            return None, self._fault or "there is no index yet"
        if request.no_index:
            return None, "the index is switched off for this search"
        if request.invert or request.output == "files_without_match":
            return None, "every file may answer a search for what does not match"
        try:
            # Only the text before a file's first NUL is indexed. With -U ripgrep looks for one in the file's
            # beginning and in what matches, so that text behind a later one may match too.
            after_nul = request.text or request.binary or request.multiline
            found = candidates(view.index, pattern.query, after_nul=after_nul)
        except IndexFault as error:
            self._drop(view.index, error)
            return None, "the index is damaged"
        if found.documents is None:
            return found, "the pattern has no string of three or more bytes that every match contains"
        return found, ""

    # The index

    def _opened(self) -> Index | None:
        """The index to start with, if there is a usable one."""
        try:
            index = base.open_best(self.root)
        except IndexFault as error:
            log.warning("%s", error.message)
            self._fault = error.message
            return None
        return index

    def _drop(self, index: Index, error: IndexFault) -> None:
        """Stop using a damaged index, and move it out of the way."""
        log.warning("%s", error.message)
        with self._lock:
            if self._view.index is not index:
                return
            self._fault = "the index was damaged"
            self._replace(None)
        if isinstance(error, IndexCorrupt):
            base.quarantine(self.root, index)

    def _replace(self, index: Index | None) -> None:
        """Look at the tree through another index from now on. The caller holds the lock.

        The old one is not closed: searches may be reading it; its files are given back with the last of them.
        """
        self._monitor.resweep("another index")
        self._view = empty_view(index)

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
        with self._building:
            view = self._refreshed()
            kept = view.index is not None and view.index.directory.exists()  # it may have been removed
            if kept and not force and self._state(view) == "ready":
                return
            try:
                index = base.build(self.root, view, progress, cancel)
            except IndexFault as error:
                self._fault = f"the index could not be built: {error.message}"
                raise
            with self._lock:
                self._fault = ""
                self._replace(index)
            if progress is not None:
                progress({"phase": "ready", "documents": index.document_count})

    def status(self) -> dict[str, Any]:
        """The session's part of the protocol's ``status``."""
        view = self._refreshed()
        index: dict[str, Any] = {"state": self._state(view), "fault": self._fault}
        if view.index is not None:
            index |= {
                "commit": view.index.commit,
                "documents": view.index.document_count,
                "bytes": view.index.postings_size + view.index.lookup_size,
                "lookup_bytes": view.index.lookup_size,
                "text_bytes": int(view.index.text_sizes.sum(dtype=np.uint64)),
                "dir": os.fspath(view.index.directory),
            }
        return {
            "root": self.root.path,
            "commit": self.root.head(),
            "index": index,
            "freshness": view.how,
            "freshness_reason": view.reason,
            "documents": view.documents,
            "overlay": len(view.extra) if view.index is not None else 0,
        }

    def _state(self, view: View) -> str:
        """``absent``, ``ready``, or ``stale``: usable, but worth renewing."""
        if view.index is None:
            return "absent"
        # Documents that do not count any more, and the files that a new index would take in. While the
        # commit is the index's own, files beside it are changed or untracked, and would stay beside.
        beside = view.index.document_count - view.live_count
        if not view.index.commit or view.index.commit != self.root.head():
            beside += len(view.extra)
        if beside >= _RENEW_FILES and beside >= _RENEW_SHARE * view.documents:
            return "stale"
        return "ready"


@dataclass(frozen=True)
class _Reach:
    """A target that the standard universe tells: what is wanted of it, and what ``beyond`` it."""

    narrowed: Filter
    beyond: list[bytes]


class _Chosen:
    """The files that must be read: candidates among the live documents, and everything that is not live."""

    def __init__(self, view: View, found: Candidates | None) -> None:
        self._view = view
        self._documents: npt.NDArray[Any]
        if found is not None and found.documents is not None:
            self._documents = found.documents[view.live[found.documents]]
        else:
            self._documents = np.flatnonzero(view.live)
        self._rules_out = found is not None and found.documents is not None

    def count(self, prefix: bytes) -> int:
        """How many files of the universe are below ``prefix``."""
        view = self._view
        if not prefix:
            return view.documents
        count = sum(path.startswith(prefix) for path in view.extra)
        if view.index is not None:
            first, last = documents_below(view.index, prefix)
            count += int(np.count_nonzero(view.live[first:last]))
        return count

    def below(self, prefix: bytes) -> list[bytes]:
        """Those of the universe below ``prefix``."""
        view = self._view
        files = [path for path in view.extra if path.startswith(prefix)]
        if view.index is None:
            return files
        chosen = self._documents
        if prefix:
            first, last = documents_below(view.index, prefix)
            chosen = chosen[np.searchsorted(chosen, first) : np.searchsorted(chosen, last)]
        return files + view.index.paths_of(chosen)

    def errors(self, prefix: bytes) -> list[WalkError]:
        """The directories below ``prefix`` that cannot be read."""
        return [error for error in self._view.errors if error[0].startswith(prefix)]

    def holds(self, wanted: Filter) -> bool:
        """Whether the universe has any file that a filter keeps, candidate or not."""
        view = self._view
        if wanted.keep(list(view.extra)):
            return True
        if view.index is None:
            return False
        first, last = documents_below(view.index, wanted.prefix)
        live = first + np.flatnonzero(view.live[first:last])
        return any(
            wanted.keep(view.index.paths_of(live[at : at + _AT_A_TIME]))
            for at in range(0, len(live), _AT_A_TIME)
        )

    def among(self, files: list[bytes]) -> list[bytes]:
        """Those of ``files`` that the index does not rule out."""
        view = self._view
        if not self._rules_out or view.index is None:
            return files
        ruled_out = view.live.copy()
        ruled_out[self._documents] = False
        documents = view.index.locate(files)
        out = documents >= 0
        out[out] = ruled_out[documents[out]]
        return [file for file, gone in zip(files, out.tolist(), strict=True) if not gone]
