"""How an operation is split that sends elements to parts that they name themselves: tokens to their experts.

    batch:data experts:data         tokens are exchanged over `data`
    batch:data                      tokens stay where they are, and so the places of their rows are split over `data`
    batch:data+x experts:data       both
    experts:data                    each device has all tokens, and takes those of its experts

Rules decide how the first such operation is split. Those that read what it has sent, and send it back, follow it,
whatever rules they meet: rows stand in an order of the devices' own, and nothing but the same split knows it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

from ..rules import Factors
from ..rules.table import Routed
from ..specs.spec import Axes, Grid, Spec, fitting


def routed_splits(
    factors: Factors,
    asked: Mapping[int, Axes],
    operands: Sequence[Spec | None],
    sizes: Mapping[str, int],
    unsplittable: frozenset[int],
) -> dict[int, Axes]:
    """Returns the mesh axes that split each factor of an operation that sends items.

    Args:
        factors: of the operation.
        asked: what the compute rules ask of each factor.
        operands: the specs that the operands have.
        sizes: the mesh axes' sizes.
        unsplittable: factors that no mesh axis may shard.
    """
    routed = factors.routed
    assert routed is not None, "it sends items"
    splits = _followed(factors, routed, operands)
    if splits is None:
        splits = _decided(factors, routed, asked, sizes, unsplittable)
    used = set(itertools.chain.from_iterable(splits.values()))
    for factor, axes in asked.items():
        if factor not in routed.items | routed.places:
            splits[factor] = tuple(itertools.takewhile(lambda a: a not in used, axes))
            used.update(splits[factor])
    return splits


def _followed(factors: Factors, routed: Routed, operands: Sequence[Spec | None]) -> dict[int, Axes] | None:
    """Returns the splits of the operands that are followed; None where none are, as of the first operation."""
    if not routed.followed:
        return None
    return {
        factor: split
        for position in routed.followed
        if (spec := operands[position]) is not None
        for factor, split in zip(factors.operands[position], spec.splits, strict=True)
        if factor in routed.items | routed.places and split
    }


def _decided(
    factors: Factors,
    routed: Routed,
    asked: Mapping[int, Axes],
    sizes: Mapping[str, int],
    unsplittable: frozenset[int],
) -> dict[int, Axes]:
    """Returns what rules decide: homes as asked, places over what else splits items, and of items all that fits."""
    homes = {factor: asked[factor] for factor in sorted(routed.homes) if asked.get(factor)}
    home = set(itertools.chain.from_iterable(homes.values()))
    items: dict[int, Axes] = {}
    for factor in sorted(routed.items):
        used = set(itertools.chain.from_iterable(items.values()))
        items[factor] = tuple(itertools.takewhile(lambda a, used=used: a not in used, asked.get(factor, ())))
    (slot,) = routed.slots
    stay = tuple(a for axes in items.values() for a in axes if a not in home) if slot not in unsplittable else ()
    stay = fitting(stay, factors.limits.get(slot, math.prod(sizes.values())), sizes)
    items = {f: tuple(itertools.takewhile(lambda a: a in home or a in stay, axes)) for f, axes in items.items()}
    kept = set(itertools.chain.from_iterable(items.values()))
    # As everywhere, axes in time come last: an iteration's places are shared by devices as any other axis is.
    in_time = sizes.in_time if isinstance(sizes, Grid) else ()
    places = sorted((a for a in stay if a in kept), key=lambda a: a in in_time)
    return {f: axes for f, axes in ({**homes, **items, slot: tuple(places)}).items() if axes}
