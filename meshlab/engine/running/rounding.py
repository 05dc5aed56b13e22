"""How far rounding moves what a function computes: its arguments are changed by a rounding error each.

    changed = nudged(plan, args, seed=0)             # each float a little larger or smaller, by up to its last bit

A result that goes far by it says little of whoever computes it otherwise, in another order of additions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from ..plans.plan_data import Plan
from ..programs.program import Program
from ..typed_keys import is_key
from .run import flat_arguments

# How many times further than the unsharded function goes by rounding its arguments a plan's results may be off.
ROUNDING = 8
# How often the arguments are changed.
NUDGES = 3
# Where rounding allows for more than this share of an output's root mean square, a wrong plan could pass.
VAGUE = 0.25


def nudged(plan: Plan, args: Sequence[Any], seed: int) -> Any:
    """Changes each float or complex argument by up to one rounding error of the program's narrowest float."""
    step = 2.0 ** -{1: 3, 2: 8, 4: 23, 8: 52}[narrowest(plan.program)]
    random = np.random.default_rng(seed)

    def changed(array: Any) -> Any:
        if is_key(array) or not jax.numpy.issubdtype(array.dtype, jax.numpy.inexact):
            return array
        change = 1 + step * random.uniform(-1, 1, array.shape)
        wide = np.complex128 if np.iscomplexobj(array) else np.float64
        return (np.asarray(array).astype(wide) * change).astype(array.dtype)

    return jax.tree.unflatten(
        plan.program.structure, as_traced(plan.program, list(map(changed, flat_arguments(plan, args))))
    )


def as_traced(program: Program, arrays: Sequence[Any]) -> list[Any]:
    """Returns the arguments' leaves as they were traced: tensors around arrays where the function takes tensors."""
    return [
        jax.tree.unflatten(jax.tree.structure(template), [array])
        for template, array in zip(program.templates, arrays, strict=True)
    ]


def narrowest(program: Program) -> int:
    """Returns the bytes of a program's narrowest float; of complex numbers, of their parts."""
    floats = [d for d in program.code.dtypes if jax.numpy.issubdtype(d, jax.numpy.inexact)]
    return min((max(1, jax.numpy.finfo(d).bits // 8) for d in floats), default=4)
