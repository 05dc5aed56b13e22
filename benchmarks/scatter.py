"""Scatters as SVG: what was predicted against what was measured, on two logarithmic axes of one scale.

    scatter([Series("v4", "× 1.35", [(28.4, 29.3)])], title="Steps", note="1 of 1", axes=("measured", "predicted"), ...)

What is predicted right lies on the diagonal, and what is within a share of it in the band around it. A machine has a
colour and a shape of its own, the same in all figures, and what is not judged is hollow. A figure brings its background
with it, light or dark as the reader has it, so that any page can show it; it is the same text for the same points, so
that a test can hold it against what is predicted today.
"""

from __future__ import annotations

import dataclasses
import html
import itertools
import math
from collections.abc import Callable, Iterator, Sequence

# The box of the axes, and of the figure around it.
LEFT, TOP, SIDE = 84, 66, 480
WIDTH, HEIGHT = 780, TOP + SIDE + 62
_LEGEND, _LINE = LEFT + SIDE + 24, 22
# Machines, in the order of their colours and shapes.
MACHINES = ("h100", "a100", "h200", "v5e", "v5p", "v6e", "v7x", "a100_40g", "h100 of 500 W", "v4")
# Their colours in light and in dark: those of the board (`colours.css`), and four that are as far as can be from these.
COLOURS = (
    ("#1652a3", "#bfc9f2"),
    ("#cb6f3d", "#dfa737"),
    ("#1f8a8d", "#13ceb0"),
    ("#9151f9", "#a994ef"),
    ("#b52963", "#f3727a"),
    ("#525c05", "#deef69"),
    ("#171b22", "#9d6227"),
    ("#4e003b", "#9d3beb"),
    ("#002700", "#00ffc4"),
    ("#000089", "#3b8962"),
)
CARDS = ("#ffffff", "#1b1f26")
# What else has colours, in light and in dark.
_INKS = {
    "text": ("#171b22", "#e9ecf1"),
    ".soft": ("#4d5664", "#b3bbc7"),
    ".band": ("#dfe3e9", "#343b47"),
    ".grid": ("#c3cad4", "#4a5362"),
    ".line": ("#4d5664", "#b3bbc7"),
}
_PLUS = [(-0.4, -1), (0.4, -1), (0.4, -0.4), (1, -0.4), (1, 0.4), (0.4, 0.4)]
_PLUS += [(0.4, 1), (-0.4, 1), (-0.4, 0.4), (-1, 0.4), (-1, -0.4), (-0.4, -0.4)]
_STAR = [(r * math.sin(i * math.pi / 5), -r * math.cos(i * math.pi / 5)) for i, r in enumerate([1.25, 0.5] * 5)]
# Corners of their shapes, of about the same area; a circle has none.
SHAPES: tuple[Sequence[tuple[float, float]], ...] = (
    (),
    ((-0.88, -0.88), (0.88, -0.88), (0.88, 0.88), (-0.88, 0.88)),
    ((0, -1.2), (1.1, 0.8), (-1.1, 0.8)),
    ((0, -1.3), (1.1, 0), (0, 1.3), (-1.1, 0)),
    ((0, 1.2), (1.1, -0.8), (-1.1, -0.8)),
    _PLUS,
    _STAR,
    ((-1, -1.1), (1, -1.1), (-1, 1.1), (1, 1.1)),
    ((1.2, 0), (-0.8, -1.1), (-0.8, 1.1)),
    ((-1.2, 0), (0.8, -1.1), (0.8, 1.1)),
)
# Up to how many points are drawn large.
FEW = 200
# The errors that the band holds: what is promised of published steps.
WITHIN = 0.15


@dataclasses.dataclass(frozen=True)
class Series:
    """The points of a machine.

    Attributes:
        machine: one of `MACHINES`.
        more: what the legend says behind its name.
        points: measured and predicted, of those that are judged.
        aside: the same of those that are not, which are hollow.
    """

    machine: str
    more: str
    points: Sequence[tuple[float, float]]
    aside: Sequence[tuple[float, float]] = ()

    @property
    def look(self) -> int:
        """The number of its colour and its shape."""
        return MACHINES.index(self.machine)

    @property
    def values(self) -> Iterator[float]:
        """All that is on either axis."""
        return itertools.chain.from_iterable((*self.points, *self.aside))


@dataclasses.dataclass(frozen=True)
class Axes:
    """Two logarithmic axes of one scale.

    Attributes:
        low: where both begin.
        high: where both end.
    """

    low: float
    high: float

    @classmethod
    def around(cls, series: Sequence[Series]) -> Axes:
        """Returns axes with room for all points."""
        values = [value for each in series for value in each.values]
        room = (max(values) / min(values)) ** 0.04 * 1.05
        return cls(min(values) / room, max(values) * room)

    def share(self, value: float) -> float:
        """Returns how far along an axis a value is: 0 where it begins, 1 where it ends."""
        return math.log(value / self.low) / math.log(self.high / self.low)

    def place(self, across: float, up: float) -> tuple[float, float]:
        """Returns where a point is in the figure."""
        return LEFT + SIDE * self.share(across), TOP + SIDE * (1 - self.share(up))

    def ticks(self) -> list[float]:
        """Returns the round values on an axis: powers of ten, and where these are few, two and five of each as well."""
        steps = (1, 2, 5) if self.high / self.low < 1e3 else (1,)
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)))
        values = [float(f"{step}e{power}") for power in powers for step in steps]
        return [value for value in values if self.low <= value <= self.high]

    def band(self, share: float) -> list[tuple[float, float]]:
        """Returns the corners of what is within a share of the diagonal and within the axes."""
        low, high, more, less = self.low, self.high, 1 + share, 1 - share
        corners = [(low, low), (low, low * more), (high / more, high), (high, high), (high, high * less)]
        return [self.place(*corner) for corner in (*corners, (low / less, low))]


def scatter(
    series: Sequence[Series],
    *,
    title: str,
    note: str,
    axes: tuple[str, str],
    text: Callable[[float], str],
    band: float = WITHIN,
) -> str:
    """Returns a figure as SVG.

    Args:
        series: each of another machine.
        title: what it shows.
        note: a line below the title.
        axes: the titles of the axis across and of that up.
        text: writes a tick's value with its unit.
        band: the share of the diagonal that the band holds.
    """
    scale = Axes.around(series)
    radius = 4.6 if sum(len(each.points) + len(each.aside) for each in series) <= FEW else 2
    said = f"{title}: {axes[1]} against {axes[0]}, {note}"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
        ' role="img">',
        f"<title>{html.escape(said)}</title>",
        f"<style>{_style([each.look for each in series])}</style>",
        f'<rect class="card" width="{WIDTH}" height="{HEIGHT}" rx="8"/>',
        f'<polygon class="band" points="{_points(scale.band(band))}"/>',
        *_axes(scale, axes, text),
        f'<path class="line" d="M{LEFT} {TOP + SIDE}L{LEFT + SIDE} {TOP}"/>',
        f'<text class="title" x="{LEFT}" y="28">{html.escape(title)}</text>',
        f'<text class="soft" x="{LEFT}" y="49">{html.escape(note)}</text>',
    ]
    for each in series:
        for kind, points in (("full", each.points), ("aside", each.aside)):
            marks = "\n".join(marker(each.look, *scale.place(*point), radius) for point in points)
            lines += [f'<path class="s{each.look} {kind}" d="{marks}"/>'] if points else []
    lines += [*_legend(series, band), "</svg>"]
    return "\n".join(lines) + "\n"


def marker(look: int, x: float, y: float, radius: float) -> str:
    """Returns the mark of a machine at a point, as a part of a path."""
    if not SHAPES[look]:
        half, across = f"{radius} {radius} 0 1 0", f"{2 * radius:g}"
        return f"M{x - radius:.1f} {y:.1f}a{half} {across} 0 {half}-{across} 0z"
    corners = [(radius * across, radius * up) for across, up in SHAPES[look]]
    steps = (f"{b[0] - a[0]:.2g} {b[1] - a[1]:.2g}" for a, b in itertools.pairwise(corners))
    return f"M{x + corners[0][0]:.1f} {y + corners[0][1]:.1f}l{' '.join(steps)}z"


def _style(looks: Sequence[int]) -> str:
    """The style sheet, for light surroundings and for dark ones."""
    common = (
        "text{font:13px system-ui,sans-serif}.title{font-size:16px;font-weight:600}.end{text-anchor:end}"
        ".mid{text-anchor:middle}.grid{stroke-width:.6}.line{stroke-width:1.2}.box{fill:none}"
        ".full{fill-opacity:.8;stroke-width:.5}.aside{stroke-width:1.3}"
    )
    themes = []
    for theme, card in enumerate(CARDS):
        rules = [f".card{{fill:{card}}}"]
        for name, inks in _INKS.items():
            what = "stroke" if name in (".grid", ".line") else "fill"
            rules.append(f"{name}{{{what}:{inks[theme]}}}")
        rules += [f".s{i}{{fill:{COLOURS[i][theme]};stroke:{COLOURS[i][theme]}}}" for i in looks]
        themes.append("".join([*rules, f".aside{{fill:{card}}}"]))
    return f"{common}{themes[0]}@media(prefers-color-scheme:dark){{{themes[1]}}}"


def _axes(scale: Axes, titles: tuple[str, str], text: Callable[[float], str]) -> Iterator[str]:
    """The box, its ticks with their lines and values, and the titles."""
    bottom, right, middle = TOP + SIDE, LEFT + SIDE, TOP + SIDE / 2
    ticks = scale.ticks()
    lines = ((scale.place(tick, tick), text(tick)) for tick in ticks)
    for (x, y), value in lines:
        yield f'<path class="grid" d="M{x:.1f} {TOP}V{bottom + 5}M{LEFT - 5} {y:.1f}H{right}"/>'
        yield f'<text class="soft mid" x="{x:.1f}" y="{bottom + 21}">{value}</text>'
        yield f'<text class="soft end" x="{LEFT - 9}" y="{y + 4:.1f}">{value}</text>'
    yield f'<rect class="line box" x="{LEFT}" y="{TOP}" width="{SIDE}" height="{SIDE}"/>'
    yield f'<text class="mid" x="{LEFT + SIDE / 2:g}" y="{bottom + 46}">{html.escape(titles[0])}</text>'
    yield f'<text class="mid" transform="translate(20 {middle:g})rotate(-90)">{html.escape(titles[1])}</text>'


def _legend(series: Sequence[Series], band: float) -> Iterator[str]:
    """A line for each series, and what the diagonal, the band and hollow marks are."""
    x, y = _LEGEND, TOP + 8
    for each in series:
        mark = marker(each.look, x + 10, y, 5)
        yield f'<path class="s{each.look} full" d="{mark}"/>{_said(f"{each.machine} {each.more}".strip(), y)}'
        y += _LINE
    if hollow := [each.look for each in series if each.aside]:
        mark = marker(hollow[0], x + 10, y, 5)
        yield f'<path class="s{hollow[0]} aside" d="{mark}"/>{_said("hollow: not judged", y)}'
        y += _LINE
    y += _LINE / 2
    yield f'<path class="line" d="M{x} {y + 5:g}l20 -10"/>{_said("predicted as measured", y)}'
    y += _LINE
    corners = ((x, y + 1), (x + 20, y - 9), (x + 20, y - 1), (x, y + 9))
    yield f'<polygon class="band" points="{_points(corners)}"/>{_said(f"within {band:.0%} of it", y)}'


def _said(what: str, y: float) -> str:
    return f'<text x="{_LEGEND + 30}" y="{y + 4.5:g}">{html.escape(what)}</text>'


def _points(corners: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
