"""What the measures of freshness give: figures beside what is wanted of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Figure:
    """One number, infinite for what did not come about in the time it was given.

    ``wanted`` is the most it should be, ``least`` the least, in the same unit.
    """

    name: str
    value: float
    unit: str
    wanted: float | None = None
    least: float | None = None

    @property
    def met(self) -> bool | None:
        """Whether it is as wanted; ``None`` where nothing is."""
        if self.wanted is None and self.least is None:
            return None
        over = self.wanted is not None and not self.value <= self.wanted
        under = self.least is not None and not self.value >= self.least
        return not (over or under)


@dataclass
class Measured:
    """The outcome of one measure."""

    name: str
    #: What a reader must know to read the figures.
    conditions: str = ""
    figures: list[Figure] = field(default_factory=list)
    #: What was answered wrong: must stay empty.
    wrong: list[str] = field(default_factory=list)
    #: For the JSON alone.
    details: dict[str, Any] = field(default_factory=dict)

    def add(
        self, name: str, value: float, unit: str, wanted: float | None = None, least: float | None = None
    ) -> None:
        self.figures.append(Figure(name, value, unit, wanted, least))

    def add_times(self, name: str, seconds: Sequence[float], wanted_p95_ms: float | None = None) -> None:
        """Median, 95th percentile and maximum of some times, in milliseconds."""
        times = [value * 1000 for value in seconds]
        self.add(f"{name}, median", statistics.median(times), "ms")
        self.add(f"{name}, 95th percentile", percentile(times, 95), "ms", wanted_p95_ms)
        self.add(f"{name}, longest", max(times), "ms")

    def check(self, right: bool, what: str) -> bool:
        """Note ``what`` as wrong unless it is right; returns ``right``."""
        if not right:
            self.wrong.append(what)
        return right

    def to_json(self) -> dict[str, Any]:
        """Plain values; ``None`` for infinity, which JSON has not."""
        figures = [
            asdict(figure) | {"met": figure.met, "value": None if math.isinf(figure.value) else figure.value}
            for figure in self.figures
        ]
        return {
            "conditions": self.conditions,
            "figures": figures,
            "wrong": self.wrong,
            "details": self.details,
        }


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that ``percent`` of a hundred values do not exceed."""
    ordered = sorted(values)
    return ordered[max(math.ceil(len(ordered) * percent / 100) - 1, 0)]
