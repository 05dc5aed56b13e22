"""Finds the linear matmuls of a program, which training in 8-bit floats computes in these.

    dot(x, weights["up"])           [batch, seq, embed] x [embed, ffn]        linear: in 8 bits, forward and backward
    dot(query, key)                 attention: both operands are activations
    dot(x, head)                    the head: labels are picked along `vocab`
    dot(x, weights["router"])       a router: `top_k` picks along `routes`

Of a linear matmul one operand is weights, or in the backward pass the result is their gradient; all dims of weights are
those of one argument. What numbers pick from stays in 16 bits: a head, along whose dim labels are picked and tokens are
looked up, and a router, along whose dim experts are chosen. So Transformer Engine has it, which replaces the linear
layers of a transformer's blocks alone.

Before a matmul in 8 bits its activations, or their gradient, are *cast*: read to find their largest number, read again,
and written twice, once transposed, since the tensor cores of H100 contract the last axes of both operands alone. What
several matmuls read is cast once, and so is what is cast for the gradient of weights. Weights are cast once a step, by
the optimizer.

Sources: NVIDIA Transformer Engine, "Using FP8 and FP4 with Transformer Engine"
(https://docs.nvidia.com/deeplearning/transformer-engine/user-guide/examples/fp8_primer.html); Micikevicius et al. 2022,
FP8 Formats for Deep Learning (https://arxiv.org/abs/2209.05433).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jax.numpy as jnp

from ...engine.attention.scores import scores_of
from ...engine.code.operations import Operation, item_bytes, walk
from ...engine.errors import listed
from ...engine.programs.program import Program, analysis
from ...engine.programs.trained import trained
from ...engine.rules import TRAITS
from ...engine.rules.matmuls import of_convolution
from ..machines.hardware import Hardware, HardwareError, known

# In which numbers linear matmuls are computed: as the program has it, or in 8-bit floats.
AS_WRITTEN, FP8 = "program", "fp8"
LINEAR = AS_WRITTEN, FP8
FP8_DTYPE = jnp.dtype("float8_e4m3fn")
CAST = "cast to fp8"
# Of each element it writes one, and one transposed.
_WRITTEN = 2
Dims = frozenset[str | None]


@dataclasses.dataclass(frozen=True)
class Linear:
    """A linear matmul.

    Attributes:
        casts: the positions of the operands that are cast for it.
    """

    casts: tuple[int, ...]


@analysis
def linear_matmuls(program: Program) -> Mapping[Operation, Linear]:
    """Returns the linear matmuls of a program that are wider than 8 bits."""
    weights, chosen, scores = _weights(program), _chosen(program), scores_of(program)
    found: dict[Operation, Linear] = {}
    cast: set[int] = set()
    for operation in walk(program.code.block):
        if not _is_matmul(operation):
            continue
        values = [value for value in (*operation.inputs[:2], operation.outputs[0]) if isinstance(value, int)]
        dims = [frozenset(program.names[value]) for value in values]
        of_weights = [position for position, own in enumerate(dims) if any(own <= each for each in weights)]
        # Where two are weights, they are multiplied by each other.
        if len(values) < 3 or len(of_weights) != 1 or not all(_is_wide(program, value) for value in values):
            continue
        if any(value in scores for value in values) or (dims[of_weights[0]] - frozenset.intersection(*dims)) & chosen:
            continue
        # For the gradient of weights both have been cast before.
        fresh = [at for at in (0, 1) if of_weights not in ([2], [at]) and values[at] not in cast]
        found[operation] = Linear(tuple(fresh))
        cast.update(values[at] for at in fresh)
    return found


def cast_bytes(dtype: Any, elements: Any) -> Any:
    """Returns the bytes that a cast to 8 bits reads and writes."""
    return elements * (2 * item_bytes(dtype) + _WRITTEN)


def require_fp8(machines: Iterable[Hardware]):
    """Refuses 8-bit floats on machines that do not multiply them.

    Raises:
        HardwareError: all of those machines, and the known machines that do.
    """
    without = dict.fromkeys(machine.title for machine in machines if FP8 not in machine.flops)
    if without:
        multiply = [name for name, machine in known().items() if FP8 in machine.flops]
        raise HardwareError(
            f'linear="{FP8}" needs a figure for matmuls in 8-bit floats, but there is none for {" and ".join(without)}.'
            f' These machines have one: {listed(multiply)}. Give your own machine one by flops={{"{FP8}": …}}.'
        )


def _is_matmul(operation: Operation) -> bool:
    """Whether an operation multiplies two matrices, those of experts too; a convolution is none."""
    traits = TRAITS.get(operation.name)
    if traits is None or traits.multiplies in (None, of_convolution):
        return False
    return {frozenset({0}), frozenset({1})} <= set(traits.linear(operation))


def _is_wide(program: Program, value: int) -> bool:
    dtype = program.code.dtypes[value]
    return jnp.issubdtype(dtype, jnp.floating) and item_bytes(dtype) > 1


def _weights(program: Program) -> tuple[Dims, ...]:
    """The dims of the arguments that may be weights: floats that have no dim of the data.

    Data are integers. Where no argument is, data are those that are not trained, without the dims of those that are.
    """
    dtypes, names = program.code.dtypes, program.names
    floats, others, trains = [], [], trained(program)
    for position, argument in enumerate(program.arguments):
        is_float = jnp.issubdtype(dtypes[argument.value], jnp.floating)
        (floats if is_float else others).append((position, frozenset(names[argument.value])))
    data = _dims(dims for _, dims in others)
    if not data and trains.parameters:
        data = _dims(dims for at, dims in floats if at not in trains.parameters | trains.state)
        data -= _dims(dims for at, dims in floats if at in trains.parameters)
    return tuple({dims for _, dims in floats if not dims & data})


def _dims(each: Iterable[Dims]) -> Dims:
    return frozenset().union(*each) - {None}


def _chosen(program: Program) -> Dims:
    """The dims from which integers pick: tables that are looked up, labels, the experts of a router."""
    makers = {out: operation for operation in walk(program.code.block) for out in operation.outputs}
    dims: set[str | None] = set()
    for operation in walk(program.code.block):
        chooses = _CHOOSES.get(operation.name)
        if chooses is not None:
            dims |= set(chooses(program, operation, makers))
    return frozenset(dims - {None})


Makers = Mapping[int, Operation]


def _looked_up(program: Program, operation: Operation, _makers: Makers) -> list[str | None]:
    names, sizes = program.names[operation.reads[0]], operation.params["slice_sizes"]
    return [names[axis] for axis in operation.params["dimension_numbers"].start_index_map if sizes[axis] == 1]


def _best(program: Program, operation: Operation, _makers: Makers) -> list[str | None]:
    names = program.names[operation.reads[0]]
    axes = operation.params.get("axes", (operation.params.get("axis", -1),))
    return [names[axis] for axis in axes]


def _compared(program: Program, operation: Operation, makers: Makers) -> list[str | None]:
    """Positions that are compared with numbers, as `one_hot` does."""
    found: list[str | None] = []
    for value in operation.reads:
        maker = makers.get(value)
        while maker is not None and maker.name in ("broadcast_in_dim", "convert_element_type", "reshape"):
            maker = makers.get(maker.reads[0]) if maker.reads else None
        if maker is not None and maker.name == "iota":
            found.append(program.names[maker.outputs[0]][maker.params["dimension"]])
    return found


_CHOOSES: Mapping[str, Callable[[Program, Operation, Makers], list[str | None]]] = {
    "gather": _looked_up,
    "top_k": _best,
    "argmax": _best,
    "eq": _compared,
}
