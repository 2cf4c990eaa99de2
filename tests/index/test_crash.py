"""Killed before any change to the file system: what is there then is whole, old or new, and goes on to work.

Every action on the store is killed before its first change, its second, and so on to its end. No sync is
tested here: the machine goes on.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import traceback
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash

from indexgrep.errors import IndexFault, IndexLocked
from indexgrep.grams.frequent import Frequent
from indexgrep.index import Index, Store, listing, placing, worker
from indexgrep.index.format import LOOKUP
from indexgrep.index.merge import Source
from indexgrep.index.stamps import read_stamps, write_stamps
from indexgrep.pattern.query import Literal
from indexgrep.tree.signature import SIGNATURE
from support.crash import killed_at, kills
from support.indexing import write_files

KEY = "0123456789abcdef"
BASE, SEGMENT = "c0ffee", "segment-01234567-00ff00ff"
OLD = {b"%d" % number: b"old text number %d" % number for number in range(10)}
NEW = {b"%d" % number: b"new text number %d" % number for number in range(12)}
SMALL = {b"3": b"changed text"}
JOINED = OLD | SMALL


def contents_of(files: dict[bytes, bytes]) -> tuple[list[bytes], list[bytes]]:
    """The paths and the content ids of an index of ``files``."""
    return sorted(files), [xxhash.xxh3_128_digest(files[path]) for path in sorted(files)]


class Place:
    """A cache that actions are killed in, and the files that it is of."""

    def __init__(self, top: Path) -> None:
        self.cache = top / "cache"
        self.store = Store(top / "origin", self.cache)
        self._pristine = top / "pristine"
        self._files: dict[int, tuple[str, list[bytes]]] = {}
        for number, files in enumerate((OLD, NEW, SMALL)):
            root = top / f"files{number}"
            self._files[id(files)] = (str(root), write_files(root, files))

    def build(self, name: str, files: dict[bytes, bytes], **options: Any) -> Index:
        return self.store.build(name, *self._files[id(files)], stamps_key=KEY, **options)

    def keep(self) -> None:
        """Make what the cache is now its state before each time an action is killed."""
        shutil.copytree(self.cache, self._pristine)

    def restore(self) -> None:
        shutil.rmtree(self.cache, ignore_errors=True)
        if self._pristine.exists():
            shutil.copytree(self._pristine, self.cache)

    def killed(self, action: Callable[[], object], *, writes: bool = True) -> Iterator[int]:
        return kills(action, below=self.cache, prepare=self.restore, writes=writes)

    def holds(self, name: str) -> dict[bytes, bytes] | None:
        """The files that the index ``name`` is of, having checked that it is whole."""
        index = self.store.open(name)
        if index is None:
            return None
        texts = [content.tobytes() for content in index.contents_of(np.arange(index.document_count))]
        (files,) = [
            files for files in (OLD, NEW, SMALL, JOINED) if contents_of(files) == (index.paths(), texts)
        ]
        for word in (b"old", b"new", b"changed", b"text"):
            found = index.candidates(Literal(word + b" text" if word != b"text" else word)).documents
            assert found is not None
            assert index.paths_of(found) == [path for path in sorted(files) if word in files[path]]
        stamps = read_stamps(index.directory, KEY, index)
        assert stamps is None or len(stamps) == len(files)
        return files

    def contents(self) -> dict[str, list[str]]:
        """All names in the repository's folder, and what is in each directory."""
        return {
            path.name: sorted(os.listdir(path)) if path.is_dir() else []
            for path in self.store.directory.iterdir()
        }


WHOLE = ["lookup", "postings", f"stamps-{KEY}", "used"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, build_here: None) -> Place:
    monkeypatch.setattr(worker, "TABLE_BITS", 12)  # which is quicker, as are the next
    monkeypatch.setattr(worker, "RUN_POSTINGS", 1 << 16)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    return Place(tmp_path)


def states(place: Place) -> set[tuple[str, str]]:
    return {(stored.name, stored.state) for stored in listing(place.cache)}


def test_the_first_build_of_a_repository(place: Place) -> None:
    seen = set()
    for number in place.killed(lambda: place.build(BASE, OLD)):
        seen |= states(place)
        found = place.holds(BASE)
        assert found in (None, OLD), number
        assert "corrupt" not in {state for _, state in states(place)}, number
        place.build(BASE, NEW).close()
        assert place.holds(BASE) is NEW
        assert place.contents() == {"lock": [], "origin": [], BASE: WHOLE}, number
        assert [stored.origin for stored in listing(place.cache)] == [place.store._origin]
    assert seen == {(BASE, "building"), (BASE, "ready")}
    assert place.holds(BASE) is OLD  # the last time it was not killed


def test_a_build_that_replaces_one(place: Place) -> None:
    place.build(BASE, OLD).close()
    place.build(SEGMENT, SMALL).close()
    place.keep()
    seen = []
    for number in place.killed(lambda: place.build(BASE, NEW)):
        found = place.holds(BASE)
        seen.append(found)
        assert found in (OLD, NEW), number  # where directories cannot be exchanged, perhaps none
        assert place.holds(SEGMENT) is SMALL, number
        assert "corrupt" not in {state for _, state in states(place)}, number
        place.build(BASE, NEW).close()
        assert place.contents() == {"lock": [], "origin": [], BASE: WHOLE, SEGMENT: WHOLE}, number
    assert seen[0] is OLD
    assert seen[-1] is NEW
    assert seen == sorted(seen, key=lambda found: found is NEW)


def test_replacing_where_directories_cannot_be_exchanged(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is a moment with no index then, and no other difference."""
    place.build(BASE, OLD).close()
    place.keep()
    monkeypatch.setattr(placing, "_exchange", lambda *_: False)
    seen = []
    for number in place.killed(lambda: place.build(BASE, NEW), writes=False):
        seen.append(place.holds(BASE))
        place.build(BASE, NEW).close()
        assert place.contents() == {"lock": [], "origin": [], BASE: WHOLE}, number
    assert seen.count(None) == 1
    between = seen.index(None)
    assert all(found is OLD for found in seen[:between])
    assert all(found is NEW for found in seen[between + 1 :])


def test_a_segment(place: Place) -> None:
    """It has the frequent set of the base, and leaves the base as it is."""
    base = place.build(BASE, OLD)
    frequent = Frequent(np.array(base.frequent.bits))
    place.keep()
    seen = []
    for number in place.killed(lambda: place.build(SEGMENT, SMALL, frequent=frequent), writes=False):
        seen.append(place.holds(SEGMENT))
        assert seen[-1] in (None, SMALL), number
        assert place.holds(BASE) is OLD, number
        assert "corrupt" not in {state for _, state in states(place)}, number
        other = SEGMENT[:-1] + "0"
        place.build(other, SMALL, frequent=frequent).close()
        assert place.holds(other) is SMALL
        left = {} if seen[-1] is None else {SEGMENT: WHOLE}
        assert place.contents() == {"lock": [], "origin": [], BASE: WHOLE, other: WHOLE} | left, number
    assert seen[0] is None
    assert seen[-1] is SMALL


def test_joining_a_segment_with_the_base(place: Place) -> None:
    """Compaction: a new base of the documents of both, which the old ones outlive until it is there."""
    base = place.build(BASE, OLD)
    place.build(SEGMENT, SMALL, frequent=Frequent(np.array(base.frequent.bits))).close()
    place.keep()

    def join() -> None:
        layers = [place.store.open(name) for name in (SEGMENT, BASE)]
        sources = [
            Source(
                index, np.array([path not in SMALL or index is layers[0] for path in index.paths()]), stamps
            )
            for index in layers
            if index is not None and (stamps := read_stamps(index.directory, KEY, index)) is not None
        ]
        assert len(sources) == 2
        place.store.merge(BASE, sources, stamps_key=KEY).close()
        place.store.remove(SEGMENT)

    seen = []
    for number in place.killed(join, writes=False):
        seen.append((place.holds(BASE), place.holds(SEGMENT)))
        assert seen[-1] in ((OLD, SMALL), (JOINED, SMALL), (JOINED, None)), number
        assert "corrupt" not in {state for _, state in states(place)}, number
        place.build("another", SMALL).close()
        left = {} if seen[-1][1] is None else {SEGMENT: WHOLE}
        assert place.contents() == {"lock": [], "origin": [], BASE: WHOLE, "another": WHOLE} | left, number
    assert seen[0] == (OLD, SMALL)
    assert (JOINED, SMALL) in seen
    assert seen[-1] == (JOINED, None)


def test_writing_stamps(place: Place) -> None:
    index = place.build(BASE, OLD)
    place.keep()
    before = read_stamps(index.directory, KEY, index)
    assert before is not None
    after = np.ones(len(OLD), SIGNATURE)
    seen = []
    for number in place.killed(lambda: write_stamps(index.directory, KEY, index.identity, after)):
        again = place.store.open(BASE)
        assert again is not None
        stamps = read_stamps(again.directory, KEY, again)
        assert stamps is not None
        seen.append(stamps.tobytes())
        assert seen[-1] in (before.tobytes(), after.tobytes()), number
        place.build(SEGMENT, SMALL).close()  # any build tidies up
        assert place.contents()[BASE] == WHOLE, number
    assert len(seen) > 2
    assert seen[0] == before.tobytes()


def test_removing(place: Place) -> None:
    place.build(BASE, OLD).close()
    place.build(SEGMENT, SMALL).close()
    place.keep()
    seen = []
    for number in place.killed(lambda: place.store.remove(SEGMENT)):
        seen.append(place.holds(SEGMENT))
        assert seen[-1] in (SMALL, None), number
        assert place.holds(BASE) is OLD
        assert "corrupt" not in {state for _, state in states(place)}, number
        place.build(BASE, NEW).close()
        left = {} if seen[-1] is None else {SEGMENT: WHOLE}
        assert place.contents() == {"lock": [], "origin": [], BASE: WHOLE} | left, number
    assert seen[0] is SMALL
    assert seen[-1] is None
    assert place.holds(SEGMENT) is None


def test_moving_a_damaged_index_aside(place: Place) -> None:
    for _ in range(2):  # so that there is one aside already
        place.build(BASE, OLD).close()
        with open(place.store.path(BASE) / LOOKUP, "r+b") as file:
            file.truncate(100)
        place.store.open(BASE)
    place.build(SEGMENT, SMALL).close()
    place.build(BASE, OLD).close()
    with open(place.store.path(BASE) / LOOKUP, "r+b") as file:
        file.truncate(100)
    place.keep()
    for number in place.killed(lambda: place.store.open(BASE)):
        assert place.holds(BASE) is None, number
        assert place.holds(SEGMENT) is SMALL
        place.build(BASE, NEW).close()
        assert place.holds(BASE) is NEW
        assert sorted(place.contents()) == sorted(["lock", "origin", BASE, SEGMENT, f"{BASE}.corrupt"]), (
            number
        )


def test_keeping_to_the_budget(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes is gone as a whole, and what is left of it goes with the next build."""
    names = ["a", "b", "c"]
    for number, name in enumerate(names):
        place.build(name, OLD).close()
        os.utime(place.store.path(name) / "used", (1000 + number, 1000 + number))
    size = max(stored.size for stored in listing(place.cache))
    place.keep()
    monkeypatch.setenv("INDEXGREP_CACHE_BUDGET", str(2 * size + 10))
    seen = set()
    for number in place.killed(lambda: place.build(BASE, OLD), writes=False):
        held = [name for name in [*names, BASE] if place.holds(name) is not None]
        seen.add(tuple(held))
        assert "corrupt" not in {state for _, state in states(place)}, number
        place.build(BASE, OLD).close()
        assert BASE in place.contents(), number
        assert len(place.contents()) == 4, number  # two indexes, the lock and the origin
    assert seen == {("a", "b", "c"), ("a", "b", "c", BASE), ("b", "c", BASE), ("c", BASE)}


def test_several_processes_at_once_some_of_them_killed(
    place: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each builds, joins, replaces and removes the indexes of all, and looks at them in between."""
    size = place.build(BASE, NEW).document_count * 1000 + os.stat(place.store.path(BASE) / LOOKUP).st_size
    monkeypatch.setenv("INDEXGREP_CACHE_BUDGET", str(4 * size))  # which they exceed now and then
    fork = multiprocessing.get_context("fork")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # as in ``support.crash``
        racers = [fork.Process(target=race, args=(place, tmp_path / f"{n}.txt", n)) for n in range(3)]
        for racer in racers:
            racer.start()
    for racer in racers:
        racer.join()
    assert [racer.exitcode for racer in racers] == [0, 0, 0]
    complaints = "\n".join(path.read_text() for path in tmp_path.glob("*.txt"))
    assert not complaints, complaints
    place.build(BASE, OLD).close()
    assert place.holds(BASE) is OLD
    assert {state for _, state in states(place)} == {"ready"}
    assert set().union(*place.contents().values()) <= {*WHOLE, "used"}


def race(place: Place, complaints: Path, seed: int) -> None:
    """One process's part; what goes wrong is written to ``complaints``."""
    try:
        random = np.random.default_rng(seed)
        for _ in range(RACES):
            action = deed(place, random)
            number = int(random.integers(1, 90))
            killed_at(action, number if random.random() < 0.7 else 10**6, below=place.cache)
            for stored in place.store.stored():
                place.holds(stored.name)
            assert "corrupt" not in {state for _, state in states(place)}
    except BaseException:
        complaints.write_text(traceback.format_exc())


def deed(place: Place, random: np.random.Generator) -> Callable[[], None]:
    """Something to do. What others do at the same time may get in its way, with an error that says so."""
    name = str(random.choice([BASE, "other", SEGMENT]))
    files = (OLD, NEW, SMALL)[random.integers(3)]
    what = random.integers(5)

    def do() -> None:
        with contextlib.suppress(IndexLocked):
            if what < 2:
                place.build(name, files).close()
                return
            index = place.store.open(name)
            if index is None:
                return
            if what == 2:
                place.store.remove(name)
            elif what == 3:
                with contextlib.suppress(OSError):  # it was replaced or removed
                    stamps = np.ones(index.document_count, SIGNATURE)
                    write_stamps(index.directory, KEY, index.identity, stamps)
            else:
                keep = np.ones(index.document_count, np.bool_)
                source = Source(index, keep, np.zeros(len(keep), SIGNATURE))
                try:
                    place.store.merge("joined", [source], stamps_key=KEY).close()
                except IndexFault as error:
                    if not error.message.startswith("cannot merge"):  # the source was removed
                        raise

    return do


#: What each of the processes does.
RACES = 60
