"""Logical axis rules: what they mean for an array, and a layout as such rules, read back the same or refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import meshlab as ml
from meshlab.engine.errors import LayoutError
from meshlab.engine.specs.flax_rules import assigned, axis_rules, said
from meshlab.engine.specs.layout import Layout

# Of github.com/google-research/t5x, docs/usage/partitioning.md, which says what the rules make of two arrays.
T5X = [("head", "model"), ("embed", "model"), ("embed", "data"), ("vocab", "model")]

names = st.from_regex(r"~?[a-z][a-z0-9_.]{0,3}", fullmatch=True)
axes = st.lists(st.sampled_from(["x", "y", "z"]), min_size=1, unique=True).map(tuple)


def test_the_first_rule_that_matches_and_is_free_counts() -> None:
    rules = axis_rules(T5X)
    assert assigned(("embed", "head"), rules) == {"embed": ("data",), "head": ("model",)}
    assert assigned(("vocab", "embed"), rules) == {"embed": ("model",)}
    assert assigned((None, "other"), rules) == {}


def test_a_rule_may_have_no_axis_one_or_several() -> None:
    pairs = [("a", None), ("b", "x"), ["c", ["x", "y"]], ("a", "x"), ("d", [])]
    rules = axis_rules(pairs)
    assert rules == [("a", ()), ("b", ("x",)), ("c", ("x", "y")), ("a", ("x",)), ("d", ())]
    assert assigned(("a", "c"), rules) == {"a": (), "c": ("x", "y")}  # None counts: what comes after it does not
    assert axis_rules({"batch": "data"}) == [("batch", ("data",))]


@pytest.mark.parametrize("given", ["batch:data", 3, None, Layout.of("batch:data")])
def test_what_is_no_list_of_rules_is_refused(given: Any) -> None:
    with pytest.raises(LayoutError, match=r'Axis rules were given as .*\. Write \[\("batch", "data"\)'):
        axis_rules(given)


def test_all_invalid_rules_are_listed() -> None:
    with pytest.raises(LayoutError, match=r"(?s)Invalid axis rules:\n  1\. .*Write \[\(") as caught:
        axis_rules(["batch", ("embed", 3), ("mlp", ("x", "x")), (1, "x"), ("heads", ("x", ""))])
    texts = [
        "rule 1 is 'batch': not a pair of a logical name and mesh axes",
        "rule 2 gives `embed` 3: no axis name, tuple of names or None",
        "rule 3 gives `mlp` ('x', 'x'): one axis twice",
        "rule 4 is (1, 'x'): not a pair",
        "rule 5 gives `heads` ('x', ''): no axis name",
    ]
    assert len(caught.value.problems) == len(texts)
    assert all(text in problem for text, problem in zip(texts, caught.value.problems, strict=True))


@given(st.dictionaries(names, axes, max_size=4))
def test_a_layout_of_plain_rules_survives(plain: dict[str, tuple[str, ...]]) -> None:
    layout = Layout.of(plain)
    rules = layout.to_axis_rules()
    assert all(isinstance(its, str) or len(its or ()) > 1 for _, its in rules)
    assert Layout.of(dict(axis_rules(rules))) == layout


def test_all_that_they_cannot_say_is_listed() -> None:
    layout = Layout.of(
        {"batch": "data", "vocab": ("data", "model"), "ensemble?": "data", "params/*": {"embed": "data"}, "grads": {}}
    )
    with pytest.raises(
        LayoutError, match=r"to_axis_rules\(\) writes logical axis rules, which cannot express"
    ) as caught:
        layout.to_axis_rules()
    assert caught.value.problems == (
        "`ensemble?` is optional: the format has no optional rules",
        "at `params/*` is stored embed:data: the format has no rules for places",
        "at `grads` is stored nothing: the format has no rules for places",
    )
    pairs = [("batch", "data"), ("ensemble", "data"), ("vocab", ("data", "model"))]
    assert said(layout) == (pairs, caught.value.problems)


def test_axes_in_time_cannot_be_said_where_they_are_known() -> None:
    """Only a mesh knows which axes are serial: a plan's layout does, and what a preset returns for that mesh."""
    batch, embed = ml.dims(batch=8, embed=4)
    program = ml.trace(lambda w, x: ml.dot(x, w, "embed").sum(), ml.f32[embed,], ml.f32[batch, embed])
    mesh = ml.mesh(data=2, micro=ml.serial(2))
    plan = program.plan(mesh, "batch:data+micro")
    with pytest.raises(LayoutError, match="The rules name `micro`, which is a serial axis"):
        ml.layouts.from_axis_rules([("batch", ("data", "micro"))], program, mesh)
    rules = ml.layouts.from_axis_rules([("batch", "data")], program, mesh)
    preset = rules & ml.layouts.accumulate(program, mesh, params="w")
    assert plan.layout == preset == Layout.of("batch:data+micro")
    for layout in (plan.layout, preset):
        for write in (layout.to_axis_rules, layout.to_string):
            with pytest.raises(
                LayoutError, match="`batch` is on `micro`, a serial axis: the format has only axes of devices"
            ):
                write()
        assert said(layout)[0] == [("batch", "data")]
    assert said(program.plan(mesh, "batch:micro").layout)[0] == []
    assert Layout.of("batch:data+micro").to_axis_rules() == [("batch", ("data", "micro"))]
    assert program.plan(ml.mesh(data=2, micro=2), "batch:data+micro").layout.to_axis_rules() == [
        ("batch", ("data", "micro"))
    ]
