"""Compute rules by scope: paths, legality, crossings, merging; and what they are for."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from meshlab.engine.errors import LayoutError
from meshlab.engine.legality.examine import refusals, resolve
from meshlab.engine.passes.normalize import normalize
from meshlab.engine.programs.scoped import scoped, scopes
from meshlab.engine.specs.layout import Layout
from meshlab.engine.specs.scopes import matches, path, rules_in
from meshlab.engine.verifying.random_layouts import draw
from meshlab.models.zoo import imported_models
from tests.engine.small_programs import moved

Batch, Seq, Heads, Head, Embed, Ffn, Layers = ml.dims(batch=4, seq=16, heads=8, head=4, embed=32, ffn=16, layers=2)
MESH = ml.mesh(data=2, model=4)
ULYSSES = {"batch": "data", "seq": "model", "@core": {"seq": None, "heads": "model"}}


def block(x, weights):
    with jax.named_scope("attention"):
        query, key, value = (ml.dot(x, weights[name], "embed") for name in ("query", "key", "value"))
        with jax.named_scope("core"):
            key, value = key.rename(seq="kv"), value.rename(seq="kv")
            mixture = ml.dot(ml.softmax(ml.dot(query, key, "head"), "kv"), value, "kv")
        x = x + ml.dot(mixture, weights["output"], "heads", "head")
    with jax.named_scope("ffn"):
        return x + ml.dot(ml.relu(ml.dot(x, weights["up"], "embed")), weights["down"], "ffn")


def training(rematerialised=False, scanned=False, stepped=True):
    """A step over two layers: each rematerialised or not, scanned or one after the other."""
    layer = ml.checkpoint(block) if rematerialised else block

    def loss(params, x):
        if scanned:
            x, _ = ml.scan(lambda carry, weights: (layer(carry, weights), None), x, params, Layers)
        else:
            for number, weights in enumerate(params):
                with jax.named_scope(f"layer_{number}"):
                    x = layer(x, weights)
        return (x * x).mean()

    def step(params, x):
        value, grads = jax.value_and_grad(loss)(params, x)
        return value, jax.tree.map(lambda w, g: w - 0.1 * g, params, grads)

    def weights(*lead):
        square, wide = ml.f32[(*lead, Embed, Heads, Head)], ml.f32[(*lead, Heads, Head, Embed)]
        ffn = {"up": ml.f32[(*lead, Embed, Ffn)], "down": ml.f32[(*lead, Ffn, Embed)]}
        return {"query": square, "key": square, "value": square, "output": wide, **ffn}

    params = weights(Layers) if scanned else [weights(), weights()]
    return ml.trace(step if stepped else loss, params, ml.f32[Batch, Seq, Embed])


UNROLLED = training()


def count(plan, kind):
    return sum(c.times for c in plan.collectives if c.kind == kind)


def problems(layout, program=UNROLLED, mesh=MESH):
    with pytest.raises(LayoutError) as caught:
        program.plan(mesh, layout)
    assert all(str(p) in str(caught.value) for p in caught.value.problems)
    return {p.code: p for p in caught.value.problems}


@pytest.mark.parametrize(
    ("glob", "scope", "expected"),
    [
        ("@core", "layer_0/attention/core", True),
        ("@attention", "layer_0/attention/core", True),
        ("@attention/core", "layer_0/attention/core", True),
        ("@layer_*/attention", "net/layer_0/attention", True),
        ("@net/*/core", "net/layer_0/attention/core", True),
        ("@cor", "core", False),
        ("@core", "score", False),
        ("@attention/core", "attention/x/core", False),
        ("@core", "", False),
    ],
)
def test_a_glob_matches_a_run_of_whole_names(glob, scope, expected):
    assert matches(glob, tuple(filter(None, scope.split("/")))) is expected


def test_of_several_globs_the_last_counts_dim_by_dim():
    rules = [("@a", {"x": ("data",), "y": ()}), ("@b", {"x": ("model",)})]
    assert rules_in(("a", "b"), {"y": ("data",), "z": ("data",)}, rules) == {"x": ("model",), "y": (), "z": ("data",)}
    assert rules_in((), {"y": ("data",)}, rules) == {"y": ("data",)}


def test_scopes_reach_through_grad_scan_checkpoint_and_jit():
    assert [path(s) for s in scopes(UNROLLED)][:4] == [
        "layer_0/attention",
        "layer_0/attention/core",
        "layer_0/ffn",
        "layer_1/attention",
    ]
    for rematerialised in (False, True):
        program = training(rematerialised, scanned=True)
        assert set(map(path, scopes(program))) == {"attention", "attention/core", "ffn"}
        backward = {op.scope for op in program.makers.values() if op.backward and op.name == "dot_general"}
        assert backward == {("attention",), ("attention", "core"), ("ffn",)}
        assert not any(op.scope for op in program.makers.values() if op.name == "add_any")

    @jax.jit
    def called(x):
        with jax.named_scope("inner"):
            return jnp.sin(x)

    def outside(x):
        with jax.named_scope("outer"):
            return called(x) + jax.vmap(called)(x)

    assert ("outer", "inner") in scopes(ml.trace(outside, jax.ShapeDtypeStruct((4, 4), jnp.float32)))


@pytest.mark.parametrize("rematerialised", [False, True])
def test_a_scope_whose_name_is_a_path_is_that_path_forward_and_backward(rematerialised):
    def net(w, x):
        with jax.named_scope("block/core"):
            x = jnp.tanh(x @ w)
            with jax.named_scope("inner"):
                return jnp.square(x @ w).sum()

    net = jax.checkpoint(net) if rematerialised else net
    array = ml.named(jax.ShapeDtypeStruct((8, 8), jnp.float32), "batch embed")
    program = ml.trace(jax.grad(net), ml.named(jax.ShapeDtypeStruct((8, 8), jnp.float32), "embed _"), array)
    assert set(program.scopes) == {"@block/core", "@block/core/inner"}
    backward = {op.scope for op in program.makers.values() if op.backward and op.name == "dot_general"}
    assert backward == {("block", "core"), ("block", "core", "inner")}
    assert program.plan(ml.mesh(data=2), {"@block/core": {"batch": "data"}}).check().ok


def test_what_rematerialisation_repeats_counts_once():
    def net(x, w):
        with jax.named_scope("net"), jax.named_scope("layer_0"):
            return jax.checkpoint(lambda x: jnp.sin(x @ w))(x).sum()

    program = ml.trace(jax.grad(net), *[jax.ShapeDtypeStruct((4, 4), jnp.float32)] * 2)
    assert set(scopes(program)) == {("net", "layer_0")}


def test_modules_of_flax_are_scopes():
    (model,) = (model for model in imported_models() if "linen" in model.name)
    names = {name for scope in scopes(model.trace()) for name in scope}
    assert {"Encoder", "Layer_0"} <= names


@pytest.mark.share(3)
@pytest.mark.parametrize("scanned", [False, True], ids=["unrolled", "scanned"])
@pytest.mark.parametrize(("rematerialised", "each"), [(False, 8), (True, 12)], ids=["kept", "rematerialised"])
def test_ulysses_is_eight_all_to_alls_a_layer_and_no_gather(scanned, rematerialised, each):
    plan = training(rematerialised, scanned).plan(MESH, ULYSSES)
    assert count(plan, "all-to-all") == 2 * each
    assert {c.kind for c in plan.collectives} == {"all-to-all", "all-reduce"}
    shard = 4 * Batch.size // 2 * Seq.size // 4 * Heads.size * Head.size
    assert {c.payload_bytes for c in plan.collectives if c.kind == "all-to-all"} == {shard}
    assert all("`@core`" in c.because for c in plan.collectives if c.kind == "all-to-all")
    report = plan.check()
    assert report.ok, report


def test_two_equal_operations_in_two_scopes_obey_each_its_own_rule():
    def net(x, w):
        with jax.named_scope("a"):
            y = ml.dot(x, w, "embed")
        with jax.named_scope("b"):
            z = ml.dot(x, w, "embed")
        return y, z

    program = ml.trace(net, ml.f32[Batch, Embed], ml.f32[Embed, Ffn])
    mesh = ml.mesh(x=4)
    plain = program.plan(mesh, "batch:x")
    assert len(plain.program.code.block.operations) == 1

    plan = program.plan(mesh, {"batch": "x", "@a": {"ffn": "x", "batch": None}, "out/0": {"ffn": "x", "batch": None}})
    specs = {op.scope: plan.producer_specs[op.outputs[0]] for op in plan.program.code.block.operations}
    assert specs[("a",)].splits == ((), ("x",))
    assert specs[("b",)].splits == (("x",), ())
    assert plan.check().ok
    # Rules that do not tell them apart leave them one; and so do mesh axes of size 1.
    for layout, on in [
        ({"@a": {"ffn": "x"}, "@b": {"ffn": "x"}}, mesh),
        ({"batch": "x", "@a": {"batch": "y"}, "@b": {"batch": None}}, ml.mesh(x=1, y=1)),
    ]:
        assert len(program.plan(on, layout).program.code.block.operations) == 1
    # Moving a dim to another axis finds the same program again.
    both = ml.mesh(x=2, y=2)
    first, second = (scoped(program, both, Layout.of({"@a": {"ffn": axis}})) for axis in ("x", "y"))
    assert first is second
    assert first is not program


def test_code_is_merged_as_its_rules_by_scope_say_though_most_of_it_is_shared():
    def net(x, w, start):
        """Equal sums of sums, loops and operations in two scopes, beside others."""
        results = []
        for name in "abc":
            with jax.named_scope(name):
                y = ml.dot(x, w if name != "c" else w * 2.0, "embed")
                total, _ = ml.scan(lambda carry, row: (carry + row, None), start, w, Embed)
                results.append((y, total))
        with jax.named_scope("sums"):
            return results, x.sum("batch").sum("embed")

    def written(block):
        inputs = ([v if isinstance(v, int) else float(v.value) for v in each.inputs] for each in block.operations)
        made = ((each.name, each.outputs, *map(written, each.blocks)) for each in block.operations)
        return list(zip(inputs, made, strict=True))

    program = ml.trace(net, ml.f32[Batch, Embed], ml.f32[Embed, Ffn], ml.f32[Ffn])
    cases = [(traced, *case) for traced in (program, UNROLLED) for case in draw(traced, seed=5, count=30)]
    cases.append((program, ml.mesh(x=2), Layout.of({"@sums": {"batch": "x"}})))
    shared = []
    for traced, mesh, layout in cases:
        seen = scoped(traced, mesh, layout)
        if seen is not traced:
            own = normalize(seen.unmerged, seen.merge_names, seen.scope_class)
            assert written(seen.code.block) == written(own.block), layout
            shared.append(seen.code is traced.code)
    assert min(shared.count(True), shared.count(False)) > 2


def test_layers_with_rules_of_their_own_are_planned_each_for_itself():
    plan = UNROLLED.plan(MESH, {"batch": "data", "ffn": "model", "@layer_1": {"ffn": None}})
    # One all-reduce of the first layer, forward and backward; the second gathers its weights.
    kinds = [(c.kind, c.value) for c in plan.collectives if c.axes == ("model",)]
    assert [kind for kind, _ in kinds] == ["all-reduce", "all-gather", "all-gather", "all-reduce"]
    assert [value for kind, value in kinds if kind == "all-gather"] == ["params/1/up", "params/1/down"]
    assert plan.check().ok


def test_a_partial_sum_that_leaves_its_scope_is_scattered_to_its_readers():
    Users = ml.Dim("users", 64)

    def loss(table, weights, ids):
        with jax.named_scope("lookup"):
            rows = ml.take(table, ids, "users")
        return ml.square(ml.dot(rows, weights, "embed")).mean()

    def step(table, weights, ids):
        grads = jax.grad(loss, (0, 1))(table, weights, ids)
        return table - 0.1 * grads[0], weights - 0.1 * grads[1]

    program = ml.trace(step, ml.f32[Users, Embed], ml.f32[Embed, Ffn], ml.i32[Batch])
    plan = program.plan(ml.mesh(data=4), {"batch": "data", "users": "data", "@lookup": {"batch": None}})
    row = 4 * Embed.size
    assert moved(plan)[:3] == [
        ("all-gather", ("data",), 4 * Batch.size // 4, 1),  # ids
        ("reduce-scatter", ("data",), row * Batch.size, 1),  # rows
        ("all-gather", ("data",), row * Batch.size // 4, 1),  # their gradients
    ]
    assert [c.kind for c in plan.collectives[3:]] == ["all-reduce"]  # of the weights
    assert "looked up in `@lookup`" in plan.collectives[1].because
    assert plan.check().ok


def test_target_specs_stop_where_the_rules_change():
    # The parameters are stored split by `embed`; the optimizer runs split by `layers`.
    def step(params, momentum, grads):
        with jax.named_scope("optimizer"):
            momentum = momentum * 0.9 + grads.sum("batch")
            update = momentum * 0.1
        return params - update, momentum

    weights = ml.f32[Layers, Embed]
    carry = {"params": 0, "momentum": 1}
    program = ml.trace(step, weights, weights, ml.f32[Batch, Layers, Embed], carry=carry)
    layout = {
        "batch": "x",
        "params": {"embed": "x"},
        "momentum": {"layers": "x"},
        "@optimizer": {"layers": "x", "batch": None},
    }
    mesh = ml.mesh(x=2)
    plan = program.plan(mesh, layout)
    assert [kind for kind, *_ in moved(plan)] == ["all-to-all", "all-to-all"]
    assert plan.check().ok


def test_one_error_lists_all_problems_of_scopes():
    layout = {"@cor": {"heads": "model"}, "@core": {"heads": "modle", "hades": "data"}, "@ffn": {"heads": "data"}}
    found = problems(layout)
    assert set(found) == {"unknown_scope", "unknown_axis", "unknown_dim", "unused_dim"}
    assert str(found["unknown_scope"]) == "`@cor` matches no scope of this program. Did you mean `@core`?"
    assert found["unknown_axis"].text == "In `@core`: `heads:modle`: the mesh has no axis `modle`."
    assert found["unused_dim"].text == "In `@ffn`: no operation there has the dim `heads`."
    assert "`embed`" in found["unused_dim"].fix
    far = problems({"@zebra": {"heads": "model"}})["unknown_scope"]
    assert "Its scopes are `@layer_0`, `@attention`, `@core`" in far.fix
    resolve(UNROLLED, MESH, {"@zebra?": {"heads": "model"}})
    plain = ml.trace(lambda x: x * 2, ml.f32[Batch])
    assert "The function opens no scopes" in problems({"@core": {"batch": "data"}}, plain)["unknown_scope"].fix
    uneven = problems({"@core": {"heads": "data+model"}}, mesh=ml.mesh(data=3, model=4))["not_divisible"]
    assert uneven.text.startswith("In `@core`: `heads` has size 8, which 12")


def test_a_refusal_names_the_scope_and_what_is_legal_there():
    found = problems({"seq": "model", "heads": "model"})["conflict"]
    assert "both are dims of `dot_general` at test_scopes.py" in found.text
    assert "in `@layer_0/attention" in found.text
    assert 'only there with {"@' in found.fix
    # What conflicts in one scope is legal where that scope has other rules.
    assert resolve(UNROLLED, MESH, ULYSSES).scopes
    inside = problems(ULYSSES | {"@core": {"heads": "model"}})["conflict"]
    assert "`heads`" in inside.text
    assert "`seq`" in inside.text


def test_zones_are_judged_in_each_scope():
    free = refusals(UNROLLED, MESH, {"heads": "model", "@attention": {"heads": None}})
    assert free["seq"]["model"] is None
    assert refusals(UNROLLED, MESH, {"heads": "model"})["seq"]["model"] is not None
    taken = refusals(UNROLLED, MESH, {"@core": {"heads": "model"}})
    assert taken["seq"]["model"] is not None
    # Queries and keys may meet on an axis: a ring.
    assert refusals(UNROLLED, MESH, {"@core": {"kv": "model"}})["seq"]["model"] is None


def test_the_dim_of_a_scan_may_be_on_an_axis_in_a_scope_that_does_not_scan():
    program = training(scanned=True)
    with pytest.raises(LayoutError, match="needs a pipeline schedule"):
        program.plan(MESH, {"layers": "data"})

    def step(params, x):
        out, _ = ml.scan(lambda carry, w: (ml.dot(carry, w, "embed").rename(ffn="embed"), None), x, params, Layers)
        with jax.named_scope("update"):
            new = params * 0.9
        return out, new

    Same = ml.Dim("ffn", Embed.size)
    program = ml.trace(step, ml.f32[Layers, Embed, Same], ml.f32[Batch, Embed])
    plan = program.plan(ml.mesh(x=2), {"@update": {"layers": "x"}, "out/1": {"layers": "x"}})
    assert plan.check().ok


def test_padding_counts_the_rules_of_scopes():
    program = ml.trace(lambda x: jax.named_scope("s")(lambda y: y * 2)(x), ml.f32[ml.Dim("odd", 6)])
    mesh = ml.mesh(x=4)
    assert "In `@s`: `odd` has size 6" in problems({"@s": {"odd": "x"}}, program, mesh)["not_divisible"].text
    plan = program.plan(mesh, {"@s": {"odd": "x"}}, pad=True)
    assert plan.grid.padded == {6: 8}
    assert plan.check().ok


def test_a_glob_of_every_scope_is_refused_with_what_to_write():
    every = UNROLLED.plan(MESH, {"batch": "data", "@core": {"heads": "model"}}).program
    for glob in ("@*", "@**", "@*/*", "@?*"):
        problem = problems({glob: {"batch": "data", "seq": None}}, every)["unknown_scope"]
        assert "names no scope" in problem.text
        assert 'Write {"batch": "data", "seq": None} for all of the program. Name one' in problem.fix
        assert "`@core`" in problem.fix
    scopeless = ml.trace(lambda x: x * 2, ml.f32[Batch])
    assert (
        "opens no scopes. Open one with jax.named_scope"
        in problems({"@*": {"batch": "data"}}, scopeless)["unknown_scope"].fix
    )
    (name,) = re.findall(r"Did you mean (.*)\?", problems({"@coer": {"batch": "data"}}, every)["unknown_scope"].fix)
    assert name.count("`@core`") == 1


def test_a_remedy_takes_a_dim_off_in_its_scope():
    plan = UNROLLED.plan(MESH, {"batch": "data", "@ffn": {"ffn": "model"}})
    (change,) = {c.remedies[0] for c in plan.collectives if c.axes == ("model",) and c.kind == "all-reduce"}
    assert change.applied(plan.layout).to_dict() == {"batch": "data", "@ffn": {"ffn": None}}


def test_results_do_not_depend_on_scopes():
    program = training(scanned=True, stepped=False)
    rng = np.random.default_rng(0)
    params = jax.tree.map(
        lambda t: ml.tensor(jnp.asarray(rng.normal(size=t.array.shape) * 0.2, jnp.float32), *t.dims),
        jax.tree.unflatten(program.structure, program.templates)[0],
        is_leaf=lambda leaf: isinstance(leaf, ml.Tensor),
    )
    x = ml.tensor(jnp.asarray(rng.normal(size=(4, 16, 32)), jnp.float32), Batch, Seq, Embed)
    plain = program.plan(MESH).run(params, x)
    assert np.allclose(program.plan(MESH, ULYSSES).run(params, x), plain, rtol=1e-5)


def test_a_program_lists_its_scopes_as_layouts_write_them():
    assert {"@layer_0/attention", "@layer_0/attention/core", "@layer_1/ffn"} <= set(UNROLLED.scopes)
    for scope in UNROLLED.scopes:
        assert UNROLLED.plan(MESH, {scope: {"batch": "data"}})
    assert ml.trace(lambda x: x + 1, ml.f32[Batch,]).scopes == ()
