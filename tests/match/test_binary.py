"""Files with NUL bytes, against ripgrep's plain output: which lines come, and which notice.

The sizes lie around multiples of ripgrep's buffer, because what it prints hangs on them.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from indexgrep.match.binary import BUFFER
from indexgrep.request import FileResult, SearchRequest
from support.matching import matched, plain_output, write_files

FILLERS = (b"x" * 70 + b"\n", b"hello world\n", b"w" * 997 + b"\n")
LINES = (b"foo bar\n", b"foo\n", b"\n", b"bar\n", b"lorem ipsum dolor " * 3 + b"\n", b"y" * 3000 + b"\n")
SIZES = (10, 100, 1000, 60000, 65000, 66000, 70000, 131000, 140000, 200000)
PATTERNS = ("foo", "^foo", "bar$", ".", "ba", "^$", "lorem|y{20}")
OUTPUTS = ("lines", "lines", "lines", "files", "files_without_match", "count", "count_matches")


def content(rng: random.Random, long_line: bool) -> bytes:
    """A text with one to three NUL bytes at places that matter."""
    size = rng.choice(SIZES)
    filler = rng.choice(FILLERS)
    text = b"z" * rng.choice((BUFFER - 6, BUFFER, 70000, 200000)) if long_line and rng.random() < 0.5 else b""
    while len(text) < size:
        text += rng.choice(LINES) if size < 2000 or rng.random() < 0.05 else filler
    if rng.random() < 0.3:
        text = text[:-1]
    if rng.random() < 0.2:
        text = b"\n" + text
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        around = rng.choice((0, 3, BUFFER, 2 * BUFFER, 3 * BUFFER, len(text), rng.randrange(len(text) + 1)))
        place = max(0, min(len(text), around + rng.randrange(-6, 7)))
        text = text[:place] + b"\0" + text[place + rng.randrange(2) :]
    kind = rng.random()
    if kind < 0.1:
        return b"\xef\xbb\xbf" + text
    if kind < 0.25:
        order = rng.choice(("le", "be"))
        return ("\ufeff" + text.decode("utf-8", "replace")).encode(f"utf-16-{order}")
    return text


def options(rng: random.Random) -> dict[str, Any]:
    chosen: dict[str, Any] = {"output": rng.choice(OUTPUTS)}
    for name, share in (("invert", 0.25), ("multiline", 0.2)):
        chosen[name] = rng.random() < share
    chosen[rng.choice(("text", "binary"))] = rng.random() < 0.3
    if rng.random() < 0.25:
        chosen["max_count"] = rng.choice((1, 2, 5))
    for name in ("before", "after"):
        chosen[name] = rng.choice((0, 0, 0, 1, 2))
    if chosen["invert"] and "max_count" in chosen:
        chosen["after"] = 0  # ripgrep starts counting anew in each buffer
    return chosen


def printed(name: str, result: FileResult, request: SearchRequest, quits: bool) -> bytes:
    """``result`` as ripgrep prints it with ``-nb --no-heading --null``, or ``-l``, or ``-c``."""
    path = name.encode()
    if request.output in ("files", "files_without_match"):
        return path + b"\0"
    if request.output != "lines":
        return b"%s\0%d\n" % (path, result.count)
    output = b""
    for line in result.lines:
        separator = b":" if line.match else b"-"
        number, offset = line.number, line.offset
        for text in line.text.removesuffix(b"\n").split(b"\n"):
            output += b"%s\0%d%s%d%s%s\n" % (path, number, separator, offset, separator, text)
            number += 1
            offset += len(text) + 1
    if result.binary_offset is not None:
        notice = b"WARNING: stopped searching binary file after match" if quits else b"binary file matches"
        output += b'%s: %s (found "\\0" byte around offset %d)\n' % (path, notice, result.binary_offset)
    return output


@pytest.mark.parametrize("way", ["walked", "named", "mapped", "long lines"])
@pytest.mark.parametrize("seed", range(8))
def test_binary_files(rg: str, tmp_path: Path, seed: int, way: str) -> None:
    """``walked``: found in a directory; ``named``: many named files; ``mapped``: few of them.

    A line longer than the buffer makes it grow, for later files too, so such files come one at a time.
    """
    rng = random.Random(f"{seed} {way}")
    explicit = way in ("named", "mapped")
    number = {"walked": 20, "named": 14, "mapped": 8, "long lines": 1}[way]
    for _ in range(4):
        chosen = options(rng)
        pattern = rng.choice((*PATTERNS, "foo\\n") if chosen["multiline"] else PATTERNS)
        request = SearchRequest((pattern,), **chosen)
        files = [content(rng, way == "long lines") for _ in range(number)]
        write_files(tmp_path, files)
        names = [f"{index:05d}" for index in range(number)]
        expected = plain_output(rg, tmp_path, request, names if explicit else ("./",))
        quits = not (explicit or request.binary or request.text)
        results = matched(tmp_path, request, explicit=explicit, mapped=way == "mapped")
        found = b"".join(printed(name, result, request, quits) for name, result in results.items())
        assert found == expected, request


def test_late_nul_is_reported(rg: str, tmp_path: Path) -> None:
    """A match far before a NUL byte is shown, and the reader is told that the search stopped."""
    write_files(tmp_path, [b"foo\n" + b"hello\n" * 40000 + b"\0\nfoo\n"])
    result = matched(tmp_path, SearchRequest(("foo",)))["00000"]
    assert [line.number for line in result.lines] == [1]
    assert result.binary_offset == 4 + 6 * 40000
