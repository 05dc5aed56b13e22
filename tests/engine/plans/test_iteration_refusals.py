"""A serial axis in some scopes alone: what is refused says where the dim is whole, and the remedy holds."""

import re

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml
from meshlab.models.zoo import models
from tests.engine.small_programs import moved

BOTH = ml.mesh(data=2, micro=ml.serial(2))


def f32(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def ids(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.int32)


def trained(loss):
    def step(params, *data):
        value, grads = jax.value_and_grad(loss)(params, *data)
        return jax.tree.map(lambda w, g: w - 0.1 * g, params, grads), value

    return step


def in_layers(params, x, y):
    with jax.named_scope("below"):
        x = jnp.tanh(x @ params["below"])
    with jax.named_scope("core"):
        x = jnp.tanh(x @ params["core"])
    return jnp.square((x @ params["above"]).sum(1) - y).mean()


NAMES = {"below": "d h", "core": "h e", "above": "e d"}
NET = ml.trace(
    trained(in_layers),
    ml.named({"below": f32(4, 6), "core": f32(6, 6), "above": f32(6, 4)}, NAMES),
    ml.named(f32(8, 4), "batch d"),
    ml.named(f32(8), "batch"),
)


def looked_up(tables, users, items, ratings):
    with jax.named_scope("lookup"):
        of_users, of_items = tables["users"][users], tables["items"][items]
    return jnp.square((of_users * of_items).sum(1) - ratings).mean()


TABLES = ml.trace(
    trained(looked_up),
    ml.named({"users": f32(8, 4), "items": f32(8, 4)}, {"users": "users d", "items": "items d"}),
    *(ml.named(each, "batch") for each in (ids(8), ids(8), f32(8))),
)


def refused(program, layout, mesh=BOTH):
    with pytest.raises(ml.LayoutError) as error:
        program.plan(mesh, layout)
    texts = list(map(str, error.value.problems))
    assert not any("none" in text for text in texts)
    return texts


def test_only_dims_that_a_layout_can_say_are_to_be_taken_off():
    def sparse(w, x):
        values, places = jax.lax.top_k(x @ w, 2)
        others = jnp.arange(8)[::-1, None]
        return (jnp.zeros((8, 6)).at[others, places].set(values) @ w.T).sum()

    arrays = (ml.named(jax.ShapeDtypeStruct(s, jnp.float32), names) for s, names in (((4, 6), "e f"), ((8, 4), "b e")))
    with pytest.raises(ml.LayoutError, match=r"Take `b` off `micro`, or compute"):
        ml.trace(jax.grad(sparse), *arrays).plan(ml.mesh(micro=ml.serial(2)), "b:micro")


def test_a_dim_on_a_serial_axis_in_one_scope_alone_is_told():
    texts = refused(NET, {"@core": {"batch": "micro"}})
    wanted = (
        r"needs in each iteration over `micro` .* gathered for `dot_general` at .*:\d+, for `batch` is on `micro` in"
        r" `@core` alone\. .* Put `batch` on `micro` everywhere, or remove it in `@core`\."
    )
    assert all(re.search(wanted, text) for text in texts), texts
    assert NET.plan(BOTH, "batch:micro").check().ok
    texts = refused(NET, {"@core": {"batch": "micro"}, "@below": {"batch": "micro"}})
    assert any("is on `micro` in `@core`, `@below` alone" in text for text in texts), texts


def test_a_sum_in_a_scope_alone_is_told_with_the_scope():
    def loss(w, x):
        with jax.named_scope("core"):
            y = x @ w
            return jnp.square(y - y.mean(0)).mean()

    program = ml.trace(trained(loss), ml.named(f32(4, 4), "d e"), ml.named(f32(8, 4), "batch d"))
    texts = refused(program, {"@core": {"batch": "micro"}})
    assert any("Take `batch` in `@core` off `micro`, or compute this from one block" in text for text in texts), texts


def test_a_scope_that_takes_a_dim_off_a_serial_axis_is_told():
    texts = refused(NET, {"batch": "data+micro", "@core": {"batch": "data"}})
    wanted = (
        r"gathered for `dot_general` at .*:\d+, for in `@core` the rules have `batch` off `micro`\. .*"
        r" Put `batch` on `micro` in `@core` as well, or remove it everywhere\."
    )
    assert any(re.search(wanted, text) for text in texts), texts


def test_what_has_no_rule_of_its_own_is_said_to_be_in_no_scope():
    def turned(x, w):
        head, half = ml.dims(head=8, half=4)
        first, second = ml.split(ml.relu(x), head, half)
        return ml.dot(ml.concat((second, first), half, head), w, head)

    program = ml.trace(turned, ml.f32[ml.dims(batch=4, head=8)], ml.f32[ml.dims(head=8, out=2)])
    texts = refused(program, "head:micro")
    assert any("gathered for" in text for text in texts), texts


@pytest.mark.parametrize(
    ("program", "layout"),
    [
        (NET, {"batch": "data+micro", "@core": {"batch": "micro"}}),
        (NET, {"batch": "data+micro", "@core": {"batch": "micro", "h": "data"}}),
        (TABLES, {"users": "data", "items": "data", "batch": "data+micro", "@lookup": {"batch": "micro"}}),
        (TABLES, {"users": "data", "items": "data", "batch": "data+micro", "@lookup": {"batch": None}}),
    ],
)
def test_devices_share_a_block_otherwise_in_a_scope(program, layout):
    plan = program.plan(BOTH, layout)
    assert plan.collectives
    assert plan.check().ok


def test_blocks_in_one_scope_alone_are_named_in_causes():
    def step(w, x):
        with jax.named_scope("core"):
            y = (x @ w).sum(0)
        return y

    plan = ml.trace(step, ml.named(f32(4, 4), "d e"), ml.named(f32(8, 4), "batch d")).plan(
        BOTH, {"@core": {"batch": "data+micro"}, "w": {"d": "data"}}
    )
    assert plan.check().ok
    assert [kind for kind, *_ in moved(plan)]
    assert "micro-batches" in str(plan.explain())


def test_what_a_layer_gathers_is_told_with_the_scope():
    def layer(x, w):
        with jax.named_scope("below"):
            x = jnp.tanh(x @ w)
        with jax.named_scope("core"):
            return jnp.tanh(x @ w), None

    def deep(weights, x):
        return jnp.square(jax.lax.scan(layer, x, weights)[0]).mean()

    program = ml.trace(deep, ml.named(f32(3, 4, 4), "layers _ d"), ml.named(f32(8, 4), "batch d"))
    texts = refused(program, {"batch": "micro", "@core": {"batch": None}})
    wanted = r"needs in each iteration .*, gathered for `dot_general` at .*, for in `@core` the rules have `batch` off"
    assert any(re.search(wanted, text) for text in texts), texts


def test_a_dim_made_of_the_batch_is_named_where_it_is_not_on_the_axis():
    mesh = ml.mesh(data=2, micro=ml.serial(2))
    with pytest.raises(ml.LayoutError) as refused:
        next(model for model in models() if model.name == "moe_sgd").trace().plan(mesh, "batch:micro")
    texts = [str(problem) for problem in refused.value.problems]
    wanted = r"\(`batch` becomes `groups` .*, and `groups` is not on `micro`\. Put `groups` on `micro` as well, or take"
    assert all(re.search(wanted, text) for text in texts), texts
