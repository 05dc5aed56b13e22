"""The plan beside what XLA's own partitioner makes of its shardings, as JSON-like data; nothing where nobody asks."""

from __future__ import annotations

from typing import TypedDict

from ....cost.machines.units import bytes_text, seconds_text
from ....own.beside import Row
from ....own.report import Report
from ....own.step import Step
from ...state.explorer_state import ExplorerState

# Of more rows those that differ most are shown.
_MOST = 40


class XlaRowView(TypedDict):
    """What the plan and XLA's program send at one line; `because` says why XLA's is there."""

    source: str
    kind: str
    key: str
    planned: int
    inserted: int
    same: bool
    because: list[str]


class XlaView(TypedDict):
    """How far it is; the rows, how many more there are, both totals, peaks, and steps on a machine, and remarks."""

    phase: str
    stage: str
    seconds: float
    error: str
    rows: list[XlaRowView]
    left_out: int
    planned: int
    inserted: int
    planned_peak: str
    inserted_peak: str
    planned_step: str
    inserted_step: str
    notes: list[str]


class XlaPartView(TypedDict):
    xla: XlaView | None


def xla_part(explorer: ExplorerState) -> XlaPartView:
    compiling = explorer.partitioned.last
    if compiling is None:
        return {"xla": None}
    report = compiling.report
    beside = report.beside if report is not None else None
    every = beside.rows if beside is not None else ()
    return {
        "xla": {
            "phase": compiling.phase,
            "stage": compiling.stage,
            "seconds": compiling.seconds,
            "error": compiling.error,
            "rows": [_row(row, report) for row in every[:_MOST] if report is not None],
            "left_out": len(every[_MOST:]),
            "planned": round(beside.planned) if beside is not None else 0,
            "inserted": round(beside.inserted) if beside is not None else 0,
            "planned_peak": _peak(beside.planned_peak) if beside is not None else "",
            "inserted_peak": _peak(beside.inserted_peak) if beside is not None else "",
            "planned_step": _took(beside.planned_step) if beside is not None else "",
            "inserted_step": _took(beside.inserted_step) if beside is not None else "",
            "notes": list(beside.notes) if beside is not None else [],
        }
    }


def _peak(count: int | None) -> str:
    return bytes_text(count) if count is not None else ""


def _took(step: Step | None) -> str:
    return f"{seconds_text(step.lower)} to {seconds_text(step.upper)}" if step is not None else ""


def _row(row: Row, report: Report) -> XlaRowView:
    mine = (e for e in report.collectives if (str(e.source or "?"), e.kind, e.axes) == (row.source, row.kind, row.axes))
    return {
        "source": row.source,
        "kind": row.kind,
        "key": "+".join(row.axes or ()) or "?",
        "planned": round(row.planned),
        "inserted": round(row.inserted),
        "same": row.is_equal,
        "because": list(dict.fromkeys(e.because for e in mine))[:3],
    }
