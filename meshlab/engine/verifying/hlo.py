"""Reads the collectives of a compiled program from its text, to compare a plan's prediction with.

    compiled = jax.jit(f).lower(x).compile()
    read_collectives(compiled.as_text(), {"data": 2, "model": 4})
    -> (HloCollective(kind="all-reduce", axes=("model",), payload_bytes=4096, dtype="float32", times=3, ...),)

The text is walked from its entry through every computation that is called, with multiplicity: the body of a loop
counts by the loop's trip count, its condition once more. The start of an asynchronous collective is counted, its
end is not. Payload is the bytes of the operands on one device, found where the operands are made. An all-reduce
inside a fusion named `all-reduce-scatter` is a reduce-scatter; a TPU's chain of fusions that share one collective
carries a `chain_id` and counts once.

Compare bytes by kind and axes (`totals`), not counts: XLA joins several collectives into one operation (one record per
dtype then), and the text has no names of mesh axes. XLA for CPU widens bfloat16 to float32 and 8-bit floats to
float16, so that such a payload counts double there; `dtype` is the executed one. Data that a kernel moves by itself,
inside a custom call, are not seen.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping

from ..collectives.kinds import ALL_REDUCE, ALL_TO_ALL, KINDS, PAIRS, RAGGED_IN_HLO, REDUCE_SCATTER
from ..errors import RunError
from .hlo_groups import axes_of_groups, axes_of_pairs, read_groups
from .hlo_text import Instruction, arrays, parse_module, shapes
from .hlo_walk import Visit, moves, visits


@dataclasses.dataclass(frozen=True)
class HloCollective:
    """One collective of a compiled program.

    Attributes:
        kind: one of `KINDS`; a ragged all-to-all is one, whose payload is all that it may send.
        axes: mesh axes in the mesh's order, without axes of size 1; empty where each device is alone; None where
            the devices that take part are those of no set of axes.
        payload_bytes: of its operands on one device, for one execution.
        dtype: what is executed, in JAX's name.
        times: executions in one run of the program.
        name: of the instruction.
        conditional: whether it stands in a branch (of `lax.cond`), and is counted as if that branch were taken.
        where: the operation that JAX made it from, such as `jit(f)/shard_map/psum`; may be empty.
        operands: bytes of each operand on one device: XLA joins several collectives into one.
        shapes: the shape of each operand.
    """

    kind: str
    axes: tuple[str, ...] | None
    payload_bytes: int
    dtype: str
    times: int
    name: str
    conditional: bool = False
    where: str = ""
    operands: tuple[int, ...] = ()
    shapes: tuple[tuple[int, ...], ...] = ()


def read_collectives(
    text: str | None, axes: Mapping[str, int], unknown_trips: int | None = None
) -> tuple[HloCollective, ...]:
    """Reads the collectives of a compiled program; one that it cannot read is an error: none is passed over.

    Args:
        text: what `compiled.as_text()` returns.
        axes: the mesh's sizes by name, major first; devices are numbered row-major.
        unknown_trips: the trip count of loops for which the text has none, as of a `lax.while_loop` that stops by its
            data. None makes such a loop an error if a collective stands in it.

    Returns:
        The collectives, callers before the called; of computations called from several places, once for each place.

    Example:
        >>> hlo = '''ENTRY %main (x: f32[4]) -> f32[4] {
        ...   %x = f32[4]{0} parameter(0)
        ...   ROOT %y = f32[4]{0} all-reduce(%x), replica_groups={{0,1},{2,3}}, to_apply=%add
        ... }'''
        >>> [(c.kind, c.axes, c.payload_bytes) for c in read_collectives(hlo, {"data": 2, "model": 2})]
        [('all-reduce', ('model',), 16)]
    """
    if text is None:
        raise RunError("Compiled HLO text was expected, got None: JAX has no text of this compiled program.")
    module = parse_module(text)
    _check_devices(text, axes)
    collectives, chains = [], {}
    for visit in visits(module, unknown_trips):
        for instruction in filter(moves, visit.computation.instructions.values()):
            chain = re.search(r'chain_id="(\w+)"', instruction.attributes)
            place = visit.computation.name
            # The links of a chain stand in different computations; the same one again is another execution.
            if chain is None or chains.setdefault((chain[1], instruction.opcode), place) == place:
                collectives += _read(instruction, visit, axes)
    return tuple(collectives)


def totals(collectives: Iterable[HloCollective]) -> dict[tuple[str, tuple[str, ...] | None], int]:
    """Adds up payload bytes x executions by kind and axes; collectives in which each device is alone move nothing.

    Example:
        >>> totals([HloCollective("all-reduce", ("data",), 16, "float32", 3, "psum")])
        {('all-reduce', ('data',)): 48}
    """
    sums: Counter = Counter()
    for collective in collectives:
        if collective.axes != () and collective.payload_bytes and collective.times:
            sums[collective.kind, collective.axes] += collective.payload_bytes * collective.times
    return dict(sums)


def _check_devices(text: str, axes: Mapping[str, int]) -> None:
    header = text.lstrip().partition("\n")[0]
    if not header.startswith("HloModule"):
        return
    replicas, partitions = (
        int(match[1]) if (match := re.search(rf"\b{key}=(\d+)", header)) else 1
        for key in ("replica_count", "num_partitions")
    )
    if replicas > 1:
        raise RunError(
            f"The program was compiled for {replicas} replicas, whose devices are numbered differently from a mesh's;"
            " compile it with jax.jit over a mesh instead of jax.pmap."
        )
    if partitions != math.prod(axes.values()):
        mesh = " x ".join(f"{name}={size}" for name, size in axes.items()) or "one device"
        raise RunError(
            f"The program was compiled for {partitions} devices; the mesh ({mesh}) has {math.prod(axes.values())}."
            " Pass the axes of the mesh that it was compiled for, in their order."
        )


def _read(instruction: Instruction, visit: Visit, axes: Mapping[str, int]) -> list[HloCollective]:
    """Reads one instruction that moves data: one record for each dtype among its operands."""
    kind = instruction.opcode.removesuffix("-start")
    # In place, a permute lists its results and offsets among its operands.
    ragged = kind == RAGGED_IN_HLO
    kind = ALL_TO_ALL.name if ragged else kind
    if kind not in KINDS or instruction.attribute("slice_sizes") is not None:
        raise RunError(
            f"The compiled program moves data by `{instruction.opcode}` (`%{instruction.name}`), in a form that"
            " meshlab cannot read. It reads: " + ", ".join(KINDS) + "."
        )
    payload: dict[str, list[tuple[int, tuple[int, ...]]]] = {}
    # A ragged one has more operands: an array that is written to, and numbers of what is where.
    operands = visit.computation.operand_types(instruction)[: 1 if ragged else None]
    for printed in operands:
        for (dtype, size), shape in zip(arrays(printed), shapes(printed), strict=True):
            payload.setdefault(dtype, []).append((size, shape))
    if KINDS[kind].way == PAIRS:
        along = axes_of_pairs(instruction.attribute("source_target_pairs") or "", axes)
    else:
        groups = read_groups(instruction.attribute("replica_groups") or "{}", math.prod(axes.values()))
        along = axes_of_groups(groups, axes)
    if kind == ALL_REDUCE.name and "all-reduce-scatter" in visit.computation.name:
        kind = REDUCE_SCATTER.name
    facts = (visit.times, instruction.name, visit.conditional, instruction.op_name)
    records = []
    for dtype, operands in payload.items():
        sizes, of = zip(*operands, strict=True)
        records.append(HloCollective(kind, along, sum(sizes), dtype, *facts, operands=sizes, shapes=of))
    return records
