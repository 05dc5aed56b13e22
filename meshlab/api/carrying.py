"""Decides which outputs are the next call's arguments.

    step(params, opt_state, x) -> (loss, params, opt_state)        {"params": 1, "opt_state": 2}

An output is the next value of the one argument with its tree, shapes, dtypes and dims. Where names stand at other axes
than those that the function meets, the dims of a leaf differ; what nobody named on one of the two sides is no
difference then, nor what is updated element by element. Where several trees fit, as parameters and their momentum do,
each output is the next value of the tree that it updates element by element, if that pairs all of them in one way. What
fits but for its names, or still fits several, is not carried, and a warning says so.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax

from ..engine.argument_checks import is_whole, mapping
from ..engine.code.operations import Code, Input, Operation
from ..engine.errors import TraceError, closest, listed, shown
from ..engine.programs.values import Carry
from ..engine.rules import ELEMENTWISE
from ..engine.tensors.trace_errors import called
from ..engine.tensors.trees import placed_leaves

# The dims of a value's axes; None for one that no layout can address.
Dims = tuple[str | None, ...]
# Of so many trees that fit each other, all ways to pair them are tried.
_MOST_ALIKE = 5
_SAME = (*ELEMENTWISE, "convert_element_type", "copy", "dim_names", "tag")


@dataclasses.dataclass(frozen=True)
class Tree:
    """An argument or an output.

    Attributes:
        name: of the argument, or as `output 0`.
        place: where its leaves are stored.
        kind: its tree, and the shape and dtype of each leaf.
        leaves: the place of each leaf.
        dims: of each leaf.
        values: the value of each leaf.
    """

    name: str
    place: str
    kind: Any
    leaves: tuple[str, ...]
    dims: tuple[Dims, ...]
    values: tuple[Input, ...]


@dataclasses.dataclass(frozen=True)
class Carried:
    """What is carried to the next call, and what may be, but is not certain."""

    carries: tuple[Carry, ...]
    uncertain: tuple[str, ...] = ()


def tree_of(
    name: str, place: str, tree: Any, typed: Callable[[Any], Any], stored: Mapping[str, tuple[Input, Dims]]
) -> Tree:
    """Returns an argument or an output as a `Tree`.

    Args:
        name: what it is called.
        place: where its leaves are stored.
        tree: its leaves, of arrays and tensors.
        typed: returns of a leaf what has its shape and dtype.
        stored: the value at each place, and its dims.
    """
    leaves, structure = jax.tree.flatten(tree)
    types = tuple((typed(leaf).shape, typed(leaf).dtype) for leaf in leaves)
    places = tuple(place for place, _ in placed_leaves(place, tree))
    values, dims = tuple(stored[p][0] for p in places), tuple(stored[p][1] for p in places)
    return Tree(name, place, (structure, types), places, dims, values)


def found_carried(code: Code, arguments: Sequence[Tree], outputs: Sequence[Tree]) -> Carried:
    """Finds what is carried where nobody says so."""
    pairs = _certain(arguments, outputs, lambda tree: (tree.kind, tree.dims))
    left = [a for a in arguments if a.name not in pairs], [o for o in outputs if o not in pairs.values()]
    uncertain = []
    makers = {value: operation for operation in code.block.operations for value in operation.outputs}
    for name, output in _certain(*left, lambda tree: tree.kind).items():
        argument = next(a for a in arguments if a.name == name)
        sides = list(zip(argument.dims, output.dims, strict=True))
        alike = any(a == b != () for a, b in sides)
        other = [i for i, (a, b) in enumerate(sides) if a != b]
        updated = [i for i in other if _is_update(makers, argument.values[i], output.values[i])]
        apart = [i for i in other if i not in updated and not _may_be_one(*sides[i])]
        if not apart and (alike or updated == other):
            pairs[name] = output
        elif apart and alike:
            uncertain.append(_differs(argument, output, apart))
    for ours, theirs in _alike(*left):
        updates = _updates(makers, ours, theirs)
        pairs |= updates
        if not updates:
            uncertain.append(_rivals(ours, theirs))
    numbers = {output.place: number for number, output in enumerate(outputs)}
    carries = [Carry(a.name, numbers[pairs[a.name].place], pairs[a.name].place) for a in arguments if a.name in pairs]
    return Carried(tuple(carries), tuple(uncertain))


def given_carried(fn: Callable, arguments: Sequence[Tree], outputs: Sequence[Tree], carry: Any) -> Carried:
    """Reads what the user says is carried; refuses names that are not there, and what does not fit."""
    names, problems = {argument.name: argument for argument in arguments}, []
    for name, index in mapping("ml.trace", "carry", carry, 'carry={"params": 1}', TraceError).items():
        if name not in names:
            near = closest(name, names) or f" It has {listed(names)}."
            problems.append(f"`{name}` is not an argument of `{called(fn)}`.{near}")
        elif not is_whole(index):
            problems.append(f"`{name}` must come from the number of an output, not {shown(index)}.")
        elif not 0 <= index < len(outputs):
            problems.append(f"`{name}` must come from one of the outputs 0 to {len(outputs) - 1}, not {index}.")
        elif outputs[index].kind != names[name].kind:
            problems.append(f"output {index} has a different tree, shapes or dtypes than argument `{name}`.")
    if problems:
        raise TraceError("Invalid `carry`: " + " ".join(problems))
    return Carried(tuple(Carry(name, index, outputs[index].place) for name, index in carry.items()))


def _certain(arguments: Sequence[Tree], outputs: Sequence[Tree], key: Callable[[Tree], Any]) -> dict[str, Tree]:
    """Pairs arguments with outputs of an equal key, where it is no other's."""
    asked, made = (Counter(map(key, trees)) for trees in (arguments, outputs))
    return {
        argument.name: next(output for output in outputs if key(output) == key(argument))
        for argument in arguments
        if asked[key(argument)] == made[key(argument)] == 1
    }


def _alike(arguments: Sequence[Tree], outputs: Sequence[Tree]) -> Iterator[tuple[list[Tree], list[Tree]]]:
    """Yields for each kind of tree of several leaves the arguments and the outputs of it, where several fit."""
    for kind in dict.fromkeys(tree.kind for tree in arguments if len(tree.leaves) > 1):
        ours, theirs = ([tree for tree in trees if tree.kind == kind] for trees in (arguments, outputs))
        if theirs and len(ours) + len(theirs) > 2:
            yield ours, theirs


def _updates(makers: Mapping[int, Operation], ours: Sequence[Tree], theirs: Sequence[Tree]) -> dict[str, Tree]:
    """Pairs each output with the argument that it updates element by element, where there is one way; else none.

    `params - rate * momentum` updates both of them, and `0.9 * momentum + grads` the second alone.
    """
    if not len(theirs) <= len(ours) <= _MOST_ALIKE:
        return {}
    fits = {
        (one.name, other.name)
        for one, other in itertools.product(ours, theirs)
        if all(_is_update(makers, *values) for values in zip(one.values, other.values, strict=True))
    }
    ways = (tuple(zip(way, theirs, strict=True)) for way in itertools.permutations(ours, len(theirs)))
    found = [way for way in ways if all((one.name, other.name) in fits for one, other in way)]
    return {one.name: other for one, other in found[0]} if len(found) == 1 else {}


def _may_be_one(one: Dims, other: Dims) -> bool:
    return all(a == b or a is None or b is None for a, b in zip(one, other, strict=True))


def _is_update(makers: Mapping[int, Operation], before: Input, after: Input) -> bool:
    """Whether a value is computed from another one element by element."""
    waiting, seen = [after], set()
    while waiting:
        value = waiting.pop()
        if value == before:
            return True
        if isinstance(value, int) and value not in seen:
            seen.add(value)
            maker = makers.get(value)
            waiting += maker.inputs if maker is not None and maker.name in _SAME else ()
    return False


def _differs(argument: Tree, output: Tree, apart: Sequence[int]) -> str:
    first, more = apart[0], f" and {len(apart) - 1} more" if len(apart) > 1 else ""
    leaf = argument.leaves[first].removeprefix(argument.place + "/")
    there, here = (_shown(tree.dims[first]) for tree in (argument, output))
    return (
        f"{output.name} is `{argument.name}` but for the dims of `{leaf}`{more}: {there} there, {here} here; it is not"
        f" carried to the next call. If it is the next `{argument.name}`, say so: {_said([(argument, output)])}."
    )


def _rivals(ours: Sequence[Tree], theirs: Sequence[Tree]) -> str:
    names, made = " and ".join(f"`{tree.name}`" for tree in ours), " and ".join(tree.name for tree in theirs)
    return (
        f"{made} may each be the next {names}, by tree, shapes and dtypes; none is carried to the next call."
        f" Say which is, as in {_said(zip(ours, theirs, strict=False))}."
    )


def _said(pairs: Any) -> str:
    text = ", ".join(f'"{argument.name}": {output.name.removeprefix("output ")}' for argument, output in pairs)
    return f"carry={{{text}}}"


def _shown(dims: Dims) -> str:
    return f"[{' '.join(name or '~' for name in dims)}]"
