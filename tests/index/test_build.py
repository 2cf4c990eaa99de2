"""Building and reading back: whatever the documents, a candidate is never missing."""

from __future__ import annotations

import os
import stat
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from indexgrep.errors import Cancelled
from indexgrep.fold import fold
from indexgrep.grams.frequent import Frequent
from indexgrep.index import Index, Workers, worker
from indexgrep.index.builder import build
from indexgrep.index.documents import TextBuffer
from indexgrep.index.format import (
    BAD_ENCODING,
    BINARY,
    CHANGED,
    LOOKUP,
    NOT_INDEXED,
    POSTINGS,
    TOO_LARGE,
    UNREADABLE,
    UTF16,
)
from indexgrep.index.stamps import read_stamps
from indexgrep.pattern.query import And, Literal, Or, Query
from indexgrep.tree.signature import NO_SIGNATURE, signature_of
from support.indexing import WorkersHere, true_documents, write_files


def stamps_of(index: Index) -> npt.NDArray[np.void]:
    stamps = read_stamps(index.directory, "key", index)
    assert stamps is not None
    return stamps


WORDS = [
    b"mutex_lock",
    b"struct ",
    b"return",
    b"\n",
    b"  ",
    b"MAX_FILE_SIZE",
    b"ab",
    b"k",
    b"\xe2\x84\xaa",
    b"aaaa",
]


def documents() -> st.SearchStrategy[list[bytes]]:
    text = st.lists(st.one_of(st.sampled_from(WORDS), st.binary(max_size=5)), max_size=25).map(b"".join)
    return st.lists(text.map(lambda text: text.replace(b"\0", b"0")), max_size=12)


@given(documents(), st.sampled_from([0.0, 0.02, 0.5]), st.data())
@settings(max_examples=40)
def test_every_document_that_satisfies_a_query_is_a_candidate(
    tmp_path_factory: pytest.TempPathFactory, texts: list[bytes], fraction: float, data: st.DataObject
) -> None:
    root = tmp_path_factory.mktemp("documents")
    paths = write_files(root, {b"%03d" % number: text for number, text in enumerate(texts)})
    build(str(root), paths, root / "index", fraction=fraction, workers=WorkersHere())
    index = Index(root / "index")
    assert index.paths() == paths
    assert_sound(index, texts, data)
    index.close()


def frequent_sets() -> st.SearchStrategy[Frequent]:
    """Sets of any size, from nothing to everything."""
    bits = st.integers(0, 13).flatmap(lambda size: st.binary(min_size=1 << size, max_size=1 << size))
    return st.one_of(
        st.sampled_from([Frequent.empty(), Frequent.full()]),
        bits.map(lambda data: Frequent(np.frombuffer(data, np.uint8))),
        st.tuples(st.integers(0, 20), st.integers(0, 99), st.floats(0, 1)).map(
            lambda drawn: Frequent(
                np.packbits(np.random.default_rng(drawn[1]).random(8 << drawn[0]) < drawn[2])
            )
        ),
    )


@given(documents(), frequent_sets(), st.data())
@settings(max_examples=60)
def test_the_same_with_any_frequent_set(
    tmp_path_factory: pytest.TempPathFactory, texts: list[bytes], frequent: Frequent, data: st.DataObject
) -> None:
    """Segments are made with the set of another index, which fits their texts by chance only."""
    root = tmp_path_factory.mktemp("documents")
    paths = write_files(root, {b"%03d" % number: text for number, text in enumerate(texts)})
    build(str(root), paths, root / "index", frequent=frequent, workers=WorkersHere())
    index = Index(root / "index")
    assert index.frequent.bits.tobytes() == frequent.bits.tobytes()
    assert_sound(index, texts, data)
    index.close()


def assert_sound(index: Index, texts: list[bytes], data: st.DataObject) -> None:
    """Ask an index of ``texts`` some queries."""
    stripped = [text.removeprefix(b"\xef\xbb\xbf") for text in texts]
    for _ in range(8):
        query = data.draw(queries([fold(text) for text in texts]))
        found = index.candidates(query)
        true = true_documents(stripped, query)
        assert found.documents is None or true <= set(found.documents.tolist())
        assert found.count <= len(texts)


def queries(folded: list[bytes]) -> st.SearchStrategy[Query]:
    """Trees of literals, most of them cut out of the texts."""
    cut = st.tuples(st.sampled_from(folded or [b""]), st.integers(0, 80), st.integers(3, 20)).map(
        lambda picked: picked[0][picked[1] : picked[1] + picked[2]]
    )
    literal = st.one_of(cut, st.sampled_from([fold(word) for word in WORDS])).map(Literal)
    return st.recursive(
        literal,
        lambda inner: st.one_of(
            st.lists(inner, min_size=2, max_size=4).map(lambda children: And(tuple(children))),
            st.lists(inner, min_size=2, max_size=4).map(lambda children: Or(tuple(children))),
        ),
        max_leaves=6,
    )


def test_worker_processes_build_what_this_process_builds(tmp_path: Path) -> None:
    """One worker, two workers and none give the same bytes."""
    source = Path(os.__file__).parent
    paths = sorted(os.fsencode(path.relative_to(source)) for path in source.glob("[a-m]*/*.py"))
    assert len(paths) > 200
    for count in (1, 2):
        with closing(Workers(count)) as workers:
            build(
                str(source),
                paths,
                tmp_path / f"by{count}",
                commit="c0ffee",
                workers=workers,
                stamps_key="key",
            )
    build(str(source), paths, tmp_path / "by0", commit="c0ffee", workers=WorkersHere())
    for name in (POSTINGS, LOOKUP):
        files = [(tmp_path / f"by{count}" / name).read_bytes() for count in range(3)]
        assert files[0] == files[1] == files[2]
    index = Index(tmp_path / "by2")
    assert index.commit == "c0ffee"
    stamps = stamps_of(index)
    for number in range(0, len(paths), 7):
        status = os.stat(source / os.fsdecode(paths[number]))
        assert tuple(stamps[number].tolist()) == signature_of(status)
        content = (source / os.fsdecode(paths[number])).read_bytes()
        assert index.contents_of(np.array([number]))[0].tobytes() == xxhash.xxh3_128_digest(content)
        assert index.text_sizes[number] == status.st_size
    texts = [(source / os.fsdecode(path)).read_bytes() for path in paths]
    for text in (b"import os", b"def __init__(self", b"deprecated", b"collections.abc", b"no such text here"):
        found = index.candidates(Literal(text)).documents
        assert found is not None
        true = true_documents(texts, Literal(text))
        assert true <= set(found.tolist())
        assert len(found) <= 2 * len(true) + 10


def test_runs_that_fill_up_in_the_middle_of_a_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, build_here: None
) -> None:
    random = np.random.default_rng(1)
    files = {b"%d" % n: bytes(random.integers(32, 127, 200_000, np.uint8)) for n in range(6)}
    files[b"7"] = files[b"3"]
    paths = write_files(tmp_path, files)
    build(str(tmp_path), paths, tmp_path / "index")
    monkeypatch.setattr(worker, "TABLE_BITS", 17)
    monkeypatch.setattr(worker, "RUN_POSTINGS", 80_000)
    build(str(tmp_path), paths, tmp_path / "small-runs")
    for name in (POSTINGS, LOOKUP):
        assert (tmp_path / "index" / name).read_bytes() == (tmp_path / "small-runs" / name).read_bytes()


@pytest.mark.parametrize("count", [0, 1, 2, 9])
def test_few_documents(tmp_path: Path, count: int, build_here: None) -> None:
    paths = write_files(tmp_path, {b"file%d" % number: b"text number %d" % number for number in range(count)})
    build(str(tmp_path), paths, tmp_path / "index")
    index = Index(tmp_path / "index")
    assert index.document_count == count
    assert index.candidates(Literal(b"text number")).count == count
    assert index.candidates(Literal(b"no such")).count == 0
    assert index.find(b"file0") == (0 if count else None)
    assert index.find(b"file") is None
    assert index.find(b"zzz") is None


def test_empty_documents_only(tmp_path: Path, build_here: None) -> None:
    paths = write_files(tmp_path, {b"a": b"", b"b": b"x", b"c": b"xy"})
    build(str(tmp_path), paths, tmp_path / "index")
    index = Index(tmp_path / "index")
    assert (index.document_count, index.key_count) == (3, 0)
    assert index.candidates(Literal(b"xyz")).count == 0


def test_paths(tmp_path: Path, build_here: None) -> None:
    names = [
        b"a/b",
        b"a-b",
        b"a.b/c",
        b"\xff\xfe",
        b"new\nline",
        b":12:",
        b"sp ace",
        "ü/é".encode(),
        b"a/b c/(d)",
    ]
    paths = write_files(tmp_path, dict.fromkeys(names, b"some text"))
    build(str(tmp_path), paths, tmp_path / "index")
    index = Index(tmp_path / "index")
    assert index.paths() == paths == sorted(names)
    for number, path in enumerate(paths):
        assert index.path(number) == path
        assert index.find(path) == number
    assert index.paths_of(np.array([3, 0])) == [paths[3], paths[0]]
    assert index.paths_of([]) == []
    assert index.locate([b"a/b", b"nowhere", b"a-b"]).tolist() == [
        paths.index(b"a/b"),
        -1,
        paths.index(b"a-b"),
    ]
    many = [*paths, *(b"other%d" % number for number in range(2000))]
    assert index.locate(many).tolist() == [*range(len(paths)), *[-1] * 2000]
    assert not len(index.unindexed)


def test_paths_out_of_order_are_refused(tmp_path: Path) -> None:
    for paths in ([b"b", b"a"], [b"a", b"a"]):
        with pytest.raises(ValueError, match="ascending"):
            build(str(tmp_path), paths, tmp_path / "index")


def test_encodings(tmp_path: Path, build_here: None) -> None:
    text = "grüße an alle, mutex_lock\n"
    files = {
        b"be": b"\xfe\xff" + text.encode("utf-16-be"),
        b"bom": b"\xef\xbb\xbf" + text.encode(),
        b"broken": b"\xff\xfe\x00\xd8" + text.encode("utf-16-le"),
        b"latin": text.encode("latin-1"),
        b"le": b"\xff\xfe" + text.encode("utf-16-le"),
        b"odd": b"\xff\xfe" + text.encode("utf-16-le") + b"x",
        b"plain": text.encode(),
    }
    paths = write_files(tmp_path, files)
    build(str(tmp_path), paths, tmp_path / "index")
    index = Index(tmp_path / "index")
    flags = dict(zip(paths, index.flags.tolist(), strict=True))
    assert flags == {
        b"be": UTF16,
        b"bom": 0,
        b"broken": NOT_INDEXED | BAD_ENCODING,
        b"latin": 0,
        b"le": UTF16,
        b"odd": NOT_INDEXED | BAD_ENCODING,
        b"plain": 0,
    }
    assert index.paths_of(index.unindexed) == [b"broken", b"odd"]
    sought = index.candidates(Literal("grüße".encode())).documents
    assert sought is not None
    assert index.paths_of(sought) == [b"be", b"bom", b"broken", b"le", b"odd", b"plain"]
    assert index.candidates(Literal(b"mutex_lock")).count == len(files)


def test_binary_files_are_indexed_up_to_the_first_nul(tmp_path: Path, build_here: None) -> None:
    paths = write_files(
        tmp_path, {b"binary": b"head of it\0tail of it", b"head": b"head of it", b"other": b"nothing"}
    )
    build(str(tmp_path), paths, tmp_path / "index")
    index = Index(tmp_path / "index")
    assert index.flags.tolist() == [BINARY, 0, 0]
    assert index.binary.tolist() == [0]

    def found(text: bytes, after_nul: bool) -> list[int]:
        documents = index.candidates(Literal(text), after_nul=after_nul).documents
        assert documents is not None
        return documents.tolist()  # type: ignore[no-any-return]

    assert found(b"head of", False) == [0, 1]
    assert found(b"tail of", False) == []
    assert found(b"tail of", True) == [0]
    assert found(b"nothing", True) == [0, 2]


def test_what_cannot_be_read_is_a_candidate_of_every_query(tmp_path: Path, build_here: None) -> None:
    paths = write_files(tmp_path, {b"a": b"some text", b"large": b""})
    os.truncate(tmp_path / "large", (64 << 20) + 1)
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("a")
    paths = sorted([*paths, b"fifo", b"folder", b"gone", b"link"])
    build(str(tmp_path), paths, tmp_path / "index", stamps_key="key")
    index = Index(tmp_path / "index")
    flags = dict(zip(paths, index.flags.tolist(), strict=True))
    unreadable = NOT_INDEXED | UNREADABLE
    assert flags == {
        b"a": 0,
        b"fifo": unreadable,
        b"folder": unreadable,
        b"gone": unreadable,
        b"large": NOT_INDEXED | TOO_LARGE,
        b"link": unreadable,
    }
    found = index.candidates(Literal(b"no such text")).documents
    assert found is not None
    assert index.paths_of(found) == [path for path in paths if path != b"a"]
    assert tuple(stamps_of(index)[paths.index(b"gone")].tolist()) == NO_SIGNATURE
    contents = [content.tobytes() for content in index.contents_of(np.arange(len(paths)))]
    assert contents == [xxhash.xxh3_128_digest(b"some text"), *[bytes(16)] * 5]


def test_a_file_that_changes_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"some text")
    real = os.readv

    def readv(descriptor: int, buffers: Any) -> int:
        count = real(descriptor, buffers)
        with open(path, "ab") as file:
            file.write(b"!")
        return count

    monkeypatch.setattr(os, "readv", readv)
    text = TextBuffer(10).read(os.fsencode(path))
    assert text.flags == NOT_INDEXED | CHANGED
    assert text.signature == NO_SIGNATURE


def test_a_text_buffer_grows_and_keeps_what_it_has(tmp_path: Path) -> None:
    buffer = TextBuffer(4)
    texts = [bytes([65 + number]) * (number * 7) for number in range(10)]
    for number, text in enumerate(texts):
        (tmp_path / str(number)).write_bytes(text)
    found = [buffer.read(os.fsencode(tmp_path / str(number))) for number in range(10)]
    assert [bytes(buffer.data[text.start : text.start + text.size]) for text in found] == texts


def test_what_the_working_tree_lacks_comes_from_read_blob(tmp_path: Path, build_here: None) -> None:
    paths = write_files(tmp_path, {b"here": b"text on disk"})

    def read_blob(path: bytes) -> bytes | None:
        return b"text in the store" if path == b"stored" else None

    paths = sorted([*paths, b"stored", b"gone"])
    build(str(tmp_path), paths, tmp_path / "index", read_blob=read_blob, stamps_key="key")
    index = Index(tmp_path / "index")
    assert index.flags.tolist() == [NOT_INDEXED | UNREADABLE, 0, 0]
    assert tuple(stamps_of(index)[2].tolist()) == NO_SIGNATURE
    assert index.contents_of(np.array([2]))[0].tobytes() == xxhash.xxh3_128_digest(b"text in the store")
    found = index.candidates(Literal(b"in the store")).documents
    assert found is not None
    assert index.paths_of(found) == [b"gone", b"stored"]


def test_an_index_made_with_the_frequent_set_of_another(tmp_path: Path, build_here: None) -> None:
    """With the set of the same files it is the same index, and no file is read to find the set."""
    random = np.random.default_rng(3)
    words = [bytes(random.integers(97, 123, 9, np.uint8)) for _ in range(300)]
    files = {
        b"%03d" % n: b" ".join(words[n] for n in random.integers(0, len(words), 200)) for n in range(100)
    }
    paths = write_files(tmp_path, files)
    build(str(tmp_path), paths, tmp_path / "first")
    frequent = Index(tmp_path / "first").frequent
    assert frequent.bits.any()
    reports: list[dict[str, Any]] = []
    build(str(tmp_path), paths, tmp_path / "second", frequent=frequent, progress=reports.append)
    assert [report["phase"] for report in reports if report["phase"] == "sample"] == []
    for name in (POSTINGS, LOOKUP):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()
    build(str(tmp_path), [], tmp_path / "nothing", frequent=frequent)
    assert Index(tmp_path / "nothing").frequent.bits.tobytes() == frequent.bits.tobytes()


def test_progress(tmp_path: Path) -> None:
    files = {b"%04d" % number: b"line of text %d\n" % number * 100 for number in range(600)}
    reports: list[dict[str, Any]] = []
    build(str(tmp_path), write_files(tmp_path, files), tmp_path / "index", progress=reports.append)
    total = sum(map(len, files.values()))
    assert list(dict.fromkeys(report["phase"] for report in reports)) == [
        "sample",
        "extract",
        "merge",
        "write",
    ]
    assert all(report["documents_total"] == 600 and report["bytes_total"] == total for report in reports)
    assert [report["documents"] for report in reports] == sorted(report["documents"] for report in reports)
    assert (reports[-1]["documents"], reports[-1]["bytes"]) == (600, total)
    assert reports[-1]["rate"] > 0
    assert reports[-1]["eta_s"] >= 0


def test_cancelling(tmp_path: Path) -> None:
    paths = write_files(tmp_path, {b"%d" % number: b"text" for number in range(9)})
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(Cancelled):
        build(str(tmp_path), paths, tmp_path / "out" / "index", cancel=cancel)
    assert os.listdir(tmp_path / "out") == []


def test_files_are_private(tmp_path: Path, build_here: None) -> None:
    previous = os.umask(0)
    try:
        build(str(tmp_path), write_files(tmp_path, {b"a": b"text"}), tmp_path / "index")
    finally:
        os.umask(previous)
    assert stat.S_IMODE(os.stat(tmp_path / "index").st_mode) == 0o700
    for name in (POSTINGS, LOOKUP):
        assert stat.S_IMODE(os.stat(tmp_path / "index" / name).st_mode) == 0o600


def test_a_rebuild_does_not_disturb_who_has_the_old_index_open(tmp_path: Path, build_here: None) -> None:
    paths = write_files(tmp_path, {b"a": b"first text", b"b": b"first text"})
    build(str(tmp_path), paths, tmp_path / "index")
    old = Index(tmp_path / "index")
    (tmp_path / "a").write_bytes(b"second text")
    build(str(tmp_path), paths, tmp_path / "index")
    new = Index(tmp_path / "index")
    assert old.candidates(Literal(b"first")).count == 2
    assert new.candidates(Literal(b"first")).count == 1
