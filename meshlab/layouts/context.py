"""Parallelism along the sequence, attention included: each device has a part of every sequence.

Where nothing else is done keys and values are gathered in front of attention (`kind="gather"`, as Llama 3 was trained:
https://arxiv.org/abs/2407.21783, 3.3.2). With a scope around what relates positions the heads are split there and the
sequence is whole, by all-to-alls on both sides (`kind="ulysses"`: DeepSpeed, https://arxiv.org/abs/2309.14509). Where
attention is one operation, `ml.attention`, keys and values may stay in parts and go around a ring of devices
(`kind="ring"`: https://arxiv.org/abs/2310.01889), over one axis beside heads over another (`kind="usp"`:
https://arxiv.org/abs/2405.07719).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from ..engine.argument_checks import flag
from ..engine.attention.recognise import around, unnamed_keys
from ..engine.code.operations import walk
from ..engine.errors import LayoutError, closest, listed, shown
from ..engine.legality.asked import as_asked
from ..engine.programs.program import Program
from ..engine.programs.trained import trained
from ..engine.programs.zigzagged import position_pairs
from ..engine.specs.layout import DimRules, Layout
from ..engine.specs.mesh import Mesh
from ..engine.specs.zigzag import Zigzag
from .axis_names import called
from .core import is_scope, is_weight, refuse_projections
from .keys import with_keys
from .model import SEQUENCE, Dims, dims_named, fitting
from .request import Request

KINDS = ("gather", "ulysses", "ring", "usp")
HEADS = ("heads", "num_heads", "q_heads")


def context_parallel(
    program: Program,
    mesh: Mesh,
    *,
    kind: str = "gather",
    context: str | Sequence[str] | None = None,
    seq: Dims | None = None,
    heads: Dims | None = None,
    core: str = "@core",
    balanced: bool = False,
) -> Layout:
    """Puts the sequence on an axis, everywhere or everywhere but in attention's core.

    "gather": keys and values are all-gathered in each layer, and their gradients reduce-scattered. "ulysses": queries,
    keys, values and what attention returns change from a split sequence to split heads and back, by 4 all-to-alls in
    the forward and 4 in the backward pass; rematerialised layers send queries, keys, values and the result once more.
    Of a program in plain JAX or Flax rename the keys' positions first, `program.rename({"~seq": "kv"})`: no layout can
    say how a made-up name is split, and gradients of keys and values would be all-reduced, or gathered besides. For
    `kv` there are then rules outside of the core, or where there is none in the scopes of the keys' projections.
    "ring": keys and values go around the devices of the axis, forward and backward: of programs with `ml.attention`, or
    whose attention is recognised as one operation.
    "usp": the same over the first of two axes, and heads in the core over the second.
    Sources: https://arxiv.org/abs/2407.21783, https://arxiv.org/abs/2309.14509, https://arxiv.org/abs/2310.01889,
    https://arxiv.org/abs/2405.07719.

    Args:
        program: made by `ml.trace`.
        mesh: made by `ml.mesh`.
        kind: "gather", "ulysses", "ring" or "usp".
        context: the mesh axis, or for "usp" both; by default the only one (of "usp" the only two), or the one called
            `context`, `cp`, `sp` or `seq`, else as of `tensor_parallel`; of "usp" those called `ring` and `ulysses`.
        seq: the dims of the sequence; by default whichever of `seq`, `source`, `length`, `blocks` and `rows` fit.
        heads: of "ulysses" and "usp", the dims to split instead; by default `heads`, `num_heads` or `q_heads`.
        core: of "ulysses" and "usp", the scope around what relates positions: `with jax.named_scope("core"):` around
            scores, softmax and their product with the values, and around whatever renames the keys' sequence; not
            around projections. Of "gather" it is where the keys' positions, if they have their own name, stay whole.
        balanced: for causal attention as one operation: inside of it positions are in zig-zag order, so that all
            devices attend to as much. With "ulysses" they are whole there: there is nothing to balance.

    Returns:
        `{"seq": "context"}`, or `{"seq": "context", "@core": {"seq": None, "heads": "context"}}`, say.
    """
    if kind not in KINDS:
        near = closest(kind, KINDS)
        raise LayoutError(f"context_parallel() was given kind={shown(kind)}; it knows {listed(KINDS)}.{near}")
    request = Request("context_parallel", program, mesh)
    both = _two(request) if kind == "usp" and context is None else context
    axes = request.axes("context", both, "context")
    evened = flag("context_parallel()", "balanced", balanced, LayoutError)
    if evened and kind == "ulysses":
        text = 'kind="ulysses" has whole sequences in attention: all devices attend to as much.'
        request.refuse("unknown_dim", text, "Leave balanced=True out.")
    layout = _of_kind(request, kind, axes, seq=seq, heads=heads, core=core)
    return _balanced(request, layout) if evened else layout


def _of_kind(
    request: Request, kind: str, axes: tuple[str, ...], *, seq: Dims | None, heads: Dims | None, core: str
) -> Layout:
    """The layout with positions in their order."""
    if kind == "usp":
        return _usp(request, axes, seq, heads, core)
    if kind == "ring":
        ring = _around(request, seq)
        return request.layout({} if request.problems else dict.fromkeys(ring, axes))
    scoped = kind == "ulysses" and axes and is_scope(request, core)
    inside = _heads(request, axes, heads, core) if scoped else {}
    if not axes or request.problems:
        return request.layout({})
    return _over(request, axes, inside, seq, core)


def _balanced(request: Request, layout: Layout) -> Layout:
    """Returns a layout with the positions of causal attention in zig-zag order; refuses one where there is none."""
    asked = as_asked(request.program, request.mesh, layout)
    if not position_pairs(asked):
        text = "balanced=True is for causal attention as one operation, without a window, and this layout has none."
        fix = "Leave balanced=True out."
        if asked is request.program:
            ring = (
                'Take kind="ring", for which attention is recognised here, write'
                if _rings(request, layout)
                else "Write"
            )
            fix = f"{ring} it as ml.attention(…, causal=True), or leave balanced=True out."
        request.refuse("unknown_dim", text, fix)
        return request.layout({})
    return request.layout(in_zigzag_order(asked, layout))


def _rings(request: Request, layout: Layout) -> bool:
    """Says whether keys may be split as the queries of a layout are, in zig-zag order."""
    rules = layout.rules
    for query, key in around(request.program) if not layout.scope_rules else ():
        ring = layout.with_rule(key, rules.get(query, ()))
        if request.fits(in_zigzag_order(as_asked(request.program, request.mesh, ring), ring)):
            return True
    return False


def in_zigzag_order(program: Program, layout: Layout) -> Layout:
    """Returns a layout with the positions of attention in zig-zag order, by the rules that count there.

    Args:
        program: as the layout needs it: with attention as one operation.
        layout: with the positions in their order.
    """
    dims = {dim for _, *pair in position_pairs(program) for dim in pair}

    def ordered(rules: DimRules) -> DimRules:
        return tuple((dim, Zigzag(axes) if axes and dim in dims else axes) for dim, axes in rules)

    scopes = tuple((glob, ordered(own)) for glob, own in layout.scope_rules)
    if scopes != layout.scope_rules:
        return dataclasses.replace(layout, scope_rules=scopes)
    return dataclasses.replace(layout, dim_rules=ordered(layout.dim_rules))


def _over(request: Request, axes: tuple[str, ...], inside: Mapping[str, Any], seq: Dims | None, core: str) -> Layout:
    """The layout with the sequence on axes, but in the core where other dims are on them inside."""
    program = request.program

    def rules(names: Sequence[str]) -> dict[str, Any]:
        scoped = {core: {**dict.fromkeys(names), **inside}} if inside else {}
        return dict.fromkeys(names, axes) | scoped

    there = program.dims_in(core) if inside else program.dims
    known = request.names("seq", seq) if seq is not None else dims_named(there, SEQUENCE)
    if request.problems:
        return request.layout({}, request.candidates(program.dims, axes))
    if inside:
        refuse_projections(request, known, tuple(inside), axes, core)
    if request.problems:
        return request.layout({})
    known = known if seq is not None else [dim for dim in known if not _contracted(program, dim)]
    names = known if seq is not None else fitting(request, known, rules)
    if names:
        return request.layout(with_keys(request, rules(names), names, axes, core))
    if inside and known and request.fits(dict.fromkeys(known[:1], axes)):
        # The sequence fits; what is split inside in its place does not.
        request.problems += request.refusals(rules(known[:1]))
        return request.layout({})
    mixed = {dim: line for dim in dims_named(there, SEQUENCE) if (line := _contracted(program, dim))}
    reasons = "".join(f" {refusal.text}" for refusal in request.refusals(rules(known[:1]))) if known else ""
    reasons += "".join(
        f" `{dim}` is not a sequence: it is contracted with a parameter at {mixed[dim]}." for dim in mixed
    )
    text = f"No dim called {listed(SEQUENCE)} fits `{'+'.join(axes)}`.{reasons}"
    request.refuse("unknown_dim", text, 'Name another, as in seq="tokens".')
    return request.layout({}, request.candidates(program.dims, axes))


def _around(request: Request, seq: Dims | None) -> tuple[str, ...]:
    """Returns the dims of a sequence and those of the keys that go around a ring; notes a problem where none do."""
    pairs = around(request.program)
    names = request.names("seq", seq) if seq is not None else tuple(dims_named(request.program.dims, SEQUENCE))
    keys = tuple(key for query, key in pairs if query in names)
    if not pairs and (unnamed := unnamed_keys(request.program)):
        text = f"A layout says how keys are split by their name, and theirs are made up: {listed(unnamed)}."
        write = ", ".join(f'"{name}": "kv"' for name in unnamed)
        request.refuse("unknown_dim", text, f"Rename them first: program.rename({{{write}}}).")
    elif not pairs:
        text = "A ring is for attention as one operation, and this program has none."
        request.refuse("unknown_dim", text, "Write it as ml.attention(q, k, v, query, key), or take another kind.")
    elif not keys and not request.problems:
        text = f"No queries of attention have a dim called {listed(names or SEQUENCE)}."
        request.refuse("unknown_dim", text, f'Name another, as in seq="{pairs[0][0]}".')
    return tuple(dict.fromkeys((*names, *keys)))


def _two(request: Request) -> tuple[str, ...] | None:
    """Returns the axes of a ring and of heads: the only two, or those that are called so; None without."""
    if len(request.devices) == 2:
        return tuple(request.devices)
    ring = called(request.devices, "ring")
    heads = called(request.devices, "ulysses", (ring,)) if ring else None
    return (ring, heads) if ring and heads else None


def _usp(request: Request, axes: tuple[str, ...], seq: Dims | None, heads: Dims | None, core: str) -> Layout:
    """The layout with positions on two axes, and in the core on the first alone, beside heads on the second."""
    ring = _around(request, seq)
    if len(axes) != 2:
        text = f"It takes two mesh axes, one for the ring and one for heads, and was given {listed(axes)}."
        fix = 'Name both, as in context=("x", "y"), or call the mesh axes `ring` and `ulysses`.'
        request.refuse("unknown_axis", text, fix)
    inside = _heads(request, axes[1:], heads, core) if axes and is_scope(request, core) else {}
    if request.problems:
        return request.layout({})
    return request.layout(dict.fromkeys(ring, axes) | {core: {**dict.fromkeys(ring, axes[:1]), **inside}})


def _contracted(program: Program, dim: str) -> str:
    """Returns the first line that sums over a dim between a parameter and something else; "" where there is none.

    All positions of a sequence go through the same parameters.
    """
    for operation in walk(program.code.block) if trained(program).parameters else ():
        if operation.name == "dot_general" and not operation.backward:
            summed = dim not in program.dims_of(operation.outputs[0])
            both = [value for value in operation.reads if summed and dim in program.dims_of(value)]
            if len(both) == 2 and any(is_weight(program, value, set()) for value in both):
                return str(operation.source)
    return ""


def _heads(request: Request, axes: tuple[str, ...], heads: Dims | None, core: str) -> dict[str, Any]:
    """Returns the rules for heads in the core of attention; notes a problem where there is no such dim."""
    there = sorted(request.program.dims_in(core))
    names = request.names("heads", heads) if heads is not None else tuple(dims_named(there, HEADS))
    if not names and heads is None:
        text = f"No dim in `{core}` is called {listed(HEADS)}: it has {listed(there)}."
        request.refuse("unknown_dim", text, 'Name one, as in heads="groups".')
    return dict.fromkeys(names, axes)
