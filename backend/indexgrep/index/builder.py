"""Building an index of files: sample, extract, merge, write.

The builder itself only plans and waits; worker processes (``index.worker``) read and extract. Documents are
handed out in contiguous stretches, each of which becomes one or more sorted runs; runs are then merged by
ranges of keys, so that both halves of the work use all cores. The result depends on the documents alone, not
on how many workers there were.

A build that is killed leaves a temporary directory (see ``index.placing``; ``store`` removes it before the
next build) and nothing else; its workers end by themselves.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..grams.frequent import FRACTION, Frequent, choose_bits, choose_sample
from ..tree.signature import SIGNATURE
from .format import CONTENT
from .placing import replacing
from .runs import RANGES, Run
from .stamps import write_stamps
from .workers import Job, Workers, employing
from .writer import write_index

#: A stretch of documents that is one task: bytes of files.
STRETCH = 32 << 20
#: Bytes of gaps that one merge task holds in memory, about.
MERGE = 32 << 20
#: Below so many bytes of files a second worker costs more than it helps.
SMALL = 4 << 20

ReadBlob = Callable[[bytes], bytes | None]
Progress = Callable[[dict[str, Any]], None]


def build(
    root: str,
    paths: Sequence[bytes],
    destination: Path,
    *,
    commit: str = "",
    workers: Workers | None = None,
    read_blob: ReadBlob | None = None,
    progress: Progress | None = None,
    cancel: threading.Event | None = None,
    fraction: float = FRACTION,
    frequent: Frequent | None = None,
    stamps_key: str = "",
) -> None:
    """Index the files ``paths`` below ``root`` into the directory ``destination``, replacing what is there.

    Args:
        root: the directory that the paths are relative to.
        paths: in ascending order of their bytes, without repetition. Files that cannot be indexed
            (unreadable, too large, changed while they are read, ...) are in the index all the same, flagged
            as not indexed.
        destination: its parent is made where it is missing.
        commit: what the index stands for, to be found again as ``Index.commit``.
        workers: the processes that do the work; by default some of its own, one a core.
        read_blob: gives the content of a path that the working tree does not hold as it is to be indexed, and
            ``None`` for all others; such a document gets no signature. Called in this process and thread.
        progress: called now and then with ``phase`` (``sample``, ``extract``, ``merge``, ``write``),
            ``documents``, ``documents_total``, ``bytes``, ``bytes_total``, ``rate`` (bytes a second) and
            ``eta_s`` (seconds, or ``None`` while unknown); counts are those of the extraction.
        cancel: set it to end the build with ``Cancelled``.
        fraction: the c of the frequent set.
        frequent: the frequent set to use, in place of one that is found from a sample of the files: two
            indexes with the same can be merged.
        stamps_key: the worktree that ``root`` is, to keep its stamps with the index (``index.stamps``).

    Raises ``IndexFault`` where the index cannot be written or a worker fails. Temporary files are then
    removed.
    """
    if any(first >= second for first, second in itertools.pairwise(paths)):
        raise ValueError("the paths must be in ascending order, without repetition")
    with employing(workers) as team, replacing(destination) as temporary:
        _Build(root, paths, destination, temporary, read_blob, progress, cancel).run(
            commit, team, fraction, frequent, stamps_key
        )


class _Build:
    """One build: its plan, its progress, its parts."""

    def __init__(
        self,
        root: str,
        paths: Sequence[bytes],
        destination: Path,
        temporary: Path,
        read_blob: ReadBlob | None,
        progress: Progress | None,
        cancel: threading.Event | None,
    ) -> None:
        self._root = os.path.join(os.fsencode(root), b"")
        self._paths = paths
        self._destination = destination
        self._temporary = temporary
        self._read_blob = read_blob
        self._progress = progress
        self._cancel = cancel or threading.Event()
        self._sizes = self._look()
        self._started = time.monotonic()
        self._documents = 0
        self._bytes = 0

    def run(
        self, commit: str, workers: Workers, fraction: float, frequent: Frequent | None, stamps_key: str
    ) -> None:
        count = len(self._paths)
        total = int(self._sizes.sum())
        signatures = np.zeros(count, SIGNATURE)
        contents = np.zeros(count, CONTENT)
        flags = np.zeros(count, np.uint8)
        text_sizes = np.zeros(count, np.uint64)
        bits = Frequent.empty().bits if frequent is None else frequent.bits
        parts: list[dict[str, Any]] = []
        if count:
            with workers.job(-(-total // SMALL), self._destination, self._cancel) as job:
                if frequent is None:
                    bits = self._sample(job, fraction)
                job.broadcast({"task": "frequent", "path": self._write_frequent(bits)})
                runs: list[tuple[int, list[Run]]] = []
                self._started = time.monotonic()
                for task, answer in job.run(self._stretches(total, job.size), self._count):
                    first = task["first"]
                    stop = first + len(task["paths"])
                    signatures[first:stop] = np.frombuffer(answer["signatures"], SIGNATURE)
                    contents[first:stop] = np.frombuffer(answer["contents"], CONTENT)
                    flags[first:stop] = np.frombuffer(answer["flags"], np.uint8)
                    text_sizes[first:stop] = np.frombuffer(answer["sizes"], np.uint64)
                    runs.append((first, answer["runs"]))
                ordered = [run for _, group in sorted(runs, key=lambda pair: pair[0]) for run in group]
                self._report("merge")
                merged = job.run(self._merges(ordered, job.size), lambda step: None)
                parts = [answer for _, answer in sorted(merged, key=lambda pair: pair[0]["low"])]
        self._report("write")
        tables = [np.fromfile(f"{part['lists']}.table", np.uint32).reshape(3, part["keys"]) for part in parts]
        table = np.concatenate(tables, axis=1) if tables else np.empty((3, 0), np.uint32)
        directory = self._temporary / "index"
        directory.mkdir(mode=0o700)
        identity = write_index(
            directory,
            commit=commit,
            paths=self._paths,
            contents=contents,
            flags=flags,
            text_sizes=text_sizes,
            frequent=bits,
            keys=table[0],
            lengths=table[1],
            counts=table[2],
            lists=[Path(part["lists"]) for part in parts],
            cancel=self._cancel,
        )
        if stamps_key:
            write_stamps(directory, stamps_key, identity, signatures)

    def _look(self) -> npt.NDArray[np.int64]:
        """The size of each file, 0 for those that are missing."""
        sizes = np.zeros(len(self._paths), np.int64)
        for number, path in enumerate(self._paths):
            with contextlib.suppress(OSError):
                sizes[number] = os.lstat(self._root + path).st_size
        return sizes

    def _task(self, name: str, documents: Sequence[int], **fields: Any) -> dict[str, Any]:
        contents = [self._read_blob(self._paths[number]) if self._read_blob else None for number in documents]
        paths = [self._paths[number] for number in documents]
        return {"task": name, "root": self._root, "paths": paths, "contents": contents, **fields}

    def _sample(self, job: Job, fraction: float) -> npt.NDArray[np.uint8]:
        self._report("sample")
        sample = choose_sample(self._paths)
        bits = choose_bits(int(self._sizes.sum()))
        tasks = (
            self._task("sample", share.tolist(), bits=bits, out=str(self._temporary / f"sample.{number}"))
            for number, share in enumerate(np.array_split(sample, job.size))
        )
        counts = np.zeros(1 << bits, np.uint32)
        for task, _ in job.run(tasks, lambda step: None):
            counts += np.fromfile(task["out"], np.uint32)
            os.unlink(task["out"])
        return Frequent.from_counts(counts, len(sample), fraction).bits

    def _write_frequent(self, bits: npt.NDArray[np.uint8]) -> str:
        path = str(self._temporary / "frequent")
        Path(path).write_bytes(bits.data)
        return path

    def _stretches(self, total: int, workers: int) -> Iterator[dict[str, Any]]:
        """Tasks of contiguous documents, of about the same size."""
        size = min(STRETCH, max(total // (4 * workers), SMALL // 4))
        first = 0
        held = 0
        for number in range(len(self._paths)):
            held += int(self._sizes[number]) + 256  # opening a file costs as much as some text
            if held >= size or number + 1 == len(self._paths):
                out = str(self._temporary / f"run.{first}")
                yield self._task("collect", range(first, number + 1), first=first, out=out)
                first = number + 1
                held = 0

    def _merges(self, runs: list[Run], workers: int) -> Iterator[dict[str, Any]]:
        """Tasks of ranges of keys; keys are spread evenly."""
        if not runs:
            return
        gaps = sum(gap_edges[-1] for _, _, gap_edges in runs)
        count = min(max(-(-gaps // MERGE), workers if gaps > SMALL else 1), RANGES)
        edges = [number * RANGES // count for number in range(count + 1)]
        for number in range(count):
            yield {
                "task": "merge",
                "runs": runs,
                "low": edges[number],
                "high": edges[number + 1],
                "bitmap_bytes": -(-len(self._paths) // 8),
                "out": str(self._temporary / f"lists.{number}"),
            }

    def _count(self, step: tuple[int, int]) -> None:
        self._documents += step[0]
        self._bytes += step[1]
        self._report("extract")

    def _report(self, phase: str) -> None:
        if self._progress is None:
            return
        elapsed = time.monotonic() - self._started
        total = int(self._sizes.sum())
        rate = self._bytes / elapsed if elapsed > 0 else 0.0
        left = len(self._paths) - self._documents
        eta = None
        if phase == "extract" and self._documents:
            eta = elapsed * left / self._documents if not rate else max(0.0, (total - self._bytes) / rate)
        elif phase in ("merge", "write"):
            eta = 0.1 * elapsed
        self._progress(
            {
                "phase": phase,
                "documents": self._documents,
                "documents_total": len(self._paths),
                "bytes": self._bytes,
                "bytes_total": total,
                "rate": rate,
                "eta_s": eta,
            }
        )
