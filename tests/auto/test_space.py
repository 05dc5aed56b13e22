"""The space of layouts: what is in it is legal, what is legal is in it, and it is counted without listing it."""

from __future__ import annotations

import itertools

import pytest

import meshlab as ml
from meshlab.auto.additive.choices import Constraints, Space, documented_order, restricted, space_of
from tests.auto.ledgers import ledger
from tests.auto.programs import MODELS, recorded, traced


def together(*dims: str, axes: dict[str, int]) -> Space:
    """A space of dims of which no two may share an axis."""
    apart = frozenset(map(frozenset, itertools.combinations(dims, 2)))
    return Space(axes, {d: (*axes, None) for d in dims}, apart)


def test_three_dims_of_one_operation_on_two_axes():
    layouts = set(together("s1", "s2", "s3", axes={"m1": 4, "m2": 8}).splits())
    assert len(layouts) == 13
    assert {frozenset(), frozenset({("s3", "m2")}), frozenset({("s1", "m2"), ("s2", "m1")})} <= layouts
    assert frozenset({("s1", "m2"), ("s3", "m2")}) not in layouts


def test_dims_of_mesh_tensorflows_concat():
    # A name may have several sizes there; what is concatenated and what has no name cannot be split.
    graph = ledger(
        "x1: a=5 b=10 concat=15",
        "x2: a=5 b=10 concat=20",
        "both: a=5 b=10 concat=35 from x1 x2",
        "zeros: _anonymous_1=5 _anonymous_2=10",
        whole={"both": "concat"},
    )
    assert set(graph.splittable) == {"a", "b"}
    assert graph.space({"m1": 4, "m2": 2}).choices == {"a": (None,), "b": ("m2", None)}


def test_a_dim_must_divide():
    graph = ledger("x: a=3 b=4", "y: b=4 c=5", "z: a=3 c=5 from x y")
    assert graph.space({"m1": 4, "m2": 3}).choices == {"a": ("m2", None), "b": ("m1", None), "c": (None,)}


def test_axes_of_size_one_split_nothing():
    assert ledger("x: a=3").space({"m1": 1, "m2": 3}).axes == {"m2": 3}


@pytest.mark.share(4)
@pytest.mark.parametrize("model", MODELS.values(), ids=lambda model: model.name)
@pytest.mark.parametrize("axes", [{"a": 4}, {"a": 4, "b": 2}], ids=str)
def test_the_space_is_what_a_plan_accepts(model, axes):
    program = ml.trace(model.step, *model.shapes)
    mesh = ml.mesh(**axes)
    space = space_of(program, axes)
    legal = set(space.splits())
    assert space.count() == len(legal)
    accepted = set()
    for on in itertools.product([None, *axes], repeat=min(len(program.dims), 5)):
        splits = frozenset((d, a) for d, a in zip(program.dims, on, strict=False) if a)
        try:
            program.plan(mesh, dict(splits))
        except ml.LayoutError:
            continue
        accepted.add(splits)
    first = frozenset([*program.dims][:5])
    assert accepted == {splits for splits in legal if {d for d, _ in splits} <= first}


def test_pins_are_in_every_layout():
    model = MODELS["mlp"]
    program = ml.trace(model.step, *model.shapes)
    pinned, forbidden = frozenset({("batch", "a")}), frozenset({("hidden", "b")})
    space = space_of(program, {"a": 2, "b": 2}, Constraints(ml.Layout.of("batch:a"), forbidden, frozenset({"rows"})))
    layouts = list(space.splits())
    assert space.pinned == pinned
    assert space.count() == len(layouts)
    assert all(pinned <= splits and not forbidden & splits for splits in layouts)
    assert not any(restricted(splits, frozenset({"rows"})) for splits in layouts)


def test_documented_order_has_data_first():
    assert documented_order(recorded("mlp_train")) == ("batch", "rows", "cols", "hidden", "classes")
    order = documented_order(traced("transformer_adamw"))
    assert order[:2] == ("batch", "seq")
    assert sorted(order) == sorted(traced("transformer_adamw").dims)
