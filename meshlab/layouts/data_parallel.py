"""Data parallelism, and what is stored in shards beside it: ZeRO and FSDP.

All of them compute alike: the batch dim is on the data axis. They differ in what each device stores:

    data_parallel      everything whole
    zero1              the optimizer's state in shards
    zero2              state and gradients
    zero3, fsdp        parameters, state and gradients
    hsdp               the same over some of the devices, whole copies of it over the others

Sources: ZeRO, Rajbhandari et al. 2019 (https://arxiv.org/abs/1910.02054); FSDP, Zhao et al. 2023
(https://arxiv.org/abs/2304.11277).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..engine.errors import listed
from ..engine.programs.program import Program
from ..engine.programs.values import Argument
from ..engine.specs.layout import Layout, LayoutLike
from ..engine.specs.mesh import Mesh
from ..engine.specs.spec import Axes
from ..engine.tensors.dims import Dim
from . import storage
from .recognise import Recognised, batch_dim, made_of, recognised
from .request import Request


class _DataParallel(Request):
    """What all presets of this module find out."""

    def __init__(self, name: str, program: Program, mesh: Mesh, asked: tuple[Any, ...], beside: LayoutLike = None):
        super().__init__(name, program, mesh, beside)
        data, batch, params, state = asked
        self.data = self.axes("data", data, "data" if name == "data_parallel" else "shards")
        known = batch is not None and name == "data_parallel"
        self.arguments = Recognised((), (), program.arguments) if known else recognised(self, params, state)
        # What `params` leaves out stays whole.
        self.weights = self.arguments.weights if params is None else self.arguments.parameters
        self.batch = batch_dim(self, self.arguments, batch)
        self.rules = self.split(self.data)

    def split(self, axes: Axes) -> dict[str, Axes]:
        """Returns rules for the batch and all that is made of it, as far as the layout beside leaves room for that."""
        if not (self.batch and axes):
            return {}
        rules = {self.batch: axes}
        known = {dim for a in self.arguments.weights for dim in self.program.dims_of(a.value)}
        for dim in made_of(self.program, self.batch):
            if dim in known or self.computed(dim):
                continue
            free = tuple(axis for axis in axes if self.goes_with({**rules, dim: (axis,)}))
            fitting = next((own for own in (axes, free) if own and self.goes_with({**rules, dim: own})), ())
            rules |= {dim: fitting} if fitting else {}
        return rules

    def store(self, arguments: Sequence[Argument], what: str) -> storage.Rules:
        """Returns rules that store each argument over its largest dim; notes a problem where there are none."""
        if not self.data or not arguments:
            return {}
        rules = storage.rules(self, storage.largest(self, arguments, self.data), self.data)
        self.need(rules, what, arguments)
        return rules

    def need(self, rules: Any, what: str, arguments: Sequence[Argument]):
        """Adds a problem where there are no rules, since no dim divides."""
        if not rules:
            count, on = self.count(self.data), "+".join(self.data)
            text = f"No {what} has a dim that `{on}`={count:,} divides."
            dims = dict.fromkeys(d for a in arguments for d in self.program.dims_of(a.value) if d)
            sizes = ", ".join(f"`{dim}` ({self.program.dims[dim]:,})" for dim in dims)
            fix = f"Their dims are {sizes or 'not named'}; take a smaller axis"
            self.refuse("not_divisible", text, f"{fix}{self.padded_instead(arguments)}.")

    def padded_instead(self, arguments: Sequence[Argument]) -> str:
        """Returns what stores the arguments padded, if that is legal; else ""."""
        rules = storage.rules(self, storage.largest(self, arguments, self.data, padded=True), self.data)
        return self.padded(self.rules | rules) if rules else ""

    def state(self) -> tuple[Argument, ...]:
        """Returns the arguments that are optimizer state; notes a problem where there are none."""
        if not self.arguments.state and self.arguments.parameters:
            carried = listed(self.program.carry) if self.program.carry else "nothing"
            text = f"It carries {carried} to the next call, and no optimizer state."
            fix = (
                'Name it, as in state="opt_state/*"; or trace a step whose optimizer has some and returns it, with'
                ' carry={"opt_state": 1} if its shapes are ambiguous.'
            )
            self.refuse("unknown_place", text, fix)
        return self.arguments.state

    def updates(self) -> bool:
        """Says whether all parameters are carried to the next call: then state that is not found is not there."""
        return all(a.parameter in self.program.carry for a in self.arguments.parameters)

    def gradients(self) -> tuple[Argument, ...]:
        """Returns the places of the parameters' gradients; notes a problem where there are none."""
        program, parameters = self.program, {a.place for a in self.arguments.parameters}
        found = tuple(
            Argument(place, program.places_values[place], place.split("/")[0])
            for place, parameter in program.gradients.items()
            if parameter in parameters and place in program.marks
        )
        if parameters and not found:
            fix = "Trace the whole step, with jax.value_and_grad(loss) and the update in it."
            self.refuse("unknown_place", "It computes no gradient of a parameter.", fix)
        return found

    def done(self, rules: Any) -> Layout:
        """Returns the layout, or refuses it with the dims that the batch could be."""
        dims = [d for a in self.arguments.data for d in self.program.dims_of(a.value) if d]
        asked = self.data and (not self.problems or (self.arguments.parameters and not self.batch))
        return self.layout(rules, f"For batch=: {self.candidates(dims, self.data)}" if asked else "")


def data_parallel(
    program: Program,
    mesh: Mesh,
    *,
    data: str | Sequence[str] | None = None,
    batch: str | Dim | None = None,
    params: str | Sequence[str] | None = None,
    state: str | Sequence[str] | None = None,
    beside: LayoutLike = None,
) -> Layout:
    """Puts the batch dim on the data axis: each device computes a part of the batch with all parameters.

    Gradients are all-reduced, 2 (n-1)/n of the parameters' bytes.

    Args:
        program: made by `ml.trace`.
        mesh: made by `ml.mesh`.
        data: the mesh axis; by default the only one, or the one called `data`, `dp` or `batch`. Several are "pod+data",
            major first.
        batch: the dim; by default the first of the data's that all of them have, and no parameter. What is made of it,
            by a rename or a reshape, goes with it: groups of tokens, for experts.
        params: a glob, or several, over the arguments that are parameters, where the program does not tell.
        state: the same over those that are optimizer state.
        beside: a layout that this one is combined with: with experts on the data axis the groups of tokens are not on
            it, and tokens are sent to their experts.

    Returns:
        `{"batch": "data"}`.
    """
    request = _DataParallel("data_parallel", program, mesh, (data, batch, params, state), beside)
    return request.done(request.rules)


def zero1(
    program: Program,
    mesh: Mesh,
    *,
    data: str | Sequence[str] | None = None,
    batch: str | Dim | None = None,
    params: str | Sequence[str] | None = None,
    state: str | Sequence[str] | None = None,
    beside: LayoutLike = None,
) -> Layout:
    """Stores the optimizer's state in shards, beside data parallelism: ZeRO stage 1.

    Gradients are reduce-scattered to where the state is, and updated parameters all-gathered: as many bytes as an
    all-reduce. Source: https://arxiv.org/abs/1910.02054.

    Args:
        program: made by `ml.trace`.
        mesh: made by `ml.mesh`.
        data: the mesh axis; by default the only one, or the one called `fsdp` or `shard`, else as of `data_parallel`.
        batch: the batch dim, as of `data_parallel`.
        params: a glob over the parameters, or several.
        state: a glob over the optimizer's state, where it lies in one argument with something else that is carried.
        beside: a layout that this one is combined with, of expert or tensor parallelism say: dims are chosen so that
            both may be.

    Returns:
        `{"batch": "data", "opt_state/*": {"embed": "data"}}`, say: each array over its largest dim that divides.

    Raises:
        LayoutError: there is no state, or none that divides.
    """
    request = _DataParallel("zero1", program, mesh, (data, batch, params, state), beside)
    return request.done(request.rules | request.store(request.state(), "array of the optimizer's state"))


def zero2(
    program: Program,
    mesh: Mesh,
    *,
    data: str | Sequence[str] | None = None,
    batch: str | Dim | None = None,
    params: str | Sequence[str] | None = None,
    state: str | Sequence[str] | None = None,
    beside: LayoutLike = None,
) -> Layout:
    """Stores the optimizer's state, if it has some, and the gradients in shards, beside data parallelism: ZeRO stage 2.

    Each gradient is stored over its largest dim that divides, as the state of its parameter is. Gradients are
    reduce-scattered, and updated parameters all-gathered. Source: https://arxiv.org/abs/1910.02054.

    Args:
        program: made by `ml.trace`.
        mesh: made by `ml.mesh`.
        data: the mesh axis; by default the only one, or the one called `fsdp` or `shard`, else as of `data_parallel`.
        batch: the batch dim, as of `data_parallel`.
        params: a glob over the parameters, or several.
        state: a glob over the optimizer's state.
        beside: a layout that this one is combined with, as of `zero1`.

    Returns:
        `{"batch": "data", "opt_state/*": {"embed": "data"}, "grads/*": {"embed": "data"}}`, say.

    Raises:
        LayoutError: there is no gradient, nothing that divides, or no state although parameters are not carried.
    """
    request = _DataParallel("zero2", program, mesh, (data, batch, params, state), beside)
    updated = request.arguments.state if request.updates() else request.state()
    state_rules = request.store(updated, "array of the optimizer's state")
    return request.done(request.rules | state_rules | request.store(request.gradients(), "gradient"))


def fsdp(
    program: Program,
    mesh: Mesh,
    *,
    data: str | Sequence[str] | None = None,
    batch: str | Dim | None = None,
    params: str | Sequence[str] | None = None,
    state: str | Sequence[str] | None = None,
    beside: LayoutLike = None,
) -> Layout:
    """Stores parameters, gradients and the optimizer's state in shards, beside data parallelism.

    Each parameter is gathered where it is used, in the forward and, in a rematerialised or scanned layer, again in the
    backward pass; its gradient is reduce-scattered. Frozen weights, the base of a LoRA, are stored and gathered alike,
    unless `params` names others. Sources: https://arxiv.org/abs/2304.11277, and stage 3 of
    https://arxiv.org/abs/1910.02054.

    Args:
        program: made by `ml.trace`.
        mesh: made by `ml.mesh`.
        data: the mesh axis; by default the only one, or the one called `fsdp` or `shard`, else as of `data_parallel`.
        batch: the batch dim, as of `data_parallel`.
        params: a glob over the parameters, or several.
        state: a glob over the optimizer's state.
        beside: a layout that this one is combined with, as of `zero1`.

    Returns:
        `{"batch": "data", "params/*": {"embed": "data"}, "opt_state/*": {"embed": "data"}}`, say: each array over its
        largest dim that divides. Gradients follow from what they update.

    Raises:
        LayoutError: no parameter has a dim that divides.
    """
    return _fully_sharded(_DataParallel("fsdp", program, mesh, (data, batch, params, state), beside))


def zero3(
    program: Program,
    mesh: Mesh,
    *,
    data: str | Sequence[str] | None = None,
    batch: str | Dim | None = None,
    params: str | Sequence[str] | None = None,
    state: str | Sequence[str] | None = None,
    beside: LayoutLike = None,
) -> Layout:
    """Stores parameters, gradients and the optimizer's state in shards: ZeRO stage 3, which is `fsdp`.

    Args:
        program: made by `ml.trace`.
        mesh: made by `ml.mesh`.
        data: the mesh axis; by default the only one, or the one called `fsdp` or `shard`, else as of `data_parallel`.
        batch: the batch dim, as of `data_parallel`.
        params: a glob over the parameters, or several.
        state: a glob over the optimizer's state.
        beside: a layout that this one is combined with, as of `zero1`.

    Returns:
        The layout of `fsdp`.
    """
    return _fully_sharded(_DataParallel("zero3", program, mesh, (data, batch, params, state), beside))


def hsdp(
    program: Program,
    mesh: Mesh,
    *,
    replica: str | Sequence[str] | None = None,
    data: str | Sequence[str] | None = None,
    batch: str | Dim | None = None,
    params: str | Sequence[str] | None = None,
    state: str | Sequence[str] | None = None,
    beside: LayoutLike = None,
) -> Layout:
    """Stores parameters, gradients and state in shards over one axis, and the same shards again along another.

    Hybrid sharding: parameters are gathered within a group of devices that are near each other; gradients are
    reduce-scattered there, and only their shards all-reduced from group to group. Source: PyTorch's `HYBRID_SHARD`,
    https://arxiv.org/abs/2304.11277, 3.2.2.

    Args:
        program: made by `ml.trace`.
        mesh: made by `ml.mesh`.
        replica: the mesh axis along which everything stands again; by default the one called `replica`, `pod`, `slice`,
            `node` or `dcn`, else another one for data.
        data: the axis of the shards, as of `fsdp`.
        batch: the batch dim, as of `data_parallel`, which is on both.
        params: a glob over the parameters, or several.
        state: a glob over the optimizer's state.
        beside: a layout that this one is combined with, as of `zero1`.

    Returns:
        `{"batch": ("replica", "data"), "params/*": {"embed": "data"}, "opt_state/*": {"embed": "data"}}`, say.
    """
    request = _DataParallel("hsdp", program, mesh, (data, batch, params, state), beside)
    outer = request.axes("replica", replica, "copies", request.data)
    if set(outer) & set(request.data):
        text = f"`{'+'.join(outer)}` is the axis of both the shards and their copies."
        request.refuse("repeated_axis", text, "Use a mesh of two axes: ml.mesh(replica=2, data=4).")
    elif outer:
        request.rules = request.split((*outer, *request.data))
    return _fully_sharded(request)


def _fully_sharded(request: _DataParallel) -> Layout:
    rules = request.store(request.weights, "parameter")
    rules |= _only(request, request.arguments.state)
    return request.done(request.rules | rules)


def _only(request: _DataParallel, arguments: Sequence[Argument]) -> storage.Rules:
    """Returns the rules of arguments of which none need have any."""
    if not request.data:
        return {}
    return storage.rules(request, storage.largest(request, arguments, request.data), request.data)
