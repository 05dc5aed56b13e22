"""`ml.layouts.expert_parallel(transport=…)`: what it writes, what the plan then sends, and what it refuses."""

from __future__ import annotations

import contextlib
import functools

import jax
import pytest

import meshlab as ml
from meshlab.engine.errors import LayoutError
from meshlab.models.zoo import models

Batch, Seq, Embed, Ffn = ml.dims(batch=8, seq=16, embed=16, ffn=24)
Routes, Experts, K = ml.dims(routes=8, experts=8, k=2)
WEIGHTS = {
    "router": ml.f32[Embed, Routes],
    "up": ml.f32[Experts, Embed, Ffn],
    "down": ml.f32[Experts, Ffn, Embed],
}


@functools.cache
def program(scope: str = "experts") -> ml.Program:
    def forward(weights, x):
        shares = ml.softmax(ml.dot(x, weights["router"], Embed), Routes)
        how_much, choice = ml.top_k(shares, Routes, K)
        with jax.named_scope(scope) if scope else contextlib.nullcontext():
            rows, sent = ml.dispatch(x, choice, Experts, factor=4.0)
            rows = ml.silu(ml.ragged_dot(rows, weights["up"], sent, Embed))
            return ml.combine(ml.ragged_dot(rows, weights["down"], sent, Ffn), sent, how_much)

    return ml.trace(forward, WEIGHTS, ml.f32[Batch, Seq, Embed])


@functools.cache
def with_capacity() -> ml.Program:
    return next(model for model in models() if model.name == "moe").trace()


def kinds(plan: ml.Plan) -> set[str]:
    return {c.kind for c in plan.collectives}


@pytest.mark.parametrize(
    ("transport", "beside", "written", "sent"),
    [
        ("dropless", None, {"batch": "data", "experts": "data"}, {"all-to-all"}),
        ("dropless", "batch:data", {"batch": "data", "experts": "data"}, {"all-to-all"}),
        (
            "gathered",
            "batch:data",
            {"batch": "data", "experts": "data", "@experts": {"batch": None}},
            {"all-gather", "reduce-scatter"},
        ),
        (None, "batch:data", {"batch": "data", "experts": "data"}, {"all-to-all"}),
    ],
)
def test_a_transport_is_a_layout(transport, beside, written, sent):
    mesh = ml.mesh(data=4)
    layout = ml.layouts.expert_parallel(program(), mesh, beside=beside, transport=transport)
    assert layout == ml.Layout.of(written)
    assert kinds(program().plan(mesh, layout)) == sent


def test_more_axes_are_kept_for_tokens():
    mesh = ml.mesh(data=2, expert=4)
    layout = ml.layouts.expert_parallel(program(), mesh, beside="batch:data", transport="dropless")
    assert layout == ml.Layout.of("batch:data+expert experts:expert")
    to_experts = [c for c in program().plan(mesh, layout).collectives if c.kind == "all-to-all"]
    assert {c.axes for c in to_experts} == {("expert",)}


def test_a_capacity_is_the_rename_that_it_was():
    mesh = ml.mesh(data=2)
    both = [ml.layouts.expert_parallel(with_capacity(), mesh, transport=each) for each in (None, "capacity")]
    assert both[0] == both[1]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: (program(), "dropped"),
            "transport='dropped' is not a way to send tokens. Did you mean `dropless`?",
        ),
        (lambda: (program(), 3), "transport=3 is not a way to send tokens. The transports are `capacity`, `dropless`"),
        (lambda: (program(), ["dropless"]), "transport=['dropless'] is not a way to send tokens."),
        (lambda: (program(), "capacity"), 'Take transport="dropless"'),
        (lambda: (with_capacity(), "dropless"), "is for programs with ml.dispatch, and this one has none"),
        (lambda: (with_capacity(), "gathered"), "is for programs with ml.dispatch, and this one has none"),
        (lambda: (program(""), "gathered"), "Open one around it: with jax.named_scope"),
    ],
    ids=["unknown", "number", "list", "capacity", "dropless", "gathered", "no scope"],
)
def test_what_does_not_fit_is_refused(make, said):
    traced, transport = make()
    with pytest.raises(LayoutError) as caught:
        ml.layouts.expert_parallel(traced, ml.mesh(data=2), transport=transport)
    assert said in str(caught.value)


def test_all_that_is_wrong_is_said_at_once():
    with pytest.raises(LayoutError) as caught:
        ml.layouts.expert_parallel(program(), ml.mesh(data=2), expert="ep", dims="expert", transport="dropped")
    for said in (
        "expert='ep' names no axes of the mesh",
        "'expert' is not a dim of this program",
        "transport='dropped' is not a way to send tokens. Did you mean `dropless`?",
    ):
        assert said in str(caught.value), caught.value


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"expert": "ep"}, "expert='ep' names no axes of the mesh"),
        ({"dims": "expert"}, "'expert' is not a dim of this program"),
    ],
)
def test_all_that_does_not_fit_is_said_at_once(given, said):
    with pytest.raises(LayoutError, match="2 problems") as caught:
        ml.layouts.expert_parallel(program(), ml.mesh(data=2), transport="drops", **given)
    assert said in str(caught.value)
    assert "transport='drops' is not a way to send tokens" in str(caught.value)
