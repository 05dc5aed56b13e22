"""How long tracing, planning and planning again take: for a net of two layers, and for transformers of 32 and 126.

The transformers are whole training steps with AdamW and clipping, their layers under a checkpoint, on shapes alone:
scanned, and once as a Python loop, which makes 15,000 operations. "Re-plan" is what follows a dragged chip: one dim
moved to one other axis, from several layouts, each move made once, so that no plan is found among those already made;
"legal moves" is which chips may then go where. How many devices there are must make no difference.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax

import meshlab as ml
from benchmarks.timing import Sample, timed
from meshlab.models.basic import mlp
from meshlab.models.language import llama, transformer
from meshlab.models.parts import training
from meshlab.models.parts.initial import shapes

LAYERS = transformer.Config(
    batch=64, seq=2048, vocab=32768, embed=4096, heads=8, group=4, head=128, ffn=16384, layers=32
)
REPLAN_SECONDS = 0.050
UNROLLED_REPLAN_SECONDS = 0.100
UNROLLED_FIRST_SECONDS = 15.0
MOVES = 100


@dataclass(frozen=True)
class Subject:
    """What is planned: a step, its arguments, a mesh, layouts to start from, and how fast it is to be.

    Attributes:
        promise: seconds of a re-plan.
        first: seconds of tracing and the first plan.
        times: how often it is traced and planned anew.
    """

    name: str
    step: Callable[..., Any]
    arguments: tuple[Any, ...]
    mesh: Any
    layouts: tuple[Any, ...]
    promise: float | None = None
    first: float | None = None
    times: int = 5

    def trace(self) -> Any:
        """Returns a new program, for which nothing has been remembered."""
        return ml.trace(self.step, *self.arguments)

    def plan_first(self) -> Any:
        """Returns the first plan of a new program, its collectives told."""
        plan = self.trace().plan(self.mesh, self.layouts[-1])
        return plan, plan.wire_bytes


def subjects() -> tuple[Subject, ...]:
    """Returns the two-layer net of the README, and the transformers."""
    small = mlp.Config()
    unrolled: dict[str, Any] = {"promise": UNROLLED_REPLAN_SECONDS, "first": UNROLLED_FIRST_SECONDS, "times": 2}
    return (
        Subject(
            "MLP, 2 layers",
            mlp.step,
            (shapes(mlp.init, small), *mlp.inputs(small)),
            ml.mesh(data=4, model=2),
            (None, "batch:data", "hidden:model"),
        ),
        _trained("transformer, 32 layers", transformer, LAYERS, ml.mesh(data=16, model=4)),
        _trained("Llama 3 8B", llama, llama.Config.llama3_8b(), ml.mesh(data=8, model=8)),
        _trained(
            "Llama 3 8B, a loop", llama, llama.Config.llama3_8b(unrolled=True), ml.mesh(data=8, model=8), **unrolled
        ),
        _trained("Llama 3.1 405B", llama, llama.Config.llama3_405b(), ml.mesh(data=8, model=8)),
        _trained(
            "Llama 3.1 405B, 65,536 devices",
            llama,
            llama.Config.llama3_405b(batch=256),
            ml.mesh(data=256, model=64, more=4),
        ),
    )


def _trained(name: str, model: Any, config: Any, mesh: Any, **promised: Any) -> Subject:
    """Returns a training step with AdamW, and layouts as they are in use: data, tensor and fully sharded."""
    optimizer = training.adamw()
    params = shapes(model.init, config)
    arguments = (params, jax.eval_shape(optimizer.init, params), *model.inputs(config))
    layouts = (
        "batch:data",
        "ffn:model",
        "batch:data ffn:model vocab:model",
        {"batch": "data", "params/*": {"embed": "data"}, "opt_state/*": {"embed": "data"}},
    )
    step = training.adamw_step(model.loss, optimizer)
    promises: dict[str, Any] = {"promise": REPLAN_SECONDS} | promised
    return Subject(name, step, arguments, mesh, layouts, **promises)


def measure() -> list[Sample]:
    """Returns the samples of all subjects."""
    samples = []
    for subject in subjects():
        times = subject.times
        samples.append(timed(f"{subject.name}: trace", [subject.trace] * times))
        samples.append(timed(f"{subject.name}: plan anew", list(_plans_anew(subject, times))))
        if subject.first is not None:
            samples.append(timed(f"{subject.name}: trace and plan", [subject.plan_first] * times, subject.first))
        samples += _replans(subject)
    return samples


def _replans(subject: Subject) -> list[Sample]:
    """Returns how long it takes to follow a move, and then to say of every chip where it may go next."""
    program, layouts = _moves(subject)

    def replan(layout):
        return lambda: program.plan(subject.mesh, layout).wire_bytes

    def refuse(layout):
        return lambda: program.refusals(subject.mesh, layout)

    return [
        timed(f"{subject.name}: re-plan", map(replan, layouts), subject.promise),
        timed(f"{subject.name}: legal moves", map(refuse, layouts)),
    ]


def _plans_anew(subject: Subject, times: int) -> Iterator[Callable[[], Any]]:
    """Yields first plans, each of a program of its own."""
    for _ in range(times):
        program = subject.trace()
        layout = subject.layouts[-1]
        yield lambda program=program, layout=layout: program.plan(subject.mesh, layout).wire_bytes


def _moves(subject: Subject) -> tuple[Any, list[Any]]:
    """Returns a program, and layouts that it was not yet planned under: moves, and moves after moves."""
    program, choose = subject.trace(), random.Random(0)
    layouts = [program.plan(subject.mesh, layout).layout for layout in subject.layouts]
    seen = {str(layout) for layout in layouts}
    fresh = []
    while layouts and len(fresh) < MOVES:
        start = layouts.pop(0)
        refusals = program.refusals(subject.mesh, start)
        legal = [(dim, axis) for dim, axes in refusals.items() for axis, refusal in axes.items() if refusal is None]
        after = [start.with_rule(dim, (axis,)) for dim, axis in legal]
        new = [layout for layout in after if not (str(layout) in seen or seen.add(str(layout)))]
        choose.shuffle(new)
        fresh += new
        layouts += new
    return program, fresh[:MOVES]
