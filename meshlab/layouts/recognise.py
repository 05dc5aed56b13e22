"""Recognises a foreign model: which arguments are parameters, optimizer state and data, and which dim is the batch.

Parameters are arguments that are carried, or whose gradient the program takes (`programs/trained.py`); where neither
tells (a loss alone, a step of decoding), those that `params="glob"` names. Optimizer state is what else is carried, or
what `state="glob"` names. An argument beside them that has no batch dim is frozen weights: the base of a LoRA. All
other arguments that are not carried are data. The batch dim is the first axis of the data, common to all of them that
have named dims, that no weight has. What it is renamed to, and merged or taken apart into, is made of it: the groups of
tokens that go to experts, say.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from ..engine.attention.recognise import positions
from ..engine.code.operations import walk
from ..engine.errors import closest, first_of, shown
from ..engine.programs.axis_conflicts import exchangeable_dims
from ..engine.programs.becoming import becoming
from ..engine.programs.program import Program, analysis
from ..engine.programs.trained import backward_operations, needed, trained
from ..engine.programs.values import Argument
from .request import Request, places_text


@dataclasses.dataclass(frozen=True)
class Recognised:
    """The arguments of a program by their use.

    Attributes:
        parameters: what is trained, or named as such.
        state: what the optimizer keeps of them.
        data: all others that are not carried by a step of training.
        frozen: weights that are not trained.
    """

    parameters: tuple[Argument, ...]
    state: tuple[Argument, ...]
    data: tuple[Argument, ...]
    frozen: tuple[Argument, ...] = ()

    @property
    def weights(self) -> tuple[Argument, ...]:
        """What is trained, and what is frozen."""
        return (*self.parameters, *self.frozen)


def recognised(request: Request, params: Any, state: Any) -> Recognised:
    """Recognises parameters, state and data; notes a problem where there are no parameters."""
    arguments = request.program.arguments
    trains = trained(request.program)
    kinds = ["data"] * len(arguments)
    as_parameters = _matching(request, "params", params)
    as_state = _matching(request, "state", state)
    for position, argument in enumerate(arguments):
        if argument.place in as_state:
            kinds[position] = "state"
        elif argument.place in as_parameters or (params is None and position in trains.parameters):
            kinds[position] = "parameters"
        elif position in trains.parameters | trains.state and argument.parameter in request.program.carry:
            kinds[position] = "state" if state is None else "carried"
    split = {kind: tuple(a for a, k in zip(arguments, kinds, strict=True) if k == kind) for kind in set(kinds)}
    if not split.get("parameters") and params is None:
        text = "Its parameters are unknown: the program takes no gradient of an argument."
        carry = request.program.carry
        trees = [f"{a.parameter}/*" for a in arguments if a.place != a.parameter and a.parameter not in carry]
        its = places_text([a.place for a in arguments])
        glob = next(iter(trees), "params/*")
        request.refuse("unknown_place", text, f'Name them, as in params="{glob}"; its arguments are {its}.')
    parameters, data = split.get("parameters", ()), split.get("data", ())
    frozen = _frozen(request.program, parameters, data)
    return Recognised(parameters, split.get("state", ()), tuple(a for a in data if a not in frozen), frozen)


def _frozen(program: Program, parameters: Sequence[Argument], others: Sequence[Argument]) -> tuple[Argument, ...]:
    """Returns the frozen weights: arguments of floating-point arrays that share no dim that could be the batch.

    The loss depends on them, else they are the optimizer's. What has a dim of the other data that no parameter has is
    data too, and where no others have such a dim so is all of it: what is not certain is not taken for weights.
    """
    backward = backward_operations(program)
    read = needed(program, (value for operation in backward for value in operation.reads))
    trained_dims = {dim for a in parameters for dim in program.dims_of(a.value)}
    trees: dict[str, list[Argument]] = {}
    for argument in others:
        trees.setdefault(argument.parameter, []).append(argument)
    dims = {tree: [set(program.dims_of(a.value)) - {None} for a in leaves] for tree, leaves in trees.items()}
    weights = {
        tree
        for tree, leaves in trees.items()
        if parameters and (not backward or any(a.value in read for a in leaves))
        if all(jnp.issubdtype(program.code.dtypes[a.value], jnp.floating) for a in leaves)
        if (named := [own for own in dims[tree] if own]) and set.intersection(*named) <= trained_dims
    }
    of_data = {dim for tree in trees.keys() - weights for own in dims[tree] for dim in own} - trained_dims
    weights = {tree for tree in weights if of_data and of_data.isdisjoint(set().union(*dims[tree]))}
    return tuple(argument for argument in others if argument.parameter in weights)


def _matching(request: Request, keyword: str, given: Any) -> frozenset[str]:
    """Returns the places of the arguments that globs match; notes a problem for one that matches none."""
    if given is None:
        return frozenset()
    several = isinstance(given, tuple | list) and len(given) > 0
    return frozenset().union(*(_matched(request, keyword, glob) for glob in (given if several else (given,))))


def _matched(request: Request, keyword: str, glob: Any) -> frozenset[str]:
    places = [argument.place for argument in request.program.arguments]
    matched = frozenset(request.program.matching(glob)) & frozenset(places) if isinstance(glob, str) else frozenset()
    if not matched:
        text = f"{keyword}={shown(glob)} is not a glob that matches an argument."
        near = closest(glob, (*{place.split("/")[0] + "/*" for place in places if "/" in place}, *places))
        request.refuse("unknown_place", text, f"Its arguments are {places_text(places)}.{near}")
    return matched


def batch_dim(request: Request, arguments: Recognised, batch: Any) -> str | None:
    """Returns the batch dim: the one given, or the first of the data's that they share and no parameter has."""
    if batch is not None:
        names = request.names("batch", batch)
        if len(names) > 1:
            request.refuse("unknown_dim", f"batch={shown(batch)} names several dims.", "It must be one.")
        return names[0] if len(names) == 1 else None
    if request.problems and not arguments.parameters:
        return None
    dims = [[dim for dim in request.program.dims_of(a.value) if dim] for a in arguments.data]
    named = [axes for axes in dims if axes]
    taken = {dim for a in arguments.weights for dim in request.program.dims_of(a.value)}
    common = [dim for dim in (named[0] if named else ()) if dim not in taken and all(dim in axes for axes in named)]
    if common:
        return common[0]
    text = "No dim is common to all its data and absent from all its parameters."
    each = [f"`{a.place}` [{' '.join(axes)}]" for a, axes in zip(arguments.data, dims, strict=True) if axes]
    fix = (
        'Name it, as in batch="batch"; or say which arguments are not data, with params=, state= or carry of ml.trace.'
    )
    request.refuse("unknown_dim", text, f"{fix} Data are {first_of(each) or 'no arguments with dims'}.")
    return None


def made_of(program: Program, dim: str) -> list[str]:
    """Returns the dims that another becomes, and these in turn: by a rename, or as the major part of a reshape."""
    steps, reached = _becomes(program), {dim}
    waiting = [dim]
    while waiting:
        new = steps.get(waiting.pop(), set()) - reached
        reached |= new
        waiting += new
    return [name for name in program.dims if name in reached - {dim}]


@analysis
def _becomes(program: Program) -> dict[str, set[str]]:
    """For each dim, the other dims that operations turn its axes into.

    The positions of keys are not made of those of queries, though a rename turns one into the other: on one axis both
    would be a ring, which a layout has to ask for.
    """
    apart = set(map(frozenset, (*exchangeable_dims(program), *positions(program))))
    steps: dict[str, set[str]] = {}
    for operation in walk(program.code.block):
        for before, after in becoming(program, operation):
            pair = frozenset((before, after))
            if before and after and len(pair) == 2 and pair <= program.dims.keys() and pair not in apart:
                steps.setdefault(before, set()).add(after)
    return steps
