"""The monitor's accumulated state always equals a fresh walk with fresh signatures."""

from __future__ import annotations

import mmap
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexgrep.errors import RootError
from indexgrep.tree import monitor as monitor_module
from indexgrep.tree.monitor import Monitor, Refresh
from indexgrep.tree.root import Root
from indexgrep.tree.signature import Signature, is_racy, signature_of
from indexgrep.tree.walk import WalkOptions, walk
from support.hostile import build_hostile
from support.privileges import bound_by_permissions, unprivileged

State = dict[bytes, Signature]


def truth(root: Root) -> State:
    top = os.fsencode(root.path)
    return {path: signature_of(os.lstat(os.path.join(top, path))) for path in walk(root, WalkOptions()).files}


class Consumer:
    """Applies every refresh as the search layer does."""

    def __init__(self, root: Root, *, watch: bool = True) -> None:
        self.root = root
        self.monitor = Monitor(root, watch=watch)
        self.state: State = {}
        self.version = 0

    def refresh(self) -> Refresh:
        result = self.monitor.refresh()
        assert result.version in (self.version, self.version + 1)
        self.version = result.version
        if result.snapshot is not None:
            assert result.full
            assert result.snapshot.paths == sorted(result.snapshot.paths)
            table = [tuple(row) for row in result.snapshot.signatures.tolist()]
            self.state = dict(zip(result.snapshot.paths, table, strict=True))
        for path, signature in result.changed.items():
            if signature is None:
                self.state.pop(path, None)
            else:
                self.state[path] = signature
        return result

    def check(self) -> Refresh:
        result = self.refresh()
        assert self.state == truth(self.root)
        return result


@pytest.fixture
def top(tmp_path: Path) -> Path:
    top = tmp_path / "top"
    for name in ("a/b/c.txt", "a/d.txt", "e.txt", "f/g.c"):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(name)
    return top


@pytest.fixture(params=["watch", "sweep"])
def consumer(request: pytest.FixtureRequest, top: Path) -> Iterator[Consumer]:
    consumer = Consumer(Root(str(top)), watch=request.param == "watch")
    first = consumer.check()
    assert first.full
    assert len(consumer.state) == 4
    yield consumer
    consumer.monitor.close()


@pytest.fixture
def watcher(top: Path) -> Iterator[Consumer]:
    consumer = Consumer(Root(str(top)))
    consumer.check()
    yield consumer
    consumer.monitor.close()


def write(path: Path, text: str = "new\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def keep_times(path: Path, text: str) -> None:
    """An edit that keeps size and mtime."""
    before = path.stat()
    path.write_text(text)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def swap(first: Path, second: Path) -> None:
    spare = first.with_name("spare")
    first.rename(spare)
    second.rename(first)
    spare.rename(second)


def editor_save(path: Path) -> None:
    """As an editor that writes a backup and renames over."""
    swap_file = path.with_name(f".{path.name}.swp")
    swap_file.write_text("swap")
    backup = path.with_name(path.name + "~")
    new = path.with_name(path.name + ".new")
    new.write_text("saved\n")
    os.link(path, backup)
    new.rename(path)
    backup.unlink()
    swap_file.unlink()


def write_through_map(path: Path) -> None:
    """No event tells of the write itself."""
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0) as mapped:
        mapped[:1] = b"#"


CHANGES: dict[str, Callable[[Path], object]] = {
    "edit": lambda top: write(top / "e.txt"),
    "edit that keeps size and mtime": lambda top: keep_times(top / "e.txt", "E.TXT"),
    "write through a memory map": lambda top: write_through_map(top / "e.txt"),
    "touch": lambda top: os.utime(top / "e.txt"),
    "mode": lambda top: (top / "e.txt").chmod(0o755),
    "unreadable": lambda top: (top / "e.txt").chmod(0),
    "create": lambda top: write(top / "a" / "new.txt"),
    "create and delete": lambda top: (write(top / "x"), (top / "x").unlink()),
    "create in a new tree": lambda top: write(top / "n" / "m" / "o" / "p.txt"),
    "delete": lambda top: (top / "e.txt").unlink(),
    "delete and recreate": lambda top: ((top / "e.txt").unlink(), write(top / "e.txt")),
    "delete a tree": lambda top: shutil.rmtree(top / "a"),
    "delete and recreate a tree": lambda top: (shutil.rmtree(top / "a"), write(top / "a" / "b" / "z.txt")),
    "rename": lambda top: (top / "e.txt").rename(top / "a" / "moved.txt"),
    "rename over": lambda top: (top / "e.txt").rename(top / "a" / "d.txt"),
    "case-only rename": lambda top: (top / "e.txt").rename(top / "E.txt"),
    "rename a directory": lambda top: (top / "a").rename(top / "z"),
    "rename a directory deeper": lambda top: (top / "f").rename(top / "a" / "b" / "f"),
    "rename a directory twice": lambda top: ((top / "a").rename(top / "y"), (top / "y").rename(top / "z")),
    "swap files": lambda top: swap(top / "e.txt", top / "a" / "d.txt"),
    "swap directories": lambda top: swap(top / "a", top / "f"),
    "move a directory out": lambda top: (top / "a").rename(top.parent / "out"),
    "move out and edit": lambda top: (
        (top / "a").rename(top.parent / "out"),
        write(top.parent / "out" / "d.txt"),
    ),
    "move out and in": lambda top: (
        (top / "a").rename(top.parent / "o"),
        (top.parent / "o").rename(top / "i"),
    ),
    "file becomes directory": lambda top: ((top / "e.txt").unlink(), write(top / "e.txt" / "in.txt")),
    "directory becomes file": lambda top: (shutil.rmtree(top / "a"), write(top / "a")),
    "file becomes link": lambda top: ((top / "e.txt").unlink(), (top / "e.txt").symlink_to("a/d.txt")),
    "directory becomes link": lambda top: ((top / "a").rename(top / "b"), (top / "a").symlink_to("b")),
    "file becomes FIFO": lambda top: ((top / "e.txt").unlink(), os.mkfifo(top / "e.txt")),
    "hidden": lambda top: (top / "e.txt").rename(top / ".e.txt"),
    "editor": lambda top: editor_save(top / "e.txt"),
    "hard link": lambda top: os.link(top / "e.txt", top / "a" / "link.txt"),
    "ignore file": lambda top: write(top / ".ignore", "*.c\n"),
    "ignore file below": lambda top: write(top / "a" / ".rgignore", "/b\n"),
    "ignore file in a new tree": lambda top: (write(top / "n" / ".ignore", "x\n"), write(top / "n" / "x")),
    "ignore file above": lambda top: write(top.parent / ".ignore", "d.txt\n"),
    "repository": lambda top: (write(top / ".gitignore", "*.c\n"), (top / ".git").mkdir()),
    "repository above": lambda top: (write(top / ".gitignore", "*.c\n"), (top.parent / ".git").mkdir()),
    "name with a line feed": lambda top: write(top / "a\nb" / "c\nd"),
    "name that is not UTF-8": lambda top: Path(os.fsdecode(os.fsencode(top) + b"/\xff")).write_text("x"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_change(consumer: Consumer, top: Path, change: str) -> None:
    CHANGES[change](top)
    consumer.check()
    write(top / "afterwards" / "still.txt")
    consumer.check()
    if (top / "a").is_dir() and not (top / "a").is_symlink():
        write(top / "a" / "later.txt")
        consumer.check()


@pytest.mark.parametrize("change", sorted(set(CHANGES) - {"mode", "unreadable", "touch"}))
def test_change_and_back(consumer: Consumer, top: Path, change: str) -> None:
    saved = top.parent / "saved"
    shutil.copytree(top, saved, symlinks=True)
    CHANGES[change](top)
    consumer.check()
    shutil.rmtree(top)
    saved.rename(top)
    consumer.check()


def test_no_change_is_nothing(watcher: Consumer) -> None:
    for _ in range(3):
        result = watcher.refresh()
        assert (result.full, result.how, result.changed, result.version) == (False, "watch", {}, 1)


def test_a_delta_names_only_what_changed(watcher: Consumer, top: Path) -> None:
    write(top / "e.txt")
    (top / "a" / "d.txt").unlink()
    write(top / ".hidden")
    result = watcher.check()
    assert not result.full
    assert {path: signature is not None for path, signature in result.changed.items()} == {
        b"e.txt": True,
        b"a/d.txt": False,
    }


@pytest.mark.parametrize("watch", [True, False])
def test_git_operations(tmp_path: Path, watch: bool) -> None:
    """Branch switch, reset, stash, clean, rebase: right on the next refresh."""
    top = tmp_path / "repo"

    def git(*arguments: str) -> None:
        subprocess.run(["git", "-C", str(top), *arguments], check=True, capture_output=True)

    for number in range(40):
        write(top / f"d{number % 5}" / f"{number}.txt", f"{number}\n")
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "main")
    consumer = Consumer(Root(str(top)), watch=watch)
    consumer.check()

    git("checkout", "--quiet", "-b", "other")
    shutil.rmtree(top / "d1")
    write(top / "d2" / "2.txt", "changed\n")
    write(top / "new" / "file.txt")
    write(top / "d3" / ".gitignore", "1*.txt\n")
    consumer.check()
    git("add", "--all")
    git("commit", "--quiet", "--message", "other")
    consumer.check()
    git("checkout", "--quiet", "main")
    consumer.check()
    git("reset", "--hard", "--quiet", "other")
    consumer.check()
    git("reset", "--hard", "--quiet", "HEAD~1")
    consumer.check()
    write(top / "d0" / "0.txt", "to stash\n")
    write(top / "untracked.txt")
    git("stash", "--include-untracked")
    consumer.check()
    git("stash", "pop")
    consumer.check()
    git("clean", "-fdq")
    git("checkout", "--quiet", ".")
    consumer.check()
    write(top / "d4" / "4.txt", "to rebase\n")
    git("commit", "--quiet", "--all", "--message", "more")
    git("rebase", "--quiet", "other")
    consumer.check()
    write(top / ".git" / "info" / "exclude", "*2.txt\n")
    assert consumer.check().full
    git("worktree", "add", "--quiet", str(top / "linked"), "other")
    consumer.check()
    git("worktree", "remove", str(top / "linked"))
    consumer.check()
    consumer.monitor.close()


def test_hostile_tree(tmp_path: Path) -> None:
    root = Root(str(build_hostile(tmp_path)))
    consumer = Consumer(root)
    consumer.check()
    for path in list(consumer.state):
        (Path(root.path) / os.fsdecode(path)).touch()
    consumer.check()
    for name in ("names", "nested", "submodule", "links"):
        Path(root.path, name).rename(Path(root.path, f"{name}-moved"))
    consumer.check()
    consumer.monitor.close()


def test_ignore_sources_are_watched(watcher: Consumer, top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Global excludes, git's configuration, and the target of an ignore file that is a link."""
    (top / ".git").mkdir()
    assert watcher.check().full
    config = Path(os.environ["GIT_CONFIG_GLOBAL"])
    before = config.read_text()
    excludes = top.parent / "excludes"
    try:
        config.write_text(f"[core]\n\texcludesFile = {excludes}\n")
        assert watcher.check().full
        excludes.write_text("*.c\n")
        assert watcher.check().full
        assert b"f/g.c" not in watcher.state
        excludes.write_text("*.d\n")  # within the time stamp's grain, of the same size
        assert watcher.check().full
        assert b"f/g.c" in watcher.state
    finally:
        config.write_text(before)
    (top.parent / "rules").write_text("*.c\n")
    (top / "f" / ".gitignore").symlink_to("../../rules")
    watcher.check()
    (top.parent / "rules").write_text("*.d\n")
    watcher.check()
    assert b"f/g.c" in watcher.state


def test_hard_link_from_outside(watcher: Consumer, top: Path) -> None:
    """A write through a name outside the tree raises no event in it."""
    os.link(top / "e.txt", top.parent / "outside.txt")
    os.utime(top / "e.txt")  # the link itself is not noticed, the next event is
    watcher.check()
    (top.parent / "outside.txt").write_text("changed from outside\n")
    assert b"e.txt" in watcher.check().changed


def test_hard_link_under_a_hidden_name(watcher: Consumer, top: Path) -> None:
    os.link(top / "e.txt", top / ".hidden")
    assert watcher.check().full
    (top / ".hidden").write_text("changed through the hidden name\n")
    assert b"e.txt" in watcher.check().changed
    (top / "n").mkdir()
    os.link(top / "f" / "g.c", top / "n" / ".hidden")
    watcher.check()
    (top / "n" / ".hidden").write_text("changed\n")
    assert b"f/g.c" in watcher.check().changed


def test_depends_on_cwd(top: Path) -> None:
    config = Path(os.environ["GIT_CONFIG_GLOBAL"])
    before = config.read_text()
    try:
        config.write_text(f"[core]\n\texcludesFile = {top.parent / 'excludes'}\n")
        for text, depends in (("", False), ("*.o\nname\n", False), ("*.o\n/top\n", True), ("a/b\n", True)):
            (top.parent / "excludes").write_text(text)
            monitor = Monitor(Root(str(top)))
            monitor.refresh()
            assert monitor.depends_on_cwd == depends
            monitor.close()
    finally:
        config.write_text(before)


def test_many_hard_links(watcher: Consumer, top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor_module, "_MAX_LINKED", 2)
    for number in range(3):
        os.link(top / "e.txt", top / f"link{number}")
    assert "hard links" in watcher.check().reason
    assert "hard links" in watcher.check().reason
    write(top / "n")
    watcher.check()


def test_queue_overflow(watcher: Consumer, top: Path) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if limit > 100_000:
        pytest.skip("the queue is very long here")
    paths = [top / "e.txt", top / "a" / "d.txt"]
    for number in range(limit + 10):
        os.utime(paths[number % 2])  # unlike neighbours are not merged
    write(top / "after")
    result = watcher.check()
    assert result.full
    assert "overflow" in result.reason
    assert not watcher.check().full


def test_draining_in_time_prevents_that(watcher: Consumer, top: Path) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if limit > 100_000:
        pytest.skip("the queue is very long here")
    paths = [top / "e.txt", top / "a" / "d.txt"]
    for number in range(limit + 10):
        os.utime(paths[number % 2])
        if number == limit // 2:
            watcher.monitor.drain()
    write(top / "after")
    assert not watcher.check().full


def test_waiting_ends_with_an_event_and_not_before(watcher: Consumer, top: Path) -> None:
    assert not watcher.monitor.wait(0)
    write(top / "e.txt")
    assert watcher.monitor.wait(60)
    watcher.monitor.drain()
    assert not watcher.monitor.wait(0)
    assert b"e.txt" in watcher.check().changed
    watcher.monitor.wake()
    assert not watcher.monitor.wait(60)  # at once: it was woken, and there is no event
    watcher.monitor.close()
    assert not watcher.monitor.wait(60)


def test_there_is_nothing_to_wait_for_once_drained_though_a_sweep_is_due(
    watcher: Consumer, top: Path
) -> None:
    """Else who waits for the tree to rest would spin until somebody sweeps it."""
    write(top / ".gitignore", "*.o\n")
    watcher.monitor.drain()
    write(top / "e.txt")
    assert watcher.monitor.wait(60)
    watcher.monitor.drain()
    assert not watcher.monitor.wait(0)
    assert watcher.check().full


def test_watch_limit(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the limit is reached, at the start or later, every refresh sweeps and says why."""
    import inotify_simple

    real = inotify_simple.INotify.add_watch
    left = [3]

    def add_watch(self: object, path: bytes, mask: int) -> int:
        if left[0] == 0:
            raise OSError(28, "No space left on device")
        left[0] -= 1
        return int(real(self, path, mask))

    monkeypatch.setattr(inotify_simple.INotify, "add_watch", add_watch)
    consumer = Consumer(Root(str(top)))
    result = consumer.check()
    assert result.how == "sweep"
    assert "max_user_watches" in result.reason
    left[0] = 4
    later = Consumer(Root(str(top)))
    assert later.check().reason == "first refresh"
    write(top / "one" / "more" / "file")
    assert "max_user_watches" in later.check().reason
    write(top / "e.txt")
    assert "max_user_watches" in later.check().reason
    consumer.monitor.close()
    later.monitor.close()


def test_network_file_system(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor_module.Mounts, "remote", lambda self: b"nfs4")
    consumer = Consumer(Root(str(top)))
    for _ in range(2):
        result = consumer.check()
        assert result.how == "sweep"
        assert "nfs4" in result.reason


def test_not_linux(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor_module.sys, "platform", "darwin")
    consumer = Consumer(Root(str(top)))
    assert "darwin" in consumer.check().reason
    assert consumer.check().full


def test_root_vanishes_and_returns(consumer: Consumer, top: Path) -> None:
    top.rename(top.parent / "elsewhere")
    with pytest.raises(RootError, match="No such file"):
        consumer.refresh()
    with pytest.raises(RootError):
        consumer.refresh()
    write(top / "another.txt")
    assert consumer.check().full
    assert list(consumer.state) == [b"another.txt"]


def test_root_moved_with_its_parent(tmp_path: Path) -> None:
    """No event tells that a directory above was renamed and another took its place."""
    write(tmp_path / "parent" / "top" / "old.txt")
    consumer = Consumer(Root(str(tmp_path / "parent" / "top")))
    consumer.check()
    (tmp_path / "parent").rename(tmp_path / "gone")
    write(tmp_path / "parent" / "top" / "new.txt")
    consumer.check()
    assert list(consumer.state) == [b"new.txt"]
    write(tmp_path / "parent" / "top" / "newer.txt")
    assert not consumer.check().full


@pytest.mark.parametrize("watch", [True, False])
def test_unreadable_directory(top: Path, watch: bool) -> None:
    consumer = Consumer(Root(str(top)), watch=watch)
    consumer.check()
    try:
        (top / "a").chmod(0)
        with unprivileged(top):
            assert consumer.check().errors == ((b"a/", "Permission denied (os error 13)"),)
        write(top / "e.txt")
        with unprivileged(top):
            assert consumer.check().errors == ((b"a/", "Permission denied (os error 13)"),)
        assert b"a/d.txt" not in consumer.state
    finally:
        (top / "a").chmod(0o755)
    assert consumer.check().errors == ()
    assert b"a/d.txt" in consumer.state
    write(top / "a" / "later.txt")
    consumer.check()


@pytest.mark.parametrize("watch", [True, False])
def test_directory_that_may_be_listed_but_not_entered(top: Path, watch: bool) -> None:
    consumer = Consumer(Root(str(top)), watch=watch)
    with bound_by_permissions() as bound:
        if not bound:
            pytest.skip("root cannot be bound by permissions here")
        consumer.check()
        (top / "a").chmod(0o444)
        try:
            errors = dict(consumer.refresh().errors)
            assert errors.pop(b"a/d.txt") == "Permission denied (os error 13)"
            assert all(path.startswith(b"a/") for path in errors)
            assert b"a/d.txt" not in consumer.state
        finally:
            (top / "a").chmod(0o755)
        assert consumer.check().errors == ()
        assert b"a/d.txt" in consumer.state


def test_failure_in_the_middle(watcher: Consumer, top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refresh that fails loses nothing: the next one sweeps."""
    write(top / "e.txt", "changed\n")
    with monkeypatch.context() as patch:
        patch.setattr(Monitor, "_look", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            watcher.refresh()
    assert watcher.check().full


def test_threads_see_each_change_once(top: Path) -> None:
    """Many callers at once: together they get every change, each version once."""
    consumer = Consumer(Root(str(top)))
    consumer.check()
    results: list[Refresh] = []
    stop = threading.Event()

    def call() -> None:
        while not stop.is_set():
            result = consumer.monitor.refresh()
            if result.changed:
                results.append(result)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(200):
        write(top / f"n{number % 7}" / f"{number}.txt")
    stop.set()
    for thread in threads:
        thread.join()
    results.append(consumer.monitor.refresh())
    versions = [result.version for result in results if result.changed]
    assert sorted(versions) == list(range(2, 2 + len(versions)))
    seen = {path for result in results for path in result.changed}
    assert len(seen) == 200
    consumer.monitor.close()


def test_changes_while_sweeping(top: Path) -> None:
    """Whatever is changed during the first sweep is in it, or in the next refresh."""
    for number in range(300):
        write(top / f"d{number}" / "x.txt")
    stop = threading.Event()

    def meddle() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            write(top / f"d{number % 300}" / f"{number}.txt")
            if number % 5 == 0:
                with_name = top / f"d{(number * 7) % 300}"
                if with_name.exists():
                    with_name.rename(top / f"d{(number * 7) % 300}-moved-{number}")

    thread = threading.Thread(target=meddle)
    thread.start()
    consumer = Consumer(Root(str(top)))
    try:
        for _ in range(20):
            consumer.refresh()
    finally:
        stop.set()
        thread.join()
    consumer.check()
    consumer.monitor.close()


def test_close_frees_everything(top: Path) -> None:
    def descriptors() -> int:
        return len(os.listdir("/proc/self/fd"))

    before, threads = descriptors(), threading.active_count()
    for _ in range(3):
        monitor = Monitor(Root(str(top)))
        monitor.refresh()
        write(top / ".ignore", "x\n")
        monitor.refresh()
        monitor.close()
        monitor.close()
        with pytest.raises(ValueError, match="closed"):
            monitor.refresh()
    assert descriptors() == before
    assert threading.active_count() == threads


def test_racy_signatures(top: Path) -> None:
    """A file changed within the grain of time stamps before it was looked at is racy, an older one is not."""
    now = time.time_ns()
    second = 1_000_000_000
    assert is_racy((1, now - second, now - 5_000_000, 1, 1), now)
    assert not is_racy((1, now - second, now - 50_000_000 | 1, 1, 1), now)
    assert is_racy((1, now + second, now - 50_000_000 | 1, 1, 1), now), "a clock that was set back"
    whole = now // second * second
    assert is_racy((1, whole, whole, 1, 1), whole + second), "a file system without fractions"
    time.sleep(0.05)
    write(top / "fresh.txt")
    observed = time.time_ns()
    assert is_racy(signature_of((top / "fresh.txt").stat()), observed)
    assert not is_racy(signature_of((top / "e.txt").stat()), observed)


# Random sequences of changes.

PLACES = ("", "a/", "a/b/", "d/", "d/e/", ".h/", "ign/")
LEAVES = ("f", "g.c", "x.py", ".hid", "a", "b")
RULES = ("*.c", "!*.c", "ign/", "/a", "b/f", "**/e", "d/*", "!d/e", ".hid", "!.hid", "*")
names = st.builds(str.__add__, st.sampled_from(PLACES), st.sampled_from(LEAVES))
directories = st.sampled_from(("a", "a/b", "d", "d/e", ".h", "ign", "n", "n/m", "a/z"))
operations = st.one_of(
    st.tuples(st.just("write"), names, st.integers(0, 3)),
    st.tuples(st.just("append"), names),
    st.tuples(st.just("same"), names),
    st.tuples(st.just("delete"), st.one_of(names, directories)),
    st.tuples(st.just("mkdir"), directories),
    st.tuples(st.just("rename"), st.one_of(names, directories), st.one_of(names, directories)),
    st.tuples(st.just("symlink"), names, st.one_of(names, directories)),
    st.tuples(st.just("chmod"), st.one_of(names, directories), st.sampled_from((0o600, 0o700, 0o755))),
    st.tuples(st.just("out"), directories),
    st.tuples(st.just("in"), directories),
    st.tuples(st.just("rules"), st.sampled_from(("", "a/", "d/", "n/")),
              st.sampled_from((".gitignore", ".ignore", ".rgignore", "../.ignore", ".git/info/exclude")),
              st.lists(st.sampled_from(RULES), max_size=2)),
    st.tuples(st.just("git"), st.sampled_from(("", "a/", "d/"))),
)  # fmt: skip


#: With hard links, in directories that are all watched, and none made and removed between two refreshes (see
#: the monitor's limits).
watched = st.builds(str.__add__, st.sampled_from(("", "a/", "a/b/", "d/")), st.sampled_from(LEAVES[:4]))
link_operations = st.one_of(
    st.tuples(st.just("link"), watched, watched),
    st.tuples(st.just("link"), watched, watched),
    st.tuples(st.just("write"), watched, st.integers(0, 3)),
    st.tuples(st.just("append"), watched),
    st.tuples(st.just("same"), watched),
    st.tuples(st.just("delete"), watched),
    st.tuples(st.just("rename"), st.one_of(watched, st.just("d")), st.one_of(watched, st.just("a/n"))),
)


def perform(top: Path, operation: tuple[object, ...]) -> None:
    """One change; what is impossible in the present state is skipped."""
    kind, arguments = operation[0], operation[1:]
    outside = top.parent / "outside"
    path = top / str(arguments[0])
    if kind == "write":
        write(path, "x" * int(str(arguments[1])))
    elif kind == "append":
        with path.open("a") as file:
            file.write("y")
    elif kind == "same":
        keep_times(path, "z" * path.stat().st_size)
    elif kind == "delete":
        shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    elif kind == "mkdir":
        path.mkdir(parents=True)
    elif kind == "rename":
        path.rename(top / str(arguments[1]))
    elif kind == "link":
        os.link(path, top / str(arguments[1]))
    elif kind == "symlink":
        path.symlink_to(top / str(arguments[1]))
    elif kind == "chmod":
        path.chmod(int(str(arguments[1])))
    elif kind == "out":
        path.rename(outside / str(time.monotonic_ns()))
    elif kind == "in":
        next(outside.iterdir()).rename(path)
    elif kind == "rules":
        assert isinstance(arguments[2], list)
        write(path / str(arguments[1]), "\n".join(arguments[2]))
    elif kind == "git":
        (path / ".git").mkdir()


def play(base: Path, steps: list[list[tuple[object, ...]]], watch: bool) -> None:
    """Perform the steps, with a refresh and a check after each."""
    top = base / "top"
    (base / "outside").mkdir()
    for place in PLACES:
        write(top / place / "f", "start")
        write(top / place / "g.c", "start")
    consumer = Consumer(Root(str(top)), watch=watch)
    try:
        consumer.check()
        for step in steps:
            for operation in step:
                try:
                    perform(top, operation)
                except (OSError, StopIteration):
                    continue
            consumer.check()
    finally:
        consumer.monitor.close()
        shutil.rmtree(base)


@settings(max_examples=60)
@given(
    steps=st.lists(st.lists(operations, min_size=1, max_size=4), min_size=1, max_size=8),
    watch=st.sampled_from((True, True, True, False)),
)
def test_random_changes(
    tmp_path_factory: pytest.TempPathFactory, steps: list[list[tuple[object, ...]]], watch: bool
) -> None:
    play(tmp_path_factory.mktemp("model"), steps, watch)


@settings(max_examples=40)
@given(steps=st.lists(st.lists(link_operations, min_size=1, max_size=1), min_size=1, max_size=20))
def test_random_hard_links(
    tmp_path_factory: pytest.TempPathFactory, steps: list[list[tuple[object, ...]]]
) -> None:
    play(tmp_path_factory.mktemp("links"), steps, watch=True)


# What its clients say has changed


def deaf(consumer: Consumer) -> None:
    """Lose every event that waits, as if none had come."""
    consumer.monitor._read_events()
    consumer.monitor._dirty.clear()
    consumer.monitor._stale = ""


@pytest.mark.parametrize(
    ("change", "marked"),
    [
        (lambda top: write(top / "a/b/c.txt", "changed\n"), [b"a/b/c.txt"]),
        (lambda top: write(top / "a/new.txt"), [b"a/new.txt"]),
        (lambda top: write(top / "n/e/w/new.txt"), [b"n/e/w/new.txt"]),
        (lambda top: write(top / "n/e/w/new.txt"), [b"n/e"]),
        (lambda top: (top / "a/d.txt").unlink(), [b"a/d.txt"]),
        (lambda top: shutil.rmtree(top / "a"), [b"a/b/c.txt", b"a/d.txt", b"a"]),
        (lambda top: (top / "a").rename(top / "z"), [b"a", b"z"]),
        (lambda top: (top / "e.txt").rename(top / "f/e.txt"), [b"e.txt", b"f/e.txt"]),
        (lambda top: write(top / ".ignore", "*.c\n"), [b".ignore"]),
        (lambda top: write(top / "f/.ignore", "*.c\n"), [b"f/.ignore"]),
        (lambda top: write(top / "e.txt", "changed\n"), [b""]),
        (lambda top: write(top / "a/b/c.txt", "changed\n"), [b"a/b/c.txt", b"a/b/c.txt/x", b"no/such/file"]),
    ],
    ids=range(12),
)
def test_what_is_marked_is_looked_at_without_an_event(
    consumer: Consumer, top: Path, change: Callable[[Path], object], marked: list[bytes]
) -> None:
    time.sleep(0.03)  # so that a change shows in the signatures
    change(top)
    if consumer.monitor._notify is not None:
        deaf(consumer)
        assert consumer.refresh().changed == {}
        assert consumer.state != truth(consumer.root)
    consumer.monitor.mark(marked)
    consumer.check()
    assert consumer.refresh().changed == {}


def test_marking_never_waits_for_a_refresh(watcher: Consumer, top: Path) -> None:
    with watcher.monitor._lock:
        thread = threading.Thread(target=watcher.monitor.mark, args=([b"e.txt"],), daemon=True)
        thread.start()
        thread.join(10)
        assert not thread.is_alive()
    assert list(watcher.refresh().changed) == [b"e.txt"]


def test_too_many_marks_are_one_sweep(watcher: Consumer, top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor_module, "_MAX_MARKED", 3)
    write(top / "e.txt", "changed\n")
    deaf(watcher)
    for number in range(5):
        watcher.monitor.mark([b"e.txt", b"%d" % number])
        assert len(watcher.monitor._marked) <= 3
    assert watcher.check().full
    assert not watcher.check().full


def test_marks_of_unwanted_and_outside_names_do_no_harm(watcher: Consumer, top: Path) -> None:
    write(top / ".ignore", "build/\n")
    write(top / "build/made.c")
    watcher.check()
    watcher.monitor.mark(
        [b"build/made.c", b"build", b".hidden/x", b"/absolute", b"a//b", b"a/../e.txt", b"x\xff"]
    )
    watcher.check()
