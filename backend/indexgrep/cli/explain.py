"""``indexgrep explain`` as text: how a pattern became a plan, and what the plan leaves to be read."""

from __future__ import annotations

from typing import Any

_TITLES = (("pattern", "pattern"), ("ast", "AST"), ("query", "conditions"), ("regex", "engine runs"))


def report(explanation: dict[str, Any]) -> str:
    """The map that ``indexgrep.search.explain`` describes, for reading. A key that is absent is left out."""
    parts = [
        _block(title, str(explanation[key])) for key, title in _TITLES if explanation.get(key) is not None
    ]
    if explanation.get("plan") is not None:
        parts.append(_block("plan", str(explanation["plan"])))
    if explanation.get("grams"):
        parts.append("grams:\n" + _grams(explanation["grams"]))
    if explanation.get("all_reason"):
        parts.append(_block("every file is read because", str(explanation["all_reason"])))
    if explanation.get("candidates") is not None:
        candidates, documents = explanation["candidates"], explanation.get("documents") or 0
        share = f" ({100 * candidates / documents:.2f} %)" if documents else ""
        parts.append(f"candidates: {candidates:,} of {documents:,} documents{share}")
    if explanation.get("elapsed_ms") is not None:
        parts.append(f"planned in {explanation['elapsed_ms']:.2f} ms")
    return "\n".join(parts)


def _block(title: str, text: str) -> str:
    """``title: text``, or the text indented below where it has several lines."""
    if "\n" not in text:
        return f"{title}: {text}"
    return f"{title}:\n" + "\n".join(f"  {line}" for line in text.rstrip("\n").split("\n"))


def _grams(grams: list[dict[str, Any]]) -> str:
    """A row a gram: place in its literal, text, edge weights around the inner ones, list length, use."""
    rows = [("literal", "at", "gram", "weights left | inner | right", "documents", "used")]
    for gram in grams:
        weights = list(gram.get("weights") or [])
        inner = " ".join(str(weight) for weight in weights[1:-1]) or "-"
        used = "yes" if gram.get("used") else "no"
        if gram.get("reason"):
            used += f": {gram['reason']}"
        length = gram.get("list_length")
        rows.append(
            (
                str(gram.get("literal", "")),
                f"{gram.get('start', 0)}-{gram.get('end', 0)}",
                str(gram.get("text", "")),
                f"{gram.get('left_weight', '-')} | {inner} | {gram.get('right_weight', '-')}",
                "-" if length is None else f"{length:,}",
                used,
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
