"""The layers of one worktree: kept fresh at every look, and maintained in the background.

*Looking* (``refreshed``) reads what changed in the tree and says which document stands for each file. It is
all that an exact answer needs. *Maintenance* keeps it fast: once many files are hot, one step of it

1. brings in another base, where HEAD has moved to a commit that a base on disk is nearer to;
2. *adopts* hot files whose content a document of some layer has (``overlay.adopt``);
3. *flushes* the rest into a segment, a small index made with the frequent set of the base;
4. thins the stack: segments that serve nothing go, then segments are joined to one, or, when they serve a
   large share of the tree, everything live is *compacted* into a new base. Joining renumbers documents and
   reads no file.

Nothing depends on maintenance for being right, and each of its steps leaves either the old state on disk or
the new one: an index takes its name when it is complete, and is removed when nothing needs it any more. What
a killed step left over is removed by the next builder (``index.store``).
"""

from __future__ import annotations

import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import IndexCorrupt, IndexFault, IndexLocked
from ..index.merge import Source, SourceCorrupt
from ..index.reader import Index
from ..index.stamps import write_stamps
from ..index.store import Store
from ..index.workers import Workers
from ..tree.monitor import Monitor
from ..tree.root import Root
from ..tree.signature import Signature, is_racy, signature_of
from . import bases
from .adopt import adopted
from .policy import Policy
from .view import Layer, View

log = logging.getLogger("indexgrep.overlay")

Progress = Callable[[dict[str, Any]], None]


class Overlay:
    """See the module. Thread-safe: looks, one build and maintenance may run at once."""

    def __init__(self, root: Root, *, watch: bool, policy: Policy) -> None:
        self.root = root
        self.monitor = Monitor(root, watch=watch)
        self.policy = policy
        #: Why the last index was not usable, or could not be made.
        self.fault = ""
        self._lock = threading.Lock()  # over the monitor's refreshes and the view they make
        self._working = threading.Lock()  # held by the build or the step of maintenance at work
        self._workers = Workers()
        #: Signatures with which hot files were hashed in vain, and with which a flush could not index them.
        self._hashed: dict[bytes, Signature] = {}
        self._refused: dict[bytes, Signature] = {}
        #: The hot files that maintenance has nothing to do for, unless ``_again`` has passed.
        self._settled: frozenset[bytes] | None = None
        self._again = float("inf")
        #: Files that were flushed, and when they may be again, by the monotonic clock.
        self._resting: dict[bytes, float] = {}
        self._view = View(tuple(self._open()))

    def close(self) -> None:
        """Free watches and processes. A build or step that still runs is to be cancelled before."""
        self.monitor.close()
        self._workers.close()
        with self._lock:
            self._view = View()

    def _open(self) -> list[Layer]:
        try:
            return bases.open_layers(self.root)
        except IndexFault as error:
            log.warning("%s", error.message)
            self.fault = error.message
            return []

    # Looking

    @contextmanager
    def looking(self) -> Iterator[View]:
        """The view of the tree as it is now; while the block runs, the monitor tells of the same moment."""
        with self._lock:
            yield self._refreshed()

    def refreshed(self) -> View:
        """The view of the tree as it is now."""
        with self._lock:
            return self._refreshed()

    def _refreshed(self) -> View:
        before = self._view
        refresh = self.monitor.refresh()
        try:
            self._view = before.refreshed(refresh)
        except BaseException:
            # What changed is told once: the next look must not go on from here without it.
            self.monitor.resweep("an earlier look failed")
            raise
        hot = self._view.hot
        if hot is not before.hot and (len(hot) > self.policy.hot_files or not self.monitor.watching):
            self.monitor.wake()  # for the keeper
        return self._view

    def state(self, view: View) -> str:
        """``absent``; ``stale``: usable, but worth a full build; or ``ready``."""
        if not view.layers:
            return "absent"
        base = base_of(view).index
        if not base.is_on_disk():
            return "stale"  # it was removed or replaced; what is open goes on serving
        new = sum(1 for path in view.hot if path in self._hashed)
        if new >= self.policy.rebuild_files and new > self.policy.rebuild_share * view.documents:
            # With the base of HEAD in use, a build would make the same again.
            return "ready" if base.commit == self.root.head() else "stale"
        return "ready"

    def drop(self, index: Index, error: IndexFault) -> None:
        """Stop using a damaged index, and move it out of the way."""
        log.warning("%s", error.message)
        with self._lock:
            rest = [layer for layer in self._view.layers if layer.index is not index]
            if len(rest) == len(self._view.layers):
                return
            if not bases.is_segment(index):
                self.fault = "the index was damaged"
            self._view = self._view.restacked(_with_a_base(rest), self._look(self._view.hot))
        if isinstance(error, IndexCorrupt) and index.is_on_disk():
            Store.holding(index.directory).quarantine(index.directory.name)

    def touch(self) -> None:
        """Mark the indexes in use as used."""
        for layer in self._view.layers:
            if layer.index.is_on_disk():
                Store.holding(layer.index.directory).touch(layer.index.directory.name)

    # Building

    def build(
        self, progress: Progress | None = None, cancel: threading.Event | None = None, force: bool = False
    ) -> None:
        """Make the base of the present commit, and use it from then on; where there is one, maintain it.

        While another process builds in the same repository this one waits (``progress`` then has the phase
        ``wait``). Raises ``IndexFault`` where it cannot be made or written, and ``Cancelled``.
        """
        cancel = cancel or threading.Event()
        with self._working:
            if not force and self._brought_up_to_date(progress, cancel):
                return
            view = self.refreshed()
            try:
                base = bases.build_base(self.root, view.paths(), self._workers, progress, cancel)
            except IndexFault as error:
                self.fault = f"the index could not be built: {error.message}"
                raise
            self.fault = ""
            self._settled, self._hashed = None, {}
            self._install(lambda layers: [*filter(_is_segment, layers), base])
            if progress is not None:
                progress({"phase": "ready", "documents": base.documents})

    def _brought_up_to_date(self, progress: Progress | None, cancel: threading.Event) -> bool:
        """Whether what is on disk will do, once all that is hot is indexed."""
        view = self.refreshed()
        if not view.layers or not base_of(view).index.is_on_disk():
            # Another process may have made it: of this worktree, or of another of the repository.
            found = self._open()
            self._install(lambda layers: found or list(layers), anew=True)
        self._settled, self._resting = None, {}
        while self.state(self.refreshed()) == "ready":
            try:
                if not self._step(cancel, eager=True):
                    return True
            except IndexLocked:
                bases.wait_for_lock(progress, cancel)
        return False

    # Maintenance

    def maintain(self, cancel: threading.Event | None = None) -> bool:
        """Do one step of what is due, if anything is; ``False`` when there is nothing to do (now).

        Raises ``IndexFault`` (``IndexLocked`` while another process builds in the same repository) and
        ``Cancelled``.
        """
        if not self._working.acquire(blocking=False):
            return False  # a build is at work, which changes everything
        try:
            return self._step(cancel or threading.Event())
        finally:
            self._working.release()

    def _step(self, cancel: threading.Event, *, eager: bool = False) -> bool:
        """See ``maintain``; ``eager`` indexes hot files however few there are."""
        view = self._view
        if not view.layers:
            self._again = float("inf")
            return False
        try:
            done = self._index_hot(view, cancel, eager) or self._thin(view, cancel)
        except IndexLocked:
            raise
        except SourceCorrupt as error:
            self.drop(error.index, error)
            return True
        except IndexFault as error:
            self.fault = f"changed files could not be indexed: {error.message}"
            raise
        if done:
            self.fault = ""
        return done

    @property
    def again_in(self) -> float:
        """In how many seconds maintenance may have something to do though nothing changes."""
        return max(self._again - time.monotonic(), 0.0)

    def _index_hot(self, view: View, cancel: threading.Event, eager: bool) -> bool:
        """Adopt or flush the hot files, if they are many."""
        now = time.monotonic()
        if view.hot is self._settled and now < self._again:
            return False
        self._settled, self._again = None, float("inf")
        looked_at = self._look(view.hot)
        self._forget_all_but(looked_at)
        due = self._due(looked_at, eager)
        if not due and not view.live_count:
            due = self._due(looked_at, True)  # through layers of another worktree: most will be adopted
        unknown = [path for path in due if self._hashed.get(path) != looked_at[path]]
        if unknown:
            return self._adopt(view, unknown, looked_at, cancel) or not cancel.is_set()
        due = self._rested(due, now)
        if due and self.state(view) == "stale":
            pass  # a full build is the better way
        elif due and (eager or self._due({path: looked_at[path] for path in due}, False)):
            self._flush(view, {path: looked_at[path] for path in due}, cancel)
            ended = time.monotonic()
            self._resting.update(dict.fromkeys(due, ended + self.policy.rest * (ended - now)))
            return True
        self._settled = view.hot
        return False

    def _due(self, looked_at: dict[bytes, Signature], eager: bool) -> list[bytes]:
        """The hot files that could be served, in ascending order, if they are many or large."""
        observed = time.time_ns()
        due: list[bytes] = []
        size = 0
        for path, signature in looked_at.items():
            if self._refused.get(path) == signature:
                continue
            if is_racy(signature, observed):
                self._again = min(self._again, time.monotonic() + _RACY_SECONDS)
                continue
            due.append(path)
            size += signature[0]
        if not eager and len(due) <= self.policy.hot_files and size <= self.policy.hot_bytes:
            return []
        return sorted(due)

    def _rested(self, due: list[bytes], now: float) -> list[bytes]:
        """Those of ``due`` that may be flushed now: all but those that just were."""
        self._resting = {path: then for path, then in self._resting.items() if then > now}
        waiting = [self._resting[path] for path in due if path in self._resting]
        if waiting:
            self._again = min(self._again, *waiting)
        return [path for path in due if path not in self._resting]

    def _look(self, paths: Iterable[bytes]) -> dict[bytes, Signature]:
        """The present signatures of those of ``paths`` that are regular files."""
        found: dict[bytes, Signature] = {}
        try:
            root = os.open(self.root.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return found  # the root is gone, as the next refresh will say
        try:
            for path in paths:
                try:
                    status = os.stat(path, dir_fd=root, follow_symlinks=False)
                except OSError:
                    continue
                if stat.S_ISREG(status.st_mode):
                    found[path] = signature_of(status)
        finally:
            os.close(root)
        return found

    def _forget_all_but(self, paths: dict[bytes, Signature]) -> None:
        for known in (self._hashed, self._refused):
            for path in [path for path in known if path not in paths]:
                del known[path]

    def _adopt(
        self, view: View, paths: list[bytes], looked_at: dict[bytes, Signature], cancel: threading.Event
    ) -> bool:
        """Stamp the documents that have the content of ``paths``; whether there were any."""
        layers = list(view.layers)
        base = bases.nearer_base(self.root, layers, paths)
        if base is not None:
            log.info("using the base %s too", base.index.directory)
            layers.append(base)
        stamped, count = adopted(self.root.path, layers, paths, cancel)
        if cancel.is_set():
            return False
        self._hashed.update((path, looked_at[path]) for path in paths)
        if base is None and not count:
            return False
        log.info("adopted %d of %d files", count, len(paths))
        new = {id(layer.index): after for layer, after in zip(layers, stamped, strict=True)}

        def change(layers: Sequence[Layer]) -> list[Layer]:
            changed = [replace(layer, stamps=new[id(layer.index)].stamps) for layer in layers]
            return changed if base is None else [*changed, new[id(base.index)]]

        self._install(change)
        if base is not None:
            self._prefer(new[id(base.index)].index)
        for layer, after in zip(layers, stamped, strict=True):
            if after is not layer:
                self._keep_stamps(after)
        return True

    def _prefer(self, index: Index) -> None:
        """Let a base serve all it can, if that is more than the one does that serves most now."""
        with self._lock:
            view = self._refreshed()
            most = base_of(view).live_count
            layers = sorted(
                view.layers, key=lambda layer: (not _is_segment(layer), layer.index is not index)
            )  # the sort is stable: all others stay in their order
            other = view.restacked(layers, self._look(view.hot), anew=True)
            if any(layer.index is index and layer.live_count > most for layer in other.layers):
                self._view = other

    def _keep_stamps(self, layer: Layer) -> None:
        try:
            write_stamps(layer.index.directory, bases.key_of(self.root), layer.index.identity, layer.stamps)
        except OSError as error:
            # They are hashed again by the next server.
            log.warning("cannot write to %s: %s", layer.index.directory, error.strerror)

    def _flush(self, view: View, files: dict[bytes, Signature], cancel: threading.Event) -> None:
        """Make a segment of ``files``, in ascending order of their paths."""
        index = bases.store_of(self.root).build(
            bases.new_segment_name(self.root),
            self.root.path,
            list(files),
            commit=self.root.head(),
            stamps_key=bases.key_of(self.root),
            frequent=base_of(view).index.frequent,
            workers=self._workers,
            cancel=cancel,
        )
        segment = bases.layer_with_stamps(self.root, index)
        log.info("made a segment of %d files", len(files))
        self._install(lambda layers: [segment, *layers])
        # They cannot be read, or changed since; then they have another signature now.
        self._refused.update((path, files[path]) for path in self._view.hot if path in files)

    def _thin(self, view: View, cancel: threading.Event) -> bool:
        """Keep the stack small: one step of removing or joining layers."""
        main = base_of(view)
        if not main.index.is_on_disk():
            return False  # a build will make another stack
        segments = [layer for layer in view.layers if _is_segment(layer)]
        gone = [
            layer
            for layer in view.layers
            if not layer.index.is_on_disk() or not (_is_segment(layer) or layer is main or layer.live_count)
        ]
        if gone:  # removed by others, they cannot be joined; or bases that serve nothing any more
            self._drop_layers(gone)
            return True
        idle = [layer for layer in segments if not layer.live_count]
        if idle and len(segments) > self.policy.segments:
            self._remove(idle[-1:])  # the oldest; the newer ones may serve again after another switch
            return True
        # Only what has the frequent set of the base can be joined with it.
        own = [
            layer
            for layer in view.layers
            if np.array_equal(layer.index.frequent.bits, main.index.frequent.bits)
        ]
        served = sum(layer.live_count for layer in own if layer is not main)
        share = self.policy.segment_share * view.documents
        if served >= self.policy.segment_files and served > share:
            self._join(own, bases.compacted_name(self.root, self.root.head()), cancel)
        elif len(segments) > self.policy.segments:
            foreign = [layer for layer in segments if not any(layer is other for other in own)]
            if foreign:
                self._remove(foreign)  # their files are hot then, and become another segment
            else:
                self._join(segments, bases.new_segment_name(self.root), cancel)
        else:
            return False
        return True

    def _join(self, joined: Sequence[Layer], name: str, cancel: threading.Event) -> None:
        """Put one index in the place of several with the same frequent set."""
        index = bases.store_of(self.root).merge(
            name,
            [Source(layer.index, layer.live, layer.stamps) for layer in joined],
            commit=self.root.head(),
            stamps_key=bases.key_of(self.root),
            workers=self._workers,
            cancel=cancel,
        )
        new = bases.layer_with_stamps(self.root, index)
        log.info("joined %d indexes to %s", len(joined), name)
        gone = {id(layer.index) for layer in joined}

        def change(layers: Sequence[Layer]) -> list[Layer]:
            kept = [layer for layer in layers if id(layer.index) not in gone]
            segments = [layer for layer in kept if _is_segment(layer)]
            return [*segments, new, *(layer for layer in kept if not _is_segment(layer))]

        self._install(change)
        self._remove_segments(joined)

    def _remove(self, layers: Sequence[Layer]) -> None:
        """Take segments out of the stack and off the disk."""
        self._drop_layers(layers)
        self._remove_segments(layers)

    def _drop_layers(self, layers: Sequence[Layer]) -> None:
        gone = {id(layer.index) for layer in layers}
        self._install(lambda layers: [layer for layer in layers if id(layer.index) not in gone])

    def _remove_segments(self, layers: Iterable[Layer]) -> None:
        store = bases.store_of(self.root)
        for layer in layers:
            if _is_segment(layer):
                store.remove(layer.index.directory.name)

    def _install(self, change: Callable[[Sequence[Layer]], list[Layer]], *, anew: bool = False) -> None:
        """Look at the tree through other layers from now on; see ``View.restacked``.

        The old indexes are not closed: searches may be reading them; files go with the last reference.
        """
        with self._lock:
            view = self._refreshed()
            # What changes from here on is in the next refresh.
            layers = _with_a_base(change(view.layers))
            self._view = view.restacked(layers, self._look(view.hot), anew=anew)
        self.monitor.wake()  # the keeper, if this was not of its making


#: A file that cannot be relied on yet is looked at again after so many seconds.
_RACY_SECONDS = 3.0


def _is_segment(layer: Layer) -> bool:
    return bases.is_segment(layer.index)


def _with_a_base(layers: list[Layer]) -> list[Layer]:
    """``layers``, or none where segments would be all: they alone would look like an index of everything."""
    return [] if all(map(_is_segment, layers)) else layers


def base_of(view: View) -> Layer:
    """The base that segments go with: the one that serves most files. Any layers include one."""
    return max((layer for layer in view.layers if not _is_segment(layer)), key=lambda layer: layer.live_count)
