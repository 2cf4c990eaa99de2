"""The protocol as ``doc/protocol.md`` has it, seen by a raw peer."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from indexgrep import __version__
from indexgrep.request import FileResult, Line, Summary
from indexgrep.server import protocol
from support.fake_session import FakeSession
from support.server_harness import Peer, eventually, running_server


def test_hello_tells_who_serves() -> None:
    with running_server() as running, Peer(running.path) as peer:
        error, about = peer.call("hello", {"client": "test", "protocol": 1})
        assert error is None
        assert about["version"] == __version__
        assert about["protocol"] == 1
        assert about["pid"] == os.getpid()
        assert about["root"] == running.server.root
        assert Path(about["log"]).name == "log"


def test_hello_with_another_protocol_is_refused() -> None:
    with running_server() as running, Peer(running.path) as peer:
        error, _ = peer.call("hello", {"protocol": 2})
        assert error["code"] == "server"
        assert "protocol 2" in error["message"]


def test_ping() -> None:
    with running_server() as running, Peer(running.path) as peer:
        assert peer.call("ping") == (None, "pong")


def test_a_search_answers_its_query_id_first_and_then_pushes() -> None:
    with running_server() as running, Peer(running.path) as peer:
        peer.send([0, 7, "search", [3, {"patterns": ["files=3 lines=2"]}]])
        assert peer.message() == [1, 7, None, {"qid": 3}]
        files, event, summary = peer.answer(3)
        assert event == "done"
        assert [file["path"] for file in files] == [f"dir/file{n:06}.c" for n in range(3)]
        assert files[0]["lines"][1] == [2, 40, b"x" * 39 + b"\n", [[0, 1]], True]
        assert Summary.from_wire(summary).matched_lines == 6
        assert summary["complete"]


def test_several_queries_run_at_once() -> None:
    with running_server() as running, Peer(running.path) as peer:
        for qid in range(10):
            peer.notify("search", qid, {"patterns": [f"files={qid + 1} delay=0.005"]})
        counts: dict[int, int] = {}
        ends: list[int] = []
        while len(ends) < 10:
            event, params = peer.push()
            if event == "results":
                counts[params[0]] = counts.get(params[0], 0) + len(params[2])
            else:
                assert event == "done"
                ends.append(params[0])
        assert counts == {qid: qid + 1 for qid in range(10)}
        assert sorted(ends) == list(range(10))


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ([], "query id"),
        ([1], "query id"),
        ([1, 2], "map"),
        (["a", {"patterns": ["x"]}], "integer"),
        ([True, {"patterns": ["x"]}], "integer"),
        ([1, {"patterns": []}], "pattern"),
        ([1, {}], "pattern"),
        ([1, {"patterns": ["x"], "colour": True}], "'colour'"),
        ([1, {"patterns": ["x"], "word": 1}], "'word'"),
        ([1, {"patterns": ["x"], "window": -1}], "window"),
        ([1, {"patterns": ["x"], "window": "all"}], "window"),
        ([1, {"patterns": ["x"], "supersede": 1}], "supersede"),
    ],
)
def test_a_search_that_is_not_understood_is_an_error_that_says_why(params: Any, says: str) -> None:
    with running_server() as running, Peer(running.path) as peer:
        error, _ = peer.call("search", *params)
        assert error["code"] == "usage"
        assert says in error["message"]
        if params and params[0] is not True and params[0] == 1:
            peer.notify("search", *params)
            event, (qid, error) = peer.push()
            assert (event, qid, error["code"]) == ("failed", 1, "usage")
        assert peer.call("ping") == (None, "pong")
        assert running.running_queries() == 0


def test_a_pattern_that_does_not_parse_is_a_failed_push_with_the_position() -> None:
    with running_server() as running, Peer(running.path) as peer:
        assert peer.call("search", 1, {"patterns": ["("]}) == (None, {"qid": 1})
        files, event, error = peer.answer(1)
        assert not files
        assert event == "failed"
        assert error["code"] == "pattern"
        assert (error["start"], error["end"], error["reason"]) == (0, 1, "unclosed group")


@pytest.mark.parametrize("pattern", ["boom", "files=3 fail=1"])
def test_an_unexpected_fault_names_the_log_and_tells_no_more(pattern: str) -> None:
    with running_server() as running, Peer(running.path) as peer:
        _, event, error = peer.search(1, pattern)
        assert event == "failed"
        assert error["code"] == "internal"
        assert "log" in error["hint"]
        assert "secret" not in str(error)
        assert "Traceback" not in str(error)
        assert peer.search(1, "files=1")[1] == "done"


def test_a_query_id_is_free_again_when_its_query_has_ended() -> None:
    with running_server() as running, Peer(running.path) as peer:
        peer.notify("search", 1, {"patterns": ["files=100 delay=0.01"]})
        error, _ = peer.call("search", 1, {"patterns": ["files=1"]})
        assert "in use" in error["message"]
        assert peer.call("cancel", 1) == (None, True)
        assert peer.answer(1)[1] == "done"
        assert peer.search(1, "files=1")[1] == "done"
        assert peer.call("cancel", 1) == (None, False)


def test_the_number_of_queries_of_a_client_is_bounded() -> None:
    with running_server() as running, Peer(running.path) as peer:
        for qid in range(64):
            assert peer.call("search", qid, {"patterns": ["files=100 delay=0.2"]})[0] is None
        error, _ = peer.call("search", 64, {"patterns": ["x"]})
        assert "64" in error["message"]


def test_explain_and_status() -> None:
    with running_server() as running, Peer(running.path) as peer:
        assert peer.call("explain", {"patterns": ["a", "b"]}) == (None, {"patterns": ["a", "b"]})
        assert peer.call("explain", {"patterns": [1]})[0]["code"] == "usage"
        error, status = peer.call("status")
        assert error is None
        assert status["version"] == __version__
        assert status["index"]["state"] == "ready"
        assert status["freshness"] == "watch"
        assert status["clients"] == 1
        assert status["uptime_s"] >= 0
        assert status["rss_bytes"] > 1_000_000
        assert status["socket"] == str(running.path)


def test_what_the_session_cannot_say_in_msgpack_is_an_internal_error() -> None:
    class Odd(FakeSession):
        def status(self) -> dict[str, Any]:
            return {"odd": object()}

    with running_server(Odd()) as running, Peer(running.path) as peer:
        assert peer.call("status")[0]["code"] == "internal"
        assert peer.call("ping") == (None, "pong")


def test_index_builds_once_and_pushes_progress_to_those_who_said_hello() -> None:
    with running_server(FakeSession(build_s=0.1)) as running, Peer(running.path) as peer:
        with Peer(running.path) as silent:
            peer.call("hello", {})
            assert peer.call("index", {}) == (None, {"started": False, "reason": "fresh"})
            assert peer.call("index", {"force": True}) == (None, {"started": True, "reason": ""})
            assert peer.call("index", {"force": True}) == (None, {"started": False, "reason": "running"})
            assert peer.call("status")[1]["index"]["state"] == "building"
            phases = []
            while "ready" not in phases:
                event, (state,) = peer.push()
                assert event == "progress"
                phases.append(state["phase"])
            assert phases == ["scan", "extract", "merge", "ready"]
            assert running.session.builds == 1
            assert silent.call("ping") == (None, "pong")
            assert not silent.pushes
        assert peer.call("index", {"force": 1})[0]["code"] == "usage"


def test_an_index_that_is_missing_is_built_on_start_while_searches_are_answered() -> None:
    session = FakeSession(state="missing", build_s=0.1)
    with running_server(session) as running, Peer(running.path) as peer:
        eventually(lambda: session.builds)
        peer.call("hello", {})
        assert peer.search(1, "files=1")[1] == "done"
        phases: list[str] = []
        while "ready" not in phases:
            event, params = peer.push()
            assert event == "progress"
            phases.append(params[0]["phase"])
        assert peer.call("status")[1]["index"]["state"] == "ready"


def test_a_build_that_fails_is_pushed_and_the_server_goes_on() -> None:
    class Failing(FakeSession):
        def build(self, progress: Any, cancel: Any = None, force: bool = False) -> None:
            raise OSError(28, "No space left on device")

    with running_server(Failing(state="ready")) as running, Peer(running.path) as peer:
        peer.call("hello", {})
        assert peer.call("index", {"force": True})[1]["started"]
        event, (state,) = peer.push()
        assert event == "progress"
        assert state["phase"] == "failed"
        assert state["error"]["code"] == "internal"
        assert peer.search(1, "files=1")[1] == "done"


def test_requests_wait_for_the_session_but_ping_and_cancel_do_not() -> None:
    import threading

    go = threading.Event()

    def slow() -> FakeSession:
        go.wait(10)
        return FakeSession()

    with running_server(slow) as running, Peer(running.path) as peer:
        peer.notify("search", 1, {"patterns": ["files=1"]})
        peer.notify("search", 2, {"patterns": ["files=1"]})
        assert peer.call("ping") == (None, "pong")
        assert peer.call("hello", {})[0] is None
        start = time.monotonic()
        assert peer.call("cancel", 2) == (None, True)
        _, event, summary = peer.answer(2)
        assert (event, summary["reason"]) == ("done", "cancelled")
        assert time.monotonic() - start < 1
        go.set()
        assert peer.answer(1)[1] == "done"


def test_a_session_that_cannot_be_opened_is_the_answer_to_everything() -> None:
    from indexgrep.errors import RootError

    def refused() -> FakeSession:
        raise RootError("that is your home", "Search a project.")

    with running_server(refused) as running:
        with Peer(running.path) as peer:
            assert peer.call("hello", {})[0] is None
            _, event, error = peer.search(1, "x")
            assert event == "failed"
            assert error == {"code": "root", "message": "that is your home", "hint": "Search a project."}
            assert peer.call("status")[0]["code"] == "root"
            assert peer.call("explain", {"patterns": ["x"]})[0]["code"] == "root"
        running.thread.join(5)
        assert not running.thread.is_alive()


def test_shutdown_ends_queries_with_a_word() -> None:
    session = FakeSession()
    with running_server(session) as running, Peer(running.path) as peer:
        peer.notify("search", 1, {"patterns": ["files=1000 delay=0.01"]})
        assert peer.call("shutdown") == (None, True)
        _, event, error = peer.answer(1)
        assert event == "failed"
        assert error["code"] == "server"
        with pytest.raises(EOFError):
            peer.message()
        running.thread.join(5)
        assert not running.path.exists()
        assert session.closed


def test_empty_lua_tables_are_lists_or_maps_as_needed() -> None:
    with running_server() as running, Peer(running.path) as peer:
        peer.send([0, 1, "ping", {}])
        assert peer.message() == [1, 1, None, "pong"]
        assert peer.call("hello", [])[0] is None
        assert peer.call("index", [])[0] is None
        assert peer.search(1, "files=1", globs={}, paths=[])[1] == "done"


def test_paths_that_are_not_utf8_cross_as_they_are() -> None:
    packing = protocol.packer()
    file = FileResult("caf\udce9", [Line(1, 0, b"\xff\n", [(0, 1)])], 1, 1)
    (entry, lines), *_ = protocol.entries(file, packing)
    assert lines == 1
    assert b"caf\xe9" in entry
    unpacker = protocol.unpacker()
    unpacker.feed(entry)
    assert FileResult.from_wire(next(iter(unpacker))) == file


def test_a_large_file_is_split_and_its_parts_add_up() -> None:
    lines = [Line(n + 1, n * 10, b"x" * 9 + b"\n", [(0, 1), (1, 2)], n % 2 == 0) for n in range(2_500)]
    file = FileResult("a", lines, 1_250, 5_000, binary_offset=77, bytes_searched=25_000, source="buffer")
    unpacker = protocol.unpacker()
    parts = []
    for entry, count in protocol.entries(file, protocol.packer()):
        unpacker.feed(entry)
        part = FileResult.from_wire(next(iter(unpacker)))
        assert len(part.lines) == count <= 1_000
        parts.append(part)
    assert [line for part in parts for line in part.lines] == lines
    assert [part.count for part in parts] == [500, 500, 250]
    assert sum(part.matches for part in parts) == 5_000
    assert sum(part.bytes_searched for part in parts) == 25_000
    assert [part.binary_offset for part in parts] == [None, None, 77]
    assert {(part.path, part.source) for part in parts} == {("a", "buffer")}


def test_long_lines_are_split_by_size() -> None:
    lines = [Line(n + 1, 0, b"x" * 600_000, [(0, 1)]) for n in range(10)]
    file = FileResult("a", lines, 10, 10)
    sizes = [len(entry) for entry, _ in protocol.entries(file, protocol.packer())]
    assert len(sizes) == 5
    assert max(sizes) < 1_300_000


def test_the_entry_is_what_the_record_says() -> None:
    file = FileResult("p", [Line(1, 0, b"a", [(0, 1)])], 1, 1, 3, 9, None, "buffer")
    unpacker = protocol.unpacker()
    unpacker.feed(next(iter(protocol.entries(file, protocol.packer())))[0])
    wire = file.to_wire()
    wire["lines"][0][3] = [[0, 1]]
    assert next(iter(unpacker)) == wire
