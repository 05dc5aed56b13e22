"""Takes the user's function as `jax.jit` compiles it: its jaxpr, where each argument and result lies, and the mesh.

    jitted = taken(step, (params, x), mesh=None)
    jitted.closed           the jaxpr inside `jit`, one equation for each operation of the user's
    jitted.arguments        ("params/w1", "params/w2", "x")
    jitted.inputs           the sharding of each: from `in_shardings`, else of the array that was given, else None

A function without `jax.jit` is taken as if it had one, without shardings of its own. Of its arguments Python's numbers
are traced as `jit` does, unless they are static; what else is no array (names, configurations) is bound as it is.
"""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import AbstractMesh, Mesh, NamedSharding

from ..engine.argument_checks import function
from ..engine.devices import devices
from ..engine.errors import MeshlabError, listed, shown
from ..engine.jax_compat import opened
from ..engine.jax_programs import equations, inside
from ..engine.tensors.trace_errors import called, trace_failure
from .naming.errors import OwnError
from .naming.given import AxisNames, arrays, is_array

_NUMBERS = (bool, int, float, complex)


@dataclasses.dataclass(frozen=True, eq=False)
class Jitted:
    """The user's function, as `jax.jit` compiles it.

    Attributes:
        name: the function's.
        closed: its jaxpr.
        arguments: the place of each array among the arguments.
        named: the names that come with each, of a named tensor or of Flax's metadata; None for most.
        outputs: the place of each result.
        inputs: the sharding of each argument; None where there is none.
        results: the sharding that `out_shardings` asks for of each result; None where it asks for none.
        mesh: the devices.
        tree: of the results.
        leaves: of the arguments as they were given: arrays, numbers, and what else is bound as it is.
        traced: which of them are the arguments of `closed`.
    """

    name: str
    closed: Any
    arguments: tuple[str, ...]
    named: tuple[AxisNames | None, ...]
    outputs: tuple[str, ...]
    inputs: tuple[NamedSharding | None, ...]
    results: tuple[NamedSharding | None, ...]
    mesh: Mesh
    tree: Any
    leaves: tuple[Any, ...]
    traced: tuple[bool, ...]

    @property
    def axes(self) -> dict[str, int]:
        """The sizes of the mesh axes, major first."""
        return dict(self.mesh.shape)

    def arrays_of(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> list[Any]:
        """Returns what is traced of arguments; refuses others than those that were bound."""
        leaves = jax.tree.leaves((tuple(args), dict(keywords)))
        bound = [i for i, traced in enumerate(self.traced) if not traced]
        if len(leaves) != len(self.leaves) or any(leaves[i] != self.leaves[i] for i in bound):
            raise OwnError(
                f"`{self.name}` was explained with other arguments, and contains all that are not arrays: call"
                " ml.explain with these."
            )
        return [leaf for leaf, traced in zip(leaves, self.traced, strict=True) if traced]


class Arguments(NamedTuple):
    """What a function is called with."""

    by_place: tuple[Any, ...]
    by_keyword: dict[str, Any]

    @property
    def in_order(self) -> list[Any]:
        """All, in the order of their leaves."""
        return [*self.by_place, *(self.by_keyword[name] for name in sorted(self.by_keyword))]


def taken(
    fn: Callable, args: Sequence[Any], mesh: Mesh | None = None, keywords: Mapping[str, Any] | None = None
) -> Jitted:
    """Traces a function, which `jax.jit` may have made, as that compiles it.

    Args:
        fn: the function.
        args: its arguments: arrays, or shapes (`jax.ShapeDtypeStruct`), with their shardings or without.
        mesh: the devices, where no sharding names them.
        keywords: further arguments, by their keywords.

    Raises:
        OwnError: the function cannot be traced, or there is no mesh of several devices.
    """
    function("ml.explain", fn, "ml.explain(jax.jit(step, in_shardings=…), params, x)", OwnError)
    given = Arguments(tuple(args), _keywords(keywords))
    traced, closed, results = _with_numbers(fn, given)
    every = [one for name, arg in zip(_names(fn, given), given.in_order, strict=True) for one in arrays(name, arg)]
    taken_in = [one for one, is_traced in zip(every, traced, strict=True) if is_traced]
    inner = inside(closed)
    _refuse(called(fn), inner.closed)
    inputs = tuple(
        asked if isinstance(asked, NamedSharding) else _sharding(one.leaf)
        for asked, one in zip(inner.inputs, taken_in, strict=True)
    )
    asked = (equation.params.get("sharding") for equation in equations(inner.closed))  # of with_sharding_constraint
    shardings = (*inputs, *inner.results, *asked)
    outputs = [one.place for one in arrays("out", results)]
    # What `jit` returns and the function keeps for itself, as `nnx.jit` does.
    outputs += [f"state/{i}" for i in range(len(inner.results) - len(outputs))]
    on = _mesh(mesh, [s for s in shardings if isinstance(s, NamedSharding)])
    wanted = tuple(s if isinstance(s, NamedSharding) else None for s in inner.results)
    places, named = tuple(one.place for one in taken_in), tuple(one.named for one in taken_in)
    tree, leaves = jax.tree.structure(results), tuple(jax.tree.leaves(given))
    return Jitted(
        called(fn), inner.closed, places, named, tuple(outputs), inputs, wanted, on, tree, leaves, tuple(traced)
    )


def _keywords(given: Mapping[str, Any] | None) -> dict[str, Any]:
    if given is not None and not (isinstance(given, Mapping) and all(isinstance(name, str) for name in given)):
        raise OwnError(
            f"ml.explain was given kwargs={shown(given)}; it must be arguments by keyword: {{'mask': mask}}."
        )
    return dict(given or {})


def _with_numbers(fn: Callable, args: Arguments) -> tuple[list[bool], Any, Any]:
    """Traces a function of its arrays, and of Python's numbers as `jit` does, but for those that are static.

    Returns:
        For each leaf of the arguments whether it is traced; the jaxpr, and the tree of the results.
    """
    leaves = jax.tree.leaves(args)
    arrays = [is_array(leaf) for leaf in leaves]
    numbers = [i for i, leaf in enumerate(leaves) if isinstance(leaf, _NUMBERS)]
    every = [array or i in numbers for i, array in enumerate(arrays)]
    with contextlib.suppress(OwnError):
        return every, *_traced(fn, args, every)
    several = [i for i in numbers if len(numbers) > 1 and _traces(fn, args, [*arrays[:i], True, *arrays[i + 1 :]])]
    some = [array or i in several for i, array in enumerate(arrays)]
    return some, *_traced(fn, args, some)


def _traces(fn: Callable, args: Arguments, traced: Sequence[bool]) -> bool:
    with contextlib.suppress(OwnError):
        _traced(fn, args, traced)
        return True
    return False


def _names(fn: Callable, args: Arguments) -> list[str]:
    """The names of arguments, in order."""
    names, rest, count = [], "arg", len(args.by_place)
    with contextlib.suppress(TypeError, ValueError):
        parameters = list(inspect.signature(fn).parameters.values())
        names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        rest = next((p.name for p in parameters if p.kind == p.VAR_POSITIONAL), rest)
    by_place = [*names[:count], *(f"{rest}{i}" for i in range(count - len(names)))]
    return [*by_place, *sorted(args.by_keyword)]


def _sharding(leaf: Any) -> NamedSharding | None:
    sharding = getattr(leaf, "sharding", None)
    return sharding if isinstance(sharding, NamedSharding) else None


def _traced(fn: Callable, args: Arguments, traced: Sequence[bool]) -> tuple[Any, Any]:
    """Returns the jaxpr of a function of some leaves of its arguments, and the tree of the arrays that it returns."""
    leaves, structure = jax.tree.flatten(args)

    def of_arrays(*given: Any) -> Any:
        values = iter(given)
        mixed = [next(values) if is_traced else leaf for leaf, is_traced in zip(leaves, traced, strict=True)]
        by_place, by_keyword = jax.tree.unflatten(structure, mixed)
        results = fn(*by_place, **by_keyword)
        return jax.tree.map(lambda leaf: leaf if is_array(leaf) or isinstance(leaf, _NUMBERS) else None, results)

    arrays = [leaf for leaf, is_traced in zip(leaves, traced, strict=True) if is_traced]
    try:
        return jax.make_jaxpr(of_arrays, return_shape=True)(*arrays)
    except MeshlabError:
        raise
    except Exception as error:
        raise OwnError(trace_failure(called(fn), error, {})) from error


def _refuse(name: str, closed: Any) -> None:
    """Refuses what has no partitioner, or arrays that no argument names."""
    if any(_is_pmap(equation) for equation in equations(closed)):
        raise OwnError(f"`{name}` is under jax.pmap, which does not partition: use jax.jit with shardings.")
    sharded = [array for _, array in opened(closed).constants if _sharding(array) is not None]
    if sharded:
        shapes = listed([f"{array.dtype}{list(array.shape)}" for array in sharded])
        raise OwnError(f"`{name}` closes over sharded arrays, {shapes}: pass them as arguments.")


def _is_pmap(equation: Any) -> bool:
    """Whether an equation is `jax.pmap`, which JAX writes as a `shard_map` over an axis with a name of its own."""
    axes = getattr(equation.params.get("mesh"), "axis_names", ())
    return any("pmap" in str(axis) or str(axis).startswith("<axis") for axis in axes)


def _mesh(given: Mesh | None, shardings: Sequence[NamedSharding]) -> Mesh:
    """Returns the mesh that is given, or that shardings name; refuses none, several, and one device."""
    if given is not None and not isinstance(given, Mesh):
        raise OwnError(
            f"ml.explain was given mesh={shown(given)}; it must be a jax.sharding.Mesh, or one of ml.mesh, which may"
            " be on a machine."
        )
    # Where no mesh was set JAX writes one without axes.
    meshes = list(dict.fromkeys(s.mesh for s in shardings if s.mesh.shape))
    shapes = dict.fromkeys(_described(dict(mesh.shape)) for mesh in meshes)
    if len(shapes) > 1:
        raise OwnError(f"The shardings are on several meshes, {listed(list(shapes))}: use one mesh.")
    if given is not None and shapes and _described(dict(given.shape)) not in shapes:
        raise OwnError(
            f"ml.explain was given the mesh {_described(dict(given.shape))}, but the shardings are on"
            f" {listed(list(shapes))}."
        )
    mesh = given or next((m for m in meshes if isinstance(m, Mesh)), None)
    mesh = mesh or next((_on_devices(m) for m in meshes if isinstance(m, AbstractMesh)), None)
    if mesh is None:
        raise OwnError(
            "No sharding names a mesh: give jax.jit `in_shardings`, arguments that are sharded, or"
            " ml.explain a mesh=jax.make_mesh((2, 4), ('data', 'model'))."
        )
    if mesh.size < 2:
        raise OwnError("The mesh has one device, which sends nothing: pass ml.explain(…, mesh=…) a mesh of several.")
    return mesh


def _on_devices(mesh: AbstractMesh) -> Mesh:
    """Returns a mesh that has a shape alone on devices of this machine, simulated ones where there are too few."""
    return Mesh(np.array(devices(mesh.size)).reshape(mesh.axis_sizes), mesh.axis_names, axis_types=mesh.axis_types)


def _described(axes: Mapping[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in axes.items())
