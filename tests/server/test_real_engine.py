"""The server with the engine behind it: real trees, real git, ripgrep as the oracle."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from indexgrep.client import Client
from indexgrep.errors import PatternError, RootError, ServerError, UsageError
from indexgrep.server import lifecycle
from support.server_harness import Peer, alive, eventually


@pytest.fixture
def repository(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A committed repository of 300 files, and a server of its own."""
    monkeypatch.setenv("INDEXGREP_RUNTIME_DIR", str(short_tmp / "run"))
    monkeypatch.setenv("INDEXGREP_CACHE_DIR", str(short_tmp / "cache"))
    monkeypatch.setenv("INDEXGREP_LOG", str(short_tmp / "log"))
    root = short_tmp / "repository"
    for number in range(300):
        file = root / f"d{number % 7}" / f"file{number}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(
            f"import os\n\nclass Thing{number}:\n"
            f"    def method_{number % 10}(self):\n        return {number}\n"
        )
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "Start"]):
        subprocess.run(["git", *command], cwd=root, check=True)
    yield root
    lifecycle.stop_server(root)


def _ours(client: Client, pattern: str, **options: object) -> list[tuple[str, int, bytes]]:
    search = client.search(pattern, **options)
    found = [(match.path, match.line_number, match.text) for match in search]
    assert search.summary is not None
    assert search.summary.complete
    return found


def _theirs(rg: str, root: Path, *arguments: str) -> list[tuple[str, int, bytes]]:
    run = subprocess.run(
        [rg, "--no-heading", "-n", "--null", "--sort", "path", *arguments, "./"],
        cwd=root,
        capture_output=True,
    )
    found = []
    for line in run.stdout.splitlines(keepends=True):
        path, _, rest = line.partition(b"\0")
        number, _, text = rest.partition(b":")
        found.append((os.fsdecode(path.removeprefix(b"./")), int(number), text))
    return found


PATTERNS = ["Thing1", r"method_\d", r"return [0-9]*7$", "import", r"^\s+def", "no such text", "thing1|THING2"]


def test_answers_are_ripgreps_before_and_after_the_index(repository: Path, rg: str) -> None:
    with Client(repository) as client:
        for pattern in PATTERNS:
            assert _ours(client, pattern) == _theirs(rg, repository, pattern)
        client.index()
        assert client.status()["index"]["state"] == "ready"
        for pattern in PATTERNS:
            assert _ours(client, pattern) == _theirs(rg, repository, pattern)
            assert _ours(client, pattern, case="insensitive") == _theirs(rg, repository, "-i", pattern)
        search = client.search("Thing17")
        assert len(list(search)) == 11
        assert search.summary is not None
        assert search.summary.served_by == "index"
        assert search.summary.candidates < 300


def test_changes_are_seen_at_once(repository: Path) -> None:
    with Client(repository) as client:
        client.index()
        for number in range(20):
            (repository / "d0" / "new.txt").write_text(f"needle number {number}\n")
            assert _ours(client, "needle") == [("d0/new.txt", 1, b"needle number %d\n" % number)]
        (repository / "d0" / "new.txt").unlink()
        assert _ours(client, "needle") == []


def test_a_tree_made_anew_is_searched_anew(repository: Path) -> None:
    """Also where the file system gives the new root the number of the old one."""
    with Client(repository) as client:
        assert len(_ours(client, "class Thing")) == 300
        for attempt in range(3):
            shutil.rmtree(repository)
            repository.mkdir()
            (repository / "a.txt").write_text(f"class Thing of {attempt}\n")
            assert _ours(client, "class Thing") == [("a.txt", 1, b"class Thing of %d\n" % attempt)]


def test_searches_are_answered_while_the_index_is_built(repository: Path) -> None:
    with Client(repository) as client, Client(repository) as other:
        builder = threading.Thread(target=lambda: other.index(force=True))
        builder.start()
        answers = 0
        while builder.is_alive():
            assert len(_ours(client, "class Thing")) == 300
            answers += 1
        builder.join()
        assert answers > 0


def test_errors_of_the_engine_reach_the_client(repository: Path) -> None:
    with Client(repository) as client:
        with pytest.raises(PatternError) as caught:
            list(client.search("a("))
        assert caught.value.pattern == "a("
        with pytest.raises(UsageError):
            list(client.search("x", types=("no such type",)))
        assert "plan" in str(client.explain("Thing1")) or client.explain("Thing1")


def test_the_home_directory_is_refused_by_the_start(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = repository.parent / "homely"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    with pytest.raises(RootError, match="your home directory"):
        lifecycle.ensure_server(home, wait_open=True)
    with Client(home) as client, pytest.raises(RootError, match="your home directory"):
        list(client.search("x"))


def test_a_git_that_is_none_is_told_apart(repository: Path) -> None:
    odd = repository / "d0"
    (odd / ".git").mkdir()
    with pytest.raises(RootError, match="not a repository"):
        lifecycle.ensure_server(odd, wait_open=True)


def test_a_killed_server_leaves_no_worker_and_no_lock(repository: Path) -> None:
    with Client(repository) as client:
        pid = client.server["pid"]
        client.index(wait=False, force=True)
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: not alive(pid))
        assert len(_ours(client, "class Thing")) == 300
        assert client.server["pid"] != pid
        client.index(force=True)
        assert client.status()["index"]["state"] == "ready"


def test_a_cancelled_search_ends_soon(repository: Path) -> None:
    path = lifecycle.ensure_server(repository, wait_open=True)
    with Peer(path) as peer:
        for qid in range(20):
            peer.notify("search", qid, {"patterns": ["import"], "no_index": True, "window": 3})
            start = time.monotonic()
            assert peer.call("cancel", qid)[0] is None
            _, event, _ = peer.answer(qid) if not peer.pushes else _last(peer, qid)
            assert event == "done"
            assert time.monotonic() - start < 2


def _last(peer: Peer, qid: int) -> tuple[int, str, object]:
    while True:
        event, params = peer.push()
        if event != "results" and params[0] == qid:
            return 0, event, params[1]


def test_memory_is_not_kept_by_answers(repository: Path) -> None:
    with Client(repository) as client:
        client.index()
        list(client.search("."))
        before = client.status()["rss_bytes"]
        for _ in range(30):
            list(client.search("."))
        assert client.status()["rss_bytes"] - before < 20_000_000


def test_the_server_is_gone_with_its_last_word(repository: Path) -> None:
    client = Client(repository)
    client.shutdown()
    with pytest.raises(ServerError, match="no indexgrep server"):
        Client(repository, start=False)


def test_unsaved_text_is_found_as_it_is_once_saved(repository: Path, rg: str) -> None:
    """Typed, saved, told or not: at every moment the answer is what ripgrep finds once all is written."""
    (repository / ".gitignore").write_text("*.log\n/build/\n")
    (repository / "d3" / "file10.py").unlink()
    texts = {
        "d0/file0.py": b"class Changed:\n    pass\n",
        "d1/file1.py": b"",
        "d2/added.py": b"class Added:\r\n    pass\r\n",
        "d3/file10.py": b"class Again: pass\n",
        "new/deep/added.py": b"class Deep:\n",
        "new.log": b"class Ignored:\n",
        "build/made.py": b"class Ignored:\n",
        ".hidden.py": b"class Hidden:\n",
    }
    pattern, scopes = "^class [A-Z]", ({}, {"hidden": True}, {"no_ignore": True}, {"globs": ("new*",)})
    flags = ([], ["--hidden"], ["--no-ignore"], ["-gnew*"])
    with Client(repository) as client:
        client.index()
        for tick, (path, text) in enumerate(texts.items()):
            client.set_buffer(repository / path, tick, text)
        unsaved = [_ours(client, pattern, buffers="own", **scope) for scope in scopes]
        before = _ours(client, pattern)
        for path, text in texts.items():
            (repository / path).parent.mkdir(parents=True, exist_ok=True)
            (repository / path).write_bytes(text)
        saved = [_theirs(rg, repository, *flag, pattern) for flag in flags]
        assert unsaved == saved
        assert before != saved[0]
        # The editor has not said yet that it saved; then it has.
        assert [_ours(client, pattern, buffers="own", **scope) for scope in scopes] == saved
        client.changed([repository / path for path in texts])
        client.drop_buffers([repository / path for path in texts])
        for buffers in ("own", "none"):
            assert [_ours(client, pattern, buffers=buffers, **scope) for scope in scopes] == saved
