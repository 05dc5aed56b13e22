"""Parallelism inside the model: of its weights and its sequence.

Which dims those are is said by name; the defaults are the names in `meshlab.models`, of which those are taken that a
program has and that fit together. Dims that are given must all fit.

Sources: tensor parallelism, Shoeybi et al. 2019 (https://arxiv.org/abs/1909.08053); sequence parallelism, Korthikanti
et al. 2022 (https://arxiv.org/abs/2205.05198).
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence
from typing import Any

from ..engine.errors import listed
from ..engine.globs import matches
from ..engine.programs.program import Program
from ..engine.specs.layout import Layout
from ..engine.specs.mesh import Mesh
from ..engine.specs.spec import Axes
from ..engine.tensors.dims import Dim
from .request import Request

Dims = str | Dim | Sequence[str | Dim]

# Names in the zoo, those that are taken first in front. `group` is the query heads of a head of keys and values.
_WIDE = ("hidden", "hidden?", "hidden_?", "hidden_odd", "hidden_even", "filters?", "inner", "mixing")
TENSOR = ("heads", "ffn", "d_ff", "vocab", "group", *_WIDE)
SEQUENCE = ("seq", "source", "length", "blocks", "rows")
RESIDUAL = "residual*"


def tensor_parallel(
    program: Program, mesh: Mesh, *, model: str | Sequence[str] | None = None, dims: Dims | None = None
) -> Layout:
    """Puts heads, feed-forward and vocabulary dims on the model axis: Megatron's tensor parallelism.

    Each device has a part of every such weight, and sums over it are all-reduced: twice a layer in the forward
    and twice in the backward pass. Source: https://arxiv.org/abs/1909.08053.

    Args:
        program: made by `ml.trace`.
        mesh: made by `ml.mesh`.
        model: the mesh axis; by default the only one, or the one called `model`, `tp`, `tensor` or `mp`. Several are
            "pod+model", major first.
        dims: the dims, "heads ffn" or a tuple; by default whichever of `heads`, `ffn`, `d_ff`, `vocab`, `group`,
            `hidden` (`hidden1`, `hidden_1`, …), `filters1` (…), `inner` and `mixing` that the program has and that fit
            together, the earlier first.

    Returns:
        `{"heads": "model", "ffn": "model", "vocab": "model"}`, say.

    Raises:
        LayoutError: no dim has such a name and fits, or one that was given does not; those that fit are listed.
    """
    request = Request("tensor_parallel", program, mesh)
    axes = request.axes("model", model, "model")
    rules = plain_rules(request, axes, dims, TENSOR)
    return request.layout(rules, candidates(request, axes))


def sequence_parallel(
    program: Program,
    mesh: Mesh,
    *,
    model: str | Sequence[str] | None = None,
    dims: Dims | None = None,
    seq: Dims | None = None,
) -> Layout:
    """Stores the residual stream in parts of its sequence, beside tensor parallelism, on the same axis.

    The residual stream must be tagged, `x = ml.tag(x, "residual")`, in each layer. Each all-reduce of tensor
    parallelism becomes a reduce-scatter and an all-gather of as many bytes together, and norms are computed in parts.
    Source: https://arxiv.org/abs/2205.05198.

    Args:
        program: made by `ml.trace`.
        mesh: made by `ml.mesh`.
        model: the mesh axis, as of `tensor_parallel`.
        dims: the dims of tensor parallelism, as of `tensor_parallel`.
        seq: the dims of the sequence; by default whichever of `seq`, `source`, `length`, `blocks` and `rows` that what
            is tagged has, and that fit.

    Returns:
        `{"heads": "model", "ffn": "model", "residual*": {"seq": "model"}}`, say.
    """
    request = Request("sequence_parallel", program, mesh)
    axes = request.axes("model", model, "model")
    rules = plain_rules(request, axes, dims, TENSOR)
    places = [tag for tag in program.tags if matches(tag, RESIDUAL)]
    if not places:
        tags = f"its tags are {listed(program.tags)}" if program.tags else "it has no tags"
        text = f"No value is tagged `residual`: {tags}."
        request.refuse("unknown_place", text, 'Tag the residual stream in each layer: x = ml.tag(x, "residual").')
        return request.layout(rules, candidates(request, axes))
    there = dict.fromkeys(dim for place in places for dim in sorted(program.place_dims[place]))

    def stored(names: Sequence[str]) -> dict[str, Any]:
        return rules | {RESIDUAL: dict.fromkeys(names, axes)}

    if seq is not None:
        names = request.names("seq", seq)
    else:
        names = fitting(request, dims_named(there, SEQUENCE), stored) if axes else ()
    if not names and axes and seq is None:
        sizes = ", ".join(f"`{dim}` ({program.dims[dim]:,})" for dim in there if request.fits(stored([dim])))
        text = f"The values tagged `residual` have no dim called {listed(SEQUENCE)} that fits `{'+'.join(axes)}`."
        request.refuse("unknown_dim", text, f'Name one, as in seq="length": {sizes or "none of its dims"} would fit.')
    return request.layout(stored(names), candidates(request, axes))


def plain_rules(request: Request, axes: Axes, given: Dims | None, names: Sequence[str]) -> dict[str, Any]:
    """Returns plain rules for the dims given, or for those with conventional names that fit together."""

    def computed(dims: Sequence[str]) -> dict[str, Any]:
        return dict.fromkeys(dims, axes)

    if given is not None:
        named = request.names("dims", given)
        return computed(named) if axes else {}
    if not axes:
        return {}
    known = dims_named(request.program.dims, names)
    together = fitting(request, known, computed)
    if not together:
        text = f"No dim is called {listed(names)}."
        if known:
            text = f"None of {listed(known)} fits: {' '.join(r.text for r in request.refusals(computed(known[:1])))}"
        request.refuse("unknown_dim", text, 'Name others, as in dims="heads ffn".')
    return computed(together)


def dims_named(dims: Any, names: Sequence[str]) -> list[str]:
    """Returns the dims that names match, in their order."""
    return list(dict.fromkeys(dim for name in names for dim in dims if fnmatch.fnmatchcase(dim, name)))


def fitting(request: Request, dims: Sequence[str], rules: Callable[[Sequence[str]], Any]) -> tuple[str, ...]:
    """Returns those of dims, the earlier first, that fit together."""
    taken: tuple[str, ...] = ()
    for dim in dims:
        if request.fits(rules((*taken, dim))):
            taken = (*taken, dim)
    return taken


def candidates(request: Request, axes: Axes) -> str:
    return request.candidates(request.program.dims, axes) if request.problems and axes else ""
