"""What every step answers: who walks through steps knows a kind that is added."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import pytest

import meshlab as ml
from meshlab.engine.planning.dead_moves import prune
from meshlab.engine.planning.shared_steps import counted, counted_only
from meshlab.engine.planning.step import Inner, Step, only, unfolded
from meshlab.engine.planning.step_keys import Key, Originals, keys
from meshlab.engine.planning.steps import Iterated, Move, Nested
from meshlab.models import zoo

Batch, Hidden, Out = ml.dims(batch=8, hidden=16, out=4)


@dataclasses.dataclass(frozen=True)
class Ticks(Step):
    """A kind that the package does not know: its steps run three times, and return what the last run makes."""

    steps: tuple[Step, ...]
    returned: Key

    @property
    def parts(self) -> tuple[Inner, ...]:
        value, spec = self.returned
        return (Inner(self.steps, 3, returned=((value,), (spec,))),)

    def with_parts(self, steps: Iterable[Sequence[Step]]) -> Ticks:
        (within,) = steps
        return dataclasses.replace(self, steps=tuple(within))

    def made(self):
        value, spec = self.returned
        return (value,), (spec,)


@pytest.fixture(scope="module")
def plan() -> ml.Plan:
    def fn(x, w):
        return ml.exp(ml.dot(x, w, Hidden))

    return ml.trace(fn, ml.f32[Batch, Hidden], ml.f32[Hidden, Out]).plan(ml.mesh(x=2), "hidden:x")


def made_last(plan: ml.Plan) -> Key:
    ((value,), (spec,)) = plan.steps[-1].made()
    return value, spec


def test_a_step_that_is_added_is_read_counted_and_pruned(plan: ml.Plan) -> None:
    originals = plan.program.original_of
    wrapped = Ticks(plan.steps, made_last(plan))
    arguments = {(argument.value, plan.argument_specs[argument.value]) for argument in plan.program.arguments}
    assert set(wrapped.reads(originals)) == arguments
    assert wrapped.makes(originals) == (made_last(plan),)
    assert [times for _, times in counted([wrapped])] == [1, *(3 for _ in plan.steps)]
    assert set(wrapped.specs()) >= {spec for step in plan.steps for spec in step.specs()}
    (reduce,) = only(Move, plan.steps)
    dead = dataclasses.replace(reduce, via=reduce.via._replace(result=reduce.start))
    (left,) = prune([Ticks((*plan.steps, dead), made_last(plan))], [made_last(plan)], originals)
    assert left == wrapped
    assert unfolded([wrapped]) == (wrapped,)


@pytest.mark.parametrize("model", ["transformer", "t5_adafactor", "llama_adamw"])
def test_keys_of_a_step_are_those_of_what_it_runs(model: str) -> None:
    """What the blocks read of themselves is not among them; what they read from around them is."""
    program = next(each for each in zoo.models() if each.name.startswith(model)).trace()
    plan = program.plan(ml.mesh(x=2), "batch:x" if "batch" in program.dims else None)
    originals, nested = program.original_of, [s for s in plan.steps if isinstance(s, Nested | Iterated)]
    assert nested
    for step in nested:
        inside = known_inside(step, originals)
        assert inside
        assert inside.isdisjoint(step.reads(originals))
        assert {key for each in keys_read(step, originals) for key in each} - inside == set(step.reads(originals))


def known_inside(step: Step, originals: Originals) -> set[Key]:
    """What is given to a step's blocks, and made in them."""
    given = {key for part in step.parts for key in keys(*part.given, originals)}
    return given.union(*(each.makes(originals) for part in step.parts for each in part.steps))


def keys_read(step: Step, originals: Originals) -> Iterable[tuple[Key, ...]]:
    """What a step reads itself, what those in it read, and what they return."""
    yield keys(*step.read(), originals)
    for part in step.parts:
        yield from (each.reads(originals) for each in part.steps)
        yield keys(*part.returned, originals)


def test_of_one_kind_are_counted_what_repetitions_share_too() -> None:
    program = next(each for each in zoo.models() if each.name == "llama_unrolled_adamw").trace()
    plan = program.plan(ml.mesh(data=2), "batch:data")
    sums = sum(times for _, times in counted_only(Move, plan.planned.steps))
    assert sums == len(list(only(Move, plan.steps))) > 4


def test_a_step_that_cannot_stand_in_a_repetition_says_so(plan: ml.Plan) -> None:
    with pytest.raises(AssertionError, match="no Ticks is in a repetition"):
        Ticks(plan.steps, made_last(plan)).renumbered(None)  # type: ignore[arg-type]
