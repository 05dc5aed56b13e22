"""Names for the values of a file: the user's own words, as far as there are any.

    params/blocks/attention/wq      blocks_attention_wq         an argument, by its place
    hidden = ml.relu(…)             hidden                      what a line assigns
    gradient of params/w1           grad_params_w1
    a partial sum of it             grad_params_w1_partial      and what a gather makes of it: …_gathered
    nothing of that                 product, total, exp, …      by its primitive

In the backward pass what a line makes is `…_back`. A name that is taken gets a number.
"""

from __future__ import annotations

import builtins
import keyword
import re

from ..code.operations import Operation
from ..collectives.kinds import ALL_GATHER, ALL_TO_ALL, COLLECTIVE_PERMUTE, SLICE
from ..planning.steps import move_of
from ..programs.lines import lines
from ..programs.program import Program
from .traced import Note

MOST = 26
_GRADIENT = "grad_"
# By primitive, what its results are called where nothing else is known.
_RESULTS = {
    "dot_general": "product",
    "conv_general_dilated": "convolved",
    "psum": "reduced",
    "all_gather": "gathered",
    "reduce_scatter": "scattered",
    "all_to_all": "exchanged",
    "ppermute": "permuted",
    "add": "added",
    "add_any": "added",
    "sub": "difference",
    "mul": "scaled",
    "div": "quotient",
    "max": "greater",
    "min": "lesser",
    "abs": "magnitude",
    "iota": "indices",
    "reduce_sum": "total",
    "reduce_max": "top",
    "reduce_min": "least",
    "transpose": "turned",
    "select_n": "chosen",
    "concatenate": "joined",
    "dynamic_slice": "part",
    "axis_index": "device",
    "convert_element_type": "cast",
    "broadcast_in_dim": "wide",
    "optimization_barrier": "behind_barrier",
    "scan": "looped",
    "while": "looped",
    "cond": "chosen",
}
# By the kind of a move, how its result is called after its operand.
_MOVED = {ALL_GATHER: "gathered", SLICE: "part", ALL_TO_ALL: "exchanged", COLLECTIVE_PERMUTE: "permuted"}
_TAKEN = ("jax", "jnp", "np", "lax", "mesh", "step", "device", "P", "AxisType", "in_specs", "out_specs")


def identifier(wish: str, most: int = MOST) -> str:
    """Returns a name for Python of some words: of a long path its end."""
    words = re.sub(r"\W+", "_", wish).strip("_") or "value"
    while len(words) > most and "_" in words:
        words = words.partition("_")[2].strip("_")
    words = words[:most]
    return f"_{words}" if words[0].isdigit() else words


class Names:
    """Names that are given once each."""

    def __init__(self, program: Program):
        self.program = program
        self.taken = {*_TAKEN, *keyword.kwlist, *dir(builtins)}
        self.known = self._known()

    def fresh(self, wish: str) -> str:
        """Returns a name that is not taken yet."""
        name = base = identifier(wish)
        count = 2
        while name in self.taken:
            name, count = f"{base}_{count}", count + 1
        self.taken.add(name)
        return name

    def user(self, number: int) -> str | None:
        """Returns the user's own word for a value of the program; None where there is none."""
        return self.known.get(number)

    def wish(self, operation: Operation, note: Note | None, by: Operation | None) -> str:
        """Returns how the result of an operation should be called.

        Args:
            operation: the operation, on shards.
            note: which value of the program it is, if it is one.
            by: the operation of the program that it belongs to, or serves.
        """
        plain = _RESULTS.get(operation.name, operation.name.replace("reduce_", "").replace("-", "_"))
        if note is not None and (own := self.user(note.number)) is not None:
            return self._in_spec(own, note)
        source = by.source if by else None
        if by and source and source.target:
            plain = f"{source.target}_{'back' if by.backward else plain}"
        return self._in_spec(plain, note) if note is not None and note.spec.partial else plain

    @staticmethod
    def _in_spec(word: str, note: Note) -> str:
        move = move_of(note.step) if note.step is not None else None
        kind = _MOVED.get(move.via.kind, "") if move is not None else ""
        end = "partial" if note.spec.partial else kind
        begin = _GRADIENT if word.startswith(_GRADIENT) else ""
        most = MOST - len(begin) - len(end) - bool(end)
        return f"{begin}{identifier(word.removeprefix(begin), most)}{'_' * bool(end)}{end}"

    def _known(self) -> dict[int, str]:
        """Returns the user's words by value; where there are several the first of: argument, tag, line, output."""
        program, original = self.program, self.program.original_of
        known: dict[int, str] = {}
        for place, value in zip(program.outputs, program.code.block.outputs, strict=True):
            if isinstance(value, int):
                known[original.get(value, value)] = place
        for name, numbers in lines(program).assigned.items():
            known.update(dict.fromkeys(numbers, name))
        for place, operations in program.marks.items():
            parameter = program.gradients.get(place)
            name = place if parameter is None else f"{_GRADIENT}{parameter}"
            meant = [op for op in operations if parameter is not None or not op.backward]
            known.update(dict.fromkeys((original.get(n, n) for op in meant for n in op.outputs), name))
        known.update({argument.value: argument.place for argument in program.arguments})
        for value in range(len(program.code.shapes)):
            if (outer := program.outermost(value)) != value and outer in known:
                known.setdefault(value, known[outer])
        return known
