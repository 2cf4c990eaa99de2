"""Which document stands for each file of the tree, and which files have none.

A worktree looks at its files through a stack of *layers*, newest first: segments, then bases. A layer is an
index together with the *stamps* of its documents: the signature that each document's file had in this
worktree when its content was known to be the document's. A file is *served* by the first layer whose
document of that path has the file's present signature; only then may an index rule the file out. Every other
file of the universe is *hot*: changed, new, or not in any index for whatever reason. It is a candidate of
every query.

So nothing on disk needs to be changed when a file is, and a deletion needs no tombstone: a document whose
file is gone, or looks different, is not live. The answer is right however far the tree has moved from its
indexes, and whatever was lost of them; it only costs more reading.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from ..index.reader import Index
from ..tree.monitor import Refresh
from ..tree.signature import NO_SIGNATURE, SIGNATURE, Signature
from ..tree.traverse import WalkError

#: Paths that are looked through together for one that is kept.
_AT_A_TIME = 1000


@dataclass(frozen=True)
class Layer:
    """One index of the stack; never changed once made."""

    index: Index
    #: ``SIGNATURE`` of each document's file in this worktree; zeros where its content was never seen there.
    stamps: npt.NDArray[np.void]
    #: For each document whether it serves its file.
    live: npt.NDArray[np.bool_]
    live_count: int = 0

    @property
    def documents(self) -> int:
        return self.index.document_count


def layer_of(index: Index, stamps: npt.NDArray[np.void] | None = None) -> Layer:
    """A layer in which nothing is live yet; without ``stamps``, nothing can be before files are adopted."""
    if stamps is None:
        stamps = np.zeros(index.document_count, SIGNATURE)
    return Layer(index, stamps, np.zeros(index.document_count, np.bool_))


@dataclass(frozen=True)
class View:
    """The universe seen through the layers, at one moment; never changed once made."""

    #: Newest first: of two documents that could serve a file, the first does.
    layers: tuple[Layer, ...] = ()
    #: The universe's paths that no document serves.
    hot: frozenset[bytes] = frozenset()
    #: How the last refresh established freshness, and why it was not a watch.
    how: str = "sweep"
    reason: str = ""
    #: Directories (with a slash at their end) and files that cannot be looked at, with messages.
    errors: tuple[WalkError, ...] = ()
    #: Files that documents serve.
    live_count: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "live_count", sum(layer.live_count for layer in self.layers))

    @property
    def documents(self) -> int:
        """Files in the universe."""
        return self.live_count + len(self.hot)

    def paths(self) -> list[bytes]:
        """All paths of the universe, in ascending order of their bytes."""
        paths = list(self.hot)
        for layer in self.layers:
            paths += layer.index.paths_of(np.flatnonzero(layer.live))
        paths.sort()
        return paths

    def holds(self, prefix: bytes, keep: Callable[[list[bytes]], list[bytes]]) -> bool:
        """Whether there is a file below ``prefix`` among those that ``keep`` keeps."""
        if keep(list(self.hot)):
            return True
        for layer in self.layers:
            first, last = documents_below(layer.index, prefix)
            live = first + np.flatnonzero(layer.live[first:last])
            for at in range(0, len(live), _AT_A_TIME):
                if keep(layer.index.paths_of(live[at : at + _AT_A_TIME])):
                    return True
        return False

    # After changes of the tree

    def refreshed(self, refresh: Refresh) -> View:
        """The view after ``refresh``; ``self`` when nothing changed but perhaps how that is known."""
        if refresh.full:
            assert refresh.snapshot is not None
            view = self._seen(refresh.snapshot.paths, refresh.snapshot.signatures)
        elif refresh.changed:
            view = self.changed(refresh.changed)
        elif (self.how, self.reason, self.errors) == (refresh.how, refresh.reason, refresh.errors):
            return self
        else:
            view = self
        return replace(view, how=refresh.how, reason=refresh.reason, errors=refresh.errors)

    def changed(self, changed: Mapping[bytes, Signature | None]) -> View:
        """The view once the files ``changed`` have these signatures; ``None`` is for one that is gone."""
        paths = list(changed)
        found = np.array([signature or NO_SIGNATURE for signature in changed.values()], SIGNATURE)
        unserved = found["mode"] != 0
        layers = []
        for layer in self.layers:
            documents = layer.index.locate(paths)
            known = documents >= 0
            if known.any():
                serves = known & unserved
                serves[serves] = layer.stamps[documents[serves]] == found[serves]
                live = layer.live.copy()
                live[documents[known]] = False
                live[documents[serves]] = True
                unserved &= ~serves
                layer = replace(layer, live=live, live_count=int(np.count_nonzero(live)))
            layers.append(layer)
        hot = self.hot.difference(paths).union(paths[place] for place in np.flatnonzero(unserved))
        return replace(self, layers=tuple(layers), hot=hot)

    def _seen(self, paths: Sequence[bytes], found: npt.NDArray[np.void]) -> View:
        """The view of a universe of just these files, with these signatures."""
        unserved = np.ones(len(paths), np.bool_)
        places: dict[bytes, int] = {}
        layers = []
        for layer in self.layers:
            names = layer.index.paths()
            if names == paths:  # the usual case of a base: nothing came or went
                live = unserved & (layer.stamps == found) & (found["mode"] != 0)
                unserved &= ~live
            else:
                # By the names of the layer: those of a segment are few.
                places = places or {path: place for place, path in enumerate(paths)}
                at = np.fromiter(map(places.get, names, repeat(-1)), np.int64, len(names))
                live = at >= 0
                seen = at[live]
                live[live] = unserved[seen] & (found["mode"][seen] != 0) & (layer.stamps[live] == found[seen])
                unserved[at[live]] = False
            layers.append(replace(layer, live=live, live_count=int(np.count_nonzero(live))))
        return replace(
            self,
            layers=tuple(layers),
            hot=frozenset(paths[place] for place in np.flatnonzero(unserved).tolist()),
        )

    # After changes of the stack

    def restacked(
        self, layers: Sequence[Layer], looked_at: Mapping[bytes, Signature], *, anew: bool = False
    ) -> View:
        """The same universe through other layers, or through layers with other stamps.

        Where all that serve a file stay, only hot files are looked up, unless all are to be served ``anew``.

        ``looked_at`` has the present signatures of hot files (of others too: they are not hot, and do not
        matter). Those of the other files are what they are served by.
        """
        view = replace(self, layers=tuple(layers))
        before = [id(layer.index) for layer in self.layers if layer.live_count]
        if not anew and before == [id(layer.index) for layer in layers if layer.live_count]:
            # Nothing that serves is gone or moved: only hot files can be served otherwise.
            return view.changed({path: looked_at[path] for path in self.hot if path in looked_at})
        paths = list(self.hot)
        found = [np.array([looked_at.get(path, NO_SIGNATURE) for path in paths], SIGNATURE)]
        for layer in self.layers:
            live = np.flatnonzero(layer.live)
            paths += layer.index.paths_of(live)
            found.append(layer.stamps[live])
        order = sorted(range(len(paths)), key=paths.__getitem__)
        return view._seen([paths[place] for place in order], np.concatenate(found)[order])


def stamped(layer: Layer, documents: npt.NDArray[np.int64], signatures: Sequence[Signature]) -> Layer:
    """``layer`` with other stamps for some documents."""
    stamps = layer.stamps.copy()
    stamps[documents] = np.array(signatures, SIGNATURE)
    return replace(layer, stamps=stamps)


def documents_below(index: Index, prefix: bytes) -> tuple[int, int]:
    """The numbers ``[first, last)`` of the documents below ``prefix`` (empty, or ending in a slash)."""
    if not prefix:
        return 0, index.document_count
    documents = range(index.document_count)
    after = prefix[:-1] + b"0"  # the byte that follows the slash
    return (
        bisect.bisect_left(documents, prefix, key=index.path),
        bisect.bisect_left(documents, after, key=index.path),
    )


class Chosen:
    """What of the universe must be read for a query: what the indexes do not rule out, and every hot file.

    ``found`` has for each layer the ascending numbers of its candidates, or ``None`` where nothing could be
    ruled out.
    """

    def __init__(self, view: View, found: Sequence[npt.NDArray[Any] | None]) -> None:
        self._view = view
        self._documents: list[npt.NDArray[np.int64]] = []
        self._rules_out = False
        for layer, documents in zip(view.layers, found, strict=True):
            if documents is None:
                self._documents.append(np.flatnonzero(layer.live))
            else:
                self._rules_out = True
                self._documents.append(documents[layer.live[documents]].astype(np.int64, copy=False))

    def count(self, prefix: bytes) -> int:
        """How many files of the universe are below ``prefix``, candidates or not."""
        if not prefix:
            return self._view.documents
        count = sum(path.startswith(prefix) for path in self._view.hot)
        for layer in self._view.layers:
            first, last = documents_below(layer.index, prefix)
            count += int(np.count_nonzero(layer.live[first:last]))
        return count

    def below(self, prefix: bytes) -> list[bytes]:
        """The files to be read below ``prefix``, in no order."""
        files = [path for path in self._view.hot if path.startswith(prefix)]
        for layer, chosen in zip(self._view.layers, self._documents, strict=True):
            if prefix:
                first, last = documents_below(layer.index, prefix)
                chosen = chosen[np.searchsorted(chosen, first) : np.searchsorted(chosen, last)]
            files += layer.index.paths_of(chosen)
        return files

    def among(self, files: list[bytes]) -> list[bytes]:
        """Those of ``files`` (of the universe or not) that are not ruled out."""
        if not self._rules_out:
            return files
        out = np.zeros(len(files), np.bool_)
        for layer, chosen in zip(self._view.layers, self._documents, strict=True):
            ruled_out = layer.live.copy()
            ruled_out[chosen] = False
            documents = layer.index.locate(files)
            known = documents >= 0
            out[known] |= ruled_out[documents[known]]
        return [file for file, gone in zip(files, out.tolist(), strict=True) if not gone]
