"""ripgrep's own answer for one text, to compare with."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from indexgrep.pattern import PatternOptions

_CASE = {"sensitive": "-s", "insensitive": "-i", "smart": "-S"}


@dataclass(frozen=True)
class Answer:
    """Byte offsets of the matching lines (``-U``: blocks) and spans of the matches, or else the refusal."""

    lines: set[int]
    spans: list[tuple[int, int]]
    error: str | None = None


def flags(options: PatternOptions) -> list[str]:
    """The command-line flags that ask ripgrep for the same."""
    chosen = [_CASE[options.case]]
    for given, flag in (
        (options.fixed_strings, "-F"),
        (options.word, "-w"),
        (options.line, "-x"),
        (options.multiline, "-U"),
        (options.multiline_dotall, "--multiline-dotall"),
        (options.crlf, "--crlf"),
        (not options.unicode, "--no-unicode"),
    ):
        if given:
            chosen.append(flag)
    return chosen


def search(rg: str, patterns: Sequence[str], options: PatternOptions, file: Path) -> Answer:
    """Search ``file`` as text, all of it."""
    command = [rg, "--no-config", "--json", *flags(options)]
    if not options.ban_nul:
        command.append("-a")
    for pattern in patterns:
        command += ["-e", pattern]
    run = subprocess.run([*command, "--", str(file)], capture_output=True, check=False)
    if run.returncode == 2:
        return Answer(set(), [], run.stderr.decode())
    lines: set[int] = set()
    spans: list[tuple[int, int]] = []
    for record in run.stdout.split(b"\n"):
        message = json.loads(record) if record else {}
        if message.get("type") == "match":
            data = message["data"]
            offset = data["absolute_offset"]
            lines.add(offset)
            spans += [(offset + found["start"], offset + found["end"]) for found in data["submatches"]]
    return Answer(lines, spans)
