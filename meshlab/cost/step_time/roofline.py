"""The seconds of one kernel on one device: its operations, its bytes or its launch, whichever takes longest.

    product [4096, 8192] x [8192, 1024]         operations / (FLOP/s · share of the matrix units that it fills)
    addition of two [4096, 8192]                bytes read and written / (bytes/s of the memory)

Source: Williams, Waterman and Patterson 2009, Roofline (CACM 52(4)). Bytes are those that nothing can avoid: what is
fused into its readers is neither written nor read (`fusion`), look-ups read what they find, and updates in place write
what they change.

Products work in tiles: what does not fill one is padded to it. On TPUs a tile of the second operand stays in the matrix
unit, 128 x 128 (256 on v6e and v7x), while the rows of the first pass through it, eight at a time (How to Scale Your
Model, "How to Think About TPUs": https://jax-ml.github.io/scaling-book/tpus/); on GPUs a block of threads makes a tile
of the result, at least 64 x 64, from slices of 16 (NVIDIA, Matrix Multiplication Background User's Guide:
https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from ...engine.planning.steps import Compute, Step
from ...engine.rules import TRAITS, names_where
from ..workload.dataflow import Key
from ..workload.setting import CAUSAL, Numbers, Setting
from .flops import Product, product_of

# What reads of its first operand no more than it makes.
LOOKUPS = names_where(lambda traits: traits.reads_part)
# What changes a part of its first operand, in place.
UPDATES = {name: traits.updates for name, traits in TRAITS.items() if traits.updates is not None}


@dataclasses.dataclass(frozen=True)
class Kernel:
    """What one step costs on one device.

    Attributes:
        seconds: of one execution.
        products: the seconds of its products alone.
        flops: operations of its products.
        nbytes: read from and written to memory.
        scores: whether it makes scores of attention that are computed piece by piece.
    """

    seconds: Numbers
    products: Numbers
    flops: Numbers
    nbytes: Numbers
    scores: bool = False


def kernel(step: Step, loads: Sequence[Key], stores: Sequence[Key], setting: Setting) -> Kernel:
    """Returns what one step costs on one device.

    Args:
        step: of a plan; no collective, and no loop.
        loads: what it reads from memory.
        stores: what it writes there.
        setting: the sizes and the machine.

    Raises:
        HardwareError: the machine has no figure for products in a dtype.
    """
    product = product_of(step, setting) if isinstance(step, Compute) else None
    flops: Numbers = 0.0
    seconds: Numbers = 0.0
    if product is not None:
        flops = product.flops
        if setting.options.attention == CAUSAL and _touches_scores(step, setting):
            flops = flops / 2
        seconds = flops / (setting.flops_per_second(product.dtype) * filled(product, setting))
    nbytes = _moved(step, loads, stores, setting)
    largest = np.maximum if setting.many else max
    whole = largest(largest(seconds, nbytes / setting.bytes_per_second), setting.launch)
    scores = product is not None and setting.is_score(step.operation.outputs[0])  # type: ignore[union-attr]
    return Kernel(whole, seconds, flops, nbytes, scores)


def _touches_scores(step: Step, setting: Setting) -> bool:
    assert isinstance(step, Compute)
    return any(map(setting.is_score, (*step.operation.reads, *step.operation.outputs)))


def filled(product: Product, setting: Setting) -> Numbers:
    """Returns the share of the matrix units' work that is not padding, for the better of both orders of operands."""
    few, many, deep = setting.tiles
    one = _padded(product.rows, few) * _padded(product.columns, many)
    other = _padded(product.rows, many) * _padded(product.columns, few)
    least = np.minimum(one, other) if setting.many else min(one, other)
    return product.rows * product.columns * product.inner / (least * _padded(product.inner, deep))


def _padded(size: Numbers, tile: Numbers) -> Numbers:
    return (
        np.ceil(size / tile) * tile
        if isinstance(size, np.ndarray) or isinstance(tile, np.ndarray)
        else (math.ceil(size / tile) * tile)
    )


def _moved(step: Step, loads: Sequence[Key], stores: Sequence[Key], setting: Setting) -> Numbers:
    written = sum(map(setting.nbytes, stores))
    name = step.operation.name if isinstance(step, Compute) else ""
    if name in LOOKUPS or name in UPDATES:
        assert isinstance(step, Compute)
        operation, roots = step.operation, setting.plan.program.roots
        first = operation.inputs[0]
        spec = step.operands[0]
        table = (roots.get(first, first), spec) if isinstance(first, int) and spec is not None else None
        rest = sum(setting.nbytes(key) for key in loads if key != table)
        if name in LOOKUPS:
            return 2 * written + rest
        if table in loads:
            # In place: what is changed is read, with the changes, and written.
            at = UPDATES[name]
            value, how = operation.inputs[at], step.operands[at]
            changed = setting.nbytes((value, how)) if isinstance(value, int) and how is not None else 0
            return rest + 2 * changed
    return written + sum(map(setting.nbytes, loads))
