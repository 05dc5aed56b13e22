"""Checkpoints that do not depend on a layout: saved under one mesh, read under another, each array checked.

    checkpoint = restore("runs/llama")              the last one; .step, .losses, .places
    checkpoint.under(plan)                          {"params": …}, as that plan's devices store it

Orbax reads what each device needs from wherever it was written. It notices a missing file, and restores a flipped bit
without a word: so a digest of each array is kept beside it, and compared once the array is on its devices.

A checkpoint that cannot be read, or whose digests differ, is *damaged*; what was never saved, or has another shape,
belongs to another program, which is an error of its own.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import msgspec
import numpy as np
from jax import errors as jax_errors

from ..engine.argument_checks import whole_number
from ..engine.errors import RunError, closest, numbered, some
from ..engine.processes import all_agree
from ..engine.typed_keys import is_key, words
from .digest import digest
from .folder import folder, orbax, said, steps
from .placing import Stored, stored, trees

# Words by which TensorStore says that a file could not be reached now, or that memory ran out: it may be whole.
_NOT_DAMAGED = ("PERMISSION_DENIED", "UNAVAILABLE", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED")


class Damaged(Exception):
    """A checkpoint is damaged, and how."""


@dataclasses.dataclass(frozen=True)
class Leaf:
    """What was saved at a place.

    Attributes:
        shape: its shape.
        dtype: the name of its dtype.
        digest: its digest.
        key: of typed keys, the name of their implementation.
    """

    shape: tuple[int, ...]
    dtype: str
    digest: str
    key: str = ""


@dataclasses.dataclass(frozen=True)
class Meta:
    """What is kept with the arrays of a checkpoint.

    Attributes:
        step: how many steps had been taken.
        leaves: what was saved, by place; an array's name on disk is its position.
        losses: of each step, as numbers of 64 bits.
        metrics: the same of each metric, by place.
        batches: where the iterator of batches stood, as it says itself; None where it says nothing.
        layout: of the plan that saved it.
        mesh: of the plan that saved it.
    """

    step: int
    leaves: dict[str, Leaf]
    losses: bytes
    metrics: dict[str, bytes]
    batches: Any
    layout: str
    mesh: str


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A checkpoint of a training, which any plan of its program can go on from; made by `ml.restore`.

    Attributes:
        path: the folder.
        step: how many steps had been taken.
        meta: what is kept with its arrays.
    """

    path: Path
    step: int
    meta: Meta = dataclasses.field(repr=False)

    @property
    def losses(self) -> list[float]:
        """The loss of each step up to here."""
        return numbers(self.meta.losses)

    @property
    def metrics(self) -> dict[str, list[float]]:
        """The other numbers that each step returned, by place."""
        return {place: numbers(series) for place, series in self.meta.metrics.items()}

    @property
    def places(self) -> tuple[str, ...]:
        """The places of its arrays: `params/w1`."""
        return tuple(self.meta.leaves)

    def under(self, plan: Any) -> dict[str, Any]:
        """Reads the parameters of a plan's program that were saved, as its devices store them, and checks each array.

        Args:
            plan: a plan of the program that was trained, or of one with parameters of the same names and shapes.

        Returns:
            The parameters' values by name, in the trees that the program takes.

        Raises:
            RunError: no parameter was saved, or one has another shape or dtype; or the checkpoint is damaged: the error
                names the damage, and the last undamaged checkpoint before it, which was read too.
        """
        arguments = plan.program.arguments
        saved = {each.parameter for each in arguments if each.place in self.meta.leaves}
        if not saved:
            raise RunError(
                f"Nothing in {self.path} belongs to an argument of this program: it has"
                f" {some([each.place for each in arguments])}; the checkpoint has {some(self.places)}."
            )
        return under(self, plan, [name for name in plan.program.parameters if name in saved], whole=False)


def restore(path: str | os.PathLike[str], step: int | None = None) -> Checkpoint:
    """Opens a checkpoint that `plan.fit` has saved, for any mesh and layout.

    Args:
        path: the folder that `plan.fit` was given.
        step: the step of the checkpoint; None for the last one.

    Returns:
        A `Checkpoint`: pass it to `plan.fit`, or read its parameters with `.under(plan)`.

    Raises:
        RunError: the folder has no checkpoint, or none of that step; or it cannot be read.

    Example:
        >>> fit = other_plan.fit(ml.restore("runs/llama"), batches, steps=1000)
    """
    where = folder(path)
    saved = steps(where)
    if not saved:
        raise RunError(f"There is no checkpoint in {where}.")
    if step is not None and whole_number("ml.restore()", "step", step, 0, RunError) not in saved:
        raise RunError(f"There is no checkpoint of step {step:,} in {where}; there are {', '.join(map(str, saved))}.")
    chosen = saved[-1] if step is None else step
    try:
        return opened(where, chosen)
    except Damaged as problem:
        others = " or ".join(str(other) for other in saved if other != chosen)
        rest = f" The folder also has step {others}, not checked yet." if others else ""
        raise RunError(f"Checkpoint {chosen} in {where} is damaged: {problem}.{rest}") from None


def numbers(packed: bytes) -> list[float]:
    """Returns the numbers of 64 bits that bytes hold."""
    return np.frombuffer(packed, np.float64).tolist()


def packed(series: Sequence[float]) -> bytes:
    """Returns numbers as bytes, 64 bits each."""
    return np.asarray(series, np.float64).tobytes()


def written(meta: Meta) -> str:
    """Returns what is kept with arrays as a text that shows whether it was changed."""
    text = msgspec.json.encode(meta).decode()
    return f"{hashlib.sha256(text.encode()).hexdigest()} {text}"


def described(arrays: Mapping[str, jax.Array]) -> dict[str, Leaf]:
    """Returns what is saved of arrays, by place."""
    return {place: Leaf(tuple(a.shape), str(a.dtype), digest(a), _implementation(a)) for place, a in arrays.items()}


def on_disk(arrays: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
    """Returns arrays by their names on disk, of typed keys their data; those without elements are not written."""
    named = {str(i): array for i, array in enumerate(arrays.values()) if array.size}
    return {name: words(a) for name, a in named.items()}


def opened(path: Path, step: int) -> Checkpoint:
    """Opens a checkpoint without its arrays; raises `Damaged` where what is kept with them is."""
    found = _orbax(path, step, meta=orbax().args.JsonRestore())["meta"]
    text = found.get("meta") if isinstance(found, dict) else None
    check, _, text = text.partition(" ") if isinstance(text, str) else ("", "", "")
    if check != hashlib.sha256(text.encode()).hexdigest():
        raise Damaged("its description has changed since it was saved")
    try:
        meta = msgspec.json.decode(text, type=Meta)
    except msgspec.ValidationError as error:
        raise RunError(f"Checkpoint {step} in {path} is from another version of meshlab: {error}.") from None
    if meta.step != step:
        raise Damaged(f"it was saved at step {meta.step:,}, not {step:,}: its folder was renamed")
    return Checkpoint(path, step, meta)


def under(checkpoint: Checkpoint, plan: Any, names: Sequence[str], whole: bool) -> dict[str, Any]:
    """Reads parameters as a plan stores them; refuses a damaged checkpoint, and offers the last undamaged one.

    Args:
        checkpoint: the checkpoint.
        plan: the plan.
        names: the parameters.
        whole: whether all that was saved must be among them.
    """
    try:
        return read(checkpoint, plan, names, whole)
    except Damaged as problem:
        path, step = checkpoint.path, checkpoint.step
        other, _, _ = last_good(path, plan, names, whole, step)
        rest = (
            "No earlier checkpoint is undamaged."
            if other is None
            else f'The last undamaged one before it is step {other.step}: ml.restore("{path}", step={other.step}).'
        )
        raise RunError(f"Checkpoint {step} in {path} is damaged: {problem}. {rest}") from None


def read(checkpoint: Checkpoint, plan: Any, names: Iterable[str], whole: bool) -> dict[str, Any]:
    """Reads parameters as `under` does; raises `Damaged` where an array is, `RunError` where none fits."""
    wanted, saved = stored(plan, names), checkpoint.meta.leaves
    if problems := _misfits(wanted, saved, whole):
        raise RunError(
            f"Checkpoint {checkpoint.step} in {checkpoint.path} is from another program:\n{numbered(problems)}"
        )
    number = {place: str(i) for i, place in enumerate(saved)}
    targets = {number[each.place]: _target(each) for each in wanted if 0 not in each.shape}
    ocp, problem, found = orbax(), "", {}
    how = ocp.args.PyTreeRestore(
        item=targets,
        restore_args={
            name: ocp.ArrayRestoreArgs(sharding=t.sharding, global_shape=t.shape, dtype=t.dtype)
            for name, t in targets.items()
        },
        partial_restore=True,
    )
    try:
        found = _orbax(checkpoint.path, checkpoint.step, state=how)["state"] if targets else {}
        # Of an array that its own list has no more, it gives back what it was asked for.
        missing = [place for place, i in number.items() if i in targets and not isinstance(found.get(i), jax.Array)]
        problem = f"{some(missing)} {'is' if len(missing) == 1 else 'are'} not in it any more" if missing else ""
    except Damaged as error:
        problem = str(error)
    if not all_agree(not problem):
        raise Damaged(problem or "another process cannot read its part")
    arrays = {each.place: _array(each, saved[each.place], found.get(number[each.place])) for each in wanted}
    changed = [place for place, array in arrays.items() if digest(array) != saved[place].digest]
    if changed:
        raise Damaged(f"{some(changed)} {'has' if len(changed) == 1 else 'have'} changed since it was saved")
    return trees(plan.program, arrays)


def _orbax(path: Path, step: int, **what: Any) -> Any:
    ocp = orbax()
    try:
        with ocp.Checkpointer(ocp.CompositeCheckpointHandler()) as checkpointer:
            return checkpointer.restore(path / str(step), args=ocp.args.Composite(**what))
    except (MemoryError, jax_errors.JaxRuntimeError):
        raise
    except Exception as error:  # of Orbax, TensorStore or the file system, as each words it
        unreachable = isinstance(error, OSError) and not isinstance(
            error, FileNotFoundError | IsADirectoryError | NotADirectoryError
        )
        if unreachable or any(word in str(error) for word in _NOT_DAMAGED):
            raise RunError(f"Checkpoint {step} in {path} cannot be read now: {said(error)}.") from error
        raise Damaged(f"it cannot be read ({said(error)})") from error


def _misfits(wanted: Sequence[Stored], saved: Mapping[str, Leaf], whole: bool) -> list[str]:
    problems = []
    for each in wanted:
        leaf = saved.get(each.place)
        if leaf is None:
            problems.append(f"`{each.place}` was not saved.{closest(each.place, saved)}")
        elif (leaf.shape, leaf.dtype) != (each.shape, str(each.dtype)):
            problems.append(
                f"`{each.place}` was saved as {leaf.dtype} of shape {leaf.shape}; this program has {each.dtype} of"
                f" shape {each.shape}"
            )
    names = {each.parameter for each in wanted}
    known = {each.place for each in wanted}
    lost = [place for place in saved if place not in known and (whole or place.partition("/")[0] in names)]
    if lost:
        problems.append(f"{some(lost)} {'was' if len(lost) == 1 else 'were'} saved, and this program has no such array")
    return problems


def _implementation(array: jax.Array) -> str:
    return str(jax.random.key_impl(array)) if is_key(array) else ""


def _target(each: Stored) -> jax.ShapeDtypeStruct:
    """Returns the array that Orbax reads for a place."""
    target = jax.ShapeDtypeStruct(each.shape, each.dtype)
    target = jax.eval_shape(jax.random.key_data, target) if is_key(each) else target
    return jax.ShapeDtypeStruct(target.shape, target.dtype, sharding=each.sharding)


def _array(each: Stored, leaf: Leaf, found: Any) -> jax.Array:
    """Returns an array as it was before it was saved."""
    if found is None:
        return jax.device_put(jnp.zeros(each.shape, each.dtype), each.sharding)
    return jax.random.wrap_key_data(found, impl=leaf.key) if leaf.key else found


def last_good(
    path: Path, plan: Any, names: Sequence[str], whole: bool, before: int | None = None
) -> tuple[Any, Any, dict[int, str]]:
    """Returns the last undamaged checkpoint of a folder, its parameters, and what is damaged, by step.

    Args:
        path: the folder.
        plan: the plan to read it under.
        names: the parameters to read.
        whole: whether all that was saved must be among them.
        before: the step before which it must be; None for any.

    Returns:
        The checkpoint and the values; None and nothing where all are damaged.
    """
    damaged: dict[int, str] = {}
    for step in reversed([step for step in steps(path) if before is None or step < before]):
        try:
            checkpoint = opened(path, step)
            return checkpoint, read(checkpoint, plan, names, whole), damaged
        except Damaged as problem:
            damaged[step] = str(problem)
    return None, {}, damaged
