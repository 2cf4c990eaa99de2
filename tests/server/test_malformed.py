"""Whatever a peer sends, the server lives, and other clients notice nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.server_harness import Peer, RunningServer, eventually, running_server


@pytest.fixture(scope="module")
def running() -> Iterator[RunningServer]:
    with running_server() as server:
        yield server


def _still_serves(running: RunningServer) -> None:
    with Peer(running.path) as peer:
        assert peer.search(1, "files=2")[1] == "done"


def _drain(peer: Peer) -> None:
    while True:
        peer.message()


def _feed(running: RunningServer, data: bytes) -> None:
    """Send bytes and read until the server has taken them all, or has closed."""
    with Peer(running.path) as peer:
        try:
            peer.socket.sendall(data)
            peer.socket.shutdown(1)
            while peer.socket.recv(65536):
                pass
        except OSError:
            pass


@settings(max_examples=150)
@given(st.binary(max_size=300))
def test_random_bytes(running: RunningServer, data: bytes) -> None:
    _feed(running, data)
    _still_serves(running)


_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=5)
    | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
_METHODS = "hello search cancel more explain status index ping buffer buffer_gone changed"
_methods = st.sampled_from(_METHODS.split()) | _values


@settings(max_examples=250)
@given(
    st.lists(
        st.tuples(st.just(0), st.integers(0, 2**32), _methods, st.lists(_values, max_size=3) | _values)
        | st.tuples(st.just(2), _methods, st.lists(_values, max_size=3) | _values)
        | _values,
        max_size=5,
    )
)
def test_random_messages(running: RunningServer, messages: list[Any]) -> None:
    _feed(running, b"".join(msgpack.packb(message) for message in messages))
    _still_serves(running)


@settings(max_examples=150)
@given(st.sampled_from(["patterns", "case", "globs", "window", "limit", "timeout_ms", "word"]), _values)
def test_random_search_fields_are_answered_once(running: RunningServer, field: str, value: Any) -> None:
    with Peer(running.path) as peer:
        error, result = peer.call("search", 1, {"patterns": ["files=1"], field: value})
        if error is None:
            assert result == {"qid": 1}
            _, event, _ = peer.answer(1)
            assert event in ("done", "failed")
        else:
            assert error["code"] == "usage"
        assert peer.call("ping") == (None, "pong")
        assert not peer.pushes


_paths = st.sampled_from(["/", "/x", "", "a", "/\0", "/\udcff", "{root}", "{root}/a", "{root}/../b"])


@settings(max_examples=150)
@given(
    st.fixed_dictionaries({}, optional={"path": _paths | _values, "tick": _values, "text": _values}),
    st.sampled_from(["more", "mode", "path"]),
    _values,
)
def test_random_buffers_are_answered_once(
    running: RunningServer, buffer: dict[str, Any], field: str, value: Any
) -> None:
    buffer = {**buffer, field: value}
    if isinstance(buffer.get("path"), str):
        buffer["path"] = buffer["path"].replace("{root}", running.server.root)
    with Peer(running.path) as peer:
        error, result = peer.call("buffer", buffer)
        assert result is True or error["code"] == "usage"
        error, result = peer.call("buffer_gone", [buffer.get("path")])
        assert result in (0, 1) or error["code"] == "usage"
        error, result = peer.call("changed", [buffer.get("path")])
        assert result is True or error["code"] == "usage"
        assert not peer.pushes


@pytest.mark.parametrize(
    "data",
    [
        b"\xc1",
        b"GET / HTTP/1.1\r\n\r\n",
        msgpack.packb(None),
        msgpack.packb({}),
        msgpack.packb([]),
        msgpack.packb([3, 1, "ping", []]),
        msgpack.packb([0, 1, "ping"]),
        msgpack.packb([0, "one", "ping", []]),
        msgpack.packb([0, None, "ping", []]),
        msgpack.packb([2, "ping"]),
        b"\x91" * 100_000,
        msgpack.packb([0, 1, "ping", []])[:-1] + b"\x81\x90\x00",  # a list as a key
    ],
    ids=repr,
)
def test_what_is_not_msgpack_rpc_is_disconnected(running: RunningServer, data: bytes) -> None:
    with Peer(running.path) as peer:
        peer.socket.sendall(data)
        with pytest.raises(EOFError):
            _drain(peer)
    _still_serves(running)


def test_a_message_that_is_too_large_is_disconnected(running: RunningServer) -> None:
    data = b"\x94\x00\x01\xa6search\xdd\x00\x01\x00\x00\xc6\x01\x00\x00\x00" + bytes(17 << 20)
    with Peer(running.path) as peer, pytest.raises((BrokenPipeError, ConnectionResetError)):
        peer.socket.sendall(data)
    _still_serves(running)


def test_large_requests_within_the_bound_are_served(running: RunningServer) -> None:
    with Peer(running.path) as peer:
        patterns = ["files=1", *(f"word{n}" for n in range(200_000))]
        peer.notify("search", 1, {"patterns": patterns})
        assert peer.answer(1)[1] == "done"


@pytest.mark.parametrize("method", ["", "searches", "__class__", None, 1, [], {}, b"ping"])
def test_an_unknown_method_is_an_error_response(running: RunningServer, method: Any) -> None:
    with Peer(running.path) as peer:
        error, _ = peer.call(method)
        assert error["code"] == "usage"
        assert "method" in error["message"]
        peer.send([2, method, []])
        assert peer.call("ping") == (None, "pong")


@pytest.mark.parametrize("params", [None, 1, "x", {"a": 1}])
def test_params_must_be_a_list(running: RunningServer, params: Any) -> None:
    with Peer(running.path) as peer:
        peer.send([0, 1, "ping", params])
        assert peer.message()[2]["code"] == "usage"


def test_responses_of_a_peer_and_neovims_error_events_are_ignored(running: RunningServer) -> None:
    with Peer(running.path) as peer:
        peer.send([1, 5, None, None])
        peer.notify("nvim_error_event", 0, "oops")
        assert peer.call("ping") == (None, "pong")


def test_messages_may_come_byte_by_byte(running: RunningServer) -> None:
    with Peer(running.path) as peer:
        for byte in msgpack.packb([0, 1, "ping", []]):
            peer.socket.sendall(bytes([byte]))
        assert peer.message() == [1, 1, None, "pong"]


def test_nothing_is_left_behind(running: RunningServer) -> None:
    eventually(lambda: not running.server._connections)
