"""The layouts and bytes that auto_mtf finds, found by the integer program on Mesh TensorFlow's own graphs."""

from __future__ import annotations

import pytest

from meshlab.auto.additive.least_live_bytes import least_live_bytes, score
from meshlab.auto.additive.mesh_tf_liveness import most_live_bytes
from tests.auto.ledgers import ledger, mesh_tf

MATMUL = ("x: a=10 b=5", "y: b=5 c=20", "z: a=10 c=20 from x y")
MESH = {"m1": 4, "m2": 2}


@pytest.mark.parametrize("final", ["", "z"])
@pytest.mark.parametrize("times", [1, 100])
def test_matrix_products(final, times):
    repeated = (f"z{i}: a=10 c=20 from x y" for i in range(times - 1))
    product = ledger(*MATMUL, *repeated, final=final)
    solution = least_live_bytes(product, product.space(MESH))
    assert solution.splits == {("a", "m2"), ("c", "m1")}
    assert solution.value == 300
    # What auto_mtf minimises: (dims + 1) · bytes - dims that are split.
    assert score(product, solution) == 4 * 300 - 2


def test_nothing_can_be_split():
    # An unstacked dim cannot be split, and 5 does not divide.
    lines = ("x: a=10 b=5", "y: b=5 c=20", "xs: b=5 from x", "ys: b=5 from y")
    graph = ledger(*lines, whole={"xs": "a", "ys": "c"})
    assert least_live_bytes(graph, graph.space(MESH)).splits == frozenset()


# (graph, mesh, auto_mtf's layouts, its bytes). It found the first layout; the others are as good.
FOUND = [
    ("mlp_forward", {"all": 4}, ["hidden:all"], 1_233_056),
    (
        "mlp_forward",
        {"a": 2, "b": 2},
        ["classes:{0} cols:{0} hidden:{1}", "classes:{0} rows:{0} hidden:{1}"],
        1_176_656,
    ),
    ("mlp_forward", {"a": 4, "b": 2}, ["classes:b hidden:a rows:b", "classes:b cols:b hidden:a"], 667_728),
    ("mlp_train", {"all": 4}, ["hidden:all", "cols:all", "rows:all"], 2_412_452),
    ("mlp_train", {"a": 2, "b": 2}, ["classes:{0} cols:{0} hidden:{1}", "classes:{0} rows:{0} hidden:{1}"], 2_410_452),
    ("mlp_train", {"a": 4, "b": 2}, ["classes:b cols:b hidden:a", "classes:b hidden:a rows:b"], 1_206_228),
    ("two_layer", {"all": 4}, ["hidden:all"], 24_576),
    ("two_layer", {"a": 2, "b": 2}, ["batch:{0} hidden:{1}"], 28_672),
    ("block_forward", {"all": 4}, ["d_ff:all heads:all"], 49_152),
    ("block_forward", {"a": 2, "b": 2}, ["batch:{0} d_ff:{1} heads:{1}"], 39_424),
    ("block_train", {"all": 4}, ["batch:all"], 111_108),
    ("block_train", {"a": 2, "b": 2}, ["batch:{0} d_ff:{1} heads:{1}"], 115_204),
    ("block_train", {"a": 4, "b": 2}, ["batch:a d_ff:b heads:b"], 65_796),
]


@pytest.mark.parametrize(("graph", "mesh", "layouts", "nbytes"), FOUND)
def test_auto_mtf(graph, mesh, layouts, nbytes):
    ledger = mesh_tf(graph)
    solution = least_live_bytes(ledger, ledger.space(mesh))
    assert solution.value == nbytes
    assert solution.bound == pytest.approx(nbytes, rel=1e-7)
    # On a mesh of equal axes they may change places.
    allowed = {layout.format(*axes) for layout in layouts for axes in (list(mesh), [*mesh][::-1])}
    assert " ".join(":".join(pair) for pair in sorted(solution.splits)) in {
        " ".join(sorted(a.split())) for a in allowed
    }


@pytest.mark.share(4)
@pytest.mark.parametrize("graph", ["mlp_forward", "mlp_train", "two_layer", "block_forward", "block_train"])
@pytest.mark.parametrize("mesh", [{"a": 4}, {"a": 2, "b": 2}, {"a": 4, "b": 2}, {"a": 2, "b": 2, "c": 2}])
def test_no_layout_holds_less(graph, mesh):
    ledger = mesh_tf(graph)
    space = ledger.space(mesh)
    costs = {splits: most_live_bytes(ledger, dict(splits), mesh) for splits in space.splits()}
    solution = least_live_bytes(ledger, space)
    assert (solution.value, -len(solution.splits)) == min((cost, -len(splits)) for splits, cost in costs.items())
    assert costs[solution.splits] == solution.value
