"""Why a search reads what it reads: the pattern, its conditions, and what the index knows of each gram.

The map that ``explain`` answers, on every surface:

============== ====================================================================================
``pattern``    the patterns, joined by line feeds
``regex``      the regular expression that runs over each candidate, in the Rust dialect
``ast``        the syntax tree, as indented lines
``query``      what a text must contain, as indented lines
``plan``       the same with bounds and what was read, as indented lines
``grams``      a list of maps, one for each covering gram: ``literal``, ``text`` (both as quoted strings),
               ``start``, ``end`` (bytes in the literal), ``weights`` (of each pair of bytes in it),
               ``left_weight``, ``right_weight``, ``inner_weight`` (the highest between them, -1 without),
               ``list_length`` (documents), ``list_bytes``, ``used`` and ``reason``
``candidates`` files that must be read, ``documents`` files in the universe, ``overlay`` those of the
               candidates that stand beside the index
``served_by``  ``index`` or ``scan``
``all_reason`` why nothing could be ruled out, when that is so
``elapsed_ms`` what it took to find the candidates
============== ====================================================================================
"""

from __future__ import annotations

from typing import Any

from ..grams.weights import weights
from ..index.candidates import Candidates, GramPart, Part
from ..pattern import CompiledPattern
from ..pattern.query import show


def explanation(pattern: CompiledPattern, found: Candidates | None) -> dict[str, Any]:
    """What there is to say of a pattern and, where the index was asked, of its answer."""
    answer: dict[str, Any] = {
        "pattern": "\n".join(pattern.patterns),
        "regex": pattern.rust,
        "ast": str(pattern.ast),
        "query": str(pattern.query),
        "plan": "",
        "grams": [],
    }
    if found is not None:
        answer["plan"] = "\n".join(_drawn(found.plan, 0))
        answer["grams"] = [_gram(part, gram) for part in _literals(found.plan) for gram in part.grams]
    return answer


def _literals(part: Part) -> list[Part]:
    below = [literal for child in part.children for literal in _literals(child)]
    return [part, *below] if part.grams else below


def _gram(part: Part, gram: GramPart) -> dict[str, Any]:
    table = weights()
    pairs = [
        int(table[first * 256 + second]) for first, second in zip(gram.text, gram.text[1:], strict=False)
    ]
    return {
        "literal": show(part.text),
        "text": show(gram.text),
        "start": gram.gram.start,
        "end": gram.gram.end,
        "weights": pairs,
        "left_weight": pairs[0],
        "right_weight": pairs[-1],
        "inner_weight": max(pairs[1:-1], default=-1),
        "list_length": gram.bound,
        "list_bytes": 0 if gram.entry is None else gram.entry.length,
        "used": gram.used,
        "reason": gram.why,
    }


def _drawn(part: Part, level: int) -> list[str]:
    """A part of the plan and all below it, as indented lines."""
    indent = "  " * level
    what = show(part.text) if part.text else part.kind.upper()
    lines = [f"{indent}{what}  at most {part.bound} documents" + (f" ({part.why})" if part.why else "")]
    for gram in part.grams:
        used = "read" if gram.used else "not read"
        why = f": {gram.why}" if gram.why else ""
        lines.append(f"{indent}  {show(gram.text)}  {gram.bound} documents, {used}{why}")
    for child in part.children:
        lines += _drawn(child, level + 1)
    return lines
