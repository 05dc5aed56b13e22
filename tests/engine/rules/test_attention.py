"""Attention under every way of splitting its positions: equal to the plain form, and sent as counted."""

from __future__ import annotations

from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from meshlab.engine.errors import DimError, LayoutError

pytestmark = pytest.mark.share(2, of="file")

Batch, Seq, Heads, Group, Depth = ml.dims(batch=2, seq=64, heads=4, group=2, depth=8)
Q, K = (Batch, Seq, Heads, Group, Depth), (Batch, Seq, Heads, Depth)


def attend(q, k, v, **options):
    return ml.attention(q, k.rename(seq="kv"), v.rename(seq="kv"), "seq", "kv", **options)


def step(q, k, v, **options):
    def loss(q, k, v):
        return (attend(q, k, v, **options) ** 2).sum()

    return jax.value_and_grad(loss, argnums=(0, 1, 2))(q, k, v)


def drawn(dtype="float32", scale=1.0, seed=0):
    random = np.random.default_rng(seed)
    arrays = [random.normal(size=[d.size for d in dims]) * scale for dims in (Q, K, K)]
    return [ml.tensor(jnp.asarray(a, dtype), *dims) for a, dims in zip(arrays, (Q, K, K), strict=True)]


def plain(qkv: Any, shown: Any = None, bias: Any = 0.0) -> Any:
    """The same with all scores in memory."""
    q, k, v = qkv
    scores = jnp.einsum("bshgd,bthd->bshgt", q, k) / np.sqrt(q.shape[-1]) + bias
    if shown is not None:
        scores = jnp.where(shown, scores, -jnp.inf)
    return jnp.einsum("bshgt,bthd->bshgd", jax.nn.softmax(scores, -1), v)


def shown(causal: bool = False, window: int | None = None, queries: Any = None, keys: Any = None):
    """Which keys each query attends to, [batch query 1 1 key]."""
    at = np.arange(Seq.size)
    mask = np.ones((1, Seq.size, Seq.size), bool)
    if causal:
        mask &= at[:, None] >= at
    if window is not None:
        mask &= abs(at[:, None] - at) < window
    if queries is not None:
        mask = mask & (queries[:, :, None] == keys[:, None])
    return mask[:, :, None, None]


def off(found: Any, right: Any) -> float:
    """The root mean square of the errors; the greatest of them is but one unlucky rounding."""
    return float(np.sqrt(np.mean((np.asarray(found, np.float64) - right) ** 2)))


SEGMENTS = np.sort(np.random.default_rng(1).integers(0, 3, (Batch.size, Seq.size)), axis=1).astype(np.int32)
MASKS = [
    {},
    {"causal": True},
    {"window": 5},
    {"causal": True, "window": 40},
    {"causal": True, "segments": True},
]


@pytest.mark.parametrize("masked", MASKS, ids=str)
@pytest.mark.parametrize("block", [512, 16])
def test_it_is_the_plain_form(monkeypatch, masked: dict[str, Any], block: int):
    monkeypatch.setattr("meshlab.engine.tensors.attention.BLOCK", block)
    masked = dict(masked)
    options, segments = {**masked}, masked.pop("segments", False)
    options.pop("segments", None)
    if segments:
        options |= {
            "query_segments": ml.tensor(SEGMENTS, Batch, Seq),
            "key_segments": ml.tensor(SEGMENTS, Batch, ml.Dim("kv", Seq.size)),
        }
    both = SEGMENTS if segments else None
    mask = shown(queries=both, keys=both, **masked)
    q, k, v = drawn()
    with jax.enable_x64(True):
        exact = [np.asarray(x.array, np.float64) for x in (q, k, v)]
        value, gradients = jax.value_and_grad(lambda *a: (plain(a, mask) ** 2).sum(), argnums=(0, 1, 2))(*exact)
        value, gradients = float(value), list(map(np.asarray, gradients))
    got, found = step(q, k, v, **options)
    of_plain, kept = jax.value_and_grad(lambda *a: (plain(a, mask) ** 2).sum(), argnums=(0, 1, 2))(
        *(x.array for x in (q, k, v))
    )
    assert abs(float(got) - value) <= 2 * abs(float(of_plain) - value) + 1e-6 * abs(value)
    for mine, theirs, right in zip(found, kept, gradients, strict=True):
        assert off(mine.array, right) <= 2 * off(theirs, right)


def test_large_scores_and_queries_that_attend_to_nothing():
    q, k, v = drawn(scale=30.0)
    out = attend(q, k, v, causal=True).array
    exact = plain([np.asarray(x.array, np.float64) for x in (q, k, v)], shown(causal=True))
    assert np.abs(out - exact).max() < 1e-3
    nobody = ml.tensor(np.full((Batch.size, Seq.size), 7, np.int32), Batch, Seq)
    others = ml.tensor(SEGMENTS, Batch, ml.Dim("kv", Seq.size))
    value, gradients = step(*drawn(), query_segments=nobody, key_segments=others)
    assert value == 0
    assert all((g.array == 0).all() for g in gradients)


def test_a_bias_has_its_gradient():
    bias = ml.tensor(jnp.asarray(np.random.default_rng(2).normal(size=(4, 64, 64)), "float32"), Heads, Seq, "kv")
    q, k, v = drawn()

    def mine(bias):
        return (attend(q, k, v, bias=bias) ** 2).sum()

    def theirs(bias):
        spread = jnp.moveaxis(bias, 0, 1)[None, :, :, None]
        return (plain((q.array, k.array, v.array), bias=spread) ** 2).sum()

    np.testing.assert_allclose(jax.grad(mine)(bias).array, jax.grad(theirs)(bias.array), atol=1e-5)


def test_sums_of_narrow_floats_are_of_32_bits():
    q, k, v = drawn("bfloat16")
    out = attend(q, k, v, causal=True)
    assert out.array.dtype == jnp.bfloat16
    exact = plain([np.asarray(x.array, np.float64) for x in (q, k, v)], shown(causal=True))
    assert np.abs(np.asarray(out.array, np.float64) - exact).max() < 0.02


def test_under_vmap_and_remat():
    q, k, v = (ml.tensor(x.array[0], *x.dims[1:]) for x in drawn())
    stacked = [jnp.stack([x.array, x.array + 1]) for x in (q, k, v)]

    def one(*arrays):
        return attend(*(ml.tensor(a, *x.dims) for a, x in zip(arrays, (q, k, v), strict=True)), causal=True).array

    both = jax.vmap(one)(*stacked)
    np.testing.assert_allclose(both[1], one(*(a[1] for a in stacked)), rtol=1e-5)
    some = jax.vmap(lambda a: one(a, k.array, v.array))(stacked[0])
    np.testing.assert_allclose(some[1], one(stacked[0][1], k.array, v.array), rtol=1e-5)
    again = jax.grad(lambda a: jax.checkpoint(one)(a, k.array, v.array).sum())(q.array)
    np.testing.assert_allclose(again, jax.grad(lambda a: one(a, k.array, v.array).sum())(q.array), rtol=1e-4, atol=1e-6)


PROGRAM = ml.trace(lambda q, k, v: step(q, k, v, causal=True), *drawn())


def counted(plan):
    sent = Counter()
    for collective in plan.collectives:
        if collective.shape:
            sent[collective.kind, collective.axes] += collective.times
    return dict(sent)


@pytest.mark.parametrize("n", [2, 4, 8])
def test_a_ring_sends_keys_values_and_their_gradients_around(n):
    plan = PROGRAM.plan(ml.mesh(a=n), "seq:a kv:a")
    assert counted(plan) == {("collective-permute", ("a",)): 6 * n - 4}
    assert plan.check().ok
    # The device with the last queries computes them with all keys.
    assert plan.work.share == pytest.approx((1 - 1 / (2 * n)) / n / 0.5)


def test_some_device_attends_to_all_that_it_has_where_keys_are_split_over_other_axes():
    plan = PROGRAM.plan(ml.mesh(a=2, b=2), "seq:a kv:b")
    assert plan.work.share == pytest.approx(2 / 4)
    assert plan.check().ok


@pytest.mark.parametrize(("queries", "keys"), [(32, 64), (64, 32), (8, 64), (64, 8)])
@pytest.mark.parametrize("window", [1, 5, 17, 60])
def test_a_window_of_more_or_fewer_keys_than_queries(queries: int, keys: int, window: int):
    random = np.random.default_rng(0)
    q, k, v = (
        ml.tensor(random.normal(size=(n, 4)).astype("float32"), dim, "depth")
        for n, dim in ((queries, "seq"), (keys, "kv"), (keys, "kv"))
    )
    program = ml.trace(lambda q, k, v: ml.attention(q, k, v, "seq", "kv", causal=True, window=window), q, k, v)
    report = program.plan(ml.mesh(a=4), "seq:a kv:a").check(q, k, v)
    assert report.ok, report


@pytest.mark.parametrize(("window", "turns"), [(1, 0), (2, 1), (9, 1), (10, 2), (60, 7)])
def test_a_window_makes_a_ring_short(window, turns):
    program = ml.trace(lambda q, k, v: step(q, k, v, causal=True, window=window), *drawn())
    plan = program.plan(ml.mesh(a=8), "seq:a kv:a")
    sent = {("collective-permute", ("a",)): 6 * turns + 2} if turns else {}
    assert counted(plan) == sent
    assert plan.check().ok


@pytest.mark.parametrize(
    ("layout", "sent"),
    [
        ("seq:a", {("all-gather", ("a",)): 2, ("reduce-scatter", ("a",)): 2}),
        # One maximum and one sum; the queries' gradient; the keys' go home.
        ("kv:a", {("all-reduce", ("a",)): 3, ("all-gather", ("a",)): 2}),
        ("heads:a batch:b", {}),
        ("group:a", {("all-reduce", ("a",)): 2}),
        ("seq:a kv:a batch:b heads:c", {("collective-permute", ("a",)): 8}),
        ("seq:a+b kv:a+b group:c", {("collective-permute", ("a", "b")): 20, ("all-reduce", ("c",)): 2}),
        ("seq:a+b kv:a", {("all-gather", ("a",)): 2, ("all-gather", ("b",)): 2, ("reduce-scatter", ("a", "b")): 2}),
        ("depth:a", {("all-gather", ("a",)): 4}),
    ],
)
def test_what_layouts_send(layout, sent):
    plan = PROGRAM.plan(ml.mesh(a=2, b=2, c=2), layout)
    assert counted(plan) == sent
    assert plan.check().ok


def test_usp_is_a_scope():
    """Heads over one axis and a ring over another, inside; positions over both, outside (Fang and Zhao 2024)."""

    def core(q, k, v):
        with jax.named_scope("core"):
            return attend(q, k, v, causal=True)

    def usp(q, k, v):
        return jax.value_and_grad(lambda *a: (core(*a) ** 2).sum(), argnums=(0, 1, 2))(q, k, v)

    layout = {"seq": "ring+ulysses", "kv": "ring+ulysses", "@core": {"seq": "ring", "kv": "ring", "heads": "ulysses"}}
    plan = ml.trace(usp, *drawn()).plan(ml.mesh(ring=4, ulysses=2), layout)
    sent = counted(plan)
    assert sent["all-to-all", ("ulysses",)] == 8
    assert sent["collective-permute", ("ring",)] == 20
    assert plan.check().ok


@pytest.mark.parametrize("n", [2, 4])
def test_layers_of_a_model_that_are_computed_again(n):
    """8n - 6 permutes a layer: the backward pass goes around twice; beside data, FSDP and tensor parallelism."""
    Embed, Layers = ml.Dim("embed", 16), ml.Dim("layers", 3)

    def layer(x, w):
        q, k, v = (ml.dot(x, w[name], Embed) for name in "qkv")
        out = attend(q, k, v, causal=True)
        return x + ml.dot(out, w["out"], Heads, Depth)

    def loss(params, x):
        again = ml.checkpoint(layer)
        x, _ = ml.scan(lambda x, w: (again(x, w), None), x, params, Layers)
        return (x**2).mean()

    def train(params, x):
        value, grads = jax.value_and_grad(loss)(params, x)
        return value, jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)

    into, out = ml.f32[Layers, Embed, Heads, Depth], ml.f32[Layers, Heads, Depth, Embed]
    program = ml.trace(train, {"q": into, "k": into, "v": into, "out": out}, ml.f32[Batch, Seq, Embed])
    mesh = ml.mesh(data=2, cp=n) if n == 4 else ml.mesh(data=2, cp=n, tp=2)
    layout = {"batch": "data", "seq": "cp", "kv": "cp", "params/*": {"embed": "data"}}
    plan = program.plan(mesh, layout if n == 4 else layout | {"heads": "tp"})
    assert counted(plan)["collective-permute", ("cp",)] == Layers.size * (8 * n - 6)
    assert plan.check().ok


def longer(seq, function=step):
    """A program of so many positions, with heads of a usual size."""
    size = {Seq: ml.Dim("seq", seq), Depth: ml.Dim("depth", 64)}
    q, k, v = (ml.f32[tuple(size.get(dim, dim) for dim in dims)] for dims in (Q, K, K))
    return ml.trace(lambda q, k, v: function(q, k, v, causal=True), q, k, v)


def compiled_peak(plan):
    sizes = plan.compile().memory_analysis()
    held = sizes.argument_size_in_bytes + sizes.output_size_in_bytes + sizes.temp_size_in_bytes
    return held - sizes.alias_size_in_bytes


@pytest.mark.parametrize("layout", [None, "seq:a", "seq:a kv:a", "kv:a", "heads:a"])
def test_the_peak_has_the_scores_of_a_block(layout):
    """XLA for CPUs; without what is inside of the operation it was 35 to 76% too low."""
    plan = longer(2048).plan(ml.mesh(a=4), layout)
    assert plan.memory.peak_bytes == pytest.approx(compiled_peak(plan), rel=0.35)


def test_what_it_holds_falls_with_the_ring():
    plans = [longer(8192, attend).plan(ml.mesh(a=8), layout) for layout in ("seq:a", "seq:a kv:a")]
    gathered, ring = (plan.memory.peak_bytes for plan in plans)
    assert ring < gathered
    assert compiled_peak(plans[1]) < compiled_peak(plans[0])


def test_both_positions_in_an_array_cannot_share_an_axis():
    bias = ml.f32[Seq, ml.Dim("kv", Seq.size)]
    program = ml.trace(lambda q, k, v, bias: attend(q, k, v, bias=bias), *drawn(), bias)
    with pytest.raises(LayoutError, match="`kv` and `seq` cannot both be on `a`"):
        program.plan(ml.mesh(a=2), "seq:a kv:a")
    assert program.plan(ml.mesh(a=2), "seq:a").check().ok


def test_all_that_is_wrong_with_a_ring_is_said_at_once():
    """An array of both positions, shards that have no two halves, a dim without order, an axis that there is not."""
    odd = {Seq: ml.Dim("seq", 12)}
    q, k, v = (ml.f32[tuple(odd.get(dim, dim) for dim in dims)] for dims in (Q, K, K))
    bias = ml.f32[ml.Dim("seq", 12), ml.Dim("kv", 12)]
    program = ml.trace(lambda q, k, v, bias: attend(q, k, v, bias=bias, causal=True), q, k, v, bias)
    with pytest.raises(LayoutError) as caught:
        program.plan(ml.mesh(a=4, b=2), "seq:zigzag(a) kv:zigzag(a) heads:zigzag(b) batch:c")
    said = str(caught.value)
    for problem in (
        "`kv` and `seq` cannot both be on `a`",
        "`seq` has size 12, which 8 do not divide: two halves on each of 4 devices",
        "`heads` has no zig-zag order",
        "`c`",
    ):
        assert problem in said, said


def test_a_ring_over_what_is_no_attention_is_refused():
    """A softmax over a product, and no values: there is nothing to go around."""

    def weights(q, k):
        return ml.softmax(ml.dot(q, k.rename(seq="kv"), Depth), "kv")

    program = ml.trace(weights, *drawn()[:2])
    with pytest.raises(LayoutError, match="`kv` and `seq` cannot both be on `a`"):
        program.plan(ml.mesh(a=2), "seq:a kv:a")


def test_programs_without_attention_are_not_searched_for_it(monkeypatch):
    """Their plans take as long as before there was any."""

    def searched(*_):
        raise AssertionError

    monkeypatch.setattr("meshlab.engine.attention.recognise.attentions", searched)
    rows, columns = ml.f32[Batch, Seq, Depth], ml.f32[Depth, Heads]
    program = ml.trace(lambda x, w: ml.dot(x, w, Depth).sum(), rows, columns)
    for layout in ("seq:a", "batch:a seq:b heads:c", {"batch": "a", "w": {"depth": "a"}}, None):
        assert program.plan(ml.mesh(a=2, b=2, c=2), layout).program is program


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"k": K}, "q and k have both the dim of the other's positions"),
        ({"k": (Batch, ml.Dim("kv", 64), Depth, ml.Dim("more", 2))}, r"k has dims that q has not: \[more=2\]"),
        ({"v": (Batch, ml.Dim("kv", 64), Heads)}, "v has one dim of its own, and it has none"),
        ({"v": (Batch, Heads, Depth)}, r"v lacks dims of k: \[kv=64\]"),
    ],
)
def test_what_does_not_fit_is_refused(change, said):
    keys = tuple(ml.Dim("kv", 64) if dim == Seq else dim for dim in K)
    dims = {"q": Q, "k": keys, "v": keys} | change
    q, k, v = (ml.tensor(jnp.zeros([d.size for d in dims[name]]), *dims[name]) for name in "qkv")
    with pytest.raises(DimError, match=said):
        ml.attention(q, k, v, "seq", "seq" if "k" in change and change["k"] == K else "kv")


def test_options_that_are_none_are_refused():
    q, k, v = drawn()
    with pytest.raises(DimError, match=r'which has no dim `kv`: .*Write k\.rename\(seq="kv"\)'):
        ml.attention(q, k, v, "seq", "kv")
    with pytest.raises(DimError, match="takes both or neither"):
        attend(q, k, v, query_segments=ml.tensor(SEGMENTS, Batch, Seq))
    with pytest.raises(DimError, match="they are integers"):
        attend(q, k, v, query_segments=q, key_segments=q)
    with pytest.raises(DimError, match="window"):
        attend(q, k, v, window=0)
    with pytest.raises(DimError, match=r"bias of .*; its dims are among"):
        attend(q, k, v, bias=ml.tensor(jnp.zeros(8), Depth))


def test_a_plan_says_why_keys_go_around_no_ring():
    mesh = ml.mesh(a=2, b=2, c=2)
    for keys in ("a+b", "b+a"):
        said = str(PROGRAM.plan(mesh, f"seq:{keys[::2][:1]} kv:{keys}").explain())
        assert "Attention gathers `kv`. This is not a ring:" in said
    assert "not a ring" in str(PROGRAM.plan(mesh, "seq:a+b kv:b+a").explain())
    for layout in ("seq:a+b kv:a+b", "seq:a kv:b", "seq:a", "kv:a"):
        assert "not a ring" not in str(PROGRAM.plan(mesh, layout).explain())
