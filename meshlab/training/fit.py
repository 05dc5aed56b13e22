"""A training loop over a plan, `plan.fit`: it carries the state, saves it, and goes on from where it was.

    fit = plan.fit({"params": params}, batches, steps=1000, checkpoint="runs/llama", every=200)
    fit.losses, fit.state, fit.step

Called again, by the same script after a crash or by another plan, it goes on from the last checkpoint that is whole,
with the batch that comes next: a training whose layout changes in the middle has one loss curve. Who has more to do in
a step than this writes the loop over `plan.run`, which is all that happens here.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import itertools
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ..engine.argument_checks import flag, whole_number
from ..engine.errors import RunError, numbered, shown
from ..engine.processes import is_first, is_joined
from ..engine.running.run import misfits
from . import checkpoints
from .checkpoints import Checkpoint
from .feeding import Training, feeds, start_problems
from .folder import Writer, folder, set_aside, steps
from .placing import at_home, leaves
from .signature import Signature, loss_problems, state_problems
from .stepping import taken

# Seconds between two calls of `progress`.
REPORT_SECONDS = 1.0
_LOG = logging.getLogger("meshlab")


@dataclasses.dataclass(eq=False)
class Fit:
    """A training, in progress or ended; made by `plan.fit`.

    Attributes:
        state: values of the carried arguments by name, as the plan's devices store them.
        step: how many steps were taken, those before a checkpoint included.
        steps: the step at which the training ends.
        losses: the loss of each step, from the first one on; empty if the program has no loss.
        metrics: every other number that the step returns, for each step, by place: `"out/1/accuracy"`.
        begun: the step at which this call began: 0, or the step of the checkpoint that it went on from.
        ended: why it ended: "steps", "until", or "batches" if there were no more; "" while it is in progress.
        damaged: for each damaged checkpoint that was skipped, by step, what is wrong with it.
    """

    state: dict[str, Any]
    step: int
    steps: int
    losses: list[float]
    metrics: dict[str, list[float]]
    begun: int = 0
    ended: str = ""
    damaged: Mapping[int, str] = dataclasses.field(default_factory=dict)

    def __repr__(self) -> str:
        loss = f", loss {self.losses[-1]:.6g}" if self.losses else ""
        begun = f", from step {self.begun:,}" if self.begun else ""
        why = {"until": ", ended by until", "batches": ", no batches left"}.get(self.ended, "")
        return f"Fit(step {self.step:,} of {self.steps:,}{begun}{loss}{why})"


@dataclasses.dataclass(frozen=True)
class Request:
    """What `plan.fit` was asked for, once it was checked.

    Attributes:
        start: values of arguments at the first step, where no checkpoint has them.
        batches: as they were given.
        steps: how many steps there are to be.
        signature: the step's loss and metrics.
        path: the folder of checkpoints; None for none.
        every: how many steps from one to the next; None for one at the end.
        keep: how many are kept; None for all.
        until: asked after each step whether to end.
        progress: called as the training proceeds.
        donate: whether the start's arrays may be overwritten.
    """

    start: Mapping[str, Any]
    batches: Any
    steps: int
    signature: Signature
    path: Path | None
    every: int | None
    keep: int | None
    until: Callable[[Fit], Any] | None
    progress: Callable[[Fit], Any] | None
    donate: bool


def fit(plan: Any, state: Any, batches: Any = None, **asked: Any) -> Fit:
    """Trains under a plan; see `Plan.fit`."""
    request = _request(plan, state, batches, **asked)
    begun, batches_state = _begun(plan, state, request)
    feed = _fed(request.batches, begun.step, batches_state)
    if request.path is None:
        return _trained(plan, request, begun, feed, None)
    writer = Writer(request.path, request.keep)
    try:
        return _trained(plan, request, begun, feed, writer)
    except BaseException as error:
        with contextlib.suppress(RunError):  # the note says what was saved
            writer.finish()
        saved = steps(request.path)
        where = f"the last checkpoint in {request.path} is step {saved[-1]:,}" if saved else "nothing was saved"
        error.add_note(f"The training ended after step {begun.step:,}; {where}.")
        raise
    finally:
        writer.close()


def _request(
    plan: Any,
    state: Any,
    batches: Any,
    *,
    steps: Any,
    loss: Any,
    checkpoint: Any,
    every: Any,
    keep: Any,
    until: Any,
    progress: Any,
    donate: Any,
) -> Request:
    """Checks what `plan.fit` was given; names all problems."""
    program, start = plan.program, {}
    if isinstance(state, Training):
        start, batches = state.start, state.batches if batches is None else batches
        steps, loss = state.steps if steps is None else steps, loss or state.loss
    elif isinstance(state, Fit):
        start = state.state
    elif isinstance(state, Mapping):
        start = state
    elif not isinstance(state, Checkpoint):
        raise RunError(
            f'fit() was given {shown(state)}; it starts from a dict by argument name, {{"params": params}}, or from'
            " ml.restore(…), a fit or an ml.Training."
        )
    problems = [*state_problems(program), *loss_problems(program, loss)]
    begins = {name: None for name in program.carry} if isinstance(state, Checkpoint) else start
    problems += start_problems("fit()", begins, program, batches is not None)
    if steps is None:
        problems.append("fit() needs a number of steps: steps=1000.")
    if every is not None and checkpoint is None:
        problems.append('fit() was given `every`, but no folder to save in: checkpoint="runs/first".')
    for name, function in (("until", until), ("progress", progress)):
        if function is not None and not callable(function):
            problems.append(f"fit() was given {name}={shown(function)}; it must be a function of a fit.")
    if batches is not None and not callable(batches) and not hasattr(batches, "__iter__"):
        problems.append(f"fit() was given batches={shown(batches)}; they must be an iterable, or make one when called.")
    if problems:
        raise RunError("\n".join(problems) if len(problems) == 1 else f"fit() cannot begin:\n{numbered(problems)}")
    if problems := misfits(program, start):
        raise RunError(f"The state that fit() was given does not fit the program:\n{numbered(problems)}")
    count = {"every": every, "keep": keep}
    checked = {name: n if n is None else whole_number("fit()", name, n, 1, RunError) for name, n in count.items()}
    return Request(
        start=start,
        batches=batches,
        steps=whole_number("fit()", "steps", steps, 1, RunError),
        signature=Signature.of(program, loss),
        path=None if checkpoint is None else folder(checkpoint),
        until=until,
        progress=progress,
        donate=flag("fit()", "donate", donate, RunError),
        **checked,
    )


def _begun(plan: Any, state: Any, request: Request) -> tuple[Fit, Any]:
    """Returns the training as it begins, with where its batches stood: from a checkpoint, or from what was given."""
    path = request.path
    saved = [] if path is None else steps(path)
    if isinstance(state, Checkpoint) and path == state.path and state.step != saved[-1]:
        raise RunError(
            f"{path} has a later checkpoint than step {state.step:,}: step {saved[-1]:,}. Save to another folder, or"
            " move the later checkpoints away."
        )
    if path is not None and saved:
        return _last(plan, path, request)
    if isinstance(state, Checkpoint):
        values = checkpoints.under(state, plan, list(plan.program.carry), whole=True)
        return _resumed(state, values, request), state.meta.batches
    own = at_home(plan, {name: request.start[name] for name in plan.program.carry}, request.donate)
    if not isinstance(state, Fit):
        return Fit(own, 0, request.steps, [], {}), None
    metrics = {place: list(series) for place, series in state.metrics.items()}
    return Fit(own, state.step, request.steps, list(state.losses), metrics, begun=state.step), None


def _last(plan: Any, path: Path, request: Request) -> tuple[Fit, Any]:
    """Returns the training at the last undamaged checkpoint of a folder; renames and logs those that are damaged."""
    checkpoint, values, damaged = checkpoints.last_good(path, plan, list(plan.program.carry), whole=True)
    if checkpoint is None:
        lines = numbered([f"step {step:,}: {problem}" for step, problem in damaged.items()])
        raise RunError(f"All checkpoints in {path} are damaged; to begin again, give another folder:\n{lines}")
    for step, problem in damaged.items():
        aside = set_aside(path, step)
        if is_first():
            _LOG.warning("Checkpoint %d in %s is damaged: %s. It is now %s.", step, path, problem, aside.name)
    if damaged and is_first():
        _LOG.warning("The training goes on from the last undamaged checkpoint, step %d.", checkpoint.step)
    return dataclasses.replace(_resumed(checkpoint, values, request), damaged=damaged), checkpoint.meta.batches


def _resumed(checkpoint: Checkpoint, values: dict[str, Any], request: Request) -> Fit:
    at = checkpoint.step
    return Fit(values, at, request.steps, checkpoint.losses, checkpoint.metrics, begun=at)


def _fed(batches: Any, step: int, stood: Any) -> Iterator[Mapping[str, Any]]:
    """Returns the batches from a step on: set to where they stood, or without those that were taken before."""
    if stood is not None and _has_state(batches):
        batches.set_state(base64.b64decode(stood["bytes"]) if "bytes" in stood else stood["state"])
        return feeds(batches, "fit()")
    return itertools.islice(feeds(batches, "fit()"), step if batches is not None else 0, None)


def _has_state(batches: Any) -> bool:
    """Says whether batches know where they stand, as grain's iterators do; of several processes each has its own."""
    return hasattr(batches, "get_state") and hasattr(batches, "set_state") and not is_joined()


def _stand(batches: Any) -> Any:
    """Returns where batches stand, as JSON."""
    if not _has_state(batches):
        return None
    state = batches.get_state()
    return {"bytes": base64.b64encode(state).decode()} if isinstance(state, bytes) else {"state": state}


def _trained(plan: Any, request: Request, at: Fit, feed: Iterator[Mapping[str, Any]], writer: Writer | None) -> Fit:
    """Takes the steps that are left, and saves on the way; `at` is what the caller sees."""
    constants = {name: value for name, value in request.start.items() if name not in at.state}
    start = {**at_home(plan, constants, donate=True), **at.state}
    walk = taken(plan, start, feed, request.signature, donate=True)
    reported, saved, at.ended = time.monotonic(), at.step, ""
    while at.step < at.steps and not at.ended:
        step = next(walk, None)
        if step is None:
            at.ended = "batches"
            break
        at.state = {name: step.values[name] for name in plan.program.carry}
        at.step += 1
        at.losses += [] if step.loss is None else [step.loss]
        for place, number in step.metrics.items():
            at.metrics.setdefault(place, []).append(number)
        if writer and request.every and at.step % request.every == 0:
            _save(plan, request, at, writer)
            saved = at.step
        at.ended = "until" if request.until and request.until(at) else ""
        if request.progress and is_first() and time.monotonic() - reported >= REPORT_SECONDS:
            reported = time.monotonic()
            request.progress(at)
    at.ended = at.ended or "steps"
    if writer and saved != at.step:
        _save(plan, request, at, writer)
    if writer:
        writer.finish()
    if request.progress and is_first():
        request.progress(at)
    return at


def _save(plan: Any, request: Request, at: Fit, writer: Writer) -> None:
    arrays = leaves(plan.program, at.state)
    meta = checkpoints.Meta(
        step=at.step,
        leaves=checkpoints.described(arrays),
        losses=checkpoints.packed(at.losses),
        metrics={place: checkpoints.packed(series) for place, series in at.metrics.items()},
        batches=_stand(request.batches),
        layout=str(plan.layout),
        mesh=plan.mesh.sources,
    )
    try:
        text = checkpoints.written(meta)
    except (TypeError, msgspec.MsgspecError) as error:
        kind = type(request.batches).__name__
        raise RunError(f"The state of the batches ({kind}.get_state()) is not JSON: {error}.") from None
    writer.save(at.step, checkpoints.on_disk(arrays), text)
