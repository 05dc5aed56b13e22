"""Compiles a plan with each of its steps in a scope of its own, whose name XLA keeps in all that it makes of the step.

    made = numbered(plan)
    made.executable                 runs like the plan's own: the compiled program differs by metadata alone
    made.steps[14]                  what scope `v14` is around (`running/in_scopes.py`)

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
from ..engine.planning.shared_steps import WrittenOut
from ..engine.plans.plan_data import Plan
from ..engine.running import in_turn
from ..engine.running.dispatch import Executable
from ..engine.running.in_scopes import InScopes
from ..engine.running.in_turn import Turned
from ..engine.running.lower import lowered
from ..engine.running.run import abstract_arguments, jax_mesh

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
        number_of: the number of each step, by its identity.
        devices: those of the mesh, in its order.
    """

    executable: Executable
    text: str
    steps: tuple[WrittenOut, ...]
    number_of: Mapping[int, int]
    devices: tuple[Any, ...]


def numbered(plan: Plan) -> Numbered:
    """Compiles a plan so, or returns what was compiled before for the same devices."""
    on = devices(plan.mesh.size, plan.mesh.order)
    known = _known.setdefault(plan, {})
    key = tuple(map(id, on))
    if key not in known:
        known[key] = _compile(plan, on)
    return known[key]


def _compile(plan: Plan, on: Sequence[Any]) -> Numbered:
    mesh, platform = jax_mesh(plan.mesh, on), on[0].platform
    arguments, runs = abstract_arguments(plan, mesh), InScopes(plan, platform)

    def build(turned: Turned) -> Any:
        step = lowered(plan, mesh, runs, turned)

        def profiled(*arrays: Any) -> Any:
            return step(*arrays)

        return jax.jit(profiled, keep_unused=True)

    with _metadata_in_key():
        compiled = in_turn.compiled(build, arguments, compiler_options(platform), platform)
    executable = Executable(plan, compiled, arguments)
    return Numbered(executable, compiled.as_text() or "", runs.steps, runs.number_of, tuple(on))


@contextlib.contextmanager
def _metadata_in_key() -> Iterator[None]:
    before = setting(_IN_KEY)
    jax.config.update(_IN_KEY, True)
    try:
        yield
    finally:
        jax.config.update(_IN_KEY, before)
