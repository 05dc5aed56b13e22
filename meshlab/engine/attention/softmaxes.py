"""Reads what a program computes with scores, as sums of products.

    weights = exp(scores - max) / sum          E / T
    of_scores, in the backward pass            c · E·W / T  -  c · E·R / T²

E are the exponentials of scores, T their sum over the keys; W is the gradient of the weights, a matmul of the result's
gradient with the values, and R the sum of E·W over the keys. All spellings of a softmax and of its gradient are these
two sums, whichever rule differentiates it. What comes out as one of them is attention; anything else is not.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..code.computed import computed
from ..code.loops import carried
from ..code.operations import Input, Literal, Operation, walk
from ..jax_compat import REMAT
from ..programs.program import Program
from ..rules import ELEMENTWISE, TRAITS
from .kept import kept
from .shown import KEY, QUERY, Masks, Shown

# A product: the power of each factor. A sum: the coefficient of each product.
Factor = tuple[str, int] | tuple[str, int, int]
Product = frozenset[tuple[Factor, int]]
Sum = dict[Product, float]

EVERY = Shown()
_ONE: Product = frozenset()
# Anything below this is taken to hide a score: its exponential is zero.
_HIDDEN = -1e3


@dataclasses.dataclass(frozen=True)
class Logits:
    """What exponentials are taken of: a product of queries and keys, scaled and masked.

    Attributes:
        product: the value that the matmul makes.
        scale: what it is multiplied by.
        shown: which of it counts.
    """

    product: int
    scale: float = 1.0
    shown: Shown = EVERY


class Softmaxes:
    """Reads the values of a program that have the positions of queries and of keys.

    Attributes:
        program: read before equal operations are merged.
        query, key: the dims of the positions.
    """

    def __init__(self, program: Program, query: str, key: str):
        self.program, self.query, self.key = program, query, key
        self.code = program.unmerged
        self.makers: dict[int, Operation] = {}
        self.outside: dict[int, int] = {}
        for operation in walk(self.code.block):
            self.makers.update(dict.fromkeys(operation.outputs, operation))
            self.outside.update(self._from_outside(operation))
        self.masks = Masks(self.code, self.makers, self.source)
        self.known: dict[int, Sum | None] = {}
        self.numbers: dict[int, float | None] = {}
        self.logits_of: dict[int, Logits] = {}

    def _from_outside(self, operation: Operation) -> Iterator[tuple[int, int]]:
        """Yields what comes into a rematerialised region, or from the same layer of a loop that stacks it for another.

        With the value that it is.
        """
        if operation.name in REMAT:
            pairs = zip(operation.blocks[0].inputs, operation.inputs, strict=True)
            yield from ((inner, outer) for inner, outer in pairs if isinstance(outer, int))
        if operation.name == "scan":
            count = carried(operation)
            for inner, outer in zip(operation.blocks[0].inputs[count:], operation.inputs[count:], strict=True):
                stack = self.source(outer) if isinstance(outer, int) else -1
                maker = self.makers.get(stack)
                if maker is not None and maker.name == "scan":
                    place = maker.outputs.index(stack)
                    made = maker.blocks[0].outputs[place]
                    if place >= carried(maker) and isinstance(made, int):
                        yield inner, made

    def names(self, value: Input) -> tuple[str | None, ...]:
        """Returns the names of a value's axes."""
        return self.program.names[value] if isinstance(value, int) else ()

    def is_score(self, value: Input) -> bool:
        """Says whether a value has the positions of queries and of keys."""
        return {self.query, self.key} <= set(self.names(value))

    def source(self, value: int) -> int:
        """Returns the value that what comes into a region or a loop is, where it is made."""
        while value in self.outside:
            value = self.outside[value]
        return value

    def origin(self, value: int) -> int:
        """Returns the value whose elements these are, in whatever order and dtype."""
        while True:
            value = self.source(value)
            maker = self.makers.get(value)
            before = kept(maker, value)
            if maker is None or maker.name == "broadcast_in_dim" or not isinstance(before, int):
                return value
            value = before

    # Numbers

    def number(self, value: Input) -> float | None:
        """Returns the number that a value is everywhere, where the program says it."""
        if isinstance(value, Literal):
            array = np.asarray(value.value)
            return float(array) if (array.ndim == 0 and array.dtype.kind in "fiub") or array.size == 1 else None
        value = self.source(value)
        if value not in self.numbers:
            self.numbers[value] = self._number(value)
        return self.numbers[value]

    def _number(self, value: int) -> float | None:
        if value in self.code.constants:
            array = np.asarray(self.code.constants[value])
            return float(array.reshape(())) if array.size == 1 and array.dtype.kind in "fiu" else None
        maker = self.makers.get(value)
        if maker is not None and maker.name in ELEMENTWISE:
            given = [self.number(each) for each in maker.inputs]
            if None in given:
                return None
            number = computed(maker, given)
            return None if number.dtype.kind == "c" or np.isnan(number) else float(number)
        before = kept(maker, value)
        return None if before is None else self.number(before)

    # Sums of products

    def terms(self, value: Input) -> Sum | None:
        """Returns the sum of products that a value is; None where it is none."""
        number = self.number(value)
        if number is not None:
            return {_ONE: number} if number else {}
        assert isinstance(value, int)
        value = self.source(value)
        if value not in self.known:
            self.known[value] = None
            maker = self.makers.get(value)
            self.known[value] = self._made(value, maker) if maker is not None and self._aligned(maker) else None
        return self.known[value]

    def _made(self, value: int, maker: Operation) -> Sum | None:
        name, before = maker.name, kept(maker, value)
        if before is not None:
            return self.terms(before)
        if name == "dot_general":
            return {frozenset({(("of_weights", value), 1)}): 1.0} if self.is_score(value) else None
        if name == "exp":
            logits = self.logits(maker.inputs[0])
            if logits is None or not self.is_score(value):
                return None
            self.logits_of[value] = logits
            return {frozenset({(("exp", value), 1)}): 1.0}
        if name == "reduce_sum":
            return self._over_keys(maker)
        if name == "select_n" and len(maker.inputs) == 3:
            return self._selected(maker)
        combine = _SUMS.get(name)
        given = [self.terms(each) for each in maker.inputs] if combine else [None]
        return combine(maker, *given) if combine and None not in given else None

    def _over_keys(self, maker: Operation) -> Sum | None:
        """The sum over the keys: of E it is T, and of E·W it is R."""
        before, shape = self.names(maker.inputs[0]), self.code.shape_of(maker.inputs[0])
        terms, axes = self.terms(maker.inputs[0]), [axis for axis in maker.params["axes"] if shape[axis] != 1]
        if terms is None or not axes:
            return terms
        if [before[axis] for axis in axes] != [self.key]:
            return None
        summed: Sum = {}
        for product, coefficient in terms.items():
            powers = dict(product)
            over = [(factor, powers.pop(factor)) for factor in list(powers) if factor[0] in ("exp", "of_weights")]
            over.sort()
            if [(factor[0], power) for factor, power in over] == [("exp", 1)]:
                new: Factor = ("total", over[0][0][1])
            elif [(factor[0], power) for factor, power in over] == [("exp", 1), ("of_weights", 1)]:
                new = ("weighted", over[0][0][1], over[1][0][1])
            else:
                return None
            powers[new] = powers.get(new, 0) + 1
            _add(summed, _product(powers), coefficient)
        return summed

    def _selected(self, maker: Operation) -> Sum | None:
        """What is zero where a mask hides exponentials that are its factors: as much as without the mask."""
        shown, yes, no = self._masked(maker)
        terms = self.terms(yes) if yes is not None else None
        if shown is None or terms is None or self.number(no) != 0:
            return None
        for product in terms:
            hidden = [self.logits_of[factor[1]].shown for factor, power in product if factor[0] == "exp" and power > 0]
            if shown not in hidden:
                return None
        return terms

    def _masked(self, maker: Operation) -> tuple[Shown | None, Input | None, Input]:
        """Which scores a selection keeps, what these are, and what it puts in place of the others."""
        mask, no, yes = maker.inputs
        one, other = self.number(no), self.number(yes)
        # Scores are kept where the mask is false, or zero is added to them there.
        inverse = other is not None and (one is None or other < one)
        roles = [{self.query: QUERY, self.key: KEY}.get(name or "") for name in self.names(maker.outputs[0])]
        sizes = self.program.dims[self.query], self.program.dims[self.key]
        if self.code.shape_of(mask) != self.code.shapes[maker.outputs[0]]:
            return None, None, no
        if inverse:
            return self.masks.shown(mask, roles, sizes, true=False), no, yes
        return self.masks.shown(mask, roles, sizes), yes, no

    # Logits

    def logits(self, value: Input) -> Logits | None:
        """Returns what exponentials are taken of, without what is the same for all keys of a query."""
        if not isinstance(value, int):
            return None
        value = self.source(value)
        maker = self.makers.get(value)
        if maker is None or not self._aligned(maker):
            return None
        if maker.name == "dot_general" and self.is_score(value):
            return Logits(value)
        if (before := kept(maker, value)) is not None:
            return self.logits(before)
        if maker.name == "sub" and self._same_for_all_keys(maker.inputs[1]):
            return self.logits(maker.inputs[0])
        if maker.name in ("mul", "div"):
            return self._scaled(maker)
        if maker.name == "select_n" and len(maker.inputs) == 3:
            shown, yes, no = self._masked(maker)
            return self._hiding(shown, yes, no)
        if maker.name == "add":
            return self._biased(maker)
        return None

    def _scaled(self, maker: Operation) -> Logits | None:
        one, other = maker.inputs
        number = self.number(other)
        if number is None and maker.name == "mul":
            one, number = other, self.number(one)
        logits = self.logits(one) if number and np.isfinite(number) else None
        if logits is None or number is None or logits.shown != EVERY:
            return None
        by = 1 / number if maker.name == "div" else number
        return dataclasses.replace(logits, scale=logits.scale * by)

    def _hiding(self, shown: Shown | None, yes: Input | None, no: Input) -> Logits | None:
        number, logits = self.number(no), self.logits(yes) if yes is not None else None
        if shown is None or logits is None or number is None or number > _HIDDEN or logits.shown != EVERY:
            return None
        return dataclasses.replace(logits, shown=shown)

    def _biased(self, maker: Operation) -> Logits | None:
        """Scores to which a large negative number is added where a mask hides them."""
        for scores, bias in (maker.inputs, maker.inputs[::-1]):
            chosen = bias
            while isinstance(chosen, int) and (made := self.makers.get(self.source(chosen))) is not None:
                if made.name == "select_n" and len(made.inputs) == 3 and self.is_score(made.outputs[0]):
                    shown, yes, no = self._masked(made)
                    zero, hidden = (self.number(each) if each is not None else None for each in (yes, no))
                    return self._hiding(shown, scores, no) if zero == 0 and hidden is not None else None
                if not self._aligned(made):
                    break
                chosen = kept(made, self.source(chosen))
        return None

    def _same_for_all_keys(self, value: Input) -> bool:
        if self.key not in self.names(value):
            return True
        assert isinstance(value, int)
        value = self.source(value)
        maker = self.makers.get(value)
        before = kept(maker, value)
        return maker is not None and before is not None and self._aligned(maker) and self._same_for_all_keys(before)

    def _aligned(self, maker: Operation) -> bool:
        """Whether an operation meets elements of one position alone: its axes are called alike on both sides."""
        kind = TRAITS[maker.name].kind if maker.name in TRAITS else "opaque"
        if kind == "bitcast":
            return self._long(maker.inputs[0]) == self._long(maker.outputs[0])
        if kind in ("matmul", "reduce") or maker.name == "transpose":
            return True
        names, shape = self.names(maker.outputs[0]), self.code.shapes[maker.outputs[0]]
        for value in maker.reads:
            axes = maker.params["broadcast_dimensions"] if maker.name == "broadcast_in_dim" else range(len(shape))
            own = self.code.shapes[value]
            if not own:
                continue
            if len(own) != len(tuple(axes)):
                return False
            if any(size != 1 and n != names[axis] for n, size, axis in zip(self.names(value), own, axes, strict=True)):
                return False
        return True

    def _long(self, value: Input) -> list[str | None]:
        """The names of the axes that are longer than 1."""
        return [n for n, size in zip(self.names(value), self.code.shape_of(value), strict=True) if size != 1]


def _product(powers: Mapping[Factor, int]) -> Product:
    return frozenset((factor, power) for factor, power in powers.items() if power)


def _add(total: Sum, product: Product, coefficient: float):
    new = total.get(product, 0.0) + coefficient
    # Coefficients are products of a few numbers of 32 bits.
    if abs(new) <= 1e-6 * abs(coefficient):
        total.pop(product, None)
    else:
        total[product] = new


def _sum(_maker: Any, *sums: Sum, signs: tuple[float, ...] = (1.0, 1.0)) -> Sum:
    total: Sum = {}
    for each, sign in zip(sums, signs, strict=False):
        for product, coefficient in each.items():
            _add(total, product, sign * coefficient)
    return total


def _times(_maker: Any, one: Sum, other: Sum) -> Sum:
    total: Sum = {}
    for a, x in one.items():
        for b, y in other.items():
            powers = dict(a)
            for factor, power in b:
                powers[factor] = powers.get(factor, 0) + power
            _add(total, _product(powers), x * y)
    return total


def _power(maker: Operation, one: Sum) -> Sum | None:
    exponent = maker.params["y"]
    if len(one) != 1:
        return None
    ((product, coefficient),) = one.items()
    return {frozenset((factor, power * exponent) for factor, power in product): coefficient**exponent}


def _over(maker: Operation, one: Sum, other: Sum) -> Sum | None:
    if len(other) != 1:
        return None
    ((product, coefficient),) = other.items()
    return _times(maker, one, {frozenset((factor, -power) for factor, power in product): 1 / coefficient})


def _squared(maker: Operation, one: Sum) -> Sum:
    return _times(maker, one, one)


_SUMS: Mapping[str, Any] = {
    "add": _sum,
    "add_any": _sum,
    "sub": functools.partial(_sum, signs=(1.0, -1.0)),
    "neg": functools.partial(_sum, signs=(-1.0,)),
    "mul": _times,
    "div": _over,
    "integer_pow": _power,
    "square": _squared,
}
