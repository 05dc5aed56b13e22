"""What a training feeds a program: the values that it starts from, and its batches.

A plan knows shapes only. Say the program is `step(params, images, labels) -> (loss, params)`, whose output 1 is the
next step's `params`; then

    >>> Training({"params": params}, batches=lambda: ({"images": x, "labels": y} for x, y in data), steps=50)

says all that is missing. `batches` is a function, since each run of a board starts afresh, on the same data: only so
can the losses of two layouts be compared. `plan.fit` takes any iterator.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..engine.argument_checks import is_whole, mapping, takes
from ..engine.errors import RunError, closest, listed, numbered, shown, some
from ..engine.running.run import misfits
from .signature import loss_problems


@dataclasses.dataclass(frozen=True)
class Training:
    """A training: start values and batches, which each run uses afresh.

    The Run button of a board runs it, `ml.explore(program, mesh, run=training)`, and so does `plan.fit(training)`.

    Args:
        start: values of the program's arguments at the first step, by argument name; those that the program carries
            are replaced by its own outputs afterwards.
        batches: makes a fresh iterable of the arguments that change with each step, by argument name: all that `start`
            does not give, and none that the program carries. It is called again whenever it is used up.
        steps: how many steps a run takes, by default.
        loss: the place of the output that is the loss, `"out/0"`; None where it is the only number, or the only one
            that is called `loss`.

    Raises:
        RunError: `steps` is below 1, or `batches` is not callable without arguments.

    Example:
        >>> Training({"params": params, "images": images, "labels": labels}, steps=20)  # every step on the same data
    """

    start: Mapping[str, Any]
    batches: Callable[[], Iterable[Mapping[str, Any]]] | None = None
    steps: int = 100
    loss: str | None = None

    def __post_init__(self):
        mapping("Training", "start", self.start, '{"params": params}', RunError)
        if not is_whole(self.steps) or self.steps < 1:
            raise RunError(f"Training was given steps={shown(self.steps)}; it must be an integer, at least 1.")
        if self.batches is not None and not callable(self.batches):
            why = ", which one run uses up" if isinstance(self.batches, Iterator) else ""
            write = "batches=lambda: iter(...)" if why else "batches=lambda: those"
            raise RunError(
                f"Training was given batches of type {type(self.batches).__name__}{why}; it must be a function that"
                f" returns them: {write}."
            )
        if self.batches is not None:
            takes("Training", self.batches, 0, "write batches=lambda: iter(...)", RunError)

    def feeds(self) -> Iterator[Mapping[str, Any]]:
        """Yields the changing arguments of each step, without end.

        Raises:
            RunError: `batches` gives none, or something else than dicts.
        """
        return feeds(self.batches, "Training")


def feeds(batches: Any, of: str) -> Iterator[Mapping[str, Any]]:
    """Yields the changing arguments of each step: without end, unless `batches` is an iterator that ends.

    Args:
        batches: a function that makes a fresh iterable, an iterable, or an iterator; None where nothing changes.
        of: who was given them, for errors.
    """
    if batches is None:
        yield from itertools.repeat({})
    called = f"batches{'()' if callable(batches) else ''}"
    if isinstance(batches, Iterator):
        yield from _checked(batches, of, called)
        return
    while True:
        batch: Any = None
        fresh: Any = batches() if callable(batches) else batches
        if not hasattr(fresh, "__iter__") and not hasattr(fresh, "__getitem__"):
            raise _invalid_batches(fresh, of, called)
        for batch in _checked(fresh, of, called):
            yield batch
        if batch is None:
            raise RunError(f"{of}'s {called} gave no batch at all; it must give at least one.")


def _checked(batches: Iterable[Any], of: str, called: str) -> Iterator[Any]:
    for batch in batches:
        if not hasattr(batch, "keys"):
            raise _invalid_batches(batch, of, called)
        yield batch


def _invalid_batches(batches: Any, of: str, called: str) -> RunError:
    write = f"batches={'lambda: ' if '(' in called else ''}" + '({"images": x} for x in data)'
    return RunError(f"{of}'s {called} gave {shown(batches)}; {called} must give dicts by argument name: {write}.")


def check_training(training: Training, program: Any) -> None:
    """Refuses start values that are no arguments of the program, are missing, or are not like what was traced."""
    if not isinstance(training, Training):
        raise RunError(
            f"run was given {shown(training)}; it must be a training: run=ml.Training({{'params': params}}, batches)."
        )
    start, has_batches = training.start, training.batches is not None
    problems = [*start_problems("Training", start, program, has_batches), *loss_problems(program, training.loss)]
    if problems:
        raise RunError(" ".join(problems))
    if problems := misfits(program, training.start):
        raise RunError(
            "Training's `start` does not fit the program; give arrays like the traced ones, or trace the program"
            f" for these:\n{numbered(problems)}"
        )


def start_problems(of: str, start: Mapping[str, Any], program: Any, has_batches: bool) -> list[str]:
    """Describes names of start values that are no arguments of the program, or are missing."""
    arguments, problems = program.parameters, []
    if unknown := [name for name in start if name not in arguments]:
        problems.append(f"{of} starts from {_no_arguments(unknown, arguments)}")
    needed = set(program.carry) if has_batches else set(arguments)
    if missing := [name for name in arguments if name in needed and name not in start]:
        where = "`start`" if of == "Training" else "the state"
        problems.append(f"{of} lacks a value to start from for {listed(missing)}; add it to {where}.")
    return problems


def check_batch(batch: Mapping[str, Any], start: Mapping[str, Any], program: Any) -> None:
    """Refuses a batch of names that are no arguments or are carried, or without those that `start` does not give."""
    arguments, names = program.parameters, batch.keys()
    unknown = [name for name in names if name not in arguments]
    carried = [name for name in names if name in program.carry]
    missing = [name for name in arguments if name not in names and name not in start]
    problems = []
    if unknown:
        problems.append(f"A batch came with {_no_arguments(unknown, arguments)}")
    if carried:
        problems.append(
            f"A batch came with {listed(carried)}: {listed(carried)} {'is' if len(carried) == 1 else 'are'} carried,"
            f" from one step to the next; leave {'it' if len(carried) == 1 else 'them'} out of the batches."
        )
    if missing:
        problems.append(
            f"A batch came without {listed(missing)}; each batch gives the arguments that `start` does not."
        )
    if problems:
        raise RunError(" ".join(problems))


def _no_arguments(unknown: Sequence[Any], arguments: Sequence[str]) -> str:
    which = "which is not an argument" if len(unknown) == 1 else "which are not arguments"
    return f"{some(unknown)}, {which} of this program (it has {listed(arguments)}).{closest(unknown[0], arguments)}"
