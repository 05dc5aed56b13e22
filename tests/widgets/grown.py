"""A two-layer net with AdamW that is large enough for layouts to matter, on eight chips, and Auto's search for it."""

from __future__ import annotations

import functools

import meshlab as ml
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from tests.auto.best_first.programs import grown

MANUAL = "batch:a ffn:b"


@functools.cache
def program() -> ml.Program:
    return grown("mlp_adamw")


def opened(layout: str = MANUAL) -> Explorer:
    """Opens it on a machine, its costs worked out."""
    explorer = explore(program(), ml.mesh("v5p:2x2x2", a=4, b=2), layout)
    explorer.view()
    return explorer


def tied() -> Explorer:
    """Opens a net of which several layouts are as good as the best."""
    return explore(grown("autoencoder"), ml.mesh("v5p:2x2x1", a=2, b=2), "batch:a+b")
