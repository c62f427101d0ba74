"""Where the parts of a chart lie, in the units of its SVG's viewBox; templates/_macros/charts.html draws them. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10


@dataclass(frozen=True, slots=True)
class Segment:
    """One part of a stacked bar; y counts from the top."""

    series: str
    count: int
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Stack:
    """The bars of a chart of `height` units, and the round number at its top."""

    top: int
    bars: list[list[Segment]]
    totals: list[int]


def stacked(counts: Sequence[Mapping[str, int]], series: Sequence[str], height: float = 100.0) -> Stack:
    """Bars of counts, the first series at the bottom. A count that is not zero is at least one unit high: a single failure shows."""
    totals = [sum(bar.get(name, 0) for name in series) for bar in counts]
    top = round_up(max(totals, default=0))
    bars = []
    for bar in counts:
        segments, bottom = [], height
        for name in series:
            count = bar.get(name, 0)
            if count:
                part = max(count / top * height, 1.0)
                bottom -= part
                segments.append(Segment(name, count, round(max(bottom, 0.0), 2), round(part, 2)))
        bars.append(segments)
    return Stack(top, bars, totals)


def round_up(value: float) -> int:
    """The least of 1, 2, 5, 10, 20, 50 … that is not below the value; at least 1."""
    if value <= 1:
        return 1
    power: int = 10 ** floor(log10(value))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= ceil(value))


def polyline(values: Sequence[float], width: float = 100.0, height: float = 24.0) -> str:
    """The points of a line through the values, for <polyline>; the highest touches the top. Fewer than two values: none."""
    if len(values) < 2:
        return ""
    top = max(values) or 1
    step = width / (len(values) - 1)
    # Half a line's width is left at both edges.
    return " ".join(f"{i * step:.1f},{height - 1 - value / top * (height - 2):.1f}" for i, value in enumerate(values))


@dataclass(frozen=True, slots=True)
class Share:
    """One part of a bar that is split along its length."""

    name: str
    value: float
    x: float
    width: float


def shares(parts: Sequence[tuple[str, float]], width: float = 100.0, whole: float | None = None) -> list[Share]:
    """Where parts of a whole (their sum by default) lie side by side; those that are zero are left out."""
    total = whole or sum(value for _, value in parts) or 1
    placed, x = [], 0.0
    for name, value in parts:
        if value > 0:
            part = value / total * width
            placed.append(Share(name, value, round(x, 2), round(part, 2)))
            x += part
    return placed
