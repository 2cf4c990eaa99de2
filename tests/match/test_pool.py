"""Many files at once: the order, the helpers, and what happens when they go."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from indexgrep.match import Matcher, Pool, compile_request, search_files
from indexgrep.request import FileResult, SearchRequest

NAMES = [b"%05d" % number for number in range(3000)]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tree")
    for name in NAMES:
        number = int(name)
        (directory / os.fsdecode(name)).write_bytes(b"x\n" * (number % 7) + b"needle %d\n" % number)
    return directory


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the workers help with as few files as there are here."""
    monkeypatch.setattr("indexgrep.match.pool.ALONE", 200)


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool(2)
    yield pool
    pool.close()


def matcher(pattern: str = "needle", **options: object) -> Matcher:
    request = SearchRequest((pattern,), **options)  # type: ignore[arg-type]
    return Matcher(compile_request(request), request)


def alone(tree: Path, matching: Matcher) -> list[FileResult]:
    return [answer for batch in search_files(matching, NAMES, root=os.fsencode(tree)) for answer in batch]


def started(pool: Pool, tree: Path) -> None:
    """Search until every worker is up and has answered a batch."""
    deadline = time.monotonic() + 30
    while not pool.ready() and time.monotonic() < deadline:
        list(search_files(matcher(), NAMES, root=os.fsencode(tree), pool=pool))
    assert pool.ready()


def test_workers_take_no_module_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tree: Path, pool: Pool
) -> None:
    (tmp_path / "msgpack.py").write_text("raise SystemExit(1)\n")
    monkeypatch.chdir(tmp_path)
    started(pool, tree)


def test_same_answers_in_the_same_order(tree: Path, pool: Pool) -> None:
    started(pool, tree)
    for options in ({}, {"before": 1, "invert": True}, {"output": "count"}, {"case": "insensitive"}):
        matching = matcher(**options)  # type: ignore[arg-type]
        found = [
            answer
            for batch in search_files(matching, NAMES, root=os.fsencode(tree), pool=pool)
            for answer in batch
        ]
        assert [answer.to_wire() for answer in found] == [
            answer.to_wire() for answer in alone(tree, matching)
        ]


@pytest.mark.parametrize("helped", [False, True], ids=["alone", "with workers"])
def test_texts_stand_for_their_files(tree: Path, pool: Pool, helped: bool) -> None:
    """Some have no file, some no match, and some batches are of nothing else."""
    texts = dict.fromkeys([*NAMES[1::7], *NAMES[2000:2100]], b"nothing\nneedle of the buffer\n")
    texts |= dict.fromkeys(NAMES[2::11], b"nothing\n")
    texts |= {name[:-1] + b"x": b"needle\n" for name in NAMES[::13]}
    names = sorted({*NAMES, *texts})
    if helped:
        started(pool, tree)
    found = [
        answer
        for batch in search_files(
            matcher(), names, root=os.fsencode(tree), pool=pool if helped else None, texts=texts
        )
        for answer in batch
    ]
    on_disk = {answer.path: answer for answer in alone(tree, matcher())}
    expected = []
    for name in names:
        if name not in texts:
            expected.append(on_disk[os.fsdecode(name)].to_wire())
            continue
        answer = matcher().search_bytes(texts[name], os.fsdecode(name))
        if answer is not None:
            expected.append(answer.to_wire() | {"source": "buffer"})
    assert [answer.to_wire() for answer in found] == expected


def test_texts_are_matched_as_files_are(tree: Path) -> None:
    """A file that is named is searched to its end although it is binary; one that is met is not."""
    texts = {b"b": b"needle\n" * 9 + b"\0\nneedle\n", NAMES[0]: b"needle\n"}
    for explicit, matched in (((), 0), ((b"b",), 9)):
        found = [
            answer
            for batch in search_files(
                matcher(), [NAMES[0], b"b"], root=os.fsencode(tree), explicit=explicit, texts=texts
            )
            for answer in batch
        ]
        assert [answer.source for answer in found] == ["buffer"] * len(found)
        assert sum(len(answer.lines) for answer in found if answer.path == "b") in (matched, 0)
        assert [answer.path for answer in found] == (["00000", "b"] if explicit else ["00000"])


def test_first_batch_is_small(tree: Path, pool: Pool) -> None:
    batches = search_files(matcher(), NAMES, root=os.fsencode(tree), pool=pool)
    assert 0 < len(next(batches)) <= 20
    batches.close()  # type: ignore[attr-defined]
    assert pool.busy.acquire(blocking=False), "a closed search lets the pool go"
    pool.busy.release()


def test_a_killed_worker_costs_nothing(tree: Path, pool: Pool) -> None:
    started(pool, tree)
    victims = pool.processes()
    answers: list[FileResult] = []
    for index, batch in enumerate(search_files(matcher(), NAMES, root=os.fsencode(tree), pool=pool)):
        answers += batch
        if index == 3:
            for pid in victims:
                os.kill(pid, signal.SIGKILL)
    assert [answer.to_wire() for answer in answers] == [answer.to_wire() for answer in alone(tree, matcher())]
    started(pool, tree)
    assert not set(pool.processes()) & set(victims)


def test_a_stopped_worker_costs_nothing(tree: Path, pool: Pool) -> None:
    started(pool, tree)
    victims = pool.processes()
    for pid in victims:
        os.kill(pid, signal.SIGSTOP)
    try:
        answers = [
            answer
            for batch in search_files(matcher(), NAMES, root=os.fsencode(tree), pool=pool)
            for answer in batch
        ]
    finally:
        for pid in victims:
            os.kill(pid, signal.SIGCONT)
    assert len(answers) == len(NAMES)


def test_cancel_and_deadline(tree: Path, pool: Pool) -> None:
    cancel = threading.Event()
    batches = search_files(matcher(), NAMES, root=os.fsencode(tree), pool=pool, cancel=cancel)
    next(batches)
    cancel.set()
    assert len(list(batches)) == 0
    assert list(search_files(matcher(), NAMES, root=os.fsencode(tree), deadline=time.monotonic() - 1)) == []
    # The pool serves the next search, whatever the last one left behind.
    found = list(search_files(matcher(), NAMES, root=os.fsencode(tree), pool=pool))
    assert sum(map(len, found)) == len(NAMES)


def test_two_searches_at_once(tree: Path, pool: Pool) -> None:
    first = search_files(matcher(), NAMES, root=os.fsencode(tree), pool=pool)
    next(first)
    second = list(search_files(matcher("needle 1"), NAMES, root=os.fsencode(tree), pool=pool))
    assert sum(map(len, second)) == sum(str(int(name)).startswith("1") for name in NAMES)
    assert sum(map(len, first)) == len(NAMES) - 16


def test_close_ends_the_workers(tree: Path, pool: Pool) -> None:
    started(pool, tree)
    pids = pool.processes()
    assert len(pids) == 2
    pool.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_missing_files_are_errors_in_their_place(tree: Path) -> None:
    names = [NAMES[0], b"gone", b"\xff", NAMES[1]]
    answers = [answer for batch in search_files(matcher(), names, root=os.fsencode(tree)) for answer in batch]
    assert [answer.error for answer in answers] == [
        None,
        "No such file or directory (os error 2)",
        "No such file or directory (os error 2)",
        None,
    ]
    assert os.fsencode(answers[2].path) == b"\xff"
