"""String conditions: sound for every pattern, useful for the usual ones, bounded for all."""

from __future__ import annotations

import random
import string
import time

import paula
import pytest

from indexgrep.errors import PatternError
from indexgrep.pattern import All, And, Literal, Nothing, Or, PatternOptions, Query, compile_patterns
from indexgrep.pattern.query import MAX_DEPTH, MAX_LITERALS, conjunction, disjunction
from support.conditions import satisfies
from support.patterns import matching_text, random_line, random_pattern


def query(pattern: str, **options: object) -> Query:
    return compile_patterns([pattern], PatternOptions(**options)).query  # type: ignore[arg-type]


def both(*texts: str) -> Query:
    return And(tuple(Literal(text.encode()) for text in texts))


def either(*texts: str) -> Query:
    return Or(tuple(Literal(text.encode()) for text in texts))


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("mutex_lock", Literal(b"mutex_lock")),
        ("MAX_FILE", Literal(b"max_file")),
        ("ab", All()),
        ("", All()),
        # ripgrep#1559: a repetition is not an exact literal
        ("TaskID +int", both("taskid ", " int")),
        ("abc+def", both("abc", "cdef")),
        ("(abc)+def", Literal(b"abcdef")),
        # ripgrep#2884: both branches count
        ("(?i)e.x|ex", All()),
        ("(?i)exa.x|exb", either("exa", "exb")),
        # ripgrep#1319, 1537, 1064, 1203: inner and suffix literals
        ("(?:foo)*bar", Literal(b"bar")),
        ("(?:foo)?bar", Literal(b"bar")),
        ("foobar|", All()),
        ("(?:foobar|)baz", Literal(b"baz")),
        ("foo(?:|bar)baz", either("foobarbaz", "foobaz")),
        ("a.b.c", All()),
        (".*foobar.*", Literal(b"foobar")),
        # Kelvin sign and long s are k and s in the index
        ("(?i)kiss", Literal(b"kiss")),
        ("\u212aey", Literal(b"key")),
        ("wa\u017fte", Literal(b"waste")),
        ("(?i)\u212aey", Literal(b"key")),
        # letters outside ASCII break a literal under -i, and only there
        ("café_au", Literal("café_au".encode())),
        ("(?i)café_au", both("caf", "_au")),
        ("(?i)中文字", Literal("中文字".encode())),
        ("(?i)straße_x", both("stra", "e_x")),
        # classes
        ("foo[0-2]bar", either("foo0bar", "foo1bar", "foo2bar")),
        ("foo[Xx]bar", Literal(b"fooxbar")),
        (r"foo\dbar", both("foo", "bar")),
        (r"\pLabc", Literal(b"abc")),
        ("foo[^x]bar", both("foo", "bar")),
        ("foo[k\u212a]x", Literal(b"fookx")),
        # counted repetitions
        ("x{3}", Literal(b"xxx")),
        ("(?:ab){2,}", Literal(b"abab")),
        ("(?:abc){0}def", Literal(b"def")),
        ("(?:abc){0,1}def", Literal(b"def")),
        # zero-width: the text on both sides is adjacent
        (r"foo\bbar", Literal(b"foobar")),
        (r"^foo$", Literal(b"foo")),
        (r"\Afoo\z", Literal(b"foo")),
        (r"\bstruct\s+\w+_ops\b", both("struct", "_ops")),
        # bytes: pieces of characters at the edges are not asked for
        (r"(?-u)abc\xe2", Literal(b"abc")),
        (r"(?-u)\x84\xaaabc", Literal(b"abc")),
        (r"(?-u)ab\xe2\x84\xaacd", Literal(b"abkcd")),
        (r"(?-u)abc\xc5(?:\xbf|x)", Or((Literal(b"abcs"), Literal(b"abc\xc5x")))),
        (r"(?-u)\xff\xfeabc", Literal(b"\xff\xfeabc")),
    ],
)
def test_conditions(pattern: str, expected: Query) -> None:
    assert query(pattern) == expected


@pytest.mark.parametrize("seed", range(4))
def test_every_match_satisfies_the_query(seed: int) -> None:
    """The engine decides what matches; the query may never exclude it."""
    rng = random.Random(seed)
    checked = useful = 0
    for _ in range(700):
        options = PatternOptions(
            case=rng.choice(("sensitive", "insensitive", "smart")),
            word=rng.random() < 0.1,
            unicode=rng.random() > 0.2,
            multiline=rng.random() < 0.2,
        )
        patterns = [random_pattern(rng)] if rng.random() < 0.8 else [random_pattern(rng, 2) for _ in range(2)]
        try:
            compiled = compile_patterns(patterns, options)
        except PatternError:
            continue
        try:
            regex = paula.BytesRegex(compiled.rust)
        except ValueError as error:
            assert "size limit" in str(error), compiled.rust  # noqa: PT017
            continue
        useful += not isinstance(compiled.query, All)
        for _ in range(4):
            text = matching_text(rng, compiled.ast)
            if rng.random() < 0.5:
                text = random_line(rng) + text + random_line(rng)
            for match in regex.find_iter(text)[:3]:
                # What is matched is enough, with nothing around it.
                matched = text[match.start : match.end]
                assert satisfies(text, compiled.query), (patterns, options, text)
                if b"\\x" not in compiled.rust.encode():
                    assert satisfies(matched, compiled.query), (patterns, options, matched)
                checked += 1
    assert checked > 800
    assert useful > 150


def test_huge_alternations_stay_bounded() -> None:
    """ripgrep#362, 497."""
    rng = random.Random(1)
    words = [
        "".join(rng.choice(string.ascii_letters) for _ in range(rng.randint(5, 12))) for _ in range(10_000)
    ]
    for patterns in (["|".join(words)], words, ["|".join(f"{w}[0-9]x" for w in words[:3000])]):
        compiled = compile_patterns(patterns, PatternOptions(case="smart"))
        start = time.process_time()
        found = compiled.query
        assert time.process_time() - start < 0.5
        assert found.size <= MAX_LITERALS
    some = query("|".join(words[:300]))
    assert isinstance(some, Or)
    assert some.size >= 295
    shared = query("|".join(f"dma_{word}" for word in words))
    assert isinstance(shared, Or)
    assert all(isinstance(child, Literal) and child.data.startswith(b"dma_") for child in shared.children)


@pytest.mark.parametrize(
    "pattern",
    ["[ab]" * 3000, "abc." * 5000, "(abc.|" * 80 + "x" + ".def)" * 80, "(?:" * 60 + "abc" + "){3}" * 60,
     "(?:[a-p]{3}x){9}", "(?:(?:a|bc){1,9}.)" * 200, "(?:foo[ab]|bar[cd])+" * 300],
)  # fmt: skip
def test_no_pattern_makes_a_query_grow(pattern: str) -> None:
    start = time.process_time()
    found = query(pattern)
    assert time.process_time() - start < 2
    assert found.size <= MAX_LITERALS
    assert found.depth <= MAX_DEPTH + 1


def test_simplification() -> None:
    foo, foobar, baz = Literal(b"foo"), Literal(b"foobar"), Literal(b"baz")
    assert conjunction([foo, foobar, foo]) == foobar
    assert disjunction([foo, foobar, baz]) == Or((foo, baz))
    assert disjunction([And((foo, baz)), And((baz, Literal(b"qux")))]) == And(
        (baz, Or((foo, Literal(b"qux"))))
    )
    assert conjunction([foobar, Or((foo, baz))]) == foobar
    assert conjunction([foo, Nothing()]) == Nothing()
    assert conjunction([]) == All()
    assert disjunction([foo, All()]) == All()
    assert disjunction([]) == Nothing()


def test_str_is_for_people() -> None:
    assert str(query('"a\\x{1}b"|foo.*bar')) == 'OR\n  AND\n    "foo"\n    "bar"\n  "\\"a\\u{1}b\\""'
