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

import pytest

from indexgrep.errors import IndexFault, IndexLocked
from indexgrep.index import Index, Store, builder, listing, writer
from indexgrep.index.format import LOOKUP, POSTINGS, Header
from indexgrep.pattern.query import Literal
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
    assert abs(stored.used - time.time()) < 60
    store.remove("c0ffee")
    assert store.open("c0ffee") is None


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
    assert sorted(stored.name for stored in listing(cache)) == ["newer", "newest"]
    monkeypatch.setenv("INDEXGREP_CACHE_BUDGET", "1")
    store.build("only", str(root), paths).close()
    assert [stored.name for stored in listing(cache)] == ["only"]
    assert opened.candidates(Literal(b"some")).count == 1  # removed under its reader


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
