"""Merging indexes: one of all documents that are kept, made without reading a file of the tree.

A document is what its text was when it was read, so joining indexes is a matter of numbers. The documents are
numbered anew in the order of their paths, and each posting list of the new index is what the lists of that
key say in new numbers. The result is, byte for byte, what ``builder.build`` makes of the same texts with the
same frequent set.

Worker processes join the lists, in ranges of keys that are cut by the bytes they hold, so that memory is
bounded and all cores are used. They open the sources for themselves; every block they read is verified.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import IndexCorrupt, IndexFault
from .builder import Progress
from .format import OFFSET_STEP
from .placing import replacing
from .reader import Index
from .stamps import write_stamps
from .workers import Job, Workers, employing
from .writer import write_index

#: Bytes that one task reads, about; and for which another process pays.
RANGE = 16 << 20
#: Less than this makes tasks that are all overhead.
_LEAST = 1 << 20
#: Bytes of a key in the table, beside its list.
_ENTRY = 12


@dataclass(frozen=True)
class Source:
    """What a merge takes of an index."""

    index: Index
    #: For each document, whether it is kept.
    keep: npt.NDArray[np.bool_]
    #: SIGNATURE of each document's file in the worktree that the stamps are for; used for those kept.
    signatures: npt.NDArray[np.void]


class SourceCorrupt(IndexCorrupt):
    """One of the indexes that were to be merged is damaged."""

    def __init__(self, index: Index, reason: str) -> None:
        super().__init__(f"the index in {index.directory} is damaged: {reason}")
        self.index = index


def merge(
    sources: Sequence[Source],
    destination: Path,
    *,
    commit: str = "",
    stamps_key: str = "",
    workers: Workers | None = None,
    progress: Progress | None = None,
    cancel: threading.Event | None = None,
) -> None:
    """Make an index of all kept documents of ``sources``, replacing what is in the directory ``destination``.

    Args:
        sources: open indexes; one of them may be what is replaced.
        destination: its parent is made where it is missing.
        commit: what the index stands for, to be found again as ``Index.commit``.
        stamps_key: of the worktree whose stamps are written beside the index (``index.stamps``); none if
            empty.
        workers: the processes that do the work; by default some of its own, one a core.
        progress: called now and then as by ``builder.build``, with the phases ``merge`` and ``write``; bytes
            are those of lists read.
        cancel: set it to end the merge with ``Cancelled``.

    Raises ``ValueError`` where a path is kept twice, and for sources with different frequent sets: a longer
    gram is stored iff its parts are in the set, so what one of them does not store another does. Raises
    ``SourceCorrupt`` for a source that is damaged; ``IndexFault`` where one is not in its directory any more
    or cannot be read, the index cannot be written or a worker fails. Temporary files are then removed.
    """
    if not sources:
        raise ValueError("there is nothing to merge")
    frequent = sources[0].index.frequent.bits
    if not all(np.array_equal(frequent, source.index.frequent.bits) for source in sources[1:]):
        raise ValueError("the indexes have different frequent sets")
    if any(
        len(of_documents) != source.index.document_count
        for source in sources
        for of_documents in (source.keep, source.signatures)
    ):
        raise ValueError("what is said of a source's documents is not of all of them")
    documents = _Documents(sources)
    cancel = cancel or threading.Event()
    with employing(workers) as team, replacing(destination) as temporary:
        run = _Merge(sources, documents, destination, temporary, progress)
        parts = run.join(team, cancel)
        run.report("write")
        directory = temporary / "index"
        directory.mkdir(mode=0o700)
        table = _table(parts)
        identity = write_index(
            directory,
            commit=commit,
            paths=documents.paths,
            contents=documents.contents,
            flags=documents.flags,
            text_sizes=documents.text_sizes,
            frequent=frequent,
            keys=table[0],
            lengths=table[1],
            counts=table[2],
            lists=[Path(part["lists"]) for part in parts],
            cancel=cancel,
        )
        if stamps_key:
            write_stamps(directory, stamps_key, identity, documents.signatures)


class _Documents:
    """The documents of the new index."""

    def __init__(self, sources: Sequence[Source]) -> None:
        kept = [np.flatnonzero(source.keep) for source in sources]
        paths: list[bytes] = []
        for source, chosen in zip(sources, kept, strict=True):
            paths += source.index.paths_of(chosen)
        order = sorted(range(len(paths)), key=paths.__getitem__)
        #: In ascending order.
        self.paths = [paths[place] for place in order]
        if any(first == second for first, second in itertools.pairwise(self.paths)):
            raise ValueError("a path is kept twice")
        ranks = np.empty(len(order), np.int32)
        ranks[order] = np.arange(len(order), dtype=np.int32)
        #: For each source, the new number of each of its documents; -1 for one that is not kept.
        self.numbers = [np.full(source.index.document_count, -1, np.int32) for source in sources]
        first = 0
        for numbers, chosen in zip(self.numbers, kept, strict=True):
            numbers[chosen] = ranks[first : first + len(chosen)]
            first += len(chosen)
        pairs = list(zip(sources, kept, strict=True))
        self.contents = np.concatenate([_contents(source.index, chosen) for source, chosen in pairs])[order]
        self.flags = np.concatenate([source.index.flags[chosen] for source, chosen in pairs])[order]
        self.text_sizes = np.concatenate([source.index.text_sizes[chosen] for source, chosen in pairs])[order]
        self.signatures = np.concatenate([source.signatures[chosen] for source, chosen in pairs])[order]


def _contents(index: Index, documents: npt.NDArray[np.int64]) -> npt.NDArray[np.void]:
    try:
        return index.contents_of(documents)
    except IndexCorrupt as error:
        raise SourceCorrupt(index, error.message) from error


class _Merge:
    """The joining of the lists, and its progress."""

    def __init__(
        self,
        sources: Sequence[Source],
        documents: _Documents,
        destination: Path,
        temporary: Path,
        progress: Progress | None,
    ) -> None:
        self._sources = sources
        self._documents = documents
        self._destination = destination
        self._temporary = temporary
        self._progress = progress
        self._total = sum(source.index.lists_size for source in sources)
        self._read = 0
        self._started = time.monotonic()

    def join(self, workers: Workers, cancel: threading.Event) -> list[dict[str, Any]]:
        """The parts of the new index's lists, in ascending order of their keys."""
        self.report("merge")
        if not self._documents.paths:
            return []
        numbers = self._temporary / "numbers"
        with open(numbers, "wb") as file:
            for part in self._documents.numbers:
                file.write(part.data)
        opened = [(str(source.index.directory), source.index.identity) for source in self._sources]
        with workers.job(-(-self._total // RANGE), self._destination, cancel) as job:
            for answer in job.broadcast({"task": "sources", "indexes": opened, "numbers": str(numbers)}):
                self._check(answer)
            parts = []
            for task, answer in job.run(self._tasks(job), lambda step: None):
                self._check(answer)
                parts.append((task["low"], answer))
                self._read += answer["read"]
                self.report("merge")
        return [answer for _, answer in sorted(parts, key=lambda part: part[0])]

    def _tasks(self, job: Job) -> Iterator[dict[str, Any]]:
        size = max(_LEAST, min(RANGE, self._total // (4 * job.size)))
        edges = key_ranges([source.index for source in self._sources], size)
        for low, high in itertools.pairwise(edges):
            yield {
                "task": "join",
                "low": low,
                "high": high,
                "documents": len(self._documents.paths),
                "out": str(self._temporary / f"lists.{low:08x}"),
            }

    def _check(self, answer: dict[str, Any]) -> None:
        """Raise the fault of a source that a worker could not use."""
        if "unusable" in answer:
            index = self._sources[answer["unusable"]].index
            if answer["corrupt"]:
                raise SourceCorrupt(index, answer["message"])
            raise IndexFault(f"cannot merge the index in {index.directory}: {answer['message']}")

    def report(self, phase: str) -> None:
        if self._progress is None:
            return
        elapsed = time.monotonic() - self._started
        rate = self._read / elapsed if elapsed > 0 else 0.0
        count = len(self._documents.paths)
        self._progress(
            {
                "phase": phase,
                "documents": count,
                "documents_total": count,
                "bytes": self._read,
                "bytes_total": self._total,
                "rate": rate,
                "eta_s": (self._total - self._read) / rate if rate else None,
            }
        )


def key_ranges(indexes: Sequence[Index], size: int) -> list[int]:
    """Keys that cut what the indexes hold into ranges of about ``size`` bytes; from 0 to 2 ** 32."""
    keys = []
    sizes = []
    for index in indexes:
        marks, offsets = index.milestones()
        keys.append(marks)
        ends = np.append(offsets[1:], np.uint64(index.lists_size)) if len(marks) else offsets
        sizes.append(ends - offsets + np.uint64(OFFSET_STEP * _ENTRY))
    all_keys = np.concatenate(keys)
    order = np.argsort(all_keys, kind="stable")
    ranges = np.cumsum(np.concatenate(sizes)[order]) // np.uint64(size)
    cuts = all_keys[order][1:][ranges[1:] != ranges[:-1]]
    return [0, *np.unique(cuts[cuts > 0]).tolist(), 1 << 32]


def _table(parts: Sequence[dict[str, Any]]) -> npt.NDArray[np.uint32]:
    """The keys, lengths and counts of all parts."""
    tables = [np.fromfile(f"{part['lists']}.table", np.uint32).reshape(3, part["keys"]) for part in parts]
    return np.concatenate(tables, axis=1) if tables else np.empty((3, 0), np.uint32)
