"""A function whose layers are a Python loop gives the same with its layers in scans."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from tests.engine.rolling import loops

pytestmark = pytest.mark.share(3, of="file")


def scans(closed: Any) -> list[Any]:
    return [each for each in closed.jaxpr.eqns if each.primitive.name == "scan"]


def worst(actual: Any, wanted: Any) -> float:
    assert jax.tree.structure(actual) == jax.tree.structure(wanted)
    pairs = zip(jax.tree.leaves(actual), jax.tree.leaves(wanted), strict=True)
    return max(float(abs(np.asarray(a) - np.asarray(w)).max()) for a, w in pairs)


@pytest.mark.parametrize("name", loops.LOSSES)
def test_a_train_step_gives_the_same(name):
    loss = loops.LOSSES[name]
    step, args = loops.descent(loss), loops.arguments(loss)
    scanned, stacked = ml.scan_layers(step), ml.stack_layers(args)
    closed = jax.make_jaxpr(scanned)(*stacked)
    # One scan on, and one back; nothing is taken out of a stack, or put together again.
    assert [(each.params["length"], each.params["reverse"]) for each in scans(closed)] == [(4, False), (4, True)]
    assert not {each.primitive.name for each in closed.jaxpr.eqns} & {"slice", "dynamic_slice", "concatenate"}
    assert worst(ml.unstack_layers(jax.jit(scanned)(*stacked)), jax.jit(step)(*args)) < 1e-6
    assert worst(ml.unstack_layers(stacked), args) == 0


def _dropped(key: Any, h: Any) -> Any:
    return jnp.where(jax.random.bernoulli(key, 0.5, h.shape), h / 0.5, 0.0)


def _keys_split_off(key: Any) -> Any:
    for _ in range(loops.COUNT):
        key, own = jax.random.split(key)
        yield own


def _rows(keys: Any) -> Any:
    return (keys[2 * i + 1] for i in range(loops.COUNT))


KEYS = {
    "split at once": lambda key: jax.random.split(key, loops.COUNT),
    "split, the first for the table": lambda key: jax.random.split(key, loops.COUNT + 1)[1:],
    "every second one": lambda key: _rows(jax.random.split(key, 2 * loops.COUNT)),
    "split off one by one": _keys_split_off,
    "folded in": lambda key: (jax.random.fold_in(key, 7 * i % 5) for i in range(loops.COUNT)),
}


@pytest.mark.parametrize("name", KEYS)
def test_each_layer_has_a_key_of_its_own(name):
    def loss(params: Any, x: Any, y: Any) -> Any:
        h = x @ params["w_in"]
        for key, weights in zip(KEYS[name](jax.random.key(3)), params["layers"], strict=True):
            h = h + _dropped(key, jnp.tanh(h @ weights["w"]))
        return jnp.square(h - y).mean()

    _gives_the_same(jax.value_and_grad(loss), _of_a_loss(loss))


def _of_a_loss(loss: Any) -> Any:
    params, _, *batch = loops.arguments(loss)
    return params, *batch


def _gives_the_same(step: Any, args: Any):
    """In one scan on, and one back."""
    scanned, stacked = ml.scan_layers(step), ml.stack_layers(args)
    closed = jax.make_jaxpr(scanned)(*stacked)
    assert [(each.params["length"], each.params["reverse"]) for each in scans(closed)] == [(4, False), (4, True)]
    assert worst(ml.unstack_layers(jax.jit(scanned)(*stacked)), jax.jit(step)(*args)) < 1e-6


def test_each_layer_has_numbers_of_its_own():
    """Forward, backward and in the update: a scale for each layer, and a rate of learning."""

    def loss(params: Any, x: Any, y: Any) -> Any:
        h = x @ params["w_in"]
        for index, weights in enumerate(params["layers"]):
            h = loops.layer(h * (1.0 + 0.1 * index**2), weights)
        return jnp.square(h - y).mean()

    def step(params: Any, x: Any, y: Any) -> Any:
        grads = jax.grad(loss)(params, x, y)
        pairs = enumerate(zip(params["layers"], grads["layers"], strict=True))
        return [jax.tree.map(lambda w, g, rate=0.8**i: w - rate * g, *pair) for i, pair in pairs]

    _gives_the_same(step, _of_a_loss(loss))


def test_results_are_stacked_as_the_arguments_are():
    """Also where each layer is updated by itself, or all of them in a branch; so that a training can carry them."""

    def kept(params: Any, x: Any, y: Any) -> Any:
        value, grads = jax.value_and_grad(loops.over_a_list)(params, x, y)
        new = jax.tree.map(lambda w, g: w - 0.1 * g, params, grads)
        return value, jax.lax.cond(jnp.isfinite(value), lambda: new, lambda: params)

    def each_by_itself(params: Any, x: Any, y: Any) -> Any:
        value, grads = jax.value_and_grad(loops.over_a_list)(params, x, y)
        moved = (lambda w: w - 0.1, lambda w: w * 0.9, jnp.sin, jnp.tanh)
        new = [jax.tree.map(*pair) for pair in zip(moved, params["layers"], strict=True)]
        return value, {"w_in": params["w_in"] - grads["w_in"], "layers": new}

    params, _, *batch = loops.arguments(loops.over_a_list)
    for step in (kept, each_by_itself):
        stacked = ml.stack_layers(params)
        _, new = jax.eval_shape(ml.scan_layers(step), stacked, *batch)
        assert jax.tree.structure(new) == jax.tree.structure(stacked)
        assert [each.shape for each in jax.tree.leaves(new)] == [each.shape for each in jax.tree.leaves(stacked)]


def test_a_call_of_what_was_made_of_each_layer():
    """Optimizers put parts of their update under `jit`: a call then reads moments of all layers, and no argument."""

    def step(params: Any, momentum: Any, x: Any, y: Any) -> Any:
        grads = jax.grad(loops.over_a_list)(params, x, y)
        momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, grads)
        unbiased = jax.jit(lambda moments: jax.tree.map(lambda m: m / 0.1, moments))(momentum)
        return jax.tree.map(lambda w, m: w - 0.1 * m, params, unbiased), momentum

    args = loops.arguments(loops.over_a_list)
    scanned, stacked = ml.scan_layers(step), ml.stack_layers(args)
    closed = jax.make_jaxpr(scanned)(*stacked)
    assert not {each.primitive.name for each in closed.jaxpr.eqns} & {"slice", "dynamic_slice", "concatenate"}
    assert worst(ml.unstack_layers(jax.jit(scanned)(*stacked)), jax.jit(step)(*args)) < 1e-6


def test_a_rule_for_derivatives_is_kept():
    """Each layer calls a function with such a rule of as many values made alike as there are layers."""

    @jax.custom_vjp
    def rounded(*parts: Any) -> Any:
        return jnp.round(4 * sum(parts)) / 4

    rounded.defvjp(lambda *parts: (rounded(*parts), len(parts)), lambda count, cotangent: (cotangent,) * count)

    def loss(params: Any, x: Any, y: Any) -> Any:
        h = x
        for weights in params["layers"]:
            h = h + rounded(*(h @ (part * weights["w"]) for part in (0.1, 0.2, 0.3, 0.4)))
        return jnp.square(h - y).mean()

    params, _, x, y = loops.arguments(loops.over_a_list)
    grads = jax.grad(ml.scan_layers(loss))(ml.stack_layers(params), x, y)
    wanted = jax.grad(loss)(params, x, y)
    assert float(abs(wanted["layers"][0]["w"]).max()) > 0.01
    assert worst(ml.unstack_layers(grads), wanted) < 1e-6


def _scaled_back(factor: float, kind: str) -> Any:
    """The same number, and that many times its gradient, by a rule of its own."""
    if kind == "jvp":
        same = jax.custom_jvp(lambda x: 1.0 * x)
        same.defjvp(lambda values, tangents: (1.0 * values[0], factor * tangents[0]))
    else:
        same = jax.custom_vjp(lambda x: 1.0 * x)
        same.defvjp(lambda x: (1.0 * x, None), lambda _, cotangent: (jnp.asarray(np.float32(factor)) * cotangent,))
    return same


@pytest.mark.parametrize("around", [lambda f: f, jax.jit, jax.checkpoint], ids=["alone", "jit", "checkpoint"])
@pytest.mark.parametrize("kind", ["jvp", "vjp"])
def test_rules_for_derivatives_are_told_apart(kind, around):
    """They are of the same name, and compute the same forward."""

    def loss_of(factors: Any) -> Any:
        rules = [around(_scaled_back(factor, kind)) for factor in factors]

        def loss(params: Any, x: Any, y: Any) -> Any:
            h = x
            for weights, rule in zip(params["layers"], rules, strict=True):
                h = h + rule(h @ weights["w"])
            return jnp.square(h - y).mean()

        return loss

    params, _, *batch = loops.arguments(loops.over_a_list)
    equal = jax.make_jaxpr(ml.scan_layers(loss_of([0.5] * loops.COUNT)))(ml.stack_layers(params), *batch)
    assert len(scans(equal)) == 1
    with pytest.raises(ml.TraceError, match="they must all compute the same"):
        jax.make_jaxpr(ml.scan_layers(loss_of([0.5, 0.5, 0.25, 0.5])))(ml.stack_layers(params), *batch)


def test_constants_of_the_same_contents_are_one():
    """Each layer makes the mask anew, by NumPy."""

    def masked(params: Any, x: Any, y: Any) -> Any:
        h = x @ params["w_in"]
        for weights in params["layers"]:
            mask = np.tril(np.ones((loops.WIDTH, loops.WIDTH), np.float32))
            h = loops.layer(h, {**weights, "w": weights["w"] * mask})
        return jnp.square(h - y).mean()

    args = loops.arguments(masked)
    closed = jax.make_jaxpr(ml.scan_layers(loops.descent(masked)))(*ml.stack_layers(args))
    assert [(each.params["length"], each.params["reverse"]) for each in scans(closed)] == [(4, False), (4, True)]


def test_a_forward_pass_alone():
    params, _, *batch = loops.arguments(loops.over_a_list)
    scanned = ml.scan_layers(loops.over_a_list)
    (scan,) = scans(jax.make_jaxpr(scanned)(ml.stack_layers(params), *batch))
    assert not scan.params["reverse"]
    assert float(scanned(ml.stack_layers(params), *batch)) == pytest.approx(float(loops.over_a_list(params, *batch)))


def test_the_program_is_as_long_whatever_the_number_of_layers():
    def length(count: int) -> int:
        args = ml.stack_layers(loops.arguments(loops.over_a_list, count))
        return len(jax.make_jaxpr(ml.scan_layers(loops.descent(loops.over_a_list)))(*args).jaxpr.eqns)

    assert length(3) == length(12)


def test_layers_have_a_dim_and_keep_their_lines():
    step, args = loops.descent(loops.over_a_list), ml.stack_layers(loops.named(loops.over_a_list))
    program = ml.trace(ml.scan_layers(step), *args)
    assert program.dims["layers"] == loops.COUNT
    places = [argument.place for argument in program.arguments]
    assert places[:3] == ["params/layers/b", "params/layers/w", "params/w_in"]
    found = [op for op in program.code.block.operations if op.name == "scan"]
    assert all(str(op.source).startswith("loops.py:") for op in found)
    (tanh,) = (op for op in found[0].blocks[0].operations if op.name == "tanh")
    assert tanh.source is not None
    assert "jnp.tanh" in tanh.source.code


def test_layers_that_are_not_alike():
    def other(params: Any, x: Any, y: Any) -> Any:
        h = x @ params["w_in"]
        for index, weights in enumerate(params["layers"]):
            h = loops.layer(h, weights) if index != 2 else jnp.sin(h @ weights["w"])
        return jnp.square(h - y).mean()

    def turned(params: Any, x: Any, y: Any) -> Any:
        """The same operations on the same shapes, with other parameters."""
        h = x @ params["w_in"]
        for index, weights in enumerate(params["layers"]):
            h = loops.layer(jnp.cumsum(h, axis=1 if index == 2 else 0), weights)
        return jnp.square(h - y).mean()

    params, _, *batch = loops.arguments(other)
    with pytest.raises(ml.TraceError, match="The layers of `turned` cannot become a scan"):
        ml.scan_layers(turned)(ml.stack_layers(params), *batch)
    with pytest.raises(
        ml.TraceError, match="The layers of `other` cannot become a scan: they must all compute the same"
    ):
        ml.scan_layers(other)(ml.stack_layers(params), *batch)
    with pytest.raises(
        ml.TraceError,
        match=r"from one to the next\. `dot_general` at loops\.py:\d+ reads the weights of one layer alone",
    ):
        ml.scan_layers(_first_twice)(ml.stack_layers(params), *batch)
    with pytest.raises(ml.TraceError, match=re.escape("was given no stacked layers: give it ml.stack_layers(params)")):
        ml.scan_layers(other)(params, *batch)


UPDATES = {
    "numbers alone": lambda x, index: 0.1 * index,
    "halves": lambda x, index: jax.lax.split(x[:, 0], (4, 4))[index % 2],
    "functions": lambda x, index: (jnp.sin, jnp.cos)[index % 2](x[0]),
    "numbers": lambda x, index: x[0] * (2.0 + index),
}


@pytest.mark.parametrize("name", UPDATES)
def test_what_updates_of_layers_read_is_told_apart(name):
    """It is made alike for each layer, but for one thing."""

    def step(params: Any, x: Any, y: Any) -> Any:
        grads = jax.grad(loops.over_a_list)(params, x, y)
        pairs = enumerate(params["layers"])
        return {**params, "layers": [{**w, "b": w["b"] - UPDATES[name](x, index)} for index, w in pairs]}, grads

    params, _, *batch = loops.arguments(step)
    results = ml.scan_layers(step)(ml.stack_layers(params), *batch)
    assert worst(ml.unstack_layers(results), step(params, *batch)) < 1e-6


def test_what_the_last_layer_does_not_print():
    def loss(params: Any, x: Any, y: Any) -> Any:
        h = x @ params["w_in"]
        for index, weights in enumerate(params["layers"]):
            h = loops.layer(h, weights)
            if index < loops.COUNT - 1:
                jax.debug.print("{}", h[0, 0])
        return jnp.square(h - y).mean()

    with pytest.raises(ml.TraceError, match="cannot become a scan"):
        jax.make_jaxpr(ml.scan_layers(loss))(*ml.stack_layers(_of_a_loss(loss)))


def test_layers_that_read_what_the_first_one_begins_with():
    """Gradients of the first layer's input are added to those of the others one by one: it adds in another order."""

    def shared(params: Any, x: Any, y: Any) -> Any:
        h = start = x @ params["w_in"]
        for weights in params["layers"]:
            h = loops.layer(h, weights) + start
        return jnp.square(h - y).mean()

    args = loops.arguments(shared)
    with pytest.raises(ml.TraceError, match=r"`dot_general` at loops\.py:\d+ reads the weights of one layer alone"):
        ml.scan_layers(loops.descent(shared))(*ml.stack_layers(args))


def test_layers_that_are_passed_twice():
    """Each pass is a scan on, and one back."""

    def twice(params: Any, x: Any, y: Any) -> Any:
        h = x @ params["w_in"]
        for weights in (*params["layers"], *params["layers"]):
            h = loops.layer(h, weights)
        return jnp.square(h - y).mean()

    step, args = loops.descent(twice), loops.arguments(twice)
    scanned, stacked = ml.scan_layers(step), ml.stack_layers(args)
    closed = jax.make_jaxpr(scanned)(*stacked)
    both = [(4, False), (4, False), (4, True), (4, True)]
    assert [(each.params["length"], each.params["reverse"]) for each in scans(closed)] == both
    assert not {each.primitive.name for each in closed.jaxpr.eqns} & {"slice", "dynamic_slice", "concatenate"}
    assert worst(ml.unstack_layers(jax.jit(scanned)(*stacked)), jax.jit(step)(*args)) < 1e-6


def _first_twice(params: Any, x: Any, y: Any) -> Any:
    """The layers are a scan, and then the first of them comes again."""
    return loops.over_a_list(params, loops.layer(x, params["layers"][1]), y)


@pytest.mark.parametrize("name", ["over_a_list", "without_table", "balanced", "crossed", "crossed_rematerialised"])
def test_a_pipeline_of_them_gives_the_plain_step(name):
    loss = loops.LOSSES[name]
    step = loops.descent(loss)
    with jax.enable_x64(True):
        program = ml.trace(ml.scan_layers(step), *ml.stack_layers(loops.named(loss, dtype=np.float64)))
        plan = program.plan(ml.mesh(data=2, pipe=ml.stages(4), micro=ml.serial(4)), "batch:data+micro layers:pipe")
        report = plan.check()
        assert report.ok, report
        assert max(error for _, error, _ in report.errors) < 1e-12
        args = loops.arguments(loss, dtype=np.float64)
        results = ml.unstack_layers(plan.run(*ml.stack_layers(args)))
        assert worst(results, jax.jit(step)(*args)) < 1e-12
    # Each stage has its own layers alone, of parameters and momentum.
    for place in ("params/layers/w", "momentum/layers/w"):
        assert [plan.shard(place, device)[0] for device in range(4)] == [(0, 1), (1, 2), (2, 3), (3, 4)]
