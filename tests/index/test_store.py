"""Where indexes live: names, locks, the budget, damage, and caches that cannot be written."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

from indexgrep.errors import IndexFault, IndexLocked
from indexgrep.index import Index, Store, builder, listing, placing, writer
from indexgrep.index.format import LOOKUP, POSTINGS, Header
from indexgrep.index.stamps import write_stamps
from indexgrep.index.store import find_commit
from indexgrep.pattern.query import Literal
from indexgrep.tree.signature import SIGNATURE
from support.indexing import write_files


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    root.mkdir()
    return root


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def test_build_and_open(root: Path, cache: Path, build_here: None) -> None:
    paths = write_files(root, {b"a": b"some text", b"b": b"other"})
    store = Store(root, cache)
    assert store.open("c0ffee") is None
    assert store.stored() == []
    assert not cache.exists()
    index = store.build("c0ffee", str(root), paths, commit="c0ffee" * 6)
    assert index.candidates(Literal(b"some")).count == 1
    again = store.open("c0ffee")
    assert again is not None
    assert again.commit == "c0ffee" * 6
    assert [stored.name for stored in store.stored()] == ["c0ffee"]
    (stored,) = listing(cache)
    assert stored.origin == str(root)
    assert (stored.name, stored.state, stored.documents) == ("c0ffee", "ready", 2)
    assert stored.commit == "c0ffee" * 6
    assert stored.size == stored.postings + stored.lookup > 0
    assert stored.kind == "base"
    assert abs(stored.used - time.time()) < 60
    store.remove("c0ffee")
    assert store.open("c0ffee") is None


def test_the_size_counts_the_stamps_of_every_worktree(root: Path, cache: Path, build_here: None) -> None:
    paths = write_files(root, {b"%d" % number: b"text" for number in range(9)})
    index = Store(root, cache).build("x", str(root), paths, stamps_key="a")
    for key in "bc":
        write_stamps(index.directory, key, index.identity, np.zeros(9, SIGNATURE))
    (stored,) = listing(cache)
    assert stored.size > stored.postings + stored.lookup + 3 * 9 * SIGNATURE.itemsize


def test_segments_are_told_from_bases(root: Path, cache: Path, build_here: None) -> None:
    paths = write_files(root, {b"a": b"text"})
    store = Store(root, cache)
    for name in ("c0ffee", "c0ffee-12345678", "files-12345678", "segment-12345678-00ff00ff"):
        store.build(name, str(root), paths).close()
    assert {stored.name: stored.kind for stored in store.stored()} == {
        "c0ffee": "base",
        "c0ffee-12345678": "base",
        "files-12345678": "base",
        "segment-12345678-00ff00ff": "segment",
    }
    store.quarantine("segment-12345678-00ff00ff")
    placing.temporary_name(store.path("segment-12345678-11111111")).mkdir()
    told = sorted((stored.kind, stored.state) for stored in listing(cache) if stored.kind == "segment")
    assert told == [("segment", "building"), ("segment", "corrupt")]


def test_the_bases_of_a_commit_are_found_in_every_repository(
    root: Path, cache: Path, tmp_path: Path, build_here: None
) -> None:
    paths = write_files(root, {b"a": b"text"})
    commit = "c0ffee" * 6
    first, second = Store(root, cache), Store(tmp_path / "clone", cache)
    first.build(f"{commit}-12345678", str(root), paths, commit=commit).close()
    first.build("segment-12345678-00ff00ff", str(root), paths, commit=commit).close()
    first.build("other", str(root), paths, commit="0123" * 9).close()
    first.build("damaged", str(root), paths, commit=commit).close()
    first.quarantine("damaged")
    assert find_commit("f" * 36, cache) == []
    for store in (first, second):
        store.build(commit, str(root), paths, commit=commit).close()
    os.utime(first.path(commit) / "used", (1, 1))
    found = find_commit(commit, cache)
    assert [stored.directory for stored in found] == [
        second.path(commit),
        first.path(commit),
        first.path(f"{commit}-12345678"),
    ]
    holding = Store.holding(found[0].directory)
    assert holding.directory == second.directory
    index = holding.open(found[0].name)
    assert index is not None
    assert index.commit == commit
    holding.build("more", str(root), paths).close()
    assert {stored.origin for stored in listing(cache)} == {str(root), str(tmp_path / "clone")}


def test_everything_is_private(root: Path, cache: Path, build_here: None) -> None:
    previous = os.umask(0)
    try:
        Store(root, cache).build("x", str(root), write_files(root, {b"a": b"text"})).close()
    finally:
        os.umask(previous)
    for folder, folders, files in os.walk(cache):
        for name in [*folders, *files]:
            assert stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode) & 0o077 == 0, name
    assert stat.S_IMODE(os.stat(cache).st_mode) == 0o700


def test_spellings_of_one_folder_share_a_store(root: Path, cache: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root)
    assert Store(tmp_path / "link", cache).directory == Store(root, cache).directory
    assert Store(tmp_path, cache).directory != Store(root, cache).directory


@pytest.mark.parametrize("name", ["", "..", "a/b", "a.tmp-1", "x.corrupt", "a\n", "é"])
def test_names_that_could_lead_elsewhere_are_refused(root: Path, cache: Path, name: str) -> None:
    with pytest.raises(ValueError, match="not a name"):
        Store(root, cache).path(name)


def test_a_damaged_index_is_moved_aside_and_built_again(root: Path, cache: Path, build_here: None) -> None:
    paths = write_files(root, {b"a": b"some text"})
    store = Store(root, cache)
    for _ in range(2):
        store.build("x", str(root), paths).close()
        with open(store.path("x") / LOOKUP, "r+b") as file:
            file.truncate(100)
        assert store.open("x") is None
        assert store.open("x") is None
        assert [stored.state for stored in listing(cache)] == ["corrupt"]
    assert store.build("x", str(root), paths).document_count == 1
    assert sorted(stored.state for stored in listing(cache)) == ["corrupt", "ready"]


def test_an_index_that_is_replaced_while_it_is_opened_is_not_taken_for_a_damaged_one(
    root: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, build_here: None
) -> None:
    paths = write_files(root, {b"a": b"some text"})
    store = Store(root, cache)
    store.build("c0ffee", str(root), paths)
    open_lookup = Index._open_lookup

    def replaced_before(index: Index, path: Path, postings: Header) -> None:
        monkeypatch.setattr(Index, "_open_lookup", open_lookup)
        write_files(root, {b"a": b"other text"})
        builder.build(str(root), paths, path.parent)
        open_lookup(index, path, postings)

    monkeypatch.setattr(Index, "_open_lookup", replaced_before)
    index = store.open("c0ffee")
    assert index is not None
    assert index.candidates(Literal(b"other")).count == 1
    assert [stored.state for stored in listing(cache)] == ["ready"]


def test_the_budget_takes_damaged_then_least_recently_used(
    root: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, build_here: None
) -> None:
    paths = write_files(root, {b"a": b"some text"})
    store = Store(root, cache)
    for name in ("old", "damaged", "new"):
        store.build(name, str(root), paths).close()
    size = next(stored.size for stored in listing(cache) if stored.name == "old")
    store.quarantine("damaged")
    past = time.time() - 1000
    os.utime(store.path("new") / "used", (past, past))
    os.utime(store.path("old") / "used", (past + 500, past + 500))
    opened = store.open("new")  # which makes it the most recently used
    assert opened is not None
    monkeypatch.setenv("INDEXGREP_CACHE_BUDGET", str(3 * size + 10))
    store.build("newer", str(root), paths).close()
    assert sorted((stored.name, stored.state) for stored in listing(cache)) == [
        ("new", "ready"),
        ("newer", "ready"),
        ("old", "ready"),
    ]
    monkeypatch.setenv("INDEXGREP_CACHE_BUDGET", str(2 * size + 10))
    Store(root.parent, cache).build("newest", str(root), paths).close()
    assert sorted(stored.name for stored in listing(cache)) == ["new", "newest"]  # the new one is in use
    opened.close()
    monkeypatch.setenv("INDEXGREP_CACHE_BUDGET", "1")
    store.build("only", str(root), paths).close()
    assert [stored.name for stored in listing(cache)] == ["only"]


def test_what_is_in_use_outlives_what_is_not(
    root: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, build_here: None
) -> None:
    """Segments are nothing special; a server that has them open for long says so now and then."""
    paths = write_files(root, {b"a": b"some text"})
    store = Store(root, cache)
    names = ["base", "segment-1-1", "segment-2-2", "other"]
    for age, name in enumerate(names):
        store.build(name, str(root), paths).close()
        os.utime(store.path(name) / "used", (1000 + age, 1000 + age))
    assert [stored.name for stored in store.stored()] == names[::-1]
    store.touch("base")
    store.touch("segment-2-2")
    store.touch("missing")
    monkeypatch.setenv("INDEXGREP_CACHE_BUDGET", str(3 * listing(cache)[0].size + 10))
    store.build("new", str(root), paths).close()
    assert sorted(stored.name for stored in store.stored()) == ["base", "new", "segment-2-2"]


def test_what_killed_builds_left_goes_in_every_repository(
    root: Path, cache: Path, tmp_path: Path, build_here: None
) -> None:
    """Nobody may ever build there again. But where somebody builds, it is his."""
    paths = write_files(root, {b"a": b"some text"})
    store, left, at_work = (Store(tmp_path / name, cache) for name in ("root", "left", "at-work"))
    for other in (left, at_work):
        other.build("x", str(root), paths).close()
        placing.temporary_name(other.path("segment-1-1")).mkdir()
        placing.temporary_name(other.directory / "origin").write_text("half")
    with at_work.lock():
        store.build("x", str(root), paths).close()
        assert len(os.listdir(at_work.directory)) == 5
    assert sorted(os.listdir(left.directory)) == ["lock", "origin", "x"]
    assert (left.directory / "origin").read_text() == str(tmp_path / "left")


def test_who_waits_for_the_lock_changes_nothing(root: Path, cache: Path) -> None:
    """What it wrote would be the holder's to remove."""
    with Store(root, cache).lock():
        (Store(root, cache).directory / "origin").unlink()
        with pytest.raises(IndexLocked), Store(root, cache).lock():
            pass
        assert os.listdir(Store(root, cache).directory) == ["lock"]


def test_a_damaged_origin_is_mended(root: Path, cache: Path, build_here: None) -> None:
    store = Store(root, cache)
    store.build("x", str(root), write_files(root, {b"a": b"text"})).close()
    for damage in (b"", b"/elsewhere"):
        (store.directory / "origin").write_bytes(damage)
        with Store.holding(store.path("x")).lock():  # which knows no better
            assert (store.directory / "origin").read_bytes() == damage
        with store.lock():
            assert listing(cache)[0].origin == str(root)


@pytest.mark.parametrize("exchange", [True, False])
def test_a_name_always_has_an_index_while_it_is_replaced(
    root: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, build_here: None, exchange: bool
) -> None:
    """The old one or the new one, where the system can exchange two directories; else for a moment none."""
    paths = write_files(root, {b"a": b"old text"})
    store = Store(root, cache)
    store.build("x", str(root), paths).close()
    if exchange and not placing._exchange(store.path("x"), store.path("x")):
        pytest.skip("this system cannot exchange two directories")
    write_files(root, {b"a": b"new text"})
    looks: list[int | None] = []

    def look() -> None:
        index = store.open("x")
        looks.append(None if index is None else index.candidates(Literal(b"new")).count)

    rename, sync = os.rename, placing._sync

    def look_and_rename(*names: Path) -> None:
        look()
        rename(*names)
        look()

    def look_and_sync(directory: Path) -> None:
        look()
        sync(directory)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", look_and_rename)
        patch.setattr(placing, "_sync", look_and_sync)
        if not exchange:
            patch.setattr(placing, "_exchange", lambda first, second: False)
        store.build("x", str(root), paths).close()
    assert looks == ([0, 1] if exchange else [0, 0, None, None, 1, 1])
    assert sorted(os.listdir(store.directory)) == ["lock", "origin", "x"]


def test_one_builder_at_a_time(root: Path, cache: Path, build_here: None) -> None:
    paths = write_files(root, {b"a": b"text"})
    store = Store(root, cache)
    script = textwrap.dedent(
        f"""
        import sys
        from pathlib import Path
        from indexgrep.index import Store
        with Store({str(root)!r}, Path({str(cache)!r})).lock():
            print("locked", flush=True)
            sys.stdin.read()
        """
    )
    other = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout is not None
    assert other.stdout.readline() == b"locked\n"
    with pytest.raises(IndexLocked, match=str(other.pid)):
        store.build("x", str(root), paths)
    Store(root.parent, cache).build("x", str(root), paths).close()  # another repository is not locked
    other.kill()
    other.communicate()
    store.build("x", str(root), paths).close()  # a lock dies with its holder


def test_a_cache_that_cannot_be_made(root: Path, tmp_path: Path, build_here: None) -> None:
    paths = write_files(root, {b"a": b"text"})
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(IndexFault, match="cannot write the index") as caught:
        Store(root, tmp_path / "file").build("x", str(root), paths)
    assert str(tmp_path / "file") in caught.value.message


@pytest.mark.parametrize(
    ("number", "hint"), [(errno.ENOSPC, "Free some space"), (errno.EROFS, "Make the directory writable")]
)
def test_a_disk_that_is_full_or_read_only(
    root: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, build_here: None, number: int, hint: str
) -> None:
    paths = write_files(root, {b"a": b"text"})
    store = Store(root, cache)
    store.build("x", str(root), paths).close()

    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    with monkeypatch.context() as patch:
        patch.setattr(writer, "_sync", fail)
        with pytest.raises(IndexFault, match=os.strerror(number)) as caught:
            store.build("x", str(root), paths)
    assert hint in caught.value.hint
    assert sorted(os.listdir(store.directory)) == ["lock", "origin", "x"]
    kept = store.open("x")
    assert kept is not None
    assert kept.document_count == 1


def test_a_full_disk_in_a_worker(root: Path, cache: Path) -> None:
    """A worker's fault reaches the user with its reason: here a file size limit stands for the full disk."""
    paths = write_files(root, {b"%d" % n: os.urandom(3000).replace(b"\0", b"x") for n in range(50)})
    script = textwrap.dedent(
        f"""
        import os, resource, signal
        from pathlib import Path
        from indexgrep.errors import IndexFault
        from indexgrep.index import Store
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        paths = sorted(os.fsencode(name) for name in os.listdir({str(root)!r}))
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        try:
            Store({str(root)!r}, Path({str(cache)!r})).build("x", {str(root)!r}, paths)
        except IndexFault as error:
            print(error.message)
        """
    )
    assert paths
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "cannot write the index" in result.stdout
    assert "File too large" in result.stdout
    assert sorted(os.listdir(Store(root, cache).directory)) == ["lock", "origin"]


def test_a_cache_that_is_only_readable_still_serves(root: Path, cache: Path, build_here: None) -> None:
    store = Store(root, cache)
    store.build("x", str(root), write_files(root, {b"a": b"text"})).close()
    os.unlink(store.path("x") / "used")
    os.mkdir(store.path("x") / "used")  # the stamp cannot be written, whoever runs this
    index = store.open("x")
    assert index is not None
    assert index.document_count == 1


def test_killed_builds_leave_nothing_that_matters(root: Path, cache: Path) -> None:
    """Kill a build at many moments; each time the store still works and the workers are gone."""
    source = Path(os.__file__).parent
    script = textwrap.dedent(
        f"""
        import os, sys
        from pathlib import Path
        from indexgrep.index import Store
        source = Path({str(source)!r})
        paths = sorted(os.fsencode(path.relative_to(source)) for path in source.glob("[a-m]*/*.py"))
        print("started", flush=True)
        Store({str(root)!r}, Path({str(cache)!r})).build("x", str(source), paths).close()
        """
    )
    store = Store(root, cache)
    leftovers = 0
    for delay in (0.0, 0.3, 0.6, 0.9, 1.2, 1.5, 2.0):
        process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(delay)
        workers = _children(process.pid)
        process.kill()
        process.communicate()
        deadline = time.monotonic() + 10
        while any(map(_is_running, workers)):
            assert time.monotonic() < deadline, "a worker outlived its builder"
            time.sleep(0.02)
        leftovers += any(stored.state == "building" for stored in listing(cache))
        index = store.open("x")
        assert index is None or index.document_count > 200
    assert leftovers
    paths = write_files(root, {b"a": b"some text"})
    index = store.build("x", str(root), paths)
    assert index.candidates(Literal(b"some text")).count == 1
    assert sorted(os.listdir(store.directory)) == ["lock", "origin", "x"]
    assert sorted(os.listdir(store.path("x"))) == [LOOKUP, POSTINGS, "used"]


def _children(process: int) -> list[int]:
    try:
        tasks = os.listdir(f"/proc/{process}/task")
        return [
            int(child)
            for task in tasks
            for child in Path(f"/proc/{process}/task/{task}/children").read_text().split()
        ]
    except FileNotFoundError:
        return []


def _is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
