"""The benchmark's own code, on a small tree: it must not rot between the runs that people look at."""

from __future__ import annotations

import json
import math
import subprocess
from pathlib import Path

import pytest

from benchmarks import __main__ as bench
from benchmarks import changing, freshness, report
from benchmarks.figures import Measured, percentile
from benchmarks.queries import LINUX, Query
from benchmarks.stage import Scale

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


TOY = Scale(
    switched=8,
    edits=25,
    barriers=5,
    dirty=10,
    while_off=5,
    queries=5,
    keys=3,
    saves=2,
    rounds=2,
    patience_s=30.0,
    quiet_s=0.1,
)


@pytest.fixture
def copy(tree: Path, short_tmp: Path) -> Path:
    for number in range(30):
        (tree / "sub" / f"file{number}.c").write_text(f"first {number}\nmiddle\nlast\n")
    subprocess.run(["git", "-C", tree, "add", "--all"], check=True)
    subprocess.run(["git", "-C", tree, "commit", "--quiet", "--message", "more"], check=True)
    return changing.changing_copy(tree, short_tmp / "copy", TOY.switched)


def test_the_copy_that_is_changed(copy: Path, tree: Path) -> None:
    assert changing.differing(copy) == TOY.switched
    second = changing.git(copy, "rev-parse", changing.SECOND)
    (copy / "sub" / "two.py").write_text("left by a run that was killed\n")
    (copy / "untracked").write_text("likewise\n")
    changing.git(copy, "switch", "--quiet", "--detach", "--merge", changing.SECOND)
    assert changing.changing_copy(tree, copy, TOY.switched) == copy
    assert changing.git(copy, "status", "--porcelain") == ""
    assert (copy / "sub" / "two.py").read_bytes() == (tree / "sub" / "two.py").read_bytes()
    assert changing.git(copy, "rev-parse", changing.SECOND) == second  # kept, not made again
    (tree / "one.c").write_text("int moved_on;\n")
    changing.git(tree, "commit", "--quiet", "--all", "--message", "on")
    changing.changing_copy(tree, copy, TOY.switched)
    assert (copy / "one.c").read_text() == "int moved_on;\n"


def test_the_measures_of_freshness(
    copy: Path, short_tmp: Path, rg: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("INDEXGREP_CACHE_DIR", "INDEXGREP_RUNTIME_DIR", "INDEXGREP_LOG"):
        monkeypatch.setenv(name, "")
    taken = freshness.run(copy, short_tmp / "work", list(freshness.MEASURES), TOY, QUERIES[2])
    assert [measured.name for measured in taken] == list(freshness.MEASURES)
    assert [measured.wrong for measured in taken] == [[]] * len(taken)
    figures = {figure.name: figure for measured in taken for figure in measured.figures}
    assert figures["right answers of 25"].met
    assert all(math.isfinite(figure.value) for figure in figures.values())
    assert {figure.wanted for figure in figures.values() if "until normal" in figure.name} == {15.0, None}
    json.dumps(freshness.to_json(taken), allow_nan=False)
    assert changing.git(copy, "status", "--porcelain") == ""


def test_a_wrong_answer_is_told() -> None:
    measured = Measured("a measure", "as it is")
    measured.add("times", math.inf, "s", 15.0)
    measured.add("right", 999, "", least=1000)
    assert not measured.check(False, "one answer")
    assert [figure.met for figure in measured.figures] == [False, False]
    told = report.measure_table(measured)
    assert "not reached" in told
    assert told.count("MISSED") == 2
    assert "WRONG: one answer" in told
    assert json.loads(json.dumps(measured.to_json(), allow_nan=False))["figures"][0]["value"] is None


def test_percentiles() -> None:
    assert percentile(range(1, 101), 95) == 95
    assert percentile([3.0, 1.0, 2.0], 50) == 2.0
    assert percentile([7.0], 95) == 7.0


def test_there_are_enough_queries() -> None:
    assert len(LINUX) >= 20
    assert len({query.kind for query in LINUX}) >= 8
