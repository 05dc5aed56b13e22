"""Expert parallelism: each device has a part of the experts, and tokens are sent to where their expert is.

Experts with a capacity are a rename away from their tokens, `batch` to `groups` (`meshlab.models.language.moe`): where
both are on one axis it is an all-to-all. Tokens of `ml.dispatch` are sent by an operation of its own, however many an
expert gets: to the devices of their experts where tokens are on the experts' axis too (`transport="dropless"`), or all
of them to all devices (`transport="gathered"`).

Sources: Lepikhin et al. 2020 (https://arxiv.org/abs/2006.16668); without a capacity, Gale et al. 2022
(https://arxiv.org/abs/2211.15841).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ..engine.code.operations import Operation, walk
from ..engine.dropless.recognise import recognised
from ..engine.errors import closest, listed, shown
from ..engine.programs.program import Program
from ..engine.specs.layout import Layout, LayoutLike
from ..engine.specs.mesh import Mesh
from ..engine.specs.spec import Axes
from .model import Dims, candidates, dims_named, plain_rules
from .recognise import made_of
from .request import Request

EXPERTS = ("experts", "expert")
TRANSPORTS = ("capacity", "dropless", "gathered")


def expert_parallel(
    program: Program,
    mesh: Mesh,
    *,
    expert: str | Sequence[str] | None = None,
    dims: Dims | None = None,
    beside: LayoutLike = None,
    transport: str | None = None,
) -> Layout:
    """Puts the experts on an axis: each device has a part of them, and tokens are sent to where their expert is.

    With the batch on the same axis (`beside=data_parallel(program, mesh)`) tokens are dispatched and combined by
    all-to-alls. Source: https://arxiv.org/abs/2006.16668.

    Args:
        program: made by `ml.trace`.
        mesh: made by `ml.mesh`.
        expert: the mesh axis; by default the only one, or the one called `expert` or `ep`, or else that of the data.
        dims: the dim of the experts; by default `experts` or `expert`.
        beside: a layout that this one is combined with. Dims that are made of the batch leave the axis to the experts.
        transport: "capacity", for programs whose experts take a fixed number of tokens from each group; "dropless", for
            programs with `ml.dispatch`, or that sort choices by hand: all-to-alls, with the tokens on the axis too;
            "gathered", for programs with `ml.dispatch`: all-gathers and reduce-scatters, with the tokens off the axis
            in the scope of `ml.dispatch`. By default, the layout in `beside` decides.

    Returns:
        `{"experts": "expert"}`, say.
    """
    request = Request("expert_parallel", program, mesh, beside)
    axes = request.axes("expert", expert, "expert")
    request.beside = _with_room(request, axes)
    rules = plain_rules(request, axes, dims, EXPERTS)
    if transport is not None and (not isinstance(transport, str) or transport not in TRANSPORTS):
        text = f"transport={shown(transport)} is not a way to send tokens."
        fix = closest(transport, TRANSPORTS).strip() or f"The transports are {listed(TRANSPORTS)}."
        request.refuse("unknown_transport", text, fix)
    elif transport is not None and axes:
        rules |= _TRANSPORTS[transport](request, axes)
    return request.layout(rules, candidates(request, axes))


def _dispatches(program: Program) -> list[Operation]:
    """Returns the operations that send tokens to experts."""
    alone = (operation for operation in walk(program.code.block) if not operation.blocks)
    return [operation for operation in alone if (to := program.factors[operation].routed) and to.items]


def _capacity(request: Request, _axes: Axes) -> dict[str, Any]:
    if _dispatches(request.program):
        text = 'transport="capacity" is for experts with limited room; this program sends all tokens by ml.dispatch.'
        request.refuse("unknown_dim", text, 'Take transport="dropless"; its places are the factor of ml.dispatch.')
    return {}


def _tokens(request: Request, transport: str) -> list[tuple[Operation, list[str]]]:
    """Returns what sends tokens, with the dims of these; notes a problem where nothing does."""
    # What is written by hand is made the same operations where tokens are on the experts' axis.
    program = recognised(request.program, 1.0) if transport == "dropless" else request.program
    found = []
    for operation in _dispatches(program):
        items = program.factors[operation].routed
        names = [dim for factor, dim in program.factor_dims[operation] if items and factor in items.items]
        found.append((operation, names))
    if not found:
        text = f'transport="{transport}" is for programs with ml.dispatch, and this one has none.'
        request.refuse("unknown_dim", text, "Send tokens by ml.dispatch, or leave the transport out.")
    return found


def _dropless(request: Request, axes: Axes) -> dict[str, Any]:
    """The rules for tokens: on the axes of their experts, if they are not there yet."""
    rules: dict[str, Any] = {}
    for _, names in _tokens(request, "dropless"):
        on = {axis for dim in names for axis in request.computed(dim)}
        if not set(axes) <= on and names:
            rules[names[0]] = (*request.computed(names[0]), *(axis for axis in axes if axis not in on))
    # What the layout beside says of tokens, this says with more axes.
    for dim, on in rules.items():
        request.beside = request.beside.with_rule(dim, on)
    return rules


def _gathered(request: Request, axes: Axes) -> dict[str, Any]:
    """The rules of the scopes of what sends tokens: without those of their axes that experts are on."""
    rules: dict[str, Any] = {}
    for operation, names in _tokens(request, "gathered"):
        if not operation.scope:
            text = f"Tokens leave `{'+'.join(axes)}` in a scope, and ml.dispatch at {operation.source} is in none."
            request.refuse("unknown_scope", text, 'Open one around it: with jax.named_scope("experts"):')
            continue
        # A layout of data parallelism that is added later puts the first of them on the axes.
        there = [dim for dim in names if dim == names[0] or set(request.computed(dim)) & set(axes)]
        inside = {dim: tuple(a for a in request.computed(dim) if a not in axes) for dim in there}
        rules[f"@{operation.scope[-1]}"] = {dim: on or None for dim, on in inside.items()}
    return rules


_TRANSPORTS = {"capacity": _capacity, "dropless": _dropless, "gathered": _gathered}


def _with_room(request: Request, axes: Axes) -> Layout:
    """The layout beside, in which what is made of the batch leaves the axes to the experts that it would meet there."""
    experts = dict.fromkeys(dims_named(request.program.dims, EXPERTS), axes)
    there = {dim: on for dim, on in request.beside.rules.items() if set(on) & set(axes)}
    made = {dim for other in there for dim in made_of(request.program, other) if dim in there}
    meeting = [dim for dim in made if not request.fits(experts | {dim: there[dim]})]
    left = {dim: tuple(axis for axis in there[dim] if axis not in axes) for dim in meeting}
    return functools.reduce(lambda layout, dim: layout.with_rule(dim, left[dim]), meeting, request.beside)
