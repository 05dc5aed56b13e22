"""Layouts are read from strings and dicts, and written back the same."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

import meshlab as ml
from meshlab.engine.errors import LayoutError
from meshlab.engine.specs.layout import Layout

Vocab, Batch = ml.dims(vocab=32, batch=8)


@pytest.mark.parametrize(
    "spelling",
    [
        "batch:data vocab:data+model",
        "vocab:data+model;batch:data",
        " batch:data,\n vocab:data+model ",
        {"batch": "data", "vocab": ("data", "model")},
        {"vocab": ["data", "model"], "batch": ["data"]},
        {Batch: "data", Vocab: "data+model"},
        {"batch": "data", "vocab": "data+model", "hidden": None, "ffn": ()},
        Layout.of("batch:data vocab:data+model"),
    ],
)
def test_all_spellings_say_the_same(spelling):
    layout = Layout.of(spelling)
    assert dict(layout.rules) == {"batch": ("data",), "vocab": ("data", "model")}
    assert str(layout) == "batch:data vocab:data+model"
    assert layout == Layout.of("batch:data vocab:data+model")


@pytest.mark.parametrize("nothing", [None, "", {}, " ; "])
def test_nothing_splits_nothing(nothing):
    assert Layout.of(nothing) == Layout()
    assert str(Layout.of(nothing)) == ""


def test_places_keep_their_order_and_their_nones():
    written = {"z/*": {"embed": "data"}, "a/*": {Vocab: ("data", "model"), "embed": None}, "batch": "data"}
    layout = Layout.of(written)
    assert list(layout.places) == ["z/*", "a/*"]
    assert dict(layout.places["a/*"]) == {"vocab": ("data", "model"), "embed": ()}
    assert layout.to_dict() == {
        "batch": "data",
        "z/*": {"embed": "data"},
        "a/*": {"embed": None, "vocab": ["data", "model"]},
    }
    assert str(layout) == "batch:data · z/*: embed:data · a/*: embed:whole vocab:data+model"


names = st.from_regex(r"[a-z][a-z0-9_]{0,3}", fullmatch=True)
axes = st.lists(names, min_size=1, max_size=3).map(tuple)
rules = st.dictionaries(names, axes, max_size=3)
stored = st.dictionaries(names, st.one_of(st.none(), axes), max_size=3)


@given(rules, st.dictionaries(names.map(lambda n: n + "/*"), stored, max_size=3))
def test_a_layout_survives_json(plain, places):
    layout = Layout.of(plain | places)
    assert Layout.of(json.loads(json.dumps(layout.to_dict()))) == layout


@given(rules)
def test_a_layout_without_places_survives_its_string(plain):
    layout = Layout.of(plain)
    assert Layout.of(str(layout)) == layout


def test_one_rule_more_or_less():
    layout = Layout.of({"batch": "data", "ffn?": "model", "params/*": {"embed": "data"}})
    moved = layout.with_rule(Batch, ("model",)).with_rule("ffn", ())
    assert dict(moved.rules) == {"batch": ("model",)}
    assert moved.places == layout.places
    assert layout.rules["batch"] == ("data",)
    assert dict(layout.with_rule("ffn", ("x", "y")).rules)["ffn"] == ("x", "y")


@pytest.mark.parametrize("text", ["batch", "batch:", ":data", "batch:data:model", "batch:data+", "batch=data"])
def test_a_word_that_is_no_pair_is_refused(text):
    with pytest.raises(LayoutError, match='has parts that are no `dim:axis` pair: .*Write "batch:data hidden:model"'):
        Layout.of(text)


def test_all_words_that_are_no_pairs_are_told():
    with pytest.raises(LayoutError, match="pair: batch, hidden:, a:b:c"):
        Layout.of("batch x:y hidden: a:b:c")


@pytest.mark.parametrize("given", [3, ["batch"], object()])
def test_what_is_no_layout_is_refused(given):
    with pytest.raises(LayoutError, match="A layout was given as"):
        Layout.of(given)


def test_a_dim_that_stands_twice_is_refused():
    with pytest.raises(
        LayoutError, match=r"`batch` stands twice; a dim on several axes is written `batch:data\+model`"
    ):
        Layout.of("batch:data batch:model")
    with pytest.raises(LayoutError, match=r"`batch\?` stands twice"):
        Layout.of("batch:data batch?:model")


def test_all_problems_of_a_dict_are_told_at_once():
    with pytest.raises(LayoutError) as caught:
        Layout.of({3: "data", "batch": 7, "params/*": {4: "data", "embed": ("x", 1)}})
    for problem in (
        "3 is neither a dim nor a place",
        "`batch` is given 7, which is no axis name",
        "at `params/*`, 4 is not a dim",
        "at `params/*`, `embed` is given ('x', 1)",
    ):
        assert problem in str(caught.value)
