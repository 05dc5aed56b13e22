"""The cells of a schedule: one micro-batch's pass through one chunk of the model, and what each waits for.

The letters are those of PyTorch's schedules (`torch.distributed.pipelining`):

    F   forward
    B   the whole backward pass
    I   the gradient of the chunk's input alone
    W   the gradient of its weights, which I leaves for later

A stage may hold several *chunks* of the model; `parts` says which part of the model each chunk is, in the order of the
forward pass. Stages that hold two, the first in order and the last in reverse, form a V.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

FORWARD, BACKWARD, INPUTS, WEIGHTS = PHASES = "FBIW"


class Cell(NamedTuple):
    """What a stage computes at once: a phase of a micro-batch in one of its chunks."""

    phase: str
    micro: int
    chunk: int = 0


# What a stage does between two exchanges: one cell, or a forward cell and then one of the backward pass.
Step = tuple[Cell, ...]
Order = tuple[tuple[Step, ...], ...]
# By stage and chunk the part of the model.
Parts = tuple[tuple[int, ...], ...]
# A cell of a stage.
At = tuple[int, Cell]


class Costs(NamedTuple):
    """How long one micro-batch takes on a stage with all its chunks, in any unit of time."""

    forward: float = 1.0
    inputs: float = 1.0
    weights: float = 1.0

    def of(self, phase: str) -> float:
        return {FORWARD: self.forward, INPUTS: self.inputs, WEIGHTS: self.weights}.get(
            phase, self.inputs + self.weights
        )

    def scaled(self, share: float) -> Costs:
        return Costs(*(cost * share for cost in self))


# Forward pass and both gradients take as long.
EQUAL = Costs()


def in_order(stages: int, chunks: int = 1) -> Parts:
    """Returns parts dealt to the stages in turn: the first chunks of all stages, then their second ones."""
    return tuple(tuple(chunk * stages + stage for chunk in range(chunks)) for stage in range(stages))


def in_a_v(stages: int) -> Parts:
    """Returns two parts for each stage: the first chunks in order, the second ones back again."""
    return tuple((stage, 2 * stages - 1 - stage) for stage in range(stages))


@dataclasses.dataclass(frozen=True)
class Needs:
    """Finds what each cell waits for.

    Attributes:
        parts: by stage and chunk the part of the model.
        home: by part the stage that has it, and as which chunk.
        found: the cells that the schedule has.
    """

    parts: Parts
    home: Mapping[int, tuple[int, int]]
    found: frozenset[At]

    @classmethod
    def of(cls, parts: Parts, order: Order) -> Needs:
        home = {part: (stage, chunk) for stage, held in enumerate(parts) for chunk, part in enumerate(held)}
        found = frozenset((stage, cell) for stage, steps in enumerate(order) for step in steps for cell in step)
        return cls(parts, home, found)

    def of_cell(self, stage: int, cell: Cell) -> Iterator[At]:
        """Yields the cells that have to end first; from another stage their result is sent."""
        part = self.parts[stage][cell.chunk]
        if cell.phase == FORWARD:
            if part:
                yield self._at(FORWARD, part - 1, cell.micro)
        elif cell.phase == WEIGHTS:
            yield self._at(INPUTS, part, cell.micro)
        else:
            yield self._at(FORWARD, part, cell.micro)
            if part + 1 in self.home:
                yield self._gradient(part + 1, cell.micro)

    def _at(self, phase: str, part: int, micro: int) -> At:
        stage, chunk = self.home[part]
        return stage, Cell(phase, micro, chunk)

    def _gradient(self, part: int, micro: int) -> At:
        """The cell that makes the gradient of a part's input: its whole backward pass, or that of the input alone."""
        whole = self._at(BACKWARD, part, micro)
        return whole if whole in self.found else self._at(INPUTS, part, micro)


def steps_of(cells: Sequence[Cell]) -> tuple[Step, ...]:
    """Returns a step for each cell."""
    return tuple((cell,) for cell in cells)
