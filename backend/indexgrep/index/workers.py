"""The build processes: started when a job needs them, kept a while for the next.

A *job* is one build or merge; it has the processes for itself until it ends. Between jobs they keep nothing
but their compiled code, which is what takes long to have again, and after some seconds without a job they are
ended. The other end of the pipes is ``index.worker``.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import queue
import selectors
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from ..errors import Cancelled, IndexFault
from ..runtime import cache_dir, private_dir
from .messages import pack, unpacking
from .placing import write_fault

#: Seconds without a job after which the processes end. An idle one has about 120 MB resident.
IDLE_S = 20.0

#: How often a waiting thread looks whether its job is cancelled, in seconds.
_LOOK_S = 0.05
#: Bytes of a process's standard error that are kept for the log.
_KEPT = 1 << 16

#: The files whose change makes compiled kernels stale.
_KERNEL_SOURCES = ("grams/scan.py", "grams/kernels.py", "index/kernels.py")

log = logging.getLogger("indexgrep.index")

#: Processes that have something to say put it here: themselves, and an answer or ``None`` for their end.
_Answers = queue.SimpleQueue["tuple[_Process, dict[str, Any] | None]"]


class Workers:
    """Build processes that outlive a job. They start with the first job that needs them.

    Jobs of several threads are done one after another.
    """

    def __init__(self, count: int | None = None, *, idle_s: float = IDLE_S) -> None:
        """``count`` is how many processes a job may have at most; default one a core."""
        self.count = max(1, count or os.cpu_count() or 1)
        self._idle_s = idle_s
        self._busy = threading.Lock()
        self._processes: list[_Process] = []
        self._answers: _Answers = queue.SimpleQueue()
        self._rest: threading.Timer | None = None
        self._closed = False

    def processes(self) -> list[int]:
        """The ids of the processes that live."""
        return [process.pid for process in list(self._processes) if process.alive()]

    def close(self) -> None:
        """End the processes, and a job that is at work with ``Cancelled``; there can be no other after."""
        self._closed = True
        rest = self._rest
        if rest is not None:
            rest.cancel()
        for process in list(self._processes):
            process.kill()
        if self._busy.acquire(blocking=False):  # else the job, which notices, does the rest
            try:
                self._pause()
            finally:
                self._busy.release()

    @contextlib.contextmanager
    def job(self, count: int, place: Path, cancel: threading.Event | None = None) -> Iterator[Job]:
        """Have ``count`` processes (or as many as there may be) for one job, when those before it are done.

        ``place`` is what is written, for messages. An exception that leaves the block ends the processes:
        they may be in the middle of a task. Raises ``Cancelled`` when ``cancel`` is set, ``OSError`` where a
        process cannot be started, ``IndexFault`` where one does not come up.
        """
        cancel = cancel or threading.Event()
        while not self._busy.acquire(timeout=_LOOK_S):
            self._look(cancel)
        try:
            if self._rest is not None:
                self._rest.cancel()
            members: list[_Process] = []
            try:
                fresh = self._gather(max(1, min(count, self.count)), members)
                job = Job(self, members, self._answers, place, cancel)
                if fresh:
                    cache = _numba_cache()
                    job.tell(fresh, {"cache": cache})
                yield job
            except BaseException:
                for process in members:
                    process.end()
                raise
            for process in members:
                process.release()
        finally:
            self._pause()
            self._busy.release()

    def _gather(self, count: int, members: list[_Process]) -> list[_Process]:
        """Put ``count`` living processes into ``members``; returns those that were started for it."""
        self._forget_dead()
        members += self._processes[:count]
        fresh = []
        while len(members) < count:
            process = _Process(self._answers)
            self._processes.append(process)
            members.append(process)
            fresh.append(process)
        return fresh

    def _pause(self) -> None:
        """After a job: forget the dead, and have the others end in a while."""
        if self._closed:
            for process in self._processes:
                process.end()
        self._forget_dead()
        self._rest = None
        if self._processes:
            self._rest = threading.Timer(self._idle_s, self._end_idle)
            self._rest.name = "indexgrep-build-processes"
            self._rest.daemon = True
            self._rest.start()

    def _forget_dead(self) -> None:
        for process in self._processes:
            if not process.alive():
                process.end()
        self._processes = [process for process in self._processes if process.alive()]

    def _end_idle(self) -> None:
        if self._busy.acquire(blocking=False):
            try:
                if threading.current_thread() is self._rest:  # else a job came between
                    for process in self._processes:
                        process.end()
                    self._processes = []
            finally:
                self._busy.release()

    def _look(self, cancel: threading.Event) -> None:
        """Raise ``Cancelled`` where the job is not wanted any more."""
        if self._closed or cancel.is_set():
            raise Cancelled("the build was cancelled")


@contextlib.contextmanager
def employing(workers: Workers | None) -> Iterator[Workers]:
    """``workers``, or some that are ended when the block is left."""
    if workers is not None:
        yield workers
        return
    own = Workers()
    try:
        yield own
    finally:
        own.close()


class Job:
    """The processes of one job."""

    def __init__(
        self,
        workers: Workers,
        members: Sequence[_Process],
        answers: _Answers,
        place: Path,
        cancel: threading.Event,
    ) -> None:
        self._workers = workers
        self._members = members
        self._answers = answers
        self._place = place
        self._cancel = cancel
        #: How many they are.
        self.size = len(members)

    def broadcast(self, message: dict[str, Any]) -> list[dict[str, Any]]:
        """Give every process the same task and wait until all have done it; their answers, in no order."""
        return self.tell(self._members, message)

    def tell(self, processes: Sequence[_Process], message: dict[str, Any]) -> list[dict[str, Any]]:
        """Give some of the processes the same message and wait until all have answered."""
        for process in processes:
            self._give(process, message)
        return [self._answer()[1]["done"] for _ in processes]

    def run(
        self, tasks: Iterator[dict[str, Any]], step: Callable[[tuple[int, int]], None]
    ) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        """Have the tasks done; yields each with its answer as they come; ``step`` gets their progress.

        To be exhausted, unless the job ends with an exception.
        """
        busy: dict[_Process, dict[str, Any]] = {}
        idle = list(self._members)
        exhausted = False
        while True:
            while idle and not exhausted:
                task = next(tasks, None)
                if task is None:
                    exhausted = True
                else:
                    process = idle.pop(0)
                    self._give(process, task)
                    busy[process] = task
            if not busy:
                return
            process, answer = self._answer()
            if "progress" in answer:
                step((answer["progress"][0], answer["progress"][1]))
                continue
            idle.append(process)
            yield busy.pop(process), answer["done"]

    def _give(self, process: _Process, message: dict[str, Any]) -> None:
        try:
            process.give(message)
        except BrokenPipeError:
            self._failed(process)

    def _answer(self) -> tuple[_Process, dict[str, Any]]:
        """The next answer of any process. Raises ``Cancelled``, or ``IndexFault`` where a process failed."""
        while True:
            self._workers._look(self._cancel)
            try:
                process, answer = self._answers.get(timeout=_LOOK_S)
            except queue.Empty:
                continue
            if process not in self._members:
                continue  # the end of one that went before this job
            if answer is None:
                self._failed(process)
            elif "error" in answer:
                log.error("a build worker failed:\n%s", answer["trace"])
                raise write_fault(self._place, answer["error"])
            else:
                return process, answer

    def _failed(self, process: _Process) -> None:
        """Raise the fault of a process that ended without an answer."""
        self._workers._look(self._cancel)  # was it ended on purpose?
        status, text = process.result()
        how = f"with status {status}"
        if status < 0:
            how = f"by {signal.Signals(-status).name}"
        log.error("a build worker ended %s:\n%s", how, text)
        reason = f": {text.splitlines()[-1]}" if text else ""
        raise IndexFault(f"a build worker ended {how}{reason}", "Build again; the log has the details.")


class _Process:
    """One process, with a thread here that reads what it says."""

    def __init__(self, answers: _Answers) -> None:
        self._said = b""
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "indexgrep.index.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # an interrupt is ours to handle
        )
        self.pid = self._process.pid
        self._reader = threading.Thread(target=self._read, args=(answers,), daemon=True)
        self._reader.start()

    def alive(self) -> bool:
        return self._process.poll() is None

    def give(self, message: dict[str, Any]) -> None:
        """Send a message. Raises ``BrokenPipeError`` where the process is gone."""
        pipe = self._process.stdin
        assert pipe is not None
        pipe.write(pack(message))
        pipe.flush()

    def release(self) -> None:
        """Have it forget the job that is done, and give the memory back; there is no answer."""
        with contextlib.suppress(BrokenPipeError):  # the next job will find it gone
            self.give({"task": "release"})

    def kill(self) -> None:
        """End the process, whatever it does, without waiting for that."""
        self._process.kill()

    def end(self) -> None:
        """End the process and give back what it took here."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            assert pipe is not None
            with contextlib.suppress(OSError):
                pipe.close()

    def result(self) -> tuple[int, str]:
        """The exit status and the standard error of a process that ends by itself; waits for it."""
        status = self._process.wait()
        self._reader.join()
        return status, self._said.decode(errors="replace").strip()

    def _read(self, answers: _Answers) -> None:
        """Queue what the process answers, and ``None`` when there is no more; keep what it complains of."""
        output, errors = self._process.stdout, self._process.stderr
        assert output is not None
        assert errors is not None
        unpacker = unpacking()
        with selectors.DefaultSelector() as selector:
            selector.register(output, selectors.EVENT_READ)
            selector.register(errors, selectors.EVENT_READ)
            while selector.get_map():
                for key, _ in selector.select():
                    data = os.read(key.fd, 1 << 20)
                    if not data:
                        selector.unregister(key.fileobj)
                    elif key.fileobj is errors:
                        self._said = (self._said + data)[-_KEPT:]
                    else:
                        unpacker.feed(data)
                        for answer in unpacker:
                            answers.put((self, answer))
        answers.put((self, None))


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
