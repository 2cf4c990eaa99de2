"""The build processes: kept between jobs without a trace of the job before, ended when idle, replaced."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from indexgrep.errors import Cancelled, IndexFault
from indexgrep.index import Index, Source, Workers, workers
from indexgrep.index.builder import build
from indexgrep.index.format import LOOKUP, POSTINGS
from indexgrep.index.merge import merge
from indexgrep.tree.signature import SIGNATURE
from support.indexing import write_files
from support.server_harness import alive, eventually


@pytest.fixture
def two() -> Iterator[Workers]:
    with closing(Workers(2)) as two:
        yield two


def files_of(directory: Path) -> list[bytes]:
    return [(directory / name).read_bytes() for name in (POSTINGS, LOOKUP)]


def at_extraction(do: Callable[[], Any]) -> Callable[[dict[str, Any]], None]:
    """A ``progress`` that does something when the first documents are extracted."""

    def progress(report: dict[str, Any]) -> None:
        if report["phase"] == "extract" and not done:
            done.append(True)
            do()

    done: list[bool] = []
    return progress


def test_jobs_share_processes_and_nothing_else(tmp_path: Path, two: Workers) -> None:
    """Builds one after another in the same processes give what each gives in processes of its own."""
    random = np.random.default_rng(5)
    words = [bytes(random.integers(97, 123, 9, np.uint8)) for _ in range(5000)]
    trees = []
    for name, some in ((b"many", words), (b"few", words[:40]), (b"other", [word.upper() for word in words])):
        text = [b" ".join(some[n] for n in random.integers(0, len(some), 3000)) for _ in range(150)]
        trees.append(write_files(tmp_path, {b"%s/%03d" % (name, n): part for n, part in enumerate(text)}))
    used: set[int] = set()
    for number, paths in enumerate(trees):
        build(str(tmp_path), paths, tmp_path / f"own{number}")
    for number in (0, 1, 2, 1):
        build(str(tmp_path), trees[number], tmp_path / f"shared{number}", workers=two)
        used.update(two.processes())
        assert files_of(tmp_path / f"shared{number}") == files_of(tmp_path / f"own{number}")
    assert len(used) == 2


def test_a_directory_whose_name_is_not_utf8(tmp_path: Path, two: Workers) -> None:
    paths = write_files(tmp_path, {b"a": b"some text"})
    place = tmp_path / os.fsdecode(b"caf\xe9")
    build(str(tmp_path), paths, place / "index", workers=two)
    with closing(Index(place / "index")) as index:
        everything = np.ones(1, np.bool_)
        merge([Source(index, everything, np.zeros(1, SIGNATURE))], place / "merged", workers=two)
    assert files_of(place / "index") == files_of(place / "merged")


def test_as_many_processes_as_a_job_is_worth(tmp_path: Path, two: Workers) -> None:
    assert two.processes() == []
    build(str(tmp_path), write_files(tmp_path, {b"a": b"text"}), tmp_path / "small", workers=two)
    assert len(two.processes()) == 1
    paths = write_files(tmp_path, {b"%d" % n: b"text" * 500_000 for n in range(7)})
    build(str(tmp_path), paths, tmp_path / "large", workers=two)
    assert len(two.processes()) == 2


def test_idle_processes_end_and_come_again(tmp_path: Path) -> None:
    paths = write_files(tmp_path, {b"a": b"some text"})
    with closing(Workers(1, idle_s=0.05)) as workers:
        used: set[int] = set()
        for number in range(3):
            build(str(tmp_path), paths, tmp_path / f"index{number}", workers=workers)
            used.update(workers.processes())
            eventually(lambda: not workers.processes())
        assert len(used) == 3
    assert files_of(tmp_path / "index0") == files_of(tmp_path / "index2")


def test_a_long_job_is_not_idle(tmp_path: Path) -> None:
    """The time before the end of the idle runs anew with each job."""
    paths = write_files(tmp_path, {b"a": b"some text"})
    with closing(Workers(1, idle_s=0.2)) as workers:
        build(str(tmp_path), paths, tmp_path / "index", workers=workers)
        with workers.job(1, tmp_path):
            before = workers.processes()
            threading.Event().wait(0.5)
            assert workers.processes() == before != []


@pytest.mark.skipif(sys.platform != "linux", reason="only glibc gives memory back, and /proc tells of it")
def test_between_jobs_memory_is_given_back(tmp_path: Path) -> None:
    random = np.random.default_rng(6)
    paths = write_files(
        tmp_path, {b"%d" % n: bytes(random.integers(32, 127, 1_000_000, np.uint8)) for n in range(6)}
    )

    def resident() -> int:
        """Of the only worker, in bytes."""
        (worker,) = one.processes()
        return int(Path(f"/proc/{worker}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def note(report: dict[str, Any]) -> None:
        if report["phase"] in ("sample", "merge"):  # before the first document, and after the last
            seen.append(resident())

    seen: list[int] = []
    with closing(Workers(1)) as one:
        build(str(tmp_path), paths, tmp_path / "index", workers=one, progress=note)
        before, full = seen
        assert full > before + (60 << 20)
        eventually(lambda: resident() < full - (50 << 20))


def test_one_that_died_between_jobs_is_replaced(tmp_path: Path, two: Workers) -> None:
    paths = write_files(tmp_path, {b"%d" % n: b"text" * 500_000 for n in range(7)})
    build(str(tmp_path), paths, tmp_path / "before", workers=two)
    first, second = two.processes()
    os.kill(first, signal.SIGKILL)
    eventually(lambda: two.processes() == [second])
    build(str(tmp_path), paths, tmp_path / "after", workers=two)
    assert files_of(tmp_path / "before") == files_of(tmp_path / "after")
    assert len(two.processes()) == 2
    assert second in two.processes()


def test_one_that_is_killed_at_work(tmp_path: Path, two: Workers) -> None:
    """The build fails and says how; the next one has new processes."""
    paths = write_files(tmp_path, {b"%d" % n: b"text" for n in range(9)})
    kill = at_extraction(lambda: os.kill(two.processes()[0], signal.SIGKILL))
    with pytest.raises(IndexFault, match="a build worker ended by SIGKILL"):
        build(str(tmp_path), paths, tmp_path / "out" / "index", workers=two, progress=kill)
    assert os.listdir(tmp_path / "out") == []
    build(str(tmp_path), paths, tmp_path / "out" / "index", workers=two)


def test_one_that_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, two: Workers) -> None:
    paths = write_files(tmp_path, {b"a": b"text"})
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/bin/false")
        with pytest.raises(IndexFault, match="a build worker ended with status 1"):
            build(str(tmp_path), paths, tmp_path / "out" / "index", workers=two)
        patch.setattr(sys, "executable", str(tmp_path / "nowhere"))
        with pytest.raises(IndexFault, match=r"cannot write the index.*No such file"):
            build(str(tmp_path), paths, tmp_path / "out" / "index", workers=two)
    assert os.listdir(tmp_path / "out") == []
    build(str(tmp_path), paths, tmp_path / "out" / "index", workers=two)


def test_what_it_complains_of_is_in_the_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, two: Workers
) -> None:
    complainer = tmp_path / "complainer"
    complainer.write_text("#!/bin/sh\necho first >&2; echo no memory left >&2; exit 3\n")
    complainer.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(complainer))
    with pytest.raises(IndexFault, match="ended with status 3: no memory left"):
        build(str(tmp_path), write_files(tmp_path, {b"a": b"text"}), tmp_path / "index", workers=two)


def test_cancelling_ends_the_processes_at_work(tmp_path: Path, two: Workers) -> None:
    paths = write_files(tmp_path, {b"%d" % n: b"text" for n in range(9)})
    cancel = threading.Event()
    used: list[int] = []

    def stop() -> None:
        used.extend(two.processes())
        cancel.set()

    with pytest.raises(Cancelled):
        build(
            str(tmp_path),
            paths,
            tmp_path / "out" / "index",
            workers=two,
            cancel=cancel,
            progress=at_extraction(stop),
        )
    assert used
    assert not any(map(alive, used))
    assert os.listdir(tmp_path / "out") == []
    build(str(tmp_path), paths, tmp_path / "out" / "index", workers=two)


def test_closing_cancels_the_job_at_work(tmp_path: Path, two: Workers) -> None:
    paths = write_files(tmp_path, {b"%d" % n: b"text" for n in range(9)})
    for _ in range(2):  # and there is no other after
        with pytest.raises(Cancelled):
            build(
                str(tmp_path),
                paths,
                tmp_path / "out" / "index",
                workers=two,
                progress=at_extraction(two.close),
            )
        assert two.processes() == []
    assert os.listdir(tmp_path / "out") == []
    two.close()


def test_jobs_of_two_threads_take_turns(tmp_path: Path, two: Workers) -> None:
    paths = write_files(tmp_path, {b"%d" % n: b"text %d" % n for n in range(50)})
    turns: list[str] = []

    def make(name: str) -> None:
        build(str(tmp_path), paths, tmp_path / name, workers=two, progress=lambda report: turns.append(name))

    with two.job(1, tmp_path):
        threads = [threading.Thread(target=make, args=(name,)) for name in ("a", "b")]
        for thread in threads:
            thread.start()
        cancel = threading.Event()
        cancel.set()
        with pytest.raises(Cancelled), two.job(1, tmp_path, cancel):  # also while it waits for its turn
            pass
    for thread in threads:
        thread.join()
    assert files_of(tmp_path / "a") == files_of(tmp_path / "b")


def test_kernels_are_cached_where_that_is_possible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDEXGREP_CACHE_DIR", str(tmp_path / "cache"))
    other = tmp_path / "cache" / "numba" / "of-another-version"
    other.mkdir(parents=True)
    directory = workers._numba_cache()
    assert os.listdir(tmp_path / "cache" / "numba") == [os.path.basename(directory)]
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("INDEXGREP_CACHE_DIR", str(tmp_path / "file"))
    assert workers._numba_cache() == ""
