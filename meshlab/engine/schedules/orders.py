"""The schedules of the literature, by name: for each stage the cells in its order.

gpipe        all forward, then all backward, chunk by chunk: Huang et al., arXiv:1811.06965
1f1b         one forward, one backward: PipeDream-Flush, Narayanan et al., arXiv:2006.09503
paired       1f1b for stages in lockstep: each step is a forward and a backward cell, of different micro-batches
interleaved  1f1b over several chunks a stage: Megatron-LM, Narayanan et al., arXiv:2104.04473
zb-h1        the gradients of weights apart, with the memory of 1f1b: Qi et al., arXiv:2401.10241
zb-h2        the same with twice its memory, and no bubble where all cells take as long
zb-v         two chunks a stage, in a V: no bubble, with the memory of 1f1b: Qi et al., section 6
dualpipe-v   two chunks a stage, in a V, forward and backward of two micro-batches beside each other: DeepSeek,
             github.com/deepseek-ai/DualPipe, the halved form of arXiv:2412.19437
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from .cells import BACKWARD, FORWARD, INPUTS, WEIGHTS, Cell, Order, Parts, Step, in_a_v, in_order, steps_of


class Named(NamedTuple):
    """A schedule of the literature.

    Attributes:
        order: makes the order of stages, micro-batches and chunks.
        chunks: how many chunks a stage has; None where that is to be chosen, two by default.
        parts: makes the parts of the stages and chunks.
        least: the fewest micro-batches, for a number of stages.
        multiple: whether micro-batches come in groups of as many as there are stages.
        more: whether a stage may have more chunks.
    """

    order: Callable[[int, int, int], Order]
    chunks: int | None = 1
    parts: Callable[[int, int], Parts] = in_order
    least: Callable[[int], int] = lambda stages: 1
    multiple: bool = False
    more: bool = False

    @property
    def chunks_in_words(self) -> str:
        """How many chunks a stage has, as a text."""
        return "at least 1" if self.more or not self.chunks else str(self.chunks)

    def has(self, chunks: int) -> bool:
        """Whether a stage may have so many chunks."""
        return self.more or self.chunks in (None, chunks)


def _gpipe(stages: int, micro: int, chunks: int) -> Order:
    turns = ((FORWARD, range(chunks)), (BACKWARD, reversed(range(chunks))))
    cells = [Cell(phase, index, chunk) for phase, order in turns for chunk in order for index in range(micro)]
    return (steps_of(cells),) * stages


def _one_f_one_b(stages: int, micro: int, _chunks: int) -> Order:
    forward = [Cell(FORWARD, index) for index in range(micro)]
    backward = [Cell(BACKWARD, index) for index in range(micro)]
    return tuple(steps_of(_alternating(stages - stage - 1, forward, backward)) for stage in range(stages))


def _paired(stages: int, micro: int, _chunks: int) -> Order:
    """Stage s runs micro-batch i forward in tick s + i, and back as soon as the stages behind it are through."""
    rows = []
    for stage in range(stages):
        starts = {FORWARD: stage, BACKWARD: 2 * (stages - 1) - stage}
        ticks: dict[int, Step] = {}
        for phase, start in starts.items():
            for index in range(micro):
                ticks[start + index] = (*ticks.get(start + index, ()), Cell(phase, index))
        rows.append(tuple(ticks[tick] for tick in sorted(ticks)))
    return tuple(rows)


def _interleaved(stages: int, micro: int, chunks: int) -> Order:
    """Groups of as many micro-batches as there are stages go through the first chunks, then through the second ones."""

    def turn(phase: str, order: Iterable[int]) -> list[Cell]:
        order = [*order]
        groups = range(0, micro, stages)
        return [Cell(phase, first + i, chunk) for first in groups for chunk in order for i in range(stages)]

    forward, backward = turn(FORWARD, range(chunks)), turn(BACKWARD, reversed(range(chunks)))
    warm = [2 * (stages - stage - 1) + (chunks - 1) * stages for stage in range(stages)]
    return tuple(steps_of(_alternating(min(ahead, len(forward)), forward, backward)) for ahead in warm)


def _alternating(ahead: int, forward: Sequence[Cell], backward: Sequence[Cell]) -> list[Cell]:
    """Some forward cells ahead, then one forward, one backward in turn, then the backward ones that are left."""
    cells = [*forward[:ahead]]
    for index, gradient in enumerate(backward):
        cells += [*forward[ahead + index : ahead + index + 1], gradient]
    return cells


def _zero_bubble(ahead: Callable[[int, int], int], late: int) -> Callable[[int, int, int], Order]:
    """1f1b with W apart: stage s is `ahead` forward cells ahead, and its W follow `late` × s micro-batches after I."""

    def order(stages: int, micro: int, _chunks: int) -> Order:
        rows = []
        for stage in range(stages):
            waits = min(late * stage, micro)
            cells = _alternating(
                min(ahead(stages, stage), micro),
                [Cell(FORWARD, index) for index in range(micro)],
                [Cell(INPUTS, index) for index in range(micro)],
            )
            row: list[Cell] = []
            for cell in cells:
                row.append(cell)
                if cell.phase == INPUTS and cell.micro >= waits:
                    row.append(Cell(WEIGHTS, cell.micro - waits))
            row += [Cell(WEIGHTS, index) for index in range(micro - waits, micro)]
            rows.append(steps_of(row))
        return tuple(rows)

    return order


class _Row:
    """Writes a stage's steps, each micro-batch of a phase and chunk in its turn."""

    def __init__(self):
        self.steps: list[Step] = []
        self._next: Counter[tuple[str, int]] = Counter()
        self._owed: deque[Cell] = deque()

    def add(self, text: str, times: int = 1) -> None:
        """Adds steps, written as `F0 I1 W F1+B0`: a phase and its chunk; W alone is the oldest that is owed."""
        for _ in range(times):
            self.steps += [tuple(map(self._cell, step.split("+"))) for step in text.split()]

    def _cell(self, text: str) -> Cell:
        if text == WEIGHTS:
            return self._owed.popleft()
        phase, chunk = text[0], int(text[1])
        # A whole backward pass and that of the inputs take the micro-batches of one sequence.
        key = (INPUTS if phase == BACKWARD else phase, chunk)
        cell = Cell(phase, self._next[key], chunk)
        self._next[key] += 1
        if phase == INPUTS:
            self._owed.append(Cell(WEIGHTS, cell.micro, chunk))
        elif phase == WEIGHTS:
            self._owed.remove(cell)
        return cell

    def owed(self) -> None:
        """Adds the gradients of weights that are left, of the second chunk first."""
        self.steps += steps_of(sorted(self._owed, key=lambda cell: (-cell.chunk, cell.micro)))
        self._owed.clear()


def _zb_v(stages: int, micro: int, _chunks: int) -> Order:
    # With fewer micro-batches than fill the V, those of a full one that there are.
    full = max(micro, 2 * stages - 1)
    rows = []
    for stage in range(stages):
        behind, row = stages - stage, _Row()
        row.add("F0", 2 * behind - 1)
        row.add("F1 F0", stage)
        row.add("F1 I1 W1", behind)
        left = full - (2 * behind - 1) - stage
        row.add("F0 I0 W0 F1 I1 W1", left)
        row.add("I0 W0 F1 I1 W1", full - stage - behind - left)
        row.add("I0 I1", stage)
        row.add("I0 W0", behind)
        row.owed()
        rows.append(tuple(step for step in row.steps if step[0].micro < micro))
    return tuple(rows)


def _dualpipe_v(stages: int, micro: int, _chunks: int) -> Order:
    rows = []
    for stage in range(stages):
        behind, row = stages - stage - 1, _Row()
        row.add("F0", 2 * behind)
        row.add("F0 F1", stage + 1)
        row.add("I1 W F1", behind)
        row.add("F0+B1 F1+B0", micro - 2 * stages + stage + 1)
        row.add("B1 F1+B0", behind)
        # The second half of them leaves the gradients of weights for the end.
        turns = ("1", "0") * (stage + 1)
        row.add(" ".join([BACKWARD + chunk for chunk in turns[: stage + 1]]))
        row.add(" ".join([INPUTS + chunk for chunk in turns[stage + 1 :]]))
        row.add("W I0", behind)
        row.owed()
        rows.append(tuple(row.steps))
    return tuple(rows)


_V = {"chunks": 2, "parts": lambda stages, _chunks: in_a_v(stages)}
NAMED: dict[str, Named] = {
    "paired": Named(_paired),
    "gpipe": Named(_gpipe, more=True),
    "1f1b": Named(_one_f_one_b),
    "interleaved": Named(_interleaved, chunks=None, multiple=True),
    "zb-h1": Named(_zero_bubble(lambda stages, stage: stages - stage - 1, late=1)),
    "zb-h2": Named(_zero_bubble(lambda stages, stage: 2 * (stages - stage - 1), late=2)),
    "zb-v": Named(_zb_v, **_V),
    "dualpipe-v": Named(_dualpipe_v, **_V, least=lambda stages: 2 * stages),
}
