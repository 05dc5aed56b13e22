"""`make serial`: what gradient accumulation does to each model of the zoo, as the table of docs/serial.md.

    python -m benchmarks.serial docs/serial.md

Every step is planned on one device with its batch in 1, 2 and 4 micro-batches, and compiled: the bytes of temporaries
are the compiler's own. Then it is planned on two devices in 2 micro-batches: what is reduced, once, after the loop.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import sys

import meshlab as ml
from benchmarks.pages import Section
from meshlab.models.zoo import Model, models

SECTION = Section("serial")
COUNTS = (1, 2, 4)


@dataclasses.dataclass(frozen=True)
class Row:
    """What micro-batches do to a model.

    Attributes:
        model: the model.
        temporaries: by the number of micro-batches, the compiled program's bytes of temporaries; empty if refused.
        predicted: the same, predicted.
        reduced: the bytes that are reduced over two devices, in one step.
        refusal: why it is refused; "" if it is not.
    """

    model: Model
    temporaries: tuple[int, ...]
    predicted: tuple[int, ...]
    reduced: int
    refusal: str


def layout_of(model: Model, axes: str) -> dict[str, str]:
    """Returns the layout of micro-batches: the groups of a mixture of experts are the batch under another name."""
    return {"batch": axes} | ({"groups?": axes} if model.program == "moe" else {})


def temporary_bytes(plan: ml.Plan) -> int:
    """Returns the bytes that XLA sets aside on a device for what is neither argument nor output."""
    analysis = plan.compile().memory_analysis()
    assert analysis is not None
    return analysis.temp_size_in_bytes


def row(model: Model, compiles: bool = True) -> Row:
    """Plans a model with micro-batches; compiles it, or leaves the compiled bytes out."""
    program = model.trace()
    try:
        plans = [program.plan(ml.mesh(micro=ml.serial(n)), layout_of(model, "micro")) for n in COUNTS]
        spread = program.plan(ml.mesh(data=2, micro=ml.serial(2)), layout_of(model, "data+micro"))
    except ml.LayoutError as error:
        return Row(model, (), (), 0, str(error.problems[0]))
    temporaries = (temporary_bytes(plan) for plan in plans if compiles)
    predicted = tuple(plan.memory.temporary_bytes for plan in plans)
    reduced = sum(c.payload_bytes * c.times for c in spread.collectives if c.kind == "all-reduce")
    return Row(model, tuple(temporaries), predicted, reduced, "")


@functools.cache
def rows() -> tuple[Row, ...]:
    """Returns a row for every model."""
    return tuple(map(row, models()))


def table() -> str:
    """Returns the table of the page, and behind it why models are refused, each reason once."""
    heads = [f"{n} micro-batches" if n > 1 else "one batch" for n in COUNTS]
    lines = [f"| model | {' | '.join(heads)} | at 4, of one batch | reduced over 2 devices |", "| --- |" + " --- |" * 5]
    reasons = list(dict.fromkeys(each.refusal for each in rows() if each.refusal))
    for each in rows():
        name = each.model.name
        if each.refusal:
            lines.append(f"| {name} | refused ({reasons.index(each.refusal) + 1}) | | | | |")
            continue
        share = f"{each.temporaries[-1] / each.temporaries[0]:.2f}" if each.temporaries[0] else ""
        sizes = " | ".join(f"{size:,}" for size in each.temporaries)
        lines.append(f"| {name} | {sizes} | {share} | {each.reduced:,} B |")
    return "\n".join([*lines, *(f"\n({number}) {reason}" for number, reason in enumerate(reasons, 1))])


if __name__ == "__main__":
    ml.simulate(2)
    SECTION.write(pathlib.Path(sys.argv[1]), table())
