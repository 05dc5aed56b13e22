"""Long contexts: a search finds rings, balanced ones and USP, in models with `ml.attention` and in those without."""

from __future__ import annotations

import functools

import jax
import pytest

import meshlab as ml
from meshlab.auto.best_first.changes import changes
from meshlab.auto.best_first.contexts import elsewhere, in_smallest_parts
from meshlab.auto.best_first.pricer import Pricer
from meshlab.auto.best_first.space import search_space
from meshlab.auto.request.constraints import read_constraints
from meshlab.cost.workload.options import USUAL

pytestmark = pytest.mark.share(2, of="file")

Batch, Seq, Heads, Depth, Embed, Ffn = ml.dims(batch=1, seq=262_144, heads=4, depth=128, embed=1024, ffn=4096)
Keys = ml.Dim("kv", Seq.size)
GPUS = ml.mesh("h100:1x8", cp=8)
RING, EVEN = "seq:cp kv:cp", "seq:zigzag(cp) kv:zigzag(cp)"


def written_out(q, k, v):
    scores = ml.dot(q, k, Depth) * Depth.size**-0.5
    scores = ml.where(ml.arange(Seq) >= ml.arange(Keys), scores, -1e30)
    return ml.dot(ml.softmax(scores, "kv"), v, "kv")


def as_operation(q, k, v):
    return ml.attention(q, k, v, "seq", "kv", causal=True)


@functools.cache
def trained(attend) -> ml.Program:
    """One layer and its update."""

    def loss(params, x):
        q, k, v = (ml.dot(x, params[name], Embed) for name in "qkv")
        with jax.named_scope("core"):
            out = attend(q, k.rename(seq="kv"), v.rename(seq="kv"))
        x = x + ml.dot(out, params["o"], Heads, Depth)
        return ml.square(x + ml.dot(ml.relu(ml.dot(x, params["up"], Embed)), params["down"], Ffn)).mean()

    def step(params, x):
        value, grads = jax.value_and_grad(loss)(params, x)
        return value, jax.tree.map(lambda w, g: w - 1e-3 * g, params, grads)

    into, up = ml.bf16[Embed, Heads, Depth], ml.bf16[Embed, Ffn]
    params = {"q": into, "k": into, "v": into, "o": ml.bf16[Heads, Depth, Embed], "up": up, "down": ml.bf16[Ffn, Embed]}
    return ml.trace(step, params, ml.bf16[Batch, Seq, Embed])


@pytest.mark.parametrize("attend", [written_out, as_operation])
def test_where_keys_do_not_fit_a_balanced_ring_is_found(attend) -> None:
    """Heads do not divide over eight GPUs, and whole keys, or scores, take more than a device has."""
    program, memory = trained(attend), 0.024
    choice = ml.auto.layout(program, GPUS, memory=memory)
    most = memory * 80e9
    gathered = program.plan(GPUS, "seq:cp")
    ring, even = (program.plan(GPUS, layout) for layout in (RING, EVEN))
    if attend is as_operation:
        assert gathered.memory.donated.peak_bytes > most
    assert choice.plan.memory.donated.peak_bytes <= most
    assert {"seq:zigzag(cp)", "kv:zigzag(cp)"} <= set(str(choice.layout).split())
    assert choice.proof.value <= even.time.estimate < 0.6 * ring.time.estimate
    assert choice.plan.work.is_divided
    assert not ring.work.is_divided


def test_what_is_no_point_of_the_space_is_said() -> None:
    written, operation = (ml.auto.layout(trained(attend), GPUS).proof for attend in (written_out, as_operation))
    beyond = "beyond the presets and single changes of the answer"
    assert f"rings and zig-zag orders {beyond}" in written.not_searched
    assert f"; zig-zag orders {beyond}" in operation.not_searched
    traffic = ml.auto.layout(trained(written_out), ml.mesh(cp=4)).proof
    assert "; rings and zig-zag orders; " in traffic.not_searched
    assert "of the answer, presets among them" in traffic.searched
    for proof in (written, operation):
        assert "of the answer, presets and " in proof.searched


def test_questions_about_a_ring_are_answered() -> None:
    choice = ml.auto.layout(trained(written_out), GPUS, memory=0.05)
    regrets = {regret.change: regret for regret in choice.exact_regrets()}
    assert regrets["`kv` off `cp`"].seconds > choice.proof.value
    way = choice.waterfall("seq:cp")
    assert way.steps[-1].seconds == choice.proof.value
    assert "kv:zigzag(cp)" in str(choice.compare("seq:cp"))


def test_traffic_is_compared_among_programs_with_the_same_work() -> None:
    """As an operation causal attention does half of the products."""
    mesh = ml.mesh(cp=4)
    written, operation = (ml.auto.layout(trained(attend), mesh) for attend in (written_out, as_operation))
    assert {"seq", "kv"} - set(written.layout.rules)
    assert {op.name for op in written.plan.program.code.block.operations}.isdisjoint(["attention", "attention_grad"])
    assert operation.plan.work.is_divided


def test_all_of_attention_on_an_axis_is_one_change_beside_the_rest() -> None:
    program, mesh = trained(written_out), ml.mesh("h100:1x8", data=2, cp=4)
    space = search_space(Pricer(program, mesh, USUAL), read_constraints(program, mesh, None, None))
    answer = ml.Layout.of({"ffn": "cp", "heads": "cp", "seq": "data", "params/*": {"embed": "data"}})
    found = {str(each): each.applied(answer) for each in elsewhere(space, mesh, answer)}
    even = {"seq": "zigzag(data+cp)", "kv": "zigzag(data+cp)", "params/*": {"embed": "data"}}
    assert found["the preset `balanced ring` on `data+cp`, beside the rest"] == ml.Layout.of(even)
    usp = found["the preset `usp` on `cp+data`, beside the rest"]
    assert usp.scopes == {"@core": {"seq": ("cp",), "kv": ("cp",), "heads": ("data",)}}
    for layout in found.values():
        program.plan(mesh, layout)
        assert "ffn" not in layout.rules or "cp" not in layout.rules["seq"]
    least = in_smallest_parts(space, ml.Layout.of("seq:data+cp kv:data+cp"))
    sizes = [program.plan(mesh, layout).memory.argument_bytes for layout in ("seq:data+cp kv:data+cp", least)]
    assert sizes[1] < 0.8 * sizes[0]


def test_the_order_is_a_single_change() -> None:
    program, mesh = trained(as_operation), ml.mesh("h100:1x8", data=2, cp=4)
    gathered = ml.Layout.of("seq:cp")
    texts = {str(each): each.applied(gathered) for each in changes(program, mesh, gathered)}
    assert texts["`seq` on `zigzag(cp)`"] == ml.Layout.of("seq:zigzag(cp)")
    even = ml.Layout.of("seq:zigzag(cp)")
    back = {str(each): each.applied(even) for each in changes(program, mesh, even)}
    assert back["`seq` on `cp`"] == gathered
    assert back["`seq` on `zigzag(cp+data)`"] == ml.Layout.of("seq:zigzag(cp+data)")
