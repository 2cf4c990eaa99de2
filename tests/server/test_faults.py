"""What befalls a server with the engine in it: killed, its folders taken away, its disk full. Afterwards
answers are ripgrep's, and clients have found a server again by themselves.

Starting, finding and stopping have their tests in ``test_lifecycle``, what a client makes of a server that is
lost in ``test_client``, killed steps of the index in ``model``.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from indexgrep import client as client_module
from indexgrep import runtime
from indexgrep.client import Client
from indexgrep.errors import RootError, ServerError
from indexgrep.index.store import Store
from indexgrep.server import lifecycle
from support.editor import Editor, write_init
from support.served import Served, git, serving
from support.server_harness import alive, eventually

FILES = 160


@pytest.fixture
def base(short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders that may be taken away: the cache, the runtime directory and the log of this test alone."""
    monkeypatch.setenv("INDEXGREP_CACHE_DIR", str(short_tmp / "cache"))
    monkeypatch.setenv("INDEXGREP_RUNTIME_DIR", str(short_tmp / "run"))
    monkeypatch.setenv("INDEXGREP_LOG", str(short_tmp / "log"))
    return short_tmp


@pytest.fixture
def tree(base: Path, rg: str) -> Iterator[Served]:
    root = base / "tree"
    for number in range(FILES):
        file = root / f"d{number % 8}" / f"file{number:03}.c"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"int word_{number:03};\n" + "int shared;\n" * 50)
    git(base, "init", "--quiet", str(root))
    git(root, "add", ".")
    git(root, "commit", "--quiet", "--message", "start")
    with serving(root, rg) as served:
        yield served


def right(tree: Served, served_by: str = "") -> None:
    """Answers are whole, also about a change of this moment; and they come from where they should."""
    new = tree.write("d0/file000.c", "int written_after_the_fault;\n")
    tree.expect({"written_after": ["d0/file000.c"], "word_000": [], "word_017": ["d1/file017.c"]})
    assert served_by in (tree.summary.served_by, "")
    assert len(tree.paths("shared")) == FILES - 1
    git(tree.root, "checkout", "--quiet", "--", ".")
    assert new.exists()
    tree.expect({"written_after": [], "word_000": ["d0/file000.c"]})


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    return [int(name) for name in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()] + [
        int(name)
        for task in Path(f"/proc/{pid}/task").iterdir()
        if task.name != str(pid)
        for name in (task / "children").read_text().split()
    ]


def kill(pid: int) -> None:
    """End a server as a crash would; its workers notice, and end too."""
    started = children(pid) if sys.platform == "linux" else []
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: not any(map(alive, [pid, *started])), 10)


# Killed


def test_killed_when_idle_and_during_a_query(tree: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each kind of client finds the stale socket, and then a server."""
    tree.index()
    kill(tree.pid)
    assert runtime.socket_path(tree.root).exists()
    right(tree, "index")  # over a connection that was lost, and on the command line
    pid = tree.pid
    os.kill(pid, signal.SIGSTOP)
    search = tree.client.search(".", no_index=True)
    kill(pid)
    # Nothing was delivered: it is asked again.
    assert len({match.path for match in search}) == FILES
    # A window of one line that is never opened further: the server cannot have said everything when it dies.
    with monkeypatch.context() as patch:
        patch.setattr(client_module, "WINDOW_LINES", 1)
        patch.setattr(client_module.Search, "_acknowledge", lambda self, batch: None)
        search = tree.client.search(".", no_index=True)
        next(search)
        kill(tree.pid)
        with pytest.raises(ServerError, match="not complete"):
            list(search)
    tree.restart()
    right(tree, "index")  # by a client that comes anew


def test_killed_during_a_build(tree: Served) -> None:
    """At several of its phases; what it leaves is not taken for an index, and the next build clears it up."""
    for phase in ("extract", "write"):
        with Client(tree.root) as client:
            pid = int(client.server["pid"])

            def strike(state: dict[str, object], phase: str = phase, pid: int = pid) -> None:
                if state["phase"] == phase or state["phase"] == "ready":
                    kill(pid)

            with pytest.raises(ServerError):
                client.index(strike, force=True)
        right(tree)
    tree.client.index(force=True)
    right(tree, "index")
    store = Store(tree.root / ".git")
    left = {entry.name for entry in store.directory.iterdir()} - {"lock", "origin"}
    assert left == {one.name for one in store.stored()}


def test_starters_that_race_come_to_one_server_and_one_index(tree: Served) -> None:
    code = (
        "import sys; from indexgrep.client import Client\n"
        "client = Client(sys.argv[1]); client.index()\n"
        "print(client.server['pid'], len(list(client.search('shared'))))"
    )
    racers = [
        subprocess.Popen([sys.executable, "-c", code, str(tree.root)], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    answers = {racer.communicate(timeout=120)[0] for racer in racers}
    assert answers == {f"{tree.pid} {FILES * 50}\n"}
    assert len(tree.builds()) == 1
    right(tree, "index")


# Folders and files of its own


def test_cache_folder_deleted(tree: Served, base: Path) -> None:
    tree.index()
    shutil.rmtree(base / "cache")
    right(tree, "index")  # what is open goes on serving
    tree.index()  # it is missed, and built again
    assert len(tree.builds()) == 1
    right(tree, "index")
    # While segments are made.
    changed = FILES // 2
    for attempt in range(4):
        for number in range(changed):
            tree.write(f"d{number % 8}/file{number:03}.c", f"int word_{number:03}_{attempt};\n")
        if attempt == 2:
            shutil.rmtree(base / "cache")
        tree.expect({"word_017_": ["d1/file017.c"], f"word_017_{attempt}": ["d1/file017.c"]})
        assert len(tree.paths(f"word_..._{attempt};")) == changed
        if attempt < 2:
            tree.settle()
    tree.expect({"word_017_3": ["d1/file017.c"], "word_..._[0-2]": []})
    assert tree.summary.served_by == "index"
    tree.restart()
    tree.expect({"word_017_3": ["d1/file017.c"], "word_..._[0-2]": []})


def test_cache_folder_deleted_during_a_build(tree: Served, base: Path) -> None:
    tree.client.index(force=True, wait=False)
    for _ in range(20):
        shutil.rmtree(base / "cache", ignore_errors=True)
        assert len(tree.paths("shared")) == FILES
    eventually(lambda: tree.status()["index"]["state"] != "building", 30)
    right(tree)
    tree.client.index(force=True)
    right(tree, "index")


def test_cache_that_cannot_be_written(tree: Served, base: Path) -> None:
    (base / "cache").write_text("a file where the folder should be\n")
    right(tree, "scan")
    eventually(lambda: tree.status()["index"]["fault"])
    right(tree, "scan")
    (base / "cache").unlink()
    tree.index()
    right(tree, "index")


def test_disk_full(tree: Served) -> None:
    """No file of the server can grow beyond what is nothing for an index; nor can its log."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        lifecycle.ensure_server(tree.root)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    eventually(lambda: tree.status()["index"]["fault"], 30)
    right(tree, "scan")
    for number in range(FILES // 2):
        tree.write(f"d0/more{number}.c", f"int more_{number};\n")
    tree.expect({"more_17;": ["d0/more17.c"], "word_017": ["d1/file017.c"]})
    git(tree.root, "clean", "--quiet", "--force", "-d")
    tree.restart()
    tree.index()
    right(tree, "index")


def test_runtime_folder_deleted(tree: Served, base: Path) -> None:
    tree.index()
    old = tree.pid
    shutil.rmtree(base / "run")
    right(tree, "index")  # over the connection that is there, or of a new server
    tree.restart()
    right(tree, "index")
    eventually(lambda: not alive(old))
    assert tree.pid != old


def test_log_that_cannot_be_written(tree: Served, base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree.index()
    tree.close()
    for log in (base / "file" / "log", base, Path("/dev/full"), base / "logs" / "log"):
        (base / "file").touch()
        monkeypatch.setenv("INDEXGREP_LOG", str(log))
        right(tree, "index")
        shutil.rmtree(base / "logs", ignore_errors=True)
        tree.restart()  # which is logged
    right(tree, "index")


# Its clients and its root


def test_editor_killed(tree: Served, nvim: str, tmp_path: Path) -> None:
    """In the middle of an answer; the server goes on, and forgets what was the editor's."""
    tree.index()
    init = write_init(tmp_path / "init.lua")
    before = tree.status()["clients"]
    for _ in range(3):
        editor = Editor(nvim, init, cwd=tree.root)
        pid = editor.lua("return vim.fn.getpid()")
        editor.command("edit d1/file017.c")
        editor.lua("vim.api.nvim_buf_set_lines(0, 0, -1, false, { 'int never_saved;' })")
        editor.lua("_G.seen = 0; require('indexgrep').search('.', {}, function() _G.seen = _G.seen + 1 end)")
        editor.wait(lambda editor=editor: editor.lua("return _G.seen") > 0)
        editor.lua("require('indexgrep').search('.', {}, function() end)")
        os.kill(pid, signal.SIGKILL)
        editor.api.close()
        eventually(lambda: tree.status()["clients"] == before)
        assert tree.status()["buffers"]["count"] == 0
        assert tree.paths("never_saved", buffers="all") == []
        right(tree, "index")


def test_root_replaced(tree: Served, base: Path) -> None:
    """By another tree, by a file, by a link to where it went; the old one's answers are given to nobody."""
    tree.index()
    old = tree.pid
    tree.root.rename(base / "away")
    tree.write("d1/file017.c", "int another_tree;\n")
    tree.expect({"another_tree": ["d1/file017.c"], "word_": []})
    assert tree.pid != old
    shutil.rmtree(tree.root)
    tree.root.write_text("int a_file_now;\n")
    # Said by the client, or by a server that has not noticed: the file may have the directory's number.
    with pytest.raises(RootError, match=r"not the top of a tree any more|Not a directory"):
        tree.paths("word_017")
    assert lifecycle.server_status(base) is None  # nobody has asked for that directory
    tree.root.unlink()
    tree.root.symlink_to(base / "away")
    with Client(tree.root) as client:
        assert client.server["root"] == str(base / "away")
        assert [match.path for match in client.search("word_017")] == ["d1/file017.c"]
        client.shutdown()
    tree.root.unlink()
    (base / "away").rename(tree.root)
    tree.restart()
    right(tree, "index")


def test_root_removed_during_a_query(tree: Served) -> None:
    """An answer is whole, says how much it lacks, or fails; the next one fails."""
    tree.index()
    search = tree.client.search(".", no_index=True)
    first = next(search)
    shutil.rmtree(tree.root)
    try:
        files = {first.path, *(match.path for match in search)}
    except (ServerError, RootError):
        return  # the server noticed
    assert search.summary is not None
    assert len(files) + search.summary.vanished == FILES
    with pytest.raises((ServerError, RootError)):
        tree.paths("shared")
