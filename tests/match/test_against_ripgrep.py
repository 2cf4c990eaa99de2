"""What files answer, line for line as ``rg --json`` says it: generated texts, patterns and options.

Where ripgrep's answer hangs on its buffers or is a plain fault, this package does not follow it:
``_comparable`` and ``_skipped`` list every such case.
"""

from __future__ import annotations

import sysconfig
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexgrep.errors import PatternError
from indexgrep.match import compile_request
from indexgrep.pattern import CompiledPattern
from indexgrep.request import SearchRequest
from support.matching import (
    Answer,
    as_answer,
    json_answers,
    matched,
    plain_output,
    write_files,
)

PIECES = [
    *("a", "b", "foo", "bar", "Foo", " ", "\t", "-", "_", "1", "xxxxx", "\r"),
    *("\n", "\n", "\n", "\n", "\r\n", "é", "ſ", "K", "\N{KELVIN SIGN}", "ß", "\u2028", "😀"),
]
PATTERNS = [
    *(
        "a",
        "foo",
        "^",
        "$",
        "^$",
        "a*",
        "b*",
        "foo|bar",
        "(?i)k",
        "(?i)s",
        r"\bfoo\b",
        r"\B",
        r"\b",
        ".",
        ".*",
    ),
    *(".+", "^.*$", r"\s", r"\s+", "[^a]", "[^a]+", r"\w+", r"\W+", "x*$", "^x*", "a$", "^a", "(a|b)*", "a?"),
    *("(?:)", "é", r"\x{e9}", r"(?-u:\xff)", "(?s).", "foo$|^bar", r"[^\n]", "a{2,}", r"\d", "f.*?r"),
    *(
        "(^|a)b",
        "$|a",
        "a|$",
        r"\<a",
        r"b\>",
        r"\pL",
        r"(?-u)\w",
        r"(?-u:\b)",
        "foo.bar",
        r"\r",
        r"\Afoo",
        r"o\z",
    ),
    *(r"^\s*$", r"\S*", "(?m:^)a", "(?-m:^)a", "(?-m:a$)", "-foo", r"(?x) f o o ", "ß", "(?i)SS", "😀"),
]
MULTILINE_PATTERNS = [
    *(r"\n", r"a\n", r"foo\n", r"\n+", r"a\nb", r"a\s*b", "(?s)a.*b", "(?s)a.*?b", r"a\n?", r"\n\n", r"^\n"),
    *(r"\n$", "(?s).*", "[^x]*", r"\n^", r"b\n|^a", "(?s)foo.+", r"\Aa", r"a\z", r"a\n|\b", r"\s*", r"^.*\n"),
    *(r"(a\n|b)+", r"o$\n", r"\r\n", r"[\s\S]"),
]

texts = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)


@st.composite
def contents(draw: st.DrawFn) -> bytes:
    """A file: UTF-8 mostly, else with stray bytes, or a byte-order mark, or UTF-16 (also cut off)."""
    text = draw(texts)
    kind = draw(st.integers(0, 9))
    if kind == 0:
        cut = draw(st.integers(0, len(text)))
        stray = draw(st.sampled_from([b"\xff", b"\xc3", b"\xe9", b"\xed\xa0\x80", b"\xf0\x9f"]))
        return text[:cut].encode() + stray + text[cut:].encode()
    if kind == 1:
        return b"\xef\xbb\xbf" + text.encode()
    if kind == 2:
        order = draw(st.sampled_from(["le", "be"]))
        mark = "\ufeff" * draw(st.integers(1, 2))
        data = (mark + text).encode(f"utf-16-{order}")
        return data + draw(
            st.sampled_from([b"", b"", b"\xd8\x00", b"\x00\xd8", b"\xdc\x00", b"\x0a", b"\xd8"])
        )
    return text.encode()


@st.composite
def requests(draw: st.DrawFn, multiline: bool) -> SearchRequest:
    options: dict[str, Any] = {"multiline": multiline}
    pool = PATTERNS + MULTILINE_PATTERNS if multiline else PATTERNS
    patterns = tuple(draw(st.lists(st.sampled_from(pool), min_size=1, max_size=2)))
    rare = st.sampled_from([False] * 5 + [True])
    for name in ("crlf", "text", "word", "line", "invert", "fixed_strings"):
        options[name] = draw(rare)
    if multiline:
        options["multiline_dotall"] = draw(rare)
    options["case"] = draw(st.sampled_from(["sensitive"] * 4 + ["insensitive", "smart"]))
    options["unicode"] = not draw(rare)
    options["before"] = draw(st.sampled_from([0, 0, 0, 1, 2]))
    options["after"] = draw(st.sampled_from([0, 0, 0, 1, 2]))
    options["max_count"] = draw(st.sampled_from([None] * 4 + [1, 2, 5]))
    return SearchRequest(patterns, **options)


def _comparable(
    request: SearchRequest, pattern: CompiledPattern, content: bytes, answer: Answer | None
) -> Answer | None:
    """``answer`` without what is not meant to be equal; ``None`` also when nothing matched."""
    if answer is None or answer.matched_lines == 0:
        # -U may print the lines before an empty match at the very end of the file, with no match in it.
        return None
    if request.max_count is not None:
        # Up to which byte it looks before it stops depends on the search.
        answer.bytes_searched = 0
    if request.multiline and (pattern.text_anchors or (request.invert and request.max_count)):
        # Over line ends, \A is tried anew behind each match; -v -m shows matches past the limit.
        answer.matches = 0
        answer.lines = [(*line[:3], [], line[4]) for line in answer.lines]
    return answer


def _skipped(request: SearchRequest, pattern: CompiledPattern, content: bytes) -> bool:
    """Whether ripgrep's answer is not to be compared at all."""
    if request.max_count and request.after:
        # -A behind the last of -m matches: with --crlf, lines are tried with their bare line feed; inverted,
        # the count starts anew in each buffer (the last line has one of its own, and so may the first).
        if request.crlf:
            return True
        if request.invert:
            return pattern.text_anchors or not content.endswith(b"\n") or b"\n" in content[:6]
    # Over line ends the decoder may lose the last bytes of UTF-16 cut off in the middle.
    return request.multiline and content[:2] in (b"\xff\xfe", b"\xfe\xff") and len(content) % 2 == 1


def assert_equal(rg: str, directory: Path, request: SearchRequest, files: list[bytes]) -> None:
    try:
        pattern = compile_request(request)
    except PatternError:
        return  # that these are errors in ripgrep too is tested with the patterns
    write_files(directory, files)
    expected = json_answers(rg, directory, request)
    found = {name: as_answer(result) for name, result in matched(directory, request).items()}
    for number, content in enumerate(files):
        name = f"{number:05d}"
        if _skipped(request, pattern, content):
            continue
        want = _comparable(request, pattern, content, expected.get(name))
        have = _comparable(request, pattern, content, found.get(name))
        assert have == want, (content, request)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@settings(max_examples=60)
@given(requests(multiline=False), st.lists(contents(), min_size=20, max_size=40))
def test_lines(rg: str, directory: Path, request_: SearchRequest, files: list[bytes]) -> None:
    assert_equal(rg, directory, request_, files)


@settings(max_examples=60)
@given(requests(multiline=True), st.lists(contents(), min_size=20, max_size=40))
def test_over_line_ends(rg: str, directory: Path, request_: SearchRequest, files: list[bytes]) -> None:
    assert_equal(rg, directory, request_, files)


@settings(max_examples=40)
@given(
    requests(multiline=False) | requests(multiline=True),
    st.lists(contents(), min_size=20, max_size=20),
    st.sampled_from(["files", "files_without_match", "count", "count_matches"]),
)
def test_summaries(
    rg: str, directory: Path, request_: SearchRequest, files: list[bytes], output: str
) -> None:
    request = SearchRequest(**{**vars(request_), "output": output, "before": 0, "after": 0})
    try:
        compile_request(request)
    except PatternError:
        return
    write_files(directory, files)
    assert plain_matched(directory, request) == plain_output(rg, directory, request)


def plain_matched(directory: Path, request: SearchRequest) -> bytes:
    """The answers of ``directory`` as ripgrep's ``-l`` or ``-c`` prints them with ``--null``."""
    output = b""
    for name, result in matched(directory, request).items():
        output += name.encode() + b"\0"
        if request.output.startswith("count"):
            output += b"%d\n" % result.count
    return output


@pytest.mark.parametrize(
    "options",
    [
        {"patterns": ("self",)},
        {"patterns": ("self",), "word": True, "before": 2, "after": 3},
        {"patterns": (r"\bdef\s+\w+_\w+\(",)},
        {"patterns": ("import (os|sys)$",), "max_count": 1, "after": 2},
        {"patterns": (".",), "max_count": 3},
        {"patterns": ("e",)},
        {"patterns": (r"^\s*$",), "invert": True, "max_count": 5},
        {"patterns": (r"\breturn\s+None\s*\n\s*def\b",), "multiline": True},
        {"patterns": (r"(?s)\(.*?\)",), "multiline": True},
        {"patterns": ("TypeError", "ValueError"), "fixed_strings": True},
        {"patterns": ("typeerror",), "case": "smart"},
        {"patterns": (r"\p{Greek}|[^\x00-\x7f]",)},
        {"patterns": ("x*",), "max_count": 10},
    ],
    ids=lambda options: "|".join(options["patterns"]),
)
def test_standard_library(rg: str, options: dict[str, Any]) -> None:
    """Real files, larger than the pieces in which they are searched."""
    directory = Path(sysconfig.get_path("stdlib"), "test")
    if not directory.is_dir():
        directory = Path(sysconfig.get_path("stdlib"))
    names = [entry.name for entry in directory.iterdir() if entry.suffix == ".py"]
    request = SearchRequest(**options)
    expected = json_answers(rg, directory, request, sorted(names))
    found = matched(directory, request, names=sorted(names), explicit=True)
    assert found.keys() == expected.keys()
    for name, answer in expected.items():
        have = as_answer(found[name])
        if request.max_count is not None:
            answer.bytes_searched = have.bytes_searched
        assert have == answer, name
