"""Tokens that go to experts and back: equal to the plain form, dropped as counted by hand, and sent as counted."""

from __future__ import annotations

from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from meshlab.engine.errors import DimError, LayoutError
from meshlab.engine.verifying.drawn_meshes import MESHES, MESHES_IN_TIME
from meshlab.engine.verifying.random_layouts import draw
from tests import share

pytestmark = pytest.mark.share(3, of="file")

Batch, Seq, Embed, Ffn = ml.dims(batch=8, seq=16, embed=16, ffn=24)
Routes, Experts, K = ml.dims(routes=8, experts=8, k=2)
Params = {"router": ml.f32[Embed, Routes], "up": ml.f32[Experts, Embed, Ffn], "down": ml.f32[Experts, Ffn, Embed]}
TOKENS = Batch.size * Seq.size


def experts(params, x, factor, k=K):
    """One layer, and how many choices were dropped."""
    shares = ml.softmax(ml.dot(x, params["router"], Embed), Routes)
    weights, choice = ml.top_k(shares, Routes, k)
    with jax.named_scope("experts"):
        rows, sent = ml.dispatch(x, choice, Experts, factor=factor)
        hidden = ml.silu(ml.ragged_dot(rows, params["up"], sent, Embed))
        y = ml.combine(ml.ragged_dot(hidden, params["down"], sent, Ffn), sent, weights)
    return y, sent.dropped


def step(factor, k=K):
    def loss(params, x):
        y, dropped = experts(params, x, factor, k)
        return ((y - x) ** 2).mean(), (y, dropped)

    def run(params, x):
        (value, (y, dropped)), (grads, to_x) = jax.value_and_grad(loss, argnums=(0, 1), has_aux=True)(params, x)
        return value, y, dropped, jax.tree.map(lambda w, g: w - 0.1 * g, params, grads), to_x

    return run


def drawn(seed=0, dtype: Any = np.float32, skew=0.0):
    """Parameters and tokens; with a skew most tokens choose the first expert."""
    random = np.random.default_rng(seed)

    def made(x):
        return ml.tensor(random.normal(size=x.shape).astype(dtype) * 0.3, *x.dims)

    params, x = {name: made(each) for name, each in Params.items()}, made(ml.f32[Batch, Seq, Embed])
    router = np.array(params["router"].array)
    router[:, 0] += skew * x.array.mean((0, 1))
    return params | {"router": ml.tensor(router, Embed, Routes)}, x


def plain(params, x, kept=None, k=K.size):
    """The same, every expert with every token: arrays; `kept` says which choices find a place."""
    w = {name: each.array for name, each in params.items()}
    shares = jax.nn.softmax(x @ w["router"])
    weights, choice = jax.lax.top_k(shares, k)
    weights = weights if kept is None else weights * kept
    gates = (jax.nn.one_hot(choice, Experts.size, dtype=x.dtype) * weights[..., None]).sum(-2)
    hidden = jax.nn.silu(jnp.einsum("bse,xef->bsxf", x, w["up"]))
    return jnp.einsum("bsx,bsxf,xfe->bse", gates, hidden, w["down"])


def choices(params, x, k=K.size):
    return np.asarray(jax.lax.top_k(jax.nn.softmax(x.array @ params["router"].array), k)[1])


def kept_by_hand(choice, factor, devices, devices_of_experts=None):
    """Which choices find a place, token by token, on so many devices in the batch's order: [batch, seq, k].

    Each device has places for `factor` times its share of choices, the same number for each that sends to it.
    """
    homes = devices_of_experts or devices
    rows = -(-int(factor * choice.size) // Experts.size) * Experts.size // homes
    kept = np.zeros(choice.shape, bool)
    for part, own in zip(np.split(kept, devices), np.split(choice, devices), strict=True):
        taken = Counter()
        for at in np.ndindex(own.shape):
            home = own[at] // (Experts.size // homes)
            part[at] = taken[home] < rows // devices
            taken[home] += 1
    return kept


def close(one: Any, other: Any, tolerance: float):
    for mine, theirs in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        right = np.asarray(theirs, np.float64)
        assert np.abs(np.asarray(mine, np.float64) - right).max() <= tolerance * (1 + np.abs(right).max())


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-6), (np.float64, 1e-12)], ids=str)
@pytest.mark.parametrize("k", [1, 2])
def test_it_is_the_plain_form(dtype, tolerance, k):
    with jax.enable_x64(dtype is np.float64):
        params, x = drawn(dtype=dtype)
        _, y, dropped, new, to_x = step(1.0, ml.Dim("k", k))(params, x)

        def loss(arrays, x):
            named = {name: ml.tensor(a, *Params[name].dims) for name, a in arrays.items()}
            return ((plain(named, x, k=k) - x) ** 2).mean()

        arrays = {name: each.array for name, each in params.items()}
        grads, to_plain = jax.grad(loss, argnums=(0, 1))(arrays, x.array)
        assert dropped == 0
        close(y.array, plain(params, x.array, k=k), tolerance)
        close(to_x.array, to_plain, tolerance)
        close({n: p.array for n, p in new.items()}, {n: a - 0.1 * grads[n] for n, a in arrays.items()}, tolerance)


def test_one_expert_a_token_needs_no_dim_of_choices():
    params, x = drawn()
    logits = ml.dot(x, params["router"], Embed)
    rows, sent = ml.dispatch(x, ml.argmax(logits, Routes), Experts, factor=1)
    weights = ml.softmax(logits, Routes).max(Routes)
    made = ml.ragged_dot(ml.silu(ml.ragged_dot(rows, params["up"], sent, Embed)), params["down"], sent, Ffn)
    close(ml.combine(made, sent, weights).array, plain(params, x.array, k=1), 1e-6)
    close((ml.combine(made, sent) * weights).array, plain(params, x.array, k=1), 1e-6)


def test_under_vmap_remat_and_in_half_precision():
    params, x = drawn()

    def one(router, x):
        given = params | {"router": ml.tensor(router, Embed, Routes)}
        return experts(given, ml.tensor(x, Seq, Embed), 1.0)[0].array

    stacked = np.stack([params["router"].array, params["router"].array[:, ::-1]])
    both = jax.vmap(jax.vmap(one, (None, 0)), (0, None))(stacked, x.array)
    close(both[0], plain(params, x.array), 1e-6)
    close(both[1], jax.vmap(lambda x: one(stacked[1], x))(x.array), 1e-6)
    again, once = (jax.grad(lambda x, f=f: f(stacked[0], x).sum())(x.array[0]) for f in (jax.checkpoint(one), one))
    close(again, once, 1e-6)
    grads = jax.vmap(jax.grad(lambda x: one(stacked[0], x).sum()))(x.array)
    close(grads[0], once, 1e-6)
    half = {name: each.astype(ml.bf16) for name, each in params.items()}
    y, _ = experts(half, x.astype(ml.bf16), 1.0)
    assert y.array.dtype == jnp.bfloat16
    rows, sent = ml.dispatch(x.astype(ml.bf16), ml.tensor(choices(params, x), Batch, Seq, K), Experts, factor=1)
    exact = ml.combine(rows, sent).array.astype(np.float32)
    np.testing.assert_array_equal(exact, 2 * x.array.astype(jnp.bfloat16).astype(np.float32))


def test_numbers_of_no_expert_are_dropped():
    x = ml.tensor(np.arange(1.0, 5.0, dtype=np.float32)[:, None], "tokens", "embed")
    rows, sent = ml.dispatch(x, ml.tensor([7, -1, 8, 0], "tokens"), Experts, factor=4)
    assert sent.dropped == 2
    np.testing.assert_array_equal(ml.combine(rows, sent).array[:, 0], [1, 0, 0, 4])


PROGRAM = ml.trace(step(8.0), Params, ml.f32[Batch, Seq, Embed])


def counted(plan):
    """By kind and axes, how often arrays are sent that are more than numbers, and how many bytes a device puts in."""
    sent: dict[Any, Any] = {}
    for collective in plan.collectives:
        if collective.shape:
            key = collective.kind, collective.axes
            times, payload = sent.get(key, (0, 0))
            sent[key] = times + collective.times, payload + collective.times * collective.payload_bytes
    return sent


@pytest.mark.parametrize("n", [2, 4, 8])
def test_two_all_to_alls_there_and_two_back_and_one_of_ids(n):
    """Each of a device's rows; nothing else but the gradient of the router."""
    plan = PROGRAM.plan(ml.mesh(data=n), "batch:data experts:data")
    rows = 8 * TOKENS * K.size // n
    assert counted(plan) == {
        ("all-to-all", ("data",)): (5, rows * 4 * (4 * Embed.size + 1)),
        ("all-reduce", ("data",)): (1, Embed.size * Routes.size * 4),
    }
    report = plan.check()
    assert report.ok, report
    assert plan.work.share == pytest.approx(1 / n)


@pytest.mark.parametrize(
    ("layout", "sent"),
    [
        # Each device its tokens, and all experts: as in any data parallelism gradients alone.
        ("batch:a", {("all-reduce", ("a",)): 3}),
        # Each device has all tokens, and takes those of its experts.
        ("experts:a", {("all-reduce", ("a",)): 3}),
        ("embed:a", {("all-reduce", ("a",)): 4}),
        ("ffn:a", {("all-reduce", ("a",)): 2}),
        ("batch:a+b experts:b", {("all-to-all", ("b",)): 5, ("all-reduce", ("a",)): 2, ("all-reduce", ("a", "b")): 1}),
        ("batch:a seq:b experts:b+a", {("all-to-all", ("b", "a")): 5, ("all-reduce", ("a", "b")): 1}),
        ("batch:a experts:a ffn:b", {("all-to-all", ("a",)): 5, ("all-reduce", ("b",)): 2, ("all-reduce", ("a",)): 1}),
        (
            "batch:a experts:a+b",
            {("all-to-all", ("a",)): 5, ("all-reduce", ("b",)): 3, ("all-reduce", ("a",)): 1},
        ),
    ],
)
def test_what_layouts_send(layout, sent):
    plan = PROGRAM.plan(ml.mesh(a=2, b=2, c=2), layout)
    assert {key: times for key, (times, _) in counted(plan).items()} == sent
    report = plan.check()
    assert report.ok, report


def test_gathered_tokens_are_a_scope_without_the_batch():
    """All-gathers there, reduce-scatters back; nothing is dropped with a factor of the devices."""
    layout = {"batch": "data", "experts": "data", "@experts": {"batch": None}}
    program = ml.trace(lambda p, x: experts(p, x, 4.0), Params, ml.f32[Batch, Seq, Embed])
    plan = program.plan(ml.mesh(data=4), layout)
    part = TOKENS // 4
    assert counted(plan) == {
        # Tokens, choices, and their weights.
        ("all-gather", ("data",)): (3, part * 4 * (Embed.size + 2 * K.size)),
        ("reduce-scatter", ("data",)): (1, TOKENS * 4 * Embed.size),
    }
    assert plan.check().ok
    assert np.asarray(plan.run(*drawn(skew=2.0))[1]) == 0


@pytest.mark.parametrize("factor", [1.0, 1.25, 2.0])
@pytest.mark.parametrize("devices", [2, 8])
def test_what_finds_no_place_is_dropped_later_tokens_first(factor, devices):
    params, x = drawn(skew=2.0)
    program = ml.trace(step(factor), Params, ml.f32[Batch, Seq, Embed])
    _, y, dropped, *_ = program.plan(ml.mesh(data=devices), "batch:data experts:data").run(params, x)
    kept = kept_by_hand(choices(params, x), factor, devices)
    assert dropped == (~kept).sum()
    assert kept.all() if factor == devices else (devices == 2 or dropped > 0)
    close(y.array, plain(params, x.array, kept), 1e-6)
    # Experts on another axis than data: each group of devices has its own places.
    mesh = ml.mesh(data=2, ep=devices // 2)
    _, y, dropped, *_ = program.plan(mesh, "batch:data+ep experts:ep").run(params, x)
    halves = [kept_by_hand(half, factor, devices // 2) for half in np.split(choices(params, x), 2)]
    assert dropped == sum((~half).sum() for half in halves)
    close(y.array, plain(params, x.array, np.concatenate(halves)), 1e-6)


def test_results_are_those_of_one_device():
    """Descent in float32 to 1e-6, and in float64 to 1e-12, with data, FSDP and tensor parallelism beside."""
    for dtype, tolerance in ((np.float32, 1e-6), (np.float64, 1e-12)):
        with jax.enable_x64(dtype is np.float64):
            params, x = drawn(dtype=dtype, skew=1.0)
            program = ml.trace(step(8.0), params, x)
            alone = jax.jit(step(8.0))(params, x)
            for mesh, layout in (
                (ml.mesh(data=8), "batch:data experts:data"),
                (ml.mesh(data=2, ep=2, tp=2), "batch:data+ep experts:ep ffn:tp"),
                (
                    ml.mesh(data=4, tp=2),
                    {"batch": "data", "experts": "data", "ffn": "tp", "params/router": {"embed": "data"}},
                ),
            ):
                report = program.plan(mesh, layout).check(params, x)
                assert report.ok, report
                close(program.plan(mesh, layout).run(params, x), alone, tolerance)


@pytest.mark.parametrize("n", [2, 4])
def test_layers_of_a_model_that_are_computed_again(n):
    """Three all-to-alls of rows a layer more, as everything of the forward pass; beside data, FSDP and tensors."""
    Layers = ml.Dim("layers", 3)

    def loss(params, x):
        layer = ml.checkpoint(lambda x, w: x + experts(w, x, 2.0 * n)[0])
        x, _ = ml.scan(lambda x, w: (layer(x, w), None), x, params, Layers)
        return (x**2).mean()

    def train(params, x):
        value, grads = jax.value_and_grad(loss)(params, x)
        return value, jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)

    stacked = {name: ml.f32[(Layers, *x.dims)] for name, x in Params.items()}
    program = ml.trace(train, stacked, ml.f32[Batch, Seq, Embed])
    mesh = ml.mesh(data=2, ep=n) if n == 4 else ml.mesh(data=2, ep=n, tp=2)
    layout = {"batch": "data+ep", "experts": "ep", "params/*": {"embed": "data"}}
    plan = program.plan(mesh, layout if n == 4 else layout | {"ffn": "tp"})
    # There and back, their ids; again; and there and back in the backward pass.
    assert counted(plan)["all-to-all", ("ep",)][0] == Layers.size * (3 + 3 + 2)
    report = plan.check()
    assert report.ok, report


def test_another_split_in_between_is_not_taken():
    """What reads rows follows how they were sent, whatever rules hold in its scope."""

    def crossing(params, x, choice):
        with jax.named_scope("there"):
            rows, sent = ml.dispatch(x, choice, Experts, factor=8)
        with jax.named_scope("at"):
            made = ml.ragged_dot(ml.silu(ml.ragged_dot(rows, params["up"], sent, Embed)), params["down"], sent, Ffn)
        with jax.named_scope("back"):
            return ml.combine(made, sent)

    program = ml.trace(crossing, Params, ml.f32[Batch, Seq, Embed], ml.i32[Batch, Seq, K])
    params, x = drawn()
    for there, at, back in (("a", "b", None), ("a", None, "b"), ("a+b", "a", "a"), (None, "a", "b")):
        scopes = {"@there": {"experts": there}, "@at": {"experts": at}, "@back": {"experts": back, "batch": "b"}}
        plan = program.plan(ml.mesh(a=2, b=2), {"batch": "a", **scopes})
        report = plan.check(params, x, ml.tensor(choices(params, x), Batch, Seq, K))
        assert report.ok, f"{scopes}: {report}"


@pytest.mark.share(24)
@pytest.mark.parametrize("number", range(24))
def test_drawn_layouts(number):
    """Of axes, places and scopes, some in time: 240 in all."""
    seed = share.number() + number
    for meshes, count in ((MESHES, 7), (MESHES_IN_TIME, 3)):
        for mesh, layout in draw(PROGRAM, seed=seed, count=count, meshes=meshes):
            report = PROGRAM.plan(mesh, layout).check(*drawn(seed))
            assert report.ok, f"{layout} on {mesh}:\n{report}"
    jax.clear_caches()


def test_rows_are_not_returned():
    """Their order depends on the layout."""

    def leaky(x, choice):
        rows, sent = ml.dispatch(x, choice, Experts, factor=8.0)
        return ml.combine(rows, sent), {"rows": rows, "sent": sent}

    said = r"returns at `out/1/rows`, `out/1/sent/.*` rows of ml.dispatch.* Return the result of ml.combine"
    with pytest.raises(ml.TraceError, match=said):
        ml.trace(leaky, ml.f32[Batch, Seq, Embed], ml.i32[Batch, Seq, K])


def test_rows_are_no_arrays_of_experts():
    params, x = drawn()
    rows, sent = ml.dispatch(x, ml.tensor(choices(params, x), Batch, Seq, K), Experts, factor=1)
    bias = ml.tensor(np.zeros((8, 16), np.float32), Experts, Embed)
    with pytest.raises(DimError, match=r"add met rows that are sorted along `experts` and an array that is not"):
        _ = rows + bias
    with pytest.raises(DimError, match=r"sum was asked for the dim `experts` .*, along which rows are sorted"):
        rows.sum("experts")
    with pytest.raises(DimError, match=r"met rows that are sorted along `experts`"):
        ml.dot(rows, params["up"], Embed)
    with pytest.raises(DimError, match=r"rename was asked for the dim `rows`"):
        rows.rename(rows="capacity")
    with pytest.raises(DimError, match=r"rows of \[batch=8, seq=16, embed=16\]; ml\.dispatch has sent them as"):
        ml.combine(x, sent)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"factor": 0.5}, r"factor=0\.5; it is a number, 1 or more"),
        ({"factor": "two"}, "factor='two'; it is a number, 1 or more"),
        ({"experts": "experts"}, "experts='experts', which is not a dim with a size"),
        ({"experts": ml.Dim("seq", 16)}, "`seq` for the experts, which tokens or choices have: rename theirs"),
        ({"rows": "batch"}, "rows='batch', which names no new dim"),
        ({"choice": ml.tensor(np.zeros((8, 16, 2), np.float32), Batch, Seq, K)}, "choice of f32; they are integers"),
        ({"choice": ml.tensor(np.zeros(2, np.int32), K)}, r"choice\[k=2\], which has no dim of x"),
        ({"factor": 0, "rows": "", "experts": 8}, "experts=8.*rows=''.*factor=0"),
    ],
)
def test_what_does_not_fit_is_refused_at_once(changed, said):
    params, x = drawn()
    given = {"choice": ml.tensor(choices(params, x), Batch, Seq, K), "experts": Experts, "factor": 1} | changed
    with pytest.raises(DimError, match=said):
        ml.dispatch(x, given.pop("choice"), given.pop("experts"), **given)


def test_experts_that_devices_do_not_divide_are_refused():
    with pytest.raises(LayoutError, match="`experts`"):
        PROGRAM.plan(ml.mesh(a=3), "experts:a")


def test_predicted_times_and_peaks_know_the_rows_that_there_are():
    """A factor is memory, and no time: empty places are not multiplied."""
    mesh = ml.mesh("h100:1x1x8", data=8)
    plans = [
        ml.trace(step(factor), Params, ml.f32[Batch, Seq, Embed]).plan(mesh, "batch:data experts:data")
        for factor in (1.0, 8.0)
    ]
    flops = [plan.time.flops for plan in plans]
    assert flops[0] == flops[1] > 0
    assert plans[0].memory.peak_bytes < plans[1].memory.peak_bytes


def test_what_is_sent_has_a_name_and_a_cause():
    plan = ml.trace(step(4.0), Params, ml.f32[Batch, Seq, Embed]).plan(ml.mesh(data=4), "batch:data experts:data")
    sent = {c.value: c.because for c in plan.collectives if c.kind == "all-to-all"}
    there = "`experts` is split over `data`: tokens are sent to the devices of their experts."
    assert sent == {
        "which experts the rows are for": there,
        "rows to their experts": there,
        "rows back from their experts": "`experts` is split over `data`: the experts' results are sent back to the"
        " devices of their tokens.",
    }
