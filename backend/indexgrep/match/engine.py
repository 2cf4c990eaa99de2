"""The engines that run a pattern over bytes.

The first choice is Rust's ``regex`` crate (through ``paula``): the semantics are ripgrep's to the byte, and
every search is linear in the text. Where it refuses a pattern's compiled size, the backtracking ``regex``
module runs the same pattern over decoded text, under a deadline.
"""

from __future__ import annotations

import time
from typing import Any, Protocol

import paula

from ..errors import PatternError

Span = tuple[int, int]


class Timeout(Exception):
    """The backtracking engine did not finish a file in time."""


class Engine(Protocol):
    """A compiled pattern. Offsets are in bytes; matches are leftmost-first and do not overlap."""

    def is_match(self, data: bytes) -> bool: ...

    def find(self, data: bytes) -> Span | None: ...

    def spans(self, data: bytes) -> list[Span]: ...


class RustEngine:
    """``paula.BytesRegex``: the Rust engine. Holds the GIL during a call, so callers pass bounded chunks."""

    def __init__(self, pattern: str) -> None:
        """Raises ``ValueError`` when the engine refuses the pattern."""
        self._regex: Any = paula.BytesRegex(pattern)
        self._find_iter = self._regex.find_iter

    def is_match(self, data: bytes) -> bool:
        return bool(self._regex.is_match(data))

    def find(self, data: bytes) -> Span | None:
        match = self._regex.find(data)
        return None if match is None else (match.start, match.end)

    def spans(self, data: bytes) -> list[Span]:
        return [(match.start, match.end) for match in self._find_iter(data)]


class FallbackEngine:
    """The ``regex`` module on text decoded with ``surrogateescape``, within ``timeout`` seconds a call.

    It differs from the Rust engine where text is not UTF-8: a stray byte is a character here, which ``.`` and
    negated classes match.
    """

    def __init__(self, pattern: str, timeout: float) -> None:
        import regex

        self._regex: Any = regex.compile(pattern)
        self._timeout = timeout
        self._deadline: float | None = None

    def is_match(self, data: bytes) -> bool:
        return self.find(data) is not None

    def find(self, data: bytes) -> Span | None:
        text = data.decode("utf-8", "surrogateescape")
        try:
            match = self._regex.search(text, timeout=self._timeout)
        except TimeoutError:
            raise Timeout from None
        return None if match is None else _byte_spans(text, [match.span()])[0]

    def spans(self, data: bytes) -> list[Span]:
        text = data.decode("utf-8", "surrogateescape")
        try:
            found = [match.span() for match in self._regex.finditer(text, timeout=self._timeout)]
        except TimeoutError:
            raise Timeout from None
        return _byte_spans(text, _without_touching_empty(found))


def _without_touching_empty(spans: list[Span]) -> list[Span]:
    """``spans`` without the empty matches right after another match, which Rust never reports."""
    kept: list[Span] = []
    last = -1
    for start, end in spans:
        if start != end or start != last:
            kept.append((start, end))
            last = end
    return kept


def _byte_spans(text: str, spans: list[Span]) -> list[Span]:
    """Ordered character ``spans`` of ``text`` as byte spans of what it was decoded from."""
    if text.isascii():
        return spans
    result = []
    chars = offset = 0
    for start, end in spans:
        begin = offset + len(text[chars:start].encode("utf-8", "surrogateescape"))
        finish = begin + len(text[start:end].encode("utf-8", "surrogateescape"))
        result.append((begin, finish))
        chars, offset = end, finish
    return result


def compile_engine(rust: str, python: Any, timeout: float = 2.0) -> Engine:
    """The engine for a pattern in the Rust dialect, ``rust``.

    ``python`` is called (when it is callable) or taken as the same pattern for the ``regex`` module, only if
    the Rust engine refuses the first; ``timeout`` then bounds each call, in seconds. Raises ``PatternError``
    when neither engine can run the pattern.
    """
    try:
        return RustEngine(rust)
    except ValueError as refusal:
        reason = str(refusal).strip().splitlines()[-1] if str(refusal) else "pattern refused"
    try:
        return FallbackEngine(python() if callable(python) else python, timeout)
    except Exception:
        raise PatternError(rust, 0, len(rust), reason, "Make the pattern smaller.") from None


def now() -> float:
    """The clock of deadlines, in seconds."""
    return time.monotonic()
