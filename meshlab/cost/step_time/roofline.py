"""Predicts the seconds of one kernel on one device: of its operations, bytes or launch, whichever takes longest.

    matmul [4096, 8192] x [8192, 1024]          operations / (FLOP/s · share of the matrix units that it fills)
    addition of two [4096, 8192]                bytes read and written / (bytes/s of the memory)

Source: Williams, Waterman and Patterson 2009, Roofline (CACM 52(4)). Bytes are the unavoidable ones: values that are
fused into their readers are neither written nor read (`fusion`), gathers read the elements that they return, and
updates in place write the elements that they change.

Matmuls work in tiles, to which their sizes are padded. On TPUs a tile of the second operand stays in the matrix
unit, 128 x 128 (256 on v6e and v7x), while the rows of the first pass through it, eight at a time (How to Scale Your
Model, "How to Think About TPUs": https://jax-ml.github.io/scaling-book/tpus/). Where a GPU's matmul kernels are known
(`machines/matmul_kernels`), so is the time of each size; on other GPUs a block of threads makes a tile of the result,
at least 64 x 64, from slices of 16 (NVIDIA, Matrix Multiplication Background User's Guide:
https://docs.nvidia.com/deeplearning/performance/dl-performance-matrix-multiplication/).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...engine.code.operations import Operation, item_bytes
from ...engine.planning.step import Step
from ...engine.planning.step_keys import Key
from ...engine.planning.steps import Compute, Result
from ...engine.rules import READ_IN_PART, TRAITS
from ...engine.specs.in_time import accumulator_dtype
from ..machines.hardware import Hardware
from ..workload.attention import CAUSAL, STORED
from ..workload.linear import CAST, cast_bytes
from ..workload.scenario import Numbers, Scenario
from .flops import Matmul, matmul_of, touches_scores

# Primitives that update a part of their first operand in place, with the position of the update.
UPDATES = {name: traits.updates for name, traits in TRAITS.items() if traits.updates is not None}


@dataclasses.dataclass(frozen=True)
class Kernel:
    """The cost of one step on one device.

    Attributes:
        seconds: of one execution.
        matmuls: the seconds of its matmuls alone: of those that take less than any kernel does, without that.
        flops: operations of its matmuls.
        nbytes: read from and written to memory.
        scores: whether it makes scores of attention in a fused kernel.
        name: what it is, where it is not the step's operation itself.
    """

    seconds: Numbers
    matmuls: Numbers
    flops: Numbers
    nbytes: Numbers
    scores: bool = False
    name: str = ""


def kernel(step: Step, loads: Sequence[Key], stores: Sequence[Key], scenario: Scenario) -> Kernel:
    """Returns the cost of one step on one device.

    Args:
        step: of a plan; no collective, and no loop.
        loads: the keys that it reads from memory.
        stores: the keys that it writes there.
        scenario: the sizes and the machine.
    """
    operation = step.runs
    linear = None if operation is None else scenario.linear(operation)
    nbytes = _moved(step, loads, stores, scenario) if linear is None else _narrowed(loads, stores, scenario)
    largest = np.maximum if scenario.many else max
    is_fused = operation is not None and _is_fused(operation, scenario)
    matmul = matmul_of(step, scenario) if isinstance(step, Compute) else None
    if matmul is None or operation is None:
        # What is computed of scores in a fused kernel is a part of it, and waits for no launch of its own.
        launch = 0.0 if is_fused else scenario.launch
        return Kernel(largest(nbytes / scenario.bytes_per_second, launch), 0.0, 0.0, nbytes)
    if is_fused and scenario.attention == CAUSAL:
        matmul = dataclasses.replace(matmul, times=matmul.times * scenario.shown(operation, step))
    key = "matmul", matmul, nbytes, is_fused
    whole, multiplying = scenario.once(key, lambda: _seconds(matmul, nbytes, is_fused, scenario))
    scores = scenario.is_score(operation.outputs[0])
    return Kernel(whole, multiplying, matmul.flops, nbytes, scores)


def _is_fused(operation: Operation, scenario: Scenario) -> bool:
    """Whether an operation is attention in one kernel, written so or as it is run, or a part of it."""
    if scenario.plan.program.factors[operation].exchangeable:
        return True
    return scenario.attention != STORED and touches_scores(operation, scenario)


def cast(step: Step, scenario: Scenario) -> Kernel | None:
    """Returns the cost of casting the operands of a linear matmul to 8 bits; None where none is."""
    linear = scenario.linear(step.computes) if step.computes else None
    if linear is None or not linear.casts:
        return None
    values, specs = step.read()
    code, nbytes = scenario.plan.program.code, 0.0
    for position in linear.casts:
        value, spec = values[position], specs[position]
        assert isinstance(value, int)
        assert spec is not None
        nbytes = nbytes + cast_bytes(code.dtypes[value], math.prod(scenario.local((value, spec))))
    return Kernel(nbytes / scenario.bytes_per_second, 0.0, 0.0, nbytes, name=CAST)


def accumulated(results: Sequence[Result], scenario: Scenario) -> Kernel:
    """Returns the cost of adding the results of one iteration over an axis in time to those of the iterations before.

    Each sum is read and written, and its addend is read; compilers do so in one kernel.
    """
    dtypes, nbytes = scenario.plan.program.code.dtypes, 0
    for result in results:
        if result.is_sum:
            key, dtype = (result.value, result.inside), dtypes[result.value]
            wider = item_bytes(accumulator_dtype(dtype)) / item_bytes(dtype)
            nbytes = nbytes + scenario.nbytes(key) * (1 + 2 * wider)
    largest = np.maximum if scenario.many else max
    seconds = largest(nbytes / scenario.bytes_per_second, scenario.launch) if any(r.is_sum for r in results) else 0.0
    return Kernel(seconds, 0.0, 0.0, nbytes)


def _seconds(matmul: Matmul, nbytes: Numbers, is_fused: bool, scenario: Scenario) -> tuple[Numbers, Numbers]:
    """The seconds of a matmul, and those of its multiplications alone: of a small one, without its beginning."""
    largest, begin = np.maximum if scenario.many else max, scenario.matmul_base(matmul.dtype)
    multiplying = scenario.of_hardware(lambda machine: _multiplying(matmul, machine, is_fused))
    waiting = scenario.of_hardware(lambda machine: _waiting(nbytes, machine, matmul.dtype, largest))
    return begin + largest(multiplying, waiting), multiplying + begin * (multiplying >= begin)


def _multiplying(matmul: Matmul, machine: Hardware, is_fused: bool) -> Numbers:
    """The seconds of a matmul that waits for the matrix units alone, of its own or in a kernel of fused attention."""
    rate, kernels = machine.flops_per_second(matmul.dtype), machine.kernels(matmul.dtype)
    if is_fused and machine.efficiency.attention is not None:
        return matmul.flops / (rate * machine.efficiency.attention.value)
    if kernels is None:
        return matmul.flops / (rate * machine.efficiency.matmul.value * filled(matmul, machine))
    return kernels.multiplying(matmul.rows, matmul.columns, matmul.inner, matmul.times, rate)


def _waiting(nbytes: Numbers, machine: Hardware, dtype: Any, largest: Any) -> Numbers:
    """The seconds of a matmul that waits for memory or its launch alone."""
    kernels, reached = machine.kernels(dtype), machine.efficiency
    if kernels is None:
        return largest(nbytes / (machine.bytes_per_second * reached.memory.value), reached.launch.value)
    return nbytes / (machine.bytes_per_second * kernels.memory.value)


# The tile that pads matmuls, by platform: the fewer of rows and columns, the other of both, and the contracted size;
# None: the machine's own.
_TILES = {"tpu": (8, None, None), "gpu": (64, 64, 16), "cpu": (1, 1, 1)}


def filled(matmul: Matmul, machine: Hardware) -> Numbers:
    """Returns the share of the matrix units' operations that are no padding, for the better order of operands."""
    few, many, deep = (tile or machine.tile for tile in _TILES[machine.platform])
    one = _padded(matmul.rows, few) * _padded(matmul.columns, many)
    other = _padded(matmul.rows, many) * _padded(matmul.columns, few)
    least = np.minimum(one, other) if isinstance(one, np.ndarray) or isinstance(other, np.ndarray) else min(one, other)
    return matmul.rows * matmul.columns * matmul.inner / (least * _padded(matmul.inner, deep))


def _padded(size: Numbers, tile: int) -> Numbers:
    return np.ceil(size / tile) * tile if isinstance(size, np.ndarray) else math.ceil(size / tile) * tile


def _narrowed(loads: Sequence[Key], stores: Sequence[Key], scenario: Scenario) -> Numbers:
    """The bytes of a matmul whose operands are of 8 bits, and whose result is as the program has it."""
    dtypes = scenario.plan.program.code.dtypes
    return sum(map(scenario.nbytes, stores)) + sum(scenario.nbytes(key) / item_bytes(dtypes[key[0]]) for key in loads)


def _moved(step: Step, loads: Sequence[Key], stores: Sequence[Key], scenario: Scenario) -> Numbers:
    written = sum(map(scenario.nbytes, stores))
    name = step.primitive
    if name in READ_IN_PART or name in UPDATES:
        (values, specs), original_of = step.read(), scenario.plan.program.original_of
        first, spec = values[0], specs[0]
        table = (original_of.get(first, first), spec) if isinstance(first, int) and spec is not None else None
        rest = sum(scenario.nbytes(key) for key in loads if key != table)
        if name in READ_IN_PART:
            return 2 * written + rest
        if table in loads:
            # In place: the replaced elements are read and written, and the updates are read.
            at = UPDATES[name]
            value, how = values[at], specs[at]
            changed = scenario.nbytes((value, how)) if isinstance(value, int) and how is not None else 0
            return rest + 2 * changed
    return written + sum(map(scenario.nbytes, loads))
