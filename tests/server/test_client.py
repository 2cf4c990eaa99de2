"""The Python client."""

from __future__ import annotations

import gc
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indexgrep import client as client_module
from indexgrep import runtime
from indexgrep.client import Client, Match
from indexgrep.errors import IndexGrepError, PatternError, RootError, ServerError, UsageError
from indexgrep.request import SearchRequest
from indexgrep.server import lifecycle
from support.server_harness import alive, eventually, fake_engine_environment, running_server


@pytest.fixture
def root(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory that has a server of its own as soon as a client asks."""
    monkeypatch.setenv("INDEXGREP_RUNTIME_DIR", str(short_tmp / "run"))
    monkeypatch.setenv("INDEXGREP_LOG", str(short_tmp / "log"))
    for name, value in fake_engine_environment().items():
        monkeypatch.setenv(name, value)
    path = short_tmp / "root"
    path.mkdir()
    yield path
    lifecycle.stop_server(path)


def test_matches(root: Path) -> None:
    with Client(root) as client:
        search = client.search("files=2 lines=3", fixed_strings=True)
        matches = list(search)
        assert len(matches) == 6
        assert matches[0] == Match("dir/file000000.c", 1, 0, b"x" * 39 + b"\n", ((0, 1),), "disk")
        assert [(match.path, match.line_number) for match in matches[3:]] == [
            ("dir/file000001.c", number) for number in (1, 2, 3)
        ]
        assert search.summary is not None
        assert search.summary.matched_lines == 6
        assert search.summary.complete


def test_a_search_is_an_iterator_that_loses_nothing(root: Path) -> None:
    with Client(root) as client:
        whole = list(client.search("files=50 lines=3", fixed_strings=True))
        search = client.search("files=50 lines=3", fixed_strings=True)
        taken = [next(search), next(search)]
        for match in search:
            taken.append(match)
            if len(taken) == 7:
                break
        taken.append(next(search))
        taken.extend(search)
        assert taken == whole
        assert next(search, None) is None


def test_files(root: Path) -> None:
    with Client(root) as client:
        files = list(client.search(patterns=["files=2 lines=3"]).files())
        assert [(file.path, file.count, len(file.lines)) for file in files] == [
            ("dir/file000000.c", 3, 3),
            ("dir/file000001.c", 3, 3),
        ]
        assert files[0].lines[0].spans == [(0, 1)]
        assert files[0].lines[0].match


def test_a_request_may_be_given_whole(root: Path) -> None:
    with Client(root) as client:
        assert len(list(client.search(SearchRequest(("files=3",))))) == 3
        with pytest.raises(UsageError, match="no room"):
            client.search(SearchRequest(("x",)), word=True)


def test_options_are_checked_before_anything_is_sent(root: Path) -> None:
    with Client(root) as client:
        with pytest.raises(UsageError, match="'colour'"):
            client.search("x", colour=True)
        with pytest.raises(UsageError, match="'word'"):
            client.search("x", word="yes")
        with pytest.raises(UsageError, match="pattern"):
            client.search()


def test_errors_of_the_server_are_raised_as_what_they_are(root: Path) -> None:
    with Client(root) as client:
        with pytest.raises(PatternError, match="unclosed group") as caught:
            list(client.search("("))
        assert (caught.value.start, caught.value.end) == (0, 1)
        with pytest.raises(IndexGrepError, match="internal fault") as fault:
            list(client.search("boom"))
        assert fault.value.code == "internal"
        assert len(list(client.search("files=1"))) == 1


def test_a_refused_root(root: Path) -> None:
    (root / "refuse").touch()
    with Client(root) as client, pytest.raises(RootError, match="is refused"):
        list(client.search("x"))


def test_a_missing_root(root: Path) -> None:
    with pytest.raises(RootError, match="No such file"):
        Client(root / "nowhere")


@pytest.mark.parametrize("become", ["a directory of another tree", "a file"])
def test_a_root_that_is_none_any_more(root: Path, become: str) -> None:
    """Its old server is gone, and a new one would be that of the tree above, which nobody has asked for."""
    inside = root / "inside"
    (inside / ".git").mkdir(parents=True)
    with Client(inside) as client:
        lifecycle.stop_server(inside)
        (inside / ".git").rmdir()
        (root / ".git").mkdir()
        if become == "a file":
            inside.rmdir()
            inside.touch()
        with pytest.raises(RootError, match=f"not the top of a tree any more: it belongs to {root}"):
            list(client.search("files=1"))
    assert lifecycle.server_status(root) is None


def test_without_start_there_must_be_a_server(root: Path) -> None:
    with pytest.raises(ServerError, match="no indexgrep server") as caught:
        Client(root, start=False)
    assert "server start" in caught.value.hint
    lifecycle.ensure_server(root)
    with Client(root, start=False) as client:
        assert client.status()["clients"] == 1


def test_searches_interleave(root: Path) -> None:
    with Client(root) as client:
        first = iter(client.search("files=30 delay=0.001"))
        second = iter(client.search("files=20 lines=2"))
        third = client.search("files=10")
        pairs = [(next(first), next(second)) for _ in range(10)]
        assert len(list(third)) == 10
        assert len(pairs) + len(list(first)) == 30
        assert len(pairs) + len(list(second)) == 40


def test_closing_early_cancels_on_the_server_and_keeps_the_connection(root: Path) -> None:
    with Client(root) as client:
        with client.search("files=1000000 lines=10") as search:
            for _ in search:
                break
        eventually(lambda: client.status()["queries"] == 0)
        assert list(search) == []
        assert search.summary is None
        assert len(list(client.search("files=5"))) == 5


def test_dropping_a_search_cancels_it(root: Path) -> None:
    with Client(root) as client:
        for match in client.search("files=1000000 lines=10"):
            assert match.line_number == 1
            break
        gc.collect()
        eventually(lambda: client.status()["queries"] == 0)


def test_an_unread_search_holds_a_window_and_no_more(root: Path) -> None:
    with Client(root) as client:
        unread = client.search("files=100000 lines=100")
        assert len(list(client.search("files=1000 lines=100"))) == 100_000
        held = sum(len(file["lines"]) for batch in unread._files for file in batch)
        assert 0 < held <= client_module.WINDOW_LINES + 100
        unread.close()


def test_explain_and_status(root: Path) -> None:
    with Client(root) as client:
        assert client.explain("x") == {"patterns": ["x"]}
        assert client.status()["index"] == {"state": "ready"}


def test_index_with_progress(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Client(root) as client:
        phases: list[str] = []
        assert not client.index(lambda state: phases.append(state["phase"]))
        assert not phases
        assert client.index(lambda state: phases.append(state["phase"]), force=True)
        assert phases == ["scan", "extract", "merge", "ready"]


def test_index_is_not_taken_in_by_the_end_of_an_earlier_build(root: Path) -> None:
    """Its last words wait unread in the socket of whoever said hello."""
    with Client(root) as client, Client(root) as other:
        client.status()
        other.index(force=True)
        assert client.index(force=True)
        assert client.status()["index"]["state"] == "ready"


def test_index_waits_for_a_build_that_runs_already(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_STATE", "missing")
    with Client(root) as client:
        client.index()
        assert client.status()["index"]["state"] == "ready"


def test_shutdown(root: Path) -> None:
    client = Client(root)
    pid = client.server["pid"]
    client.shutdown()
    eventually(lambda: not alive(pid))
    with pytest.raises(ServerError, match="closed"):
        client.search("x")


def test_a_closed_client_says_so(root: Path) -> None:
    client = Client(root)
    search = client.search("files=1000000")
    next(iter(search))
    client.close()
    client.close()
    with pytest.raises(ServerError):
        list(search)
    with pytest.raises(ServerError, match="closed"):
        client.status()


def test_a_server_killed_in_the_middle_is_an_error_and_no_short_answer(root: Path) -> None:
    with Client(root) as client:
        search = client.search("files=1000000 lines=100")
        matches = iter(search)
        next(matches)
        os.kill(client.server["pid"], signal.SIGKILL)
        with pytest.raises(ServerError, match="not complete"):
            list(matches)
        assert search.summary is None
        assert len(list(client.search("files=3"))) == 3  # with a new server


def test_a_server_killed_before_anything_was_delivered_is_replaced(root: Path) -> None:
    with Client(root) as client:
        old = client.server["pid"]
        search = client.search("files=3 delay=0.3")
        other = client.search("files=2 delay=0.3")
        os.kill(old, signal.SIGKILL)
        assert len(list(search)) == 3
        assert len(list(other)) == 2
        assert client.server["pid"] != old


def test_a_server_killed_between_searches_is_replaced(root: Path) -> None:
    with Client(root) as client:
        for call in (lambda: list(client.search("files=3")), client.status, lambda: client.explain("x")):
            old = client.server["pid"]
            os.kill(old, signal.SIGKILL)
            eventually(lambda old=old: not alive(old))
            assert call()
            assert client.server["pid"] != old


def test_a_server_that_dies_again_is_given_up(root: Path) -> None:
    with Client(root) as client:
        search = client.search("files=3 delay=0.5")
        stop = threading.Event()

        def killer() -> None:
            killed: set[int] = set()
            while not stop.wait(0.02) and len(killed) < 2:
                try:
                    status = lifecycle.server_status(root, 1.0)
                except ServerError:
                    continue
                if status is not None and status["queries"] and status["pid"] not in killed:
                    killed.add(status["pid"])
                    os.kill(status["pid"], signal.SIGKILL)

        thread = threading.Thread(target=killer)
        thread.start()
        try:
            with pytest.raises(ServerError, match="went away"):
                list(search)
        finally:
            stop.set()
            thread.join()


def test_a_server_that_goes_in_order_is_replaced_too(root: Path) -> None:
    with Client(root) as client:
        old = client.server["pid"]
        search = client.search("files=3 delay=0.3")
        lifecycle.stop_server(root)
        assert len(list(search)) == 3
        assert client.server["pid"] != old


def test_a_server_that_hangs_is_reported(root: Path) -> None:
    with Client(root, timeout=0.5) as client:
        pid = client.server["pid"]
        search = client.search("files=3 delay=0.2")
        os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(ServerError, match="does not answer"):
                list(search)
        finally:
            os.kill(pid, signal.SIGCONT)


def test_a_slow_search_is_not_taken_for_a_dead_server(root: Path) -> None:
    with Client(root, timeout=0.2) as client:
        assert len(list(client.search("files=2 delay=0.7"))) == 2


def test_another_version_is_replaced(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second version is made up: a client that believes itself to be newer than the server."""
    with Client(root) as client:
        old = client.server["pid"]
    site = root.parent / "newer"
    site.mkdir()
    (site / "sitecustomize.py").write_text(
        f"exec(open({str(Path(__file__).parent / 'fake_engine' / 'sitecustomize.py')!r}).read(), "
        f"{{'__file__': {str(Path(__file__).parent / 'fake_engine' / 'sitecustomize.py')!r}}})\n"
        "import indexgrep; indexgrep.__version__ = '99.0'\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)
    monkeypatch.setattr(client_module, "__version__", "99.0")
    monkeypatch.setattr(lifecycle, "__version__", "99.0")
    with Client(root) as client:
        assert client.server["version"] == "99.0"
        assert client.server["pid"] != old
        assert len(list(client.search("files=3"))) == 3


def test_a_home_directory_may_be_written_short(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(root.parent))
    with Client("~/root") as client:
        assert client.root == str(root)


def test_twenty_clients_at_once(root: Path) -> None:
    lifecycle.ensure_server(root)
    counts: dict[int, int] = {}

    def one(number: int) -> None:
        with Client(root) as client:
            counts[number] = sum(len(list(client.search(f"files={number} lines=5"))) for _ in range(5))

    threads = [threading.Thread(target=one, args=(number,)) for number in range(1, 21)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert counts == {number: number * 25 for number in range(1, 21)}


def test_a_large_answer(root: Path) -> None:
    with Client(root) as client:
        assert sum(1 for _ in client.search("files=5000 lines=5 batch=100")) == 25_000


def test_a_server_without_its_socket_directory(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = root.parent / "shared"
    shared.mkdir(mode=0o755)
    shared.chmod(0o755)
    monkeypatch.setenv("INDEXGREP_RUNTIME_DIR", str(shared))
    with pytest.raises(IndexGrepError, match="not private"):
        Client(root)
    shared.chmod(0o700)


def test_in_one_process_with_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_server() as running:

        def path(_: Any) -> Path:
            return running.path

        monkeypatch.setattr(runtime, "socket_path", path)
        with Client(tmp_path) as client:
            assert len(list(client.search("files=5"))) == 5
        eventually(lambda: not running.server._connections)
