"""Merging indexes: the same bytes as a build of the same texts, whatever was joined, dropped, renumbered."""

from __future__ import annotations

import itertools
import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexgrep.errors import Cancelled, IndexCorrupt, IndexFault
from indexgrep.grams.frequent import Frequent
from indexgrep.index import Index, Source, SourceCorrupt, Store, Workers, kernels, worker
from indexgrep.index import merge as module
from indexgrep.index.builder import build
from indexgrep.index.format import BLOCK, CONTENT, LOOKUP, POSTINGS, read_header
from indexgrep.index.merge import key_ranges, merge
from indexgrep.index.stamps import read_stamps
from indexgrep.index.varint import decode_gaps
from indexgrep.index.writer import write_index
from indexgrep.tree.signature import SIGNATURE
from support.indexing import WorkersHere, write_files

#: What stands for some thousands of words: enough for gaps of two bytes and for bitmaps.
WORDS = [b"mutex_lock", b"struct device", b"return", b"\n", b"MAX_FILE_SIZE", b"aaaa", b"xyz"]
FLAGGED = [b"binary\0tail", "utf-16".encode("utf-16"), b"\xff\xfebad", b"\xef\xbb\xbfmarked", b""]


def files_of(directory: Path) -> list[bytes]:
    return [(directory / name).read_bytes() for name in (POSTINGS, LOOKUP)]


def all_of(index: Index) -> Source:
    count = index.document_count
    return Source(index, np.ones(count, np.bool_), np.zeros(count, SIGNATURE))


def signatures_of(count: int) -> npt.NDArray[np.void]:
    """Signatures that differ from one another."""
    signatures = np.zeros(count, SIGNATURE)
    signatures["inode"] = np.arange(count) + 1
    return signatures


class Tree:
    """Indexes of parts of one tree, in which texts have changed: what a merge must make of them."""

    def __init__(self, base: Path, texts: dict[bytes, list[bytes]], fraction: float) -> None:
        """``texts``: for each path the texts that it had one after another; the last one counts."""
        self.base = base
        self.root = base / "root"
        self.root.mkdir()
        self.texts = texts
        self.paths = write_files(self.root, {path: states[-1] for path, states in texts.items()})
        build(
            str(self.root),
            self.paths,
            base / "all",
            commit="c0ffee",
            fraction=fraction,
            workers=WorkersHere(),
            stamps_key="key",
        )
        self.all = Index(base / "all")

    def source(self, name: str, states: dict[bytes, int], keep: Sequence[bytes]) -> Source:
        """An index of some paths as they were, of which some documents are kept."""
        root = self.base / f"{name}.root"
        root.mkdir()
        paths = write_files(root, {path: self.texts[path][state] for path, state in states.items()})
        build(str(root), paths, self.base / name, workers=WorkersHere(), frequent=self.all.frequent)
        index = Index(self.base / name)
        shutil.rmtree(root)  # a merge reads no file
        signatures = np.zeros(len(paths), SIGNATURE)
        for number, path in enumerate(paths):
            signatures[number]["inode"] = 1 + self.paths.index(path)
        return Source(index, np.array([path in keep for path in paths], np.bool_), signatures)


@st.composite
def trees(draw: st.DrawFn) -> tuple[dict[bytes, list[bytes]], list[dict[bytes, int]]]:
    """Texts of paths, and for each source the paths that it has and in which state."""
    word = st.one_of(st.sampled_from(WORDS), st.binary(max_size=5))
    text = st.one_of(st.sampled_from(FLAGGED), st.lists(word, max_size=20).map(b" ".join))
    filler = draw(st.sampled_from([0, 0, 5, 300]))
    paths = draw(st.lists(st.binary(min_size=1, max_size=3).map(bytes.hex), max_size=12, unique=True))
    texts = {path.encode(): draw(st.lists(text, min_size=1, max_size=3)) for path in paths}
    texts |= {b"filler/%03d" % number: [WORDS[number % 5] * 3] for number in range(filler)}
    count = draw(st.integers(1, 4))
    sources: list[dict[bytes, int]] = [{} for _ in range(count)]
    last = draw(st.lists(st.integers(0, count - 1), min_size=len(texts), max_size=len(texts)))
    for (path, states), owner in zip(sorted(texts.items()), last, strict=True):
        sources[owner][path] = len(states) - 1  # the owner keeps the text that counts ...
        for state in range(len(states) - 1):  # ... and others have it as it was
            sources[draw(st.integers(0, count - 1))].setdefault(path, state)
    return texts, sources


@given(trees(), st.sampled_from([0.0, 0.02, 0.5]), st.data())
@settings(max_examples=60)
def test_a_merge_is_what_a_build_of_the_same_texts_is(
    tmp_path_factory: pytest.TempPathFactory,
    small_tables: None,
    drawn: tuple[dict[bytes, list[bytes]], list[dict[bytes, int]]],
    fraction: float,
    data: st.DataObject,
) -> None:
    texts, states = drawn
    tree = Tree(tmp_path_factory.mktemp("merge"), texts, fraction)
    dead = set(data.draw(st.lists(st.sampled_from(tree.paths)))) if tree.paths else set()
    sources = [
        tree.source(
            f"source{number}",
            some,
            [path for path, state in some.items() if state == len(texts[path]) - 1 and path not in dead],
        )
        for number, some in enumerate(states)
    ]
    kept = [path for path in tree.paths if path not in dead]
    build(
        str(tree.root),
        kept,
        tree.base / "built",
        commit="c0ffee",
        workers=WorkersHere(),
        frequent=tree.all.frequent,
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "RANGE", 300)
        patch.setattr(module, "_LEAST", 300)
        merge(sources, tree.base / "merged", commit="c0ffee", stamps_key="key", workers=WorkersHere())
    assert files_of(tree.base / "merged") == files_of(tree.base / "built")
    with closing(Index(tree.base / "merged")) as merged:
        stamps = read_stamps(tree.base / "merged", "key", merged)
        assert stamps is not None
        assert stamps["inode"].tolist() == [1 + tree.paths.index(path) for path in kept]
    for source in sources:
        source.index.close()
    tree.all.close()
    shutil.rmtree(tree.base)


@pytest.fixture
def small_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of the time of a very small build goes into clearing the table for a large one."""
    monkeypatch.setattr(worker, "TABLE_BITS", 17)


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Indexes of the Python standard library: of all of it, and of three parts that overlap."""
    base = tmp_path_factory.mktemp("library")
    source = Path(os.__file__).parent
    paths = sorted(os.fsencode(path.relative_to(source)) for path in source.glob("[a-m]*/*.py"))
    assert len(paths) > 200
    with closing(Workers()) as workers:
        build(str(source), paths, base / "all", workers=workers)
        with closing(Index(base / "all")) as everything:
            for part in range(3):
                build(
                    str(source),
                    [path for number, path in enumerate(paths) if (number + part) % 3],
                    base / f"part{part}",
                    workers=workers,
                    frequent=everything.frequent,
                )
    return base


@pytest.fixture
def parts(library: Path) -> Iterator[list[Source]]:
    """The parts, of which each path is kept once."""
    sources: list[Source] = []
    seen: set[bytes] = set()
    for part in range(3):
        index = Index(library / f"part{part}")
        paths = index.paths()
        keep = np.array([path not in seen for path in paths], np.bool_)
        seen.update(paths)
        sources.append(Source(index, keep, signatures_of(len(paths))))
    yield sources
    for source in sources:
        source.index.close()


@pytest.mark.parametrize("count", [1, 2])
def test_worker_processes_merge(
    tmp_path: Path, library: Path, parts: list[Source], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RANGE", 1 << 20)  # many tasks
    with closing(Workers(count)) as workers:
        for _ in range(2):  # the second time over what the first made, by processes that have done one
            merge(parts, tmp_path / "merged", workers=workers)
            assert files_of(tmp_path / "merged") == files_of(library / "all")
            assert len(workers.processes()) == count
        merge(parts[:1], tmp_path / "first", workers=workers)  # and another by the same
    assert not (tmp_path / "merged" / "stamps-").exists()
    with closing(Index(tmp_path / "first")) as first:
        assert first.paths() == parts[0].index.paths()


def test_indexes_of_everything_and_of_nothing(tmp_path: Path, library: Path) -> None:
    with closing(Index(library / "all")) as everything:
        whole = all_of(everything)
        merge([whole], tmp_path / "copy", workers=WorkersHere())
        assert files_of(tmp_path / "copy") == files_of(library / "all")
        nothing = Source(everything, np.zeros_like(whole.keep), whole.signatures)
        merge([nothing], tmp_path / "nothing", workers=WorkersHere())
        build(str(tmp_path), [], tmp_path / "built", frequent=everything.frequent)
        assert files_of(tmp_path / "nothing") == files_of(tmp_path / "built")
        with closing(Index(tmp_path / "nothing")) as empty:
            merge([all_of(empty), whole], tmp_path / "again", workers=WorkersHere())
        assert files_of(tmp_path / "again") == files_of(library / "all")


def test_the_merged_index_may_take_the_place_of_a_source(tmp_path: Path, parts: list[Source]) -> None:
    for source in parts[:2]:
        shutil.copytree(source.index.directory, tmp_path / source.index.directory.name)
    sources = [
        Source(Index(tmp_path / source.index.directory.name), source.keep, source.signatures)
        for source in parts[:2]
    ]
    merge(sources, tmp_path / "part0", workers=WorkersHere())
    with closing(Index(tmp_path / "part0")) as merged:
        assert merged.document_count == sum(int(source.keep.sum()) for source in sources)
    assert sorted(os.listdir(tmp_path)) == ["part0", "part1"]
    for source in sources:
        source.index.close()


def test_what_cannot_be_merged(tmp_path: Path, parts: list[Source]) -> None:
    destination = tmp_path / "merged"
    with pytest.raises(ValueError, match="nothing to merge"):
        merge([], destination)
    with pytest.raises(ValueError, match="kept twice"):
        merge([parts[0], all_of(parts[1].index)], destination)
    build(str(tmp_path), write_files(tmp_path, {b"zz": b"text"}), tmp_path / "other", workers=WorkersHere())
    with closing(Index(tmp_path / "other")) as other, pytest.raises(ValueError, match="frequent"):
        merge([parts[0], all_of(other)], destination)
    for short in (
        Source(parts[0].index, parts[0].keep[:-1], parts[0].signatures),
        Source(parts[0].index, parts[0].keep, parts[0].signatures[:-1]),
    ):
        with pytest.raises(ValueError, match="documents"):
            merge([short], destination, stamps_key="key")
    assert sorted(os.listdir(tmp_path)) == ["other", "zz"]


def copies(parts: list[Source], place: Path) -> list[Source]:
    """The same from another directory, to be damaged there."""
    copied = []
    for source in parts:
        directory = Path(shutil.copytree(source.index.directory, place / source.index.directory.name))
        copied.append(Source(Index(directory), source.keep, source.signatures))
    return copied


def test_a_damaged_source_is_named(tmp_path: Path, parts: list[Source]) -> None:
    """All that is read is verified, wherever the damage is; nothing is made of it."""
    sources = copies(parts, tmp_path / "sources")
    damaged = sources[1].index
    postings = damaged.directory / POSTINGS
    whole = postings.read_bytes()
    with open(postings, "rb") as file:
        _, starts, _ = read_header(file, POSTINGS, len(whole))
    first, contents = starts["lists"], starts["contents"]
    with closing(Workers(1)) as workers:
        for place in (first, first + 5 * BLOCK + 77, first + damaged.lists_size - 1, contents):
            with open(postings, "r+b") as file:
                file.seek(place)
                file.write(bytes([whole[place] ^ 1]))
            with pytest.raises(SourceCorrupt, match=r"is damaged: (a block|section contents)") as caught:
                merge(sources, tmp_path / "out" / "merged", workers=workers)
            assert caught.value.index is damaged
            assert str(damaged.directory) in caught.value.message
            assert not (tmp_path / "out").exists() or os.listdir(tmp_path / "out") == []
            with open(postings, "r+b") as file:
                file.write(whole)
        with open(postings, "r+b") as file:
            file.truncate(len(whole) - 64)
        with pytest.raises(SourceCorrupt) as caught:
            merge(sources, tmp_path / "out" / "merged", workers=workers)
        assert caught.value.index is damaged
        postings.write_bytes(whole)
        merge(sources, tmp_path / "out" / "merged", workers=workers)


def test_a_source_that_is_not_there_any_more(tmp_path: Path, parts: list[Source]) -> None:
    """The workers open the directory: it must still hold what was to be merged."""
    sources = copies(parts, tmp_path / "sources")
    directory = sources[2].index.directory
    shutil.rmtree(directory)
    with pytest.raises(IndexFault, match=r"cannot merge.*no index") as caught:
        merge(sources, tmp_path / "out" / "merged", workers=WorkersHere())
    assert not isinstance(caught.value, IndexCorrupt)
    shutil.copytree(parts[0].index.directory, directory)
    with pytest.raises(IndexFault, match="replaced") as caught:
        merge(sources, tmp_path / "out" / "merged", workers=WorkersHere())
    assert not isinstance(caught.value, IndexCorrupt)
    assert str(directory) in caught.value.message
    assert os.listdir(tmp_path / "out") == []


@pytest.mark.parametrize(
    ("lists", "lengths", "counts"),
    [
        (b"\x02\x00", [2], [3]),  # fewer documents than the table says
        (b"\x02\x00\x01", [3], [2]),  # more
        (b"\x00\xa3\x05", [3], [2]),  # a document that there is not
        (b"\x00\x80\x80", [3], [2]),  # a number without an end
        (b"\x00\x80\x80\x80\x80\x80\x00", [7], [2]),  # one that is too long
        (b"\x01" + bytes(36) + b"\x80", [38], [2]),  # a bit that stands for no document
        (b"\x07" + bytes(37), [38], [2]),  # more bits than the table says
    ],
)
def test_malformed_lists_with_the_right_hashes(
    tmp_path: Path, lists: bytes, lengths: list[int], counts: list[int]
) -> None:
    """A faulty writer's lists are found out before they can do harm."""
    (tmp_path / "lists").write_bytes(lists)
    (tmp_path / "index").mkdir()
    write_index(
        tmp_path / "index",
        commit="",
        paths=[b"%03d" % number for number in range(300)],
        contents=np.zeros(300, CONTENT),
        flags=np.zeros(300, np.uint8),
        text_sizes=np.zeros(300, np.uint64),
        frequent=Frequent.empty().bits,
        keys=np.array([77], np.uint32),
        lengths=np.array(lengths, np.uint32),
        counts=np.array(counts, np.uint32),
        lists=[tmp_path / "lists"],
        cancel=threading.Event(),
    )
    with closing(Index(tmp_path / "index")) as index, pytest.raises(SourceCorrupt, match="malformed"):
        merge([all_of(index)], tmp_path / "merged", workers=WorkersHere())


def test_progress(tmp_path: Path, parts: list[Source], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RANGE", 1 << 20)
    reports: list[dict[str, Any]] = []
    merge(parts, tmp_path / "merged", progress=reports.append, workers=WorkersHere())
    assert list(dict.fromkeys(report["phase"] for report in reports)) == ["merge", "write"]
    total = sum(source.index.lists_size for source in parts)
    kept = sum(int(source.keep.sum()) for source in parts)
    assert all(report["documents"] == report["documents_total"] == kept for report in reports)
    assert all(report["bytes_total"] == total for report in reports)
    read = [report["bytes"] for report in reports]
    assert read == sorted(read)
    assert (read[0], read[-1]) == (0, total)
    assert reports[-1]["eta_s"] == 0
    assert len(reports) > 5


@pytest.mark.parametrize("when", [("merge", 0), ("merge", 3), ("write", 0)])
def test_cancelling(
    tmp_path: Path, parts: list[Source], when: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "RANGE", 1 << 20)
    cancel = threading.Event()
    phases: list[str] = []

    def progress(report: dict[str, Any]) -> None:
        phases.append(report["phase"])
        if when == (report["phase"], phases.count(report["phase"]) - 1):
            cancel.set()

    with closing(Workers(2)) as workers:
        with pytest.raises(Cancelled):
            merge(
                parts,
                tmp_path / "out" / "merged",
                workers=workers,
                progress=progress,
                cancel=cancel,
            )
        assert os.listdir(tmp_path / "out") == []
        assert phases[-1] == when[0]
        assert phases.count("merge") < 8 or when[0] == "write"


def test_a_store_merges(tmp_path: Path, library: Path, parts: list[Source], build_here: None) -> None:
    store = Store(tmp_path, tmp_path / "cache")
    with closing(store.merge("x", parts, commit="c0ffee", stamps_key="key")) as index:
        assert index.commit == "c0ffee"
        assert read_stamps(index.directory, "key", index) is not None
        assert index.document_count == sum(int(source.keep.sum()) for source in parts)
    assert sorted(os.listdir(store.directory)) == ["lock", "origin", "x"]
    with store.lock(), pytest.raises(IndexFault, match="another process"):
        store.merge("x", parts)


# The compiled loop by itself, with numbers that would take a large tree.


def encoded(documents: npt.NDArray[np.int64], bitmap_bytes: int) -> tuple[bytes, int]:
    """A list in the form of the files, as the format says it, and its count in the table."""
    if len(documents) == 1:
        return b"", int(documents[0])
    gaps = np.diff(documents, prepend=-1) - 1
    groups = (gaps[:, None] >> np.arange(0, 35, 7)) & 127
    used = np.maximum.accumulate(groups[:, ::-1] > 0, axis=1)[:, ::-1]
    used[:, 0] = True
    more = np.append(used[:, 1:], np.zeros((len(used), 1), np.bool_), axis=1)
    out = (groups | (more << 7))[used].astype(np.uint8).tobytes()
    if len(out) < bitmap_bytes:
        return out, len(documents)
    bits = np.zeros(8 * bitmap_bytes, np.uint8)
    bits[documents] = 1
    return np.packbits(bits, bitorder="little").tobytes(), len(documents)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_joining_lists_of_many_documents(seed: int) -> None:
    random = np.random.default_rng(seed)
    total = int(random.choice([3, 9, 130, 20_000, 3_000_000]))
    sources = int(random.integers(1, 5))
    owners = random.integers(-1, sources, total)  # -1: nobody's; its number is not used
    kept = np.cumsum(owners >= 0) - 1
    held: list[npt.NDArray[np.int64]] = []  # for each source, where its documents are; dead ones between
    for source in range(sources):
        dead = np.flatnonzero((owners != source) & (random.random(total) < random.choice([0.0, 0.01, 0.5])))
        held.append(np.sort(np.concatenate([np.flatnonzero(owners == source), dead])))
    documents = int((owners >= 0).sum())
    tables: list[list[tuple[int, bytes, int]]] = [[] for _ in range(sources)]
    expected = []
    for key in range(0, 24, 3):
        share = random.choice([2 / total, 0.01, 0.2, 0.9])
        has = random.random(total) < share
        joined = []
        for source, places in enumerate(held):
            inside = np.flatnonzero(has[places])
            if len(inside) and random.random() < 0.8:
                data, count = encoded(inside, -(-len(places) // 8))
                tables[source].append((key, data, count))
                joined.append(places[inside][owners[places[inside]] == source])
        merged = kept[np.sort(np.concatenate(joined))] if joined else np.empty(0, np.int64)
        if len(merged):
            expected.append((key, *encoded(merged, -(-documents // 8))))
    lists, table, malformed = joined_by_kernel(tables, held, owners, kept, documents)
    assert malformed == -1
    ends = np.cumsum(table[1])
    found = [
        (key, lists[end - length : end].tobytes(), count)
        for key, length, count, end in zip(*table.tolist(), ends.tolist(), strict=True)
    ]
    assert found == expected


def joined_by_kernel(
    tables: list[list[tuple[int, bytes, int]]],
    held: list[npt.NDArray[np.int64]],
    owners: npt.NDArray[np.int64],
    kept: npt.NDArray[np.int64],
    documents: int,
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint32], int]:
    """The lists, and their keys, lengths and counts; and the number of the source that is malformed."""
    entries = [entry for table in tables for entry in table]
    numbers = [
        np.where(owners[places] == source, kept[places], -1).astype(np.int32)
        for source, places in enumerate(held)
    ]
    columns = np.empty((3, len(entries)), np.uint32)
    out = np.empty(10 * sum(len(places) for places in held) * 5 + 64, np.uint8)
    totals = np.zeros(2, np.int64)
    malformed = kernels.join(
        np.cumsum([0, *map(len, tables)]),
        np.array([key for key, _, _ in entries], np.uint32),
        np.array([len(data) for _, data, _ in entries], np.uint32),
        np.array([count for _, _, count in entries], np.uint32),
        np.frombuffer(b"".join(data for _, data, _ in entries), np.uint8),
        np.cumsum([0, *(sum(len(data) for _, data, _ in table) for table in tables)])[:-1],
        np.array([-(-len(places) // 8) for places in held], np.int64),
        np.cumsum([0, *map(len, held)]),
        np.concatenate(numbers),
        -(-documents // 8),
        np.empty(3 * documents, np.int32),
        columns[0],
        columns[2],
        columns[1],
        out,
        totals,
    )
    return out[: totals[1]], columns[:, : totals[0]], malformed


def test_ranges_of_keys(parts: list[Source]) -> None:
    """They cover all keys, and none holds much more than it should."""
    indexes = [source.index for source in parts]
    total = sum(index.lists_size + 12 * index.key_count for index in indexes)
    for size in (1 << 14, 1 << 18, 1 << 30):
        edges = key_ranges(indexes, size)
        assert (edges[0], edges[-1]) == (0, 1 << 32)
        assert edges == sorted(set(edges))
        assert len(edges) - 1 <= total // size + 2
        held = 0
        for low, high in itertools.pairwise(edges):
            stretches = [index.stretch(low, high) for index in indexes]
            inside = sum(len(part.lists) + 12 * len(part.keys) for part in stretches)
            most = max(int(np.diff(index.milestones()[1].astype(np.int64)).max()) for index in indexes)
            assert inside <= size + len(indexes) * (most + 64 * 12)
            held += inside
            for part in stretches:
                assert len(part.keys) == 0 or low <= part.keys[0] <= part.keys[-1] < high
                assert len(part.lists) == part.lengths.sum(dtype=np.int64)
        assert held == total


def test_a_stretch_has_the_lists_of_its_keys(parts: list[Source]) -> None:
    index = parts[0].index
    for low, high in ((0, 1 << 28), (12345678, 1 << 31), (1 << 31, 1 << 32), (5, 5)):
        part = index.stretch(low, high)
        ends = np.cumsum(part.lengths, dtype=np.int64)
        for place in range(0, len(part.keys), 97):
            (entry,) = index.entries([int(part.keys[place])])
            assert entry is not None
            if entry.length:
                data = part.lists[ends[place] - part.lengths[place] : ends[place]]
                assert data.tobytes() == index.read_list(entry).tobytes()
                if entry.length < index.bitmap_size:
                    assert np.array_equal(decode_gaps(data), index.documents_of(entry))
