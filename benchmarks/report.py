"""The figures as tables for people; ``__main__`` writes the same as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .figures import Figure, Measured

#: Wrong answers that are told; the JSON has all.
_TOLD = 5


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in plain text: the first column to the left, the others to the right."""
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    lines = []
    for row in [header, ["-" * width for width in widths], *rows]:
        cells = [
            text.ljust(width) if number == 0 else text.rjust(width)
            for number, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def megabytes(size: float) -> str:
    return f"{size / 1e6:,.1f} MB"


def milliseconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds * 1000:,.1f}"


def ratio(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}x"


def build_table(builds: dict[str, dict[str, Any]], text_bytes: int) -> str:
    rows = []
    for name, figures in builds.items():
        size = figures["index_bytes"]
        rows.append(
            [
                name,
                f"{figures['wall_s']:.1f} s",
                f"{figures['cpu_s']:.1f} s",
                megabytes(figures["peak_bytes"]),
                megabytes(size),
                f"{size / max(text_bytes, 1):.1%}",
            ]
        )
    return table(["build", "wall", "CPU", "peak memory", "index", "of the text"], rows)


def query_table(queries: Sequence[dict[str, Any]], peers: Sequence[str]) -> str:
    """Medians in milliseconds; `=` after the lines says that they equal ripgrep, `!` that a peer differs."""
    rows = []
    for query in queries:
        times = query["seconds"]
        rows.append(
            [
                query["name"][:44],
                f"{query['lines']:,}{'=' if query['equal'] else ' DIFFER'}",
                f"{query['candidates']:,}",
                f"{query['files']:,}",
                milliseconds(times["indexgrep"]),
                milliseconds(times["client"]),
                milliseconds(query["first_100_s"]),
                *(
                    milliseconds(times.get(peer)) + ("" if query["peer_equal"].get(peer, True) else " !")
                    for peer in peers
                ),
                ratio(query["times_faster_than_rg"]),
                ratio(query["times_faster_than_best_peer"]),
            ]
        )
    header = ["query (medians in ms)", "lines", "candidates", "files", "full", "client", "first 100"]
    return table([*header, *peers, "vs rg", "vs best peer"], rows)


def measure_table(measured: Measured) -> str:
    """Figures beside what is wanted of them; wrong answers below."""
    rows = [[figure.name, _amount(figure), _wanted(figure), _verdict(figure)] for figure in measured.figures]
    parts = [table([measured.name, "figure", "wanted", ""], rows), f"({measured.conditions})"]
    parts += [f"WRONG: {what}" for what in measured.wrong[:_TOLD]]
    if len(measured.wrong) > _TOLD:
        parts.append(f"WRONG: {len(measured.wrong) - _TOLD} more")
    return "\n".join(parts)


def _amount(figure: Figure) -> str:
    if math.isinf(figure.value):
        return "not reached"
    digits = {"": 0, "s": 2}.get(figure.unit, 1)
    return f"{figure.value:,.{digits}f} {figure.unit}".rstrip()


def _wanted(figure: Figure) -> str:
    if figure.least is not None:
        return f">= {figure.least:,g} {figure.unit}".rstrip()
    return f"<= {figure.wanted:,g} {figure.unit}".rstrip() if figure.wanted is not None else ""


def _verdict(figure: Figure) -> str:
    return {None: "", True: "met", False: "MISSED"}[figure.met]
