"""Finds a model by its name: those at their published sizes, and the small ones of the zoo.

ml.named_models()["llama3-8b"].trace(batch=64)
ml.named_models()["gpt2_adamw"].trace()
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import jax

from ..api.stages import Program
from ..cost.machines.units import count_text
from ..engine.argument_checks import is_whole
from ..engine.errors import DimError, MeshlabError, closest, shown
from ..engine.tensors.tensor import Tensor
from ..models.published import Published, published
from ..models.zoo import Model, imported_models, models


@dataclasses.dataclass(frozen=True, repr=False)
class Named:
    """A model that has a name.

    Attributes:
        name: its name.
        is_published: whether it is a step of AdamW in bfloat16, at a published size; else it is small.
        group: what it is listed under.
        shapes: makes its arguments without data, parameters first.
        make: traces it, with sizes of those that it takes.
        takes: which sizes `make` takes; other sizes are given to its program.
    """

    name: str
    is_published: bool
    group: str
    shapes: Callable[[], tuple[Any, ...]]
    make: Callable[..., Program]
    takes: tuple[str, ...] = ()

    def trace(self, **sizes: int) -> Program:
        """Traces it.

        Args:
            **sizes: of its dims, where they differ from its own: `batch=64`.

        Raises:
            DimError: it has no such dim, or the dim cannot have that size.
            TraceError: it cannot be traced at these sizes.
        """
        wrong = [name for name in self.takes if name in sizes and not (is_whole(sizes[name]) and sizes[name] >= 1)]
        if wrong:
            given = " and ".join(f"{name}={shown(sizes[name])}" for name in wrong)
            raise DimError(f"`{self.name}` was given {given}; a size must be an integer of at least 1.")
        program = self.make(**{name: sizes[name] for name in self.takes if name in sizes})
        others = {name: size for name, size in sizes.items() if name not in self.takes}
        return program.resize(**others) if others else program

    @functools.cached_property
    def arguments(self) -> tuple[Any, ...]:
        """Its arguments without data."""
        return self.shapes()

    @property
    def parameters(self) -> int:
        """The number of its parameters."""
        return sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(self.arguments[0]))

    @property
    def dims(self) -> dict[str, int]:
        """The dims of its parameters and inputs that have names of their own, with their sizes."""
        # Inputs first: their dims are what users change.
        return dict(pair for leaf in _leaves(self.arguments[::-1]) for pair in _sizes_of(leaf))

    @property
    def inputs(self) -> dict[str, int]:
        """The dims of its last argument, which is an input, with their sizes: what users change first."""
        return dict(pair for leaf in _leaves(self.arguments[-1]) for pair in _sizes_of(leaf))

    def __repr__(self) -> str:
        parts = [f"{count_text(self.parameters)} parameters", *(f"{dim} {size:,}" for dim, size in self.inputs.items())]
        return f"{self.name}: {', '.join(parts)}"


class NamedModels(dict[str, Named]):
    """Models by their names, which are printed one a line."""

    def __repr__(self) -> str:
        return "\n".join(map(repr, self.values()))


def _leaves(tree: Any) -> list[Any]:
    return jax.tree.leaves(tree, is_leaf=lambda leaf: isinstance(leaf, Tensor))


def _sizes_of(leaf: Any) -> list[tuple[str, int]]:
    if isinstance(leaf, Tensor):
        return [(dim.name, dim.size) for dim in leaf.dims]
    names = getattr(leaf, "names", ())
    return [
        (name, size) for name, size in zip(names, getattr(leaf, "shape", ()), strict=False) if isinstance(name, str)
    ]


def named_models() -> Mapping[str, Named]:
    """Returns every model that has a name, those at published sizes first: `ml.explore("llama3-8b", mesh)`.

    Raises:
        MeshlabError: what their steps are made of is not installed.
    """
    try:
        small = models()
    except ModuleNotFoundError as error:
        raise MeshlabError(
            f"The named models need {error.name}, which this Python does not have. Install it"
            f' (pip install {error.name}, or "meshlab[notebook]"), or take a program of your own.'
        ) from None
    every = [*map(_published, published().values()), *map(_small, (*small, *_imported()))]
    return NamedModels((model.name, model) for model in every)


def named_model(name: str) -> Named:
    """Returns the model of a name; refuses one that there is not."""
    models = named_models()
    if name not in models:
        raise MeshlabError(
            f"There is no model `{name}`.{closest(name.lower(), models)} ml.named_models() lists them; make your own"
            " program with ml.trace(fn, ...)."
        )
    return models[name]


def _imported() -> tuple[Model, ...]:
    """The models of other libraries; none where one of these is not installed."""
    try:
        return imported_models()
    except ModuleNotFoundError:
        return ()


def _published(model: Published) -> Named:
    kind = "Vision" if ".vision." in model.module.__name__ else "Language"
    return Named(model.name, True, f"{kind}, at published sizes", model.shapes, model.trace, model.takes)


def _small(model: Model) -> Named:
    return Named(model.name, False, "Small, for trying out", lambda: model.shapes, model.trace)
