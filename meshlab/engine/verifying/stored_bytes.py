"""Compares the bytes of arguments and outputs on a device: as planned, and as a compiler stores them.

CPUs and GPUs store an array in as many bytes as it has. TPUs store it in tiles: `f32[8,16]{1,0:T(8,128)}` takes the
4,096 bytes of `f32[8,128]`. The tiles stand in the first line of the compiled text, beside the shape of each argument
and output, so what is planned is rounded as they round it, array by array.

    planned 512 B of f32[8,16]      →  4,096 B on a TPU, and so `memory_analysis` says

Nothing here needs a device: text and analysis may come from a compiler of an absent machine.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from ..plans.plan_data import Plan
from .hlo_text import arrays

# Bytes of arguments and of outputs.
Pair = tuple[int, int]
_LAYOUT = re.compile(r"entry_computation_layout=\{\((.*)\)->(.*?)\}(?:, [a-z_]+=|$)")
_ARRAY = re.compile(r"([a-z][a-z0-9]*\[[\d,]*\])(?:\{([\d,]*)(?::([^}]*))?\})?")
_TILE = re.compile(r"T\(([\d,]+)\)")
# Bytes of a pointer and of a block of memory: several outputs are a table of pointers as well, in whole blocks.
_TPU, _OTHERS = (4, 512), (8, 8)


def stored_bytes(plan: Plan, text: str, analysis: Any, platform: str) -> tuple[Pair, Pair]:
    """Returns the bytes of arguments and outputs on a device, planned and compiled.

    Args:
        plan: the plan.
        text: of the program that was compiled from it, with every argument in it (`keep_unused`).
        analysis: what `memory_analysis()` says of it, or anything with its fields.
        platform: "cpu", "tpu", "gpu" or "cuda".
    """
    planned = plan.argument_sizes, plan.output_sizes
    compiled = int(analysis.argument_size_in_bytes), int(analysis.output_size_in_bytes)
    if platform == "tpu" and (layouts := _LAYOUT.search(text.partition("\n")[0])):
        planned = tuple(_in_tiles(sizes, printed) for sizes, printed in zip(planned, layouts.groups(), strict=True))
    arguments, outputs = map(sum, planned)
    pointer, block = _TPU if platform == "tpu" else _OTHERS
    table = -(-pointer * len(plan.output_sizes) // block) * block if len(plan.output_sizes) > 1 else 0
    # Some back ends count the table, and some do not.
    return (arguments, outputs), (compiled[0], compiled[1] - (table if compiled[1] != outputs else 0))


def _in_tiles(sizes: Sequence[int], printed: str) -> tuple[int, ...]:
    """Rounds the bytes of planned arrays as the tiles of compiled ones do; what is not compiled so is left."""
    compiled = [
        (sum(n for _, n in arrays(array)), _tiled(array, order, tiles))
        for array, order, tiles in _ARRAY.findall(printed)
    ]
    if len(compiled) != len(sizes):
        return tuple(sizes)
    return tuple(tiled if size == exact else size for size, (exact, tiled) in zip(sizes, compiled, strict=True))


def _tiled(array: str, order: str, attributes: str) -> int:
    """Returns the bytes of an array in tiles.

    Example:
        >>> _tiled("f32[8,16]", "1,0", "T(8,128)"), _tiled("s32[]", "", "T(128)")
        (4096, 512)
    """
    ((_, size),) = arrays(array)
    shape = [int(n) for n in re.findall(r"\d+", array.partition("[")[2])]
    tile = [int(n) for n in tiles[1].split(",")] if (tiles := _TILE.search(attributes)) else []
    count = math.prod(shape)
    if not tile or not count:
        return size
    major_first = [shape[int(i)] for i in reversed(order.split(",")) if i]
    major_first = [1] * (len(tile) - len(major_first)) + major_first
    outer, inner = major_first[: -len(tile)], major_first[-len(tile) :]
    return size // count * math.prod(outer) * math.prod(-(-n // t) * t for n, t in zip(inner, tile, strict=True))
