"""Sharded arrays and their collectives on tori: How to Scale Your Model, chapter 3.

Sources: https://jax-ml.github.io/scaling-book/sharding/ ; pods' totals: https://docs.cloud.google.com/tpu/docs/v6e and
/v4. The book leaves out (n-1)/n on rings, and so do these tests where they say `book`.
"""

import dataclasses

import pytest

import meshlab as ml
from meshlab.cost.machines.collective_time import seconds
from meshlab.cost.machines.hardware import hardware
from meshlab.cost.machines.placement import place_mesh
from meshlab.engine.specs.mesh import Mesh
from tests.oracles.programs import communication_seconds, compute_seconds, crossing, machine, product, rounded, torus

CUBE = ml.mesh(x=4, y=4, z=4)


def gathered(rows, cols, dtype, layout, mesh=CUBE):
    """Stores an array in shards and returns it: whole along the axes that `out` does not name."""
    Rows, Cols = ml.dims(rows=rows, cols=cols)
    return ml.trace(lambda a: a, dtype[Rows, Cols], carry={}).plan(mesh, layout)


def summed(batch, inner, embed, layout, mesh=CUBE):
    """A product whose contraction is split, so that its result is a partial sum that has to be added up."""
    return product(batch, inner, embed).plan(mesh, layout)


def test_a_shard_takes_its_part_of_the_memory():
    """SB-20: int8[128, 2048], rows over x and y of x=2 y=8 z=2. SB-21: over x of x=4 y=8 z=2 it is held 16 times."""
    plan = gathered(128, 2048, ml.i8, {"rows": ("x", "y")}, ml.mesh(x=2, y=8, z=2))
    assert plan.memory.argument_bytes == 16_384
    assert plan.memory.argument_bytes * plan.mesh.size == 524_288
    plan = gathered(128, 2048, ml.i8, {"rows": "x"}, ml.mesh(x=4, y=8, z=2))
    assert plan.memory.argument_bytes * plan.mesh.size == 16 * 128 * 2048


ACTIVATIONS = {"a": {"rows": "x", "cols": "y"}, "out": {"cols": "y"}}
BOTH = {"a": {"rows": ("x", "y")}}


@pytest.mark.parametrize(
    ("layout", "book", "expected"),
    [
        pytest.param(ACTIVATIONS, True, 23.30e-6, id="SB-25 over x"),
        pytest.param(ACTIVATIONS, False, 17.48e-6, id="SB-25 over x, exact"),
        pytest.param(BOTH, True, 46.60e-6, id="SB-26 over x and y"),
    ],
)
def test_gathering_activations_in_a_cube(layout, book, expected):
    """bf16[1024, 4096] on a v4 4x4x4."""
    plan = gathered(1024, 4096, ml.bf16, layout)
    assert [c.kind for c in plan.collectives] == ["all-gather"] * len(plan.collectives)
    assert communication_seconds(plan, machine("v4"), (4, 4, 4), book) == pytest.approx(expected, rel=1e-3)


def test_adding_up_activations_in_a_cube():
    """SB-27. The text of February 2025 prints 190 us: it forgets that x and y split the array."""
    plan = summed(1024, 512, 4096, "batch:x ffn:y embed:z")
    (reduced,) = plan.collectives
    assert (reduced.kind, reduced.axes) == ("all-reduce", ("z",))
    assert communication_seconds(plan, machine("v4"), (4, 4, 4)) == pytest.approx(11.65e-6, rel=1e-3)


def test_gathering_in_a_slice_that_wraps_and_in_one_that_does_not():
    """SB-22: bf16[2048, 8192] over 4 of a v5e 8x4, by the text's formula 372.8 us (printed as 377).

    It takes a ring for granted, which no axis of an 8x4 is: exact, (n-1)/n of the array goes by one link, not two.
    """
    wraps, grid, layout = machine("v5e"), ml.mesh(x=8, y=4), {"a": {"rows": "y"}}
    wraps = dataclasses.replace(wraps, network=dataclasses.replace(wraps.network, wraps="all"))
    plan = gathered(2048, 8192, ml.bf16, layout, grid)
    assert communication_seconds(plan, wraps, (8, 4)) == pytest.approx(372.8e-6, rel=1e-3)
    assert communication_seconds(plan, machine("v5e"), (8, 4), book=False) == pytest.approx(
        2 * 0.75 * 372.8e-6, rel=1e-3
    )


def test_a_short_gather_takes_as_long_as_its_hops():
    """SB-32, and the book's question 3: two hops of 1 us on a ring of four."""
    plan = gathered(128, 1, ml.bf16, {"a": {"rows": "x"}})
    assert communication_seconds(plan, hardware("v4"), (4, 4, 4)) == pytest.approx(2e-6)


def test_the_width_from_which_adding_up_beats_gathering():
    """SB-29, question 4: weights split on the contraction are gathered, or what each has of the product is added up.

    On a v5p, of which C/W is 2,550: the all-reduce is less than the product from twice that.
    """
    on = machine("v5p")

    def difference(embed):
        program = product(1024, embed, 8192)
        gather, add = program.plan(CUBE, {"w": {"embed": "x"}}), program.plan(CUBE, "embed:x")
        assert [c.kind for c in gather.collectives + add.collectives] == ["all-gather", "all-reduce"]
        return compute_seconds(gather, on) - communication_seconds(add, on, (4, 4, 4))

    assert crossing(difference, 512, 65536) == pytest.approx(5100, rel=1e-3)


def test_the_same_width_is_found_by_crossover():
    """SB-29 by `ml.crossover`. What does not fill a tile of 128 is padded to it: the width is found up to one tile."""
    mesh, program = ml.mesh(machine("v5p"), x=4, y=4, z=4), product(8192, 8192, 8192)
    gather, add = program.plan(mesh, {"w": {"embed": "x"}}), program.plan(mesh, "embed:x")
    (width,) = ml.crossover(gather, add, "embed", 3000, 8000, of="lower", book=True)
    assert width == pytest.approx(5100, abs=128)


def test_the_rows_from_which_gathered_weights_cost_nothing_extra():
    """SB-29: C/W rows; the text calls them F in this place, its formula 2DF/W against 2BDF/C has them as B."""
    on = machine("v5p")

    def difference(rows):
        plan = product(rows, 8192, 8192).plan(CUBE, {"w": {"embed": "x"}})
        return compute_seconds(plan, on) - communication_seconds(plan, on, (4, 4, 4))

    assert crossing(difference, 128, 65536) == pytest.approx(2550, rel=1e-3)


def test_an_all_to_all_takes_a_quarter_of_a_gather():
    """SB-30 is half of it, on a ring of one direction; of both, blocks take the shorter way, which is half as long."""
    ring = place_mesh(machine("v5e"), (16, 16), ml.mesh(x=16, y=16))
    gather, exchange = (seconds(kind, 2.0**30, ring, ("x",), book=True) for kind in ("all-gather", "all-to-all"))
    assert gather / exchange == pytest.approx(4)
    # Of one direction all that is gathered passes by one link, and half of that where blocks are exchanged.
    hop = seconds("collective-permute", 2.0**30, ring, ("x",))
    assert seconds("all-gather", 2.0**30, ring, ("x",)) == pytest.approx(hop * 15 / 2)
    assert exchange == pytest.approx(hop * 16 / 2 / 4)


def specified(name):
    """The machine with the links that its maker specifies."""
    hardware, network = machine(name), torus(name)
    specified_network = dataclasses.replace(network, link=network.specified, hop_latency=rounded(0.0))
    return dataclasses.replace(hardware, network=specified_network)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("v5e", 51.2e12, id="SB-34 v5e"),
        pytest.param("v6e", 102.4e12, id="SB-34 v6e"),
        pytest.param("v4", 1.106e15, id="SB-34 v4"),
    ],
)
def test_what_a_pod_sends_in_an_all_reduce(name, expected):
    """Over all links at once, as the maker counts: what all chips take in."""
    on = specified(name)
    shape, chips, whole = torus(name).limits, torus(name).largest, 1e12
    axes = tuple("xyz"[: len(shape)])
    grid = Mesh(tuple(zip(axes, shape, strict=True)))
    took = seconds("all-gather", whole, place_mesh(on, shape, grid), axes)
    assert chips * whole * (chips - 1) / chips / took == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "expected"), [pytest.param("v5e", 1.6e12, id="SB-35 v5e"), pytest.param("v6e", 3.2e12, id="SB-35 v6e")]
)
def test_what_crosses_the_middle_of_a_pod(name, expected):
    """Half of an array lies on either side, and half of that has to cross: an all-to-all is bound by the bisection."""
    whole = 1e12
    took = seconds("all-to-all", whole, place_mesh(specified(name), (16, 16), ml.mesh(x=16, y=16)), ("x", "y"))
    assert whole / 4 / took == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "shape", "rings"),
    [
        pytest.param("v5e", (8, 16), (False, True), id="SB-36 v5e"),
        pytest.param("v6e", (8, 16), (False, True), id="SB-36 v6e"),
        pytest.param("v4", (2, 4, 4), (False, False, False), id="SB-36 v4"),
        pytest.param("v5p", (4, 4, 4), (True, True, True), id="SB-36 v5p"),
        pytest.param("v7x", (2, 4, 4), (False, False, False), id="SB-36 v7x"),
    ],
)
def test_which_axes_of_a_slice_are_rings(name, shape, rings):
    """MaxText, accelerator_to_spec_map.py: https://github.com/AI-Hypercomputer/maxtext."""
    assert torus(name).rings(shape) == rings
