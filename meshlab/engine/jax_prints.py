"""Reads the equation of a `jax.debug.print`: its text, and what goes into it.

    printed(equation).line([np.float32(0.5)])        # "loss 0.500", as JAX would print it

Like `jax_compat`, this reads JAX beyond its documented surface, in all versions that are tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from .jax_compat import changed


class Printed(NamedTuple):
    """What a `jax.debug.print` makes of its values.

    Attributes:
        text: the text, with places for values.
        tree: of positional and named values, those that are no arrays among them.
        static: these, by their position among the leaves.
        options: NumPy's options for arrays.
        fills: whether the text has places; values are behind it otherwise.
        of_shards: whether each device prints what it holds.
    """

    text: str
    tree: Any
    static: tuple[tuple[int, Any], ...]
    options: tuple[tuple[str, Any], ...]
    fills: bool
    of_shards: bool

    def line(self, values: Sequence[Any]) -> str:
        """Returns the line of some values."""
        known, given = dict(self.static), iter(values)
        leaves = [known[i] if i in known else next(given) for i in range(self.tree.num_leaves)]
        args, named = jax.tree.unflatten(self.tree, leaves)
        if not self.fills:
            return " ".join((self.text, *map(str, args)))
        with np.printoptions(**dict(self.options)):
            return self.text.format(*args, **named)


def printed(equation: Any) -> Printed | None:
    """Returns what a `jax.debug.print` prints; None for any other equation."""
    if equation.primitive.name != "debug_print":
        return None
    names = ("fmt", "in_tree", "static_args", "np_printoptions", "has_placeholders", "partitioned")
    return Printed(*(equation.params[name] for name in names))


def unprinted(equation: Any) -> Any:
    """Returns an equation whose prints were taken out of the jaxpr inside: it has no effect any more."""
    return changed(equation, effects=frozenset())
