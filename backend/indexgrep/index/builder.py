"""Building an index of files: sample, extract, merge, write.

The builder itself only plans and waits; worker processes (``index.worker``) read and extract. Documents are
handed out in contiguous stretches, each of which becomes one or more sorted runs; runs are then merged by
ranges of keys, so that both halves of the work use all cores. The result depends on the documents alone, not
on how many workers there were.

Everything is written below a temporary directory beside the destination, which takes the destination's name
only when both files are complete and synced. A build that is killed leaves a temporary directory (``store``
removes it before the next build) and nothing else; its workers end by themselves.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import logging
import os
import queue
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import numpy.typing as npt

from ..errors import Cancelled, IndexFault
from ..grams.frequent import FRACTION, Frequent, choose_bits, choose_sample
from ..runtime import cache_dir, private_dir
from ..tree.signature import SIGNATURE
from .format import CONTENT
from .runs import RANGES, Run
from .stamps import write_stamps
from .writer import write_index

#: A stretch of documents that is one task: bytes of files.
STRETCH = 32 << 20
#: Bytes of gaps that one merge task holds in memory, about.
MERGE = 32 << 20
#: Below so many bytes of files a second worker costs more than it helps.
SMALL = 4 << 20

#: What a temporary directory's name has behind that of its destination.
TEMPORARY = ".tmp-"

#: The files whose change makes compiled kernels stale.
_KERNEL_SOURCES = ("grams/scan.py", "grams/kernels.py", "index/kernels.py")

log = logging.getLogger("indexgrep.index")

ReadBlob = Callable[[bytes], bytes | None]
Progress = Callable[[dict[str, Any]], None]


def build(
    root: str,
    paths: Sequence[bytes],
    destination: Path,
    *,
    commit: str = "",
    workers: int | None = None,
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
        workers: processes; default one a core.
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
    temporary = destination.with_name(f"{destination.name}{TEMPORARY}{os.getpid()}-{secrets.token_hex(4)}")
    try:
        private_dir(destination.parent)
        temporary.mkdir(mode=0o700)
        try:
            _Build(root, paths, destination, temporary, read_blob, progress, cancel).run(
                commit, workers or os.cpu_count() or 1, fraction, frequent, stamps_key
            )
            _replace(temporary / "index", destination)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        raise write_fault(destination, error.strerror or str(error), error.errno) from error


def write_fault(place: Path, detail: str, number: int | None = None) -> IndexFault:
    """The error of a ``place`` that could not be written, with a hint for the system's error ``number``."""
    hint = ""
    if number == errno.ENOSPC or "No space left" in detail:
        hint = "Free some space, or set INDEXGREP_CACHE_DIR to a directory on another disk."
    elif number in (errno.EACCES, errno.EROFS, errno.EPERM):
        hint = "Make the directory writable, or set INDEXGREP_CACHE_DIR to a directory of your own."
    return IndexFault(f"cannot write the index {place}: {detail}", hint)


def _replace(source: Path, destination: Path) -> None:
    """Give ``source`` the name ``destination``; readers that have the old index open are not disturbed."""
    if destination.exists():
        old = source.with_name("old")
        os.rename(destination, old)
    os.rename(source, destination)
    descriptor = os.open(destination.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
        self, commit: str, workers: int, fraction: float, frequent: Frequent | None, stamps_key: str
    ) -> None:
        count = len(self._paths)
        total = int(self._sizes.sum())
        workers = max(1, min(workers, -(-total // SMALL)))
        signatures = np.zeros(count, SIGNATURE)
        contents = np.zeros(count, CONTENT)
        flags = np.zeros(count, np.uint8)
        text_sizes = np.zeros(count, np.uint64)
        bits = Frequent.empty().bits if frequent is None else frequent.bits
        parts: list[dict[str, Any]] = []
        if count:
            with _Pool(workers, self._destination, self._temporary, self._cancel) as pool:
                if frequent is None:
                    bits = self._sample(pool, workers, fraction)
                pool.broadcast({"task": "frequent", "path": self._write_frequent(bits)})
                runs: list[tuple[int, list[Run]]] = []
                self._started = time.monotonic()
                for task, answer in pool.run(self._stretches(total, workers), self._count):
                    first = task["first"]
                    stop = first + len(task["paths"])
                    signatures[first:stop] = np.frombuffer(answer["signatures"], SIGNATURE)
                    contents[first:stop] = np.frombuffer(answer["contents"], CONTENT)
                    flags[first:stop] = np.frombuffer(answer["flags"], np.uint8)
                    text_sizes[first:stop] = np.frombuffer(answer["sizes"], np.uint64)
                    runs.append((first, answer["runs"]))
                ordered = [run for _, group in sorted(runs, key=lambda pair: pair[0]) for run in group]
                self._report("merge")
                merged = pool.run(self._merges(ordered, workers), lambda step: None)
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

    def _sample(self, pool: _Pool, workers: int, fraction: float) -> npt.NDArray[np.uint8]:
        self._report("sample")
        sample = choose_sample(self._paths)
        bits = choose_bits(int(self._sizes.sum()))
        tasks = (
            self._task("sample", share.tolist(), bits=bits, out=str(self._temporary / f"sample.{number}"))
            for number, share in enumerate(np.array_split(sample, workers))
        )
        counts = np.zeros(1 << bits, np.uint32)
        for task, _ in pool.run(tasks, lambda step: None):
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


class _Pool:
    """Worker processes, each with a thread here that reads its answers."""

    def __init__(self, count: int, destination: Path, temporary: Path, cancel: threading.Event) -> None:
        self._destination = destination
        self._cancel = cancel
        self._answers: queue.SimpleQueue[tuple[int, dict[str, Any] | None]] = queue.SimpleQueue()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._logs = [temporary / f"worker.{number}.log" for number in range(count)]
        self._readers: list[threading.Thread] = []
        self._cache = _numba_cache()

    def __enter__(self) -> _Pool:
        try:
            for number, path in enumerate(self._logs):
                with open(path, "wb") as errors:
                    process = subprocess.Popen(
                        [sys.executable, "-P", "-m", "indexgrep.index.worker"],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                        stderr=errors,
                        start_new_session=True,  # an interrupt is ours to handle
                    )
                self._processes.append(process)
                reader = threading.Thread(target=self._read, args=(number, process), daemon=True)
                reader.start()
                self._readers.append(reader)
            self.broadcast({"cache": self._cache})
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
        for reader in self._readers:
            reader.join()
        for process in self._processes:
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):
                        pipe.close()

    def broadcast(self, message: dict[str, Any]) -> None:
        """Give every worker the same message and wait until all have answered."""
        for number in range(len(self._processes)):
            self._give(number, message)
        for _ in self._processes:
            self._answer()

    def run(
        self, tasks: Iterator[dict[str, Any]], step: Callable[[tuple[int, int]], None]
    ) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """Have the tasks done; yields each with its answer as they come; ``step`` gets their progress."""
        busy: dict[int, dict[str, Any]] = {}
        idle = list(range(len(self._processes)))
        exhausted = False
        while True:
            while idle and not exhausted:
                task = next(tasks, None)
                if task is None:
                    exhausted = True
                else:
                    number = idle.pop(0)
                    self._give(number, task)
                    busy[number] = task
            if not busy:
                return
            number, answer = self._answer()
            if "progress" in answer:
                step((answer["progress"][0], answer["progress"][1]))
                continue
            idle.append(number)
            yield busy.pop(number), answer["done"]

    def _give(self, number: int, message: dict[str, Any]) -> None:
        pipe = self._processes[number].stdin
        assert pipe is not None
        try:
            pipe.write(msgpack.packb(message))
            pipe.flush()
        except BrokenPipeError:
            self._failed(number)

    def _answer(self) -> tuple[int, dict[str, Any]]:
        """The next answer of any worker. Raises ``Cancelled``, or ``IndexFault`` where a worker failed."""
        while True:
            if self._cancel.is_set():
                raise Cancelled("the build was cancelled")
            try:
                number, answer = self._answers.get(timeout=0.1)
            except queue.Empty:
                continue
            if answer is None:
                self._failed(number)
            elif "error" in answer:
                log.error("a build worker failed:\n%s", answer["trace"])
                raise write_fault(self._destination, answer["error"])
            else:
                return number, answer

    def _failed(self, number: int) -> None:
        """Raise the fault of a worker that ended without an answer."""
        status = self._processes[number].wait()
        how = f"with status {status}"
        if status < 0:
            how = f"by {signal.Signals(-status).name}"
        text = self._logs[number].read_text(errors="replace").strip()
        log.error("a build worker ended %s:\n%s", how, text)
        reason = f": {text.splitlines()[-1]}" if text else ""
        raise IndexFault(f"a build worker ended {how}{reason}", "Build again; the log has the details.")

    def _read(self, number: int, process: subprocess.Popen[bytes]) -> None:
        """Queue the answers of one worker, and ``None`` when there are no more."""
        unpacker = msgpack.Unpacker(raw=False, max_buffer_size=0)
        assert process.stdout is not None
        descriptor = process.stdout.fileno()
        while data := os.read(descriptor, 1 << 20):
            unpacker.feed(data)
            for answer in unpacker:
                self._answers.put((number, answer))
        self._answers.put((number, None))


def kernels_id() -> str:
    """A name for the sources of the compiled kernels: 16 hex digits.

    numba notices a stale cache by the file of a function, not by those of the functions that it calls, so a
    directory of its cache is named by all of them.
    """
    package = Path(__file__).parent.parent
    sources = b"".join((package / name).read_bytes() for name in _KERNEL_SOURCES)
    return hashlib.sha256(sources).hexdigest()[:16]


def _numba_cache() -> str:
    """The directory for compiled kernels, made if it can be; empty where it cannot. Others are removed."""
    directory = cache_dir() / "numba" / kernels_id()
    try:
        private_dir(directory)
        for other in directory.parent.iterdir():
            if other != directory:
                shutil.rmtree(other, ignore_errors=True)
    except OSError:
        return ""
    return str(directory) if os.access(directory, os.W_OK) else ""
