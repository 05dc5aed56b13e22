"""The fifteen pitfalls of Mesh TensorFlow, each shown to be gone.

Every test says what went wrong there and where, and what is left of it: files and lines of tensorflow/mesh at
da907937e68a (version 0.1.19), paths within `mesh_tensorflow/`.
"""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import meshlab as ml
from meshlab.api.explain import warnings
from meshlab.auto.brute_force import planned_layouts, priced_layouts
from meshlab.models.basic import mesh_tf, mlp
from meshlab.models.language import gemma, moe
from meshlab.models.parts import initial, layers
from tests.engine.small_programs import checked, sent

pytestmark = pytest.mark.share(2, of="file")

ROOT = Path(__file__).parents[3]
Batch, Seq, Embed, Ffn, Routes, Experts = ml.dims(batch=8, seq=16, embed=32, ffn=64, routes=4, experts=4)
A, B = ml.dims(a=8, b=12)
P2, P4 = ml.mesh(p=2), ml.mesh(p=4)
SMALL = mlp.Config(batch=8, rows=4, cols=4, hidden=16, classes=4)


def numbers(*dims, seed=0):
    """A tensor of normal numbers."""
    array = np.random.default_rng(seed).normal(size=[dim.size for dim in dims])
    return ml.tensor(array.astype(np.float32), *dims)


def test_1_one_name_has_one_size():
    """ops.py:41, 90-91: a dim is its name and its size, so `a=3` plus `a=4` silently was an outer sum."""
    three, four = ml.f32[ml.Dim("a", 3), B], ml.f32[ml.Dim("a", 4), B]
    for function in (lambda x, y: x + y, lambda x, y: ml.dot(x, y, B), lambda x, y: (x, y)):
        with pytest.raises(ml.DimError, match="`a`.*3.*4"):
            ml.trace(function, three, four)


def test_2_a_misspelt_rule_is_an_error_and_an_optional_one_says_that_it_is():
    """ops.py:261, README.md:466-493: unknown names in layouts were ignored; its README's commands split nothing."""
    config, mesh = mesh_tf.Autoencoder(), ml.mesh(all=8)
    x = ml.f32[ml.dims(batch=config.batch, io=config.io)]
    program = ml.trace(mesh_tf.autoencoder_loss, initial.shapes(mesh_tf.init_autoencoder, config), x)
    with pytest.raises(ml.LayoutError, match=r"`hidden` is not a dim of this program. Did you mean `hidden_odd`"):
        program.plan(mesh, "hidden:all")
    with pytest.raises(ml.LayoutError, match=r"no axis `everything`"):
        program.plan(mesh, "hidden_odd:everything")
    assert program.plan(mesh, "hidden?:all").work.share == 1
    plan = program.plan(mesh, "hidden_odd:all")
    assert plan.work.share < 0.5
    # 4,096 elements over 8 devices, as Mesh TensorFlow counts for the name that exists.
    assert sent(plan, "payload_bytes") == {"all-reduce": 4_096 * 4 // 8}


def test_3_a_program_is_planned_as_often_as_wanted():
    """ops.py:502, 824: lowering changed the graph and made its variables, so a graph had one layout."""
    program = ml.trace(mlp.step, initial.shapes(mlp.init, SMALL), *mlp.inputs(SMALL))
    before, mesh = str(program.code), ml.mesh(data=2, model=2)
    layouts = ("", "batch:data", "hidden:model", "batch:data hidden:model", "rows:data cols:model")
    first = [program.plan(mesh, layout).to_json() for layout in layouts]
    assert all(program.plan(mesh, layout).check().ok for layout in layouts)
    assert [program.plan(mesh, layout).to_json() for layout in layouts] == first
    assert len(set(first)) == len(layouts)
    assert str(program.code) == before


def test_4_costs_are_bytes_that_a_device_sends_as_often_as_it_does():
    """ops.py:729-732, 2328, 2878, 4048: counters were elements over all processors, bodies of loops once."""
    for n, dtype, size in ((2, ml.f32, 4), (4, ml.f32, 4), (2, ml.i16, 2)):
        plan = checked(lambda x: x.max(B), (dtype[A, B],), "b:p", mesh=ml.mesh(p=n))
        assert sent(plan) == {"all-reduce": 2 * (n - 1) / n * 8 * size}

    def looped(x, w):
        return ml.scan(lambda x, w: (ml.tanh(ml.dot(x, w, B)) * w, None), x, w, "turns")[0]

    plan = checked(looped, (ml.f32[A, B], ml.f32[ml.Dim("turns", 6), A, B]), "b:p", mesh=P2)
    assert [(c.kind, c.times) for c in plan.collectives] == [("all-reduce", 6)]


def test_4_what_is_counted_is_what_happens():
    """ops.py:3644-3661, 4895, 2846, 5150: shifts by nothing counted, top-k not, products and dead gradients did."""
    assert sent(checked(lambda x: ml.top_k(x, A, ml.Dim("best", 2)), (ml.f32[A, B],), "a:p", mesh=P2))
    assert not sent(checked(lambda x: ml.shift(x, A, 8, wrap=True), (ml.f32[A, B],), "a:p", mesh=P2))
    x, w = ml.f32[Batch, Embed], ml.f32[Embed, Ffn]

    def loss(w, x):
        return ml.square(ml.tanh(ml.dot(x, w, Embed))).sum()

    functions = (lambda w, x: loss(w, x * x * x)), jax.grad(loss), (lambda w, x: jax.grad(loss, (0, 1))(w, x)[0])
    forward, backward, half_used = (ml.trace(function, w, x).plan(ml.mesh()).work.amount for function in functions)
    assert (forward, backward, half_used) == (8 * 32 * 64, 2 * 8 * 32 * 64, 2 * 8 * 32 * 64)


def test_5_all_problems_come_at_once_before_anything_runs_and_with_their_lines():
    """ops.py:263-290, 975-979, 1717: one error at a time, when an operation was lowered, without its line."""
    program = ml.trace(lambda x, w: ml.dot(x, w, A), ml.f32[A, B], ml.f32[A, Ffn])
    with pytest.raises(ml.LayoutError) as caught:
        program.plan(ml.mesh(p=2, q=5), "bb:p a:r b:q ffn:q")
    problems = {problem.code: problem for problem in caught.value.problems}
    assert set(problems) == {"unknown_dim", "unknown_axis", "not_divisible", "conflict"}
    assert "test_pitfalls.py:" in str(problems["conflict"].source)
    assert all(str(problem) in str(caught.value) for problem in problems.values())


def test_5_too_few_devices_and_unknown_operations_are_told():
    """ops.py:1717: a message that was itself an error; too few devices were a bare AssertionError."""
    plan = ml.trace(ml.tanh, ml.f32[ml.Dim("long", 1024)]).plan(ml.mesh(p=1024), "long:p")
    with pytest.raises(ml.MeshError, match="1024"):
        plan.run(np.ones(1024, np.float32))

    def unknown(x):
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return ml.tensor(jax.pure_callback(np.cbrt, shape, x.array), *x.dims)

    plan = checked(unknown, (ml.f32[A, B],), "a:p", mesh=P2)
    assert re.search(r"`pure_callback` at .*test_pitfalls.py:\d+.* has no rule", " ".join(warnings(plan)))


def test_6_auto_weighs_what_is_sent_and_proves_it():
    """auto_mtf/layout_optimizer.py:268-274: it knew peak memory alone, and gave no reason."""
    config, mesh = mesh_tf.TwoLayer(256, 64, 64), ml.mesh(r=2, c=2)
    x = ml.f32[config.dims("batch io")]
    program = ml.trace(mesh_tf.train(mesh_tf.two_layer_loss), initial.shapes(mesh_tf.init_two_layer, config), x, x)
    traffic, memory = (ml.auto.layout(program, mesh, objective=objective) for objective in ("traffic", "live"))
    assert (str(traffic.layout), str(memory.layout)) == ("batch:r+c", "batch:r io:c")
    assert traffic.plan.work.share == memory.plan.work.share == 0.25
    assert traffic.plan.wire_bytes < 0.7 * memory.plan.wire_bytes
    least = min(p.plan.wire_bytes for p in priced_layouts(program, mesh) if p.plan.work.share == 0.25)
    assert traffic.proof.bound == least <= traffic.proof.value <= 1.005 * least
    assert (memory.proof.value, memory.proof.gap) == (planned_layouts(program, mesh)[0].value, 0)


def test_7_auto_finds_what_is_legal_and_nothing_else():
    """auto_mtf/layout_optimizer.py:193-266, valid_layouts.py:83-120: renames were out, loops not looked into."""
    renamed = ml.trace(lambda x: ml.square(x.rename(a="c")), ml.f32[ml.Dim("a", 8)])
    choice = ml.auto.layout(renamed, ml.mesh(m1=4), objective="live")
    # There 40 bytes, since a rename's two dims could not lie on one axis.
    assert (str(choice.layout), choice.proof.value) == ("a:m1 c:m1", 16)

    def loop(x, w):
        return ml.scan(lambda x, w: (x * w, ml.slice(x, A, ml.Dim("half", 4)).sum()), x, w, "turns")

    looped = ml.trace(loop, ml.f32[A, B], ml.f32[ml.Dim("turns", 3), A])
    for n, objective in ((2, "traffic"), (3, "traffic"), (3, "live"), (4, "live")):
        assert ml.auto.layout(looped, ml.mesh(p=n), objective=objective).plan.check().ok
    with pytest.raises(ml.LayoutError, match="`a` has size 8, which 3"):
        ml.auto.layout(looped, ml.mesh(p=3)).compare("a:p")
    assert str(ml.auto.layout(mixture(2), P4, objective="live").layout) == "batch:p experts:p"


WINDOW = ml.tensor(np.array([1, 2, 3], np.float32), "window")
# What each works along is split, and so is what it makes of it.
SPLIT = {
    "concat": (lambda x: ml.concat((x, x * 2), A, ml.Dim("both", 16)), "a:p both:p"),
    "split": (lambda x: ml.split(x, A, ml.Dim("part", 2)), "a:p part:p"),
    "stack": (lambda x: ml.stack((x, x * 2), ml.Dim("pair", 2)), "pair:p"),
    "unstack": (lambda x: ml.unstack(x, A), "b:p"),
    "slice": (lambda x: ml.slice(x, A, ml.Dim("part", 4), start=2), "a:p part:p"),
    "pad": (lambda x: ml.pad(x, A, ml.Dim("padded", 16), before=3), "a:p padded:p"),
    "conv": (lambda x: ml.conv(x, WINDOW, {A: "window"}, stride=2, out={A: "half"}), "a:p half:p"),
    "pool": (lambda x: ml.max_pool(x, {A: 2}, out={A: "half"}), "a:p half:p"),
}


@pytest.mark.parametrize(("function", "layout"), SPLIT.values(), ids=SPLIT)
def test_8_operations_take_dims_that_are_split(function, layout):
    """ops.py:2533, 2598, 2665, 2717, 3716, 3761, 2883, 2403: each refused a dim that it worked along."""
    checked(function, (ml.f32[A, B],), "a:p", mesh=P2)
    checked(function, (ml.f32[A, B],), layout, mesh=P2)


def test_9_any_reshape_is_laid_out_and_any_place_has_rules_of_its_own():
    """ops.py:4546-4551: a reshape whose parts did not meet was not implemented; a tensor had no layout of its own."""

    def reshaped(x):
        return ml.tensor(x.array.reshape(6, 4), "c", "d") * 2

    for layout in ("a:p d:p", "b:p c:p", "a:p c:p", "b:p d:p"):
        checked(reshaped, (ml.f32[ml.dims(a=4, b=6)],), layout, mesh=P2)
    plan = checked(ml.tanh, (ml.f32[A, B],), {"a": "p", "out": {"a": None, "b": "p"}}, mesh=P4)
    assert [c.kind for c in plan.collectives] == ["all-to-all"]


def test_10_sizes_need_not_divide_and_a_dim_may_lie_on_several_axes():
    """ops.py:226-290, 975-979: even parts, one axis for a dim. Sizes are known when a program is traced, still."""
    program = ml.trace(lambda x: (ml.softmax(x, "odd"), x.mean()), ml.f32[ml.dims(odd=7, b=12)])
    assert program.plan(ml.mesh(p=2, q=2), "odd:q b:p", pad=True).check().ok
    plan = checked(lambda x: x * 2, (ml.f32[A, B],), "a:p+q", mesh=ml.mesh(p=2, q=2))
    assert [plan.shard("x", device)[0] for device in range(4)] == [(0, 2), (2, 4), (4, 6), (6, 8)]


WEIGHTS = {"gate": (Experts, Embed, Ffn), "up": (Experts, Embed, Ffn), "down": (Experts, Ffn, Embed)}


def layer(choices):
    """A mixture of experts, which tokens found a place, and how unevenly experts are asked."""

    def function(x, logits, weights):
        shares = ml.softmax(logits, Routes)
        placed = moe.places(moe.choose(shares, choices), moe.capacity(Seq.size, Routes.size, choices))
        return moe.sent(x, shares, weights, choices), placed > 0, moe.imbalance(shares)

    return function


@functools.cache
def mixture(choices):
    weights = {name: ml.f32[dims] for name, dims in WEIGHTS.items()}
    return ml.trace(layer(choices), ml.f32[Batch, Seq, Embed], ml.f32[Batch, Seq, Routes], weights)


def mixture_data():
    """Numbers for `mixture`; what experts say has about the size of what they are told."""
    weights = {name: numbers(*dims) * dims[1].size ** -0.5 for name, dims in WEIGHTS.items()}
    return numbers(Batch, Seq, Embed, seed=7), numbers(Batch, Seq, Routes, seed=8), weights


@pytest.mark.parametrize("choices", [2, 1], ids=["top2", "switch"])
def test_11_experts_say_the_same_on_every_mesh(choices):
    """transformer/moe.py:327, 1549: groups were as many as the mesh had processors; on 8 results differed by 1.07."""
    data = mixture_data()
    wanted, placed, balance = jax.jit(layer(choices))(*data)
    # Tokens are dropped, so that groups of other sizes would show.
    assert np.count_nonzero(placed.array) < choices * Batch.size * Seq.size
    program, both = mixture(choices), "batch:p experts:p"
    for n, layout in ((1, "batch:p"), (2, both), (4, both), (4, "ffn:p"), (8, "batch:p"), (8, "batch:p groups:p")):
        result, its_placed, its_balance = program.plan(ml.mesh(p=n), layout).run(*data)
        np.testing.assert_array_equal(its_placed.array, placed.array)
        np.testing.assert_allclose(result.array, wanted.array, rtol=1e-5, atol=2e-6)
        assert float(its_balance) == pytest.approx(float(balance), rel=1e-6)


def test_11_local_attention_is_the_same_on_every_mesh():
    """layers.py:1341: the length of a block was chosen so that it fitted the mesh."""
    dims = ml.dims(batch=2, blocks=8, window=4, heads=2, group=2, head=4)
    data = numbers(*dims), *(numbers(*dims[:4], dims[5], seed=seed) for seed in (1, 2))

    def attended(query, key, value):
        return layers.mix(*gemma.local(query, key, value))

    wanted, program = attended(*data), ml.trace(attended, *data)
    for n in (2, 8):
        result = program.plan(ml.mesh(p=n), "blocks:p").run(*data)
        np.testing.assert_allclose(result.array, wanted.array, rtol=1e-5, atol=1e-6)


def test_11_numbers_are_drawn_and_moved_bit_for_bit():
    """placement_mesh_impl.py:307-325, simd_mesh_impl.py:399-403: seeds depended on slices, all-to-alls rounded."""
    key, x = jax.random.key(3), numbers(A, B)
    drawn = ml.trace(lambda key, x: ml.dropout(key, x, 0.5) + ml.normal(key, A, B), key, x)
    wanted = jax.random.normal(key, (8, 12))
    wanted += np.where(jax.random.bernoulli(key, 0.5, (8, 12)), x.array * 2, 0)
    for n, layout in ((1, ""), (2, "a:p"), (4, "a:p"), (4, "b:p"), (8, "a:p")):
        np.testing.assert_array_equal(drawn.plan(ml.mesh(p=n), layout).run(key, x).array, wanted)
    plan = ml.trace(lambda x: x.rename(a="c", b="d"), x).plan(P4, "a:p d:p")
    assert [(c.kind, c.dtype) for c in plan.collectives] == [("all-to-all", "float32")]
    np.testing.assert_array_equal(plan.run(x).array, x.array)


def test_12_gradients_and_corner_cases_are_numpys():
    """ops.py:2196, 1843, 6319, 2913: gradients' shapes, ties, powers, NaNs behind `where`, sizes of convolutions.

    And optimize.py:127-128, where momentum came a step late: tests/test_parity.py has two steps of each optimizer.
    """
    bias = ml.tensor(np.array([1.0, -1.0, 0.0], np.float32), "b")
    x = ml.tensor(np.array([[1, 1, -1], [0, 2, 0.5]], np.float32), "a", "b")

    def corners(x, bias):
        return {
            "broadcast": jax.grad(lambda bias: ml.maximum(x, bias).sum())(bias),
            "ties": jax.grad(lambda x: (x.max("b") * ml.tensor(jnp.arange(1.0, 3.0), "a")).sum())(x),
            "one of two": jax.grad(lambda x: ml.maximum(x, 1.0).sum())(x),
            "power": x**2,
            "not chosen": ml.where(x > 0, ml.log(x), 0.0),
        }

    for layout in ("a:p", "b:q", "a:p b:q"):
        plan = ml.trace(corners, x, bias).plan(ml.mesh(p=2, q=3), layout)
        assert plan.check(x, bias).ok
        result = {name: np.asarray(tensor.array) for name, tensor in plan.run(x, bias).items()}
        np.testing.assert_array_equal(result["broadcast"], [1.5, 0, 1])
        np.testing.assert_array_equal(result["ties"], [[0.5, 0.5, 0], [0, 2, 0]])
        np.testing.assert_array_equal(result["one of two"], [[0.5, 0.5, 0], [0, 1, 0]])
        np.testing.assert_array_equal(result["power"], [[1, 1, 1], [0, 4, 0.25]])
        np.testing.assert_allclose(result["not chosen"], [[0, 0, 0], [0, np.log(2), np.log(0.5)]], rtol=1e-6)
    odd = ml.Dim("odd", 7)
    assert ml.conv(numbers(odd), WINDOW, {odd: "window"}, stride=2, out={odd: "four"}).shape == (4,)


def test_13_nothing_is_a_product_with_ones_and_zeros():
    """ops.py:5231, 2761, 3683, simd_mesh_impl.py:355-382: lookups, running sums and shifts were products with masks."""

    def largest(function, *arguments):
        return max(int(np.prod(value.shape)) for value in ml.trace(function, *arguments).values)

    Vocab, Long = ml.dims(vocab=1000, long=512)
    table, ids, line = ml.f32[Vocab, Embed], ml.i32[Batch, Seq], ml.f32[Batch, Long]
    assert largest(lambda table, ids: ml.take(table, ids, Vocab), table, ids) == 1000 * 32
    assert largest(lambda x: ml.cumsum(x, Long), line) == 8 * 512
    assert largest(lambda x, n: ml.tensor(jnp.roll(x.array, n, 1), *x.dims), line, ml.i32[()]) <= 2 * 8 * 512
    plan = checked(ml.tanh, (ml.f32[A, B],), {"a": "p", "out": {"a": None}}, mesh=P4)
    assert sent(plan) == {"all-gather": 3 / 4 * 8 * 12 * 4}


def sent_by_index(x, logits, weights) -> ml.Tensor:
    """`moe.sent` without its tensor of ones and zeros: tokens are added at their places, and looked up there."""
    room = moe.capacity(Seq.size, Routes.size, 2)
    Slots = ml.Dim("slots", Routes.size * room.size)
    taken, slots = 0.0, []
    for one, weight in moe.choose(ml.softmax(logits, Routes), 2):
        place = ml.cumsum(one, Seq) - one + taken
        taken = (one * (place < room.size)).sum(Seq) + taken
        place = ml.dot(place, one, Routes).astype(ml.i32)
        slot = ml.argmax(one, Routes) * room.size + ml.minimum(place, room.size - 1)
        slots.append((slot, (place < room.size).astype(ml.f32), weight))

    def there(x, slots):
        result = jnp.zeros((Slots.size, Embed.size))
        for slot, fits, _ in slots:
            result = result.at[slot.array].add((x * fits).array)
        return ml.tensor(result, Slots, Embed)

    here = ml.unmerge(ml.vmap(there, Batch)(x, slots), Slots, (Routes, room)).rename(batch="groups", routes="experts")
    hidden = ml.silu(ml.dot(here, weights["gate"], Embed)) * ml.dot(here, weights["up"], Embed)
    back = ml.dot(hidden, weights["down"], Ffn)
    back = ml.merge(back.rename(groups="batch", experts="routes"), (Routes, room), Slots)
    look = ml.vmap(lambda back, slot: ml.take(back, slot, Slots), Batch)
    first, second = (look(back, slot) * (fits * weight) for slot, fits, weight in slots)
    return first + second


def test_13_tokens_reach_experts_by_index():
    """transformer/moe.py:449-466: tokens were sent by a product with a tensor of [group, token, expert, place]."""
    data = mixture_data()
    program = ml.trace(sent_by_index, *data)
    tall = {"seq", "routes", "capacity"}
    assert any(tall <= set(value.dims) for value in mixture(2).values)
    assert not any(tall <= set(value.dims) for value in program.values)
    plan = program.plan(P4, "batch:p experts:p")
    assert [c.kind for c in plan.collectives] == ["all-to-all"] * 2
    assert plan.check(*data).ok
    np.testing.assert_allclose(plan.run(*data).array, layer(2)(*data)[0].array, rtol=1e-5, atol=2e-6)


def test_14_derivatives_go_through_loops_and_branches_and_nothing_has_to_be_whole():
    """ops.py:5994, 6096, 3897-3936, simd_mesh_impl.py:545-551: none of that; and operations copied for each device."""

    def value(x, w):
        x, _ = ml.scan(lambda x, w: (ml.tanh(ml.dot(x, w, Embed).rename(wide="embed")), None), x, w, "turns")
        return lax.cond(x.sum() > 0, lambda x: ml.square(x).sum(), lambda x: ml.exp(x).sum(), x)

    arguments = ml.f32[Batch, Embed], ml.f32[(ml.Dim("turns", 3), Embed, ml.Dim("wide", 32))]
    plan = checked(jax.value_and_grad(value, (0, 1)), arguments, "batch:p wide:q", mesh=ml.mesh(p=2, q=2))
    assert plan.stored.parts == {"x": 512, "w": 6_144, "out/0": 4, "out/1": 512 + 6_144}
    assert len({len(ml.trace(value, *arguments).plan(ml.mesh(p=n), "batch:p").steps) for n in (2, 8)}) == 1


def test_14_layers_on_an_axis_are_refused_and_not_computed_everywhere():
    """There were no pipelines. There are none here yet: layers may be stored on an axis, and the error says so."""
    weights = ml.f32[ml.Dim("turns", 4), A]
    program = ml.trace(lambda x, w: ml.scan(lambda x, w: (x * w, None), x, w, "turns")[0], ml.f32[A], weights)
    with pytest.raises(ml.LayoutError, match="needs a pipeline schedule"):
        program.plan(P2, "turns:p")
    assert program.plan(P2, {"w": {"turns": "p"}}).check().ok


def test_15_a_plan_is_seen_and_explained():
    """ops.py:5587, 5889: costs were lines in a log, without causes; there was nothing to look at."""
    program = ml.trace(mlp.step, initial.shapes(mlp.init, SMALL), *mlp.inputs(SMALL))
    explorer = ml.explore(program, ml.mesh(data=2, model=2), "batch:data")
    explorer.place("hidden", "model")
    picture, plan = str(explorer.snapshot()._repr_html_()), explorer.plan
    assert all(text in picture for text in (*program.dims, f"{round(plan.wire_bytes):,}"))
    assert len(json.loads(plan.to_json())["collectives"]) == len(plan.collectives) > 1
    for c in plan.collectives:
        texts = (c.because, str(c.source), *(remedy.sentence for remedy in c.remedies))
        assert c.remedies
        assert all(text and text in str(plan.explain()) for text in texts)
        assert "mlp.py:" in str(c.source)


def test_15_every_page_with_code_is_run_by_a_test():
    """README.md:93, "TODO verify that this code works"; issues 26, 78, 152: pages had gone stale."""
    pages = {page.name: page.read_text(encoding="utf-8") for page in (ROOT / "README.md", *ROOT.glob("docs/*.md"))}
    coded = {name for name, text in pages.items() if "```python" in text or ">>> " in text}
    tests = "".join(test.read_text(encoding="utf-8") for test in ROOT.glob("tests/*.py"))
    assert coded >= {"README.md", "architecture.md", "parity.md"}
    assert {name for name in coded if name not in tests} == set()
