"""ripgrep as the oracle of what a file answers, in bulk: one run of it for a whole directory of files."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from indexgrep.match import Matcher, compile_request
from indexgrep.request import FileResult, SearchRequest

#: Request fields that are flags of ripgrep without a value.
_FLAGS = {
    "fixed_strings": "-F",
    "word": "-w",
    "line": "-x",
    "invert": "-v",
    "multiline": "-U",
    "multiline_dotall": "--multiline-dotall",
    "crlf": "--crlf",
    "text": "-a",
    "binary": "--binary",
}
_VALUES = {"before": "-B", "after": "-A", "max_count": "-m"}
_CASES = {"sensitive": "-s", "insensitive": "-i", "smart": "-S"}


@dataclass
class Answer:
    """What ripgrep says of one file: lines as ``(number, offset, text, spans, match)``."""

    lines: list[tuple[int, int, bytes, list[tuple[int, int]], bool]] = field(default_factory=list)
    binary_offset: int | None = None
    matched_lines: int = 0
    matches: int = 0
    bytes_searched: int = 0


def arguments(request: SearchRequest) -> list[str]:
    """ripgrep's command line for ``request``, patterns included, output mode and paths not."""
    args = [_CASES[request.case]]
    args += [flag for name, flag in _FLAGS.items() if getattr(request, name)]
    for name, flag in _VALUES.items():
        value = getattr(request, name)
        if value is not None and value != SearchRequest.__dataclass_fields__[name].default:
            args += [flag, str(value)]
    if not request.unicode:
        args.append("--no-unicode")
    for pattern in request.patterns:
        args += ["-e", pattern]
    return args


def run(
    rg: str, directory: Path, request: SearchRequest, args: Sequence[str], paths: Sequence[str] = ("./",)
) -> bytes:
    """ripgrep's output; fails on its errors (a status of 2)."""
    command = [rg, "--no-config", "--no-ignore", "--hidden", "-j1", *args, *arguments(request), "--", *paths]
    done = subprocess.run(command, cwd=directory, capture_output=True, check=False)
    assert done.returncode in (0, 1), (command, done.stderr.decode())
    return done.stdout


def json_answers(
    rg: str, directory: Path, request: SearchRequest, paths: Sequence[str] = ("./",)
) -> dict[str, Answer]:
    """``rg --json`` over ``directory``, by file name."""
    answers: dict[str, Answer] = {}
    for record in run(rg, directory, request, ["--json"], paths).splitlines():
        event = json.loads(record)
        if event["type"] == "summary":
            continue
        data = event["data"]
        answer = answers.setdefault(_text(data["path"]).decode().removeprefix("./"), Answer())
        if event["type"] in ("match", "context"):
            spans = [(match["start"], match["end"]) for match in data["submatches"]]
            answer.lines.append(
                (
                    data["line_number"],
                    data["absolute_offset"],
                    _text(data["lines"]),
                    spans,
                    event["type"] == "match",
                )
            )
        elif event["type"] == "end":
            answer.binary_offset = data["binary_offset"]
            answer.matched_lines = data["stats"]["matched_lines"]
            answer.matches = data["stats"]["matches"]
            answer.bytes_searched = data["stats"]["bytes_searched"]
    return answers


#: The flags of each output that is plain text, not JSON.
_OUTPUTS = {
    "lines": ["-n", "-b", "--no-heading", "--no-context-separator"],
    "files": ["-l"],
    "files_without_match": ["--files-without-match"],
    "count": ["-c"],
    "count_matches": ["--count-matches"],
}


def plain_output(rg: str, directory: Path, request: SearchRequest, paths: Sequence[str] = ("./",)) -> bytes:
    """ripgrep's plain output, each file name with a NUL byte behind it."""
    args = ["--sort", "path", "-H", "--null", *_OUTPUTS[request.output]]
    return run(rg, directory, request, args, paths).replace(b"./", b"")


def _text(value: Mapping[str, Any]) -> bytes:
    if "text" in value:
        return str(value["text"]).encode()
    return base64.b64decode(value["bytes"])


def matched(
    directory: Path,
    request: SearchRequest,
    *,
    names: Sequence[str] | None = None,
    explicit: bool = False,
    mapped: bool = False,
) -> dict[str, FileResult]:
    """What ``Matcher`` answers for each file of ``directory`` (or those named), by file name."""
    matcher = Matcher(compile_request(request), request)
    results = {}
    for name in sorted(os.listdir(directory)) if names is None else names:
        path = os.fsencode(directory / name)
        result = matcher.search_file(path, name, explicit=explicit, mapped=mapped)
        if result is not None:
            results[name] = result
    return results


def as_answer(result: FileResult) -> Answer:
    assert result.error is None
    return Answer(
        [(line.number, line.offset, line.text, list(line.spans), line.match) for line in result.lines],
        result.binary_offset,
        result.count,
        result.matches,
        result.bytes_searched,
    )


def write_files(directory: Path, contents: Mapping[str, bytes] | Sequence[bytes]) -> Path:
    """Files of the given contents in ``directory`` (made empty first), named by number in a sequence."""
    directory.mkdir(parents=True, exist_ok=True)
    for entry in os.scandir(directory):
        os.unlink(entry.path)
    if not isinstance(contents, Mapping):
        contents = {f"{number:05d}": content for number, content in enumerate(contents)}
    for name, content in contents.items():
        (directory / name).write_bytes(content)
    return directory
