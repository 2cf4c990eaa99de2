"""ripgrep as the oracle: a search request as its command line, and its ``--json`` answer as records.

A *record* holds all that ripgrep reports of one file, so that an answer of ours, in the same form, can be
compared for equality::

    case = SearchRequest(patterns=("mutex_lock",), word=True)
    assert records(session.search(case)) == ask_ripgrep(rg, root, case)
"""

from __future__ import annotations

import base64
import dataclasses
import json
import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from indexgrep.request import FileResult, Line, SearchRequest

#: Line number, byte offset, bytes of the line, byte spans of the matches in it, match (or context).
LineRecord = tuple[int, int, bytes, tuple[tuple[int, int], ...], bool]


@dataclass(frozen=True)
class Record:
    """What one file answers. ``binary_offset`` is where the NUL byte is that makes it binary, or ``None``."""

    lines: tuple[LineRecord, ...]
    binary_offset: int | None = None


class RipgrepRefused(Exception):
    """ripgrep exits with an error and without an answer; the text is its message."""


#: Request fields that are one flag of ripgrep's each.
_SWITCHES = {
    "fixed_strings": "--fixed-strings",
    "word": "--word-regexp",
    "line": "--line-regexp",
    "invert": "--invert-match",
    "multiline": "--multiline",
    "multiline_dotall": "--multiline-dotall",
    "crlf": "--crlf",
    "hidden": "--hidden",
    "no_ignore": "--no-ignore",
    "no_ignore_vcs": "--no-ignore-vcs",
    "text": "--text",
    "binary": "--binary",
    "follow": "--follow",
}
_CASES = {"sensitive": "--case-sensitive", "insensitive": "--ignore-case", "smart": "--smart-case"}
_VALUES = {
    "globs": "--glob",
    "iglobs": "--iglob",
    "types": "--type",
    "types_not": "--type-not",
    "max_depth": "--max-depth",
    "max_filesize": "--max-filesize",
    "before": "--before-context",
    "after": "--after-context",
    "max_count": "--max-count",
}


def ripgrep_arguments(request: SearchRequest) -> list[str]:
    """The flags and operands with which ripgrep searches for the same, run in the request's ``cwd``."""
    arguments = ["--no-config", "--no-messages", _CASES[request.case]]
    arguments += [flag for name, flag in _SWITCHES.items() if getattr(request, name)]
    if not request.unicode:
        arguments.append("--no-unicode")
    for name, flag in _VALUES.items():
        value = getattr(request, name)
        values = value if isinstance(value, tuple) else (value,)
        if value != SearchRequest.__dataclass_fields__[name].default:
            arguments += [f"{flag}={item}" for item in values]
    for pattern in request.patterns:
        arguments += ["--regexp", pattern]
    return [*arguments, "--", *(request.paths or ("./",))]


def ask_ripgrep(rg: str, root: Path, request: SearchRequest) -> dict[str, Record]:
    """ripgrep's answer: a record for each matching file, by path relative to ``root`` (``surrogateescape``).

    Raises ``RipgrepRefused`` where ripgrep takes the request for an error.
    """
    cwd = request.cwd or str(root)
    run = subprocess.run(
        [rg, "--json", *ripgrep_arguments(request)], cwd=cwd, capture_output=True, check=False
    )
    # With files that cannot be read the code is 2 as well, but there is an answer.
    if run.returncode == 2 and not run.stdout:
        raise RipgrepRefused(run.stderr.decode(errors="replace"))
    return _parse(run.stdout, root, cwd)


def _parse(output: bytes, root: Path, cwd: str) -> dict[str, Record]:
    answer: dict[str, Record] = {}
    lines: list[LineRecord] = []
    for raw in output.splitlines():
        event = json.loads(raw)
        data = event["data"]
        if event["type"] == "begin":
            lines = []
        elif event["type"] in ("match", "context"):
            spans = tuple((item["start"], item["end"]) for item in data["submatches"])
            text = _bytes(data["lines"])
            matched = event["type"] == "match"
            lines.append((data["line_number"], data["absolute_offset"], text, spans, matched))
        elif event["type"] == "end":
            absolute = os.path.normpath(os.path.join(os.fsencode(cwd), _bytes(data["path"])))
            path = os.fsdecode(os.path.relpath(absolute, os.fsencode(root)))
            answer[path] = Record(tuple(lines), data["binary_offset"])
    return answer


def _bytes(value: dict[str, str]) -> bytes:
    return value["text"].encode() if "text" in value else base64.b64decode(value["bytes"])


def records(batches: Iterable[list[FileResult]]) -> dict[str, Record]:
    """An answer of ours in the same form. Files that could not be read are left out, as by ``--no-messages``.

    Checks on the way what ripgrep does not tell: files come in order of their paths' components,
    the parts of a split file one after another, and counts are those of the lines.
    """
    answer: dict[str, Record] = {}
    previous: str | None = None
    for file in (file for batch in batches for file in batch):
        if file.error is not None:
            continue
        if file.binary_offset is None:  # of a binary file also matches are counted that are not shown
            assert file.count == sum(map(_matching_lines, file.lines)), f"{file.path}: wrong count"
        record = Record(tuple(_line_record(line) for line in file.lines), file.binary_offset)
        if file.path == previous:
            before = answer[file.path]
            record = Record(before.lines + record.lines, record.binary_offset)
        elif previous is not None:
            assert _order(previous) < _order(file.path), f"{file.path} comes after {previous}"
        answer[file.path] = record
        previous = file.path
    return answer


def _matching_lines(line: Line) -> int:
    """How many lines a record stands for: with ``multiline`` it is a block of lines."""
    if not line.match:
        return 0
    return line.text.count(b"\n") + (not line.text.endswith(b"\n"))


def _order(path: str) -> list[bytes]:
    return os.fsencode(path).split(b"/")


def _matching_lines(line: Line) -> int:
    """How many lines a record stands for: with ``multiline`` it is a block of lines."""
    if not line.match:
        return 0
    return line.text.count(b"\n") + (not line.text.endswith(b"\n"))


def _order(path: str) -> bytes:
    return os.fsencode(path).replace(b"/", b"\0")


def _line_record(line: Line) -> LineRecord:
    spans = tuple((start, end) for start, end in line.spans)
    return (line.number, line.offset, bytes(line.text), spans, line.match)


def without_spans(answer: dict[str, Record]) -> dict[str, Record]:
    """The answer with where in a line the matches are left out."""
    return {
        path: dataclasses.replace(record, lines=tuple((*line[:3], (), line[4]) for line in record.lines))
        for path, record in answer.items()
    }


def difference(ours: dict[str, Record], theirs: dict[str, Record], limit: int = 8) -> str:
    """What differs, a few lines for people; empty when nothing does."""
    notes: list[str] = []
    for path in sorted(ours.keys() | theirs.keys()):
        mine, oracle = ours.get(path), theirs.get(path)
        if mine == oracle:
            continue
        if mine is None or oracle is None:
            notes.append(f"{path!r}: {'missing' if mine is None else 'too many'}")
            continue
        if mine.binary_offset != oracle.binary_offset:
            notes.append(f"{path!r}: binary offset {mine.binary_offset}, not {oracle.binary_offset}")
        notes += [f"{path!r}: too many: {line!r:.200}" for line in mine.lines if line not in oracle.lines]
        notes += [f"{path!r}: missing: {line!r:.200}" for line in oracle.lines if line not in mine.lines]
    more = len(notes) - limit
    return "\n".join(notes[:limit] + ([f"and {more} more"] if more > 0 else []))
