"""The process that does the work of builds and merges, one process a core.

It is started as ``python -m indexgrep.index.worker`` by ``index.workers``, takes tasks on its standard input
and answers on its standard output, both as msgpack maps one after another. It ends as soon as its input does,
also in the middle of a task: a worker never outlives who started it.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .. import memory
from ..errors import IndexCorrupt, IndexFault
from ..grams.frequent import Frequent
from ..grams.scan import KEYS_PER_BYTE, LOWER, POWERS
from ..grams.weights import weights
from ..tree.signature import SIGNATURE
from .documents import Text, TextBuffer
from .format import CONTENT
from .messages import pack, unpacking
from .reader import Index
from .runs import Run, read_run, write_run

#: Text read before it is scanned, and the step of progress.
BATCH = 8 << 20
#: Places in a run's table of keys, as a power of two.
TABLE_BITS = 21
#: Postings of one run at most; the memory is touched only as far as it is used.
RUN_POSTINGS = 16 << 20

_NO_SPANS: npt.NDArray[np.int32] = np.empty((0, 2), np.int32)


class Worker:
    """The tasks. Each method is one, named in the message's ``task``; the others of its fields are
    arguments."""

    def __init__(self, send: Any) -> None:
        from . import kernels  # the import takes long and compiles: only here

        self._kernels = kernels
        self._send = send
        self._keys = np.empty(KEYS_PER_BYTE * kernels.PIECE, np.uint32)
        self._frequent: Frequent | None = None
        self._buffer = TextBuffer(0)
        self._table = np.empty(0, np.uint64)
        self._slots = np.empty(0, np.uint32)
        self._owners = np.empty(0, np.uint32)
        self._sources: list[Index] = []
        self._numbers = np.empty(0, np.int32)

    def release(self) -> None:
        """Forget the job that is done: what its tasks left for one another, and the memory. No answer."""
        self._frequent = None
        self._release()
        for index in self._sources:
            index.close()
        self._sources.clear()
        self._numbers = np.empty(0, np.int32)
        memory.give_back(now=True)

    def sample(
        self, root: bytes, paths: list[bytes], contents: list[bytes | None], bits: int, out: str
    ) -> dict[str, Any]:
        """Count in how many of the documents each sparse gram is; write uint32[2 ** bits] to ``out``."""
        counts = np.zeros(1 << bits, np.uint32)
        stamps = np.zeros(1 << bits, np.uint32)
        everything = Frequent.full()
        for first, texts in self._batches(root, paths, contents):
            starts, stops = _bounds(texts)
            self._kernels.count_sample(
                np.frombuffer(self._buffer.data, np.uint8),
                starts,
                stops,
                first + 1,
                LOWER,
                weights(),
                POWERS,
                everything.bits,
                everything.shift,
                self._keys,
                _NO_SPANS,
                counts,
                stamps,
                np.uint64(32 - bits),
            )
        _write(out, counts)
        return {}

    def frequent(self, path: str) -> dict[str, Any]:
        """Take the frequent set (its bits, a file) that the job's ``collect`` tasks select by."""
        self._frequent = Frequent(np.fromfile(path, np.uint8))
        return {}

    def collect(
        self, root: bytes, first: int, paths: list[bytes], contents: list[bytes | None], out: str
    ) -> dict[str, Any]:
        """Extract the documents ``first``, ``first + 1``, ...; write their runs to ``out`` with suffixes
        ``.0`` ...

        Answers the documents' signatures, content ids, flags and text sizes, and the runs.
        """
        assert self._frequent is not None
        if not len(self._table):
            self._table = np.zeros(1 << TABLE_BITS, np.uint64)
            self._slots = np.empty(RUN_POSTINGS, np.uint32)
            self._owners = np.empty(RUN_POSTINGS, np.uint32)
        runs: list[Run] = []
        signatures = np.zeros(len(paths), SIGNATURE)
        content_ids = np.zeros(len(paths), CONTENT)
        flags = np.zeros(len(paths), np.uint8)
        sizes = np.zeros(len(paths), np.uint64)
        state = np.array([0, 0, 0, -1], np.int64)
        for done, texts in self._batches(root, paths, contents):
            stop = done + len(texts)
            signatures[done:stop] = [text.signature for text in texts]
            content_ids[done:stop] = np.frombuffer(b"".join([text.content for text in texts]), CONTENT)
            flags[done:stop] = [text.flags for text in texts]
            sizes[done:stop] = [text.size for text in texts]
            starts, stops = _bounds(texts)
            numbers = np.arange(first + done, first + stop, dtype=np.int64)
            data = np.frombuffer(self._buffer.data, np.uint8)
            state[2], state[3] = 0, -1
            while not self._kernels.collect(
                data,
                starts,
                stops,
                numbers,
                LOWER,
                weights(),
                POWERS,
                self._frequent.bits,
                self._frequent.shift,
                self._keys,
                _NO_SPANS,
                self._table,
                np.uint64(32 - TABLE_BITS),
                self._slots,
                self._owners,
                state,
            ):
                runs.append(self._flush(int(state[1]), f"{out}.{len(runs)}"))
                state[0], state[1] = 0, 0
            self._send({"progress": [len(texts), int(sizes[done:stop].sum())]})
        if state[1]:
            runs.append(self._flush(int(state[1]), f"{out}.{len(runs)}"))
        return {
            "signatures": signatures.tobytes(),
            "contents": content_ids.tobytes(),
            "flags": flags.tobytes(),
            "sizes": sizes.tobytes(),
            "runs": runs,
        }

    def merge(self, runs: list[Run], low: int, high: int, bitmap_bytes: int, out: str) -> dict[str, Any]:
        """Join what the runs have in the key ranges ``low``, ..., ``high`` - 1.

        Writes the lists to ``out`` and their keys, lengths and counts (uint32 each) to ``out`` + ``.table``.
        """
        self._release()
        slices = [read_run(run, low, high) for run in runs]
        run_starts = np.cumsum([0] + [columns.shape[1] for columns, _ in slices], dtype=np.int64)
        data_starts = np.cumsum([0] + [len(gaps) for _, gaps in slices], dtype=np.int64)[:-1]
        columns = np.concatenate([columns for columns, _ in slices], axis=1)
        data = np.concatenate([gaps for _, gaps in slices])
        slices.clear()
        total = int(run_starts[-1])
        lists = np.empty(len(data) + 5 * total, np.uint8)
        table = np.empty((3, total), np.uint32)
        totals = np.zeros(2, np.int64)
        self._kernels.merge(
            run_starts, *columns, data, data_starts, bitmap_bytes, table[0], table[1], table[2], lists, totals
        )
        keys, written = totals.tolist()
        _write(out, lists[:written])
        _write(f"{out}.table", *(table[column, :keys] for column in (0, 2, 1)))
        return {"lists": out, "keys": keys}

    def sources(self, indexes: list[tuple[str, int]], numbers: str) -> dict[str, Any]:
        """Open the indexes (directories and identities) whose lists the ``join`` tasks of this job join.

        ``numbers`` is a file with the new numbers (int32, -1 for one that is left out) of all documents of
        the first, then of the second and so on. Answers as ``join`` where one of them cannot be used.
        """
        self._numbers = np.fromfile(numbers, np.int32)
        for place, (directory, identity) in enumerate(indexes):
            try:
                index = Index(Path(directory))
            except IndexFault as fault:
                return _unusable(place, fault)
            self._sources.append(index)
            if index.identity != identity:
                return _unusable(place, IndexFault("it was replaced by another"))
        return {}

    def join(self, low: int, high: int, documents: int, out: str) -> dict[str, Any]:
        """Join what the sources have of the keys ``low``, ..., ``high`` - 1, for an index of ``documents``.

        Writes the same as ``merge``, and answers the same and the bytes of lists that were ``read``; or
        ``unusable``, ``corrupt`` and ``message``: the number of a source that cannot be used, whether it is
        damaged, and why.
        """
        parts = []
        for place, index in enumerate(self._sources):
            try:
                parts.append(index.stretch(low, high))
            except IndexFault as fault:
                return _unusable(place, fault)
        bitmap_bytes = -(-documents // 8)
        counts = np.concatenate([part.counts for part in parts])
        lengths = np.concatenate([part.lengths for part in parts])
        # A number in a list takes ``longest`` bytes at most, and a list no more than a bitmap.
        longest = -(-documents.bit_length() // 7)
        room = np.minimum(counts.astype(np.int64) * longest, bitmap_bytes)[lengths > 0]
        inline = int(np.count_nonzero(lengths == 0))
        lists = np.empty(int(room.sum()) + (inline + 1) * longest, np.uint8)
        table = np.empty((3, len(counts)), np.uint32)
        totals = np.zeros(2, np.int64)
        malformed = self._kernels.join(
            _edges(len(part.keys) for part in parts),
            np.concatenate([part.keys for part in parts]),
            lengths,
            counts,
            np.concatenate([part.lists for part in parts]),
            _edges(len(part.lists) for part in parts)[:-1],
            np.array([index.bitmap_size for index in self._sources], np.int64),
            _edges(index.document_count for index in self._sources),
            self._numbers,
            bitmap_bytes,
            np.empty(3 * documents, np.int32),
            table[0],
            table[2],
            table[1],
            lists,
            totals,
        )
        if malformed >= 0:
            return _unusable(malformed, IndexCorrupt("a posting list is malformed"))
        keys, written = totals.tolist()
        _write(out, lists[:written])
        _write(f"{out}.table", *(column[:keys] for column in table))
        return {"lists": out, "keys": keys, "read": sum(len(part.lists) for part in parts)}

    def _release(self) -> None:
        """Give back the memory that only extraction needs."""
        self._buffer = TextBuffer(0)
        self._table = np.empty(0, np.uint64)
        self._slots = np.empty(0, np.uint32)
        self._owners = np.empty(0, np.uint32)

    def _batches(self, root: bytes, paths: list[bytes], contents: list[bytes | None]) -> Any:
        """Read the documents batch by batch into the buffer; yields the first one's place and their texts."""
        self._buffer.clear()
        self._buffer.reserve(2 * BATCH)
        first = 0
        while first < len(paths):
            self._buffer.clear()
            texts: list[Text] = []
            for path, content in zip(paths[first:], contents[first:], strict=True):
                if content is None:
                    texts.append(self._buffer.read(root + path))
                else:
                    texts.append(self._buffer.append(content))
                if self._buffer.filled >= BATCH:
                    break
            yield first, texts
            first += len(texts)

    def _flush(self, postings: int, path: str) -> Run:
        """Write the run that the table holds, and empty the table."""
        order = np.flatnonzero(self._table)
        keys = (self._table[order] >> np.uint64(32)).astype(np.uint32)
        by_key = np.argsort(keys, kind="stable")  # nearly in order already: keys lie by their upper bits
        order, keys = order[by_key], keys[by_key]
        offsets = np.zeros(len(self._table), np.int64)
        self._kernels.count_slots(self._slots, postings, offsets)
        columns = np.empty((4, len(keys)), np.uint32)
        gaps = np.empty(5 * postings, np.uint8)
        size = self._kernels.encode(
            self._slots,
            self._owners,
            postings,
            order,
            offsets,
            np.empty(postings, np.uint32),
            columns[0],
            columns[1],
            columns[2],
            columns[3],
            gaps,
        )
        self._table.fill(0)
        return write_run(path, keys, columns, gaps[:size])


def _write(path: str, *arrays: npt.NDArray[Any]) -> None:
    """Write arrays one behind another. (``ndarray.tofile`` does not tell why it fails.)"""
    with open(path, "wb") as file:
        for array in arrays:
            file.write(array.data)


def _unusable(source: int, fault: IndexFault) -> dict[str, Any]:
    return {"unusable": source, "corrupt": isinstance(fault, IndexCorrupt), "message": fault.message}


def _edges(sizes: Iterable[int]) -> npt.NDArray[np.int64]:
    """Where things of these sizes start when they lie one after another, and where the last ends."""
    return np.cumsum([0, *sizes], dtype=np.int64)


def _bounds(texts: list[Text]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    starts = np.array([text.start for text in texts], np.int64)
    return starts, starts + np.array([text.size for text in texts], np.int64)


def _receive(tasks: queue.SimpleQueue[dict[str, Any]]) -> None:
    """Queue the tasks that come in; end the process, whatever it does, when no more can come."""
    unpacker = unpacking()
    while data := os.read(0, 1 << 20):
        unpacker.feed(data)
        for task in unpacker:
            tasks.put(task)
    os._exit(1)


def main() -> None:
    memory.use_one_arena()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing that a library prints may get among the answers

    def send(message: dict[str, Any]) -> None:
        answers.write(pack(message))
        answers.flush()

    tasks: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(tasks,), daemon=True).start()
    try:
        _use_numba_cache(tasks.get()["cache"])
        worker = Worker(send)
        send({"done": {}})
        while True:
            task = tasks.get()
            answer = getattr(worker, task.pop("task"))(**task)
            if answer is not None:
                send({"done": answer})
    except BrokenPipeError:
        pass
    except BaseException as error:
        detail = error.strerror if isinstance(error, OSError) and error.strerror else repr(error)
        send({"error": detail, "trace": traceback.format_exc()})
    sys.stdout.flush()
    os._exit(1)


def _use_numba_cache(directory: str) -> None:
    """Have numba, not imported yet, keep compiled kernels in ``directory`` unless the user says where."""
    if directory:
        os.environ.setdefault("NUMBA_CACHE_DIR", directory)


if __name__ == "__main__":
    main()
