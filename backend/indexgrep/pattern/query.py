"""String conditions: what a text must contain if the pattern is to match it.

A query is a tree of :class:`Literal` conditions. What it *means*: every text that the pattern matches
satisfies the query, where ``Literal(x)`` holds for a text iff ``x`` is a substring of ``fold(text)``
(:func:`indexgrep.fold.fold`). The converse does not hold; a query only ever says that a text can be skipped.

Trees are made by :func:`literal`, :func:`conjunction` and :func:`disjunction`, which simplify as they build
and keep within the budgets below by forgetting conditions. Forgetting is always sound: what is left is
satisfied by more texts, never by fewer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

#: Shorter literals than this say nothing to an index of trigrams.
MIN_LITERAL = 3
#: Literals in a whole tree.
MAX_LITERALS = 1024
#: Conditions in one ``And``.
MAX_AND = 24
#: Levels of a tree.
MAX_DEPTH = 12
#: Up to how many literals side by side absorption is tried on every pair.
_PAIRWISE = 64
#: Up to how many pairs of literals are compared to see whether one tree implies another.
_MAX_COMPARISONS = 20_000


class Query:
    """Base of all conditions; ``size`` is the number of literals in the tree, ``depth`` its levels."""

    __slots__ = ()
    size: int
    depth: int

    def __str__(self) -> str:
        """The tree as indented lines, for people."""
        lines: list[str] = []
        _draw(self, 0, lines)
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class All(Query):
    """Satisfied by every text: nothing is known."""

    size: int = field(default=0, init=False, repr=False, compare=False)
    depth: int = field(default=1, init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Nothing(Query):
    """Satisfied by no text: the pattern cannot match."""

    size: int = field(default=0, init=False, repr=False, compare=False)
    depth: int = field(default=1, init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Literal(Query):
    """Satisfied iff ``data``, already folded and at least ``MIN_LITERAL`` bytes, is in the folded text."""

    data: bytes
    size: int = field(default=1, init=False, repr=False, compare=False)
    depth: int = field(default=1, init=False, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class And(Query):
    """Satisfied iff all children are; there are at least two."""

    children: tuple[Query, ...]
    size: int = field(default=0, init=False, repr=False, compare=False)
    depth: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", sum(child.size for child in self.children))
        object.__setattr__(self, "depth", 1 + max(child.depth for child in self.children))


@dataclass(frozen=True, slots=True)
class Or(Query):
    """Satisfied iff any child is; there are at least two."""

    children: tuple[Query, ...]
    size: int = field(default=0, init=False, repr=False, compare=False)
    depth: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", sum(child.size for child in self.children))
        object.__setattr__(self, "depth", 1 + max(child.depth for child in self.children))


ALL = All()
NOTHING = Nothing()


def _draw(query: Query, level: int, lines: list[str]) -> None:
    indent = "  " * level
    if isinstance(query, Literal):
        lines.append(f"{indent}{show(query.data)}")
    elif isinstance(query, (And, Or)):
        lines.append(f"{indent}{'AND' if isinstance(query, And) else 'OR'}")
        for child in query.children:
            _draw(child, level + 1, lines)
    else:
        lines.append(f"{indent}{'ALL' if isinstance(query, All) else 'NOTHING'}")


def show(data: bytes) -> str:
    """Bytes as a quoted string: printable text as it is, everything else as escapes."""
    parts = ['"']
    for char in data.decode("utf-8", "surrogateescape"):
        if "\udc80" <= char <= "\udcff":
            parts.append(f"\\x{ord(char) - 0xDC00:02x}")
        elif char in '"\\':
            parts.append("\\" + char)
        elif char.isprintable():
            parts.append(char)
        else:
            parts.append({"\n": r"\n", "\r": r"\r", "\t": r"\t"}.get(char, f"\\u{{{ord(char):x}}}"))
    parts.append('"')
    return "".join(parts)


def literal(data: bytes) -> Query:
    """The condition that ``data`` (folded) is in the text, or ``ALL`` if it is too short to ask for."""
    return Literal(data) if len(data) >= MIN_LITERAL else ALL


def conjunction(parts: Iterable[Query]) -> Query:
    """All of ``parts``: flattened, without what the rest implies, cut to the budget."""
    children: dict[Query, None] = {}
    for part in parts:
        if isinstance(part, Nothing):
            return NOTHING
        if isinstance(part, And):
            children.update(dict.fromkeys(part.children))
        elif not isinstance(part, All):
            children[part] = None
    if not children:
        return ALL
    if len(children) == 1:
        return next(iter(children))
    literals = sorted((c for c in children if isinstance(c, Literal)), key=lambda c: -len(c.data))
    literals = literals[: MAX_AND * 4]  # the longest say most
    kept: list[Literal] = []
    for one in literals:
        if not any(one.data in other.data for other in kept):
            kept.append(one)
    held = set(kept)
    rest = [child for child in children if not isinstance(child, Literal) or child in held]
    # What another condition implies goes; larger ones first, they are more often implied and cost more.
    others = sorted((child for child in rest if not isinstance(child, Literal)), key=lambda c: -c.size)
    for child in others[: MAX_AND * 2]:
        if any(other is not child and _implies(other, child) for other in rest):
            rest.remove(child)
    if len(rest) > MAX_AND:
        chosen = set(sorted(rest, key=_strength, reverse=True)[:MAX_AND])
        rest = [child for child in rest if child in chosen]
    while sum(child.size for child in rest) > MAX_LITERALS:
        rest.remove(max(rest, key=lambda child: child.size))
    rest = [child for child in rest if child.depth < MAX_DEPTH]
    if not rest:
        return ALL
    return rest[0] if len(rest) == 1 else And(tuple(rest))


def disjunction(parts: Iterable[Query]) -> Query:
    """Any of ``parts``: flattened, common conditions factored out, cut to the budget."""
    children: dict[Query, None] = {}
    for part in parts:
        if isinstance(part, All):
            return ALL
        if isinstance(part, Or):
            children.update(dict.fromkeys(part.children))
        elif not isinstance(part, Nothing):
            children[part] = None
    if not children:
        return NOTHING
    if len(children) == 1:
        return next(iter(children))
    flat = _absorb(list(children))
    if len(flat) == 1:
        return flat[0]
    common = _common(flat)
    if common:
        shared = set(common)
        remains = disjunction(
            conjunction(part for part in _conditions(child) if part not in shared) for child in flat
        )
        return conjunction([*common, remains])
    if sum(child.size for child in flat) > MAX_LITERALS or any(c.depth >= MAX_DEPTH for c in flat):
        flat = [_strongest(child) for child in flat]
        if len(flat) > MAX_LITERALS or any(isinstance(child, (All, And, Or)) for child in flat):
            return ALL
        flat = list(dict.fromkeys(flat))
    return flat[0] if len(flat) == 1 else Or(tuple(flat))


def _conditions(query: Query) -> tuple[Query, ...]:
    return query.children if isinstance(query, And) else (query,)


def _common(branches: list[Query]) -> list[Query]:
    """The conditions that all branches of an ``Or`` share."""
    if not any(isinstance(branch, And) for branch in branches):
        return []
    rest = [set(_conditions(branch)) for branch in branches[1:]]
    return [part for part in _conditions(branches[0]) if all(part in other for other in rest)]


def _implies(one: Query, other: Query) -> bool:
    """Whether every text that satisfies ``one`` satisfies ``other``; may say no where it is too much work."""
    if one.size * other.size > _MAX_COMPARISONS:
        return False
    if isinstance(one, Or):
        return all(_implies(child, other) for child in one.children)
    if isinstance(other, Or):
        if isinstance(one, And) and any(_implies(child, other) for child in one.children):
            return True
        return any(_implies(one, child) for child in other.children)
    if isinstance(other, And):
        return all(_implies(one, child) for child in other.children)
    if isinstance(one, And):
        return any(_implies(child, other) for child in one.children)
    return isinstance(one, Literal) and isinstance(other, Literal) and other.data in one.data


def _absorb(branches: list[Query]) -> list[Query]:
    """``branches`` of an ``Or`` without those that another branch, a shorter literal, covers."""
    literals = [branch for branch in branches if isinstance(branch, Literal)]
    covered: set[Query] = set()
    if len(literals) == len(branches) and len({len(one.data) for one in literals}) == 1:
        return branches
    if len(branches) <= _PAIRWISE:
        for short in literals:
            for branch in branches:
                if branch is not short and branch not in covered and short not in covered:
                    conditions = _conditions(branch)
                    if any(isinstance(c, Literal) and short.data in c.data for c in conditions):
                        covered.add(branch)
    else:  # only literals that begin with another: neighbours once sorted
        last: bytes | None = None
        for one in sorted(literals, key=lambda one: one.data):
            if last is not None and one.data.startswith(last):
                covered.add(one)
            else:
                last = one.data
    return [branch for branch in branches if branch not in covered]


def _strength(query: Query) -> tuple[int, int]:
    """A guess at how much a condition rules out, for choosing which to keep."""
    if isinstance(query, Literal):
        return 2, len(query.data)
    if isinstance(query, Or):
        return 1, -query.size
    return 0, 0


def _strongest(query: Query) -> Query:
    """One literal that the query requires, the longest; ``ALL`` if it requires none."""
    found = [part for part in _conditions(query) if isinstance(part, Literal)]
    return max(found, key=lambda one: len(one.data), default=ALL)
