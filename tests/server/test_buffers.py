"""Unsaved buffers over the protocol: ``buffer``, ``buffer_gone``, ``changed``, and what searches see."""

from __future__ import annotations

import gc
import logging
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indexgrep.client import Client
from indexgrep.errors import ServerError, UsageError
from indexgrep.overlay.buffers import Buffer
from indexgrep.server import lifecycle, protocol
from support.fake_session import FakeSession
from support.server_harness import (
    Peer,
    RunningServer,
    alive,
    eventually,
    fake_engine_environment,
    running_server,
)

MIB = 1 << 20


@pytest.fixture
def running() -> Iterator[RunningServer]:
    with running_server() as server:
        yield server


def unsaved(peer: Peer, buffers: str = "own") -> dict[str, bytes]:
    """The buffers that a search sees."""
    files, event, _ = peer.search(1, "unsaved", buffers=buffers)
    assert event == "done"
    assert all(file["source"] == "buffer" for file in files)
    return {file["path"]: b"".join(line[2] for line in file["lines"]) for file in files}


def seen(running: RunningServer, at: int = -1) -> dict[bytes, bytes]:
    """The texts that a search was given."""
    buffers = running.session.searches[at].buffers
    return {} if buffers is None else {path: buffer.text for path, buffer in buffers.items()}


def test_whose_buffers_count_is_said_in_the_request(running: RunningServer) -> None:
    with Peer(running.path) as peer, Peer(running.path) as other:
        root = running.server.root
        assert peer.call("buffer", {"path": f"{root}/a", "tick": 1, "text": b"mine"}) == (None, True)
        assert peer.call("buffer", {"path": f"{root}/b", "tick": 1, "text": b"mine"}) == (None, True)
        assert other.call("buffer", {"path": f"{root}/a", "tick": 1, "text": b"theirs"}) == (None, True)
        assert unsaved(peer, "none") == {}
        assert running.session.searches[-1].buffers is None
        assert unsaved(peer, "own") == {"a": b"mine", "b": b"mine"}
        assert unsaved(peer, "all") == unsaved(other, "all") == {"a": b"theirs", "b": b"mine"}
        assert unsaved(other, "own") == {"a": b"theirs"}
        peer.notify("search", 1, {"patterns": ["unsaved"]})
        assert peer.answer(1)[0] == []
        assert peer.call("explain", {"patterns": ["x"], "buffers": "all"})[1]["buffers"] == 2
        assert peer.call("status")[1]["buffers"] == {"count": 3, "clients": 2, "bytes": 14}
        assert peer.call("buffer_gone", [f"{root}/a", f"{root}/none"]) == (None, 1)
        assert unsaved(peer) == {"b": b"mine"}
        error, _ = peer.call("search", 1, {"patterns": ["x"], "buffers": "mine"})
        assert "unknown buffers 'mine'" in error["message"]


def test_messages_take_effect_in_their_order(running: RunningServer) -> None:
    """Nothing is waited for between them."""
    with Peer(running.path) as peer:
        path = f"{running.server.root}/a.c"
        for tick in range(60):
            peer.notify("buffer", {"path": path, "tick": tick, "text": b"tick %d" % tick})
            peer.notify("search", tick, {"patterns": ["unsaved"], "buffers": "own"})
            if tick % 3 == 2:
                peer.notify("buffer_gone", [path])
                peer.notify("search", 1000 + tick, {"patterns": ["unsaved"], "buffers": "own"})
        found: dict[int, list[bytes]] = {}
        ended = 0
        while ended < 80:
            event, params = peer.push()
            if event == "results":
                found[params[0]] = [line[2] for file in params[2] for line in file["lines"]]
            ended += event == "done"
        assert found == {tick: [b"tick %d" % tick] for tick in range(60)}


def test_a_query_sees_the_buffers_of_the_moment_it_was_accepted() -> None:
    """Not of that when it starts: the session opens later, and the buffer is another by then."""
    opened = threading.Event()

    def open_session() -> FakeSession:
        opened.wait(10)
        return FakeSession()

    with running_server(open_session) as running, Peer(running.path) as peer, Peer(running.path) as other:
        path = f"{running.server.root}/a.c"
        assert peer.call("buffer", {"path": path, "tick": 1, "text": b"then"}) == (None, True)
        assert peer.call("search", 1, {"patterns": ["unsaved"], "buffers": "own"}) == (None, {"qid": 1})
        assert other.call("search", 1, {"patterns": ["unsaved"], "buffers": "all"}) == (None, {"qid": 1})
        assert peer.call("buffer", {"path": path, "tick": 2, "text": b"later"}) == (None, True)
        peer.notify("buffer_gone", [path])
        opened.set()
        for one in (peer, other):
            files, event, _ = one.answer(1)
            assert event == "done"
            assert [line[2] for file in files for line in file["lines"]] == [b"then"]


def test_changes_are_told_to_the_session_also_before_it_is_open() -> None:
    session, opened = FakeSession(), threading.Event()

    def open_session() -> FakeSession:
        opened.wait(10)
        return session

    with running_server(open_session) as running, Peer(running.path) as peer:
        root = running.server.root
        assert peer.call("changed", [f"{root}/a.c", f"{root}/d//./b.c", "/elsewhere"]) == (None, True)
        assert session.changes == []
        opened.set()
        eventually(lambda: session.changes == [b"a.c", b"d/b.c"])
        peer.notify("changed", [f"{root}/\udcff"])
        eventually(lambda: session.changes[2:] == [b"\xff"])
        error, _ = peer.call("changed", ["a.c"])
        assert "'a.c' is no absolute path" in error["message"]
        assert peer.call("changed", {}) == peer.call("changed", []) == (None, True)


@pytest.mark.parametrize(
    ("buffer", "says"),
    [
        ({}, "path"),
        ([], "path"),
        (1, "map"),
        ({"path": 1}, "path"),
        ({"path": b"{root}/a"}, "path"),
        ({"path": "{root}/a", "tick": 2}, "text: bytes"),
        ({"path": "{root}/a", "tick": 2, "text": None}, "text: bytes"),
        ({"path": "{root}/a", "tick": 2, "text": ["secret"]}, "text: bytes"),
        ({"path": "{root}/a", "tick": "2", "text": b"secret"}, "tick: integer"),
        ({"path": "{root}/a", "tick": True, "text": b"secret"}, "tick: integer"),
        ({"path": "{root}/a", "tick": 2, "text": b"secret", "more": 1}, "more?: boolean"),
        ({"path": "{root}/a", "tick": 2, "text": b"secret", "mode": 1}, "map"),
        ({"path": "a", "tick": 2, "text": b"secret"}, "'a' is no absolute path"),
        ({"path": "{root}/a\0b", "tick": 2, "text": b"secret"}, "is no absolute path"),
        ({"path": "/a", "tick": 2, "text": b"secret"}, "'/a' does not lie in"),
        ({"path": "{root}", "tick": 2, "text": b"secret"}, "does not lie in"),
        ({"path": "{root}/../a", "tick": 2, "text": b"secret"}, "does not lie in"),
    ],
)
def test_a_buffer_that_is_not_understood_is_an_error_that_says_why(
    running: RunningServer, caplog: pytest.LogCaptureFixture, buffer: Any, says: str
) -> None:
    caplog.set_level(logging.DEBUG)
    path = f"{running.server.root}/a"
    if isinstance(buffer, dict) and isinstance(buffer.get("path"), str):
        buffer = {**buffer, "path": buffer["path"].replace("{root}", running.server.root)}
    with Peer(running.path) as peer:
        peer.notify("buffer", {"path": path, "tick": 1, "text": b"before"})
        error, _ = peer.call("buffer", buffer)
        assert error["code"] == "usage"
        assert says in error["message"]
        assert "secret" not in str(error)
        stale = not (isinstance(buffer, dict) and buffer.get("path") == path and "mode" not in buffer)
        assert unsaved(peer) == ({"a": b"before"} if stale else {})
        peer.notify("buffer", buffer)
        assert peer.call("ping") == (None, "pong")
    assert "secret" not in caplog.text


def test_a_buffer_in_parts_with_a_str_for_a_text_and_an_odd_path(running: RunningServer) -> None:
    """As Neovim sends it, which has no other strings."""
    with Peer(running.path) as peer:
        path = f"{running.server.root}/odd\n\udcff/\udce9.c"
        text = "one\n\udcff\udcfe\0 ünï\r\n"
        peer.notify("buffer", {"path": path, "tick": 1, "text": text, "more": True})
        peer.notify("buffer", {"path": path, "tick": 1, "text": b"two\n", "more": True})
        assert unsaved(peer) == {}
        peer.notify("buffer", {"path": path, "tick": 1, "text": ""})
        assert unsaved(peer) == {"odd\n\udcff/\udce9.c": b"one\n" + b"\xff\xfe\0 \xc3\xbcn\xc3\xaf\r\ntwo\n"}
        assert peer.call("buffer_gone", [path]) == (None, 1)


def test_the_limits_of_one_buffer_and_of_all(
    running: RunningServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    part = b"secret! " * (MIB // 8)

    def send(peer: Peer, name: str, tick: int, size: int) -> Any:
        value = {"path": f"{running.server.root}/{name}", "tick": tick, "text": part, "more": True}
        for _ in range(size // MIB - 1):
            peer.notify("buffer", value)
        return peer.call("buffer", {**value, "more": False})[0]

    def names(peer: Peer) -> list[str]:
        peer.search(1, "files=1", buffers="own")
        return sorted(map(os.fsdecode, seen(running)))

    with Peer(running.path) as peer:
        assert send(peer, "a", 1, 16 * MIB) is None
        assert len(seen(running)[b"a"]) == 16 * MIB if names(peer) else False
        error = send(peer, "a", 2, 18 * MIB)
        assert f"'{running.server.root}/a' is larger than 16 MiB" in error["message"]
        assert "on disk" in error["hint"]
        assert names(peer) == []
        for name in "abcd":
            assert send(peer, name, 3, 16 * MIB) is None
        error = send(peer, "e", 1, MIB)
        assert "does not fit: the buffers of a client may have 64 MiB together" in error["message"]
        assert names(peer) == ["a", "b", "c", "d"]
        with Peer(running.path) as other:
            assert send(other, "e", 1, MIB) is None
        assert peer.call("status")[1]["buffers"]["bytes"] == 64 * MIB
        peer.notify("buffer_gone", [f"{running.server.root}/b"])
        assert send(peer, "e", 1, MIB) is None
        assert names(peer) == ["a", "c", "d", "e"]
    running.session.searches.clear()
    assert "secret" not in caplog.text


def test_a_message_may_be_as_large_as_the_limit_says(running: RunningServer) -> None:
    """Also when others come before it and after it in the same reads."""
    with Peer(running.path) as peer:
        message = [2, "buffer", [{"path": f"{running.server.root}/a", "tick": 1, "text": b""}]]
        pack = protocol.packer().pack
        message[2][0]["text"] = b"x" * (protocol.MAX_REQUEST_BYTES - len(pack(message)) - 3)
        whole = pack(message)
        assert len(whole) == protocol.MAX_REQUEST_BYTES
        ping, search = pack([0, 1, "ping", []]), pack([2, "search", [1, {"patterns": ["x" * 1000]}]])
        peer.socket.sendall(ping + whole + search * 400 + pack([0, 2, "ping", []]))
        assert peer.message() == [1, 1, None, "pong"]
        while (message := peer.message())[0] != 1:
            pass
        assert message == [1, 2, None, "pong"]
        assert peer.call("status")[1]["buffers"]["count"] == 1


def held() -> int:
    """How many buffers there are in this process."""
    gc.collect()
    return sum(isinstance(thing, Buffer) for thing in gc.get_objects())


def test_a_client_that_leaves_takes_its_buffers_along(running: RunningServer) -> None:
    before = held()
    with Peer(running.path) as stays:
        with Peer(running.path) as leaves:
            for name in "abc":
                value = {"path": f"{running.server.root}/{name}", "tick": 1, "text": b"text"}
                assert leaves.call("buffer", value) == (None, True)
            leaves.notify("buffer", {**value, "tick": 2, "more": True})
            assert sorted(unsaved(stays, "all")) == ["a", "b", "c"]
            # A query that holds them is under way when its client goes.
            leaves.notify("search", 7, {"patterns": ["files=1000 delay=0.1"], "buffers": "own"})
            eventually(lambda: len(running.session.searches) == 2)
            assert held() == before + 3
        eventually(lambda: unsaved(stays, "all") == {})
        assert stays.call("status")[1]["buffers"] == {"count": 0, "clients": 0, "bytes": 0}
        eventually(lambda: running.running_queries() == 0)
        running.session.searches.clear()
        eventually(lambda: held() == before)


# The Python client


@pytest.fixture
def root(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory that has a server process of its own as soon as a client asks."""
    monkeypatch.setenv("INDEXGREP_RUNTIME_DIR", str(short_tmp / "run"))
    monkeypatch.setenv("INDEXGREP_LOG", str(short_tmp / "log"))
    for name, value in fake_engine_environment().items():
        monkeypatch.setenv(name, value)
    path = short_tmp / "root"
    path.mkdir()
    yield path
    lifecycle.stop_server(path)


def matched(client: Client, buffers: str = "own") -> dict[str, bytes]:
    found = {}
    for match in client.search("unsaved", buffers=buffers):
        assert match.source == "buffer"
        found[match.path] = match.text
    return found


def test_the_python_client(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    large = bytes(range(256)) * (5 * MIB // 256) + b"end"
    with Client(root) as client, Client(root) as other:
        client.set_buffer(root / "a.c", 1, b"one")
        monkeypatch.chdir(root)
        client.set_buffer("b.c", 7, large)
        client.set_buffer("b.c", 6, b"older")
        other.set_buffer("c.c", 1, b"three")
        assert matched(client) == {"a.c": b"one", "b.c": large}
        assert matched(other, "all") == {"a.c": b"one", "b.c": large, "c.c": b"three"}
        assert matched(client, "none") == {}
        client.drop_buffers(["a.c", "nothing"])
        assert matched(client) == {"b.c": large}
        client.changed(["a.c", root / "b.c"])
        with pytest.raises(UsageError, match="is larger than 16 MiB"):
            client.set_buffer("b.c", 8, bytes(17 * MIB))
        assert matched(client) == {}
        with pytest.raises(UsageError, match="does not lie in"):
            client.set_buffer("../b.c", 8, b"")
        client.set_buffer("b.c", 8, b"fits")
        assert matched(client) == {"b.c": b"fits"}
        assert client.status()["buffers"] == {"count": 2, "clients": 2, "bytes": 9}
    with Client(root) as client:
        eventually(lambda: matched(client, "all") == {})


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_a_new_server_is_given_the_buffers_again(root: Path, how: str) -> None:
    with Client(root) as client:
        client.set_buffer(root / "a.c", 1, b"one")
        client.set_buffer(root / "b.c", 1, b"x" * (3 * MIB))
        client.set_buffer(root / "gone.c", 1, b"gone")
        client.drop_buffers([root / "gone.c"])
        pid = client.server["pid"]
        if how == "killed":
            os.kill(pid, signal.SIGKILL)
        else:
            lifecycle.stop_server(root)
        eventually(lambda: not alive(pid))
        assert matched(client) == {"a.c": b"one", "b.c": b"x" * (3 * MIB)}
        assert client.server["pid"] != pid
        os.kill(client.server["pid"], signal.SIGKILL)
        client.set_buffer(root / "c.c", 1, b"three")  # the loss is met by a buffer, and by no search
        assert sorted(matched(client)) == ["a.c", "b.c", "c.c"]


def test_without_a_server_a_buffer_is_an_error_and_not_kept(root: Path) -> None:
    with Client(root) as client:
        client.set_buffer(root / "a.c", 1, b"one")
        client._start = False
        lifecycle.stop_server(root)
        with pytest.raises(ServerError):
            client.set_buffer(root / "a.c", 2, b"two")
        client._start = True
        assert matched(client) == {}
