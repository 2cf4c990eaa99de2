"""Plans: how a query is evaluated, and what ``explain`` says of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from indexgrep.index import Index, candidates
from indexgrep.index.builder import build
from indexgrep.index.variants import true_counts, variants
from indexgrep.pattern.query import All, And, Literal, Nothing, Or, Query
from support.indexing import WorkersHere, true_documents, write_files

COUNT = 400


def text_of(number: int) -> bytes:
    """Words in every document, in every n-th, and in one only."""
    words = [
        b"common",
        *(b"every_%d_th" % n for n in (2, 3, 10, 50) if number % n == 0),
        b"only_%03d" % number,
    ]
    return b" ".join(words)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    root = tmp_path_factory.mktemp("plans")
    paths = write_files(root, {b"%03d" % number: text_of(number) for number in range(COUNT)})
    build(str(root), paths, root / "index", workers=WorkersHere())
    return Index(root / "index")


def found(index: Index, query: Query) -> set[int]:
    documents = index.candidates(query).documents
    return set(range(COUNT)) if documents is None else set(documents.tolist())


@pytest.mark.parametrize(
    "query",
    [
        Literal(b"every_50_th"),
        Literal(b"only_123"),
        Literal(b"common every_2"),
        And((Literal(b"every_3_th"), Literal(b"every_50_th"))),
        Or((Literal(b"only_001"), Literal(b"only_399"))),
        And((Or((Literal(b"only_006"), Literal(b"only_007"))), Literal(b"every_3_th"))),
        Or((And((Literal(b"every_2_th"), Literal(b"every_50_th"))), Literal(b"only_005"))),
        And((Literal(b"common"), Or((Literal(b"every_10_th"), All())))),
        Or((Nothing(), Literal(b"only_001"))),
        And((Nothing(), Literal(b"common"))),
    ],
    ids=str,
)
def test_candidates_are_few_and_complete(index: Index, query: Query) -> None:
    true = true_documents(map(text_of, range(COUNT)), query)
    assert true <= found(index, query)
    if len(true) < COUNT // 2:
        assert len(found(index, query)) <= 3 * len(true) + 12


@pytest.mark.parametrize(
    "query", [All(), Literal(b""), Literal(b"ab"), Or((Literal(b"only_001"), Literal(b"x")))]
)
def test_what_an_index_cannot_narrow_is_every_document(index: Index, query: Query) -> None:
    assert index.candidates(query).documents is None
    assert index.candidates(query).count == COUNT


def test_nothing_and_unknown_strings_have_no_candidate(index: Index) -> None:
    for query in (Nothing(), Literal(b"no_such_word"), And((Literal(b"common"), Literal(b"qqqq")))):
        assert found(index, query) == set()


def test_skipping_lists_leaves_more_candidates_never_fewer(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = [Literal(b"every_50_th only_1"), And((Literal(b"every_2_th"), Literal(b"every_3_th")))]
    usual = [found(index, query) for query in queries]
    monkeypatch.setattr(candidates, "LIST_COST", 1e12)
    stingy = [found(index, query) for query in queries]
    monkeypatch.setattr(candidates, "LIST_COST", 0.0)
    monkeypatch.setattr(candidates, "LIST_COST_PER_KB", 0.0)
    eager = [found(index, query) for query in queries]
    for few, some, many, query in zip(eager, usual, stingy, queries, strict=True):
        assert true_documents(map(text_of, range(COUNT)), query) <= few <= some <= many


def test_the_plan_tells_each_gram(index: Index) -> None:
    literal = b"every_50_th"
    found = index.candidates(Literal(literal))
    assert found.total == COUNT
    plan = found.plan
    assert (plan.kind, plan.text) == ("literal", literal)
    assert plan.grams
    for part in plan.grams:
        assert literal[part.gram.start : part.gram.end] == part.text
        assert 0 <= part.bound <= COUNT
        assert part.why
    assert any(part.used for part in plan.grams)
    assert plan.bound == min(part.bound for part in plan.grams)
    assert found.count <= plan.bound


def test_the_plan_tells_which_part_is_all_and_why(index: Index) -> None:
    query = And((Literal(b"common"), Or((Literal(b"every_10_th"), Literal(b"x")))))
    first, second = index.candidates(query).plan.children
    assert first.kind == "literal"
    assert second.why == "one alternative needs no string"
    assert [child.kind for child in second.children] == ["literal", "all"]
    assert "fewer than three bytes" in second.children[1].why


def test_the_plan_tells_what_was_not_read(index: Index) -> None:
    query = And((Literal(b"no_such_word"), Literal(b"common")))
    children = index.candidates(query).plan.children
    reasons = {part.why for child in children for part in child.grams}
    assert "in no document" in reasons
    assert "no candidate is left" in reasons


def test_variants(tmp_path: Path, build_here: None) -> None:
    paths = write_files(tmp_path, {b"%03d" % number: text_of(number) for number in range(COUNT)})
    queries = [b"every_50_th", b"ONLY_123", b"common every_2_th"]
    assert true_counts(str(tmp_path), paths, queries) == [8, 1, 200]
    trigrams, selective = variants(str(tmp_path), paths, [1.0, 0.02], queries)
    assert trigrams.keys < selective.keys
    assert trigrams.text_bytes == selective.text_bytes == sum(len(text_of(number)) for number in range(COUNT))
    assert 1 <= selective.ratio <= trigrams.ratio
    assert "trigrams" in str(trigrams)
    assert "c = 0.02" in str(selective)
