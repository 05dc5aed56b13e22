"""Rules for places: exact for whatever is wanted, and as few as a person would write."""

from __future__ import annotations

import functools

import pytest
from hypothesis import given
from hypothesis import strategies as st

import meshlab as ml
from meshlab.engine.legality.examine import resolve
from meshlab.layouts.given_globs import exact, globs, layout_of

A, B, C = ml.dims(a=8, b=8, c=8)
MESH = ml.mesh(x=2, y=2, z=2)
DATA, NONE = ("x",), ()


@functools.cache
def program() -> ml.Program:
    """Parameters in lists and dicts, which are carried, and data that stands alone."""

    def step(params: dict, c: ml.Tensor) -> tuple:
        return {**params, "scale": params["scale"] * 2}, c.sum()

    layers = [{"up": ml.f32[A, B], "down": ml.f32[B, A]} for _ in range(3)]
    return ml.trace(step, {"layers": layers, "scale": ml.f32[A], "embedding": ml.f32[A, C]}, ml.f32[C])


# Each dim has an axis of its own, so that whatever is wanted is legal.
OWN = {"a": ("x",), "b": ("y",), "c": ("z",)}


@given(st.data())
def test_every_place_is_stored_as_wanted(data: st.DataObject) -> None:
    places = [*(a.place for a in program().arguments), *program().outputs]
    some = data.draw(st.lists(st.sampled_from(places), unique=True))
    wanted = {
        place: {dim: OWN[dim] if data.draw(st.booleans()) else () for dim in sorted(program().place_dims[place])}
        for place in some
    }
    computed = {dim: axes for dim, axes in OWN.items() if data.draw(st.booleans())}
    layout = layout_of(program(), wanted, computed)
    rules = resolve(program(), MESH, layout.to_dict())
    assert dict(layout.rules) == computed
    carried = {f"out/0{a.place.removeprefix('params')}": a.place for a in program().arguments if a.place != "c"}
    for place, value in program().places_values.items():
        expected = wanted.get(place, wanted.get(carried.get(place, ""), computed))
        splits = tuple(expected.get(dim or "", ()) for dim in program().dims_of(value))
        assert rules.spec(program().names[value], place).splits == splits, place


def test_as_few_rules_as_serve() -> None:
    arguments = {a.place: dict.fromkeys(program().place_dims[a.place], NONE) for a in program().arguments}

    def text(changed: dict[str, dict]) -> str:
        return str(layout_of(program(), arguments | changed, {}))

    assert text({}) == ""
    sharded = {place: {**dims, "a": DATA} for place, dims in arguments.items() if "a" in dims}
    assert text(sharded) == "params/*: a:x"
    assert text({**sharded, "params/scale": {"a": NONE}}) == "params/*: a:x · params/scale: a:whole"
    ups = {f"params/layers/{i}/up": {"a": DATA, "b": NONE} for i in range(3)}
    assert text(ups) == "params/*/up: a:x"
    assert text({**ups, "params/layers/1/up": {"a": NONE, "b": NONE}}) == (
        "params/layers/0/up: a:x · params/layers/2/up: a:x"
    )
    # Two dims that only together are right, and an argument that is called like its dim.
    both = {**{place: {"a": ("x",), "b": ("y",)} for place in ups}, "c": {"c": ("z",)}}
    assert text(both) == "params/*/up: a:x b:y · c*: c:z"


@pytest.mark.parametrize(
    ("root", "place", "all_of_them"),
    [
        ("x", "x", ["x", "x"]),
        ("params", "params/layers/0/w", ["params/*/w", "params/*/0/w", "params/layers/*/w", "params/layers/0/w"]),
        ("p[0]", "p[0]/a*", ["p[0]/a?", "p[0]/a?"]),
    ],
)
def test_globs_go_from_general_to_the_place_itself(root: str, place: str, all_of_them: list[str]) -> None:
    assert list(globs(root, place)) == all_of_them
    assert exact(place) == all_of_them[-1]
