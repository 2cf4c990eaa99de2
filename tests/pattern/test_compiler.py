"""Options and whole patterns, each pinned to what ripgrep does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from indexgrep.errors import PatternError
from indexgrep.pattern import PatternOptions, compile_patterns
from indexgrep.pattern.unicode import _has_case, class_ranges
from support import ripgrep


@pytest.mark.parametrize(
    ("pattern", "insensitive"),
    [
        ("foo", True),
        ("Foo", False),
        ("fOo.*", False),
        (r"foo\W\S\D", True),
        (r"\pLfoo", True),
        (r"\p{Lu}foo", True),
        (r"\W", False),  # no literal at all
        ("", False),
        (".*", False),
        (r"[[:upper:]]", False),
        ("[A-Z]", False),
        ("[a-z]", True),
        (r"\x41", False),
        (r"\x{e9}", True),
        ("É", False),
        ("\u01c5", True),  # title case is not upper case
        ("\u2160", False),  # a Roman numeral is
        ("(?P<Name>a)", True),
        ("(?i)foo", True),
        (r"foo\B", True),
        ("[]]", True),
        ("{", None),
    ],
)  # fmt: skip
def test_smart_case(pattern: str, insensitive: bool | None, rg: str, tmp_path: Path) -> None:
    options = PatternOptions(case="smart")
    file = tmp_path / "text"
    samples = [
        "foo",
        "FOO",
        "Foo !!!",
        "aFoo! x1",
        "a",
        "A",
        "é",
        "É",
        "\u01c6",
        "\u01c4",
        "\u2170",
        "\u2160",
        "]",
        "1",
    ]
    file.write_text("\n".join(samples) + "\n")
    if insensitive is None:
        with pytest.raises(PatternError):
            compile_patterns([pattern], options)
        assert ripgrep.search(rg, [pattern], options, file).error
        return
    assert compile_patterns([pattern], options).case_insensitive is insensitive
    plain = PatternOptions(case="insensitive" if insensitive else "sensitive")
    smart = ripgrep.search(rg, [pattern], options, file)
    assert smart == ripgrep.search(rg, [pattern], plain, file)


def test_smart_case_is_decided_over_all_patterns() -> None:
    options = PatternOptions(case="smart")
    assert compile_patterns(["foo", r"\W"], options).case_insensitive
    assert not compile_patterns(["foo", "Bar"], options).case_insensitive
    assert not compile_patterns(
        ["foo", "Bar"], PatternOptions(case="smart", fixed_strings=True)
    ).case_insensitive


@pytest.mark.parametrize(
    ("pattern", "flags"),
    [
        (pattern, flags)
        for pattern in (
            r"\n", "\n", r"[\n]", r"a\x0Ab", r"a\u{a}", r"a|\n", r"a|bc|\n", r"(?:a|\n)b", r"(\n)|a", r"\n*",
            r"\n{0}",
            r"[^\n]", r"[^\S\n]", r"[\s&&\n]", r"[\n&&a]", r"(?-u:\n)", r"(?-u:[\n])", r"(?i:\n)", r"\n|\r",
            r"\n|\r|a",
            r"\r", r"[\r]", r"[\r\n]", r"\s", r"(?s).",
            r"\v", r"xa|x\n", r"[^\x00-\x09\x0b-\x{10FFFF}]", r"\x00",
            r"[\x00]", r"[\x00a]", r"(?R)a$", r"(?R).",
        )
        for flags in ({}, {"crlf": True}, {"multiline": True}, {"ban_nul": True})
    ],
)  # fmt: skip
def test_terminators_and_nul_are_refused_as_ripgrep_does(
    pattern: str, flags: dict[str, bool], rg: str, tmp_path: Path
) -> None:
    options = PatternOptions(**flags)  # type: ignore[arg-type]
    file = tmp_path / "text"
    file.write_bytes(b"a\r\nb\n\n")
    refused = ripgrep.search(rg, [pattern], options, file).error
    if refused is None:
        compile_patterns([pattern], options)
        return
    with pytest.raises(PatternError) as caught:
        compile_patterns([pattern], options)
    assert f"rg: {caught.value.reason}" == refused.splitlines()[0]
    assert caught.value.hint


def test_a_refused_terminator_is_pointed_at() -> None:
    with pytest.raises(PatternError) as caught:
        compile_patterns(["fine", r"abc\ndef"], PatternOptions())
    error = caught.value
    assert (error.pattern, error.start, error.end) == (r"abc\ndef", 3, 5)
    assert error.reason == 'the literal "\\n" is not allowed in a regex'
    assert "-U" in error.hint
    with pytest.raises(PatternError, match="not allowed"):
        compile_patterns(["a\nb"], PatternOptions(fixed_strings=True))


@pytest.mark.parametrize(
    ("patterns", "options", "literal"),
    [
        (["mutex_lock"], {}, b"mutex_lock"),
        ([r"a\.b\x41"], {}, b"a.bA"),
        (["(?:ab)c"], {}, b"abc"),
        (["a.b"], {"fixed_strings": True}, b"a.b"),
        (["é"], {}, "é".encode()),
        (["é"], {"unicode": False}, "é".encode()),
        ([r"(?-u)\xff"], {}, b"\xff"),
        (["a\nb"], {"multiline": True}, b"a\nb"),
        (["123"], {"case": "insensitive"}, b"123"),
        (["Foo"], {"case": "smart"}, b"Foo"),
        (["foo"], {"case": "smart"}, None),
        (["foo"], {"word": True}, None),
        (["foo"], {"line": True}, None),
        (["^foo"], {}, None),
        (["(foo)"], {}, None),
        (["foo", "bar"], {}, None),
        ([""], {}, None),
        (["a{3}"], {}, None),
    ],
)
def test_literal(patterns: list[str], options: dict[str, bool], literal: bytes | None) -> None:
    assert compile_patterns(patterns, PatternOptions(**options)).literal == literal  # type: ignore[arg-type]


def test_several_patterns() -> None:
    compiled = compile_patterns(["a|(b)", "(?i)c", "(d)"], PatternOptions())
    assert compiled.rust == "a|(b)|(?i:c)|(d)"
    assert "group 2" in str(compiled.ast)
    with pytest.raises(PatternError, match="duplicate capture group name"):
        compile_patterns(["(?P<n>a)", "(?P<n>b)"], PatternOptions())
    with pytest.raises(PatternError) as caught:
        compile_patterns(["fine", "a)|(b"], PatternOptions())
    assert caught.value.pattern == "a)|(b"
    assert caught.value.reason == "unopened group"


def test_importing_is_light() -> None:
    heavy = "{'paula', 'regex', 'numpy', 'unicodedata'}"
    code = f"import indexgrep.pattern, sys; print(*sorted({heavy} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


def test_characters_without_case_are_known_exactly() -> None:
    """The planner keeps only characters in a literal under -i that the engine does not fold."""
    cased = {
        code
        for first, last in class_ranges(r"[\p{Changes_When_Casefolded}\p{Changes_When_Casemapped}]")
        for code in range(first, last + 1)
    }
    for code in cased:
        assert _has_case(chr(code)), hex(code)
    assert not any(map(_has_case, "中文日本語한글123_ \u00a7"))


def test_a_folded_class_is_printed_as_the_engine_reads_it() -> None:
    """A Perl class by itself is not folded, as an operand of a set operation it is: no difference."""
    for kind in "wWdDsS":
        assert class_ranges(rf"(?i:\{kind})") == class_ranges(rf"(?i:[\{kind}--[a&&b]])"), kind
