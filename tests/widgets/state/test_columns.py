"""Columns: where rules can hold, read off programs of the zoo and of others; rules are moved from one to another."""

from __future__ import annotations

import jax

import meshlab as ml
from meshlab.engine.specs.layout import Layout
from meshlab.models import zoo
from meshlab.opening.open_explorer import explore
from meshlab.widgets.documents.intents import Place, Refused
from meshlab.widgets.state.columns import Column, columns_of, rules_at
from tests.widgets import small

MODELS = {model.name: model for model in zoo.models()}


def columns(name: str) -> list[tuple[str, str]]:
    program = MODELS[name].trace()
    return [(column.at, column.kind) for column in columns_of(program, Layout.of(None))]


def test_a_training_step_has_columns_for_parameters_gradients_state_and_tags() -> None:
    assert columns("transformer_adamw") == [
        ("", "compute"),
        ("params/*", "parameters"),
        ("grads/*", "gradients"),
        ("opt_state/*", "state"),
        ("residual", "tag"),
    ]


def test_every_step_that_takes_gradients_has_a_column_for_them() -> None:
    assert [c.at for c in columns_of(small.program(), Layout.of(None)) if c.kind == "gradients"] == ["grads/*"]


def test_every_other_place_of_a_layout_is_a_column() -> None:
    layout = Layout.of({"batch": "data", "images": {"rows": "data"}, "params/*?": {"hidden": "data"}})
    columns_at = {column.at: column.kind for column in columns_of(small.program(), layout)}
    assert columns_at["images"] == "glob"
    assert columns_at["params/*?"] == "parameters"  # an optional place is the same column
    assert "params/*" not in columns_at


def test_rules_for_some_places_of_a_column_are_listed_at_its_head() -> None:
    layout = Layout.of({"params/*": {"hidden": "data"}, "params/w2": {"classes": "model"}})
    columns_at = {column.at: column.within for column in columns_of(small.program(), layout)}
    assert columns_at["params/*"] == ("params/w2",)
    assert "params/w2" not in columns_at


def test_a_tag_has_the_rules_of_a_glob_that_matches_it_alone() -> None:
    """TP with SP writes `residual*`: the column of the tag was empty."""
    program = MODELS["transformer_adamw"].trace()
    layout = ml.layouts.sequence_parallel(program, ml.mesh(data=2, model=4))
    (glob,) = layout.places
    columns = {column.label: column for column in columns_of(program, layout)}
    assert glob == "residual*"
    assert columns["residual"] == Column("residual*", "residual", "tag")
    assert rules_at(layout, columns["residual"]) == {"seq": ("model",)}


def test_one_argument_of_parameters_and_state_has_a_column_for_each() -> None:
    Batch, Hidden = ml.dims(batch=8, hidden=16)

    def step(state, x):
        def loss(w):
            return (ml.dot(x, w, Hidden) ** 2).mean()

        value, grad = jax.value_and_grad(loss)(state["w"])
        momentum = 0.9 * state["m"] + grad
        return value, {"w": state["w"] - 0.1 * momentum, "m": momentum}

    program = ml.trace(step, {"w": ml.f32[Hidden], "m": ml.f32[Hidden]}, ml.f32[Batch, Hidden])
    kinds = {column.at: column.kind for column in columns_of(program, Layout.of(None))}
    assert (kinds["state/w"], kinds["state/m"]) == ("parameters", "state")


def test_gradients_without_a_rule_follow_what_is_made_of_them() -> None:
    """FSDP stores them in shards without a rule at their places: the column said nothing."""
    program = MODELS["transformer_adamw"].trace()
    explorer = explore(program, ml.mesh(data=4, model=2))

    def follows() -> dict[str, list[str]]:
        (column,) = (column for column in explorer.view()["columns"] if column["kind"] == "gradients")
        return column.get("follows", {})

    assert follows() == {}
    explorer.load({"batch": "data", "params/*": {"embed": "data"}, "opt_state/*": {"embed": "data"}})
    assert follows() == {"embed": ["data"]}
    scattered = [c for c in explorer.plan.collectives if c.kind == "reduce-scatter" and "gradient of" in c.value]
    assert scattered
    assert {c.dims[c.moved.result.splits.index(("data",))] for c in scattered if c.moved} == {"embed"}
    # Where the state alone is stored so, as of ZeRO-1, they are too; summed whole they are not.
    explorer.load({"batch": "data", "opt_state/*": {"embed": "data"}})
    assert follows() == {"embed": ["data"]}
    explorer.load({"batch": "data"})
    assert follows() == {}
    # What a rule says is no news, at all of them or at some.
    explorer.load({"batch": "data", "params/*": {"embed": "data"}, "grads/*": {"embed": "data"}})
    assert follows() == {}


def test_a_chip_is_moved_from_one_column_to_another_in_one_change() -> None:
    explorer = explore(small.program(), ml.mesh(data=2, model=4), "batch:data hidden:model")
    assert explorer.apply(Place("hidden", ("model",), "params/*", source=""))
    assert explorer.layout.to_dict() == {"batch": "data", "params/*": {"hidden": "model"}}
    assert explorer.place("hidden", "data", at="out/*", source="params/*")
    assert explorer.layout.to_dict() == {"batch": "data", "out/*": {"hidden": "data"}}
    assert explorer.undo()
    assert explorer.undo()
    assert str(explorer.layout) == "batch:data hidden:model"
    refused = explorer.place("hidden", "model", at="params/*", source="gradients/*")
    assert isinstance(refused, Refused)
    assert "There are no rules at `gradients/*`" in refused.reason
