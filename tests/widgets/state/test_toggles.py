"""Presets as toggles: what one puts on the board beside what is there, and what is left when it goes."""

from __future__ import annotations

import pytest

import meshlab as ml
from meshlab.layouts.naming import DATA
from meshlab.models.zoo import models
from meshlab.opening.open_explorer import explore
from meshlab.widgets.documents.intents import Refused, ResizeAxis, TakePreset
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.presets.buttons import KINDS, presets_of
from meshlab.widgets.presets.names import Names

pytestmark = pytest.mark.share(3, of="file")

MODELS = {model.name: model for model in models()}


@pytest.fixture
def explorer() -> Explorer:
    return explore(MODELS["transformer_adamw"].trace(), ml.mesh(data=2, model=2))


@pytest.mark.share(8)
@pytest.mark.parametrize("first", KINDS)
@pytest.mark.parametrize("second", ["tensor_parallel", "fsdp", "accumulate"])
def test_a_preset_that_goes_leaves_what_was_there_before(first: str, second: str) -> None:
    explorer = explore(MODELS["transformer_adamw"].trace(), ml.mesh(data=2, model=2, micro=ml.serial(2)))
    if not explorer.toggle(first) or first == second:
        return
    before, layout = explorer.name, explorer.layout
    if not explorer.toggle(second) or KINDS[first].group == KINDS[second].group:
        return
    assert set(before.split(" + ")) < set(explorer.name.split(" + "))
    assert explorer.toggle(second)
    assert (explorer.name, explorer.layout) == (before, layout)


def test_every_kind_of_data_parallelism_that_a_layout_is_named_by_is_a_button() -> None:
    assert [name for name, kind in KINDS.items() if kind.group == "batch"] == [*DATA]


def test_one_by_hand_is_taken_away_with_its_rules(explorer: Explorer) -> None:
    explorer.load({"batch": "data", "heads": "model", "ffn": "model", "params/*": {"embed": "data"}})
    assert explorer.name == "FSDP over data (the optimizer's state whole) + TP over model (heads, ffn alone)"
    assert explorer.toggle("tensor_parallel")
    assert explorer.layout.to_dict() == {"batch": "data", "params/*": {"embed": "data"}}
    assert explorer.undo()
    assert explorer.toggle("fsdp")
    assert explorer.layout.to_dict() == {"heads": "model", "ffn": "model"}


def test_a_preset_stands_beside_rules_that_have_no_name(explorer: Explorer) -> None:
    explorer.load("embed:model")
    assert explorer.name == ""
    assert explorer.toggle("data_parallel")
    assert explorer.layout.to_dict() == {"batch": "data", "embed": "model"}
    refused = explorer.toggle("tensor_parallel")
    assert isinstance(refused, Refused)
    assert refused.said[0].startswith("TP does not go with the layout by hand: ")
    assert refused.instead == (("TP alone", TakePreset("tensor_parallel")),)


def test_a_preset_without_its_axis_says_which_there_are(explorer: Explorer) -> None:
    explorer = explore(explorer.program, ml.mesh(x=2, y=2))
    refused = explorer.toggle("fsdp")
    assert isinstance(refused, Refused)
    assert 'FSDP can be over `x`, `y`: say which, as in explorer.toggle("fsdp", over="x").' in refused.reason
    assert explorer.toggle("fsdp", over="y")
    assert explorer.name == "FSDP over y"
    assert explorer.toggle("fsdp", over="x")
    assert explorer.name == "FSDP over x"


@pytest.mark.parametrize(
    ("preset", "name", "back"),
    [
        ("fsdp", "FSDP over data+model", "DP over data+model"),
        ("zero1", "ZeRO-1 over data+model", "DP over data+model"),
        ("hsdp", "HSDP over data (copies over model)", "DP over model+data"),
    ],
)
def test_what_takes_the_place_of_dp_leaves_the_batch_where_it_is(
    explorer: Explorer, preset: str, name: str, back: str
) -> None:
    """FSDP took the batch off `model` without a word."""
    explorer.load("batch:data+model")
    assert explorer.name == "DP over data+model"
    assert explorer.toggle(preset)
    assert explorer.name == name
    assert explorer.toggle("data_parallel")
    assert explorer.name == back


def test_where_the_batch_is_no_parameter_divides_the_preset_takes_its_own_axis() -> None:
    program = MODELS["transformer_adamw"].trace().resize(batch=12)
    explorer = explore(program, ml.mesh(data=2, model=3), "batch:data+model")
    assert explorer.name == "DP over data+model"
    assert explorer.toggle("fsdp")
    assert explorer.name == "FSDP over data"


def test_a_batch_that_does_not_divide_is_said_to_be_why() -> None:
    """It was said of HSDP that no axis is called `replica`, and that DP needs data with a batch dim."""
    explorer = explore(MODELS["transformer_adamw"].trace(), ml.mesh(data=16, model=4))
    presets = {preset["label"]: preset for preset in explorer.view()["presets"]}
    for label in ("DP", "FSDP", "ZeRO-1", "ZeRO-2"):
        assert presets[label]["why"] == "`batch` has size 8, which 16 (`data`) does not divide. Sizes that fit: 16."
        assert presets[label]["needs"] == ""
    assert presets["HSDP"]["why"].startswith("`batch` has size 8, which 64 (")
    assert presets["HSDP"]["why"].endswith(") does not divide. Sizes that fit: 64.")
    assert presets["EP"]["needs"] == "a mixture of experts, whose dim is called `experts`"
    refused = explorer.toggle("data_parallel")
    assert isinstance(refused, Refused)
    assert refused.said == (f"No DP here: {presets['DP']['why']}", "")


def test_a_preset_that_cannot_be_says_what_it_needs(explorer: Explorer) -> None:
    refused = explorer.toggle("expert_parallel")
    assert isinstance(refused, Refused)
    reason, fix = refused.said
    assert reason == "No EP here: No dim is called `experts`, `expert`."
    assert fix == "EP needs a mixture of experts, whose dim is called `experts`."
    assert "has one problem" in refused.reason  # in Python it is told in full


@pytest.mark.parametrize(
    ("axis", "size", "reason", "fix"),
    [
        (
            "data",
            7,
            "7 does not divide `batch` 8, `embed` 16, ",
            "Sizes of `data` that do: 1, 2, 4, 8. Or pad the dims.",
        ),
        ("data", 16, "16 does not divide `batch` 8.", "Sizes of `data` that do: 1, 2, 4, 8."),
    ],
)
def test_sizes_of_an_axis_that_fit_can_all_be_taken(
    explorer: Explorer, axis: str, size: int, reason: str, fix: str
) -> None:
    """B8."""
    explorer.toggle("fsdp")
    refused = explorer.apply(ResizeAxis(axis, size))
    assert isinstance(refused, Refused)
    assert refused.said[0].startswith(reason)
    assert refused.said[1].startswith(fix)
    assert "count" not in refused.said[0]
    before = explorer.document
    for _, intent in refused.instead:
        assert explorer.apply(intent), intent
        explorer.restore(before.to_json())


def test_on_a_machine_sizes_that_no_slice_has_are_not_offered() -> None:
    explorer = explore(MODELS["transformer_adamw"].trace(), ml.mesh("v5e:2x2", data=2, model=2), "batch:data")
    refused = explorer.resize_axis("data", 3)
    assert isinstance(refused, Refused)
    for _, intent in refused.instead:
        assert explorer.what_if(intent), intent


def test_a_name_that_takes_long_follows() -> None:
    worked: list[str] = []

    class Later:
        def follow(self, who: object, action: object, idle: bool = False) -> None:
            worked.append("aside" if idle else "later")
            action()  # type: ignore[operator]

    names: Names[str] = Names(lambda key: worked.append(key), operations=1_000_000)  # type: ignore[arg-type]
    assert names.soon("a", Later(), lambda: worked.append("told")) == (False, None)  # type: ignore[arg-type]
    assert worked == ["later", "a", "told"]
    assert names.soon("a", Later(), lambda: None) == (True, None)  # type: ignore[arg-type]
    assert names.soon("b", Later(), lambda: None) == (True, None)  # type: ignore[arg-type]
    assert worked == ["later", "a", "told", "b"]
    slow: Names[str] = Names(lambda key: worked.append(key), operations=1_000_000)  # type: ignore[arg-type]
    assert slow.soon("c", Later(), lambda: worked.append("told"), aside=True) == (False, None)  # type: ignore[arg-type]
    assert worked[4:] == ["aside", "c", "told"]


def test_the_name_is_that_of_a_figure_and_of_the_view(explorer: Explorer) -> None:
    explorer.toggle("fsdp")
    assert explorer.view()["named"] == {
        "text": "FSDP over data",
        "short": "FSDP",
        "parts": [{"name": "fsdp", "text": "FSDP over data", "note": ""}],
    }
    figure = explorer.figure("memory", width_mm=85)
    assert "Layout: FSDP over data. " in figure.caption
    assert figure.described.count("FSDP over data (") == 1


def test_rings_are_offered_where_attention_is_one_operation():
    def attend(q, k, v):
        return ml.attention(q, k.rename(seq="kv"), v.rename(seq="kv"), "seq", "kv", causal=True)

    array = ml.f32[tuple(ml.dims(seq=64, heads=4, head=8))]
    program, mesh = ml.trace(attend, array, array, array), ml.mesh(context=4)
    ring = next(preset for preset in presets_of(program, mesh) if preset.name == "ring")
    assert str(ring.layout) == "kv:context seq:context"
    plain = ml.trace(lambda x: x * 2, array)
    assert not {"ring", "zigzag_ring", "usp"} & {preset.name for preset in presets_of(plain, mesh)}
    board = ml.explore(program, mesh)
    board.toggle("ring")
    assert str(board.layout) == "kv:context seq:context"
    board.toggle("zigzag_ring")
    assert str(board.layout) == "kv:zigzag(context) seq:zigzag(context)"
    named, compute = board.view()["named"], board.view()["columns"][0]
    assert sorted(compute.get("zigzag", [])) == ["kv", "seq"]
    assert "seq 64 → 16 (zig-zag)" in board.figure("layout", width_mm=85).svg
    assert named is not None
    assert [named["text"], *named["parts"]] == [
        "Zigzag ring over context",
        {"name": "zigzag_ring", "text": "Zigzag ring over context", "note": ""},
    ]
    board.toggle("zigzag_ring")
    assert str(board.layout) == ""


def test_rings_are_offered_of_models_whose_attention_is_recognised():
    mesh = ml.mesh(context=4)
    offered = {p.name: p for p in presets_of(ml.named_models()["llama"].trace(), mesh)}
    assert str(offered["ring"].layout) == "kv:context seq:context"
    assert str(offered["zigzag_ring"].layout) == "kv:zigzag(context) seq:zigzag(context)"
    unnamed = {p.name: p for p in presets_of(ml.named_models()["plain_gpt"].trace(), mesh)}
    assert (
        unnamed["ring"].why
        == "A layout says how keys are split by their name, and theirs are made up: `~seq`, `~seq_2`."
    )
