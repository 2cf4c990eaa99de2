"""From the syntax tree to string conditions, bottom up.

The method is that of R. Cox, "Regular Expression Matching with a Trigram Index" (2012), with whole strings in
place of trigrams. For every node it derives what all of its matches look like:

- ``exact``: the finite set of strings it matches, or ``None`` where that is unknown or too large;
- ``prefix`` and ``suffix``: sets such that every match begins (ends) with one of their strings;
- ``match``: a query that every match satisfies.

Strings live in folded space: ASCII letters are small, the two foldable signs are letters
(:mod:`indexgrep.fold`). Zero-width assertions match the empty string there, which is sound since what stands
left and right of one is adjacent in the text.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from ..fold import fold
from . import ast
from .classes import small_set
from .query import ALL, NOTHING, Query, conjunction, disjunction, literal
from .unicode import has_case

#: Strings in an ``exact`` set, and in a disjunction made of one.
MAX_EXACT = 512
#: Strings in a product of two sets that both have several.
MAX_PRODUCT = 64
#: Characters a class may have to be expanded.
MAX_CLASS = 16
#: Strings in a ``prefix`` or ``suffix`` set.
MAX_EDGE = 64
#: Bytes in a string that is still being extended.
MAX_LENGTH = 1024
#: Conditions gathered from one concatenation before only single strings are added.
MAX_MUSTS = 64
#: Copies a counted repetition is unrolled to.
MAX_UNROLL = 16

_NOTHING_KNOWN = frozenset({b""})
_Set = frozenset[bytes]


@dataclass(frozen=True, eq=False, repr=False)
class _Info:
    """What is known of a node's matches; with ``exact`` set the other fields are not used."""

    exact: _Set | None
    prefix: _Set = _NOTHING_KNOWN
    suffix: _Set = _NOTHING_KNOWN
    match: Query = ALL

    @property
    def begins(self) -> _Set:
        return self.prefix if self.exact is None else self.exact

    @property
    def ends(self) -> _Set:
        return self.suffix if self.exact is None else self.exact

    def query(self) -> Query:
        """All that is known, as one condition."""
        if self.exact is not None:
            return any_of(self.exact)
        return conjunction((any_of(self.prefix), self.match, any_of(self.suffix)))


_ANY = _Info(None)
_EMPTY = _Info(frozenset({b""}))


def analyse(root: ast.Node) -> Query:
    """The string conditions of a pattern. Time is about linear in the tree's size, the result bounded."""
    stack: list[_Info] = []
    for node in ast.postorder(root):
        if isinstance(node, ast.Literal):
            stack.append(_literal(node))
        elif isinstance(node, ast.Class):
            stack.append(_class(node))
        elif isinstance(node, ast.Dot):
            stack.append(_ANY)
        elif isinstance(node, (ast.Empty, ast.Look)):
            stack.append(_EMPTY)
        elif isinstance(node, ast.Repeat):
            stack.append(_repeat(stack.pop(), node.minimum, node.maximum))
        elif isinstance(node, ast.Concat):
            stack.append(_concat(_take(stack, len(node.items))))
        elif isinstance(node, ast.Alternation):
            stack.append(_alternate(_take(stack, len(node.branches))))
        # A group's matches are its child's.
    return stack.pop().query()


def _take(stack: list[_Info], count: int) -> list[_Info]:
    taken = stack[len(stack) - count :]
    del stack[len(stack) - count :]
    return taken


def any_of(strings: Collection[bytes]) -> Query:
    """The condition that one of ``strings`` is in the text; degrades to their beginnings, then to ``ALL``."""
    if len(strings) > MAX_EXACT:
        strings = _shortened(strings, MAX_EXACT, at_end=False)
    # ASCII strings have been folded where they arose; in others pieces of characters may have met since.
    safe = {one if one.isascii() else fold(_whole_characters(one)) for one in strings}
    return disjunction(map(literal, sorted(safe)))


def _whole_characters(data: bytes) -> bytes:
    """``data`` without pieces of UTF-8 characters at its edges.

    In the text such a piece may be part of a Kelvin sign or long s, which folding replaces as a whole.
    """
    start, end = 0, len(data)
    while start < end and 0x80 <= data[start] <= 0xBF:
        start += 1
    lead = end
    while lead > start and end - lead < 3 and 0x80 <= data[lead - 1] <= 0xBF:
        lead -= 1
    if lead > start and data[lead - 1] >= 0xC0:
        first = data[lead - 1]
        length = 2 if first < 0xE0 else 3 if first < 0xF0 else 4
        if end - (lead - 1) < length:
            end = lead - 1
    return data[start:end]


def _shortened(strings: Iterable[bytes], limit: int, *, at_end: bool) -> _Set:
    """Beginnings (or ends) of ``strings``, cut to one length, so that there are at most ``limit``."""
    current = set(strings)
    length = min(max(map(len, current), default=0), 64 if len(current) < 4 * limit else 8)
    while len(current) > limit and length:
        length = length - 1 if length <= 8 else length * 3 // 4
        current = {s[-length:] if at_end else s[:length] for s in current} if length else {b""}
    return frozenset(current)


def _edge(strings: _Set, *, at_end: bool) -> _Set:
    return strings if len(strings) <= MAX_EDGE else _shortened(strings, MAX_EDGE, at_end=at_end)


def _product(left: _Set, right: _Set) -> _Set | None:
    """All joins of a string of ``left`` and one of ``right``, or ``None`` where they are too many or long."""
    size = len(left) * len(right)
    if size == 0:
        return frozenset()
    if size > (MAX_PRODUCT if len(left) > 1 and len(right) > 1 else MAX_EXACT):
        return None
    # A string that cannot be extended is still a condition; two long ones make two conditions.
    if max(map(len, left)) + max(map(len, right)) > MAX_LENGTH and min(map(len, (min(left), min(right)))):
        return None
    return frozenset(one + other for one in left for other in right)


def _literal(node: ast.Literal) -> _Info:
    if not node.fold:
        return _Info(frozenset({fold(node.data) if node.unicode else _fold_ascii(node.data)}))
    # A letter outside ASCII that has other cases is some character, nothing more is known.
    parts: list[_Info] = []
    run: list[str] = []
    for char in node.text:
        if char.isascii() or not (node.unicode and has_case(char)) or char in "\u212a\u017f":
            run.append(char)
        else:
            parts += [_text(run), _ANY]
            run = []
    parts.append(_text(run))
    return parts[0] if len(parts) == 1 else _concat(parts)


def _text(run: list[str]) -> _Info:
    return _Info(frozenset({fold("".join(run).encode("utf-8", "surrogateescape"))}))


def _fold_ascii(data: bytes) -> bytes:
    """Small ASCII letters; the rest is left for when whole characters are certain."""
    return data.lower()


def _class(node: ast.Class) -> _Info:
    chars = small_set(node, MAX_CLASS)
    if chars is None:
        return _ANY
    if node.fold and node.unicode and any(not c.isascii() and has_case(c) for c in chars):
        return _ANY
    encoded = {char.encode("utf-8", "surrogateescape") for char in chars}
    folded = frozenset(fold(one) if node.unicode else _fold_ascii(one) for one in encoded)
    return _Info(folded) if len(folded) <= MAX_CLASS else _ANY


def _concat(parts: list[_Info]) -> _Info:
    """One after another. While everything is exact the sets are crossed; later the suffix set is."""
    exact: _Set | None = frozenset({b""})
    prefix = suffix = _NOTHING_KNOWN
    musts: list[Query] = []
    for part in parts:
        if exact is not None:
            crossed = _product(exact, part.begins)
            if part.exact is not None and crossed is not None:
                exact = crossed
                continue
            if crossed is None:
                musts.append(any_of(exact))
            prefix = _edge(exact if crossed is None else crossed, at_end=False)
            exact = None
        else:
            crossed = _product(suffix, part.begins)
            if part.exact is not None and crossed is not None:
                suffix = crossed
                continue
            joined = suffix if crossed is None else crossed
            if len(joined) == 1 or len(musts) < MAX_MUSTS:
                musts.append(any_of(joined))
        if part.exact is None:
            musts.append(part.match)
        suffix = part.ends
    if exact is not None:
        return _Info(exact)
    short_suffix = _edge(suffix, at_end=True)
    if short_suffix is not suffix:
        musts.append(any_of(suffix))
    return _Info(None, prefix, short_suffix, conjunction(musts))


def _alternate(parts: list[_Info]) -> _Info:
    """One or another: the union of everything, which is exact only where all of them are and stay few."""
    exact: set[bytes] = set()
    for part in parts:
        if part.exact is not None:
            exact |= part.exact
    inexact = [part for part in parts if part.exact is None]
    if not inexact and len(exact) <= MAX_EXACT:
        return _Info(frozenset(exact))
    matches = [part.query() for part in inexact]
    if exact:
        matches.append(any_of(exact))
    match = disjunction(matches)
    if len(exact) + len(inexact) > MAX_EXACT:
        return _Info(None, match=match)
    prefix = frozenset(exact.union(*(part.prefix for part in inexact)))
    suffix = frozenset(exact.union(*(part.suffix for part in inexact)))
    return _Info(None, _edge(prefix, at_end=False), _edge(suffix, at_end=True), match)


def _repeat(part: _Info, minimum: int, maximum: int | None) -> _Info:
    if maximum == 0:
        return _EMPTY
    if minimum == 0:
        if maximum == 1 and part.exact is not None and len(part.exact) < MAX_EXACT:
            return _Info(part.exact | {b""})
        return _EMPTY if part.exact == _NOTHING_KNOWN else _ANY
    copies = min(minimum, MAX_UNROLL)
    once = _concat([part] * copies) if copies > 1 else part
    if maximum == minimum == copies:
        return once
    if once.exact == frozenset({b""}):
        return once
    if once.exact == frozenset():
        return _Info(frozenset(), match=NOTHING)
    # More copies may stand between: a match begins and ends with `copies` of them.
    return _Info(None, _edge(once.begins, at_end=False), _edge(once.ends, at_end=True), once.query())
