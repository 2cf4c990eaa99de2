"""``--json``: ripgrep's JSON Lines, message for message and key for key.

The one addition is ``"source": "buffer"`` in the ``begin`` message of a file whose text is an unsaved buffer.
Text that is not UTF-8 is ``{"bytes": base64}`` instead of ``{"text": …}``. Times of single files are not
measured and are zero.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ..request import FileResult, Line
from .figures import FileTotal, Stats
from .options import Settings

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class JsonPrinter:
    """Prints ``begin``, ``match``, ``context`` and ``end`` messages of files."""

    def __init__(self, settings: Settings, write: Callable[[bytes], None]) -> None:
        self._settings = settings
        self._write_out = write
        self._path: dict[str, str] = {}
        self._origin: dict[str, str] = {}
        self._begun = False
        #: Bytes written for the file so far, without its ``end`` message.
        self.printed = 0

    def begin(self, path: bytes, binary: str, source: str = "disk") -> None:
        """Starts the file shown as ``path``; a ``source`` other than the disk is told."""
        self._path = _data(path)
        self._origin = {} if source == "disk" else {"source": source}
        self._begun = False
        self.printed = 0

    def lines(self, result: FileResult) -> None:
        """Prints the lines of one part of the file."""
        for line in result.lines:
            self._begin()
            self._message("match" if line.match else "context", self._line(line))

    def end(self, total: FileTotal) -> None:
        """Finishes the file."""
        if total.count:
            self._begin()  # also a binary file whose lines are not given
        if not self._begun:
            return
        stats = Stats()
        stats.add_file(total)
        stats.searches = 1
        stats.bytes_searched = total.bytes_searched
        stats.bytes_printed = self.printed
        self._message(
            "end", {"path": self._path, "binary_offset": total.binary_offset, "stats": _stats(stats)}
        )

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._message("begin", {"path": self._path, **self._origin})

    def _line(self, line: Line) -> dict[str, Any]:
        return {
            "path": self._path,
            "lines": _data(line.text),
            "line_number": line.number if self._settings.line_number else None,
            "absolute_offset": line.offset,
            "submatches": [
                {"match": _data(line.text[start:end]), "start": start, "end": end}
                for start, end in line.spans
            ],
        }

    def _message(self, kind: str, data: dict[str, Any]) -> None:
        encoded = _encode({"type": kind, "data": data}).encode() + b"\n"
        self.printed += len(encoded)
        self._write_out(encoded)


def summary_message(stats: Stats, total: float) -> bytes:
    """The last message; its keys are in alphabetical order, as ripgrep's are. ``total`` is in seconds."""
    data = {"elapsed_total": _elapsed(total), "stats": _stats(stats)}
    message = {"data": data, "type": "summary"}
    return json.dumps(message, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode() + b"\n"


def _data(text: bytes) -> dict[str, str]:
    try:
        return {"text": text.decode()}
    except UnicodeDecodeError:
        import base64

        return {"bytes": base64.b64encode(text).decode()}


def _elapsed(seconds: float) -> dict[str, Any]:
    nanos = round(seconds * 1e9)
    return {"secs": nanos // 10**9, "nanos": nanos % 10**9, "human": f"{seconds:.6f}s"}


def _stats(stats: Stats) -> dict[str, Any]:
    return {
        "elapsed": _elapsed(stats.elapsed),
        "searches": stats.searches,
        "searches_with_match": stats.searches_with_match,
        "bytes_searched": stats.bytes_searched,
        "bytes_printed": stats.bytes_printed,
        "matched_lines": stats.matched_lines,
        "matches": stats.matches,
    }
