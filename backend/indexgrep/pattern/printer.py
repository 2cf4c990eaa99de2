"""From the syntax tree back to Rust syntax, for a search over whole buffers.

In line mode (everywhere but under ``-U``) a match never spans lines: line terminators are taken out of every
class and of the dot, as ripgrep does, so one search over a buffer finds what a search of each line by itself
would find. A pattern that asks for a terminator outright is an error, in ripgrep's words.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..errors import PatternError
from .ast import (
    Alternation,
    Class,
    Concat,
    Dot,
    Empty,
    Group,
    Literal,
    Look,
    LookKind,
    Node,
    Repeat,
    children,
    postorder,
)
from .classes import ascii_bounds, full_ranges, rust_class
from .unicode import class_bytes

_ESCAPES = str.maketrans(
    {char: "\\" + char for char in "\\.+*?()|[]{}^$"} | {"\n": r"\n", "\r": r"\r", "\0": r"\x00"}
)
_LINE_LOOKS = {
    LookKind.TEXT_START: (LookKind.LINE_START, LookKind.LINE_START_CRLF),
    LookKind.TEXT_END: (LookKind.LINE_END, LookKind.LINE_END_CRLF),
}


@dataclass(frozen=True, slots=True)
class Lines:
    """How lines matter: ``multiline`` lets matches span them, ``crlf`` makes ``\\r`` part of a terminator."""

    multiline: bool = False
    crlf: bool = False

    @property
    def terminators(self) -> str:
        """The characters that no match may hold."""
        return "" if self.multiline else "\r\n" if self.crlf else "\n"


def restrict(root: Node, lines: Lines, pattern: str) -> Node:
    """``root`` with its assertions as line mode means them; checks that no terminator is asked for.

    In line mode every line is a text of its own to ripgrep, so ``\\A`` and ``\\z`` are the line's ends.
    Raises :class:`PatternError` for a literal (or a class of nothing but) line terminator.
    """
    if lines.multiline or not any(_concerned(node, lines) for node in postorder(root)):
        return root
    stack: list[Node] = []
    for node in postorder(root):
        below = len(children(node))
        parts = stack[len(stack) - below :] if below else []
        if below:
            del stack[len(stack) - below :]
        stack.append(_restricted(node, parts, lines))
    result = stack.pop()
    _check_terminators(result, lines, pattern)
    return result


def _concerned(node: Node, lines: Lines) -> bool:
    """Whether line mode may have to change or refuse ``node``."""
    if isinstance(node, Literal):
        return any(char in node.text for char in lines.terminators)
    if isinstance(node, Class):
        return bool(only_of(node, lines.terminators))
    return (isinstance(node, Look) and node.kind in _LINE_LOOKS) or (
        isinstance(node, Repeat) and node.maximum == 0
    )


def _restricted(node: Node, parts: list[Node], lines: Lines) -> Node:
    if isinstance(node, Look) and node.kind in _LINE_LOOKS:
        return replace(node, kind=_LINE_LOOKS[node.kind][lines.crlf])
    if isinstance(node, Repeat):
        return Empty(node.span) if node.maximum == 0 else replace(node, child=parts[0])
    if isinstance(node, Group):
        return replace(node, child=parts[0])
    if isinstance(node, Concat):
        return replace(node, items=tuple(parts))
    if isinstance(node, Alternation):
        # Alternatives of one character each are a class to the crate, from which terminators may be taken.
        if all(
            isinstance(part, Class) or (isinstance(part, Literal) and len(part.text) == 1) for part in parts
        ):
            kept = [p for p in parts if not (isinstance(p, Literal) and p.text in lines.terminators)]
            if kept:
                return kept[0] if len(kept) == 1 else replace(node, branches=tuple(kept))
        return replace(node, branches=tuple(parts))
    return node


def _check_terminators(root: Node, lines: Lines, pattern: str) -> None:
    for node in postorder(root):
        found = ""
        if isinstance(node, Literal):
            found = next((char for char in lines.terminators if char in node.text), "")
        elif isinstance(node, Class):
            found = only_of(node, lines.terminators)
        if found:
            raise PatternError(
                pattern,
                *node.span,
                f'the literal "{found.translate(_ESCAPES)}" is not allowed in a regex',
                "Consider multiline mode (--multiline, -U), where line terminators can be matched.",
            )


def only_of(node: Class, chars: str) -> str:
    """The least of the ASCII ``chars`` in the class if it holds nothing but such; else, or if empty, ""."""
    mask = sum(1 << ord(char) for char in chars)
    must, may = ascii_bounds(node)
    if not may & mask or must & ~mask:
        return ""
    if node.unicode:
        ranges = full_ranges(node)[:3]
        held = {code for first, last in ranges for code in range(first, min(last, first + 2) + 1)}
    else:
        held = set(class_bytes(rust_class(node)))
    return chr(min(held)) if held and held <= set(map(ord, chars)) else ""


def print_rust(root: Node, lines: Lines) -> str:
    """The tree as a pattern for the Rust engine, over whole buffers; it has been through :func:`restrict`."""
    stack: list[tuple[str, int]] = []
    for node in postorder(root):
        if isinstance(node, Repeat):
            text, level = stack.pop()
            stack.append((f"{_wrapped(text, level, 3)}{_quantifier(node)}", 2))
        elif isinstance(node, Group):
            text, _ = stack.pop()
            name = f"?P<{node.name}>" if node.name else ""
            stack.append((f"({name}{text})", 3))
        elif isinstance(node, Concat):
            count = len(node.items)
            parts = stack[len(stack) - count :]
            del stack[len(stack) - count :]
            stack.append(("".join(_wrapped(text, level, 1) for text, level in parts), 1))
        elif isinstance(node, Alternation):
            count = len(node.branches)
            parts = stack[len(stack) - count :]
            del stack[len(stack) - count :]
            stack.append(("|".join(text for text, _ in parts), 0))
        else:
            stack.append(_leaf(node, lines))
    return stack.pop()[0]


def _wrapped(text: str, level: int, least: int) -> str:
    """``text`` grouped if it binds more loosely (0 alternation, 1 concatenation, 2 repetition, 3 atom)."""
    return text if level >= least else f"(?:{text})"


def _quantifier(node: Repeat) -> str:
    bounds = (node.minimum, node.maximum)
    common = {(0, 1): "?", (0, None): "*", (1, None): "+"}.get(bounds)
    if common is None:
        if node.maximum == node.minimum:
            common = f"{{{node.minimum}}}"
        else:
            common = f"{{{node.minimum},{'' if node.maximum is None else node.maximum}}}"
    return common if node.greedy else common + "?"


def _leaf(node: Node, lines: Lines) -> tuple[str, int]:
    if isinstance(node, Literal):
        return _literal(node)
    if isinstance(node, Class):
        held = ascii_bounds(node)[1]
        return rust_class(node, "".join(c for c in lines.terminators if held >> ord(c) & 1)), 3
    if isinstance(node, Dot):
        return _dot(node, lines), 3
    if isinstance(node, Look):
        return (node.kind.value if node.unicode else f"(?-u:{node.kind.value})"), 3
    return "", 1


def _dot(node: Dot, lines: Lines) -> str:
    if lines.multiline:
        text = "" if node.newline else r"[^\r\n]" if node.crlf else "."
    else:
        text = r"[^\r\n]" if lines.crlf or (node.crlf and not node.newline) else "."
    if not text:
        return "(?s:.)" if node.unicode else "(?s-u:.)"
    return text if node.unicode else f"(?-u:{text})"


def _literal(node: Literal) -> tuple[str, int]:
    if any("\udc80" <= char <= "\udcff" for char in node.text):
        escaped = "".join(
            f"\\x{ord(char) - 0xDC00:02X}" if "\udc80" <= char <= "\udcff" else char.translate(_ESCAPES)
            for char in node.text
        )
        return f"(?{'i' if node.fold else ''}-u:{escaped})", 3
    escaped = node.text.translate(_ESCAPES)
    if node.fold:
        return f"(?i{'' if node.unicode else '-u'}:{escaped})", 3
    return escaped, 3 if len(node.text) == 1 else 1
