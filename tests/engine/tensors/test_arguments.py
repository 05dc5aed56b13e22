"""What a function may not do with its arguments: change them, or ask a traced one for a flag or a size."""

import functools

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml

X = ml.named(jax.ShapeDtypeStruct((8, 16), jnp.float32), "a b")


def refused(fn, *arguments):
    """The message with which a function is refused."""
    with pytest.raises(ml.TraceError) as caught:
        ml.trace(fn, *arguments)
    return str(caught.value)


# Arguments that are changed


def updates(params, x):
    params["w"] = params["w"] - 0.1 * x
    return x.sum()


def adds(params, x):
    params["b"] = {"c": params.pop("w") + x}
    return x.sum()


def keeps(params, x):
    params["w"], w = None, params["w"]
    params["w"] = w
    return (w * x).sum()


def test_what_changes_its_arguments_is_refused_with_their_places():
    message = refused(updates, {"w": X, "b": X}, X)
    assert "`updates` modifies its arguments and does not return them, at `params/w`. meshlab traces pure" in message
    assert "return the changed values" in message
    assert "at `params/b/c`. " in refused(adds, {"w": X}, X)
    assert "at `params/w`. " in refused(lambda params: params.update(w=1.0), {"w": X})
    tensors = {"w": ml.f32[ml.Dim("a", 4)]}
    assert "at `params/w`. " in refused(lambda params: params.update(w=params["w"] * 2.0), tensors)
    assert ml.trace(keeps, {"w": X}, X).outputs == ("out",)
    assert ml.trace(lambda params: params.pop("w") * 2.0, {"w": X}).outputs == ("out",)


def changed(how, returned):
    """A function that changes its argument as `how` does, and returns what `returned` finds in it."""

    def fn(p):
        how(p)
        return returned(p)

    return fn


@pytest.mark.parametrize(
    ("how", "returned", "place"),
    [
        (lambda p: p.update(new=p["w"]), lambda p: p["w"], "p/new"),
        (lambda p: p.update(new=3), lambda p: p["w"], "p/new"),
        (lambda p: p.pop("w"), lambda p: p["rows"][0], "p/w"),
        (lambda p: p.clear(), lambda p: jnp.float32(1), "p/rows/0`, `p/w"),
        (lambda p: p["rows"].append(p["rows"][0]), lambda p: p["rows"][0], "p/rows/1"),
        (lambda p: p["rows"].append(p["w"]), lambda p: (p["w"], *p["rows"]), "p/rows/1"),
    ],
)
def test_what_is_added_to_its_arguments_or_taken_out_is_refused(how, returned, place):
    assert f"at `{place}`. " in refused(changed(how, returned), {"w": X, "rows": [X]})


@pytest.mark.parametrize(
    ("how", "returned"),
    [
        (lambda p: p.update(new=p["w"]), lambda p: p),
        (lambda p: p.pop("w"), lambda p: {"rest": p}),
        (lambda p: p["rows"].append(p["w"]), lambda p: (p["rows"], p["w"])),
        (lambda p: p.update(new=p["w"] * 2.0), lambda p: p["new"]),
        (lambda p: dict(p).pop("w"), lambda p: p["w"]),
    ],
)
def test_what_is_added_or_taken_out_and_returned_is_not_lost(how, returned):
    assert ml.trace(changed(how, returned), {"w": X, "rows": [X]}).outputs


def test_a_tree_without_an_end_is_refused():
    ring, deep = [], []
    ring.append({"again": (ring,)})
    for _ in range(5_000):
        deep = [deep]
    program = ml.trace(lambda x: x, X)
    for tree in (ring, deep):
        assert "`x` has no end: it contains itself, or is nested" in refused(lambda x: x, tree)
        assert "`out` has no end" in refused(lambda x, tree=tree: tree, X)
        with pytest.raises(ml.TraceError, match="`x` has no end"):
            program.plan(ml.mesh(data=2)).run(tree)
    twice = [X]
    assert ml.trace(lambda x: x, [twice, twice]).outputs == ("out/0/0", "out/1/0")


def test_what_is_changed_and_returned_is_not_lost():
    def step(params, x):
        loss = updates(params, x)
        return params, loss

    def lost(params, x):
        first = params["w"]
        updates(params, x)
        updates(params, x)
        return first, params["w"] - 0.1 * x

    for fn in (step, jax.jit(step)):
        assert ml.trace(fn, {"w": X}, X).carry == {"params": 0}
    assert "at `params/w`. " in refused(lost, {"w": X}, X)


def test_a_module_that_is_updated_in_place_is_refused():
    nnx, optax = pytest.importorskip("flax.nnx"), pytest.importorskip("optax")
    model = nnx.Linear(16, 4, rngs=nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param)

    def forward(model, x):
        return (model(x) ** 2).mean()

    def step(model, optimizer, x):
        loss, grads = nnx.value_and_grad(forward)(model, x)
        optimizer.update(model, grads)
        return loss

    for fn in (step, nnx.jit(step)):
        message = refused(fn, model, optimizer, X)
        assert "at `model/bias/value`, `model/kernel/value`, `optimizer/step/value`. " in message
        assert "graph, state = nnx.split(model)" in message
    for fn in (forward, nnx.jit(forward)):
        assert ml.trace(fn, model, X).outputs == ("out",)
    graph, state = nnx.split((model, optimizer))

    def pure(state, x):
        model, optimizer = nnx.merge(graph, state)
        loss = nnx.jit(step)(model, optimizer, x)
        return loss, nnx.state((model, optimizer))

    def half(state, x):
        loss, result = pure(state, x)
        return loss, result[0]

    for fn in (pure, jax.jit(pure), nnx.jit(pure)):
        assert ml.trace(fn, state, X).carry == {"state": 1}
    # The optimizer's own state is updated, and not returned.
    assert "at `state/1/step/value`. " in refused(half, state, X)


# Flags among the arguments


def flagged(x, train):
    return x.sum() if train else x.mean()


def sized(x, count):
    return x.reshape(count, -1)


def test_a_flag_is_told_to_be_closed_over():
    bound = "If `train` is a flag or a size, close over it: functools.partial(flagged, train=True), say."
    assert "jax.lax.cond for choices that depend on data. Every argument is traced as data. " + bound in refused(
        flagged, X, True
    )
    assert bound in refused(jax.jit(flagged, static_argnums=1), X, True)
    assert bound in refused(jax.jit(flagged, static_argnames="train"), X, True)
    assert "functools.partial(sized, count=4), say" in refused(sized, X, 4)
    assert "`flagged` could not be traced: `jax.jit` marks an argument as static" in refused(
        jax.jit(flagged, static_argnums=1), X, True
    )
    several = refused(lambda x, shape, train: x.reshape(shape) if train else x, X, (4, -1), True)
    assert (
        "If `shape`, `train` are flags or sizes, close over them: functools.partial(fn, shape=…, train=True)" in several
    )
    assert "functools.partial(fn, n=2), say" in refused(lambda x, n: x if n else -x, X, 2)
    assert "close over what is static" in refused(jax.jit(flagged, static_argnums=1), X, jnp.ones(()))
    assert "functools.partial" not in refused(flagged, X, jnp.ones(()))
    assert ml.trace(functools.partial(flagged, train=True), X).outputs == ("out",)
    assert "`flagged` takes () but 1 arguments were given" in refused(functools.partial(flagged, X, True), X)
