"""Published steps of pipelines, held against what is composed of plans and a schedule.

    python -m benchmarks.pipelines                   prints the table
    python -m benchmarks.pipelines docs/accuracy.md  writes it, and that of pairs, between the marks of that page

A step is composed of cells, what a micro-batch takes in one part of the model (`pipeline_cells`). `ml.Schedule` says
when they run, as processes run that send to each other. Behind them the step has one sum of gradients over `data` and
`context`, of all but experts over `expert` too, and one gather of parameters, of which those of one part are exposed,
and the optimizer reads and writes its state.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import pathlib
import statistics
import sys
from collections.abc import Sequence

import meshlab as ml
from benchmarks.pages import Section
from benchmarks.pipeline_cells import FAMILIES, Layout, layouts, machine, pairs, seconds

SECTION, PAIRS = Section("pipelines"), Section("pairs")
# What Adam reads and writes for a parameter: three numbers of 32 bits twice, its gradient, and the parameter.
OPTIMIZER_BYTES = 28


@dataclasses.dataclass(frozen=True)
class Step:
    """What is predicted of a step, in seconds.

    Attributes:
        total: of the step.
        waiting: of it, what the busiest stage waits in the schedule.
        sums: of it, exposed sums of gradients and gathers of parameters.
        optimizer: of it.
    """

    total: float
    waiting: float
    sums: float
    optimizer: float


@functools.cache
def predicted(layout: Layout, batch: int) -> Step:
    """Returns what is predicted of a step of so many sequences."""
    micro = batch // (layout.ways("data", "expert") * layout.micro)
    costs = [_costs(layout, part) for part in range(len(layout.parts))]
    name = "interleaved" if layout.chunks > 1 else "1f1b"
    schedule = ml.Schedule.of(name, layout.stages, micro, layout.chunks)
    ran = schedule.clock(costs, hop=_hop(layout))
    busiest = micro * max(sum(sum(costs[part]) for part in parts) for parts in schedule.parts)
    sums, optimizer = _sums(layout), _optimizer(layout)
    return Step(ran.makespan + sums + optimizer, ran.makespan - busiest, sums, optimizer)


def _costs(layout: Layout, part: int) -> tuple[float, float, float]:
    """The seconds of a micro-batch in a part: forward, and for the gradients of inputs and of weights, half each."""
    count, last = layout.parts[part], len(layout.parts) - 1
    again = min(layout.again, count)
    forward = back = 0.0
    for what, layers in (("cell", count - again), ("again", again)):
        if layers:
            ahead = seconds(layout, "forward", layers)
            forward, back = forward + ahead, back + seconds(layout, what, layers) - ahead
    for what, at in (("embedding", 0), ("head", last)):
        if part == at:
            both = seconds(layout, what)
            forward, back = forward + both / 3, back + both * 2 / 3
    return forward, back / 2, back / 2


def _mesh(layout: Layout) -> ml.Mesh:
    """The whole mesh, in nodes of a power of two devices: of the 72 of GB200's nodes, 64."""
    on = machine(layout)
    assert isinstance(on.network, ml.Switch)
    inside = min(2 ** int(math.log2(on.network.domain)), layout.devices)
    network = dataclasses.replace(on.network, domain=inside)
    return ml.mesh(dataclasses.replace(on, network=network), **dict(layout.mesh))


def _hop(layout: Layout) -> float:
    """The seconds in which a micro-batch goes from stage to stage."""
    if layout.stages == 1:
        return 0.0
    shard = 2 * layout.micro * layout.seq * layout.sizes["embed"]
    shard /= layout.ways("context") * (layout.ways("tensor") if layout.residual else 1)
    return float(ml.collective_time("collective-permute", shard * layout.stages, _mesh(layout), "pipe"))


def _parameters(layout: Layout) -> tuple[float, float]:
    """The parameters of a device of the stage that has most, in all its parts: of experts, and all others."""
    sizes = layout.sizes
    family = FAMILIES[sizes["family"]]
    embed, kv, ffn = sizes["embed"], sizes["heads"] * sizes["head"], sizes["ffn"]
    hidden = embed * ffn * (3 if "gate" in family.tables else 2)
    layer = 2 * embed * kv * (sizes.get("group", 1) + 1)
    experts = sizes.get("experts", 0) * hidden / layout.ways("expert")
    layer += embed * sizes["experts"] if experts else hidden
    table = embed * sizes["vocab"]
    own = [layer * count for count in layout.parts]
    own[0] += table
    own[-1] += table
    stages = range(layout.stages)
    most = max(stages, key=lambda stage: sum(own[stage :: layout.stages]))
    counts = experts * sum(layout.parts[most :: layout.stages]), sum(own[most :: layout.stages])
    return counts[0] / layout.ways("tensor"), counts[1] / layout.ways("tensor")


def _copies(layout: Layout) -> list[tuple[float, tuple[str, ...]]]:
    """The parameters of a device, with the axes of devices that have the same, and share the optimizer's state."""
    axes = ("data", "context"), ("data", "expert", "context")
    pairs = zip(_parameters(layout), axes, strict=True)
    return [(count, tuple(axis for axis in each if layout.ways(axis) > 1)) for count, each in pairs if count]


def _sums(layout: Layout) -> float:
    """The exposed seconds of the sum of gradients and the gather of parameters, both of 16 bits.

    They go part by part beside the backward pass of the last micro-batch, and the forward pass of the first; where the
    model is one part, layer by layer. Those of one part have nothing beside them.
    """
    pieces = layout.chunks if layout.stages > 1 else sum(layout.parts)
    kinds = ("reduce-scatter", "all-gather")
    each = (
        float(ml.collective_time(kind, 2 * count, _mesh(layout), axes))
        for count, axes in _copies(layout)
        if axes
        for kind in kinds
    )
    return sum(each) / pieces


def _optimizer(layout: Layout) -> float:
    on = machine(layout)
    rate = on.bytes_per_second * on.efficiency.memory.value
    return OPTIMIZER_BYTES * sum(count / layout.ways(*axes) for count, axes in _copies(layout)) / rate


# The tables


def ratios(layout: Layout) -> list[float]:
    """Returns predicted over measured seconds of each run of a layout."""
    return [predicted(layout, batch).total / layout.measured(batch, rate) for _, batch, rate in layout.runs]


def ratio(layout: Layout) -> float:
    """Returns predicted over measured seconds, the mean over a layout's runs."""
    return statistics.mean(ratios(layout))


def group(layout: Layout) -> str:
    """Returns what layouts with one factor have in common: the machine, and the precision."""
    return f"{layout.on} in {layout.precision}"


def factors(chosen: Sequence[Layout]) -> dict[str, float]:
    """Returns for each machine and precision how much longer steps took: what leaves the least largest error."""
    groups: dict[str, list[float]] = {}
    for layout in chosen:
        groups.setdefault(group(layout), []).append(ratio(layout))
    return {name: 1 / math.sqrt(min(each) * max(each)) for name, each in groups.items()}


def before(chosen: Sequence[Layout]) -> float:
    """Returns the mean of the errors' sizes without a factor; each layout counts once."""
    return statistics.mean(abs(ratio(layout) - 1) for layout in chosen)


def after(chosen: Sequence[Layout]) -> float:
    """Returns the mean of the errors' sizes after the factor of each machine and precision."""
    longer = factors(chosen)
    return statistics.mean(abs(ratio(layout) * longer[group(layout)] - 1) for layout in chosen)


def on(machine: str) -> list[Layout]:
    """Returns the layouts on a machine."""
    return [layout for layout in layouts() if layout.on == machine]


def table() -> str:
    """Returns measured and predicted steps as tables in Markdown, a row for each layout."""
    lines, longer = [], factors(layouts())
    for name in dict.fromkeys(layout.on for layout in layouts()):
        mine = on(name)
        lines += [
            f"On {name} the {len(mine)} layouts are off by {before(mine):.1%} on average without a factor, by"
            f" {after(mine):.1%} after one for each precision.",
            "",
        ]
    for name, factor in longer.items():
        mine = [layout for layout in layouts() if group(layout) == name]
        worst = max(abs(each * factor - 1) for layout in mine for each in ratios(layout))
        lines += [
            f"**{name}**: published steps took {factor:.2f} times the predicted time; after that one factor, errors up"
            f" to {worst:.0%}, on average {after(mine):.0%}.",
            "",
            "| model | devices | layout | sequences | measured | predicted | without a factor | waits |",
            "| --- | ---: | --- | ---: | ---: | ---: | ---: | ---: |",
            *map(_row, mine),
            "",
        ]
    return "\n".join(lines)


def _row(layout: Layout) -> str:
    """A layout, with its largest batch and the fastest and slowest of the releases that ran it."""
    batch = max(sequences for _, sequences, _ in layout.runs)
    ran = sorted(layout.measured(sequences, rate) for _, sequences, rate in layout.runs if sequences == batch)
    measured = " to ".join(dict.fromkeys(f"{each:.3g}" for each in (ran[0], ran[-1])))
    step = predicted(layout, batch)
    return (
        f"| {layout.model} | {layout.devices:,} | {where(layout)} | {batch:,} | {measured} s | {step.total:.3g} s"
        f" | {ratio(layout) - 1:+.1%} | {step.waiting / step.total:.1%} |"
    )


def where(layout: Layout) -> str:
    """Returns a layout in words."""
    axes = " × ".join(f"{name} {size}" for name, size in layout.mesh)
    return axes + (f", {layout.chunks} parts a stage" if layout.chunks > 1 else "")


@dataclasses.dataclass(frozen=True)
class Pair:
    """Two steps that differ in one thing, in seconds: the slower one first.

    Attributes:
        title: what the other one has.
        layout: the other one's.
        measured: of both.
        predicted: of both.
    """

    title: str
    layout: Layout
    measured: tuple[float, float]
    predicted: tuple[float, float]

    @property
    def off(self) -> float:
        """By how much the predicted ratio is off: 0.1 where it is 10% too large."""
        (one, other), (slow, fast) = self.predicted, self.measured
        return one / other / (slow / fast) - 1


@functools.cache
def compared() -> tuple[Pair, ...]:
    """Returns the published pairs."""
    found = []
    for title, one, other in pairs():
        both = [(layout, *layout.runs[0]) for layout in (one, other)]
        measured = tuple(layout.measured(batch, figure) for layout, _, batch, figure in both)
        times = tuple(predicted(layout, batch).total for layout, _, batch, _ in both)
        found.append(Pair(title, other, (measured[0], measured[1]), (times[0], times[1])))
    return tuple(found)


def pairs_table() -> str:
    """Returns measured and predicted pairs as a table in Markdown."""
    off = [abs(pair.off) for pair in compared()]
    return "\n".join(
        [
            f"The predicted ratios are off by up to {max(off):.0%}, on average by {statistics.mean(off):.0%}.",
            "",
            "| model | devices | stages | change | measured | predicted | measured ratio | predicted ratio | off by |",
            "| --- | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: |",
            *map(_pair_row, compared()),
        ]
    )


def _pair_row(pair: Pair) -> str:
    measured, times = (" → ".join(f"{each:.3g}" for each in both) for both in (pair.measured, pair.predicted))
    ratios_of = (both[0] / both[1] for both in (pair.measured, pair.predicted))
    cells = [pair.layout.model, f"{pair.layout.devices:,}", str(pair.layout.stages), pair.title, f"{measured} s"]
    cells += [f"{times} s", *(f"{each:.2f}" for each in ratios_of), f"{pair.off:+.0%}"]
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Prints the tables, or writes them into the page that is named."""
    if len(sys.argv) > 1:
        SECTION.write(pathlib.Path(sys.argv[1]), table())
        PAIRS.write(pathlib.Path(sys.argv[1]), pairs_table())
    else:
        print(table(), pairs_table(), sep="\n\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
