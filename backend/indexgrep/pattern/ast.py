"""The syntax tree of a pattern in the dialect of the Rust ``regex`` crate.

Flags are resolved: ``(?i)``, ``(?-u)`` and the like leave no node of their own, every node carries what was
in force where it stood. Non-capturing groups leave no node either, the tree's shape says it. All nodes are
immutable and carry ``span``, the half-open range of characters they came from. They compare by identity
(``str()`` shows what is in them), which also keeps the import of this module cheap.

Trees can be as deep as the dialect's nesting limit (250), so everything that walks them does so without
recursion, by :func:`postorder`.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

Span: TypeAlias = tuple[int, int]


class _Drawn:
    """Gives every node a ``str()`` for people."""

    __slots__ = ()

    def __str__(self) -> str:
        """The tree below this node as indented lines."""
        return draw(self)  # type: ignore[arg-type]


class LookKind(enum.Enum):
    """The zero-width assertions, with the flags ``m`` and ``R`` resolved."""

    TEXT_START = r"\A"
    TEXT_END = r"\z"
    LINE_START = "(?m:^)"
    LINE_END = "(?m:$)"
    LINE_START_CRLF = "(?mR:^)"
    LINE_END_CRLF = "(?mR:$)"
    WORD = r"\b"
    NOT_WORD = r"\B"
    WORD_START = r"\b{start}"
    WORD_END = r"\b{end}"
    WORD_START_HALF = r"\b{start-half}"
    WORD_END_HALF = r"\b{end-half}"


@dataclass(frozen=True, eq=False, repr=False)
class Empty(_Drawn):
    """Matches the empty string."""

    span: Span = (0, 0)


@dataclass(frozen=True, eq=False, repr=False)
class Literal(_Drawn):
    """Matches ``text``, or with ``fold`` any text equal to it under simple case folding.

    A byte above 0x7F written as ``(?-u)\\xFF`` stands in ``text`` as its ``surrogateescape`` character, so
    :attr:`data` is what is matched. ``unicode`` only says how far ``fold`` reaches: ASCII letters without it.
    A line feed, carriage return or NUL is always a literal of its own, so that an error can point at it.
    """

    text: str
    fold: bool = False
    unicode: bool = True
    span: Span = (0, 0)

    @property
    def data(self) -> bytes:
        """The bytes that ``text`` stands for (UTF-8, raw bytes restored)."""
        return self.text.encode("utf-8", "surrogateescape")


@dataclass(frozen=True, eq=False, repr=False)
class Dot(_Drawn):
    """``.``: any character (any byte without ``unicode``), line terminators excepted.

    ``newline`` is the flag ``s`` (nothing is excepted), ``crlf`` the flag ``R`` (``\\r`` is excepted too).
    """

    newline: bool = False
    crlf: bool = False
    unicode: bool = True
    span: Span = (0, 0)


@dataclass(frozen=True, eq=False, repr=False)
class ClassLiteral:
    char: str
    span: Span = (0, 0)


@dataclass(frozen=True, eq=False, repr=False)
class ClassRange:
    """``first`` to ``last``, both included."""

    first: str
    last: str
    span: Span = (0, 0)


@dataclass(frozen=True, eq=False, repr=False)
class ClassPosix:
    """``[:name:]`` or ``[:^name:]``; ASCII only."""

    name: str
    negated: bool
    span: Span = (0, 0)


@dataclass(frozen=True, eq=False, repr=False)
class ClassPerl:
    """``\\d``, ``\\s``, ``\\w`` (``kind`` is the small letter) or their negations."""

    kind: str
    negated: bool
    span: Span = (0, 0)


@dataclass(frozen=True, eq=False, repr=False)
class ClassProperty:
    """``\\p{body}`` or ``\\P{body}``, kept by name; the name has been validated."""

    body: str
    negated: bool
    span: Span = (0, 0)


@dataclass(frozen=True, eq=False, repr=False)
class ClassBracket:
    """``[...]`` or ``[^...]``, nested or outermost."""

    negated: bool
    item: ClassItem
    span: Span = (0, 0)


@dataclass(frozen=True, eq=False, repr=False)
class ClassUnion:
    items: tuple[ClassItem, ...]
    span: Span = (0, 0)


@dataclass(frozen=True, eq=False, repr=False)
class ClassOperation:
    """``left && right`` (intersection), ``--`` (difference) or ``~~`` (symmetric difference)."""

    operator: str
    left: ClassItem
    right: ClassItem
    span: Span = (0, 0)


ClassItem: TypeAlias = (
    ClassLiteral
    | ClassRange
    | ClassPosix
    | ClassPerl
    | ClassProperty
    | ClassBracket
    | ClassUnion
    | ClassOperation
)


@dataclass(frozen=True, eq=False, repr=False)
class Class(_Drawn):
    """One character (one byte without ``unicode``) of a set; ``fold`` closes the set under case folding."""

    item: ClassItem
    fold: bool = False
    unicode: bool = True
    span: Span = (0, 0)


@dataclass(frozen=True, eq=False, repr=False)
class Look(_Drawn):
    """A zero-width assertion; ``unicode`` chooses the meaning of a word character."""

    kind: LookKind
    unicode: bool = True
    span: Span = (0, 0)


@dataclass(frozen=True, eq=False, repr=False)
class Repeat(_Drawn):
    """``child`` at least ``minimum`` and at most ``maximum`` times (``None``: without limit)."""

    child: Node
    minimum: int
    maximum: int | None
    greedy: bool = True
    span: Span = (0, 0)


@dataclass(frozen=True, eq=False, repr=False)
class Group(_Drawn):
    """A capturing group, numbered from 1 over all the patterns that were joined."""

    child: Node
    index: int
    name: str | None = None
    span: Span = (0, 0)


@dataclass(frozen=True, eq=False, repr=False)
class Concat(_Drawn):
    items: tuple[Node, ...]
    span: Span = (0, 0)


@dataclass(frozen=True, eq=False, repr=False)
class Alternation(_Drawn):
    """The first branch that leads to a match wins."""

    branches: tuple[Node, ...]
    span: Span = (0, 0)


Node: TypeAlias = Empty | Literal | Dot | Class | Look | Repeat | Group | Concat | Alternation


def children(node: Node) -> tuple[Node, ...]:
    """The nodes directly below ``node``, in order of the pattern."""
    if isinstance(node, Concat):
        return node.items
    if isinstance(node, Alternation):
        return node.branches
    if isinstance(node, (Repeat, Group)):
        return (node.child,)
    return ()


def postorder(root: Node) -> Iterator[Node]:
    """All nodes of the tree, children before parents and left before right, without recursion."""
    stack: list[tuple[Node, bool]] = [(root, False)]
    while stack:
        node, seen = stack.pop()
        below = () if seen else children(node)
        if below:
            stack.append((node, True))
            stack.extend((child, False) for child in reversed(below))
        else:
            yield node


def class_children(item: ClassItem) -> tuple[ClassItem, ...]:
    """The items directly below a class item, in order of the pattern."""
    if isinstance(item, ClassUnion):
        return item.items
    if isinstance(item, ClassBracket):
        return (item.item,)
    if isinstance(item, ClassOperation):
        return (item.left, item.right)
    return ()


def class_postorder(root: ClassItem) -> Iterator[ClassItem]:
    """All items of a class, children before parents and left before right, without recursion."""
    stack: list[tuple[ClassItem, bool]] = [(root, False)]
    while stack:
        item, seen = stack.pop()
        below = () if seen else class_children(item)
        if below:
            stack.append((item, True))
            stack.extend((child, False) for child in reversed(below))
        else:
            yield item


@dataclass(frozen=True, eq=False, repr=False)
class Parsed:
    """A parsed pattern, and what ripgrep's smart case wants to know about it.

    ``any_literal``: some literal character stands in the pattern, also inside brackets. ``any_uppercase``:
    one of them is an upper-case letter.
    """

    node: Node
    any_literal: bool
    any_uppercase: bool
    captures: int = 0
    names: frozenset[str] = field(default=frozenset())


def draw(root: Node) -> str:
    """The tree as indented lines, a node each, for ``indexgrep explain``."""
    lines: list[str] = []
    stack: list[tuple[Node, int]] = [(root, 0)]
    while stack:
        node, level = stack.pop()
        lines.append("  " * level + _label(node))
        stack.extend((child, level + 1) for child in reversed(children(node)))
    return "\n".join(lines)


def _label(node: Node) -> str:
    from .classes import rust_item  # the one place where the tree needs the syntax

    if isinstance(node, Literal):
        return f"literal {node.text.encode('utf-8', 'surrogateescape')!r}" if _raw(node) else _quoted(node)
    if isinstance(node, Class):
        return f"class {rust_item(node.item)}{_flags(node.fold, node.unicode)}"
    if isinstance(node, Dot):
        newline = " (line feed too)" if node.newline else ""
        return f"any character{newline}{_flags(False, node.unicode)}"
    if isinstance(node, Look):
        return f"look {node.kind.value}{_flags(False, node.unicode)}"
    if isinstance(node, Repeat):
        maximum = "" if node.maximum is None else node.maximum
        return f"repeat {{{node.minimum},{maximum}}}{'' if node.greedy else ' lazy'}"
    if isinstance(node, Group):
        return f"group {node.index}{f' ({node.name})' if node.name else ''}"
    return type(node).__name__.lower()


def _raw(node: Literal) -> bool:
    return any("\udc80" <= char <= "\udcff" for char in node.text)


def _quoted(node: Literal) -> str:
    return f"literal {json.dumps(node.text, ensure_ascii=False)}{_flags(node.fold, node.unicode)}"


def _flags(fold: bool, unicode: bool) -> str:
    return (" ignoring case" if fold else "") + ("" if unicode else " in bytes")
