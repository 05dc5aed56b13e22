"""Finds the matmuls that read scores, and which of them are the result of attention and its gradients."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

from ..code.operations import Block, Operation
from .softmaxes import Logits, Softmaxes, Sum

# The axis of q and k that scores are summed over, and that of v in its place; the user's names are others.
DEPTH, VALUE = "·depth", "·value"
Axes = tuple[str | None, ...]


@dataclasses.dataclass(frozen=True)
class Operand:
    """One side of a matmul: a value, and the axes of the scores that its own are."""

    value: int
    axes: Axes


@dataclasses.dataclass(frozen=True)
class Matmul:
    """A matmul of scores with something else.

    Attributes:
        operation: the matmul.
        other: what the scores are multiplied with.
        result: the axes of the result.
        summed: those axes of the scores that are summed over.
    """

    operation: Operation
    other: Operand
    result: Axes
    summed: frozenset[str | None]


class Form(NamedTuple):
    """What is read of scores: the weights, or the gradient of scores.

    Attributes:
        exponential: the value that has the exponentials.
        of_weights: the value that has the gradient of the weights; None for the weights themselves.
        scale: what the gradient is multiplied by.
    """

    exponential: int
    of_weights: int | None
    scale: float


@dataclasses.dataclass
class Uses:
    """One attention in one block: its operands, and the matmuls that it replaces.

    Attributes:
        logits: what exponentials are taken of.
        q, k, v: the operands.
        cotangent: the gradient of the result; None in the forward pass.
        out: the matmul that makes the result.
        of_q, of_k, of_v: those that make the gradients.
    """

    logits: Logits
    q: Operand
    k: Operand
    v: Operand
    cotangent: Operand | None = None
    out: Matmul | None = None
    of_q: Matmul | None = None
    of_k: Matmul | None = None
    of_v: Matmul | None = None

    @property
    def gradients(self) -> tuple[Matmul | None, ...]:
        """The matmuls of the gradients of q, k and v."""
        return self.of_q, self.of_k, self.of_v


def found(softmaxes: Softmaxes) -> list[Uses]:
    """Returns all uses of scores that are attention, block by block."""
    return [
        use for block, visible in _blocks(softmaxes.code.block, frozenset()) for use in _of(softmaxes, block, visible)
    ]


def _blocks(block: Block, around: frozenset[int]) -> Iterator[tuple[Block, frozenset[int]]]:
    """Yields each block, with the values that it can read."""
    visible = around | {*block.inputs, *(out for operation in block.operations for out in operation.outputs)}
    yield block, visible
    for operation in block.operations:
        for inside in operation.blocks:
            yield from _blocks(inside, visible)


def _of(softmaxes: Softmaxes, block: Block, visible: frozenset[int]) -> Iterator[Uses]:
    """Yields the uses in one block."""
    gradients: dict[tuple[int, int], Uses] = {}
    of_values: list[tuple[int, Matmul]] = []
    for form, matmul in _matmuls(softmaxes, block):
        if form.of_weights is not None:
            _gradient(softmaxes, gradients, form, matmul)
        elif matmul.summed != {softmaxes.key}:
            of_values.append((form.exponential, matmul))
        else:
            use = _use(softmaxes, form.exponential, matmul.other)
            if use is not None and alike(matmul.result, use.q.axes) and {use.q.value, use.k.value} <= visible:
                use.out = matmul
                yield use
    for (exponential, _), use in gradients.items():
        for other, matmul in of_values:
            same = use.cotangent is not None and _same(softmaxes, matmul.other, use.cotangent)
            if other == exponential and same and alike(matmul.result, use.v.axes):
                use.of_v = matmul
        if not {use.q.value, use.k.value} <= visible and use.of_q is not None and use.of_k is not None:
            # They are made in another loop: the matmuls of the gradients have them too.
            use.q, use.k = _summed(use.of_k.other), _summed(use.of_q.other)
        if {use.q.value, use.k.value} <= visible and _before(block, use):
            yield use


def _matmuls(softmaxes: Softmaxes, block: Block) -> Iterator[tuple[Form, Matmul]]:
    """Yields the matmuls in a block that read weights or the gradients of scores."""
    for operation in block.operations:
        for side in (0, 1) if operation.name == "dot_general" else ():
            matmul = _of_scores(softmaxes, operation, side)
            form = _form(softmaxes.terms(operation.inputs[side])) if matmul is not None else None
            if matmul is not None and form is not None:
                yield form, matmul


def _summed(operand: Operand) -> Operand:
    """Returns queries or keys, their own axis called the depth."""
    return Operand(operand.value, tuple(DEPTH if axis == VALUE else axis for axis in operand.axes))


def _gradient(softmaxes: Softmaxes, uses: dict[tuple[int, int], Uses], form: Form, matmul: Matmul):
    """Enters a matmul that makes the gradient of q or k."""
    exponential, of_weights, scale = form
    assert of_weights is not None
    if (exponential, of_weights) not in uses:
        made = softmaxes.makers[of_weights]
        sides = _sides(softmaxes, made, VALUE)
        v = next((side for side in sides if side is not None and softmaxes.key in side.axes), None)
        cotangent = next((side for side in sides if side is not None and softmaxes.query in side.axes), None)
        use = _use(softmaxes, exponential, v) if v is not None else None
        if use is None or cotangent is None:
            return
        use.cotangent = cotangent
        uses[exponential, of_weights] = use
    use = uses[exponential, of_weights]
    if abs(scale - use.logits.scale) > 1e-5 * abs(use.logits.scale):
        return
    if alike(matmul.result, use.q.axes) and _same(softmaxes, matmul.other, use.k):
        use.of_q = matmul
    elif alike(matmul.result, use.k.axes) and _same(softmaxes, matmul.other, use.q):
        use.of_k = matmul


def _same(softmaxes: Softmaxes, one: Operand, other: Operand) -> bool:
    same = softmaxes.origin(one.value) == softmaxes.origin(other.value)
    return same and alike(one.axes, other.axes)


def alike(one: Axes, other: Axes) -> bool:
    """Says whether two arrays have the same axes in some order, but for what the depth is called."""
    return sorted(str(a).replace(VALUE, DEPTH) for a in one) == sorted(str(a).replace(VALUE, DEPTH) for a in other)


def _use(softmaxes: Softmaxes, exponential: int, v: Operand | None) -> Uses | None:
    """Returns the attention whose exponentials these are, of values."""
    logits = softmaxes.logits_of[exponential]
    sides = _sides(softmaxes, softmaxes.makers[logits.product], DEPTH)
    q = next((side for side in sides if side is not None and softmaxes.query in side.axes), None)
    k = next((side for side in sides if side is not None and softmaxes.key in side.axes), None)
    if q is None or k is None or v is None or q is k or softmaxes.key in q.axes or softmaxes.query in k.axes:
        return None
    fits = set(k.axes) - {softmaxes.key} <= set(q.axes) and alike(v.axes, k.axes)
    return Uses(logits, q, k, v) if fits else None


def _before(block: Block, use: Uses) -> bool:
    """Whether what attention reads is there where its first gradient is made."""
    made = {out: place for place, operation in enumerate(block.operations) for out in operation.outputs}
    places = [made[each.operation.outputs[0]] for each in use.gradients if each is not None]
    reads = [operand.value for operand in (use.q, use.k, use.v, use.cotangent) if operand is not None]
    return bool(places) and all(made.get(value, -1) < min(places) for value in reads)


# The axes of matmuls


def _sides(softmaxes: Softmaxes, operation: Operation, summed: str) -> tuple[Operand | None, Operand | None]:
    """Returns the operands of a matmul that makes scores, their axes as the scores' are called."""
    (contracted, riding), names = operation.params["dimension_numbers"], softmaxes.names(operation.outputs[0])
    free = len(riding[0])
    sides: list[Operand | None] = []
    for value, over, batch in zip(operation.inputs, contracted, riding, strict=True):
        rank = len(softmaxes.code.shape_of(value))
        axes: list[str | None] = [None] * rank
        for place, axis in enumerate(batch):
            axes[axis] = names[place]
        for axis in range(rank):
            if axis not in over and axis not in batch:
                axes[axis] = names[free]
                free += 1
        for axis in over:
            axes[axis] = summed
        right = isinstance(value, int) and len(over) == 1 and len(set(axes)) == len(axes)
        sides.append(Operand(value, tuple(axes)) if right and isinstance(value, int) else None)
    return sides[0], sides[1]


def _of_scores(softmaxes: Softmaxes, operation: Operation, side: int) -> Matmul | None:
    """Returns a matmul whose operand on a side is scores, and whose result is none; None for any other."""
    (contracted, riding), scores = operation.params["dimension_numbers"], operation.inputs[side]
    other = operation.inputs[1 - side]
    if not isinstance(other, int) or not softmaxes.is_score(scores) or softmaxes.is_score(operation.outputs[0]):
        return None
    names = softmaxes.names(scores)
    axes: list[str | None] = [VALUE] * len(softmaxes.code.shapes[other])
    for mine, theirs in ((contracted[side], contracted[1 - side]), (riding[side], riding[1 - side])):
        for here, there in zip(mine, theirs, strict=True):
            axes[there] = names[here]
    taken = {*contracted[side], *riding[side]}
    mine = [name for axis, name in enumerate(names) if axis not in taken]
    own = [axes[axis] for axis in range(len(axes)) if axis not in (*contracted[1 - side], *riding[1 - side])]
    front = [names[axis] for axis in riding[side]]
    result = (*front, *(mine if side == 0 else own), *(own if side == 0 else mine))
    if len(own) != 1 or len(set(axes)) != len(axes) or len(set(names)) != len(names):
        return None
    return Matmul(operation, Operand(other, tuple(axes)), result, frozenset(names[axis] for axis in contracted[side]))


def _form(terms: Sum | None) -> Form | None:
    """Returns what a sum of products is, if it is the weights or the gradient of scores."""
    if terms is None or len(terms) not in (1, 2):
        return None
    exponentials = {factor[1] for product in terms for factor, _ in product if factor[0] == "exp"}
    gradients = {factor[1] for product in terms for factor, _ in product if factor[0] == "of_weights"}
    if len(exponentials) != 1 or len(gradients) > 1:
        return None
    (e,) = exponentials
    weights = frozenset({(("exp", e), 1), (("total", e), -1)})
    if not gradients:
        return Form(e, None, 1.0) if set(terms) == {weights} and abs(terms[weights] - 1) < 1e-6 else None
    (w,) = gradients
    first = weights | {(("of_weights", w), 1)}
    second = frozenset({(("exp", e), 1), (("total", e), -2), (("weighted", e, w), 1)})
    scale = terms.get(first, 0.0)
    if set(terms) != {first, second} or abs(terms[second] + scale) > 1e-5 * abs(scale):
        return None
    return Form(e, w, scale)
