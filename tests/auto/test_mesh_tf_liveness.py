"""Mesh TensorFlow's liveness convention: its own tests' schedules and memory contents."""

from __future__ import annotations

import pytest

from meshlab.auto.additive.mesh_tf_liveness import lives_of, most_live_bytes, order_of
from tests.auto.ledgers import ledger, mesh_tf

PRODUCTS = ("X: a=3 b=4", "Y: b=4 c=5", "Z1: a=3 c=5 from X Y", "Z2: a=3 c=5 from X Y")


def test_order_is_topological():
    order = order_of(ledger(*PRODUCTS, final="Z1 Z2"))
    assert set(order[:2]) == {0, 1}
    assert set(order[2:]) == {2, 3}


def test_order_runs_what_frees_most_first():
    lines = ("X: a=3 b=4", "Y: b=4 c=5", "Z: a=3 b=4 c=5 from X Y", "W: a=3 c=5 from X Y", "V: a=3 b=4 c=5 from W")
    assert order_of(ledger(*lines, final="Z V")) == (0, 1, 3, 2, 4)


@pytest.mark.parametrize(("final", "order"), [("X Z", (1, 2, 0)), ("", (0, 1, 2))])
def test_order_with_a_tensor_that_nobody_reads(final, order):
    assert order_of(ledger("X: a=4", "Y: b=3", "Z: b=3 c=2 from Y", final=final)) == order


def test_order_settles_ties_by_name():
    assert order_of(ledger("b: x=4", "a: x=4", "c: x=4 from a b", final="c")) == (1, 0, 2)


def test_order_counts_a_repeated_operand_once_for_waiting_and_twice_for_bytes():
    # `square` frees x twice over, as auto_mtf counts it, and so runs before `other`, which makes as much.
    lines = ("x: a=4", "y: a=4", "other: a=4 from y", "square: a=4 from x x")
    assert order_of(ledger(*lines, final="other square")) == (0, 3, 1, 2)


@pytest.mark.parametrize(
    ("order", "contents"),
    [
        ((0, 1, 2, 3), ["X", "X Y", "X Y Z1", "X Y Z1 Z2"]),
        ((0, 1, 3, 2), ["X", "X Y", "X Y Z2", "X Y Z1"]),
    ],
)
def test_contents_add_results_before_they_free_operands(order, contents):
    products = ledger(*PRODUCTS, final="Z1")
    lives = lives_of(products, order)
    at = [{name for name in lives.first if lives.first[name] <= t < lives.gone[name]} for t in range(lives.moments)]
    assert at == [set(names.split()) for names in contents]


def test_bytes_of_whole_tensors():
    assert {name: entry.nbytes for name, entry in ledger(*PRODUCTS).entries.items()} == {
        "X": 48,
        "Y": 80,
        "Z1": 60,
        "Z2": 60,
    }


# What auto_mtf says of its own matrix product under layouts, legal and not (`b` has size 5 and is rounded up).
MATMUL = {
    "": 1400,
    "a:m1 b:m2": 428,
    "a:m1 c:m2": 352,
    "b:m1 a:m2": 528,
    "b:m1 c:m2": 504,
    "c:m1 b:m2": 352,
    "a:m2 c:m1": 300,
    "c:m1": 500,
    "c:m2": 800,
    "a:m2": 900,
}


@pytest.mark.parametrize(("layout", "nbytes"), MATMUL.items())
def test_live_bytes_of_a_matrix_product(layout, nbytes):
    product = ledger("x: a=10 b=5", "y: b=5 c=20", "z: a=10 c=20 from x y")
    assert most_live_bytes(product, axes_of(layout), {"m1": 4, "m2": 2}) == nbytes


# (graph, mesh, layout) -> live bytes, as recorded from auto_mtf.
RECORDED = [
    ("mlp_forward", {"all": 4}, "", 3_979_424),
    ("mlp_forward", {"all": 4}, "batch:all", 3_434_024),
    ("mlp_forward", {"all": 4}, "hidden:all", 1_233_056),
    ("mlp_train", {"all": 4}, "", 9_637_796),
    ("mlp_train", {"all": 4}, "batch:all", 9_634_796),
    ("mlp_train", {"all": 4}, "hidden:all", 2_412_452),
    ("mlp_train", {"a": 4, "b": 2}, "classes:b cols:b hidden:a", 1_206_228),
    ("two_layer", {"all": 4}, "", 81_920),
    ("two_layer", {"all": 4}, "batch:all", 43_008),
    ("two_layer", {"all": 4}, "hidden:all", 24_576),
    ("two_layer", {"all": 4}, "io:all", 69_632),
    ("two_layer", {"r": 2, "c": 2}, "batch:r hidden:c", 28_672),
    ("two_layer", {"r": 2, "c": 2}, "batch:r io:c", 40_960),
    ("two_layer", {"r": 2, "c": 2}, "io:r hidden:c", 36_864),
    ("block_forward", {"all": 4}, "", 137_216),
    ("block_forward", {"all": 4}, "batch:all", 53_248),
    ("block_forward", {"all": 4}, "d_ff:all heads:all", 49_152),
    ("block_train", {"all": 4}, "", 346_116),
    ("block_train", {"all": 4}, "batch:all", 111_108),
    ("block_train", {"all": 4}, "d_ff:all heads:all", 150_020),
]


@pytest.mark.parametrize(("graph", "mesh", "layout", "nbytes"), RECORDED)
def test_live_bytes_of_mesh_tensorflows_graphs(graph, mesh, layout, nbytes):
    graph_ledger = mesh_tf(graph)
    assert most_live_bytes(graph_ledger, axes_of(layout), mesh) == nbytes


def axes_of(layout: str) -> dict[str, str]:
    return dict(pair.split(":") for pair in layout.split())
