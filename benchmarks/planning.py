"""How long tracing, planning and planning again take: for a net of two layers, and for a transformer of 32.

The transformer is a whole training step with AdamW and clipping, its layers scanned under a checkpoint, on shapes
alone. "Re-plan" is what follows a dragged chip: one dim moved to one other axis, from several layouts, each move made
once, so that no plan is found among those already made; "legal moves" is which chips may then go where.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax

import meshlab as ml
from benchmarks.timing import Sample, timed
from meshlab.models import mlp, training, transformer
from meshlab.models.initial import shapes

LAYERS = transformer.Config(
    batch=64, seq=2048, vocab=32768, embed=4096, heads=8, group=4, head=128, ffn=16384, layers=32
)
REPLAN_SECONDS = 0.050
MOVES = 100


@dataclass(frozen=True)
class Subject:
    """What is planned: a step, its arguments, a mesh, and layouts to start from."""

    name: str
    step: Callable[..., Any]
    arguments: tuple[Any, ...]
    mesh: Any
    layouts: tuple[Any, ...]
    promise: float | None = None

    def trace(self) -> Any:
        """Returns a new program, for which nothing has been remembered."""
        return ml.trace(self.step, *self.arguments)


def subjects() -> tuple[Subject, ...]:
    """Returns the two-layer net of the README, and the transformer."""
    optimizer = training.adamw()
    params = shapes(transformer.init, LAYERS)
    state = jax.eval_shape(optimizer.init, params)
    small = mlp.Config()
    return (
        Subject(
            "MLP, 2 layers",
            mlp.step,
            (shapes(mlp.init, small), *mlp.inputs(small)),
            ml.mesh(data=4, model=2),
            (None, "batch:data", "hidden:model"),
        ),
        Subject(
            "transformer, 32 layers, AdamW",
            training.adamw_step(transformer.loss, optimizer),
            (params, state, *transformer.inputs(LAYERS)),
            ml.mesh(data=16, model=4),
            (
                "batch:data",
                "heads:model ffn:model",
                "batch:data heads:model ffn:model vocab:model",
                {"batch": "data", "params/*": {"embed": "data"}, "opt_state/*": {"embed": "data"}},
            ),
            REPLAN_SECONDS,
        ),
    )


def measure(times: int = 5) -> list[Sample]:
    """Returns the samples of all subjects.

    Args:
        times: how often to trace and to plan anew.
    """
    samples = []
    for subject in subjects():
        samples.append(timed(f"{subject.name}: trace", [subject.trace] * times))
        samples.append(timed(f"{subject.name}: plan anew", list(_plans_anew(subject, times))))
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
