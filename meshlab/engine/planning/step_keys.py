"""The values that steps read and make, as keys: a value's number and its spec on one device.

    mul  [data, model] → [data, model]         reads (3, [data, model]), (5, [data, model]); makes (7, [data, model])
    all-gather over model  of 7                reads (7, [data, model]);                     makes (7, [data, ·])

A rename or a tag is the same array under another name, so keys have the number of its original
(`Program.original_of`). A step with blocks, and a loop over a serial axis, also read the keys that their inner steps
read from around them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ..code.operations import Block, Input
from ..specs.spec import Spec
from .steps import Compute, Inside, Iterated, Materialise, Move, Nested, Repeated, Step

Key = tuple[int, Spec]
Originals = Mapping[int, int]

_SCALAR = Spec(())


def keys(values: Sequence[Input], specs: Sequence[Spec | None], original_of: Originals) -> tuple[Key, ...]:
    """Returns the keys of values in specs; literals, and values that are not read, have none."""
    return tuple(
        [
            (original_of.get(value, value), spec)
            for value, spec in zip(values, specs, strict=True)
            if spec is not None and isinstance(value, int)
        ]
    )


def reads(step: Step, original_of: Originals) -> tuple[Key, ...]:
    """Returns the keys that a step reads, in order; one may come twice.

    Args:
        step: of a plan, parts written out (`Plan.steps`).
        original_of: the originals of renames and tags, by number (`Program.original_of`).
    """
    if isinstance(step, Compute):
        return _of_compute(step, original_of)[0]
    if isinstance(step, Move):
        return ((original_of.get(step.value, step.value), step.start),)
    if isinstance(step, Materialise):
        inputs = step.operation.inputs
        return keys(inputs, (_SCALAR,) * len(inputs), original_of)
    if isinstance(step, Iterated):
        return free(step.steps, original_of)
    assert not isinstance(step, Repeated), "repetitions are read written out: plan.steps"
    return (*keys(step.operation.inputs, step.operands, original_of), *outside(step, original_of))


def makes(step: Step, original_of: Originals) -> tuple[Key, ...]:
    """Returns the keys that a step writes, in order; see `reads`."""
    if isinstance(step, Move):
        return ((original_of.get(step.value, step.value), step.via.result),)
    if isinstance(step, Materialise):
        return ((step.operation.outputs[0], step.spec),)
    if isinstance(step, Iterated):
        return tuple([(result.value, result.outside) for result in step.results])
    if isinstance(step, Compute):
        return _of_compute(step, original_of)[1]
    assert not isinstance(step, Repeated), "repetitions are read written out: plan.steps"
    return keys(step.operation.outputs, step.results, original_of)


def read_and_made(step: Step, original_of: Originals) -> tuple[tuple[Key, ...], tuple[Key, ...]]:
    """Returns the keys that a step reads, and those that it writes; see `reads`."""
    if isinstance(step, Compute):
        return _of_compute(step, original_of)
    return reads(step, original_of), makes(step, original_of)


def _of_compute(step: Compute, original_of: Originals) -> tuple[tuple[Key, ...], tuple[Key, ...]]:
    """Returns the keys that a step reads and makes; kept with the step, which all plans of its program share."""
    known = step.__dict__.get("_keys")
    if known is None:
        operation = step.operation
        known = keys(operation.inputs, step.operands, original_of), keys(operation.outputs, step.results, original_of)
        object.__setattr__(step, "_keys", known)
    return known


def entering(block: Block, inside: Inside, original_of: Originals) -> tuple[Key, ...]:
    """Returns the inputs of a block inside a step."""
    return keys(block.inputs, inside.inputs, original_of)


def leaving(block: Block, inside: Inside, original_of: Originals) -> tuple[Key, ...]:
    """Returns the outputs of a block inside a step; literals have no key."""
    return keys(block.outputs, inside.outputs, original_of)


def outside(step: Nested, original_of: Originals) -> tuple[Key, ...]:
    """Returns the keys that the blocks of a step read from around them, each once."""
    missing: dict[Key, None] = {}
    for block, inside in zip(step.operation.blocks, step.blocks, strict=True):
        defined = set(entering(block, inside, original_of))
        for within in inside.steps:
            read, made = read_and_made(within, original_of)
            missing.update(dict.fromkeys([key for key in read if key not in defined]))
            defined.update(made)
        missing.update(dict.fromkeys(key for key in leaving(block, inside, original_of) if key not in defined))
    return tuple(missing)


def free(steps: Iterable[Step], original_of: Originals) -> tuple[Key, ...]:
    """Returns the keys that steps read and none of those before makes, each once."""
    missing: dict[Key, None] = {}
    defined: set[Key] = set()
    for step in steps:
        read, made = read_and_made(step, original_of)
        missing.update(dict.fromkeys([key for key in read if key not in defined]))
        defined.update(made)
    return tuple(missing)
