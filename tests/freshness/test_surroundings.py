"""Rows of the table of freshness about the server's surroundings: no index yet, no watch, another clock, and
what happened while no server ran."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cli.conftest import run_main
from freshness.conftest import FILES, SWEEPING, Make, make_tree, word
from indexgrep.index.store import Store
from support.served import Served, git
from support.server_harness import alive, eventually

PLACES = 12


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_tree(tmp_path / "tree", PLACES)
    return tmp_path / "tree"


# Zero results while the index is cold or being built


@contextlib.contextmanager
def another_builds(root: Path) -> Iterator[None]:
    """While the block runs, another process seems to build in the same repository, and takes its time."""
    with Store(root / ".git").lock():
        yield


def cold(tree: Served) -> None:
    """Right answers without an index, marked as such, whether there is something to find or not."""
    tree.expect({word("p03", "code.c"): ["p03/code.c"], "nowhere_to_be_found": []})
    assert (tree.summary.served_by, tree.summary.scan_reason) == ("scan", "there is no index yet")
    tree.write("fresh.c", "int written_when_cold;\n")
    tree.expect({"written_when_cold": ["fresh.c"], "shared_word": _all_files()})
    (tree.root / "fresh.c").unlink()
    tree.expect({"written_when_cold": []})
    assert tree.summary.served_by == "scan"
    with contextlib.chdir(tree.root):
        printed = run_main("--debug", "-l", "shared_word")
    assert b"served_by: scan" in printed.err
    assert b"there is no index yet" in printed.err


def _all_files() -> list[str]:
    return [f"p{number:02}/{file}" for number in range(PLACES) for file in FILES]


def test_cold_index(root: Path, served: Make) -> None:
    with another_builds(root):
        tree = served()
        cold(tree)
        assert tree.status()["index"]["state"] == "building"
        with contextlib.chdir(root):
            assert re.search(rb"^index: +(absent|building)", run_main("status").out, re.MULTILINE)
    # The server has waited for its turn.
    eventually(lambda: tree.status()["index"]["state"] == "ready", 60)
    tree.expect({word("p03", "code.c"): ["p03/code.c"], "nowhere_to_be_found": []})
    assert (tree.summary.served_by, tree.summary.scan_reason) == ("index", "")
    assert tree.summary.candidates < len(_all_files())


def test_cold_index_under_a_sweep(root: Path, served: Make) -> None:
    with another_builds(root):
        cold(served(**SWEEPING))


def test_answers_while_the_index_is_built_are_whole(root: Path, served: Make) -> None:
    """From before the build until it is used, while a file changes: never a file too few or too many."""
    tree = served()
    number = 0
    while tree.status()["index"]["state"] != "ready":
        number += 1
        tree.write("fresh.c", f"int written_meanwhile_{number:04};\n")
        assert tree.paths(f"written_meanwhile_{number:04}") == ["fresh.c"]
        assert tree.paths(f"written_meanwhile_{number - 1:04}") == []
        assert tree.paths("nowhere_to_be_found") == []
        assert len(tree.paths("shared_word")) == len(_all_files())
    assert number > 0
    tree.expect({f"written_meanwhile_{number:04}": ["fresh.c"], "shared_word": _all_files()})


# Watch limit reached, network file system


def changes(tree: Served) -> None:
    """The kinds of change that a watch tells of, and that a sweep must find by itself."""
    code = tree.root / "p01" / "code.c"
    before = code.stat()
    code.write_text(code.read_text().replace("shared_word", "SHARED_WORD"))
    os.utime(code, ns=(before.st_atime_ns, before.st_mtime_ns))
    (tree.root / "p02" / "code.c").unlink()
    (tree.root / "p03").rename(tree.root / "moved")
    tree.write("p04/new/deep/file.c", "int a_new_file;\n")
    tree.write("p05/.gitignore", "*.c\n")
    tree.expect(
        {
            "SHARED_WORD": ["p01/code.c"],
            word("p02", "code.c"): [],
            word("p03", "sub/deep/leaf.py"): ["moved/sub/deep/leaf.py"],
            "a_new_file": ["p04/new/deep/file.c"],
            word("p05", "code.c"): [],
            word("p05", "notes.txt"): ["p05/notes.txt"],
            word("p06", "code.c"): ["p06/code.c"],
        }
    )


def swept(tree: Served, reason: str) -> None:
    """Every answer says that it was by a sweep, and ``status`` says why."""
    assert tree.summary.freshness == "sweep"
    status = tree.status()
    assert status["freshness"] == "sweep"
    assert reason in status["freshness_reason"]
    with contextlib.chdir(tree.root):
        printed = run_main("status").out.decode()
        debug = run_main("--debug", "-l", "shared_word").err.decode()
    assert re.search(rf"^.*sweep.*{re.escape(reason)}", printed, re.MULTILINE), printed
    assert "freshness: sweep" in debug


@pytest.mark.parametrize(
    ("seam", "reason"),
    [({"TEST_WATCHES": 7}, "max_user_watches"), ({"TEST_REMOTE": "nfs4"}, "nfs4")],
    ids=["watch-limit", "network-file-system"],
)
def test_falls_back_to_the_sweep_and_says_so(
    root: Path, served: Make, seam: dict[str, object], reason: str
) -> None:
    tree = served(**seam)
    tree.index()
    tree.expect({word("p03", "code.c"): ["p03/code.c"]})
    assert tree.summary.served_by == "index"
    assert tree.summary.candidates < len(_all_files())
    swept(tree, reason)
    changes(tree)
    swept(tree, reason)


def test_watch_limit_reached_later(root: Path, served: Make) -> None:
    """A watch runs until a directory comes that there is no watch for; from then on it is the sweep."""
    directories = 1 + sum(1 for path in root.glob("p*/**") if path.is_dir())
    tree = served(TEST_WATCHES=directories + 3)
    tree.index()
    for number in range(3):
        tree.write(f"p06/more/{'d/' * number}file.c", f"int in_a_new_directory_{number};\n")
        tree.expect({f"in_a_new_directory_{number}": [f"p06/more/{'d/' * number}file.c"]})
    assert tree.summary.freshness == "watch"
    tree.write("p06/one/too/many/file.c", "int one_too_many;\n")
    tree.expect({"one_too_many": ["p06/one/too/many/file.c"]})
    swept(tree, "max_user_watches")
    changes(tree)
    swept(tree, "max_user_watches")


# Clock set back


@pytest.mark.parametrize("seam", [{}, SWEEPING], ids=["watch", "sweep"])
def test_clock_set_back(root: Path, served: Make, seam: dict[str, object]) -> None:
    """Every file was changed in what is the future by now: none of them is relied on, all are read."""
    tree = served(TEST_CLOCK_S=-7200, **seam)
    tree.index()
    changes(tree)
    code = tree.root / "p07" / "code.c"
    times = code.stat().st_atime_ns, code.stat().st_mtime_ns
    for number in range(10):
        code.write_text(f"int while_the_clock_was_back_{number};\n")
        os.utime(code, ns=times)
        tree.expect({f"while_the_clock_was_back_{number}": ["p07/code.c"]})
    tree.expect({"while_the_clock_was_back_[0-8]": []})


def test_clock_set_back_between_two_servers(root: Path, served: Make) -> None:
    """An index of yesterday, or of tomorrow, is used as far as its files' status says that it can."""
    tree = served()
    tree.index()
    tree.close()
    for ahead in (-86_400, 86_400):
        tree = served(TEST_CLOCK_S=ahead)
        file = tree.write("p08/code.c", f"int written_{ahead + 86_400}_later;\n")
        tree.expect({f"written_{ahead + 86_400}_later": ["p08/code.c"], word("p08", "code.c"): []})
        file.write_text(file.read_text().replace("written", "WRITTEN"))
        tree.expect(
            {f"written_{ahead + 86_400}_later": [], f"WRITTEN_{ahead + 86_400}_later": ["p08/code.c"]}
        )
        tree.close()


# Start-up on an existing index, after changes while no server ran


def changes_of_a_commit(tree: Served) -> None:
    for number in range(PLACES):
        tree.write(f"p{number:02}/code.c", f"int committed_on_another_branch_{number};\n")
    tree.commit_all()


def _off(tree: Served) -> None:
    tree.restart()


def _killed(tree: Served) -> None:
    pid = tree.pid
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not alive(pid))


@pytest.mark.parametrize(
    ("stop", "seam"), [(_killed, {}), (_off, SWEEPING)], ids=["killed-watch", "stopped-sweep"]
)
def test_start_up_on_an_index_after_changes(
    root: Path, served: Make, stop: Callable[[Served], None], seam: dict[str, object]
) -> None:
    tree = served(**seam)
    tree.index()
    tree.expect({word("p03", "code.c"): ["p03/code.c"]})
    stop(tree)
    tree.restart()  # of the client, too
    with another_builds(root):  # what is answered comes from the index that was there
        changes(tree)
        assert tree.summary.served_by == "index"
        assert tree.summary.candidates < len(_all_files())
    if seam:
        return
    tree.restart()
    git(root, "switch", "--quiet", "--create", "another")
    changes_of_a_commit(tree)
    shutil.rmtree(root / "p09")
    tree.expect({"committed_on_another_branch_7": ["p07/code.c"], word("p07", "code.c"): []})
    tree.expect({word("p09", "notes.txt"): [], word("p08", "notes.txt"): ["p08/notes.txt"]})
    tree.restart()
    git(root, "switch", "--quiet", "-")
    tree.expect({"committed_on_another_branch_7": [], word("p07", "code.c"): ["p07/code.c"]})
    assert tree.summary.served_by == "index"


def test_changes_while_a_server_starts(root: Path, served: Make) -> None:
    """Between the sweep of the first query and the watch there is no gap."""
    tree = served()
    tree.index()
    for attempt in range(2):
        tree.restart()
        stop = threading.Event()
        last = [0]

        def meddle(attempt: int = attempt, stop: threading.Event = stop, last: list[int] = last) -> None:
            while not stop.is_set():
                last[0] += 1
                for place in range(PLACES):
                    tree.write(f"p{place:02}/code.c", f"int meddled_{attempt}_{last[0]:05};\n")

        thread = threading.Thread(target=meddle)
        thread.start()
        try:
            for _ in range(5):
                tree.search(f"meddled_{attempt}")
        finally:
            stop.set()
            thread.join()
        tree.expect({f"meddled_{attempt}_{last[0]:05}": [f"p{place:02}/code.c" for place in range(PLACES)]})
        tree.expect({f"meddled_{attempt}_{last[0] - 1:05}": [], word("p00", "code.c"): []})
