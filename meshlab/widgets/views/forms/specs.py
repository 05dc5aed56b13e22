"""The `PartitionSpec`s of a plan as Python, in trees like those of its arguments and outputs.

    from jax.sharding import PartitionSpec as P

    inputs = ({"up": P(None, "model"), "down": P("model", None)}, P("data", None))
    outputs = …

Named tuples, such as optax's states, are made by their public names. A tree that is no Python is given by place.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from ....engine.errors import LayoutError
from .literal import imported_from, is_spec, literal


@dataclasses.dataclass(frozen=True)
class Written:
    """The specs of a plan as lines of Python.

    Attributes:
        imports: lines that import what the others name.
        lines: assignments of `inputs` and `outputs`; none where JAX takes no such shardings.
        lost: what of them cannot be written, in words.
    """

    imports: frozenset[str] = frozenset()
    lines: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()


def specs_text(plan: Any) -> tuple[str, Sequence[str]]:
    """Returns the trees of `plan.partition_specs` as Python, and what of them cannot be written."""
    specs = written_specs(plan)
    return "\n".join([*sorted(specs.imports), "", *specs.lines]) + "\n" if specs.lines else "", specs.lost


def written_specs(plan: Any) -> Written:
    try:
        trees = dict(zip(("inputs", "outputs"), plan.partition_specs, strict=True))
    except LayoutError as error:
        return Written(lost=(str(error),))
    places = {"inputs": [each.place for each in plan.program.arguments], "outputs": plan.program.outputs}
    imports, texts, lost = {"from jax.sharding import PartitionSpec as P"}, [], []
    for name, tree in trees.items():
        try:
            texts.append(f"{name} = {literal(tree, len(name) + 3)}")
            imports |= _imports(tree)
        except TypeError as error:
            leaves = dict(zip(places[name], jax.tree.leaves(tree, is_leaf=is_spec), strict=True))
            texts.append(f"{name} = {literal(leaves, len(name) + 3)}")
            lost.append(f"the tree of the {name}: {error}; it is listed by place; plan.partition_specs has the tree")
    return Written(frozenset(imports), tuple(texts), tuple(lost))


def _imports(tree: Any) -> set[str]:
    """Returns the lines that import the named tuples of a tree."""
    if is_spec(tree) or not isinstance(tree, dict | list | tuple):
        return set()
    here = {f"from {imported_from(type(tree))} import {type(tree).__qualname__}"} if hasattr(tree, "_fields") else set()
    return here.union(*map(_imports, tree.values() if isinstance(tree, Mapping) else tree))
