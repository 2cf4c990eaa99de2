"""Which documents of the index still stand for their files, and which files stand beside the index.

A document is *live* when its file is in the standard universe and has the stat signature that the builder
recorded when it read the text; only then may the index rule it out. Every other file of the universe is
*extra*: changed, untracked, or not in the index for whatever reason; it is a candidate of every query. So the
answer is right however far the tree has moved from the index; it only costs more reading.
"""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..index.reader import Index
from ..tree.monitor import Refresh
from ..tree.signature import NO_SIGNATURE, Signature
from ..tree.traverse import WalkError


@dataclass(frozen=True)
class View:
    """The universe seen through an index, at one moment; never changed once made."""

    index: Index | None
    #: For each document of the index whether it is live.
    live: npt.NDArray[np.bool_]
    #: The universe's other paths.
    extra: frozenset[bytes]
    #: How the last refresh established freshness, and why it was not a watch.
    how: str = "sweep"
    reason: str = ""
    live_count: int = 0
    #: Directories of the universe (with a slash at their end) that cannot be read, with messages.
    errors: tuple[WalkError, ...] = ()

    @property
    def documents(self) -> int:
        """Files in the universe."""
        return self.live_count + len(self.extra)

    def paths(self) -> list[bytes]:
        """All paths of the universe, in ascending order of their bytes."""
        live = [] if self.index is None else self.index.paths_of(np.flatnonzero(self.live))
        return sorted([*live, *self.extra])

    def refreshed(self, refresh: Refresh) -> View:
        """The view after ``refresh``; ``self`` when nothing changed but perhaps how that is known."""
        if refresh.full:
            assert refresh.snapshot is not None
            return self._resembled(refresh, refresh.snapshot.paths, refresh.snapshot.signatures)
        if not refresh.changed:
            if (self.how, self.reason, self.errors) == (refresh.how, refresh.reason, refresh.errors):
                return self
            return self._with(refresh, self.live, self.extra)
        live = self.live.copy()
        extra = set(self.extra)
        for path, signature in refresh.changed.items():
            document = None if self.index is None else self.index.find(path)
            current = document is not None and self._matches(document, signature)
            if document is not None:
                live[document] = current
            if signature is None or current:
                extra.discard(path)
            else:
                extra.add(path)
        return self._with(refresh, live, frozenset(extra))

    def _with(self, refresh: Refresh, live: npt.NDArray[np.bool_], extra: frozenset[bytes]) -> View:
        count = int(np.count_nonzero(live))
        return View(self.index, live, extra, refresh.how, refresh.reason, count, refresh.errors)

    def _matches(self, document: int, signature: Signature | None) -> bool:
        assert self.index is not None
        return (
            signature is not None
            and signature != NO_SIGNATURE
            and tuple(self.index.signatures[document].tolist()) == signature
        )

    def _resembled(self, refresh: Refresh, paths: list[bytes], found: npt.NDArray[Any]) -> View:
        """The view of a whole snapshot: every document is compared with its file."""
        if self.index is None:
            return self._with(refresh, self.live, frozenset(paths))
        known = self.index.signatures
        names = self.index.paths()
        if names == paths:  # the usual case: nothing came or went
            live = (known == found) & (known["mode"] != 0)
            extra = frozenset(paths[place] for place in np.flatnonzero(~live))
        else:
            numbers = {path: number for number, path in enumerate(names)}
            places = np.fromiter((numbers.get(path, -1) for path in paths), np.int64, len(paths))
            present = np.flatnonzero(places >= 0)
            documents = places[present]
            same = (known[documents] == found[present]) & (known["mode"][documents] != 0)
            live = np.zeros(len(names), np.bool_)
            live[documents[same]] = True
            beside = np.ones(len(paths), np.bool_)
            beside[present[same]] = False
            extra = frozenset(paths[place] for place in np.flatnonzero(beside))
        return self._with(refresh, live, extra)


def empty_view(index: Index | None) -> View:
    """A view before the first refresh: nothing is live."""
    return View(index, np.zeros(0 if index is None else index.document_count, np.bool_), frozenset())


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
