"""Says how partial sums over an axis in time pass operations.

Over an axis of devices a partial sum costs a collective, and where it is reduced decides how much is sent. Over an
axis in time it costs nothing: the iterations add up into one array. So it stays partial as long as anything allows:
through every operation that is linear in it, whatever it is multiplied by, if that is the same in all iterations.

    gradient, partial over data and micro  ·  pad, slice, × exp(a)     still partial over micro
    gradient, partial over micro  →  its norm                          no: the norm needs the sum of all iterations

In a block (a layer of a scan, a rematerialised region) partial sums over devices wait with it, since they can be
reduced once, after the loop; where the target spec is sharded, or `reduce="each"`, they are reduced there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..axes.axis import EACH, ONCE, InTime
from ..code.operations import Input, Operation
from ..rules import Factors
from ..specs.in_time import minus
from ..specs.spec import Spec


def waiting(spec: Spec, target: Spec, in_time: Mapping[str, InTime], in_block: bool) -> Spec:
    """Returns the spec to which a partial sum is reduced for now: sums over axes in time stay partial.

    Args:
        spec: of the partial sum.
        target: the spec to which it would be reduced.
        in_time: the mesh's axes in time.
        in_block: whether it is made inside a loop or region, which runs in each iteration.
    """
    over = tuple(axis for axis in spec.partial if axis in in_time)
    if not over:
        return target
    splits = tuple(
        minus(split, over) if split != own else own for own, split in zip(spec.splits, target.splits, strict=True)
    )
    reduce = in_time[over[0]].reduce
    if not in_block or reduce == EACH:
        return Spec(splits, over)
    if reduce == ONCE:
        return spec
    scattered = frozenset(axis for split in splits for axis in split)
    return Spec(splits, minus(spec.partial, scattered))


def stays_partial(
    axis: str, operation: Operation, factors: Factors, specs: Sequence[Spec | None], is_zero: Callable[[Input], bool]
) -> bool:
    """Whether partial sums over an axis pass an operation: it is linear in them, and nothing else varies over the axis.

    Args:
        axis: the mesh axis.
        operation: the operation.
        factors: of the operation.
        specs: those that its operands have; None for literals, and for values that can be made in any spec.
        is_zero: whether an operand is zero everywhere, and so a partial sum of itself.
    """
    partial = {i for i, spec in enumerate(specs) if spec is not None and axis in spec.partial}
    if any(spec is not None and axis in spec.axes for spec in specs):
        return False
    return any(
        group >= partial and all(is_zero(operation.inputs[i]) for i in group - partial) for group in factors.linear
    )


def common_axes(specs: Sequence[Spec | None]) -> frozenset[str]:
    """Returns the axes over which all those operands are partial that are partial at all."""
    partial = [frozenset(spec.partial) for spec in specs if spec is not None and spec.partial]
    return frozenset.intersection(*partial) if partial else frozenset()
