"""Compiles a plan with each of its steps in a scope of its own, whose name XLA keeps in all that it makes of the step.

    made = numbered(plan)
    made.executable                 runs like the plan's own: the compiled program differs by metadata alone
    made.steps[14]                  what scope `v14` is around (`jax_programs.numbers_in` reads it)

JAX's cache of compiled programs takes two that differ by metadata alone for one, and would give back the plan's own,
without scopes: for this program metadata are part of its key.
"""

from __future__ import annotations

import contextlib
import dataclasses
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax

from ..engine.devices import compiler_options, devices
from ..engine.jax_compat import setting
from ..engine.planning.shared_steps import WrittenOut, written_out
from ..engine.planning.step import Step
from ..engine.plans.plan_data import Plan
from ..engine.programs.program import Program
from ..engine.running.dispatch import Executable
from ..engine.running.lower import Lowering, Shards, lowered
from ..engine.running.run import abstract_arguments, jax_mesh
from ..engine.specs.spec import Grid

# What HLO calls the program: no other one of this process, the plan's own neither.
MODULE = "jit_profiled"
_IN_KEY = "jax_compilation_cache_include_metadata_in_key"

_known: weakref.WeakKeyDictionary[Plan, dict[tuple[int, ...], Numbered]] = weakref.WeakKeyDictionary()


@dataclasses.dataclass(frozen=True)
class Numbered:
    """A compiled plan whose steps have numbers.

    Attributes:
        executable: what runs.
        text: the compiled program.
        steps: by number.
        number_of: the number of each step, by its identity; what a pipeline computes again in another piece has that
            of its first time.
        devices: those of the mesh, in its order.
    """

    executable: Executable
    text: str
    steps: tuple[WrittenOut, ...]
    number_of: Mapping[int, int]
    devices: tuple[Any, ...]


class InScopes(Lowering):
    """Runs each step in a scope of its number."""

    def __init__(self, program: Program, sizes: Grid, numbers: Mapping[int, int]):
        super().__init__(program, sizes)
        self.numbers = numbers

    def run(self, steps: Sequence[Step], shards: Shards):
        for step in steps:
            with jax.named_scope(f"v{self.numbers[id(step)]}"):
                super().run((step,), shards)


def numbered(plan: Plan) -> Numbered:
    """Compiles a plan so, or returns what was compiled before for the same devices."""
    on = devices(plan.mesh.size, plan.mesh.order)
    known = _known.setdefault(plan, {})
    key = tuple(map(id, on))
    if key not in known:
        known[key] = _compile(plan, on)
    return known[key]


def _compile(plan: Plan, on: Sequence[Any]) -> Numbered:
    steps = tuple(written_out(plan.planned.steps, plan.steps))
    numbers: dict[int, int] = {}
    for number, each in enumerate(steps):
        numbers.setdefault(id(each.step), number)
    mesh = jax_mesh(plan.mesh, on)
    step = lowered(plan, mesh, InScopes(plan.program, plan.grid, numbers))

    def profiled(*arrays: Any) -> Any:
        return step(*arrays)

    function = jax.jit(profiled, keep_unused=True)
    arguments = abstract_arguments(plan, mesh)
    with _metadata_in_key():
        compiled = function.lower(*arguments).compile(compiler_options=compiler_options(on[0].platform))
    return Numbered(Executable(plan, compiled, arguments), compiled.as_text() or "", steps, numbers, tuple(on))


@contextlib.contextmanager
def _metadata_in_key() -> Iterator[None]:
    before = setting(_IN_KEY)
    jax.config.update(_IN_KEY, True)
    try:
        yield
    finally:
        jax.config.update(_IN_KEY, before)
