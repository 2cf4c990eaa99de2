"""What the model test asks, and how it compares answers with ripgrep's.

One run of ripgrep costs as much as ten searches of a small tree. So it is asked once for all words, and the
answers for each word alone follow from that. Where one of ours differs, it is asked for that word itself.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from indexgrep.overlay.buffers import Buffer
from indexgrep.request import SearchRequest, Summary
from indexgrep.search import Session
from support.oracle import Record, ask_ripgrep, difference, records, ripgrep_arguments

from .tree import WORDS, remove

#: What each file answers: its lines, or a number.
Answer = dict[str, Record] | dict[str, int]


@dataclass
class Tally:
    """What a run has asked, so that it can be told whether it was a test of anything."""

    searches: int = 0
    #: Answered with the index's help, and with some files not read for it.
    served: int = 0
    ruled_out: int = 0
    #: Answered by layers of which some were segments.
    layered: int = 0

    def count(self, summary: Summary) -> None:
        self.searches += 1
        if summary.served_by == "index":
            self.served += 1
            self.ruled_out += summary.candidates < summary.documents


class Oracle:
    """ripgrep in one tree."""

    def __init__(self, rg: str, root: Path, shadow: Path) -> None:
        """``shadow`` is where to make copies of the tree, with unsaved buffers written."""
        self._rg = rg
        self.root = root
        self._shadow = shadow / root.name

    def words(self) -> dict[str, dict[str, Record]]:
        """The answer for each of ``WORDS`` alone."""
        everything = ask_ripgrep(self._rg, self.root, SearchRequest(WORDS))
        return {word: _only(everything, word.encode()) for word in WORDS}

    def refused(self) -> set[str]:
        """What ripgrep says that it cannot search, as far as a path can be told (it writes them as UTF-8)."""
        command = [self._rg, "--no-config", "--regexp", "no such text", "./"]
        run = subprocess.run(command, cwd=self.root, capture_output=True, check=False)
        return {path.decode(errors="replace") for path in _REFUSED.findall(run.stderr)}

    def files(self) -> int:
        """How many files there are to search."""
        command = [self._rg, "--no-config", "--no-messages", "--files", "--null", "./"]
        return subprocess.run(command, cwd=self.root, capture_output=True, check=False).stdout.count(b"\0")

    def with_buffers(self, buffers: Mapping[bytes, Buffer]) -> Oracle | None:
        """The oracle of a copy of the tree in which the texts of ``buffers`` are written to their files.

        ``None`` where permissions are in the way of copying.
        """
        remove(self._shadow.parent)
        try:
            for name in (self.root.name, "outside"):
                shutil.copytree(self.root.parent / name, self._shadow.parent / name, symlinks=True)
            for path in self.root.parent.glob(".*ignore"):
                shutil.copy(path, self._shadow.parent)
        except OSError:
            return None
        for buffer in sorted(buffers.values(), key=lambda buffer: buffer.received):
            path = os.path.realpath(os.path.join(os.fsencode(self._shadow), buffer.path))
            with contextlib.suppress(OSError):
                os.makedirs(os.path.dirname(path), exist_ok=True)
                if os.path.isfile(path):
                    os.chmod(path, 0o644)
                with open(path, "wb") as file:
                    file.write(buffer.text)
        return Oracle(self._rg, self._shadow, self._shadow.parent)

    def answer(self, request: SearchRequest) -> Answer:
        """The answer to any request: what each file holds, or how much where no lines are wanted."""
        if request.output == "lines":
            return ask_ripgrep(self._rg, self.root, request)
        return self._counts(request)

    def _counts(self, request: SearchRequest) -> dict[str, int]:
        run = subprocess.run(
            [self._rg, "--null", "--with-filename", _OUTPUTS[request.output], *ripgrep_arguments(request)],
            cwd=request.cwd or self.root,
            capture_output=True,
            check=False,
        )
        counts = {}
        if request.output in ("files", "files_without_match"):
            for name in run.stdout.split(b"\0")[:-1]:
                counts[self._relative(name, request)] = 1
        else:
            rest = run.stdout
            while rest:
                name, _, rest = rest.partition(b"\0")
                count, _, rest = rest.partition(b"\n")
                counts[self._relative(name, request)] = int(count)
        return counts

    def _relative(self, name: bytes, request: SearchRequest) -> str:
        path = os.path.normpath(os.path.join(os.fsencode(request.cwd or self.root), name))
        return os.fsdecode(os.path.relpath(path, os.fsencode(self.root)))


_REFUSED = re.compile(rb"^rg: \./(.*?): .*? \(os error \d+\)$", re.MULTILINE | re.DOTALL)

_OUTPUTS = {
    "files": "--files-with-matches",
    "files_without_match": "--files-without-match",
    "count": "--count",
    "count_matches": "--count-matches",
}


def _only(everything: dict[str, Record], word: bytes) -> dict[str, Record]:
    """The part of an answer for several words that is the answer for one of them."""
    answer = {}
    for path, record in everything.items():
        lines = []
        for number, offset, text, spans, matched in record.lines:
            own = tuple((start, end) for start, end in spans if text[start:end] == word)
            if own:
                lines.append((number, offset, text, own, matched))
        if lines:
            answer[path] = replace(record, lines=tuple(lines))
    return answer


def ask(
    session: Session, request: SearchRequest, tally: Tally, buffers: Mapping[bytes, Buffer] | None = None
) -> Answer:
    """Our answer, in the form of the oracle's. It must be complete."""
    search = session.search(request, buffers=buffers)
    if request.output == "lines":
        answer: Answer = records(search)
    else:
        answer = {
            file.path: file.count if request.output.startswith("count") else 1
            for batch in search
            for file in batch
            if file.error is None
        }
    assert search.summary.complete, f"not complete: {search.summary.reason}"
    tally.count(search.summary)
    return answer


def faults(
    session: Session,
    oracle: Oracle,
    request: SearchRequest,
    cwd: str,
    tally: Tally,
    buffers: Mapping[bytes, Buffer],
) -> list[str]:
    """What is wrong with the answer to ``request``, as the files are and with ``buffers`` in their place.

    ``cwd`` is the folder that it is asked from; where it leads out of the tree, nothing is asked.
    """
    found: list[str] = []
    asked: list[tuple[Oracle | None, Mapping[bytes, Buffer]]] = [(oracle, {})]
    if buffers:
        asked.append((oracle.with_buffers(buffers), buffers))
    request = _from_folder(request, oracle.root, cwd)
    if not os.path.join(request.cwd, "").startswith(os.path.join(oracle.root, "")):
        return found
    for expert, texts in asked:
        if expert is None or not os.path.isdir(os.path.join(request.cwd, ".")):  # nor may it be entered
            continue
        ours = ask(session, request, tally, texts)
        theirs = expert.answer(_from_folder(request, expert.root, cwd))
        if request.paths:
            ours, theirs = _without_binary_lines(ours), _without_binary_lines(theirs)
        if ours != theirs:
            found.append(f"{request}\nwith the buffers {list(texts)}\n{_difference(ours, theirs)}")
    return found


def _from_folder(request: SearchRequest, root: Path, cwd: str) -> SearchRequest:
    return replace(request, cwd=os.path.realpath(root / cwd))


def _without_binary_lines(answer: Answer) -> Answer:
    """The part of an answer that is to be equal where files are named: only ripgrep's --json has the lines of
    a binary one."""
    return {
        path: value
        if isinstance(value, int) or value.binary_offset is None
        else Record((), value.binary_offset)
        for path, value in answer.items()
    }


def refused(session: Session) -> set[str]:
    """What we say that cannot be searched, told as by ``Oracle.refused``."""
    search = session.search(SearchRequest(("no such text",), no_index=True))
    paths = [os.fsencode(file.path) for batch in search for file in batch if file.error is not None]
    return {path.decode(errors="replace") for path in paths}


def word_faults(
    session: Session,
    words: Iterable[int],
    expected: dict[str, dict[str, Record]],
    oracle: Oracle,
    tally: Tally,
) -> list[str]:
    """What is wrong with the answers for each of ``words``, where all of the oracle's are ``expected``."""
    found = []
    for word in (WORDS[number] for number in words):
        request = SearchRequest((word,))
        ours = ask(session, request, tally)
        if ours != expected[word]:
            theirs = oracle.answer(request)
            if ours != theirs:
                found.append(f"{word}\n{_difference(ours, theirs)}")
    layers = session.status()["index"].get("layers", [])
    tally.layered += any(layer["kind"] == "segment" and layer["live"] for layer in layers)
    return found


def _difference(ours: Answer, theirs: Answer) -> str:
    if all(isinstance(value, Record) for value in (*ours.values(), *theirs.values())):
        return difference(ours, theirs)  # type: ignore[arg-type]
    return "\n".join(
        f"{path!r}: {ours.get(path)}, not {theirs.get(path)}"
        for path in sorted(ours.keys() | theirs.keys())
        if ours.get(path) != theirs.get(path)
    )


#: Patterns of every kind of plan: selective, alternatives, parts of words, any case, no literal at all.
PATTERNS = (
    *WORDS,
    "abelmosk|whippets",
    "cinn[a-c]bar",
    "dul(cimer|cet)",
    "fandan+go",
    "nabar of [0-9]",
    "the (hyacinth|jacquard) of",
    r"\bkumquats\b",
    "quard of 1$",
    "^the whip",
    r"ippets of \d",
    "ab.*sk",
    r"\w+",
    "^$",
    "of [02]",
    "e",
    "no such text",
    "",
    r"mosk of 0\nthe",
    "xxxxthe",
)


def draw_request(rng: Random) -> dict[str, Any]:
    """The fields of a request that ripgrep does not refuse; most have their defaults."""
    fields: dict[str, Any] = {"patterns": rng.choices(PATTERNS, k=rng.choice((1, 1, 2)))}
    for name, values in _FIELDS.items():
        if rng.random() < 0.12:
            fields[name] = rng.choice(values)
    if any(r"\n" in pattern for pattern in fields["patterns"]):
        fields["multiline"] = True
    if fields.get("multiline"):  # ripgrep gives the context of an empty match behind the end, without a match
        fields = {name: value for name, value in fields.items() if name not in ("before", "after")}
    return fields


#: What fields are drawn from. Relative paths and globs are resolved in ``cwd``, a folder of the tree.
_FIELDS: dict[str, tuple[Any, ...]] = {
    "cwd": ("a", "lib", "lib/deep"),
    "case": ("insensitive", "smart"),
    "word": (True,),
    "invert": (True,),
    "multiline": (True,),
    "paths": (["a"], ["lib/deep"], ["a/x.c"], ["lib", "top.md"], ["./a/b"], ["gone"], ["a", "lib"]),
    "globs": (["*.c"], ["!*.c"], ["a/**"], ["!a/"], [".hidden"], ["*.log", "!x.log"], ["lib/*"]),
    "iglobs": (["*.C"], ["!LIB/"]),
    "types": (["c"], ["py", "toml"]),
    "types_not": (["c"],),
    "hidden": (True,),
    "no_ignore": (True,),
    "no_ignore_vcs": (True,),
    "follow": (True,),
    "max_depth": (1, 2),
    "max_filesize": (0, 60),
    "text": (True,),
    "before": (1,),
    "after": (1, 2),
    "max_count": (1,),
    "output": ("files", "files_without_match", "count", "count_matches"),
    "no_index": (True,),
}
