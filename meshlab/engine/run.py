"""Running plans: on the attached devices where there are enough, else on simulated ones.

Arguments come as tensors, NumPy or JAX arrays; they are laid out as the plan stores them, and the results come back in
the function's own tree. A compiled plan is kept with the plan, so a training loop compiles once.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.sharding import NamedSharding

from .devices import compiler_options, devices
from .errors import RunError, some
from .lower import lowered, partition_spec
from .named import NamedArray
from .padding import cut, grown, stored_shape
from .tensor import Tensor
from .trees import is_tensor, placed_leaves

if TYPE_CHECKING:
    from .plan import Plan
    from .program import Program

# How many differences are listed.
_MOST = 8
_compiled: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def jax_mesh(plan: Plan, on: Sequence[Any]) -> jax.sharding.Mesh:
    """The plan's mesh over real devices."""
    axes = plan.mesh.shape or (("device", 1),)
    return jax.sharding.Mesh(
        np.array(on).reshape(tuple(s for _, s in axes)),
        tuple(n for n, _ in axes),
        axis_types=(jax.sharding.AxisType.Auto,) * len(axes),
    )


def compiled(plan: Plan, donate: bool = False) -> Any:
    """Compiles a plan, or returns what was compiled before for the same devices."""
    on = devices(plan.mesh.size)
    known = _compiled.setdefault(plan, {})
    key = (donate, tuple(id(d) for d in on))
    if key not in known:
        known[key] = _compile(plan, on, donate)
    return known[key]


def _compile(plan: Plan, on: Sequence[Any], donate: bool) -> Any:
    mesh = jax_mesh(plan, on)
    function = jax.jit(lowered(plan, mesh), donate_argnums=donated(plan) if donate else (), keep_unused=True)
    return function.lower(*abstract_arguments(plan, mesh)).compile(compiler_options=compiler_options(on))


def donated(plan: Plan) -> tuple[int, ...]:
    """Which of the flat arguments the next call gets anew, and may be overwritten."""
    carried = {c.parameter for c in plan.program.carries}
    return tuple(i for i, a in enumerate(plan.program.arguments) if a.parameter in carried)


def abstract_arguments(plan: Plan, mesh: Any) -> list[jax.ShapeDtypeStruct]:
    """The flat arguments as the plan stores them on a mesh, which may be one without devices."""
    return [
        jax.ShapeDtypeStruct(
            stored_shape(plan, a.value, plan.argument_specs[a.value]),
            plan.program.code.dtypes[a.value],
            sharding=NamedSharding(mesh, partition_spec(plan.argument_specs[a.value])),
        )
        for a in plan.program.arguments
    ]


def run(plan: Plan, args: Sequence[Any], donate: bool) -> Any:
    """Runs a plan; see `Plan.run`."""
    arrays = flat_arguments(plan, args)
    executable = compiled(plan, donate)
    mesh = jax_mesh(plan, devices(plan.mesh.size))
    placed = [
        jax.device_put(
            grown(array, stored_shape(plan, a.value, plan.argument_specs[a.value])),
            NamedSharding(mesh, partition_spec(plan.argument_specs[a.value])),
        )
        for array, a in zip(arrays, plan.program.arguments, strict=True)
    ]
    return output_tree(plan, executable(*placed))


def output_tree(plan: Plan, arrays: Sequence[Any]) -> Any:
    """The function's own output tree around flat results, rid of padding."""
    shapes = (plan.program.code.shape_of(value) for value in plan.program.code.block.outputs)
    arrays = list(map(cut, arrays, shapes))
    return jax.tree.unflatten(jax.tree.structure(plan.program.out_shapes), arrays)


def flat_arguments(plan: Plan, args: Sequence[Any]) -> list[Any]:
    """The arrays of the arguments, in the program's order.

    Raises:
        RunError: the trees, shapes or dtypes are not those that were traced; the differences are listed.
    """
    program = plan.program
    leaves, structure = jax.tree.flatten(tuple(args), is_leaf=is_tensor)
    if structure != program.structure:
        told = _difference(program, args, structure)
        raise RunError(f"{told} Give run() the same arguments as ml.trace().")
    arrays, problems = [], []
    for leaf, argument in zip(leaves, program.arguments, strict=True):
        array, problem = _array(leaf, program, argument)
        arrays.append(array)
        problems += [problem] if problem else []
    if problems:
        more = f"; and {len(problems) - _MOST} more" if len(problems) > _MOST else ""
        raise RunError(f"These arguments do not fit the plan: {'; '.join(problems[:_MOST])}{more}.")
    return arrays


def _difference(program: Program, args: Sequence[Any], structure: Any) -> str:
    """What is missing, and what is too much, where trees differ."""
    wanted = program.parameters
    if len(args) != len(wanted):
        return f"The plan takes {len(wanted)} arguments ({', '.join(wanted)}) and was given {len(args)}."
    given = [place for name, arg in zip(wanted, args, strict=True) for place, _ in placed_leaves(name, arg)]
    expected = [a.place for a in program.arguments]
    missing, extra = [p for p in expected if p not in given], [p for p in given if p not in expected]
    said = [f"is missing {some(missing, _MOST)}" if missing else "", f"does not know {some(extra, _MOST)}"]
    told = " and ".join(said if extra else said[:1]) if missing or extra else _other_trees(program.structure, structure)
    return f"The plan {told}."


def _other_trees(wanted: Any, given: Any) -> str:
    """How trees differ that have the same places: in the type of a node, or in what it holds beside its leaves."""
    pair = _apart(wanted, given)
    (kind, _), (other, _) = pair or ((None, None), (None, None))
    if pair is None or kind is not other:
        told = f": `{kind.__name__}` was traced, and `{other.__name__}` is given" if kind and other else ""
        return f"has the right arrays, but in trees of other types{told}"
    return (
        f"has the right arrays, but the static data of a `{kind.__name__}` differ from those that were traced: an"
        " attribute that is no array was changed (by model.eval(), say). Trace the function anew for them, or change it"
        " back"
    )


def _apart(wanted: Any, given: Any) -> tuple[Any, Any] | None:
    """The first two nodes of two trees that differ in themselves: their types and static data."""
    mine, other = wanted.node_data(), given.node_data()
    if mine != other or mine is None:
        return None if mine == other else (mine or (None, None), other or (None, None))
    pairs = zip(wanted.children(), given.children(), strict=False)
    return next((found for one, two in pairs if (found := _apart(one, two)) is not None), None)


@functools.singledispatch
def _unwrap(leaf: Any) -> Any:
    return leaf


@_unwrap.register
def _(leaf: Tensor | NamedArray) -> Any:
    return leaf.array


def _array(leaf: Any, program: Any, argument: Any) -> tuple[Any, str | None]:
    array = _unwrap(leaf)
    shape, dtype = program.code.shapes[argument.value], program.code.dtypes[argument.value]
    if not hasattr(array, "dtype"):
        array = np.asarray(array, dtype)
    if isinstance(array, jax.ShapeDtypeStruct):
        return array, f"`{argument.place}` is abstract; running needs data"
    names = program.names[argument.value]
    if isinstance(leaf, Tensor) and array.ndim == len(names):
        given = tuple(d.name for d in leaf.dims)
        expected = tuple(n for n in names if n)
        if len(given) == len(names) and given != names and sorted(given) == sorted(expected):
            return array, f"`{argument.place}` has the dims {' '.join(given)}, where {' '.join(expected)} were traced"
    if tuple(array.shape) != shape:
        return array, f"`{argument.place}` has shape {tuple(array.shape)}, where {shape} was traced"
    if array.dtype != dtype:
        if isinstance(array, np.ndarray) and np.can_cast(array.dtype, np.dtype(dtype), "same_kind"):
            return array.astype(dtype), None
        return array, f"`{argument.place}` has dtype {array.dtype}, where {dtype} was traced"
    return array, None
