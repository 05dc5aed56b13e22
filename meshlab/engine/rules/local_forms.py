"""Local forms: how an operation runs whose axis is split, though its parts depend on each other.

Most operations run on shards as they are. Some need a word with the neighbours first: the greatest of all is the
greatest of the devices' greatest, a running sum goes on from where the device before stopped, a convolution looks over
the edge. Such an operation has a **local form**: a function of one device's shards, which asks a `Device` for whatever
it needs of the others.

    reduce_max x[hidden] over hidden, split over model      device.all_reduce(local maximum, ("model",), "max")

The same function is run twice: on shapes alone, by a device that writes down what it is asked for (`exchange`: that is
what is counted), and on shards, by a device that does it (`lower`: that is what runs). So the two cannot disagree.

A local form is used where a factor that its rule calls *exchanged* is split; else the primitive runs as it is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from ..code.operations import Operation
from ..specs.spec import Axes, Spec, local_shape
from .table import LOCAL_PARAMS, Shape


class Device(Protocol):
    """One device among those of a mesh, as a local form sees it.

    Every method is collective: all devices call it, in the same order. Parts are counted along `axes`, major first.
    """

    sizes: Mapping[str, int]

    def index(self, axes: Axes) -> Any:
        """The number of the part that this device holds of an axis that is split over `axes`: a scalar i32."""
        ...

    def all_reduce(self, x: Any, axes: Axes, operation: str) -> Any:
        """The "sum", "max" or "min" of `x` over the devices along `axes`, element by element."""
        ...

    def all_gather(self, x: Any, axes: Axes, axis: int) -> Any:
        """The parts of all devices along `axes`, joined on an axis of `x` in their order."""
        ...

    def permute(self, x: Any, axes: Axes, distance: int, wrap: bool = False) -> Any:
        """What the device `distance` parts before this one gives; zeros where there is none and it does not wrap."""
        ...

    def mirrored(self, x: Any, axes: Axes) -> Any:
        """What the device gives that has as many parts behind it as this one has before it."""
        ...


@dataclasses.dataclass(frozen=True)
class Local:
    """One operation whose axes are split.

    Attributes:
        operation: what runs.
        operand_shapes: the operands' global shapes.
        result_shapes: the results' global shapes.
        operands: how each operand is split; literals and scalars are whole.
        results: how each result is split.
    """

    operation: Operation
    operand_shapes: tuple[Shape, ...]
    result_shapes: tuple[Shape, ...]
    operands: tuple[Spec, ...]
    results: tuple[Spec, ...]

    @property
    def params(self) -> dict[str, Any]:
        """The primitive's parameters, as they are for global shapes."""
        return self.operation.params

    def split(self, axis: int, operand: int = 0) -> Axes:
        """The mesh axes that split an axis of an operand."""
        return self.operands[operand].splits[axis]

    def run(self, operands: Sequence[Any], sizes: Mapping[str, int], **changed: Any) -> list[Any]:
        """Runs the primitive on shards, its parameters made local, and then changed as said."""
        shapes = tuple(map(local_shape, self.result_shapes, self.results, (sizes,) * len(self.results)))
        change = LOCAL_PARAMS.get(self.operation.name)
        params = change(self.params, tuple(np.shape(o) for o in operands), shapes) if change else self.params
        return bind(self.operation, operands, params | changed)


Bound = Callable[[Operation, Sequence[Any], dict[str, Any]], list[Any]]
BOUND: dict[str, Bound] = {}


def bound(name: str) -> Callable[[Bound], Bound]:
    """Registers how a primitive runs on shards, where that is more than to bind it."""

    def register(function: Bound) -> Bound:
        BOUND[name] = function
        return function

    return register


def bind(operation: Operation, operands: Sequence[Any], params: dict[str, Any]) -> list[Any]:
    """Runs an operation's primitive with parameters of its own; returns its results as a list."""
    if operation.name in BOUND:
        return BOUND[operation.name](operation, operands, params)
    primitive = operation.equation.primitive
    results = primitive.bind(*operands, **params)
    return list(results) if primitive.multiple_results else [results]


Form = Callable[[Device, Local, Sequence[Any]], Sequence[Any]]


@dataclasses.dataclass(frozen=True)
class LocalForm:
    """How an operation runs whose axis is split.

    Attributes:
        run: the function of shards.
        told: what it does while `{dims}` is split, for people.
        padded: whether it may be used on padded axes.
        gathers: whether it gathers one slice of each part: of parts of one element all that there is.
    """

    run: Form
    told: str
    padded: bool
    gathers: bool


LOCAL_FORMS: dict[str, LocalForm] = {}


def local_form(*names: str, told: str, padded: bool = False, gathers: bool = False) -> Callable[[Form], Form]:
    """Registers the local form of one or more primitives.

    The function takes the device, the operation with its specs, and the shards; it returns the results' shards.

    Args:
        *names: the primitives.
        told: what happens, for people: "{dims} is shifted".
        padded: whether it may be used where the split axis is padded: what is no part of the value is then neutral.
        gathers: whether it gathers one slice of each part; where a part is one element the operand is gathered instead,
            which others may want as well.
    """

    def register(function: Form) -> Form:
        LOCAL_FORMS.update(dict.fromkeys(names, LocalForm(function, told, padded, gathers)))
        return function

    return register
