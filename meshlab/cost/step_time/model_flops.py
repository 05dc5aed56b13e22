"""Counts the model FLOPs of a program: those of its matmuls, without the ones that run a second time.

    layer under `jax.checkpoint`      forward 2 · n, again 2 · n, backward 4 · n operations: model FLOPs are 6 · n

A matmul that runs again for the backward pass is no work of the model, whether `jax.checkpoint` or a fused kernel of
attention runs it again; nor is padding. Where a program has the second run alone (in a gradient whose loss nobody
reads, say), that one counts. Attention counts as the program has it, unmasked, and half where the run's options say
"causal". All operations of a program count, those of an optimizer too if it multiplies matrices.

Source: Chowdhery et al. 2022, PaLM (https://arxiv.org/abs/2204.02311), appendix B.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import numpy as np

from ...engine.code.loops import LOOPS, trip_count
from ...engine.code.operations import Block, Code, Input, Operation, walk
from ...engine.jax_compat import REMAT
from ...engine.programs.program import Program, analysis
from ...engine.specs.spec import replicated
from ..workload.attention import CAUSAL
from ..workload.scenario import Numbers, Scenario
from .flops import matmul_in, multiplied

# Operations by the dtype of their matmuls.
ByDtype = Mapping[Any, Numbers]


def model_flops(scenario: Scenario) -> ByDtype:
    """Returns the model FLOPs of one run on all devices together, by the dtype of the matmuls."""
    return scenario.once("model FLOPs", lambda: _Count(scenario).block(scenario.plan.program.code.block))


class _Count:
    """One walk over the operations of a program at a scenario."""

    def __init__(self, scenario: Scenario):
        self.scenario, self.code = scenario, scenario.plan.program.code
        self.shares = _shares(scenario.plan.program)

    def block(self, block: Block) -> ByDtype:
        total: dict[Any, Numbers] = defaultdict(float)
        for operation in block.operations:
            for dtype, flops in (self.nested(operation) if operation.blocks else self.matmul(operation)).items():
                total[dtype] = total[dtype] + flops
        return total

    def nested(self, operation: Operation) -> ByDtype:
        """Those of all iterations of a loop, or of the branch that has most."""
        blocks = [self.block(block) for block in operation.blocks]
        dtypes = dict.fromkeys(dtype for block in blocks for dtype in block)
        if operation.name not in LOOPS:
            later = np.maximum if self.scenario.many else max
            return {d: functools.reduce(later, (block.get(d, 0.0) for block in blocks)) for d in dtypes}
        times = self.scenario.trip_count(operation, trip_count(operation) or 1)
        # The test of a `while` runs once more than its body.
        return {d: sum(b.get(d, 0.0) * (times + (at == 1)) for at, b in enumerate(blocks)) for d in dtypes}

    def matmul(self, operation: Operation) -> ByDtype:
        share = self.shares.get(operation, 1.0)
        matmul = matmul_in(operation, self.scenario, lambda: self.shapes(operation)) if share else None
        if matmul is None:
            return {}
        if self.scenario.options.attention == CAUSAL and self.scenario.masked(operation):
            share = share / 2
        return {matmul.dtype: matmul.flops * share}

    def shapes(self, operation: Operation) -> list[tuple[Numbers, ...]]:
        return [self.whole(value) for value in (*operation.inputs, operation.outputs[0])]

    def whole(self, value: Input) -> tuple[Numbers, ...]:
        """The shape of a value on all devices together, without padding."""
        shape = self.code.shape_of(value)
        if not self.scenario.dims or not isinstance(value, int):
            return shape
        return self.scenario.local((value, replicated(len(shape))))


@analysis
def second_runs(program: Program) -> Mapping[Operation, float]:
    """Returns the operations that run a second time, each with the share of its runs that are second ones."""
    shares = _shares(program)
    again = (operation for operation in walk(program.code.block) if operation.rematerialised and not operation.blocks)
    return {operation: 1 - shares.get(operation, 0.0) for operation in again}


@analysis
def _shares(program: Program) -> Mapping[Operation, float]:
    """The share of each rematerialised matmul that counts: none, where the program has its first run too.

    First and second runs are told by line, shapes and depth: regions inside regions run again as often as they are
    deep.
    """
    first: dict[Hashable, int] = defaultdict(int)
    again: dict[Hashable, dict[int, list[tuple[Operation, int]]]] = defaultdict(lambda: defaultdict(list))
    for operation, times, depth in _matmuls(program.code.block, program.code, 1, 0):
        if operation.rematerialised:
            again[_key(operation, program.code)][depth].append((operation, times))
        elif not operation.backward:
            first[_key(operation, program.code)] += times
    shares: dict[Operation, float] = {}
    for key, by_depth in again.items():
        runs = {depth: sum(times for _, times in found) for depth, found in by_depth.items()}
        most = max(runs, key=lambda depth: runs[depth])
        for depth, found in by_depth.items():
            share = max(0.0, 1 - first[key] / runs[depth]) if depth == most else 0.0
            shares.update((operation, share) for operation, _ in found)
    return shares


def _key(operation: Operation, code: Code) -> Hashable:
    operands = tuple(sorted(map(code.shape_of, operation.inputs)))
    return operation.name, operation.source, operands, code.shape_of(operation.outputs[0])


def _matmuls(block: Block, code: Code, times: int, depth: int) -> Iterator[tuple[Operation, int, int]]:
    """Every matmul with how often it runs, and how many rematerialised regions it is in."""
    for operation in block.operations:
        if not operation.blocks and multiplied(operation, code) is not None:
            yield operation, times, depth
        for inside in operation.blocks:
            more = (trip_count(operation) or 1) if operation.name in LOOPS else 1
            yield from _matmuls(inside, code, times * more, depth + (operation.name in REMAT))
