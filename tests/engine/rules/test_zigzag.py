"""Positions in zig-zag order inside of causal attention: equal results, an even split, and permutes as counted."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import pathlib
import random
import re

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml
from meshlab.engine.errors import LayoutError
from meshlab.engine.planning.steps import Move
from meshlab.engine.plans.zigzag_moves import refuse_zigzag_moves
from meshlab.engine.rules.attention import places

from .test_attention import PROGRAM, SEGMENTS, Batch, Depth, Heads, K, Q, Seq, attend, counted, drawn, step

pytestmark = pytest.mark.share(2, of="file")

RING = "seq:zigzag(a) kv:zigzag(a)"


@pytest.mark.parametrize("n", [2, 4, 8])
def test_a_ring_has_an_even_split(n):
    """13 shards would be exchanged; 8 are, for queries, keys, values and the result stay in order for the gradient."""
    plan = PROGRAM.plan(ml.mesh(a=n), RING)
    halves = 1 if n == 2 else 2
    assert counted(plan) == {("collective-permute", ("a",)): 6 * n - 4 + 8 * halves}
    exchanged = [c for c in plan.collectives if c.shape and c.shape[1] == Seq.size // n // 2]
    assert sum(c.times for c in exchanged) == 8 * halves
    assert plan.check().ok
    assert plan.work.share == pytest.approx(1 / n)


def test_halves_go_where_the_papers_say():
    """Device i has the halves i and 2n - 1 - i (Llama 3, https://arxiv.org/abs/2407.21783, 3.3.2)."""
    for n in range(1, 9):
        held = {part: set() for part in range(n)}
        for part, targets in enumerate(places(n)):
            for half, target in zip((2 * part, 2 * part + 1), targets, strict=True):
                held[target].add(half)
        assert held == {part: {part, 2 * n - 1 - part} for part in range(n)}


@pytest.mark.parametrize(
    ("layout", "sent"),
    [
        # Gathered keys, as Llama 3 was trained: queries, the result and their cotangents are exchanged alone.
        ("seq:zigzag(a)", {"collective-permute": 8, "all-gather": 2, "reduce-scatter": 2}),
        ("kv:zigzag(a)", {"collective-permute": 8, "all-gather": 2, "all-reduce": 3}),
        ("seq:zigzag(a) kv:zigzag(a) batch:b", {"collective-permute": 36}),
        ("seq:zigzag(b+a) kv:zigzag(b+a)", {"collective-permute": 60}),
    ],
)
def test_what_layouts_send(layout, sent):
    plan = PROGRAM.plan(ml.mesh(a=4, b=2), layout)
    total = dict.fromkeys(sent, 0)
    for (kind, _), times in counted(plan).items():
        total[kind] += times
    assert total == sent
    assert plan.check().ok
    even = 1 if "b" in layout.replace("batch", "") else 2
    assert plan.work.share == pytest.approx(even / 8)


def usp(q, k, v):
    def core(q, k, v):
        with jax.named_scope("core"):
            return attend(q, k, v, causal=True)

    return jax.value_and_grad(lambda *a: (core(*a) ** 2).sum(), argnums=(0, 1, 2))(q, k, v)


def test_in_a_scope_beside_heads():
    inside = {"seq": "zigzag(ring)", "kv": "zigzag(ring)", "heads": "heads"}
    layout = ml.Layout.of({"seq": "ring+heads", "kv": "ring+heads", "@core": inside})
    plan = ml.trace(usp, *drawn()).plan(ml.mesh(ring=4, heads=2), layout)
    assert counted(plan) == {("all-to-all", ("heads",)): 8, ("collective-permute", ("ring",)): 36}
    assert plan.check().ok
    assert plan.work.share == pytest.approx(1 / 8)


@pytest.mark.parametrize("outside", ["ring+other", "other+ring"])
def test_what_has_no_heads_is_gathered_before_it_is_put_in_order(outside):
    """A bias and segments of positions alone; they were gathered in zig-zag order, and the plan was refused."""
    inside = {"seq": "zigzag(ring)", "kv": "zigzag(ring)", "heads": "other"}
    layout = {"seq": outside, "kv": outside, "@core": inside}
    plan = packed("core").plan(ml.mesh(ring=2, other=2), layout)
    assert plan.check().ok


@functools.cache
def trained(again: bool = True):
    Embed, Layers = ml.Dim("embed", 16), ml.Dim("layers", 3)

    def layer(x, w):
        q, k, v = (ml.dot(x, w[name], Embed) for name in "qkv")
        return x + ml.dot(attend(q, k, v, causal=True), w["out"], Heads, Depth)

    def loss(params, x):
        run = ml.checkpoint(layer) if again else layer
        x, _ = ml.scan(lambda x, w: (run(x, w), None), x, params, Layers)
        return (x**2).mean()

    def train(params, x):
        value, grads = jax.value_and_grad(loss)(params, x)
        return value, jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)

    into, out = ml.f32[Layers, Embed, Heads, Depth], ml.f32[Layers, Heads, Depth, Embed]
    return ml.trace(train, {"q": into, "k": into, "v": into, "out": out}, ml.f32[Batch, Seq, Embed])


def test_layers_that_are_computed_again():
    """Four arrays forward, the same again, and the gradients of four: 12 a layer, each two permutes of half a shard."""
    layout = {"batch": "data", "seq": "zigzag(cp)", "kv": "zigzag(cp)", "params/*": {"embed": "data"}}
    plan = trained().plan(ml.mesh(data=2, cp=4), layout)
    assert counted(plan)["collective-permute", ("cp",)] == 3 * (8 * 4 - 6 + 24)
    assert plan.check().ok


@functools.cache
def packed(scope: str = ""):
    """Grouped queries over packed documents, with a bias of the keys; in a scope, if asked for."""

    def function(q, k, v, bias, segments):
        keys = segments.rename(seq="kv")
        options = {"query_segments": segments, "key_segments": keys, "bias": bias, "causal": True}

        def loss(q, k, v, bias):
            with jax.named_scope(scope) if scope else contextlib.nullcontext():
                out = attend(q, k, v, **(options | {"bias": bias}))
            return (out**2).sum()

        return jax.value_and_grad(loss, argnums=(0, 1, 2, 3))(q, k, v, bias)

    bias = ml.tensor(jnp.linspace(-1, 1, Seq.size), "kv")
    return ml.trace(function, *drawn(), bias, ml.tensor(SEGMENTS, Batch, Seq))


def random_layout(chance: random.Random, dims: list[str]) -> dict[str, str]:
    rules = {}
    for dim in dims:
        axes = chance.sample("abc", chance.choice([0, 1, 1, 2]))
        if dim == "kv" and "seq" in rules and chance.random() < 0.5:
            axes = [axis for axis in "abc" if axis in rules["seq"].removeprefix("zigzag")]
        written = "+".join(axes)
        if axes:
            rules[dim] = f"zigzag({written})" if dim in ("seq", "kv") and chance.random() < 0.7 else written
    return rules


@pytest.mark.share(30)
@pytest.mark.parametrize("seed", range(120))
def test_random_layouts(seed):
    chance = random.Random(seed)
    program = chance.choice([lambda: PROGRAM, packed, trained, lambda: trained(again=False)])()
    mesh = ml.mesh(a=2, b=2, c=2)
    while True:
        layout = random_layout(chance, ["seq", "kv", *chance.sample(["batch", "heads"], 1)])
        try:
            plan = program.plan(mesh, layout)
        except LayoutError:
            continue
        if "zigzag" in str(plan.layout):
            break
    assert plan.check().ok


def test_without_it_nothing_is_exchanged():
    assert PROGRAM.plan(ml.mesh(a=4), "seq:a kv:a").program is PROGRAM
    one = PROGRAM.plan(ml.mesh(a=1), RING)
    assert not one.collectives
    assert one.check().ok
    # A plan's program is planned in other layouts as well.
    ordered = PROGRAM.plan(ml.mesh(a=4), RING).program
    assert ordered.plan(ml.mesh(a=4), "seq:a kv:a").program is PROGRAM
    assert ordered.plan(ml.mesh(a=4), RING).program is ordered


@pytest.mark.parametrize("written", [RING, "seq:zigzag(b+a) · @core: kv:zigzag(a)", 'seq:zigzag("x y"+a)'])
def test_a_layout_says_so_in_text_and_in_json(written):
    if '"' in written:
        with pytest.raises(LayoutError, match="names no mesh axis"):
            ml.Layout.of(written)
        return
    layout = ml.Layout.of(written)
    assert ml.Layout.of(str(layout)) == layout
    assert ml.Layout.of(layout.to_dict()) == layout
    assert ml.Layout.of(written.replace("zigzag(", "").replace(")", "")) != layout
    assert "zigzag(a)" in str(layout.to_dict()) or "zigzag(b+a)" in str(layout.to_dict())
    with pytest.raises(LayoutError, match="`seq` is in zig-zag order"):
        layout.to_axis_rules()


def test_two_layouts_agree_on_the_order():
    with pytest.raises(LayoutError, match="conflict"):
        _ = ml.Layout.of("seq:zigzag(a)") & "seq:a"
    assert str(ml.Layout.of("seq:zigzag(a)") & RING) == "kv:zigzag(a) seq:zigzag(a)"


def refused(layout, said, program=PROGRAM):
    with pytest.raises(LayoutError, match=said) as refusal:
        program.plan(ml.mesh(a=4, b=2), layout)
    return [problem.code for problem in refusal.value.problems]


def test_what_cannot_be_in_order_is_refused():
    odd = ml.Dim("seq", 12)
    arrays = [ml.f32[tuple(odd if dim == Seq else dim for dim in dims)] for dims in (Q, K, K)]
    uneven = ml.trace(lambda q, k, v: attend(q, k, v, causal=True), *arrays)
    said = r"`seq` has size 12, which 8 do not divide: two halves on each of 4 devices .*fit: 8 or 16; or write `seq:a`"
    assert refused(RING, said, uneven) == ["not_divisible"] * 2
    with pytest.raises(LayoutError, match="two halves"):
        uneven.plan(ml.mesh(a=4, b=2), RING, pad=True)
    for options in ({}, {"causal": True, "window": 9}):
        program = ml.trace(functools.partial(step, **options), *drawn())
        assert refused(RING, "This program has no such attention", program) == ["unused_dim"] * 2
    assert refused("heads:zigzag(a)", r"`heads` has no zig-zag order.*are `seq`, `kv`") == ["unused_dim"]
    assert refused({"q": {"seq": "zigzag(a)"}}, "At `q`: .*Write `seq:a` there") == ["conflict"]
    assert refused("seq:zigzag(a+b) kv:a", r"Write `seq:zigzag\(a\+b\) kv:zigzag\(a\+b\)`") == ["conflict"]
    for layout in ("seq:zigzag(a) kv:a", "seq:a kv:zigzag(a)"):
        assert refused(layout, r"the others wait.*Write `seq:zigzag\(a\) kv:zigzag\(a\)`") == ["conflict"]
    scoped = {"seq": "zigzag(a)", "@core": {"seq": "b"}}
    program = ml.trace(usp, *drawn())
    assert refused(scoped, "rules of a scope replace this one", program) == ["unused_dim"]


def test_beside_micro_batches():
    mesh = ml.mesh(a=2, t=ml.serial(2))
    plan = PROGRAM.plan(mesh, f"{RING} batch:t")
    assert plan.check().ok


def test_a_plan_that_would_cut_them_anew_is_refused():
    """No layout is known that gives one."""
    ring, gathered = (PROGRAM.plan(ml.mesh(a=4), layout) for layout in (RING, "seq:a"))
    inside = next(iter(op for op in ring.program.code.block.operations if op.name == "zigzag")).outputs[0]
    moves = [step for step in gathered.steps if isinstance(step, Move)]
    steps = [dataclasses.replace(move, value=inside) for move in moves]
    with pytest.raises(LayoutError, match="in zig-zag order"):
        refuse_zigzag_moves(ring.program, steps)


def test_presets_are_balanced():
    mesh, scoped = ml.mesh(ring=4, heads=2), ml.trace(usp, *drawn())
    made = functools.partial(ml.layouts.context_parallel, context="ring", balanced=True)
    assert str(made(PROGRAM, mesh, kind="ring")) == "kv:zigzag(ring) seq:zigzag(ring)"
    assert str(made(PROGRAM, mesh)) == "seq:zigzag(ring)"
    both = made(scoped, mesh, kind="usp", context=("ring", "heads"))
    inside = "@core: heads:heads kv:zigzag(ring) seq:zigzag(ring)"
    assert str(both) == f"kv:ring+heads seq:ring+heads · {inside}"
    for kind, program, said in (
        ("ulysses", scoped, "has whole sequences in attention"),
        ("ring", ml.trace(step, *drawn()), "for causal attention as one operation"),
    ):
        with pytest.raises(LayoutError, match=said):
            made(program, mesh, kind=kind)


def test_what_goes_round_is_named():
    plan = PROGRAM.plan(ml.mesh(a=4), RING)
    named = {c.value.split(" of attention")[0] for c in plan.collectives if c.kind == "collective-permute"}
    gradients = {"gradient of keys", "gradient of values"}
    halves = {c.value for c in plan.collectives if c.value.startswith("halves of ")}
    assert named == {"keys", "values", *gradients, *(value.split(" of attention")[0] for value in halves)}
    assert {value.removeprefix("halves of ") for value in halves} >= {"q", "k", "v", "attention in attend"}
    keys = next(c for c in plan.collectives if c.value.startswith("keys"))
    assert keys.dims == ("batch", "kv", "heads", "depth")
    around = "in attention: keys and values go around the devices, in a ring."
    assert keys.because == f"`seq` and `kv` are split over `a` {around}"
    back = next(c for c in plan.collectives if c.value.startswith("gradient of keys"))
    assert "gradients of keys and values go around" in back.because
    halves = next(c for c in plan.collectives if c.value.startswith("halves"))
    assert halves.because.startswith("`seq` is in zig-zag order over `a`, for even work: devices exchange halves")


def test_a_ring_may_be_gathered_instead():
    plan = PROGRAM.plan(ml.mesh(a=4), "seq:a kv:a")
    keys = next(c for c in plan.collectives if c.value.startswith("keys"))
    gathered, none = keys.remedies
    assert gathered.text == "take `kv` off `a`"
    assert gathered.effect == "then keys and values are gathered"
    assert {c.kind for c in gathered.outcome.then.collectives if c.shape} >= {"all-gather"}
    assert none.text == "take `seq` off `a` and `kv` off `a`"


def test_a_mesh_may_have_a_serial_axis_beside_it():
    mesh = ml.mesh(a=4, micro=ml.serial(2))
    assert PROGRAM.plan(mesh, RING).check().ok
    with pytest.raises(LayoutError, match="has a serial axis in front"):
        PROGRAM.plan(mesh, {"seq": "micro+a"})


PAGE = pathlib.Path(__file__).parents[3] / "docs" / "long-sequences.md"
COLUMNS = ((1, None), (8, "seq:a"), (2, "seq:a kv:a"), (4, "seq:a kv:a"), (8, "seq:a kv:a"), (8, RING))


@pytest.mark.nightly
def test_the_page_shows_the_memory_that_is_predicted_today():
    rows = re.findall(r"^\| ([\d,]+) \| (.*) \|$", PAGE.read_text(), re.MULTILINE)
    assert len(rows) == 5
    for length, cells in rows:
        size, heads, depth = ml.dims(seq=int(length.replace(",", "")), heads=8, depth=64)
        program = ml.trace(functools.partial(step, causal=True), *[ml.bf16[size, heads, depth]] * 3)
        for (n, layout), cell in zip(COLUMNS, cells.split(" | "), strict=True):
            plan = program.plan(ml.mesh(a=n), layout)
            held = 6 * size.size * heads.size * depth.size * 2 // n + 4  # arguments, gradients and the loss
            assert f"{(plan.memory.peak_bytes - held) / 1e6:,.0f}" == cell.split(" ")[0]
            if size.size <= 16_384:
                compiled = plan.compile().memory_analysis()
                assert compiled is not None
                assert f"({compiled.temp_size_in_bytes / 1e6:,.0f})" == cell.split(" ")[1]
