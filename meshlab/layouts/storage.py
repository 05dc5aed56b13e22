"""Chooses the dim that each parameter is stored over, and says it in few globs.

    dims = largest(request, parameters, axes)    {"params/norm": "embed", "params/up": "ffn", …}
    rules(request, dims, axes)                   {"params/*": {"embed": "data"}, "params/up": {"ffn": "data"}}

A parameter is stored over its largest dim that the axes divide; of several the one that most parameters have. The dim
of a scan is no choice: a layer's weights are gathered in its iteration, not all layers' in front of the loop. Optimizer
state has the dims of its parameter, and so the same choice.

Globs: one for a whole tree, with the dim that most of its places are stored over and others that do not disturb it,
then one for each group of places that it does not serve. A glob is taken only where it serves all that it matches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..engine.programs.axis_conflicts import scanned_dims
from ..engine.programs.values import Argument
from ..engine.specs.spec import Axes
from .given_globs import exact, globs
from .request import Request

Rules = dict[str, dict[str, Axes]]


def choices(request: Request, value: int, axes: Axes, padded: bool = False) -> list[str]:
    """Returns the dims that a value may be stored over: axes divide them, and no scan steps through them.

    Padded, axes need not divide them, if there is an element for each part.

    Where the layout beside puts one of them on such an axis already, that is the only one.
    """
    program, scans = request.program, scanned_dims(request.program)
    dims = {dim: request.computed(dim) for dim in program.dims_of(value) if dim}
    there = [dim for dim, computed in dims.items() if set(computed) & set(axes)]
    parts = {dim: request.count((*computed, *axes)) for dim, computed in dims.items()}
    sizes = program.dims
    fits = [d for d, n in parts.items() if sizes[d] and (sizes[d] >= n if padded else sizes[d] % n == 0)]
    return there[:1] or [dim for dim in fits if dim not in scans]


def largest(request: Request, arguments: Sequence[Argument], axes: Axes, padded: bool = False) -> dict[str, str | None]:
    """Returns for each argument, by place, its largest dim that axes divide, or pad; None where there is none."""
    possible = {a.place: choices(request, a.value, axes, padded) for a in arguments}
    common = Counter(dim for dims in possible.values() for dim in dims)
    sizes = request.program.dims

    def rank(dim: str) -> tuple:
        return -sizes[dim], -common[dim], dim

    return {place: min(dims, key=rank, default=None) for place, dims in possible.items()}


def rules(request: Request, wanted: Mapping[str, str | None], axes: Axes) -> Rules:
    """Returns rules that store each place over the dim wanted there, and no other argument over anything."""
    written: Rules = {}
    for root in _roots(request, wanted):
        below = [place for place in wanted if place == root or place.startswith(f"{root}/")]
        base = _base(request, wanted, below)
        if not base:
            continue
        written[exact(root) if below == [root] else f"{exact(root)}/*"] = dict.fromkeys(base, axes)
        done = {place for place in below if _right(request, wanted, place, base)}
        for place in below:
            dim = wanted[place]
            if dim and place not in done:
                glob = next(glob for glob in globs(root, place) if _serves(request, glob, wanted, place))
                written[glob] = {dim: axes}
                done |= set(request.program.matching(glob))
    return written


def _right(request: Request, wanted: Mapping[str, str | None], place: str, dims: Iterable[str]) -> bool:
    """Says whether rules for dims store a place over the dim wanted there, and no other."""
    return request.program.place_dims[place] & set(dims) == ({wanted[place]} - {None})


def _base(request: Request, wanted: Mapping[str, str | None], places: Sequence[str]) -> list[str]:
    """Returns the dims of a rule for all of some places: the dim of most of them, and others that disturb none."""
    base: list[str] = []
    for dim, _ in Counter(dim for place in places if (dim := wanted[place])).most_common():
        before = {place for place in places if wanted[place] and _right(request, wanted, place, base)}
        after = {place for place in places if wanted[place] and _right(request, wanted, place, (*base, dim))}
        if before < after:
            base.append(dim)
    return base


def _roots(request: Request, wanted: Mapping[str, str | None]) -> Iterator[str]:
    """Yields the smallest number of subtrees that hold the places wanted, and no other argument."""
    others = [a.place for a in request.program.arguments if a.place not in wanted]
    seen: set[str] = set()
    for place in wanted:
        parts = place.split("/")
        prefixes = ["/".join(parts[:depth]) for depth in range(1, len(parts) + 1)]
        root = next(p for p in prefixes if p == place or not any(o == p or o.startswith(f"{p}/") for o in others))
        if root not in seen:
            seen.add(root)
            yield root


def _serves(request: Request, glob: str, wanted: Mapping[str, str | None], place: str) -> bool:
    """Says whether all that a glob matches is stored over the dim of this place; a glob of one place is its name."""
    matched = request.program.matching(glob)
    if glob == exact(place):
        return True
    return place in matched and len(matched) > 1 and all(wanted.get(p) == wanted[place] for p in matched)
