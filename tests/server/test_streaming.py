"""Back-pressure, windows, cancelling and ends of queries."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from support.fake_session import FakeSession
from support.server_harness import Peer, RunningServer, eventually, running_server

ENDLESS = "files=1000000 lines=10"


@pytest.fixture
def running() -> Iterator[RunningServer]:
    with running_server() as server:
        yield server


def test_the_first_batch_comes_while_the_search_goes_on(running: RunningServer) -> None:
    with Peer(running.path) as peer:
        start = time.monotonic()
        peer.notify("search", 1, {"patterns": ["files=10 delay=0.2"]})
        event, _ = peer.push()
        assert event == "results"
        assert time.monotonic() - start < 1.0


def test_a_reader_that_does_not_read_holds_the_search(running: RunningServer) -> None:
    with Peer(running.path) as peer, Peer(running.path) as other:
        peer.notify("search", 1, {"patterns": [ENDLESS + " width=1000"]})
        eventually(lambda: running.session.searches)
        search = running.session.searches[0]

        def held() -> bool:
            before = search.produced
            time.sleep(0.1)
            return bool(before and search.produced == before)

        eventually(held)
        # The outbox, the transport, the socket's own buffers and one batch: far below 4 MB.
        assert search.produced * 1_000 < 4_000_000
        (connection,) = (c for c in running.server._connections if c.queries)
        assert connection._waiting < 1_000_000
        # Others are served meanwhile.
        assert len(other.search(1, "files=50 lines=10")[0]) == 50
        # What was held goes on when it is read.
        produced = search.produced
        for _ in range(200):
            peer.push()
        eventually(lambda: search.produced > produced)


def test_a_client_that_reads_no_responses_is_not_read_for_ever(running: RunningServer) -> None:
    with Peer(running.path, timeout=1.0) as peer, pytest.raises(TimeoutError):
        _ask_for_ever(peer)
    with Peer(running.path) as other:
        assert other.call("ping") == (None, "pong")


def _ask_for_ever(peer: Peer) -> None:
    while True:
        peer.notify("search", 1, {"patterns": []})  # each is answered by a push


def test_cancel_is_quick_and_stops_the_results(running: RunningServer) -> None:
    with Peer(running.path) as peer:
        for qid in range(5):
            peer.notify("search", qid, {"patterns": [ENDLESS]})
            peer.push()
            start = time.monotonic()
            assert peer.call("cancel", qid) == (None, True)
            event, summary = "results", None
            while event == "results":
                event, params = peer.push()
                if event != "results":
                    summary = params[1]
            assert event == "done"
            assert summary is not None
            assert summary["reason"] == "cancelled"
            assert not summary["complete"]
            assert time.monotonic() - start < 0.5
        assert running.running_queries() == 0


def test_an_answer_that_calls_itself_complete_is(running: RunningServer) -> None:
    """However closely a cancel follows the end of its query."""
    complete = 0
    with Peer(running.path) as peer:
        for qid in range(300):
            peer.notify("search", qid, {"patterns": ["files=40 lines=20"]})
            time.sleep((qid % 30) ** 2 / 50_000)  # up to 17 ms
            peer.notify("cancel", qid)
            files, event, summary = peer.answer(qid)
            assert event == "done"
            if summary["complete"]:
                complete += 1
                assert len(files) == 40
            else:
                assert summary["reason"] == "cancelled"
    assert complete


def test_cancel_wakes_a_query_that_is_held(running: RunningServer) -> None:
    with Peer(running.path) as peer:
        peer.notify("search", 1, {"patterns": [ENDLESS], "window": 10})
        peer.push()
        assert peer.call("cancel", 1) == (None, True)
        files, event, summary = [], "results", None
        while event == "results":
            event, params = peer.push()
            files += params
        assert event == "done"
        summary = params[1]
        assert summary["reason"] == "cancelled"
        assert running.session.searches[0].closed


def test_supersede_cancels_the_clients_other_queries_only(running: RunningServer) -> None:
    with Peer(running.path) as peer, Peer(running.path) as other:
        other.notify("search", 1, {"patterns": ["files=60 delay=0.01"]})
        for qid in range(1, 4):
            peer.notify("search", qid, {"patterns": [ENDLESS]})
        peer.notify("search", 4, {"patterns": ["files=3"], "supersede": True})
        ends: dict[int, Any] = {}
        files = 0
        while len(ends) < 4:
            event, params = peer.push()
            if event == "results":
                files += len(params[2]) if params[0] == 4 else 0
            else:
                assert event == "done"
                assert params[0] not in ends
                ends[params[0]] = params[1]["reason"]
        assert ends == {1: "cancelled", 2: "cancelled", 3: "cancelled", 4: ""}
        assert files == 3
        assert len(other.answer(1)[0]) == 60


def test_a_window_holds_the_query_until_more(running: RunningServer) -> None:
    with Peer(running.path) as peer:
        peer.notify("search", 1, {"patterns": ["files=10 lines=10"], "window": 25})
        lines = 0
        while lines < 30:  # whole files
            event, params = peer.push()
            assert event == "results"
            lines += sum(len(file["lines"]) for file in params[2])
        assert lines == 30
        time.sleep(0.05)
        assert peer.call("ping") == (None, "pong")
        assert not peer.pushes
        assert peer.call("more", 1, 10) == (None, True)
        event, params = peer.push()
        assert sum(len(file["lines"]) for file in params[2]) == 10
        assert peer.call("ping") == (None, "pong")
        assert not peer.pushes
        peer.notify("more", 1, 1_000)
        rest = 0
        while True:
            event, params = peer.push()
            if event != "results":
                break
            rest += sum(len(file["lines"]) for file in params[2])
        assert rest == 60
        assert event == "done"
        assert params[1]["complete"]
        assert peer.call("more", 1, 10) == (None, False)
        assert peer.call("more", 1, 0)[0]["code"] == "usage"


def test_a_window_that_is_just_enough_ends_without_more(running: RunningServer) -> None:
    with Peer(running.path) as peer:
        files, event, summary = peer.search(1, "files=3 lines=10", window=30)
        assert len(files) == 3
        assert event == "done"
        assert summary["complete"]


def test_a_window_cuts_batches_of_several_files(running: RunningServer) -> None:
    with Peer(running.path) as peer:
        peer.notify("search", 1, {"patterns": ["files=100 lines=1 batch=100"], "window": 7})
        got = []
        for _ in range(14):
            event, params = peer.push()
            assert event == "results"
            got.append(len(params[2]))
            peer.notify("more", 1, 7)
        assert got == [7] * 14


def test_a_deadline_ends_a_query_that_its_reader_holds(running: RunningServer) -> None:
    with Peer(running.path) as peer:
        start = time.monotonic()
        files, event, summary = peer.search(1, ENDLESS, window=10, timeout_ms=100)
        assert 0.1 <= time.monotonic() - start < 1.0
        assert len(files) == 1
        assert event == "done"
        assert summary["reason"] == "timeout"
        assert not summary["complete"]


def test_a_client_that_vanishes_frees_its_queries(running: RunningServer) -> None:
    peer = Peer(running.path)
    peer.notify("search", 1, {"patterns": [ENDLESS]})
    peer.notify("search", 2, {"patterns": [ENDLESS], "window": 1})
    peer.notify("search", 3, {"patterns": ["files=100000 delay=0.01"]})
    peer.push()
    peer.socket.close()
    eventually(lambda: len(running.session.searches) == 3)
    eventually(lambda: all(search.closed for search in running.session.searches))
    eventually(lambda: not running.server._connections)


def test_large_messages_stay_near_their_bound(running: RunningServer) -> None:
    with Peer(running.path) as peer:
        peer.notify("search", 1, {"patterns": ["files=400 lines=100 batch=400"]})
        sizes = []
        event = "results"
        while event == "results":
            event, params = peer.push()
            if event == "results":
                sizes.append(sum(len(line[2]) for file in params[2] for line in file["lines"]))
        assert sum(sizes) == 400 * 100 * 40
        assert max(sizes) < 200_000


def test_twenty_clients_at_once(running: RunningServer) -> None:
    peers = [Peer(running.path) for _ in range(20)]
    for number, peer in enumerate(peers):
        peer.notify("search", number, {"patterns": [f"files={100 + number} lines=3"]})
    for number, peer in enumerate(peers):
        files, event, _ = peer.answer(number)
        assert event == "done"
        assert len(files) == 100 + number
        peer.socket.close()
    eventually(lambda: not running.server._connections)


def test_push_for_neovim_wraps_every_push(running: RunningServer) -> None:
    with Peer(running.path) as peer:
        peer.call("hello", {"push": "nvim"})
        peer.notify("search", 1, {"patterns": ["files=1"]})
        events = []
        while "done" not in events:
            method, (code, (event, params)) = peer.push()
            assert method == "nvim_exec_lua"
            assert code == "require('indexgrep.rpc').on_push(...)"
            assert params[0] == 1
            events.append(event)
        assert events == ["results", "done"]
        error, _ = peer.call("nonsense")
        assert error[0] == 0
        assert error[1].startswith("unknown method 'nonsense'\n")
    with Peer(running.path) as peer:
        assert peer.call("hello", {"push": "emacs"})[0]["code"] == "usage"


def test_sessions_may_stop_by_raising() -> None:
    from indexgrep.errors import Cancelled
    from indexgrep.request import SearchRequest, Summary

    class Raising(FakeSession):
        def search(self, request: SearchRequest, cancel: Any = None, buffers: Any = None) -> Any:
            class Search:
                summary = Summary()

                def __iter__(self) -> Iterator[Any]:
                    cancel.wait(5)
                    raise Cancelled("cancelled")
                    yield

                def close(self) -> None:
                    pass

            return Search()

    with running_server(Raising()) as running, Peer(running.path) as peer:
        peer.notify("search", 1, {"patterns": ["x"]})
        peer.notify("cancel", 1)
        _, event, summary = peer.answer(1)
        assert (event, summary["reason"], summary["complete"]) == ("done", "cancelled", False)
