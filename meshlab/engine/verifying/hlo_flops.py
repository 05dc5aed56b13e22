"""Counts the floating-point operations of the matmuls and convolutions in a compiled program, on one device.

    flops(compiled.as_text())       2 · rows · columns · inner of each, as often as it runs

A multiplication and its addition are two, those of complex numbers eight. Matmuls of wide integers and of booleans are
not counted, as the matrix units do not run them; nor what XLA hands to a library, inside a custom call.
"""

from __future__ import annotations

import math
import re

from .hlo_text import Computation, Instruction, arrays, parse_module, shapes
from .hlo_walk import visits

_PER_PRODUCT = {"complex64": 8, "complex128": 8}


def flops(text: str) -> float:
    """Returns the FLOPs of one run of a compiled program on one device; of a loop of unknown length one turn counts."""
    module = parse_module(text)
    return float(
        sum(
            visit.times * _flops(instruction, visit.computation)
            for visit in visits(module, 1, _multiplies)
            for instruction in visit.computation.instructions.values()
            if _multiplies(instruction)
        )
    )


def _multiplies(instruction: Instruction) -> bool:
    return instruction.opcode in ("dot", "convolution")


def _flops(instruction: Instruction, computation: Computation) -> int:
    ((dtype, _),) = arrays(instruction.type)
    (result,) = shapes(instruction.type)
    wide = re.fullmatch(r"u?int(16|32|64)|bool", dtype)
    read = [shapes(printed)[0] for printed in computation.operand_types(instruction)]
    inner = _inner_of_dot(instruction, read[0]) if instruction.opcode == "dot" else _taps(instruction, read[1])
    return 0 if wide else _PER_PRODUCT.get(dtype, 2) * math.prod(result) * inner


def _inner_of_dot(instruction: Instruction, left: tuple[int, ...]) -> int:
    """The contracted size."""
    axes = re.findall(r"\d+", instruction.attribute("lhs_contracting_dims") or "")
    return math.prod(left[int(axis)] for axis in axes)


def _taps(instruction: Instruction, kernel: tuple[int, ...]) -> int:
    """How many elements of the kernel make one of the result: all but those of its output features."""
    labels = (instruction.attribute("dim_labels") or "").split("_")[1].split("->")[0]
    return math.prod(size for size, label in zip(kernel, labels, strict=True) if label != "o")
