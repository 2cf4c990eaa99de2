"""Damage of every kind is noticed as ``IndexCorrupt`` or has no effect: no other error, no wrong answer."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
import xxhash

from indexgrep.errors import IndexCorrupt, IndexFault
from indexgrep.grams.weights import weights_id
from indexgrep.index import Index
from indexgrep.index import format as layout
from indexgrep.index.builder import build
from indexgrep.index.format import ALIGNMENT, LOOKUP, MAGIC, POSTINGS, SECTIONS
from indexgrep.pattern.query import And, Literal, Or, Query
from support.indexing import WorkersHere

KINDS = (POSTINGS, LOOKUP)
PREFIX = 20  # magic, header size, header hash

QUERIES: list[Query] = [
    Literal(b"import os"),
    Literal(b"def __init__(self"),
    Literal(b"the quick brown fox"),
    Literal(b"except "),
    And((Literal(b"def "), Literal(b"class "))),
    Or((Literal(b"collections.abc"), Literal(b"threading.lock"), Literal(b"zzzz"))),
]


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of some of the standard library, with lists of all three forms."""
    directory = tmp_path_factory.mktemp("corruption") / "index"
    source = Path(os.__file__).parent
    paths = sorted(os.fsencode(path.relative_to(source)) for path in source.glob("[a-e]*/*.py"))
    build(str(source), paths, directory, commit="0123abcd", workers=WorkersHere())
    return directory


@pytest.fixture(scope="module")
def truth(pristine: Path) -> Any:
    return answers(pristine)


@pytest.fixture
def copy(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "copy"))


def answers(directory: Path) -> Any:
    """All that an index says, with every list read."""
    index = Index(directory)
    try:
        found = [index.candidates(query).documents for query in QUERIES]
        return (
            index.commit,
            index.paths(),
            index.contents_of(np.arange(index.document_count)).tobytes(),
            index.flags.tobytes(),
            index.text_sizes.tobytes(),
            index.frequent.bits.tobytes(),
            [None if documents is None else documents.tolist() for documents in found],
        )
    finally:
        index.close()


def harmless(directory: Path, truth: Any) -> bool:
    """True where the damage is without effect, False where it was noticed."""
    try:
        assert answers(directory) == truth
    except IndexCorrupt:
        return False
    return True


def test_undamaged(copy: Path, truth: Any) -> None:
    assert harmless(copy, truth)
    assert truth[0] == "0123abcd"
    assert all(truth[6][:2])


def test_the_index_has_lists_of_all_forms(pristine: Path) -> None:
    index = Index(pristine)
    lengths = np.asarray(index._lengths)
    assert np.any(lengths == 0)
    assert np.any(lengths == index.bitmap_size)
    assert np.any((lengths > 0) & (lengths < index.bitmap_size))


@pytest.mark.parametrize("kind", KINDS)
def test_flipped_bytes(copy: Path, truth: Any, kind: str) -> None:
    path = copy / kind
    data = path.read_bytes()
    random = np.random.default_rng(7)
    header_end = PREFIX + int.from_bytes(data[8:12], "little")
    places = [*range(0, header_end, 3), *random.integers(header_end, len(data), 150).tolist()]
    places += [len(data) - 1, header_end + 1]
    unnoticed = 0
    for place in places:
        with open(path, "r+b") as file:
            file.seek(place)
            file.write(bytes([data[place] ^ int(random.integers(1, 256))]))
        unnoticed += harmless(copy, truth)
        with open(path, "r+b") as file:
            file.seek(place)
            file.write(data[place : place + 1])
    # Only the lists that no query reads are not looked at.
    assert unnoticed == 0 if kind == LOOKUP else unnoticed < 150


def test_every_flipped_byte_of_the_lists_is_noticed_by_who_reads_it(copy: Path) -> None:
    """Flip a byte in the middle of each of many lists and read that list."""
    index = Index(copy)
    keys = np.asarray(index._keys)
    random = np.random.default_rng(11)
    chosen = [entry for entry in index.entries(keys[::37].tolist()) if entry is not None and entry.length]
    for entry in chosen[:200]:
        before = index.documents_of(entry).tolist()
        place = index._lists_start + entry.offset + int(random.integers(entry.length))
        with open(copy / POSTINGS, "r+b") as file:
            file.seek(place)
            byte = file.read(1)[0]
            file.seek(place)
            file.write(bytes([byte ^ 0x10]))
            file.flush()
            with pytest.raises(IndexCorrupt):
                index.documents_of(entry)
            file.seek(place)
            file.write(bytes([byte]))
        assert index.documents_of(entry).tolist() == before


def test_content_ids_that_are_damaged_while_the_index_is_open(copy: Path) -> None:
    """What is read later is held against its hash again, whichever documents are asked for."""
    index = Index(copy)
    before = index.contents_of(np.array([2, 0, 2]))
    assert before[0] == before[2] != before[1]
    assert len(index.contents_of(np.array([], np.int64))) == 0
    with open(copy / POSTINGS, "rb") as file:
        header, starts, _ = layout.read_header(file, POSTINGS, os.stat(copy / POSTINGS).st_size)
    size = header.sections["contents"][0]
    assert size == 16 * index.document_count
    for place in (0, size // 2, size - 1):
        with open(copy / POSTINGS, "r+b") as file:
            file.seek(starts["contents"] + place)
            byte = file.read(1)[0]
            file.seek(starts["contents"] + place)
            file.write(bytes([byte ^ 0x10]))
            file.flush()
            with pytest.raises(IndexCorrupt, match="contents"):
                index.contents_of(np.array([0]))
            with pytest.raises(IndexCorrupt, match="contents"):
                Index(copy)
            file.seek(starts["contents"] + place)
            file.write(bytes([byte]))
    assert index.contents_of(np.array([2, 0, 2])).tobytes() == before.tobytes()


def test_an_index_of_the_first_version_is_never_read(copy: Path) -> None:
    for kind in KINDS:
        rewritten(copy / kind, kind, lambda fields: fields.update(version=1))
        with pytest.raises(IndexCorrupt, match="version 1"):
            Index(copy)


@pytest.mark.parametrize("kind", KINDS)
def test_cut_and_extended_files(copy: Path, truth: Any, kind: str) -> None:
    path = copy / kind
    data = path.read_bytes()
    random = np.random.default_rng(13)
    sizes = [0, 1, 7, 8, 11, 12, PREFIX, PREFIX + 10, ALIGNMENT, len(data) - 1, len(data) - ALIGNMENT]
    for size in [*sizes, *random.integers(0, len(data), 40).tolist()]:
        path.write_bytes(data[:size])
        assert not harmless(copy, truth)
    for more in (b"\0", bytes(ALIGNMENT), b"x" * 5000, data):
        path.write_bytes(data + more)
        assert not harmless(copy, truth)


@pytest.mark.parametrize("kind", KINDS)
def test_zeroed_stretches(copy: Path, truth: Any, kind: str) -> None:
    """What a crash without a sync leaves: blocks of zeros."""
    path = copy / kind
    data = path.read_bytes()
    for start in range(0, len(data), max(4096, len(data) // 40 // 4096 * 4096)):
        path.write_bytes(data[:start] + bytes(min(4096, len(data) - start)) + data[start + 4096 :])
        harmless(copy, truth)


def test_files_of_two_builds(copy: Path, pristine: Path, tmp_path: Path, build_here: None) -> None:
    (tmp_path / "file").write_bytes(b"other text")
    build(str(tmp_path), [b"file"], tmp_path / "other")
    for kind in KINDS:
        mixed = Path(shutil.copytree(pristine, tmp_path / f"mixed-{kind}"))
        shutil.copy(tmp_path / "other" / kind, mixed / kind)
        with pytest.raises(IndexCorrupt):
            Index(mixed)
    shutil.copy(copy / POSTINGS, copy / LOOKUP)
    with pytest.raises(IndexCorrupt):
        Index(copy)


def test_missing_files(copy: Path, tmp_path: Path) -> None:
    with pytest.raises(IndexFault, match="no index") as caught:
        Index(tmp_path / "nowhere")
    assert not isinstance(caught.value, IndexCorrupt)
    os.unlink(copy / LOOKUP)
    with pytest.raises(IndexCorrupt, match="not complete"):
        Index(copy)


# Damage with the right hashes: what a hash cannot notice, the checks of every field must.


def rewritten(path: Path, kind: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the header map and give it a right hash again."""
    data = path.read_bytes()
    size = int.from_bytes(data[8:12], "little")
    fields = msgpack.unpackb(data[PREFIX : PREFIX + size])
    rest = data[layout.padded(PREFIX + size) :]
    change(fields)
    path.write_bytes(packed(kind, msgpack.packb(fields)) + rest)


def packed(kind: str, body: bytes) -> bytes:
    start = MAGIC[kind] + len(body).to_bytes(4, "little")
    head = start + xxhash.xxh3_64_intdigest(start + body).to_bytes(8, "little") + body
    return head + bytes(-len(head) % ALIGNMENT)


def header_changes(kind: str) -> Iterator[tuple[str, Callable[[dict[str, Any]], None]]]:
    values: list[Any] = [None, -1, 0, 1, 10**6, 2**40, 2**63, "", "x", b"", [], {}, 1.5, True]
    for name in ("version", "weights", "commit", "documents", "postings", "sections"):
        for value in values:
            yield f"{name}={value!r}", lambda fields, name=name, value=value: fields.update({name: value})
        yield f"no {name}", lambda fields, name=name: fields.pop(name)
    for section in range(len(SECTIONS[kind])):
        for place in range(3):
            for value in values:
                yield (
                    f"section {section}[{place}]={value!r}",
                    lambda fields, s=section, p=place, v=value: fields["sections"][s].__setitem__(p, v),
                )
        yield f"no section {section}", lambda fields, s=section: fields["sections"].pop(s)


@pytest.mark.parametrize("kind", KINDS)
def test_header_fields(copy: Path, truth: Any, kind: str) -> None:
    path = copy / kind
    data = path.read_bytes()
    for what, change in header_changes(kind):
        rewritten(path, kind, change)
        if kind == POSTINGS:  # the other file names this one by its header's hash: let it
            digest = int.from_bytes(path.read_bytes()[12:20], "little")
            other = (copy / LOOKUP).read_bytes()
            rewritten(copy / LOOKUP, LOOKUP, lambda fields, digest=digest: fields.update(postings=digest))
        try:
            found = answers(copy)
        except IndexCorrupt:
            pass
        else:
            # The commit is free text, and a lists section has no hash of its own.
            assert found[1:] == truth[1:], what
        path.write_bytes(data)
        if kind == POSTINGS:
            (copy / LOOKUP).write_bytes(other)


def test_header_that_is_no_map(copy: Path) -> None:
    data = (copy / LOOKUP).read_bytes()
    for body in (
        b"",
        b"\xc1",
        msgpack.packb([1, 2]),
        msgpack.packb(None),
        b"\xdf\xff\xff\xff\xff",
        b"\x81" * 200,
    ):
        (copy / LOOKUP).write_bytes(packed(LOOKUP, body) + data[ALIGNMENT * 8 :])
        with pytest.raises(IndexCorrupt):
            Index(copy)


def test_another_weight_table_or_version_is_never_read(copy: Path) -> None:
    rewritten(copy / POSTINGS, POSTINGS, lambda fields: fields.update(weights="0" * 16))
    with pytest.raises(IndexCorrupt, match="weight table"):
        Index(copy)
    rewritten(copy / POSTINGS, POSTINGS, lambda fields: fields.update(weights=weights_id(), version=99))
    with pytest.raises(IndexCorrupt, match="version 99"):
        Index(copy)


@pytest.mark.parametrize("section", ["keys", "lengths", "counts", "offsets", "block_hashes", "frequent"])
def test_numbers_of_the_lookup_table(copy: Path, truth: Any, section: str) -> None:
    """Wrong numbers with right section hashes."""
    path = copy / LOOKUP
    data = path.read_bytes()
    with open(path, "rb") as file:
        header, starts, _ = layout.read_header(file, LOOKUP, len(data))
    random = np.random.default_rng(17)
    size = header.sections[section][0]
    width = {"frequent": 1, "offsets": 8, "block_hashes": 8}.get(section, 4)
    for _ in range(40):
        place = int(random.integers(size // width)) * width
        value = random.choice([0, 1, 2**31 - 1, 2**32 - 1, int(random.integers(2**32))])
        new = bytearray(data)
        at = starts[section] + place
        new[at : at + width] = int(value).to_bytes(8, "little")[:width]
        digest = xxhash.xxh3_64_intdigest(new[starts[section] : starts[section] + size])
        path.write_bytes(new)
        rewritten(
            path,
            LOOKUP,
            lambda fields, digest=digest: [
                entry.__setitem__(2, digest) for entry in fields["sections"] if entry[0] == section
            ],
        )
        try:
            index = Index(copy)
            for query in QUERIES:
                index.candidates(query)
            for entry in index.entries(np.asarray(index._keys)[::101].tolist()):
                assert entry is not None
                documents = index.documents_of(entry)
                assert np.all(documents[1:] > documents[:-1])
                assert documents[0] >= 0
                assert documents[-1] < index.document_count
        except IndexCorrupt:
            pass


def test_random_files(tmp_path: Path) -> None:
    random = np.random.default_rng(19)
    for size in (0, 10, 64, 5000):
        for kind in KINDS:
            (tmp_path / kind).write_bytes(bytes(random.integers(0, 256, size, np.uint8)))
        with pytest.raises(IndexCorrupt):
            Index(tmp_path)
        for kind in KINDS:
            (tmp_path / kind).write_bytes(MAGIC[kind] + bytes(random.integers(0, 256, size, np.uint8)))
        with pytest.raises(IndexCorrupt):
            Index(tmp_path)
