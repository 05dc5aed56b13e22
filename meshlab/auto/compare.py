"""A chosen layout beside one made by hand: as a table, as data, as a chart.

    choice.compare("batch:data hidden:model")

                          yours                      auto
    layout                batch:data hidden:model    batch:data classes:model ...
    work on one device    25.0 %                     25.0 %
    sent over data        1,626,116                  ...

Both columns are read off plans. Work is the part of all contractions that one device computes: a layout that sends
little because every device does everything shows it here.
"""

from __future__ import annotations

import dataclasses
import html
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..engine.api.stages import Plan
from ..engine.specs.layout import LayoutLike
from .mesh_tf_ledger import planned_peak
from .work import share_of

if TYPE_CHECKING:
    from .choice import Choice, Proof


@dataclasses.dataclass(frozen=True)
class Row:
    """One layout.

    Attributes:
        name: "yours" or "auto".
        layout: its rules.
        work: the part of all contractions that one device computes.
        wire_bytes: bytes that one device sends in one run.
        by_axis: the same by mesh axes, such as "data" or "data+model".
        collectives: how many collectives one run executes.
        argument_bytes: bytes of all arguments on one device.
        peak_bytes: the most bytes that one device holds at once, by the liveness convention.
    """

    name: str
    layout: str
    work: float
    wire_bytes: float
    by_axis: Mapping[str, float]
    collectives: int
    argument_bytes: int
    peak_bytes: int


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
        rows = [dataclasses.asdict(row) | {"by_axis": dict(row.by_axis)} for row in self.rows]
        return {"rows": rows, "proof": self.proof.to_dict()}

    def lines(self) -> list[tuple[str, str, str]]:
        """The table: a title and the two layouts' entries, line by line."""
        axes = list(dict.fromkeys(axis for row in self.rows for axis in row.by_axis))

        def line(title: str, entry: Callable[[Row], str]) -> tuple[str, str, str]:
            return title, entry(self.rows[0]), entry(self.rows[1])

        return [
            line("layout", lambda row: row.layout or "nothing split"),
            line("work on one device", lambda row: f"{row.work:.1%}"),
            line("bytes sent per step", lambda row: f"{row.wire_bytes:,.0f}"),
            *(line(f"  over {axis}", lambda row, axis=axis: f"{row.by_axis.get(axis, 0):,.0f}") for axis in axes),
            line("collectives per step", lambda row: f"{row.collectives:,}"),
            line("bytes of arguments", lambda row: f"{row.argument_bytes:,}"),
            line("bytes at the peak", lambda row: f"{row.peak_bytes:,}"),
        ]

    def figure(self) -> Any:
        """Draws what each layout sends, by mesh axis, and holds.

        Returns:
            A `plotly.graph_objects.Figure`: two charts of grouped bars.
        """
        from plotly.subplots import make_subplots  # noqa: PLC0415  Plotly is large, and optional

        axes = list(dict.fromkeys(axis for row in self.rows for axis in row.by_axis)) or ["nothing"]
        figure = make_subplots(
            rows=1,
            cols=2,
            column_widths=[len(axes) + 1, 3],
            subplot_titles=("Bytes that each device sends per step", "Bytes that each device holds"),
        )
        for row, color in zip(self.rows, ("#8b94a3", "#2563c9"), strict=True):
            shown = {
                "name": f"{row.name}: {row.layout or 'nothing split'}",
                "legendgroup": row.name,
                "marker_color": color,
            }
            figure.add_bar(x=axes, y=[row.by_axis.get(axis, 0) for axis in axes], row=1, col=1, **shown)
            held = {"arguments": row.argument_bytes, "at the peak": row.peak_bytes}
            figure.add_bar(x=list(held), y=list(held.values()), row=1, col=2, showlegend=False, **shown)
        figure.update_layout(
            barmode="group",
            template="plotly_white",
            font_size=14,
            margin={"l": 10, "r": 10, "t": 50, "b": 10},
            legend={"orientation": "h", "y": -0.2},
        )
        return figure

    def __str__(self):
        table = [("", self.rows[0].name, self.rows[1].name), *self.lines()]
        widths = [max(len(line[column]) for line in table) for column in range(3)]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in table
        )

    def __repr__(self):
        return str(self)

    def _repr_html_(self) -> str:
        def cells(entries: tuple[str, ...], tag: str) -> str:
            first, *rest = (html.escape(e).replace("  ", "&emsp;") for e in entries)
            return (
                f"<tr><th style='text-align:left'>{first}</th>" + "".join(f"<{tag}>{e}</{tag}>" for e in rest) + "</tr>"
            )

        head = cells(("", self.rows[0].name, self.rows[1].name), "th")
        body = "".join(cells(line, "td") for line in self.lines())
        return f"<table><thead>{head}</thead><tbody>{body}</tbody></table><p>Auto: {html.escape(str(self.proof))}.</p>"


def compare(choice: Choice, layout: LayoutLike) -> Comparison:
    """Sets a chosen layout beside another; see `Choice.compare`."""
    program, mesh = choice.plan.program, choice.plan.mesh
    yours = program.plan(mesh, layout)
    return Comparison((_row("yours", yours), _row("auto", choice.plan)), choice.proof)


def _row(name: str, plan: Plan) -> Row:
    by_axis: dict[str, float] = {}
    for c in plan.collectives:
        key = "+".join(c.axes)
        by_axis[key] = by_axis.get(key, 0.0) + c.wire_bytes * c.times
    return Row(
        name=name,
        layout=str(plan.layout),
        work=share_of(plan),
        wire_bytes=plan.wire_bytes,
        by_axis=dict(sorted(by_axis.items())),
        collectives=sum(c.times for c in plan.collectives),
        argument_bytes=plan.memory.argument_bytes,
        peak_bytes=planned_peak(plan),
    )
