"""No single change of an answer is better by more than the told gap: no rule at any place, no preset, no hint."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml
from benchmarks.chosen import MACHINES, better_changes
from benchmarks.optima import grown
from meshlab.auto import brute_force
from meshlab.auto.additive.dim_work import SLACK
from meshlab.auto.best_first.changes import changes, handed_on, otherwise
from meshlab.auto.best_first.polish import effect
from meshlab.engine.legality.examine import resolve
from meshlab.widgets.documents.intents import Refused, TogglePreset
from meshlab.widgets.state import advice
from meshlab.widgets.state.explorer_state import ExplorerState
from meshlab.widgets.state.prices import price_of
from tests.auto.best_first.programs import MODELS
from tests.auto.programs import SMALL, traced

# Those whose search and changes take a few seconds at these sizes; `python -m benchmarks.chosen --changes` has all.
QUICK = ("mlp_sgd", "mlp_adamw", "two_layer", "autoencoder", "block", "digits")


@functools.cache
def large(name: str) -> ml.Program:
    return grown(MODELS[name].trace())


@pytest.mark.share(12)
@pytest.mark.parametrize("on", MACHINES[::2])
@pytest.mark.parametrize("name", [*QUICK, pytest.param("moe_sgd", marks=pytest.mark.nightly)])
def test_no_single_change_is_faster(name: str, on: str) -> None:
    choice = ml.auto.layout(large(name), ml.mesh(on, data=2, model=4))
    tried, better = better_changes(choice)
    assert tried > 10
    assert not better


@pytest.mark.share(5)
@pytest.mark.parametrize("name", SMALL)
def test_no_single_change_sends_less(name: str) -> None:
    choice = ml.auto.layout(traced(name), ml.mesh(data=4, model=2))
    tried, better = better_changes(choice)
    assert tried > 5
    assert not better


def surveyed(explorer: ExplorerState) -> list[advice.Advice]:
    """Every change that a hint may propose."""
    documents = explorer.documents
    found = advice.surveyed(documents, price_of(documents, documents.present, peak=True), lambda: False)
    assert found is not None, "nothing stopped it"
    return found


@pytest.mark.share(5)
@pytest.mark.parametrize("objective", ["time", "traffic"])
@pytest.mark.parametrize("name", ["mlp_adamw", "block"])
def test_the_board_has_no_hint_after_auto(name: str, objective: str) -> None:
    mesh = ml.mesh("v5e:2x4", data=2, model=4) if objective == "time" else ml.mesh(data=2, model=4)
    choice = ml.auto.layout(large(name), mesh, objective=objective, memory=None)
    explorer = ExplorerState(large(name), mesh, choice.layout)
    assert surveyed(explorer)
    assert advice.advise(explorer.documents) is None


@pytest.mark.share(5)
@pytest.mark.parametrize("name", ["mlp_adamw", "moe_sgd", "transformer_adamw"])
def test_whatever_the_board_proposes_is_tried(name: str) -> None:
    program, mesh = MODELS[name].trace(), ml.mesh(data=2, model=2)
    layout = ml.layouts.fsdp(program, mesh)
    explorer = ExplorerState(program, mesh, layout)

    def kind(changed: ml.Layout) -> tuple:
        return effect(program, resolve(program, mesh, changed))

    tried = set()
    for change in changes(program, mesh, layout):
        try:
            tried.add(kind(change.applied(layout)))
        except ml.LayoutError:
            continue
    proposed = 0
    for intent, text in advice.changes(explorer.documents):
        outcome = explorer.what_if(intent)
        if isinstance(outcome, Refused) or outcome.document.layout == layout:
            continue
        # A preset beside others is a change of several things, which a search begins with: its recipes.
        if not isinstance(intent, TogglePreset) and not otherwise(program, outcome.plan.rules):
            proposed += 1
            assert kind(outcome.document.layout) in tried, text
    assert proposed > 20


def test_the_digits_send_what_the_hidden_layer_on_all_devices_sends() -> None:
    program = MODELS["digits"].trace()
    mesh = ml.mesh(data=4, model=2)
    choice = ml.auto.layout(program, mesh, objective="traffic")
    assert choice.plan.wire_bytes <= program.plan(mesh, "hidden:data+model").wire_bytes
    assert choice.layout.rules == {"hidden": ("data", "model")}


@pytest.mark.share(6)
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("axes", [{"a": 4}, {"a": 4, "b": 2}], ids=str)
def test_traffic_is_that_of_brute_force_or_less(name: str, axes: dict[str, int]) -> None:
    program, mesh = traced(name), ml.mesh(**axes)
    plans = [price.plan for price in brute_force.priced_layouts(program, mesh)]
    assert len(plans) > 5
    most = min(plan.work.amount for plan in plans) * (1 + SLACK)
    least = min(plan.wire_bytes for plan in plans if plan.work.amount <= most)
    choice = ml.auto.layout(program, mesh, objective="traffic", exact=True)
    assert choice.plan.work.amount <= most
    assert choice.proof.value <= least
    assert choice.proof.value == least or choice.proof.made


def momentum() -> ml.Program:
    def step(params, moments, x):
        def loss(params):
            return jnp.square(jax.nn.relu(x @ params["a"]) @ params["b"]).mean()

        value, grads = jax.value_and_grad(loss)(params)
        moments = jax.tree.map(lambda m, g: 0.9 * m + g, moments, grads)
        return value, jax.tree.map(lambda w, m: w - 0.1 * m, params, moments), moments

    def stored(names: str, *shape: int):
        return ml.named(jax.ShapeDtypeStruct(shape, jnp.float32), names)

    params = {"a": stored("embed ffn", 2048, 2048), "b": stored("ffn embed", 2048, 2048)}
    return ml.trace(step, params, params, stored("batch embed", 256, 2048))


def test_outputs_are_stored_as_the_arguments_that_they_become() -> None:
    """Else a step saves gathers that the next one pays: no answer, no hint does, and the proof says so."""
    program, mesh = momentum(), ml.mesh("h100:1x8", data=8)
    saving = program.plan(mesh, {"out/*": {"embed": "data"}})
    choice = ml.auto.layout(program, mesh, exact=True)
    assert saving.time.estimate < choice.proof.value
    assert len(handed_on(program)) == 4
    assert otherwise(program, saving.rules)
    assert not otherwise(program, choice.plan.rules)
    assert "outputs stored differently from the arguments that they become" in choice.proof.not_searched
    explorer = ExplorerState(program, mesh, {"batch": "data", "out/1/*": {"embed": None}})
    hints = surveyed(explorer)
    assert hints
    for each in hints:
        outcome = explorer.what_if(each.intent)
        assert not isinstance(outcome, Refused)
        assert not otherwise(program, outcome.plan.rules), each.text


def test_a_bound_is_never_above_what_is_known() -> None:
    """On the storage of single arrays, which is outside of the space, the answer is better than the space's best."""
    program = large("autoencoder")
    mesh = ml.mesh("v5p:2x2x2", a=4, b=2)
    peak = ml.auto.layout(program, mesh, exact=True).plan.memory.donated.peak_bytes
    assert mesh.on is not None
    choice = ml.auto.layout(program, mesh, exact=True, memory=0.7 * peak / mesh.on.hardware.memory_bytes)
    assert choice.proof.made
    assert choice.proof.bound <= choice.proof.value
    most = choice.asked.limits.most_bytes
    assert most is not None
    fitting = [price for price in choice.alternatives if price.peak_bytes <= most]
    assert fitting
    assert all(price.seconds >= choice.proof.bound for price in fitting)
    assert "the best layout of the space was changed: " in str(choice.proof)


def test_of_layouts_as_good_the_one_with_the_least_peak_is_taken() -> None:
    program = MODELS["mlp_adamw"].trace()
    mesh = ml.mesh(a=2, b=2)
    choice = ml.auto.layout(program, mesh, objective="traffic")
    peak = choice.plan.memory.donated.peak_bytes
    tied = [program.plan(mesh, tie) for tie in choice.proof.ties]
    assert tied
    assert all(plan.memory.donated.peak_bytes >= peak / 1.005 for plan in tied)
