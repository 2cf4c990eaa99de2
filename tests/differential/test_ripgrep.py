"""Answers equal ripgrep's, line for line: path, line number, offset, text, spans, binary offset."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from differential.patterns import BROAD, DIALECT, REPORTED, Case, Cutter, bounded, cut_cases, scoped
from indexgrep.errors import PatternError
from indexgrep.search import Session
from support.oracle import Record, RipgrepRefused, ask_ripgrep, difference, records, without_spans

#: Cases of each kind that are cut out of the standard library, and out of the hostile tree's texts.
EACH = 6


#: How often ripgrep is asked until it agrees. Whether it stops early at a NUL byte late in a file depends on
#: how far the buffer of the thread that reads it has grown on earlier files: one answer in 15 differs.
TRIES = 5


def check(session: Session, rg: str, root: Path, asked: Case) -> str:
    """What is wrong with the answer to ``asked``; empty where nothing is."""
    try:
        search = session.search(asked.request)
        ours = comparable(asked, records(search))
    except PatternError as error:
        try:
            ask_ripgrep(rg, root, asked.request)
        except RipgrepRefused:
            return ""
        return f"refused: {error}"
    for _ in range(TRIES):
        try:
            theirs = comparable(asked, ask_ripgrep(rg, root, asked.request))
        except RipgrepRefused as refusal:
            return f"answered, but ripgrep says: {refusal}"
        wrong = difference(ours, theirs)
        if not wrong:
            break
    else:
        return wrong
    summary = search.summary
    if not summary.complete:
        return f"not complete: {summary.reason}"
    if summary.matched_files != len(theirs):
        return f"the summary counts {summary.matched_files} files, not {len(theirs)}"
    if asked.indexable and summary.served_by != "index":
        return f"served by a {summary.served_by}: {summary.scan_reason}"
    if asked.selective and summary.candidates * 2 > summary.documents:
        return f"{summary.candidates} candidates of {summary.documents} documents"
    return ""


def comparable(asked: Case, answer: dict[str, Record]) -> dict[str, Record]:
    """The part of an answer that is to be equal."""
    if not asked.spans:
        answer = without_spans(answer)
    if asked.request.binary:
        # That a binary file matches is told without its lines: only ripgrep's --json has them.
        answer = {
            path: record if record.binary_offset is None else Record((), record.binary_offset)
            for path, record in answer.items()
        }
    return answer


def check_all(session: Session, rg: str, root: Path, cases: list[Case]) -> None:
    """Check every case and report all that are wrong together."""
    faults = []
    for asked in cases:
        wrong = check(session, rg, root, asked)
        if wrong:
            faults.append(f"{asked.name:.200}\n    " + wrong.replace("\n", "\n    "))
    assert not faults, f"{len(faults)} of {len(cases)} answers are wrong:\n\n" + "\n\n".join(faults)


def without_index(asked: Case) -> Case:
    request = dataclasses.replace(asked.request, no_index=True)
    return dataclasses.replace(asked, request=request, indexable=False, selective=False)


@pytest.fixture(scope="module")
def library_cases(stdlib: Path, sources: list[str]) -> list[Case]:
    return [bounded(asked) for asked in cut_cases(Cutter(stdlib, sources, seed=2024), EACH)]


def test_there_are_enough_patterns(library_cases: list[Case]) -> None:
    assert len({asked.name for asked in [*library_cases, *REPORTED, *BROAD, *DIALECT]}) >= 300
    assert sum(asked.indexable for asked in library_cases) >= 100


def test_patterns_cut_from_the_standard_library(
    stdlib_session: Session, rg: str, stdlib: Path, library_cases: list[Case]
) -> None:
    check_all(stdlib_session, rg, stdlib, library_cases)


@pytest.mark.parametrize("written", [REPORTED, DIALECT], ids=["reported", "dialect"])
def test_written_patterns_on_the_standard_library(
    stdlib_session: Session, rg: str, stdlib: Path, written: tuple[Case, ...]
) -> None:
    check_all(stdlib_session, rg, stdlib, [bounded(asked) for asked in written])


def test_a_scan_answers_the_same(
    stdlib_session: Session, rg: str, stdlib: Path, library_cases: list[Case]
) -> None:
    check_all(stdlib_session, rg, stdlib, [without_index(asked) for asked in library_cases[::6]])


@pytest.mark.parametrize("written", [REPORTED, BROAD, DIALECT], ids=["reported", "broad", "dialect"])
def test_written_patterns_on_the_hostile_tree(
    hostile_session: Session, rg: str, hostile: Path, written: tuple[Case, ...]
) -> None:
    check_all(hostile_session, rg, hostile, list(written))


def test_patterns_cut_from_the_hostile_tree(hostile_session: Session, rg: str, hostile: Path) -> None:
    names = [str(path.relative_to(hostile)) for path in hostile.glob("[tues]*/*") if path.is_file()]
    cases = list(cut_cases(Cutter(hostile, names, seed=7), 3))
    check_all(hostile_session, rg, hostile, cases)


@pytest.mark.parametrize("pattern", ["needle", "Needle|NEEDLE", "e", "^"])
def test_every_scope_on_the_hostile_tree(
    hostile_session: Session, rg: str, hostile: Path, pattern: str
) -> None:
    cases = [bounded(asked) for asked in scoped(pattern)]
    check_all(hostile_session, rg, hostile, cases + [without_index(asked) for asked in cases])


def test_every_scope_on_the_standard_library(stdlib_session: Session, rg: str, stdlib: Path) -> None:
    check_all(stdlib_session, rg, stdlib, list(scoped("import json", indexable=True)))


@pytest.mark.parametrize(
    "paths", [("src",), ("src/main.c",), ("names", "text"), ("./src/util",), ("nested",)]
)
def test_paths_of_the_hostile_tree(
    hostile_session: Session, rg: str, hostile: Path, paths: tuple[str, ...]
) -> None:
    cases = [
        dataclasses.replace(one, request=dataclasses.replace(one.request, paths=paths))
        for one in scoped("needle")
    ]
    check_all(hostile_session, rg, hostile, cases)


def test_a_directory_of_its_own(hostile_session: Session, rg: str, hostile: Path) -> None:
    """Relative paths and globs are resolved from ``cwd``."""
    cases = [
        dataclasses.replace(one, request=dataclasses.replace(one.request, cwd=str(hostile / "src")))
        for one in scoped("needle")
    ]
    check_all(hostile_session, rg, hostile, cases)
