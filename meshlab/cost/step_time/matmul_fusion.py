"""What products take in and hand on without a detour by memory, besides what `fusion` finds.

    convert  int8 → bf16, read by products alone      widened on the way into the matrix units      GPU and TPU
    mul  x, scale → y, read by one product            computed on the way into them                 TPU
    product → y → relu → z                            z is computed as y comes out of them          TPU

Source: the programs that XLA compiles for these: on TPUs products are fused with the elementwise work before and behind
them (`kOutput` fusions), on GPUs Triton's products take in conversions (openxla/xla, xla/service/gpu/transforms,
gemm_fusion). cuBLAS, and XLA for CPUs, take in and hand on what lies in memory.
"""

from __future__ import annotations

import dataclasses

from ...engine.planning.steps import Compute, Step
from ..workload.primitives import EXPENSIVE, MATMULS
from .fusion import Fusion, is_bitcast, is_fused


@dataclasses.dataclass(frozen=True)
class Streamed:
    """A block's fusion, with what products stream.

    Attributes:
        fusion: with what is computed on the way into a product virtual.
        handed: numbers of what products make and hand on to the kernel that reads it.
    """

    fusion: Fusion
    handed: frozenset[int]


def streamed(fusion: Fusion, platform: str) -> Streamed:
    """Finds what products stream on a platform: "tpu", "gpu" or "cpu"."""
    if platform == "cpu":
        return Streamed(fusion, frozenset())
    flow, readers = fusion.flow, _readers(fusion)
    kept = {fusion.same[number] for number in flow.outputs}
    gone, handed = list(fusion.gone), set()
    for number in range(len(flow.keys)):
        at = flow.maker[number]
        if at < 0 or number in kept or fusion.gone[number] or fusion.same[number] != number:
            continue
        maker, steps = flow.steps[at], [flow.steps[reader] for reader in readers[number]]
        if is_fused(maker) and steps and all(map(_is_product, steps)):
            gone[number] = _is_conversion(maker) or (platform == "tpu" and len(steps) == 1 and not _is_costly(maker))
        elif platform == "tpu" and _is_product(maker) and len(steps) == 1 and is_fused(steps[0]):
            handed.add(number)
    return Streamed(dataclasses.replace(fusion, gone=gone), frozenset(handed))


def _readers(fusion: Fusion) -> list[set[int]]:
    """For each number the positions of the steps that read it, by whatever shape, or through what is virtual."""
    found: list[set[int]] = [set() for _ in fusion.flow.keys]
    for position, step in enumerate(fusion.flow.steps):
        if not is_bitcast(step) and not fusion.is_gone(position):
            for number in fusion.loaded(position):
                found[number].add(position)
    return found


def _is_product(step: Step) -> bool:
    return isinstance(step, Compute) and step.operation.name in MATMULS and not step.exchanged


def _is_conversion(step: Step) -> bool:
    return isinstance(step, Compute) and step.operation.name == "convert_element_type"


def _is_costly(step: Step) -> bool:
    return isinstance(step, Compute) and step.operation.name in EXPENSIVE
