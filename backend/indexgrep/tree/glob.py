"""One glob as a regular expression, in the dialect of ripgrep's ``globset`` crate.

The dialect, where ``/`` is the only separator (globset's ``literal_separator``, as ripgrep uses it
everywhere):

``?``            one byte but ``/``
``*``            any number of bytes but ``/``
``[ab]``         one byte of a class; ``[!ab]`` and ``[^ab]`` one byte not in it (also ``/``, as in globset)
``{a,b}``        alternatives, which may nest; empty alternatives are dropped
``\\x``           the character itself
``**/x``         ``x`` at any depth; ``x/**`` everything below ``x``; ``x/**/y`` any directories between

Globs are text; they match bytes. A character beyond ASCII stands for its UTF-8 bytes, in a class (as in
globset) for each of them. Letters fold in ASCII only.

The result is a fragment in the syntax of the Rust ``regex`` crate in two forms: ``exact`` for one path, and
``batch`` for many paths joined by line feeds, in which no item may cross a line feed. Both lack anchors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

#: Token kinds. A token is ``(kind, payload)``.
_LITERAL = "literal"  # payload: one character
_ANY = "any"
_STAR = "star"
_PREFIX = "prefix"  # a leading **/
_SUFFIX = "suffix"  # a trailing /**
_MIDDLE = "middle"  # /**/ between
_CLASS = "class"  # payload: (negated, [(first, last), ...])
_ALTERNATES = "alternates"  # payload: list of token lists

_META = frozenset(r"\.+*?()|[]{}^$#&-~")


class GlobError(ValueError):
    """A glob that does not parse; the text says why, in ripgrep's words."""


class _Token(NamedTuple):
    kind: str
    #: A character, a class or a list of branches, by ``kind``.
    char: str = ""
    negated: bool = False
    ranges: tuple[tuple[str, str], ...] = ()
    branches: tuple[tuple[_Token, ...], ...] = ()


@dataclass(frozen=True)
class Glob:
    """A parsed glob; see the module for the forms."""

    exact: str
    batch: str
    #: Whether it matches a path iff it matches the path's last component with ``name_batch``.
    by_name: bool
    #: The forms for the last component alone (only where ``by_name``).
    name_exact: str
    name_batch: str


@lru_cache(maxsize=8192)
def parse_glob(text: str, *, ignore_case: bool = False, allow_unclosed_class: bool = False) -> Glob:
    """Parse a glob. Raises ``GlobError``.

    ``allow_unclosed_class`` takes a ``[`` that is never closed as itself, as ignore files do.
    """
    tokens = _Parser(text, allow_unclosed_class).parse()
    flag = "(?i:" if ignore_case else "(?:"
    if len(tokens) == 1 and tokens[0].kind == _PREFIX:  # `**` alone matches everything
        return Glob("(?s:.*)", "[^\\n]*", True, "(?s:.*)", "[^\\n]*")
    by_name = tokens[:1] and tokens[0].kind == _PREFIX and not _may_match_separator(tokens[1:])
    name = tokens[1:] if by_name else ()
    return Glob(
        exact=f"{flag}{_print(tokens, batch=False)})",
        batch=f"{flag}{_print(tokens, batch=True)})",
        by_name=bool(by_name),
        name_exact=f"{flag}{_print(name, batch=False)})",
        name_batch=f"{flag}{_print(name, batch=True)})",
    )


class _Parser:
    """A recursive-state parser: ``branches`` is the stack of unfinished token lists, the last one current."""

    def __init__(self, text: str, allow_unclosed_class: bool) -> None:
        self.text = text
        self.at = 0
        self.allow_unclosed_class = allow_unclosed_class
        self.unclosed_class = False
        self.branches: list[list[_Token]] = [[]]
        #: For each open brace, how many branches there were before it.
        self.open: list[int] = []

    def parse(self) -> tuple[_Token, ...]:
        while self.at < len(self.text):
            char = self.text[self.at]
            before = self.text[self.at - 1] if self.at else ""
            self.at += 1
            if char == "?":
                self._push(_Token(_ANY))
            elif char == "*":
                self._star(before)
            elif char == "[" and not self.unclosed_class:
                self._class()
            elif char == "{":
                self.open.append(len(self.branches))
                self.branches.append([])
            elif char == "}":
                self._close()
            elif char == "," and self.open:
                self.branches.append([])
            elif char == "\\":
                if self.at == len(self.text):
                    raise GlobError("dangling '\\'")
                self._push(_Token(_LITERAL, self.text[self.at]))
                self.at += 1
            else:
                self._push(_Token(_LITERAL, char))
        if len(self.branches) > 1:
            raise GlobError("unclosed alternate group; missing '}' (maybe escape '{' with '[{]'?)")
        return tuple(self.branches[0])

    def _push(self, token: _Token) -> None:
        # Closing an outermost group that was never opened leaves the stack intact, so there is a last branch.
        self.branches[-1].append(token)

    def _peek(self) -> str:
        return self.text[self.at] if self.at < len(self.text) else ""

    def _close(self) -> None:
        if not self.open:
            raise GlobError("unopened alternate group; missing '{' (maybe escape '}' with '[}]'?)")
        start = self.open.pop()
        group = tuple(tuple(branch) for branch in self.branches[start:])
        del self.branches[start:]
        self._push(_Token(_ALTERNATES, branches=group))

    def _star(self, before: str) -> None:
        """``*`` or ``**``; the latter is recursive only as a whole component."""
        if self._peek() != "*":
            self._push(_Token(_STAR))
            return
        self.at += 1
        current = self.branches[-1]
        follow = self._peek()
        in_group = len(self.branches) > 1
        if not current:
            if follow in ("", "/"):
                current.append(_Token(_PREFIX))
                self.at += 1
            else:
                current += [_Token(_STAR), _Token(_STAR)]
            return
        whole_component = before == "/" or (in_group and before in (",", "{"))
        ends = follow == "" or (in_group and follow in (",", "}"))
        if not whole_component or not (ends or follow == "/"):
            current += [_Token(_STAR), _Token(_STAR)]
            return
        if not ends:
            self.at += 1
        last = current.pop()  # the separator before, which the recursive token includes
        if last.kind in (_PREFIX, _SUFFIX):
            current.append(last)
        else:
            current.append(_Token(_SUFFIX if ends else _MIDDLE))

    def _class(self) -> None:
        start = self.at
        negated = self._peek() in ("!", "^") and self._peek() != ""
        if negated:
            self.at += 1
        ranges: list[tuple[str, str]] = []
        first, in_range = True, False
        while True:
            if self.at >= len(self.text):
                if not self.allow_unclosed_class:
                    raise GlobError("unclosed character class; missing ']'")
                self.at = start
                self.unclosed_class = True
                self._push(_Token(_LITERAL, "["))
                return
            char = self.text[self.at]
            self.at += 1
            if char == "]" and not first:
                break
            if char == "-" and not first and not in_range:
                in_range = True
            elif in_range:
                low = ranges[-1][0]
                if char < low:
                    raise GlobError(f"invalid range; '{low}' > '{char}'")
                ranges[-1] = (low, char)
                in_range = False
            else:
                ranges.append((char, char))
            first = False
        if in_range:
            ranges.append(("-", "-"))
        self._push(_Token(_CLASS, negated=negated, ranges=tuple(ranges)))


def _may_match_separator(tokens: tuple[_Token, ...]) -> bool:
    """Whether any of the tokens can match ``/`` (or is one of the recursive kinds)."""
    for token in tokens:
        if token.kind in (_PREFIX, _SUFFIX, _MIDDLE):
            return True
        if token.kind == _LITERAL and token.char == "/":
            return True
        if token.kind == _CLASS and (token.negated or any(low <= "/" <= high for low, high in token.ranges)):
            return True
        if token.kind == _ALTERNATES and any(map(_may_match_separator, token.branches)):
            return True
    return False


def _print(tokens: tuple[_Token, ...], *, batch: bool) -> str:
    any_byte = "[^\\n]" if batch else "(?s:.)"
    not_separator = "[^/\\n]" if batch else "[^/]"
    parts: list[str] = []
    for token in tokens:
        if token.kind == _LITERAL:
            # A name in a batch has no line feed, so a literal one can match none of them.
            parts.append("[a&&b]" if batch and token.char == "\n" else _escape(token.char))
        elif token.kind == _ANY:
            parts.append(not_separator)
        elif token.kind == _STAR:
            parts.append(f"{not_separator}*")
        elif token.kind == _PREFIX:
            parts.append(f"(?:/?|{any_byte}*/)")
        elif token.kind == _SUFFIX:
            parts.append(f"/{any_byte}*")
        elif token.kind == _MIDDLE:
            parts.append(f"(?:/|/{any_byte}*/)")
        elif token.kind == _CLASS:
            body = "".join(
                _escape(low) if low == high else f"{_escape(low)}-{_escape(high)}"
                for low, high in token.ranges
            )
            inner = f"[{'^' if token.negated else ''}{body}]"
            parts.append(f"[{inner}&&[^\\n]]" if batch else inner)
        else:
            printed = [_print(branch, batch=batch) for branch in token.branches]
            printed = [branch for branch in printed if branch]
            if printed:
                parts.append(f"(?:{'|'.join(printed)})")
    return "".join(parts)


def _escape(char: str) -> str:
    """A character as a literal of its UTF-8 bytes (in a class: those bytes, as in globset)."""
    if char < "\x80":
        return f"\\{char}" if char in _META else char
    return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8", "surrogateescape"))
