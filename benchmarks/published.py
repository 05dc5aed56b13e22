"""Published step times of training runs, held against what is predicted for them.

    python -m benchmarks.published                  prints the table
    python -m benchmarks.published docs/accuracy.md  writes it between the marks of that page, and draws its figure

Each run of `published.toml` is traced as its source describes it (model, sizes, recomputation, mixed precision, AdamW),
planned under its layout, and costed on its machine. What a machine reaches of its figures in practice is one number
for each machine, the same for all models and layouts; what is left of each run is the model's error.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import pathlib
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax

import meshlab as ml
from benchmarks.pages import Section
from benchmarks.scatter import Series, scatter
from meshlab.cost.machines.hardware import Figure, Hardware, hardware
from meshlab.cost.machines.placed import Placement
from meshlab.cost.machines.placement import place_mesh
from meshlab.cost.machines.units import seconds_text
from meshlab.cost.step_time.time import Time, time_of
from meshlab.cost.workload.options import Options
from meshlab.cost.workload.scenario import Scenario, together
from meshlab.engine.specs.mesh import Mesh
from meshlab.models.language import gpt2, llama
from meshlab.models.parts import training
from meshlab.models.parts.initial import shapes

DATA = pathlib.Path(__file__).with_suffix(".toml")
FAMILIES = {"llama": llama, "gpt2": gpt2}
SECTION = Section("published")


@dataclasses.dataclass(frozen=True, eq=False)
class Run:
    """One published run.

    Attributes:
        group: the title of the table that it comes from.
        model: the name of its model.
        on: the machine, and the slice's shape where that matters.
        mesh: the sizes of the mesh's axes.
        batch: sequences of a step.
        seq: tokens of a sequence.
        saved: what layers keep for their backward pass.
        residual: the dim that `tensor` splits of the stream between layers; None: it is whole.
        seconds: of a step, as measured.
        flash: whether attention is computed piece by piece.
        balanced: whether positions that are split lie so that a causal mask hides as much on each device.
        beside: whether collectives run piece by piece beside the matmuls that need them.
        memory: `bytes` and `bandwidth` of the machine's memory where they are not those of the machine that it names.
        clock: the part of its clocks in long runs that this machine's power leaves.
        source: where it is published.
        aside: why it is not judged; empty for those that are.
    """

    group: str
    model: str
    on: str
    mesh: Mapping[str, int]
    batch: int
    seq: int
    saved: tuple[str, ...]
    residual: str | None
    seconds: float
    flash: bool
    balanced: bool
    beside: bool
    memory: Mapping[str, float]
    clock: float
    source: str
    aside: str

    @property
    def devices(self) -> int:
        """How many devices it ran on."""
        return math.prod(self.mesh.values())

    @property
    def machine(self) -> str:
        """What runs on the same kind of machine have in common."""
        return self.on.partition(":")[0] + (" of 500 W" if self.memory else "")


# Reading


@functools.cache
def runs() -> tuple[Run, ...]:
    """Returns all published runs."""
    data = tomllib.loads(DATA.read_text())
    return tuple(_run(row, group, data) for group in data["groups"] for row in group["runs"])


@functools.cache
def models() -> Mapping[str, Mapping[str, Any]]:
    """Returns the models by name: `family`, sizes, and the published number of `parameters`."""
    return tomllib.loads(DATA.read_text())["models"]


def _run(row: Sequence[Any], group: Mapping[str, Any], data: Mapping[str, Any]) -> Run:
    model, on, mesh, batch, saved, figure = row
    run = Run(
        group["title"],
        model,
        on,
        mesh,
        batch,
        group["seq"],
        tuple(saved),
        group.get("residual"),
        math.nan,
        group.get("flash", True),
        group.get("balanced", False),
        group.get("beside", False),
        group.get("memory", {}),
        group.get("clock", 1.0),
        data["sources"][group["source"]],
        _aside(group, f"{model} on {math.prod(mesh.values())}"),
    )
    return dataclasses.replace(run, seconds=_seconds(figure, group["unit"], run, data["models"][model]))


def _aside(group: Mapping[str, Any], name: str) -> str:
    """Why a run is not judged: what is said of its group, or of it alone."""
    said = group.get("aside", {})
    return said if isinstance(said, str) else said.get(name, "")


def _seconds(figure: float, unit: str, run: Run, sizes: Mapping[str, Any]) -> float:
    tokens = run.batch * run.seq / run.devices
    if unit == "seconds":
        return figure
    if unit == "tokens":
        return tokens / figure
    assert unit == "tflops"
    return tokens * _model_operations(run, sizes) / (figure * 1e12)


def _model_operations(run: Run, sizes: Mapping[str, Any]) -> float:
    """Operations of a token as MaxText counts them: 6 for each parameter, and half of attention, which is causal.

    Source: MaxText at 76bd53b, MaxText/train.py, calculate_training_tflops.
    """
    names = ("embed", "heads", "head", "ffn", "layers", "vocab")
    embed, heads, head, ffn, layers, vocab = (sizes[name] for name in names)
    parameters = layers * (4 * embed * heads * head + 2 * embed * ffn) + vocab * embed
    return 6 * parameters + 6 * layers * heads * head * run.seq


# Predicting


def program(run: Run) -> ml.Program:
    """Traces a run's step: mixed precision, AdamW with clipping."""
    family = FAMILIES[models()[run.model]["family"]]
    sizes = {name: size for name, size in models()[run.model].items() if name not in ("family", "parameters")}
    config = family.Config(batch=run.batch, seq=run.seq, **sizes)
    optimizer = training.adamw()
    params = shapes(family.init, config)
    state = jax.eval_shape(optimizer.init, params)
    loss = training.mixed(functools.partial(family.loss, saved=run.saved))
    return ml.trace(training.adamw_step(loss, optimizer), params, state, *family.inputs(config))


def layout(run: Run) -> dict[str, Any]:
    """Returns a run's layout."""
    rules: dict[str, Any] = {}
    if "fsdp" in run.mesh:
        rules["batch"] = ("data", "fsdp") if "data" in run.mesh else "fsdp"
        rules |= {place: {"embed": "fsdp"} for place in ("params/*", "opt_state/*", "grads/*")}
    if "context" in run.mesh:
        rules["seq"] = "context"
        rules |= {place: {"embed": "context"} for place in ("params/*", "opt_state/*", "grads/*")}
    if "tensor" in run.mesh:
        rules |= dict.fromkeys(("heads", "ffn", "vocab"), "tensor")
        if run.residual:
            rules["residual"] = {run.residual: "tensor"}
    return rules


def machine(run: Run) -> Hardware:
    """Returns a run's machine."""
    machine = hardware(run.on.partition(":")[0])
    if machine.matmuls is not None:
        sustained = Figure(machine.matmuls.sustained.value * run.clock, run.source)
        machine = dataclasses.replace(machine, matmuls=dataclasses.replace(machine.matmuls, sustained=sustained))
    given = {name: Figure(value, run.source) for name, value in run.memory.items()}
    return dataclasses.replace(
        machine, memory=given.get("bytes", machine.memory), bandwidth=given.get("bandwidth", machine.bandwidth)
    )


def placement(run: Run) -> Placement:
    """Returns how a run's mesh lies on its machine."""
    count, _, text = run.on.partition(":")[2].rpartition("*")
    shape = tuple(map(int, text.split("x"))) if text else None
    return place_mesh(machine(run), shape, _bare(run), count=int(count or 1))


@functools.cache
def predicted(run: Run) -> Time:
    """Returns what is predicted of a run: that of a plan of its like, at its own sizes, as `ml.sweep` does it."""
    plan = _plan(_first_like(run))
    attention = "causal" if run.flash else "stored"
    options = Options(attention=attention, prefetch=True, balanced=run.balanced, beside=run.beside)
    sizes = together(plan.program, {**models()[run.model], "batch": run.batch})
    return time_of(Scenario(plan, sizes, dict(run.mesh), (placement(run),), options=options))


@functools.cache
def _plan(run: Run) -> ml.Plan:
    return program(run).plan(_bare(run), layout(run))


def _bare(run: Run) -> Mesh:
    return Mesh(tuple(run.mesh.items()))


def _first_like(run: Run) -> Run:
    """The first run whose plan is the same but for its sizes."""

    def like(one: Run) -> tuple[Any, ...]:
        return models()[one.model]["family"], one.saved, one.seq, one.residual, tuple(one.mesh)

    return next(other for other in runs() if like(other) == like(run))


def efficiencies(chosen: Iterable[Run]) -> dict[str, float]:
    """Returns for each machine the one number that divides its predictions: that which leaves the least largest error.

    Args:
        chosen: the runs; those that are set aside have no say.
    """
    ratios: dict[str, list[float]] = {}
    for run in chosen:
        if not run.aside:
            ratios.setdefault(run.machine, []).append(math.log(predicted(run).estimate / run.seconds))
    return {name: math.exp((min(logs) + max(logs)) / 2) for name, logs in ratios.items()}


# Telling


def errors(chosen: Sequence[Run]) -> dict[Run, float]:
    """Returns by how much each prediction is off, after the one number of its machine: 0.1 is 10% too long."""
    scale = efficiencies(chosen)
    return {run: predicted(run).estimate / scale[run.machine] / run.seconds - 1 for run in chosen}


def table(chosen: Sequence[Run]) -> str:
    """Returns measured and predicted steps as tables in Markdown."""
    scale, off = efficiencies(chosen), errors(chosen)
    lines = []
    for name, share in scale.items():
        mine = [run for run in chosen if run.machine == name]
        judged = [abs(off[run]) for run in mine if not run.aside]
        lines += [
            f"**{name}**: {_longer(share)}; after that one factor, errors up to {max(judged):.0%}, on average"
            f" {sum(judged) / len(judged):.0%}.",
            "",
            "| model | devices | layout | measured | predicted | off by | source |",
            "| --- | ---: | --- | ---: | ---: | ---: | --- |",
            *(_row(run, off[run]) for run in mine),
            "",
        ]
    asides: dict[str, list[str]] = {}
    for run in chosen:
        if run.aside:
            asides.setdefault(run.aside, []).append(f"{run.model} on {run.devices} {run.machine}")
    notes = [f"\\* Not judged: {why} ({', '.join(names)})." for why, names in asides.items()]
    return "\n".join(lines) + "\n" + "\n\n".join(notes)


def _longer(share: float) -> str:
    """By what factor steps took longer than `plan.time` has it, in words."""
    return f"published steps took {1 / share:.2f} times the predicted time"


def _row(run: Run, off: float) -> str:
    where = " × ".join(f"{name} {size}" for name, size in run.mesh.items())
    where += f", {run.seq:,} tokens" if "context" in run.mesh else ""
    where += ", asynchronous" if run.beside else ""
    mark = " \\*" if run.aside else ""
    return (
        f"| {run.model}{mark} | {run.devices} | {where} | {run.seconds:.3g} s | {run.seconds * (1 + off):.3g} s"
        f" | {off:+.0%} | {run.group.partition(',')[0]} |"
    )


def figure(chosen: Sequence[Run]) -> str:
    """Returns predicted against measured steps, after the one number of each machine, as SVG."""
    scale, off = efficiencies(chosen), errors(chosen)
    judged = [abs(off[run]) for run in chosen if not run.aside]

    def points(name: str, aside: bool) -> list[tuple[float, float]]:
        mine = (run for run in chosen if run.machine == name and bool(run.aside) == aside)
        return [(run.seconds, run.seconds * (1 + off[run])) for run in mine]

    series = [
        Series(name, f"× {1 / share:.2f}", points(name, False), points(name, True)) for name, share in scale.items()
    ]
    mean = sum(judged) / len(judged)
    note = f"predicted times the one factor of its machine; the {len(judged)} judged are off by {mean:.1%} on average"
    axes = ("measured time of a step", "predicted time of a step, times the factor")
    return scatter(series, title="Published steps of training", note=note, axes=axes, text=seconds_text)


def main() -> int:
    """Prints the table, or writes it into the page that is named, and draws the figure beside that."""
    text = table(runs())
    if len(sys.argv) > 1:
        page = pathlib.Path(sys.argv[1])
        SECTION.write(page, text)
        SECTION.draw(page, figure(runs()))
    else:
        print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
