"""Schedules as the CSV that PyTorch reads and writes: a row for each stage, a column for each tick.

    0F0,0F1,,0B0,0B1
    ,1F0,1B0,1F1,1B1

`1F0` is the forward pass of micro-batch 0 in part 1 of the model. Two cells of one step are
`(0F1;0B0)OVERLAP_F_B`. What PyTorch adds of communication (`1RECV_F0`, `0UNSHARD`) is left out, since it follows from
the cells. PyTorch's format is that of `_PipelineScheduleRuntime._load_csv` in `torch.distributed.pipelining`.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence

from ..errors import MeshError, shown
from .cells import At, Cell, Order, Parts
from .validity import written

_CELL = re.compile(r"(\d+)([FBIW])(\d+)")
_SENT = re.compile(r"(\d+)(UNSHARD|RESHARD|REDUCE_GRAD|SEND_F|RECV_F|SEND_B|RECV_B)(\d*)")
_TOGETHER = re.compile(r"\(([^()]*)\)OVERLAP_F_B")
_MOST = 5


def text_of(order: Order, parts: Parts, ticks: Mapping[At, int]) -> str:
    """Writes a schedule; ticks without a cell are left empty."""
    out = io.StringIO()
    length = 1 + max(ticks.values())
    lines = csv.writer(out, lineterminator="\n")
    for stage, steps in enumerate(order):
        row = [""] * length
        for step in steps:
            cells = [written(cell, parts[stage][cell.chunk]) for cell in step]
            row[ticks[stage, step[0]]] = cells[0] if len(cells) == 1 else f"({';'.join(cells)})OVERLAP_F_B"
        lines.writerow(row)
    return out.getvalue()


def read(text: str, file: str) -> tuple[Order, Parts]:
    """Reads a schedule: the order of each stage, and the parts that its cells name."""
    rows = [row for row in csv.reader(io.StringIO(text)) if row]
    unread: list[str] = []
    read_rows = [[*_steps(row, stage, unread)] for stage, row in enumerate(rows)]
    if unread or not rows:
        more = f", and {len(unread) - _MOST} more" if len(unread) > _MOST else ""
        what = "; ".join(unread[:_MOST]) + more if unread else "it has no row"
        raise MeshError(f"{file} is not a schedule: {what}. Write a row for each stage: `0F0,0F1,,0B0,0B1`.")
    parts = tuple(tuple(dict.fromkeys(part for step in row for part, *_ in step)) for row in read_rows)
    # Chunks are in the order of the forward pass on their stage.
    parts = tuple(tuple(sorted(each)) for each in parts)
    order = tuple(
        tuple(tuple(Cell(phase, micro, parts[stage].index(part)) for part, phase, micro in step) for step in row)
        for stage, row in enumerate(read_rows)
    )
    return order, parts


def _steps(row: Sequence[str], stage: int, unread: list[str]) -> Iterator[tuple[tuple[int, str, int], ...]]:
    for column, text in enumerate(map(str.strip, row)):
        together = _TOGETHER.fullmatch(text)
        cells = [_CELL.fullmatch(each.strip()) for each in (together[1].split(";") if together else [text])]
        if all(cells):
            yield tuple((int(cell[1]), cell[2], int(cell[3])) for cell in cells if cell)
        elif text and not _SENT.fullmatch(text):
            unread.append(f"row {stage + 1}, column {column + 1} is {shown(text)}")
