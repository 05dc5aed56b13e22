"""Matmuls on one GPU, held against measured ones on A100, H100 and H200 (benchmarks/matmuls.py has the source)."""

import dataclasses
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from benchmarks.matmuls import (
    BANDS,
    FP8,
    HELD_OUT,
    KINDS,
    MACHINES,
    SECTION,
    errors,
    figure,
    measured,
    medians,
    predicted,
    table,
)
from meshlab.cost.machines.hardware import hardware
from meshlab.cost.machines.placement import place_mesh
from meshlab.engine.specs.mesh import Mesh

# The largest median error of a band, of machines whose constants are fitted as of those whose are another's.
MOST = {"m from 2,048": 0.10, "m from 128": 0.15, "m below 128": 0.20}
WITH_KERNELS = ("a100", "a100_40g", "h100", "h200", "b200", "gb200")


@pytest.mark.parametrize(("machine", "constants"), [*((name, name) for name in MACHINES), *HELD_OUT.items()])
def test_matmuls_of_all_sizes_are_predicted_as_they_were_measured(machine: str, constants: str):
    off = errors(machine, hardware(constants).matmuls)
    assert len(off) == 480
    assert MOST.keys() == BANDS.keys()
    assert {band: error for band, error in medians(off).items() if error > MOST[band]} == {}


@pytest.mark.parametrize("machine", KINDS[FP8][1])
def test_matmuls_in_8_bits_of_all_sizes_are_predicted_as_they_were_measured(machine: str):
    off = errors(machine, kind=FP8)
    assert len(off) == 240
    assert {band: error for band, error in medians(off).items() if error > 0.15} == {}
    # Taken for half as long as in 16 bits, they would be twice as fast as they are, or more.
    kernels = hardware(machine).matmuls
    assert kernels is not None
    halved = errors(machine, dataclasses.replace(kernels, narrow={}), FP8)
    assert {band: error for band, error in medians(halved).items() if error < 1.5 * medians(off)[band]} == {}


def test_many_sizes_at_once_are_predicted_as_a_plan_of_each():
    machine, rows = hardware("a100"), measured("a100")[::40]
    mesh = Mesh((("x", 1),), place_mesh(machine, None, Mesh((("x", 1),))))
    for row, seconds in zip(rows, predicted(machine, rows), strict=True):
        x, w = (jax.ShapeDtypeStruct(shape, jnp.bfloat16) for shape in ((row.m, row.k), (row.k, row.n)))
        assert ml.trace(jnp.matmul, x, w).plan(mesh, {}).time.estimate == pytest.approx(seconds, rel=1e-6)


@pytest.mark.parametrize("name", WITH_KERNELS)
def test_larger_matmuls_take_longer_and_none_is_faster_than_its_figures(name: str):
    machine = hardware(name)
    kernels, rate = machine.matmuls, machine.flops_per_second("bfloat16")
    assert kernels is not None
    sizes = np.array([1, 16, 100, 128, 129, 512, 1000, 4096, 8192, 65536], float)
    for others in ((64, 64), (64, 8192), (8192, 8192)):
        for by in range(3):
            rows, columns, inner = (*others[:by], sizes, *others[by:])
            seconds = kernels.multiplying(rows, columns, inner, 1, rate)
            assert np.all(np.diff(seconds) >= 0)
            assert np.all(seconds >= 2 * np.prod(others) * sizes / rate)


@pytest.mark.nightly
def test_the_page_shows_what_is_predicted_today():
    """If not: python -m benchmarks.matmuls docs/accuracy.md."""
    page = Path(__file__).parents[2] / "docs" / "accuracy.md"
    assert SECTION.read(page) == table()
    assert SECTION.figure(page).read_text() == figure()
