"""Mesh axes that must stay silent: what can be split over one, so that no layout with anything else is looked at.

    silent_sets(pricer, "model", [frozenset(), frozenset({"ffn"}), …])      [frozenset(), …]

Whether a layout sends over an axis follows from the dims that it splits over that axis: a value is a partial sum along
it, or is moved along it, whatever the other axes split. So one plan for each set of dims, which splits that axis alone,
rules out all layouts that have the set there. Where scopes may be computed otherwise this does not hold, and nothing is
ruled out: each layout is held to its own plan in any case (`Search.is_allowed`).
"""

from __future__ import annotations

from collections.abc import Sequence

from ...engine.specs.layout import Layout
from ..request.stopping import NEVER, Watch
from .extras import Dims
from .pricer import Pricer


def silent_sets(pricer: Pricer, axis: str, sets: Sequence[Dims], watch: Watch = NEVER) -> tuple[Dims, ...]:
    """Returns the sets of dims that send nothing over a mesh axis which they alone are on; the first where none does.

    Args:
        pricer: of the program on the mesh.
        axis: the mesh axis.
        sets: the sets of dims that it may split.
        watch: whether the search is to stop.
    """
    found = []
    for own in sets:
        watch.check()
        price = pricer.price(Layout.of(dict.fromkeys(sorted(own), axis)))
        if price is not None and axis not in price.axes_sent_over:
            found.append(own)
    return tuple(found) or tuple(sets[:1])
