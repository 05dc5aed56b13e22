"""Fuses elementwise operations into the prologues and epilogues of matmuls, beyond `fusion`.

    convert  int8 → bf16, read by matmuls alone       prologue: widened on the way into the matrix units    GPU and TPU
    mul  x, scale → y, read by one matmul             prologue: computed on the way into them               TPU
    matmul → y → relu → z                             epilogue: z is computed as y comes out of them        TPU

Source: the programs that XLA compiles for these: on TPUs matmuls are fused with the elementwise operations before and
behind them (`kOutput` fusions), on GPUs Triton's matmuls fuse conversions (openxla/xla, xla/service/gpu/transforms,
gemm_fusion). cuBLAS, and XLA for CPUs, read operands from memory and write results to it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from ...engine.planning.step import Step
from ..workload.primitives import EXPENSIVE, MATMULS
from .fusion import Fusion, is_bitcast, is_fused


@dataclasses.dataclass(frozen=True)
class MatmulFusion:
    """A block's fusion, with the prologues and epilogues of matmuls.

    Attributes:
        fusion: of the block; prologues are virtual.
        epilogue: numbers of the keys that pass from a matmul to its epilogue without memory.
    """

    fusion: Fusion
    epilogue: frozenset[int]


def fuse_matmuls(fusion: Fusion, platform: str) -> MatmulFusion:
    """Returns a block's fusion with prologues and epilogues on a platform: "tpu", "gpu" or "cpu"."""
    if platform == "cpu":
        return MatmulFusion(fusion, frozenset())
    flow, readers = fusion.flow, _readers(fusion)
    returned = {fusion.same[number] for number in flow.outputs}
    prologue, epilogue = set(), set()
    for number in range(len(flow.keys)):
        at = flow.maker[number]
        if at < 0 or number in returned or fusion.gone[number] or fusion.same[number] != number:
            continue
        maker, steps = flow.steps[at], [flow.steps[reader] for reader in readers[number]]
        if is_fused(maker) and steps and all(map(_is_matmul, steps)):
            if _is_conversion(maker) or (platform == "tpu" and len(steps) == 1 and not _is_expensive(maker)):
                prologue.add(number)
        elif platform == "tpu" and _is_matmul(maker) and len(steps) == 1 and is_fused(steps[0]):
            epilogue.add(number)
    return MatmulFusion(fusion.with_virtual(prologue), frozenset(epilogue))


@dataclasses.dataclass(frozen=True)
class Beside:
    """The collectives of a block that may go piece by piece beside matmuls, by position.

    Attributes:
        gathers: those whose result matmuls alone read.
        sums: those of what a matmul makes, or several that are added, with the position of the last of them.
    """

    gathers: frozenset[int]
    sums: Mapping[int, int]


# Where none may.
NOT_BESIDE = Beside(frozenset(), {})


def beside_matmuls(fusion: Fusion) -> Beside:
    """Returns the collectives of a block that may go piece by piece beside matmuls."""
    flow, readers = fusion.flow, _readers(fusion)
    returned, gathers, sums = set(flow.outputs), set(), {}
    for position, step in enumerate(flow.steps):
        via, makes = step.collective, flow.makes[position]
        if via is None or not via.kind.sends or fusion.is_gone(position):
            continue
        if via.kind.sums:
            last = max((_made_by(fusion, number) for number in fusion.loaded(position)), default=-1)
            sums |= {position: last} if last >= 0 else {}
        else:
            reading = {reader for number in makes for reader in readers[number]}
            if reading and returned.isdisjoint(makes) and all(_is_matmul(flow.steps[at]) for at in reading):
                gathers.add(position)
    return Beside(frozenset(gathers), sums)


def _made_by(fusion: Fusion, number: int) -> int:
    """Returns the position of the matmul that makes a value, or of the last one of which it is computed; -1."""
    at = fusion.flow.maker[number]
    if at < 0 or _is_matmul(fusion.flow.steps[at]):
        return at
    makers = [_made_by(fusion, term) for term in fusion.loaded(at)] if is_fused(fusion.flow.steps[at]) else []
    return max(makers) if makers and min(makers) >= 0 else -1


def _readers(fusion: Fusion) -> list[set[int]]:
    """For each number the positions of the steps that read it, through aliases and virtual keys."""
    readers: list[set[int]] = [set() for _ in fusion.flow.keys]
    for position, step in enumerate(fusion.flow.steps):
        if not is_bitcast(step) and not fusion.is_gone(position):
            for number in fusion.loaded(position):
                readers[number].add(position)
    return readers


def _is_matmul(step: Step) -> bool:
    return step.primitive in MATMULS and not step.per_shard


def _is_conversion(step: Step) -> bool:
    return step.primitive == "convert_element_type"


def _is_expensive(step: Step) -> bool:
    return step.primitive in EXPENSIVE
