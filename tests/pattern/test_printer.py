"""Printed patterns match, over whole buffers, what ripgrep matches line by line."""

from __future__ import annotations

import bisect
import random
from pathlib import Path

import paula
import pytest
import regex

from indexgrep.errors import PatternError
from indexgrep.pattern import CompiledPattern, PatternOptions, compile_patterns
from support import ripgrep
from support.patterns import matching_text, random_line, random_pattern, random_text


def random_options(rng: random.Random) -> PatternOptions:
    return PatternOptions(
        case=rng.choice(("sensitive", "insensitive", "smart")),
        word=rng.random() < 0.15,
        line=rng.random() < 0.1,
        crlf=rng.random() < 0.2,
        unicode=rng.random() > 0.15,
        multiline=rng.random() < 0.1,
        multiline_dotall=rng.random() < 0.3,
    )


def try_compile(patterns: list[str], options: PatternOptions) -> CompiledPattern | None:
    try:
        return compile_patterns(patterns, options)
    except PatternError:
        return None


def text_for(rng: random.Random, compiled: CompiledPattern) -> bytes:
    """Some lines, half of them made to match."""
    text = random_text(rng, 10)
    for _ in range(6):
        made = matching_text(rng, compiled.ast).replace(b"\n", b"")
        text += b"\n" + rng.choice((b"", random_line(rng))) + made + rng.choice((b"", random_line(rng)))
    return text.replace(b"\0", b"0")


def answer(compiled: CompiledPattern, text: bytes) -> tuple[set[int], list[tuple[int, int]]]:
    """Matching lines and spans as ripgrep counts them, from one search over the buffer."""
    starts = [0, *(i + 1 for i, byte in enumerate(text) if byte == 0x0A)]
    lines: set[int] = set()
    spans: list[tuple[int, int]] = []
    for match in paula.BytesRegex(compiled.rust).find_iter(text):
        start, end = match.start, match.end
        if start == len(text) and text.endswith(b"\n"):
            continue  # behind the last line there is none
        lines.add(starts[bisect.bisect_right(starts, start) - 1])
        between = compiled.options.crlf and text[start - 1 : start + 1] == b"\r\n"
        if not (start == end and (start == len(text) or between)):
            spans.append((start, end))
    return lines, spans


@pytest.mark.parametrize("seed", range(4))
def test_whole_buffers_match_as_ripgrep_does(seed: int, rg: str, tmp_path: Path) -> None:
    rng = random.Random(seed)
    file = tmp_path / "text"
    found = 0
    for _ in range(250):
        patterns = [random_pattern(rng)] if rng.random() < 0.8 else [random_pattern(rng, 1) for _ in range(2)]
        options = random_options(rng)
        compiled = try_compile(patterns, options)
        if compiled is None:
            file.write_bytes(b"\n")
            assert ripgrep.search(rg, patterns, options, file).error, (patterns, options)
            continue
        text = text_for(rng, compiled)
        file.write_bytes(text)
        expected = ripgrep.search(rg, patterns, options, file)
        assert expected.error is None, (patterns, options, expected.error)
        if options.multiline:  # ripgrep joins lines to blocks there; the matcher's tests compare those
            continue
        lines, spans = answer(compiled, text)
        found += len(lines)
        assert lines == expected.lines, (patterns, options, compiled.rust)
        # With lazy repetitions the Rust engine itself may begin a match too late, depending on the buffer; in
        # line mode ripgrep marks nothing for `\A` away from the buffer's start.
        if "?" not in compiled.rust.replace("(?", "") and not compiled.text_anchors:
            assert spans == expected.spans, (patterns, options, compiled.rust)
    assert found > 500


def find_iter(pattern: str, text: str) -> list[tuple[int, int]]:
    """All matches of the fallback engine, going on after an empty one as the Rust engine does."""
    compiled = regex.compile(pattern)
    found: list[tuple[int, int]] = []
    position, last_end = 0, -1
    while position <= len(text):
        match = compiled.search(text, position)
        if match is None:
            break
        if match.start() == match.end() == last_end:
            position = last_end + 1
            continue
        found.append(match.span())
        position = last_end = match.end()
    return found


@pytest.mark.parametrize("seed", range(3))
def test_the_fallback_engine_agrees(seed: int) -> None:
    rng = random.Random(seed)
    compared = 0
    for _ in range(250):
        options = PatternOptions(
            case=rng.choice(("sensitive", "insensitive")),
            word=rng.random() < 0.15,
            crlf=rng.random() < 0.2,
            multiline=rng.random() < 0.3,
        )
        try:
            compiled = compile_patterns([random_pattern(rng, 2)], options)
            printed = compiled.python
        except PatternError:
            continue
        text = text_for(rng, compiled)
        decoded = text.decode("utf-8", "surrogateescape")
        offsets = [0]
        for char in decoded:
            offsets.append(offsets[-1] + len(char.encode("utf-8", "surrogateescape")))
        expected = [(match.start, match.end) for match in paula.BytesRegex(compiled.rust).find_iter(text)]
        ours = [(offsets[start], offsets[end]) for start, end in find_iter(printed, decoded)]
        boundaries = set(offsets)  # an empty match inside a character cannot be said in characters
        assert ours == [span for span in expected if span[0] in boundaries], (compiled.rust, options)
        compared += 1
    assert compared > 200


@pytest.mark.parametrize("pattern", [r"(?-u:.)", r"(?-u)[^a]", r"(?-u)\xc3", r"(?-u)\W", r"(?-u)[\x80-\xff]"])
def test_pieces_of_characters_are_refused_by_the_fallback(pattern: str) -> None:
    compiled = compile_patterns([pattern], PatternOptions())
    with pytest.raises(PatternError, match="single bytes"):
        _ = compiled.python


def test_bytes_that_are_not_utf8_can_be_said_in_the_fallback() -> None:
    assert compile_patterns([r"(?-u)a\xff\xc3\xa9"], PatternOptions()).python == "a\\udcff\\xe9"
    assert compile_patterns([r"(?-u)\w"], PatternOptions()).python.startswith("[0")


@pytest.mark.parametrize(
    ("pattern", "options", "printed"),
    [
        ("foo", {}, "foo"),
        (r"\bfoo\b", {"word": True}, r"\b{start-half}\bfoo\b\b{end-half}"),
        ("a|b", {"word": True}, r"\b{start-half}(?:a|b)\b{end-half}"),
        ("a|b", {"line": True}, "(?m:^)(?:a|b)(?m:$)"),
        ("^a$", {"crlf": True}, "(?mR:^)a(?mR:$)"),
        (r"\s", {}, r"[\s--\n]"),
        (r"\s", {"crlf": True}, r"[\s--[\r\n]]"),
        (r"\s", {"multiline": True}, r"\s"),
        ("[^a]", {}, r"[[^a]--\n]"),
        (r"[^a\n]", {}, r"[^a\n]"),
        (r"\w[a-z]", {}, r"\w[a-z]"),
        ("(?s).", {}, "."),
        ("(?s).", {"multiline": True}, "(?s:.)"),
        (".", {"multiline": True, "multiline_dotall": True}, "(?s:.)"),
        (".", {"crlf": True}, r"[^\r\n]"),
        (".", {"unicode": False}, "(?-u:.)"),
        (r"\Aa\z", {}, "(?m:^)a(?m:$)"),
        (r"\Aa\z", {"multiline": True}, r"\Aa\z"),
        ("ab", {"case": "insensitive"}, "(?i:ab)"),
        ("1.2", {"case": "insensitive", "fixed_strings": True}, r"1\.2"),
        ("(?U)a*b+?", {}, "a*?b+"),
        ("(?:ab)*(?:c*)*", {}, "(?:ab)*(?:c*)*"),
        (r"a|\n", {}, "a"),
        (r"\n{0}b", {}, "b"),
        ("(?P<n>a)(b)", {}, "(?P<n>a)(b)"),
    ],
)
def test_print(pattern: str, options: dict[str, bool], printed: str) -> None:
    assert compile_patterns([pattern], PatternOptions(**options)).rust == printed  # type: ignore[arg-type]
