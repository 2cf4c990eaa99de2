"""A server in use renews an index that the tree has outgrown, and does not insist where that fails."""

from __future__ import annotations

import time
from typing import Any

import pytest

from indexgrep.errors import IndexFault
from support.fake_session import FakeSession
from support.server_harness import Peer, eventually, running_server


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexgrep.server.service._WATCH_S", 0.02)
    monkeypatch.setattr("indexgrep.server.service._RENEW_S", 0.05)


def test_a_stale_index_is_renewed_once_the_server_is_used() -> None:
    class Counting(FakeSession):
        looks = 0

        def status(self) -> dict[str, Any]:
            answer = super().status()
            self.looks += 1
            return answer

    session = Counting()
    with running_server(session) as running:
        eventually(lambda: session.looks == 1)  # the look at the index when the session is opened
        session.state = "stale"
        time.sleep(0.2)
        assert session.builds == 0  # nobody asked anything
        with Peer(running.path) as peer:
            assert peer.call("ping") == (None, "pong")
            eventually(lambda: session.builds == 1)


def test_a_build_that_fails_is_not_tried_again_and_again() -> None:
    class Failing(FakeSession):
        def build(self, *arguments: object) -> None:  # type: ignore[override]
            self.builds += 1
            raise IndexFault("cannot write the index")

    session = Failing(state="absent")
    with running_server(session) as running:
        eventually(lambda: session.builds == 1)
        with Peer(running.path) as peer:
            for _ in range(10):
                assert peer.call("ping") == (None, "pong")
                time.sleep(0.03)
        assert session.builds == 1


def test_a_build_that_failed_is_tried_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that was killed, a cache that was removed: nothing that need last."""
    monkeypatch.setattr("indexgrep.server.service._RETRY_S", (0.1,))

    class FailingOnce(FakeSession):
        def build(self, *arguments: object) -> None:  # type: ignore[override]
            self.builds += 1
            if self.builds == 1:
                raise IndexFault("a build worker ended by SIGKILL")
            self.state = "ready"

    session = FailingOnce(state="absent")
    with running_server(session) as running:
        eventually(lambda: session.builds == 1)
        with Peer(running.path) as peer:

            def asked_again() -> bool:
                assert peer.call("ping") == (None, "pong")
                return session.builds == 2

            eventually(asked_again)
