"""Layouts are combined by `&`: both demands hold, or the conflict is named."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

import meshlab as ml
from meshlab.engine.specs.combination import overlap
from meshlab.engine.specs.layout import Layout

FSDP = Layout.of({"batch": "data", "params/*": {"embed": "data"}, "params/up": {"ffn": "data"}})
ZERO1 = Layout.of({"batch": "data", "opt/*": {"ffn": "data"}})
TENSOR = Layout.of("heads:model ffn:model")
SEQUENCE = TENSOR & {"residual*": {"seq": "model"}}


def test_rules_of_both_stand_together():
    assert Layout.of("batch:data") & "ffn:model" == Layout.of("batch:data ffn:model")
    assert "batch:data" & TENSOR == Layout.of("batch:data heads:model ffn:model")
    assert {"a/*": {"x": None}} & TENSOR & {"b/*": {"x": "data"}} == Layout.of(
        {"heads": "model", "ffn": "model", "a/*": {"x": None}, "b/*": {"x": "data"}}
    )


def test_what_one_stores_and_the_other_computes_is_stored_over_both():
    both = {"params/*": {"embed": "data"}, "params/up": {"ffn": ("model", "data")}}
    assert FSDP & TENSOR == Layout.of({"batch": "data", "heads": "model", "ffn": "model"} | both)
    # The same dim on the same axis is no second demand.
    assert FSDP & "ffn:data" == Layout.of(FSDP.to_dict() | {"ffn": "data"})


def test_a_layout_that_knows_how_its_dims_are_computed_keeps_what_it_stores():
    exact = Layout.of({"ffn": "model", "params/*": {"ffn": "data"}})
    assert exact & "ffn:model" == exact
    assert exact & TENSOR == Layout.of({"heads": "model"} | exact.to_dict())


def test_how_they_are_grouped_does_not_matter():
    for several in itertools.permutations([FSDP, ZERO1, TENSOR, SEQUENCE]):
        a, b, c, d = several
        left, right = ((a & b) & c) & d, a & (b & (c & d))
        assert left.rules == right.rules
        assert left.places == right.places == (FSDP & ZERO1 & SEQUENCE).places


names = st.sampled_from(["a", "b", "c"])
axes = st.sampled_from([("x",), ("y",), ("x", "y")])
rules = st.dictionaries(names, axes, max_size=2)
places = st.dictionaries(st.sampled_from(["p/*", "p/w", "q/*", "*/w"]), rules, max_size=3)
layouts = st.builds(lambda plain, stored: Layout.of(plain | stored), rules, places)


def combined(one, other):
    """Both, or None where they conflict."""
    try:
        return one & other
    except ml.LayoutError:
        return None


@given(layouts)
def test_a_layout_agrees_with_itself_and_with_nothing(layout):
    assert layout & layout == layout
    assert layout & None == layout
    assert {} & layout == layout


@given(layouts, layouts)
def test_both_ways_are_the_same(one, other):
    left, right = combined(one, other), combined(other, one)
    assert (left is None) == (right is None)
    if left is not None and right is not None:
        assert (left.rules, left.places) == (right.rules, right.places)
        # Nothing that one of them demands is lost.
        assert set(one.rules.items()) <= set(left.rules.items())
        assert all(set(left.places[g][d]) >= set(a) for g, own in one.places.items() for d, a in own.items())


@pytest.mark.parametrize(
    ("one", "other", "problem"),
    [
        ("batch:data", "batch:model", "`batch` is on `data` in one and on `model` in the other"),
        ("batch:data", {"batch": None}, "`batch` is replicated in one and on `data` in the other"),
        (
            {"params/*": {"embed": "data"}},
            {"params/*": {"embed": "model"}},
            "at `params/*`, `embed` is on `data` in one and on `model` in the other",
        ),
        (
            {"params/*": {"ffn": None}},
            "ffn:model",
            "at `params/*`, `ffn` is stored replicated in one and computed on `model` in the other",
        ),
        (
            {"params/*": {"ffn": "data"}},
            "ffn:model+data",
            "at `params/*`, `ffn` is stored on `data` in one and computed on `model+data` in the other",
        ),
        (
            {"params/*": {"embed": "data"}},
            {"params/up": {"ffn": "data"}},
            "`params/*` and `params/up` may match one place, where only the last of them would count",
        ),
    ],
)
def test_each_conflict_is_named(one, other, problem):
    with pytest.raises(ml.LayoutError, match=r"conflict:\n  1\. ") as raised:
        _ = Layout.of(one) & other
    assert problem in str(raised.value)
    assert raised.value.problems == (problem,)


def test_all_conflicts_are_listed():
    with pytest.raises(ml.LayoutError, match=r"(?s)1\. `batch`.*2\. .*`ffn`.*Leave one of them out") as raised:
        _ = Layout.of({"batch": "x", "p/*": {"ffn": "x"}}) & {"batch": "y", "p/*": {"ffn": "y"}}
    assert len(raised.value.problems) == 2


def test_an_optional_dim_is_demanded_where_the_other_layout_demands_it():
    assert Layout.of("batch?:data") & "batch:data" == Layout.of("batch:data")
    assert Layout.of("batch:data") & "batch?:data" == Layout.of("batch:data")
    assert Layout.of("batch?:data") & "batch?:data" == Layout.of("batch?:data")


def test_sizes_and_dims_without_axes_are_still_checked():
    Batch, Ffn = ml.dims(batch=8, ffn=4)
    both = Layout.of({Batch: "data", "embed": None}) & {Ffn: "model"}
    assert both.whole == ("embed",)
    assert set(both.sizes) == {("", "batch", 8), ("", "ffn", 4)}


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("params/*", "params/up", True),
        ("params/*", "opt/*", False),
        ("*/up", "params/*", True),
        ("*/up", "*/down", False),
        ("a?c", "abc", True),
        ("a?", "a", True),
        ("a?c", "ac", False),
        ("*", "", True),
        ("p/[ab]", "q", False),
        ("p/[ab]", "p/*", True),
        ("p/[ab]", "p/a", False),
        ("residual*", "residual", True),
        ("a*b*c", "aXbYc", True),
        ("a*b", "b*a", False),
    ],
)
def test_globs_overlap_where_a_place_could_match_both(one, other, expected):
    assert overlap(one, other) is expected
    assert overlap(other, one) is expected
