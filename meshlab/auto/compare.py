"""A chosen layout beside one made by hand: as a table, as data, as a chart.

    choice.compare("batch:data hidden:model")

                          yours                      auto
    layout                batch:data hidden:model    batch:data classes:model ...
    work per device       25.0 %                     25.0 %
    bytes sent per device 1,628,116                  ...
      over data           1,626,116                  ...

Both columns are read off plans. Work is the part of all contractions that one device computes: a layout that sends
little because every device does everything shows it here.
"""

from __future__ import annotations

import dataclasses
import functools
import html
from collections.abc import Callable, Mapping
from typing import Any

from ..api.stages import Plan
from ..cost.workload.options import USUAL, Options
from ..engine.plans.collective import wire_bytes_by_axis
from ..engine.tables import html_rows, text_rows
from .objective import LIVE, OBJECTIVES, TRAFFIC, Objective, offered
from .proof import Proof

_COLOURS = ("#8b94a3", "#1652a3")


@dataclasses.dataclass(frozen=True)
class Row:
    """One layout; its numbers are read off its plan when they are first asked for.

    Attributes:
        name: "yours" or "auto".
        plan: its plan.
        options: the assumptions about a run under which time and memory are predicted.
    """

    name: str
    plan: Plan
    options: Options = USUAL

    @property
    def layout(self) -> str:
        """The layout's rules."""
        return str(self.plan.layout)

    @functools.cached_property
    def work(self) -> float:
        """The part of all contractions that one device computes."""
        return self.plan.work.share

    @functools.cached_property
    def costs(self) -> Mapping[str, float]:
        """The costs that objectives minimise, by the quantity of each."""
        return {each.quantity: each.of_plan(self.plan, self.options) for each in offered(self.plan.mesh)}

    @property
    def wire_bytes(self) -> float:
        """Bytes that one device sends in one run."""
        return self.costs[TRAFFIC.quantity]

    @property
    def live_bytes(self) -> float:
        """The most bytes that are live on one device at once, by Mesh TensorFlow's convention.

        A compiler arranges memory otherwise; `plan.memory.peak_bytes` predicts how.
        """
        return self.costs[LIVE.quantity]

    @functools.cached_property
    def by_axis(self) -> Mapping[str, float]:
        """Bytes that one device sends, by mesh axes such as "data" or "data+model"."""
        return dict(sorted(wire_bytes_by_axis(self.plan.collectives).items()))

    @property
    def collectives(self) -> int:
        """The number of collectives that one run executes."""
        return sum(c.times for c in self.plan.collectives)

    @property
    def argument_bytes(self) -> int:
        """Bytes of all arguments on one device."""
        return self.plan.stored.argument_bytes

    def to_dict(self) -> dict[str, Any]:
        """The row as JSON-able data."""
        facts = ("name", "layout", "work", "by_axis", "collectives", "argument_bytes")
        return {fact: getattr(self, fact) for fact in facts} | dict(self.costs)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Two layouts of one program on one mesh.

    Attributes:
        rows: the one made by hand, then the one chosen.
        proof: why the second is the best of its kind.
    """

    rows: tuple[Row, Row]
    proof: Proof

    def to_dict(self) -> dict[str, Any]:
        """The comparison as JSON-able data."""
        return {"rows": [row.to_dict() for row in self.rows], "proof": self.proof.to_dict()}

    def lines(self) -> list[tuple[str, str, str]]:
        """The table: a title and the two layouts' entries, line by line."""

        def line(title: str, entry: Callable[[Row], str]) -> tuple[str, str, str]:
            return title, entry(self.rows[0]), entry(self.rows[1])

        def cost(objective: Objective) -> tuple[str, str, str]:
            return line(objective.title, lambda row: objective.entry(row.costs[objective.quantity]))

        traffic, objectives = OBJECTIVES[TRAFFIC.name], offered(self.rows[0].plan.mesh)
        return [
            line("layout", lambda row: row.layout or "nothing sharded"),
            line("work per device", lambda row: f"{row.work:.1%}"),
            cost(traffic),
            *(
                line(f"  over {axis}", lambda row, axis=axis: f"{row.by_axis.get(axis, 0):,.0f}")
                for axis in self._axes()
            ),
            line("collectives per step", lambda row: f"{row.collectives:,}"),
            line("argument bytes per device", lambda row: f"{row.argument_bytes:,}"),
            *(cost(objective) for objective in objectives if objective is not traffic),
        ]

    def _axes(self) -> list[str]:
        """The mesh axes that some collective runs over."""
        return list(dict.fromkeys(axis for row in self.rows for axis in row.by_axis))

    def figure(self) -> Any:
        """Draws what each layout sends, by mesh axis, and holds.

        Returns:
            A `plotly.graph_objects.Figure`: two charts of grouped bars.
        """
        from plotly.subplots import make_subplots  # noqa: PLC0415  Plotly is large, and optional

        axes = self._axes() or ["nothing"]
        figure = make_subplots(
            rows=1,
            cols=2,
            column_widths=[len(axes) + 1, 3],
            subplot_titles=("Bytes sent per device and step", "Bytes held per device"),
        )
        for row, colour in zip(self.rows, _COLOURS, strict=True):
            style = {
                "name": f"{row.name}: {row.layout or 'nothing sharded'}",
                "legendgroup": row.name,
                "marker_color": colour,
            }
            figure.add_bar(x=axes, y=[row.by_axis.get(axis, 0) for axis in axes], row=1, col=1, **style)
            memory = {"arguments": row.argument_bytes, "peak live": row.live_bytes}
            figure.add_bar(x=list(memory), y=list(memory.values()), row=1, col=2, showlegend=False, **style)
        figure.update_layout(
            barmode="group",
            template="plotly_white",
            font_size=14,
            margin={"l": 10, "r": 10, "t": 50, "b": 10},
            legend={"orientation": "h", "y": -0.2},
        )
        return figure

    def __str__(self):
        return text_rows([self._heads, *self.lines()])

    def __repr__(self):
        return str(self)

    def _repr_html_(self) -> str:
        return f"{html_rows(self.lines(), self._heads)}<p>Auto: {html.escape(str(self.proof))}</p>"

    @property
    def _heads(self) -> tuple[str, str, str]:
        return "", self.rows[0].name, self.rows[1].name
