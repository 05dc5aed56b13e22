"""Runs plans on the attached devices where there are enough, else on simulated ones.

Arguments come as tensors, NumPy or JAX arrays; they are placed as the plan stores them, and the results come back in
the function's own tree. The executable is stored with the plan, so a training loop compiles once, and checks once what
its steps pass on (`dispatch.py`).
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import Mesh as JaxMesh

from ..argument_checks import flag
from ..devices import compiler_options, devices, quick_options
from ..errors import RunError, closest, shown, some
from ..plans.plan_data import Plan
from ..programs.program import Argument, Program
from ..specs.mesh import Mesh
from ..tensors.dtypes import beyond
from ..tensors.named_arrays import NamedArray
from ..tensors.tensor import Tensor
from ..tensors.trees import is_tensor, placed_leaves
from . import in_turn
from .dispatch import Executable, placed
from .in_turn import Turned
from .lower import lowered, partition_spec
from .padding import cut, grown, stored_shape

# How many differences are listed.
_MOST = 8
_NUMBERS = bool | int | float | complex
_executables: weakref.WeakKeyDictionary[Plan, dict[tuple, Executable]] = weakref.WeakKeyDictionary()


def mesh_axes(mesh: Mesh) -> tuple[tuple[str, int], ...]:
    """Returns a mesh's axes of devices and their sizes, major first; one of size 1 where there are none."""
    return tuple(mesh.devices.axes.items()) or (("device", 1),)


def jax_mesh(mesh: Mesh, on: Sequence[Any]) -> JaxMesh:
    names, sizes = zip(*mesh_axes(mesh), strict=True)
    return JaxMesh(np.array(on).reshape(sizes), names, axis_types=(AxisType.Auto,) * len(names))


def abstract_mesh(mesh: Mesh) -> AbstractMesh:
    names, sizes = zip(*mesh_axes(mesh), strict=True)
    return AbstractMesh(sizes, names, axis_types=(AxisType.Auto,) * len(names))


def compiled(plan: Plan, donate: bool = False, quick: bool = False) -> jax.stages.Compiled:
    """Compiles a plan, or returns what JAX compiled before for the same devices; `quick`, to run it once or twice."""
    return _executable(plan, donate, quick).compiled


def _executable(plan: Plan, donate: bool, quick: bool = False) -> Executable:
    on = devices(plan.mesh.size, plan.mesh.order)
    known = _executables.setdefault(plan, {})
    key = (donate, quick, *map(id, on))
    if key not in known:
        known[key] = _compile(plan, on, donate, quick)
    return known[key]


def _compile(plan: Plan, on: Sequence[Any], donate: bool, quick: bool) -> Executable:
    mesh = jax_mesh(plan.mesh, on)
    arguments = abstract_arguments(plan, mesh)
    options = compiler_options(on[0].platform) | (quick_options(on[0].platform) if quick else {})

    def build(turned: Turned) -> Any:
        step = lowered(plan, mesh, turned=turned, platform=on[0].platform)
        return jax.jit(step, donate_argnums=donated(plan) if donate else (), keep_unused=True)

    return Executable(plan, in_turn.compiled(build, arguments, options, on[0].platform), arguments)


def donated(plan: Plan) -> tuple[int, ...]:
    """Returns which of the flat arguments the next call gets anew, so that they may be overwritten."""
    carried = {c.parameter for c in plan.program.carries}
    return tuple(i for i, a in enumerate(plan.program.arguments) if a.parameter in carried)


def abstract_arguments(plan: Plan, mesh: Any) -> list[jax.ShapeDtypeStruct]:
    """Returns the flat arguments as the plan stores them on a mesh, which may be one without devices."""
    return [
        jax.ShapeDtypeStruct(
            stored_shape(plan, a.value, plan.argument_specs[a.value]),
            plan.program.code.dtypes[a.value],
            sharding=NamedSharding(mesh, partition_spec(plan.argument_specs[a.value])),
        )
        for a in plan.program.arguments
    ]


def run(plan: Plan, args: Sequence[Any], donate: bool, quick: bool = False) -> Any:
    """Runs a plan; see `Plan.run`. What is compiled `quick` runs slowly."""
    donate = flag("run()", "donate", donate, RunError)
    executable = _executable(plan, donate, quick)
    args = tuple(args)
    arrays = executable.known(args)
    others = () if arrays is None else executable.elsewhere(arrays)
    if arrays is None or any(isinstance(arrays[position], Tracer) for position in others):
        arrays = flat_arguments(plan, args)
        placed = executable.placed(arrays, range(len(arrays)))
        executable.remember(args, placed)
    else:
        arrays = _fitting(plan.program, arrays, others)
        placed = executable.placed(arrays, others)
    if donate:
        _refuse_shared(plan, arrays, placed)
    return executable(placed)


def stored(plan: Plan, place: str, array: Any) -> jax.Array:
    """Returns an array as the plan's devices store it at a place, padding included; moves none that is stored so."""
    mesh = jax_mesh(plan.mesh, devices(plan.mesh.size, plan.mesh.order))
    spec = plan.spec(place)
    shape = stored_shape(plan, plan.program.place(place).number, spec)
    return placed(grown(array, shape, spec, plan.grid), NamedSharding(mesh, partition_spec(spec)))


def _refuse_shared(plan: Plan, arrays: Sequence[Any], placed: Sequence[Any]):
    """Refuses to give up the memory of an array that is another argument too: XLA ends the process then.

    `placed` are the arrays as the plan stores them: those that had to be moved are copies, and share nothing.
    """
    if len(set(map(id, arrays))) == len(arrays):
        return
    holders: dict[int, list[int]] = {}
    for position, array in enumerate(arrays):
        if isinstance(array, jax.Array):
            holders.setdefault(id(array), []).append(position)
    given_up, problems = frozenset(donated(plan)), []
    for positions in holders.values():
        shared = [i for i in positions if placed[i] is arrays[i]] if len(positions) > 1 else []
        if len(shared) > 1 and not given_up.isdisjoint(shared):
            *most, last = (plan.program.arguments[i].place for i in shared)
            twice = "twice" if given_up.issuperset(shared) else "where it is read as well"
            problems.append(
                f"{some(most, _MOST)} and `{last}` are the same array, whose memory cannot be donated {twice}"
            )
    if problems:
        raise RunError(f"{'; '.join(problems)}: copy one (jnp.copy) or run without donate=True.")


def output_tree(plan: Plan, arrays: Sequence[Any]) -> Any:
    """Returns the function's own output tree around flat results, without padding."""
    shapes = (plan.program.code.shape_of(value) for value in plan.program.code.block.outputs)
    arrays = [cut(*each, plan.grid) for each in zip(arrays, shapes, plan.output_specs, strict=True)]
    return jax.tree.unflatten(jax.tree.structure(plan.program.out_shapes), arrays)


def flat_arguments(plan: Plan, args: Sequence[Any], given_to: str = "run()") -> list[Any]:
    """Returns the arrays of the arguments, in the program's order.

    Refuses trees, dims, shapes or dtypes that are not those that were traced; `given_to` is the method that was called
    with them, for errors.
    """
    program = plan.program
    _refuse_tracers(program, args)
    leaves, structure = jax.tree.flatten(tuple(args), is_leaf=is_tensor)
    if structure != program.structure:
        difference = _difference(program, args, structure)
        raise RunError(f"{difference} Give {given_to} the same arguments as ml.trace().")
    return _fitting(program, leaves, range(len(leaves)))


def _fitting(program: Program, leaves: Sequence[Any], positions: Iterable[int]) -> list[Any]:
    """Returns leaves, at some positions the arrays that they hold; refuses all that do not fit there."""
    arrays, problems = list(leaves), []
    for position in positions:
        template = program.templates[position]
        arrays[position], problem = _array(leaves[position], program, program.arguments[position], template)
        problems += [problem] if problem else []
    if problems:
        more = f"; and {len(problems) - _MOST} more" if len(problems) > _MOST else ""
        raise RunError(
            f"These arguments do not fit the plan: {'; '.join(problems[:_MOST])}{more}. Give arrays like the"
            " traced ones, or trace and plan the program for these."
        )
    return arrays


def argument_array(plan: Plan, place: str, value: Any) -> Any:
    """Returns the array of one argument, of a parameter's value that was run before; its memory may be gone."""
    program = plan.program
    position = next(i for i, argument in enumerate(program.arguments) if argument.place == place)
    argument = program.arguments[position]
    first = next(i for i, other in enumerate(program.arguments) if other.parameter == argument.parameter)
    leaf = jax.tree.leaves(value, is_leaf=is_tensor)[position - first]
    return _array(leaf, program, argument, program.templates[position])[0]


def misfits(program: Program, values: Mapping[str, Any]) -> list[str]:
    """Lists the problems of values of some of a program's parameters, by name; no data is moved."""
    problems = []
    for name, wanted in zip(program.parameters, program.structure.children(), strict=True):
        if name not in values:
            continue
        given = [place for place, _ in placed_leaves(name, values[name])]
        leaves, structure = jax.tree.flatten(values[name], is_leaf=is_tensor)
        arguments = [
            pair for pair in zip(program.arguments, program.templates, strict=True) if pair[0].parameter == name
        ]
        if structure != wanted:
            difference = _other_places(given, [argument.place for argument, _ in arguments], wanted, structure)
            problems.append(f"the program {difference.removesuffix('.')}")
            continue
        texts = (_misfit(_unnamed(leaf), leaf, program, *pair) for leaf, pair in zip(leaves, arguments, strict=True))
        problems += [problem for problem in texts if problem]
    return problems


def _refuse_tracers(program: Program, args: Sequence[Any]):
    names = (*program.parameters, *(f"arg{i}" for i in range(len(program.parameters), len(args))))
    placed = (leaf for name, arg in zip(names, args, strict=False) for leaf in placed_leaves(name, arg))
    traced = [place for place, leaf in placed if isinstance(_unwrap(leaf), Tracer)]
    if traced:
        raise RunError(
            f"The plan was called under jax.jit, jax.grad or another transform: {some(traced, _MOST)} "
            f"{'is' if len(traced) == 1 else 'are'} traced. A plan is already compiled: call it outside, and pass"
            " the function with jit and grad to ml.trace."
        )


def _difference(program: Program, args: Sequence[Any], structure: Any) -> str:
    """Describes the difference of two trees: what is missing, and what is too much."""
    wanted = program.parameters
    if len(args) != len(wanted):
        return f"The plan takes {len(wanted)} arguments ({', '.join(wanted)}) and was given {len(args)}."
    given = [place for name, arg in zip(wanted, args, strict=True) for place, _ in placed_leaves(name, arg)]
    expected = [a.place for a in program.arguments]
    return f"The plan {_other_places(given, expected, program.structure, structure)}"


def _other_places(given: Sequence[str], expected: Sequence[str], wanted: Any, structure: Any) -> str:
    """Describes the difference of places: missing ones and others, or how their trees differ."""
    missing, extra = [p for p in expected if p not in given], [p for p in given if p not in expected]
    if not missing and not extra:
        return f"{_other_trees(wanted, structure)}."
    said = [f"is missing {some(missing, _MOST)}"] if missing else []
    said += [f"does not know {some(extra, _MOST)}"] if extra else []
    lists = [place for place in missing if f"{place}/0" in given or f"{place}/0/0" in given]
    fix = f" {some(lists)} came as lists: give arrays, np.asarray(...)." if lists else ""
    near = closest(extra[0], missing) if len(missing) == len(extra) == 1 and not lists else ""
    return f"{' and '.join(said)}.{fix}{near}"


def _other_trees(wanted: Any, given: Any) -> str:
    """Describes the difference of trees with the same places: the type of a node, or its static data."""
    pair = _apart(wanted, given)
    (kind, _), (other, _) = pair or ((None, None), (None, None))
    if pair is None or kind is not other:
        types = f": `{kind.__name__}` was traced, but `{other.__name__}` was given" if kind and other else ""
        return f"has the right arrays, but in trees of different types{types}"
    return (
        f"has the right arrays, but the static data of a `{kind.__name__}` differ from the traced ones: an"
        " attribute that is not an array was changed (by model.eval(), say). Trace the function again for them, or"
        " change it back"
    )


def _apart(wanted: Any, given: Any) -> tuple[Any, Any] | None:
    """Returns the first two nodes of two trees that differ in themselves: their types and static data."""
    mine, other = wanted.node_data(), given.node_data()
    if mine != other or mine is None:
        return None if mine == other else (mine or (None, None), other or (None, None))
    pairs = zip(wanted.children(), given.children(), strict=False)
    return next((nodes for one, two in pairs if (nodes := _apart(one, two)) is not None), None)


@functools.singledispatch
def _unwrap(leaf: Any) -> Any:
    return leaf


@_unwrap.register
def _(leaf: Tensor | NamedArray) -> Any:
    return leaf.array


def _array(leaf: Any, program: Program, argument: Argument, template: Any) -> tuple[Any, str | None]:
    """Returns the array of a leaf, and its problem if it has one."""
    array, dtype = _unnamed(leaf), program.code.dtypes[argument.value]
    problem = _misfit(array, leaf, program, argument, template)
    return (array if problem or array.dtype == dtype else array.astype(dtype)), problem


def _unnamed(leaf: Any) -> Any:
    """Returns the array of a leaf; one of a number too."""
    array: Any = _unwrap(leaf)
    return np.asarray(array) if isinstance(array, _NUMBERS) else array


def _misfit(array: Any, leaf: Any, program: Program, argument: Argument, template: Any) -> str | None:
    """Describes the problem of a leaf's array, if it has one."""
    place: str = argument.place
    shape, dtype = program.code.shapes[argument.value], program.code.dtypes[argument.value]
    traced = f"where an array of {dtype} and shape {shape} was traced"
    if not hasattr(array, "dtype"):
        return f"`{place}` is {shown(array)} ({type(array).__name__}), {traced}"
    if isinstance(array, jax.ShapeDtypeStruct):
        return f"`{place}` is abstract; running needs data"
    if isinstance(array, np.ma.MaskedArray):
        return f"`{place}` is a masked array, which JAX does not support: give array.filled(value)"
    if isinstance(array, jax.Array) and array.is_deleted():
        return f"`{place}` is deleted: an earlier call took its memory (donate=True). Pass the array that it returned"
    if problem := _other_dims(leaf, program, argument, template):
        return problem
    if array.dtype != dtype and _is_key(dtype) and not _is_key(array.dtype):
        return f"`{place}` is {shown(array)}, not a typed key: give {_key_of(shape)}"
    if tuple(array.shape) != shape:
        return f"`{place}` has shape {tuple(array.shape)}, where {shape} was traced"
    if array.dtype != dtype:
        if isinstance(array, np.ndarray) and _casts(array.dtype, dtype, isinstance(_unwrap(leaf), _NUMBERS)):
            lost = beyond(array, dtype)
            return None if lost is None else f"`{place}` holds {lost:,}, which {dtype} cannot hold"
        return f"`{place}` has dtype {array.dtype}, where {dtype} was traced"
    return None


def _casts(given: Any, dtype: Any, is_number: bool) -> bool:
    """Says whether numbers of a host become those of a dtype as JAX's own do: keys and texts never do.

    Arrays change their width alone, of 64 bits to 32: integers stay integers. A Python number takes what dtype it can.
    """
    if jnp.issubdtype(dtype, jax.dtypes.extended) or given.kind not in "biufcV":
        return False
    alike = any(
        jnp.issubdtype(given, kind) and jnp.issubdtype(dtype, kind)
        for kind in (jnp.integer, jnp.floating, jnp.complexfloating)
    )
    return (is_number or alike) and np.can_cast(given, np.dtype(dtype), "same_kind")


def _is_key(dtype: Any) -> bool:
    return jnp.issubdtype(dtype, jax.dtypes.prng_key)


def _key_of(shape: tuple[int, ...]) -> str:
    """Writes keys of a shape."""
    return f"jax.random.split(jax.random.key(0), {shape})" if shape else "jax.random.key(0)"


def _other_dims(leaf: Any, program: Program, argument: Argument, template: Any) -> str | None:
    """Describes the problem of a named leaf's dims: they must be those that were traced, or were renamed to."""
    wanted = program.names[argument.value]
    given = leaf.names if isinstance(leaf, NamedArray) else tuple(d.name for d in getattr(leaf, "dims", ()))
    before = tuple(d.name for d in template.dims) if isinstance(template, Tensor) else ()
    given = tuple(str(name) if name else None for name in given)
    if not isinstance(leaf, Tensor | NamedArray) or len(given) != len(wanted) or given == before:
        return None
    pairs = zip(given, wanted, strict=True)
    if all(not one or one == other or other not in program.dims for one, other in pairs):
        return None
    actual, expected = (" ".join(name or "_" for name in names) for names in (given, wanted))
    return f"`{argument.place}` has the dims {actual}, where {expected} were traced"
