"""The benchmark's own code, on a small tree: it must not rot between the runs that people look at."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from benchmarks import __main__ as bench
from benchmarks.queries import LINUX, Query

QUERIES = [
    Query("literal", "deadbeef", ("-i",)),
    Query("class", r"Json[A-Z]\w+Error"),
    Query("selective literal", "needle_of_the_benchmark"),
    Query("no literal", r"\b\w{45,}\b"),
]


@pytest.fixture
def tree(short_tmp: Path) -> Path:
    tree = short_tmp / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "one.c").write_bytes(b"int needle_of_the_benchmark;\n0xDEADBEEF\r\n\xff deadbeef\n")
    (tree / "sub" / "two.py").write_text("JsonDecodeError\n" + "x" * 50 + "\n")
    (tree / "binary").write_bytes(b"deadbeef\n" * 10_000 + b"\0")
    for command in (["init", "--quiet"], ["add", "--all"], ["commit", "--quiet", "--message", "tree"]):
        subprocess.run(["git", "-C", tree, *command], check=True)
    return tree


@pytest.mark.nvim
def test_a_whole_run(tree: Path, short_tmp: Path, rg: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("INDEXGREP_CACHE_DIR", "INDEXGREP_RUNTIME_DIR", "INDEXGREP_LOG"):
        monkeypatch.setenv(name, "")  # the run sets its own; they are put back afterwards
    work = short_tmp / "work"
    work.mkdir()
    figures = bench.run(tree, work, QUERIES, 1, with_variants=True)
    assert [query["equal"] for query in figures["queries"]] == [True] * len(QUERIES)
    assert [query["served_by"] for query in figures["queries"]] == ["index"] * 3 + ["scan"]
    assert figures["queries"][0]["lines"] >= 2
    assert figures["builds"]["indexgrep"]["wall_s"] > 0
    assert figures["memory"]["after_queries"] > 0
    assert figures["index"]["bytes"] > sum(figures["index"]["parts"].values()) * 0.9
    assert set(figures["editor"]) == {"needle_of_the_benchmark"}
    assert [row["c"] for row in figures["variants"]] == list(bench.FRACTIONS)


def test_there_are_enough_queries() -> None:
    assert len(LINUX) >= 20
    assert len({query.kind for query in LINUX}) >= 8
