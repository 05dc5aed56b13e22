"""Layouts are read from strings and dicts, and written back the same."""

import json
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import meshlab as ml
from meshlab.engine.errors import LayoutError
from meshlab.engine.specs.layout import Layout
from meshlab.engine.verifying.random_layouts import draw
from meshlab.models import zoo

pytestmark = pytest.mark.share(2, of="file")

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


# Places and dims may have any characters, axes those of names.
texts = st.text(min_size=1, max_size=6).filter(lambda text: text.strip())
plain_words = st.sampled_from(
    ["whole", "a b", "{}", "·", "a:b", 'q"q', "p/*", "@core", "@a/*", "w?", "x;y", "\\", "ä", "{x"]
)
globs = st.one_of(names.map(lambda n: n + "/*"), names.map(lambda n: "@" + n), names, texts, plain_words)
dims = st.one_of(names, names.map(lambda n: n + "?"), texts, plain_words)
some_axes = st.lists(st.one_of(names, st.just("whole")), min_size=1, max_size=3).map(tuple)


@given(
    st.dictionaries(dims, some_axes, max_size=3),
    st.dictionaries(globs, st.dictionaries(dims, st.one_of(st.none(), some_axes), max_size=3), max_size=3),
)
def test_every_layout_survives_its_text(plain, by_glob):
    try:
        layout = Layout.of(plain | by_glob)
    except LayoutError:
        assume(False)
        raise
    assert Layout.of(str(layout)) == layout
    assert str(Layout.of(str(layout))) == str(layout)
    assert list(Layout.of(str(layout)).places) == list(layout.places)


@given(st.text(alphabet='ab:*/@?+ ;·,"{}\\whole', max_size=30))
def test_any_text_is_read_and_printed_alike_or_its_error_points_into_it(text):
    problems = _problems(text)
    found = [re.match(r"character (\d+): ", each) for each in problems]
    assert all(each is not None and 1 <= int(each[1]) <= len(text) for each in found)
    assert problems or Layout.of(str(Layout.of(text))) == Layout.of(text)


def _problems(text):
    try:
        Layout.of(text)
    except LayoutError as error:
        assume(error.problems)  # what begins with a brace is JSON
        return error.problems
    return ()


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("batch:data · params/*: embed:data", {"batch": "data", "params/*": {"embed": "data"}}),
        ("batch:data params/*: embed:data", {"batch": "data", "params/*": {"embed": "data"}}),
        ("params/*: embed:data ffn:whole; batch:data", {"params/*": {"embed": "data", "ffn": None}, "batch": "data"}),
        ("@core: heads:model, seq:whole", {"@core": {"heads": "model", "seq": None}}),
        ("w: ffn?:data+model · w/bias: {}", {"w": {"ffn?": ("data", "model")}, "w/bias": {}}),
        ('"my place": embed:"whole"', {"my place": {"embed": "whole"}}),
        ("batch:whole ffn:model", {"batch": None, "ffn": "model"}),
    ],
)
def test_places_scopes_and_whole_dims_are_written_in_one_line(text, written):
    layout = Layout.of(text)
    assert layout == Layout.of(written)
    assert layout.whole == Layout.of(written).whole
    assert Layout.of(str(layout)) == layout


def test_what_presets_make_and_what_is_drawn_survives_its_text():
    for name in ("gpt2_adamw", "moe_switch", "llama_adamw"):
        program = next(model for model in zoo.models() if model.name == name).trace()
        mesh = ml.mesh(data=2, model=2)
        made = [ml.layouts.fsdp(program, mesh), *(layout for _, layout in draw(program, seed=7, count=12))]
        for layout in made:
            again = program.plan(mesh, str(layout)) if set(mesh.axes) >= _axes(layout) else None
            assert Layout.of(str(layout)) == layout
            assert again is None or again.layout == layout


def _axes(layout):
    rules = (layout.dim_rules, *(own for _, own in (*layout.place_rules, *layout.scope_rules)))
    return {axis for each in rules for _, axes in each for axis in axes}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "batch:data hiden model",
            "    batch:data hiden model\n               ^     ^\n  1. character 12: `hiden` is not a",
        ),
        ("batch: data", "character 8: `data` is not a `dim:axis` pair; a rule has no space: `batch:data`"),
        (
            "a:x params/*:embed:data",
            "put a space after the colon of a place: `params/*: embed:data`",
        ),
        ("a:x params/*:data", "character 5: `params/*` is a place or a scope; write its rules after a colon"),
        ("w: a:x · w: b:x", "character 10: `w` appears twice"),
        ("w: a:x a:y", "character 8: at `w`, `a` appears twice"),
        ("w:", "character 1: `w:` is followed by no rule: write `w:data` for a dim, `w: {}` for a place"),
        ("@: a:x", "character 1: `@` names no scope"),
        ('a:x "b', "character 5: the quotes that begin here are not closed"),
        ("a:x+whole", "character 1: `a:x+whole`: `whole` means no axis, and must be alone"),
        ("a:x+", "character 1: `a:x+` is not a `dim:axis` pair: an axis is missing"),
        ("a:x b:y-z", "character 5: `b` is given "),
        ("a：x", r"write an ASCII `:`"),
        (" ".join(f"d{i:02}:data" for i in range(20)) + " x", "… ta d17:data d18:data d19:data x\n"),
    ],
)
def test_errors_point_at_the_character(text, message):
    with pytest.raises(LayoutError) as caught:
        Layout.of(text)
    assert message in str(caught.value)


def test_one_rule_more_or_less():
    layout = Layout.of({"batch": "data", "ffn?": "model", "params/*": {"embed": "data"}})
    moved = layout.with_rule(Batch, ("model",)).with_rule("ffn", ())
    assert dict(moved.rules) == {"batch": ("model",)}
    assert moved.places == layout.places
    assert layout.rules["batch"] == ("data",)
    assert dict(layout.with_rule("ffn", ("x", "y")).rules)["ffn"] == ("x", "y")


@pytest.mark.parametrize("text", ["batch", ":data", "batch:data:model", "batch:data+", "batch=data"])
def test_a_word_that_is_no_pair_is_refused(text):
    with pytest.raises(LayoutError, match='`dim:axis` pair(.|\n)*Write "batch:data hidden:model"'):
        Layout.of(text)


def test_all_words_that_are_no_pairs_are_named():
    with pytest.raises(LayoutError) as caught:
        Layout.of("batch x:y a:b:c hidden:")
    assert [problem.split("`")[1] for problem in caught.value.problems] == ["batch", "a:b:c", "hidden:"]


@pytest.mark.parametrize("given", [3, ["batch"], object()])
def test_what_is_no_layout_is_refused(given):
    with pytest.raises(LayoutError, match="A layout was given as"):
        Layout.of(given)


def test_a_dim_that_stands_twice_is_refused():
    with pytest.raises(LayoutError, match=r"`batch` appears twice; write a dim on several axes as `batch:data\+model`"):
        Layout.of("batch:data batch:model")
    with pytest.raises(LayoutError, match=r"`batch\?` appears twice"):
        Layout.of("batch:data batch?:model")


def test_all_problems_of_a_dict_are_told_at_once():
    with pytest.raises(LayoutError) as caught:
        Layout.of({3: "data", "batch": 7, "params/*": {4: "data", "embed": ("x", 1)}})
    for problem in (
        "3 is neither a dim nor a place",
        "`batch` is given 7, which is not an axis name",
        "at `params/*`, 4 is not a dim",
        "at `params/*`, `embed` is given ('x', 1)",
    ):
        assert problem in str(caught.value)
