"""The engines: one language, two implementations, bounded time."""

from __future__ import annotations

import time

import pytest

from indexgrep.errors import PatternError
from indexgrep.match import Matcher
from indexgrep.match.engine import FallbackEngine, RustEngine, Timeout, compile_engine
from indexgrep.match.lines import CHUNK, count_newlines
from indexgrep.pattern import PatternOptions, compile_patterns
from indexgrep.request import SearchRequest

PATTERNS = ("foo", "é+", r"\w+", "x*", r"(?i)straße", "[^a]", ".", "(foo|f)o?", r"\bo", "$", "^")
TEXTS = ("foo bar", "", "aébébé", "xx x\nxx", "STRASSE Straße", "日本 foo\n\nbar", "\u212a k")


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("text", TEXTS)
def test_engines_agree(pattern: str, text: str) -> None:
    compiled = compile_patterns([pattern], PatternOptions())
    rust, fallback = RustEngine(compiled.rust), FallbackEngine(compiled.python, 5.0)
    data = text.encode()
    # An empty match within a character is one that only a search of bytes can find.
    starts = {len(text[:index].encode()) for index in range(len(text) + 1)}
    assert fallback.spans(data) == [span for span in rust.spans(data) if span[0] in starts]
    assert fallback.is_match(data) == rust.is_match(data)


def test_a_pattern_too_large_for_the_first_engine() -> None:
    pattern = r"\w{1000}(?:\w{100}|\d{100}){9}"
    compiled = compile_patterns([pattern], PatternOptions())
    with pytest.raises(ValueError):
        RustEngine(compiled.rust)
    request = SearchRequest((pattern,))
    matcher = Matcher(compiled, request)
    assert isinstance(matcher.program.engine, FallbackEngine)
    text = "é" * 1900 + "\n"
    result = matcher.search_bytes(text.encode(), "name")
    assert result is not None
    assert result.lines[0].spans == [(0, 2 * 1900)]


def test_a_pattern_for_no_engine() -> None:
    with pytest.raises(PatternError):
        compile_engine("(", lambda: "(")


def test_backtracking_ends_in_time() -> None:
    engine = FallbackEngine("(a|aa)+$", 0.2)
    started = time.monotonic()
    with pytest.raises(Timeout):
        engine.spans(b"a" * 40 + b"!")
    assert time.monotonic() - started < 10


def test_time_out_names_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    request = SearchRequest(("foo",))
    matcher = Matcher(compile_patterns(["foo"], PatternOptions()), request)

    def late(self: RustEngine, data: bytes) -> list[tuple[int, int]]:
        raise Timeout

    monkeypatch.setattr(RustEngine, "spans", late)
    result = matcher.search_bytes(b"foo\n", "some/name")
    assert result is not None
    assert result.path == "some/name"
    assert result.error == "the pattern took too long on this file"


def test_catastrophic_patterns_are_linear() -> None:
    request = SearchRequest(("(x+x+)+y",))
    matcher = Matcher(compile_patterns(request.patterns, PatternOptions()), request)
    assert matcher.search_bytes(b"x" * 100_000 + b"\n", "name") is None


def test_dense_matches_in_a_large_file() -> None:
    """Every byte matches, and lines cross no piece's end."""
    data = (b"x" * 99 + b"\n") * (4 * CHUNK // 100) + b"y" * (2 * CHUNK) + b"\nend"
    request = SearchRequest((".",))
    result = Matcher(compile_patterns(["."], PatternOptions()), request).search_bytes(data, "name")
    assert result is not None
    assert b"".join(line.text for line in result.lines) == data
    assert result.matches == len(data) - data.count(b"\n")
    assert [line.number for line in result.lines] == list(range(1, len(result.lines) + 1))


@pytest.mark.parametrize("size", [0, 1, 4095, 4096, 100_000])
def test_counting_line_feeds(size: int) -> None:
    data = b"ab\n" * size
    assert count_newlines(data, 1, len(data)) == data.count(b"\n", 1)
