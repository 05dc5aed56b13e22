"""What is wrong with a schedule: cells that are missing, twice or unknown, and stages that wait for each other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from .cells import BACKWARD, FORWARD, INPUTS, PHASES, WEIGHTS, At, Cell, Needs, Order, Parts
from .clock import stuck

_MOST = 6
_STEP = "a step is a cell, or a forward and a backward one"


def problems(order: Order, parts: Parts) -> list[str]:
    """Returns all that is wrong, each as one sentence; of the cells that hang only where all cells are there."""
    found = [*_shapes(order, parts)] or [*_cells(order, parts)]
    return _few(found or [*_hanging(order, parts)])


def written(cell: Cell, part: int) -> str:
    """Writes a cell as PyTorch does: part of the model, phase, micro-batch."""
    return f"{part}{cell.phase}{cell.micro}"


def wrong_parts(parts: Parts) -> list[str]:
    """Returns what is wrong with the parts of the model that stages hold."""
    held = sorted(part for each in parts for part in each)
    if held and held == list(range(len(held))) and len({len(each) for each in parts}) == 1:
        return []
    return [f"its stages hold the parts {', '.join(map(str, parts))}; each part must be on one stage, as many on each"]


def _shapes(order: Order, parts: Parts) -> Iterator[str]:
    if not order or not any(order):
        yield "it has no cell"
        return
    yield from wrong_parts(parts)
    if len(parts) != len(order):
        yield f"it has {len(order)} stages, and parts for {len(parts)}"
        return
    for stage, steps in enumerate(order):
        for step in steps:
            phases = [cell.phase for cell in step]
            if len(step) == 2 and (phases[0] != FORWARD or phases[1] == FORWARD):
                yield f"stage {stage} has {'+'.join(phases)} in one step; {_STEP}"
            elif len(step) not in (1, 2):
                yield f"stage {stage} has {len(step)} cells in one step; {_STEP}"
            for cell in step:
                if cell.phase not in PHASES or cell.micro < 0 or not 0 <= cell.chunk < len(parts[stage]):
                    yield f"stage {stage} has an unknown cell: {cell}"


def _cells(order: Order, parts: Parts) -> Iterator[str]:
    micro = 1 + max(cell.micro for steps in order for step in steps for cell in step)
    for stage, steps in enumerate(order):
        count = Counter(cell for step in steps for cell in step)
        for cell, times in count.items():
            if times > 1:
                yield f"{written(cell, parts[stage][cell.chunk])} runs {times} times, on stage {stage}"
        for chunk, part in enumerate(parts[stage]):
            for index in range(micro):
                has = {phase for phase in PHASES if count[Cell(phase, index, chunk)]}
                yield from _one(has, part, index, stage)


def _one(has: set[str], part: int, index: int, stage: int) -> Iterator[str]:
    """What is wrong with the cells of one micro-batch in one part."""
    of = f"micro-batch {index} in part {part}, on stage {stage}"
    if FORWARD not in has:
        yield f"{part}{FORWARD}{index} is missing, the forward pass of {of}"
    if BACKWARD in has and has & {INPUTS, WEIGHTS}:
        extra = " and ".join(f"{part}{phase}{index}" for phase in (INPUTS, WEIGHTS) if phase in has)
        yield f"{part}{BACKWARD}{index} is the whole backward pass of {of}; {extra} would repeat it"
    elif BACKWARD not in has:
        missing = [f"{part}{phase}{index}" for phase in (INPUTS, WEIGHTS) if phase not in has]
        if len(missing) == 2:
            yield f"{part}{BACKWARD}{index} is missing, the backward pass of {of}"
        elif missing:
            yield f"{missing[0]} is missing, of the backward pass of {of}"


def _hanging(order: Order, parts: Parts) -> Iterator[str]:
    needs = Needs.of(parts, order)
    places = dict(stuck(order, needs))
    never = {(stage, cell) for stage, place in places.items() for step in order[stage][place:] for cell in step}
    for stage, place in places.items():
        step = [(stage, cell) for cell in order[stage][place]]
        for at in step:
            for need in needs.of_cell(*at):
                if need in never and need not in step:
                    waits = f"stage {stage} waits at {_name(at, parts)}"
                    yield f"it hangs: {waits} for {_name(need, parts)} on stage {need[0]}"


def _name(at: At, parts: Parts) -> str:
    stage, cell = at
    return written(cell, parts[stage][cell.chunk])


def _few(found: list[str]) -> list[str]:
    return found if len(found) <= _MOST else [*found[:_MOST], f"and {len(found) - _MOST} more"]
