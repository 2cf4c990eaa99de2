"""The parser accepts, refuses and explains exactly as the Rust crate does."""

from __future__ import annotations

import random
import sys

import paula
import pytest

from indexgrep.errors import PatternError
from indexgrep.pattern.parser import NEST_LIMIT, Flags, parse
from support.patterns import broken_pattern, random_pattern


def refusal(pattern: str) -> PatternError | None:
    try:
        parse(pattern, Flags())
    except PatternError as error:
        return error
    return None


def rust_refusal(pattern: str) -> str | None:
    """The crate's message, or ``None``; a pattern that only compiles too large is accepted."""
    try:
        paula.BytesRegex(pattern)
    except ValueError as error:
        return None if "size limit" in str(error) else str(error)
    return None


@pytest.mark.parametrize("seed", range(4))
def test_accepts_and_explains_as_rust(seed: int) -> None:
    """Thousands of broken and whole patterns: the same verdict, the same reason, the same place."""
    rng = random.Random(seed)
    accepted = 0
    for _ in range(3000):
        pattern = broken_pattern(rng)
        rust, ours = rust_refusal(pattern), refusal(pattern)
        assert (rust is None) == (ours is None), (pattern, rust, ours)
        accepted += ours is None
        if rust is None or ours is None:
            continue
        assert ours.reason == rust.rsplit("error: ", 1)[-1].strip(), pattern
        two_places = ours.reason in (
            "duplicate capture group name",
            "duplicate flag",
            "flag negation operator repeated",
        )
        if "\n" not in pattern and not two_places:
            assert ours.message.split("\n")[2].rstrip() == rust.split("\n")[2].rstrip(), pattern
    assert accepted > 300


def test_whole_patterns_are_accepted() -> None:
    rng = random.Random(7)
    for _ in range(1500):
        pattern = random_pattern(rng)
        assert (rust_refusal(pattern) is None) == (refusal(pattern) is None), pattern


@pytest.mark.parametrize(
    ("pattern", "start", "end", "reason", "hinted"),
    [
        ("ab(cd", 2, 3, "unclosed group", False),
        ("ab)cd", 2, 3, "unopened group", False),
        ("x[a-", 1, 2, "unclosed character class", False),
        ("[b-a]", 1, 4, "invalid character class range, the start must be <= the end", False),
        ("é*+(?=x)", 3, 6, "look-around, including look-ahead and look-behind, is not supported", True),
        ("(?<!x)", 0, 4, "look-around, including look-ahead and look-behind, is not supported", True),
        (r"(a)\1", 3, 5, "backreferences are not supported", True),
        (r"\0", 0, 2, "backreferences are not supported", True),
        (r"(?P<a>x)(?P=a)", 10, 11, "unrecognized flag", True),
        ("(?>a)", 2, 3, "unrecognized flag", True),
        ("a{,3}", 2, 2, "repetition quantifier expects a valid decimal", False),
        ("a{3,1}", 1, 6, "invalid repetition count range, the start must be <= the end", False),
        ("*a", 0, 1, "repetition operator missing expression", False),
        (r"\p{Nope}", 0, 8, "Unicode property not found", False),
        (r"\p{sc=Nope}", 0, 11, "Unicode property value not found", False),
        (r"(?-u)\pL", 5, 8, "Unicode not allowed here", False),
        (r"\u{d800}", 3, 7, "hexadecimal literal is not a Unicode scalar value", False),
        (r"\Qa", 0, 2, "unrecognized escape sequence", False),
        ("a\udcffb", 1, 2, "pattern is not valid UTF-8", True),
    ],
)
def test_errors(pattern: str, start: int, end: int, reason: str, hinted: bool) -> None:
    error = refusal(pattern)
    assert error is not None
    assert (error.start, error.reason) == (start, reason)
    assert error.end == end
    assert bool(error.hint) == hinted
    if reason.startswith(("look", "back")):
        assert "-P" in error.hint
        assert "not available" in error.hint


@pytest.mark.parametrize(
    "pattern",
    [
        "(" * 100_000,
        "[" * 100_000,
        "a" + "*" * 100_000,
        "(?:a|" * 50_000,
        "[a&&" * 50_000,
        "[a" + "&&a" * 300 + "]",
    ],
    ids=["groups", "classes", "repetitions", "alternations", "operations", "left-nested"],
)
def test_nesting_is_limited_not_fatal(pattern: str) -> None:
    error = refusal(pattern)
    assert error is not None
    assert f"({NEST_LIMIT})" in error.reason


@pytest.mark.parametrize("depth", [NEST_LIMIT - 1, NEST_LIMIT, NEST_LIMIT + 1])
@pytest.mark.parametrize(
    "form", [("(", "a", ")"), ("(?:", "a", ")"), ("", "a", "+"), ("[", "a", "]"), ("(", "ab", ")")]
)
def test_the_nesting_limit_is_rusts(depth: int, form: tuple[str, str, str]) -> None:
    left, middle, right = form
    pattern = left * depth + middle + right * depth
    rust = rust_refusal(pattern)
    assert (refusal(pattern) is None) == (rust is None), rust


def test_work_is_linear() -> None:
    """Counted in calls, which are the same on every machine."""

    def calls(pattern: str) -> int:
        count = 0

        def counted(*_: object) -> None:
            nonlocal count
            count += 1

        sys.setprofile(counted)
        try:
            parse(pattern, Flags())
        finally:
            sys.setprofile(None)
        return count

    for unit in ("abc.", "[ab]", "(a|b)", "a{2}", r"\x41", "|x", "(?i)a"):
        calls(unit * 10)  # what is cached is cached
        assert calls(unit * 10_000) < 11 * calls(unit * 1000), unit


def test_flags_reach_as_far_as_their_group() -> None:
    tree = str(parse("a(?:(?i)b|c)d(?i:e)f", Flags()).node)
    assert tree.splitlines() == [
        "concat",
        '  literal "a"',
        "  alternation",
        '    literal "b" ignoring case',
        '    literal "c" ignoring case',
        '  literal "d"',
        '  literal "e" ignoring case',
        '  literal "f"',
    ]


def test_verbose_mode() -> None:
    plain = str(parse("ab+[cd]{2,3}", Flags()).node)
    verbose = "(?x) a  # first\n b + [ c # not a comment in Rust either\n d ] { 2 , 3 } # last"
    assert str(parse(verbose, Flags()).node) == plain.replace("[cd]", "[cd]")


def test_groups_are_numbered_and_named() -> None:
    parsed = parse(r"(a)(?P<one>b)(?:c)(?<two.x>d)", Flags(), first_group=3)
    assert parsed.captures == 3
    assert parsed.names == {"one", "two.x"}
    assert "group 5 (two.x)" in str(parsed.node)
