"""Unsaved buffers over the protocol: ``buffer``, ``buffer_gone``, ``changed``, and what searches see."""

from __future__ import annotations

from support.fake_session import FakeSession
from support.server_harness import Peer, RunningServer, eventually, running_server


def seen(running: RunningServer, at: int = -1) -> dict[bytes, bytes]:
    """The texts that a search was given."""
    buffers = running.session.searches[at].buffers
    return {} if buffers is None else {path: buffer.text for path, buffer in buffers.items()}


def test_a_search_sees_the_buffers_that_were_sent_before_it() -> None:
    with running_server() as running, Peer(running.path) as peer:
        for tick in range(3):
            text = b"tick %d" % tick
            peer.notify("buffer", {"path": f"{running.server.root}/a.c", "tick": tick, "text": text})
            peer.notify("search", tick, {"patterns": ["files=1"], "buffers": "own"})
        for tick in range(3):
            peer.answer(tick)
        texts = {search.buffers[b"a.c"].text for search in running.session.searches}
        assert texts == {b"tick 0", b"tick 1", b"tick 2"}


def test_whose_buffers_count_is_said_in_the_request() -> None:
    with running_server() as running, Peer(running.path) as peer, Peer(running.path) as other:
        root = running.server.root
        assert peer.call("buffer", {"path": f"{root}/a", "tick": 1, "text": b"mine"}) == (None, True)
        assert peer.call("buffer", {"path": f"{root}/b", "tick": 1, "text": b"mine"}) == (None, True)
        assert other.call("buffer", {"path": f"{root}/a", "tick": 1, "text": b"theirs"}) == (None, True)
        for buffers, texts in (
            ("none", {}),
            ("own", {b"a": b"mine", b"b": b"mine"}),
            ("all", {b"a": b"theirs", b"b": b"mine"}),
        ):
            peer.search(1, "files=1", buffers=buffers)
            assert seen(running) == texts
        assert peer.call("buffer_gone", [f"{root}/a", f"{root}/none"]) == (None, 1)
        peer.search(1, "files=1", buffers="own")
        assert seen(running) == {b"b": b"mine"}
        assert peer.call("status")[1]["buffers"] == {"count": 2, "clients": 2, "bytes": 10}


def test_changes_are_told_to_the_session() -> None:
    session = FakeSession()
    with running_server(session) as running, Peer(running.path) as peer:
        root = running.server.root
        assert peer.call("changed", [f"{root}/a.c", f"{root}/d//./b.c", "/elsewhere"]) == (None, True)
        eventually(lambda: session.changes == [b"a.c", b"d/b.c"])
