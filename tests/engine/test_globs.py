"""Globs: `*` and `?` alone are wild; brackets are literal in places, scopes, and names of arrays."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml
from meshlab.engine.globs import matches
from meshlab.engine.planning.steps import Compute

ARRAY = jax.ShapeDtypeStruct((8, 4), jnp.float32)
MESH = ml.mesh(data=2)


@pytest.mark.parametrize(
    ("text", "glob", "expected"),
    [
        ("p/w", "p/*", True),
        ("p/a/w", "p/*", True),
        ("p/w", "p/?", True),
        ("p/ww", "p/?", False),
        ("blocks[0]", "blocks[0]", True),
        ("blocks[0]/w", "blocks[?]/*", True),
        ("blocks0", "blocks[0]", False),
        ("p/e", "p/[e]*", False),
        ("p/x", "p/[!e]", False),
        ("a.b", "a?b", True),
        ("a.b+c", "a.b+c", True),
        ("axb+c", "a.b+c", False),
        ("a\nb", "a*b", True),
        ("P", "p", False),
    ],
)
def test_stars_and_question_marks_alone_are_wild(text, glob, expected):
    assert matches(text, glob) is expected


def test_a_place_with_brackets_is_matched_by_its_own_name():
    names = {"w/blocks[0]": "batch embed", "w/blocks[1]": "embed _"}
    given = ml.named({"blocks[0]": ARRAY, "blocks[1]": ARRAY}, {"blocks[0]": "batch embed", "blocks[1]": "batch _"})
    program = ml.trace(lambda w: w["blocks[0]"] * 2 + w["blocks[1]"].sum(), given)
    assert set(names) < set(program.places)
    for key in ("w/blocks[0]", "w/blocks[?]", "w/*[0]"):
        plan = program.plan(MESH, {key: {"batch": "data"}})
        assert plan.argument_specs[program.places_values["w/blocks[0]"]].axes == ("data",)
    with pytest.raises(ml.LayoutError, match=r"`w/\[b\]\*` matches no place"):
        program.plan(MESH, {"w/[b]*": {"batch": "data"}})


def test_a_scope_with_brackets_is_matched_by_its_own_name():
    def net(x):
        for number in range(2):
            with jax.named_scope(f"layer[{number}]"):
                x = jnp.square(x) @ jnp.ones((4, 4))
        return x.sum()

    program = ml.trace(net, ml.named(ARRAY, "batch embed"))
    assert program.scopes == ("@layer[0]", "@layer[1]")
    plan = program.plan(MESH, {"@layer[1]": {"batch": "data"}})
    split = {step.operation.scope for step in plan.steps if isinstance(step, Compute) and step.results[0].axes}
    assert split == {("layer[1]",)}
    assert plan.check().ok
    with pytest.raises(ml.LayoutError, match=r"`@layer\[01\]` matches no scope"):
        program.plan(MESH, {"@layer[01]": {"batch": "data"}})
