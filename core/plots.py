"""Plots as SVG, drawn here: no script, no other host, and no need of colour. Pure.

A page shows one inline, with ``templates/staff/plot_style.html`` for its colours, light
and dark. Series differ in texture and width, so they can be told apart in grey.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

WIDTH: Final = 480
"""Units of the drawing; as wide as a phone's card, so that its text stays readable."""
HEIGHT: Final = 200
LEFT: Final = 44
RIGHT: Final = 6
TOP: Final = 24
BOTTOM: Final = 20
ROW: Final = 40
"""Height of one row of a ranking: its words, and its bar below them."""
TICKS_ACROSS: Final = 4
TEXTURES: Final = ("hatched", "solid", "pale")
_SHARES: Final = (0.86, 0.5, 0.26)
"""How much of its place a bar fills: a later series stands in front of the earlier."""
_MULTIPLES: Final = (1, 2, 3, 4, 6, 8, 10)


@dataclass(frozen=True, slots=True)
class Series:
    """What is counted, and its values, one for each place along the axis."""

    name: str
    values: Sequence[int]


@dataclass(frozen=True, slots=True)
class Ranked:
    """A row of a ranking: its words, and the shares of its bar, from 0 to 1."""

    words: str
    solid: float
    hatched: float = 0.0


def bars(name: str, labels: Sequence[str], series: Sequence[Series]) -> str:
    """Return the SVG of up to three series of bars, one group for each label.

    ``name`` says what is shown, to those who do not see it. Raises ValueError for
    series that are not as long as the labels, or for too many of them.
    """
    if len(series) > len(TEXTURES):
        raise ValueError("a plot has three textures, for three series")
    if any(len(one.values) != len(labels) for one in series):
        raise ValueError("each series has one value for each label")
    most = _round_up(max((max(one.values, default=0) for one in series), default=0))
    return "".join(
        (
            f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
            f' aria-label="{escape(name)}">',
            _patterns(),
            *_scale(most),
            *_dates(labels),
            *_legend(series),
            *_groups(labels, series, most),
            "</svg>",
        )
    )


def stacked(name: str, labels: Sequence[str], series: Sequence[Series]) -> str:
    """Return the SVG of up to three series that stand on one another, the first below.

    For parts of a whole; else as ``bars``.
    """
    if len(series) > len(TEXTURES):
        raise ValueError("a plot has three textures, for three series")
    if any(len(one.values) != len(labels) for one in series):
        raise ValueError("each series has one value for each label")
    sums = [sum(one.values[place] for one in series) for place in range(len(labels))]
    most = _round_up(max(sums, default=0))
    return "".join(
        (
            f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
            f' aria-label="{escape(name)}">',
            _patterns(),
            *_scale(most),
            *_dates(labels),
            *_legend(series),
            *_piles(labels, series, most),
            "</svg>",
        )
    )


def ranked(name: str, rows: Sequence[Ranked]) -> str:
    """Return the SVG of lying bars, one a row, each with its words above it.

    Each row fills its share of the width: two parts at most, the second one hatched.
    """
    height = ROW * max(1, len(rows))
    drawn = (_row(n, row) for n, row in enumerate(rows))
    return (
        f'<svg class="plot" viewBox="0 0 {WIDTH} {height}" role="img"'
        f' aria-label="{escape(name)}">{_patterns()}{"".join(drawn)}</svg>'
    )


def _round_up(most: int) -> int:
    """Return the top of the scale: a digit and zeros, and at least 2."""
    power: int = 10 ** (len(str(most)) - 1)
    return max(2, next(power * n for n in _MULTIPLES if power * n >= most))


def _patterns() -> str:
    return (
        '<defs><pattern id="plot-hatch" width="4" height="4"'
        ' patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        '<rect class="plot-paper" width="4" height="4"/>'
        '<rect class="plot-line" width="1.6" height="4"/></pattern></defs>'
    )


def _scale(most: int) -> list[str]:
    marks = []
    for value in (0, most // 2, most):
        y = _y(value, most)
        marks.append(
            f'<path class="plot-grid" d="M{LEFT} {y:g}H{WIDTH - RIGHT}"/>'
            f'<text x="{LEFT - 6}" y="{y + 4:g}" text-anchor="end">'
            f"{short(value)}</text>"
        )
    return marks


def _dates(labels: Sequence[str]) -> list[str]:
    """Return a few of the labels, so far apart that none touches the next."""
    last, ticks = len(labels) - 1, min(TICKS_ACROSS, len(labels))
    places = sorted({round(n * last / max(1, ticks - 1)) for n in range(ticks)})
    return [
        f'<text x="{_x(place + 0.5, len(labels)):g}" y="{HEIGHT - 5}"'
        f' text-anchor="{_anchor(place, last)}">{escape(labels[place])}</text>'
        for place in places
    ]


def _anchor(place: int, last: int) -> str:
    if place == last:
        return "end"
    return "start" if place == 0 else "middle"


def _legend(series: Sequence[Series]) -> list[str]:
    return [
        f'<rect class="plot-{TEXTURES[n]}" x="{x}" y="4" width="12" height="12"/>'
        f'<text x="{x + 18}" y="14">{escape(one.name)}</text>'
        for n, one in enumerate(series)
        for x in (LEFT + 130 * n,)
    ]


def _groups(labels: Sequence[str], series: Sequence[Series], most: int) -> list[str]:
    return [
        f"<g><title>{escape(_told(label, series, place))}</title>"
        + "".join(
            _bar(n, place, one.values[place], most, count=len(labels))
            for n, one in enumerate(series)
        )
        + "</g>"
        for place, label in enumerate(labels)
        if any(one.values[place] for one in series)
    ]


def _piles(labels: Sequence[str], series: Sequence[Series], most: int) -> list[str]:
    piles = []
    for place, label in enumerate(labels):
        values = [one.values[place] for one in series]
        if not any(values):
            continue
        below = [sum(values[:n]) for n in range(len(values))]
        drawn = (
            _block(n, place, below[n], value, most, count=len(labels))
            for n, value in enumerate(values)
            if value
        )
        title = escape(_told(label, series, place))
        piles.append(f"<g><title>{title}</title>{''.join(drawn)}</g>")
    return piles


def _block(n: int, place: int, below: int, value: int, most: int, *, count: int) -> str:
    bottom, top = _y(below, most), _y(below + value, most)
    top = min(top, bottom - 1)  # one is not nothing
    x, width = _x(place + 0.07, count), _x(0.86, count) - LEFT
    return (
        f'<rect class="plot-{TEXTURES[n]}" x="{x:.2f}" y="{top:.2f}"'
        f' width="{width:.2f}" height="{bottom - top:.2f}"/>'
    )


def _row(n: int, row: Ranked) -> str:
    y, solid = n * ROW, min(row.solid, 1.0) * WIDTH
    hatched = min(row.hatched, max(0.0, 1.0 - row.solid)) * WIDTH
    return (
        f'<text x="0" y="{y + 14}">{escape(row.words)}</text>'
        f'<rect class="plot-track" x="0" y="{y + 20}" width="{WIDTH}" height="10"/>'
        f'<rect class="plot-solid" x="0" y="{y + 20}" width="{solid:.2f}" height="10"/>'
        f'<rect class="plot-hatched" x="{solid:.2f}" y="{y + 20}"'
        f' width="{hatched:.2f}" height="10"/>'
    )


def _told(label: str, series: Sequence[Series], place: int) -> str:
    values = (f"{one.values[place]:,} {one.name}" for one in series)
    return f"{label}: {', '.join(values)}"


def _bar(n: int, place: int, value: int, most: int, *, count: int) -> str:
    if not value:
        return ""
    share, y = _SHARES[n], min(_y(value, most), _y(0, most) - 1)  # one is not nothing
    x = _x(place + (1 - share) / 2, count)
    width = _x(share, count) - LEFT
    return (
        f'<rect class="plot-{TEXTURES[n]}" x="{x:.2f}" y="{y:.2f}"'
        f' width="{width:.2f}" height="{_y(0, most) - y:.2f}"/>'
    )


def _x(place: float, count: int) -> float:
    return LEFT + place * (WIDTH - LEFT - RIGHT) / max(1, count)


def _y(value: int, most: int) -> float:
    return HEIGHT - BOTTOM - value * (HEIGHT - TOP - BOTTOM) / most


def short(value: int) -> str:
    """Return a number as an axis has room for it: 950, 1.5k, 20k, 3M."""
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return str(value)
