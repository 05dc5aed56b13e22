"""Cells of numbers: never more than can be seen, and strides of what is read leave each a number."""

from __future__ import annotations

import math

import numpy as np
import pytest

import meshlab as ml
from meshlab.models import zoo
from meshlab.widgets.views.devices.cells import LEAST_CELL, MOST_CELLS, Grid, grid_of
from meshlab.widgets.views.devices.heat import MOST_READ, strides_of
from meshlab.widgets.views.devices.holdings import tensor_view


@pytest.mark.parametrize("name", ["transformer_adamw", "moe_switch", "unet3d_sgd"])
def test_there_are_never_more_cells_than_can_be_seen(name: str) -> None:
    program = next(model for model in zoo.models() if model.name == name).trace()
    plan = program.plan(ml.mesh(data=4, model=2), ml.layouts.fsdp(program, ml.mesh(data=4, model=2)))
    for place in program.places_values:
        shards = tensor_view(plan, place)
        if not math.prod(shards["shape"]):
            continue
        grid = grid_of(shards, shards["blocks"])
        drawn = [grid.shape[axis] for axis in range(len(grid.shape))]
        assert math.prod(drawn) <= max(MOST_CELLS, len(shards["blocks"]["x"]))
        sides = [shards["blocks"]["width"], shards["blocks"]["height"]]
        assert math.prod(drawn) <= max(len(shards["blocks"]["x"]), math.prod(sides) / LEAST_CELL**2 + 1)


def test_strides_leave_a_number_to_each_cell() -> None:
    edges = (np.arange(0, 1_000_001, 10_000), np.array([0, 5, 9]), np.array([0, 1_000]))
    grid = Grid(edges, (((0, 100),), ((0, 2),), ((0, 1),)), 0, 1, ())
    strides = strides_of(grid, 1_000_000 * 9 * 1_000)
    assert 1_000_000 * 9 * 1_000 <= MOST_READ * math.prod(strides)
    assert all(stride <= min(np.diff(each)) for stride, each in zip(strides, edges, strict=True))
