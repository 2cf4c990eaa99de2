"""Command lines are read as ripgrep reads them."""

from __future__ import annotations

import contextlib
import re
import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexgrep.cli.flags import FLAGS, parse
from indexgrep.cli.options import Options, Settings, context_of, request_of
from indexgrep.errors import UsageError


def _changed(arguments: list[str]) -> dict[str, Any]:
    """The options that ``arguments`` change."""
    default = vars(Options())
    return {name: value for name, value in vars(parse(arguments)).items() if value != default[name]}


_NO_IGNORE = {f"no_ignore_{name}": True for name in ("dot", "exclude", "global", "parent", "vcs")}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["-nw"], {"line_number": True, "boundary": "word"}),
        (["-A3", "-tpy", "-epat"], {"after": 3, "types": ["py"], "sources": [("regexp", "pat")]}),
        (["-A", "3"], {"after": 3}),
        (["-A=3"], {"after": 3}),
        (["-nA3"], {"line_number": True, "after": 3}),
        (["-nA", "3", "x"], {"line_number": True, "after": 3, "positional": ["x"]}),
        (["--after-context=3", "--before-context", "4"], {"after": 3, "before": 4}),
        (["-A+3"], {"after": 3}),
        (["-e", "-x"], {"sources": [("regexp", "-x")]}),
        (["-e", "--"], {"sources": [("regexp", "--")]}),
        (["-e="], {"sources": [("regexp", "")]}),
        (["--regexp="], {"sources": [("regexp", "")]}),
        (["--regexp==a"], {"sources": [("regexp", "=a")]}),
        (["-ea", "-f", "x", "-eb"], {"sources": [("regexp", "a"), ("file", "x"), ("regexp", "b")]}),
        (["--", "-i", "--foo"], {"positional": ["-i", "--foo"]}),
        (["a", "-i", "b"], {"positional": ["a", "b"], "case": "insensitive"}),
        (["-"], {"positional": ["-"]}),
        (["-i", "-S"], {"case": "smart"}),
        (["-S", "-s"], {}),
        (["-is"], {}),
        (["-n", "-N"], {"line_number": False}),
        (["-N", "-n"], {"line_number": True}),
        (["-w", "-x"], {"boundary": "line"}),
        (["-x", "-w"], {"boundary": "word"}),
        (["-H", "-I"], {"with_filename": False}),
        (["--color=always", "--color", "never"], {"color": "never"}),
        (["--heading", "--no-heading"], {"heading": False}),
        (["-l", "-c"], {"mode": "count"}),
        (["-c", "--json"], {"mode": "json"}),
        (["--json", "--no-json"], {}),
        (["-l", "--no-json"], {"mode": "files"}),
        (["--type-list", "-l"], {"mode": "type_list"}),
        (["-u"], {"unrestricted": 1, **_NO_IGNORE}),
        (["-a", "--binary"], {"binary": "search"}),
        (["--binary", "--no-text"], {}),
        (["-M0"], {}),
        (["-M150"], {"max_columns": 150}),
        (["--max-filesize=2K"], {"max_filesize": 2048}),
        (["--max-filesize", "1G"], {"max_filesize": 1 << 30}),
        (["-d0", "--maxdepth=3"], {"max_depth": 3}),
        (["--no-context-separator"], {"context_separator": None}),
        ([r"--context-separator=\x7f\t\\\q"], {"context_separator": b"\x7f\t\\\\q"}),
        (["-p"], {"color": "always", "heading": True, "line_number": True}),
        (["--sort", "path", "-j4", "--no-config", "--mmap", "--no-pre", "--no-pcre2"], {}),
        (["-.", "--no-hidden", "-L"], {"follow": True}),
        (["--no-server", "--no-index", "--limit=5", "--timeout", "100", "--root", "/x"],
         {"server": False, "index": False, "limit": 5, "timeout_ms": 100, "root": "/x"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_accepted(arguments: list[str], expected: dict[str, Any]) -> None:
    assert _changed(arguments) == expected


#: Command lines that ripgrep refuses too, with the same words.
REFUSED = [
    ["--foo"],
    ["--colour"],
    ["--no-color"],
    ["-é"],
    ["-%"],
    ["-A", "x", "foo"],
    ["-Ax", "foo"],
    ["-A", "", "foo"],
    ["-A", "99999999999999999999", "foo"],
    ["-A", "-1", "foo"],
    ["-m"],
    ["foo", "-A"],
    ["foo", "--glob"],
    ["--heading=x", "foo"],
    ["--no-heading=x", "foo"],
    ["--no-context-separator=x", "foo"],
    ["-n=3", "foo"],
    ["-in=3", "foo"],
    ["--color=foo", "x"],
    ["--sort=size", "x"],
    ["-uuuu", "x"],
    ["--max-filesize=1x", "x"],
    ["--max-filesize=", "x"],
    ["--max-filesize=K", "x"],
    ["--max-columns", "1.5", "x"],
]


@pytest.mark.parametrize("arguments", REFUSED, ids=" ".join)
def test_refused_in_the_words_of_ripgrep(arguments: list[str], rg: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(arguments)
    theirs = subprocess.run([rg, *arguments], capture_output=True, text=True, check=False)
    assert theirs.returncode == 2
    assert caught.value.message == theirs.stderr.removeprefix("rg: ").split("\n\n")[0].rstrip("\n")
    if "similar flags" in theirs.stderr:
        assert "--color" in caught.value.hint


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["-P", "x"], "--pcre2"),
        (["--pcre2", "x"], "--pcre2"),
        (["-nP", "x"], "--pcre2"),
        (["-r", "y", "x"], "--replace"),
        (["-ry", "x"], "--replace"),
        (["--replace=y", "x"], "--replace"),
        (["--passthru", "x"], "--passthru"),
        (["-z", "x"], "--search-zip"),
        (["--sort=modified", "x"], "--sort=modified"),
        (["--sortr=path", "x"], "--sortr"),
        (["-Elatin1", "x"], "--encoding=latin1"),
        (["--engine=auto", "x"], "--engine=auto"),
        (["--files"], "--files"),
    ],
)
def test_flags_that_only_ripgrep_has_are_named(arguments: list[str], named: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(arguments)
    assert caught.value.message == f"{named} is not supported yet"


def test_every_flag_of_ripgrep_is_in_the_table(rg: str) -> None:
    """By its help; what the table lacks would be called unrecognized, which is not true."""
    text = subprocess.run([rg, "--help"], capture_output=True, text=True, check=True).stdout
    short = subprocess.run([rg, "-h"], capture_output=True, text=True, check=True).stdout
    known = {f"--{name}" for flag in FLAGS for name in (flag.long, flag.negated, *flag.aliases) if name}
    known |= {f"-{flag.short}" for flag in FLAGS if flag.short}
    documented = set(re.findall(r"^\s+(-[\w.])(?:, |$)", short, re.MULTILINE))
    documented |= set(re.findall(r"^\s+(?:-[\w.], )?(--[a-z0-9-]+)", short, re.MULTILINE))
    documented |= set(re.findall(r"This flag can be disabled with (--[a-z0-9-]+)", text))
    assert len(documented) > 120
    assert not documented - known


def test_names_are_unique() -> None:
    names = [name for flag in FLAGS for name in (flag.long, flag.negated, *flag.aliases) if name]
    shorts = [flag.short for flag in FLAGS if flag.short]
    assert len(names) == len(set(names))
    assert len(shorts) == len(set(shorts))


_words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)


@st.composite
def _spelled(draw: st.DrawFn) -> list[str]:
    """A value and one of the ways to give it to a flag that takes any text."""
    flag = draw(st.sampled_from([flag for flag in FLAGS if flag.long in ("regexp", "glob", "type", "iglob")]))
    value = draw(_words)
    ways = [[f"--{flag.long}={value}"], [f"--{flag.long}", value]]
    if flag.short:
        ways.append([f"-{flag.short}", value])
        ways.append([f"-{flag.short}={value}"])
        if value and not value.startswith("="):
            ways.append([f"-{flag.short}{value}"])
            ways.append([f"-n{flag.short}{value}"])
    return draw(st.sampled_from(ways))


@given(st.lists(_spelled(), max_size=4), st.lists(_words, max_size=3))
def test_any_value_arrives_as_it_was_given(spelled: list[list[str]], rest: list[str]) -> None:
    options = parse([part for way in spelled for part in way] + ["--", *rest])
    assert options.positional == rest
    gathered = [value for _, value in options.sources] + options.globs + options.iglobs + options.types
    expected = []
    for way in spelled:
        text = way[-1]
        if len(way) == 1:
            text = text.partition("=")[2] if text.startswith("--") else text.lstrip("-").removeprefix("n")[1:]
            text = text if way[0].startswith("--") else text.removeprefix("=")
        expected.append(text)
    assert sorted(gathered) == sorted(expected)


@given(
    st.lists(st.one_of(_words, st.sampled_from(["-", "--", "-A", "-n=1", "--x=", "-uuuu", "-e"])), max_size=6)
)
def test_any_command_line_is_read_or_refused(arguments: list[str]) -> None:
    with contextlib.suppress(UsageError):
        parse(arguments)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], (0, 0)),
        (["-C2"], (2, 2)),
        (["-C2", "-A1"], (2, 1)),
        (["-A1", "-C2"], (2, 1)),
        (["-B0", "-C2"], (0, 2)),
    ],
)
def test_context(arguments: list[str], expected: tuple[int, int]) -> None:
    assert context_of(parse(arguments)) == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], (False, False)),
        (["--no-ignore"], (True, False)),
        (["-u", "--ignore"], (False, False)),
        (["--no-ignore-vcs"], (False, True)),
        (["--no-ignore-vcs", "--no-ignore-global", "--no-ignore-exclude"], (False, True)),
    ],
)
def test_ignore_rules(arguments: list[str], expected: tuple[bool, bool]) -> None:
    options = parse(arguments)
    request = request_of(options, Settings(options, terminal=False, one_file=False), ["x"], paths=(), cwd="/")
    assert (request.no_ignore, request.no_ignore_vcs) == expected


@pytest.mark.parametrize(
    "arguments", [["--no-ignore-dot"], ["--no-ignore", "--ignore-vcs"], ["--no-ignore-global"]]
)
def test_other_ignore_rules_are_refused(arguments: list[str]) -> None:
    options = parse(arguments)
    with pytest.raises(UsageError, match="not supported"):
        request_of(options, Settings(options, terminal=False, one_file=False), ["x"], paths=(), cwd="/")
