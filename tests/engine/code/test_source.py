"""Every operation says the user's own line: under `jit`, in loops, backwards, and through other libraries."""

import collections
import functools
import importlib
import sys
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
import pytest
from flax import linen, nnx

import meshlab as ml
from meshlab.engine.code.operations import walk

X, W = ml.named(jnp.ones((16, 4)), "batch a"), ml.named(jnp.ones((4, 8)), "a b")
SPLIT = ml.mesh(d=2, m=2), "batch:d b:m"


def source_lines(fn, *args, only=None):
    """The text of the line and the function that each operation says, the same ones once."""
    sources = [o.source for o in walk(ml.trace(fn, *args).code.block) if only in (None, o.name)]
    return list(dict.fromkeys((s.code, s.function) if s else ("no line", "no function") for s in sources))


def layer(w, x):
    hidden = jax.nn.relu(x @ w)
    total = jnp.mean(hidden, axis=0)
    chances = jax.nn.softmax(hidden, axis=-1)
    return total.sum(), chances


jitted = jax.jit(layer)


def calls_it(w, x):
    return jitted(w, x)


@pytest.mark.parametrize("fn", [layer, jitted, calls_it, jax.jit(calls_it)])
def test_collectives_say_the_innermost_line_under_jit(fn):
    plan = ml.trace(fn, W, X).plan(*SPLIT)
    lines = [c.source and c.source.code for c in plan.collectives]
    assert lines == ["chances = jax.nn.softmax(hidden, axis=-1)"] * 2 + ["return total.sum(), chances"]
    assert {c.source and c.source.function for c in plan.collectives} == {"layer"}
    assert {value.source.function for value in ml.trace(fn, W, X).values if value.source} == {"layer"}


def assigns(w, x):
    y = jnp.tanh(x @ w)
    pair = [jnp.sin(y), (y * 2.0) if w.ndim else y]
    return pair[0] + pair[1]


def test_a_line_says_what_makes_all_that_it_assigns():
    operations = walk(ml.trace(assigns, jnp.ones((4, 4)), jnp.ones((4, 4))).code.block)
    made = {o.name: o.source.target for o in operations if o.source is not None and o.source.assigned}
    assert made == {"tanh": "y", "sin": "pair", "mul": "pair"}


def loss(w, x):
    total, chances = layer(w, x)
    return total + (chances**2).sum()


def loss_of_jitted(w, x):
    total, chances = jitted(w, x)
    return total + (chances**2).sum()


@pytest.mark.parametrize("fn", [loss, jax.jit(loss), loss_of_jitted, jax.jit(loss_of_jitted)])
def test_a_derivative_says_the_same_lines_with_and_without_jit(fn):
    def lines(fn):
        sources = [operation.source for operation in walk(ml.trace(fn, W, X).code.block)]
        assert None not in sources
        return collections.Counter(str(source) for source in sources if source and source.function == "layer")

    assert lines(jax.grad(fn)) == lines(jax.jit(jax.grad(fn))) == lines(jax.grad(loss))
    assert len(lines(jax.grad(fn))) >= 3


def first(x):
    return jax.nn.relu(jnp.where(x > 1, x, 1.5)).sum()


def second(x):
    return jnp.take(jax.nn.relu(jnp.where(x > 1, x, 1.5)), jnp.arange(2)).sum()


@pytest.mark.parametrize("wrap", [lambda fn: fn, jax.jit, jax.value_and_grad, lambda fn: jax.jit(jax.grad(fn))])
def test_what_jax_keeps_of_a_library_function_says_each_callers_line(wrap):
    x = ml.named(jnp.ones((5, 3)), "a b")
    assert {function for _, function in source_lines(wrap(first), x)} == {"first"}
    assert {function for _, function in source_lines(wrap(second), x)} == {"second"}


def twice(x):
    once = jax.nn.relu(x)
    again = jax.nn.relu(once)
    return again.sum()


@pytest.mark.parametrize("wrap", [jax.grad, jax.value_and_grad])
@pytest.mark.parametrize("jitted_inside", [False, True])
def test_two_calls_in_one_function_say_their_own_lines(wrap, jitted_inside):
    # JAX differentiates relu under the first call's traceback, and keeps what it made.
    x = ml.named(jnp.ones((7, 3)), "a b")
    fn = wrap(jax.jit(twice) if jitted_inside else twice)
    both = [("again = jax.nn.relu(once)", "twice"), ("once = jax.nn.relu(x)", "twice")]
    for traced in (fn, jax.jit(fn)):
        assert sorted(source_lines(traced, x, only="select_n")) == both
        assert sorted(source_lines(traced, x, only="max")) == (both if wrap is jax.value_and_grad else both[1:])


def test_a_module_of_python_on_the_way_is_not_the_users():
    @functools.singledispatch
    def fn(x):
        return x

    fn.register(object, jnp.sin)
    assert source_lines(lambda x: fn(x).sum(), X, only="sin") == [
        ('assert source_lines(lambda x: fn(x).sum(), X, only="sin") == [', "<lambda>")
    ]


def test_a_well_known_library_in_a_checkout_is_not_the_users(tmp_path, monkeypatch):
    file = tmp_path / "optax" / "__init__.py"
    file.parent.mkdir()
    file.write_text("def scale(x):\n    return x * 2\n")
    monkeypatch.delitem(sys.modules, "optax")
    monkeypatch.syspath_prepend(tmp_path)
    library = importlib.import_module("optax")
    monkeypatch.setitem(sys.modules, "optax", library)
    assert {function for _, function in source_lines(lambda x: library.scale(x), X)} == {"<lambda>"}


def helper(x):
    return jnp.cos(x) * 2


@jax.jit
def inner_of_two(x):
    return helper(x).sum()


def one_caller(x):
    return inner_of_two(x) + 1


def other_caller(x):
    return inner_of_two(x) + helper(x).mean()


def test_a_jitted_function_keeps_its_own_lines_for_every_caller():
    for fn in (one_caller, other_caller, jax.jit(other_caller)):
        assert source_lines(fn, X, only="cos") == [("return jnp.cos(x) * 2", "helper")]
    assert ("return inner_of_two(x) + helper(x).mean()", "other_caller") in source_lines(other_caller, X)
    assert {function for _, function in source_lines(one_caller, X)} == {"helper", "inner_of_two", "one_caller"}


class Doubled:
    def __call__(self, x):
        return jnp.sin(x).sum()


def test_a_jitted_object_says_its_own_line():
    assert source_lines(jax.jit(Doubled()), X, only="sin") == [("return jnp.sin(x).sum()", "__call__")]


def scanned(x):
    def body(carry, row):
        carry = carry + jnp.sin(row)
        return carry, jax.nn.relu(carry)

    def stop(state):
        return state[1] < 3

    def onward(state):
        return jnp.tan(state[0]), state[1] + 1

    last, rows = jax.lax.scan(body, jnp.zeros(4), x)
    last, _ = jax.lax.while_loop(stop, onward, (last, 0))
    last = jax.lax.cond(last[0] > 0, lambda y: jnp.cos(y), lambda y: y, last)
    return (last + jax.checkpoint(helper)(rows).sum()).sum()


@pytest.mark.parametrize("fn", [scanned, jax.jit(scanned)])
def test_bodies_say_their_own_lines(fn):
    assert source_lines(fn, X, only="sin") == [("carry = carry + jnp.sin(row)", "body")]
    assert source_lines(fn, X, only="tan") == [("return jnp.tan(state[0]), state[1] + 1", "onward")]
    assert source_lines(fn, X, only="max") == [("return carry, jax.nn.relu(carry)", "body")]
    assert ("return jnp.cos(x) * 2", "helper") in source_lines(fn, X, only="cos")
    assert ("no line", "no function") not in source_lines(fn, X)


def solved(x):
    solution, _ = jax.scipy.sparse.linalg.cg(lambda v: v * 2 + helper(v), x)
    return solution.sum()


@pytest.mark.parametrize("fn", [solved, jax.jit(solved), jax.value_and_grad(solved)])
def test_what_a_library_solves_says_the_call(fn):
    assert {function for _, function in source_lines(fn, X)} == {"solved", "<lambda>", "helper"}


def test_what_jax_takes_out_of_a_librarys_loop_says_the_call():
    def labelled(x):
        none = jnp.zeros((2, 4))
        return optax.ctc_loss(x, jnp.zeros((2, 6)), jnp.ones((2, 4), int), none).mean()

    x = ml.named(jnp.ones((2, 6, 5)), "batch time vocab")
    assert {function for _, function in source_lines(jax.value_and_grad(labelled), x)} == {"labelled"}


def test_a_function_under_anothers_name_says_its_own_lines():
    @functools.wraps(layer)
    def other(w, x):
        return (x @ w).sum()

    assert {function for _, function in source_lines(other, W, X)} == {"other"}


@jax.custom_vjp
def scaled(x):
    return jnp.sin(x)


def scaled_forward(x):
    return scaled(x), x


def scaled_backward(x, given):
    return (given * jnp.cos(x),)


scaled.defvjp(scaled_forward, scaled_backward)


def uses_it(x):
    return scaled(x).sum()


def test_a_custom_derivative_says_the_call():
    for fn in (jax.jit(uses_it), jax.grad(jax.jit(uses_it)), jax.jit(jax.grad(uses_it))):
        assert {function for _, function in source_lines(fn, X)} <= {"uses_it", "scaled"}


class Block(linen.Module):
    @linen.compact
    def __call__(self, x):
        normal = linen.LayerNorm()(x)
        return x + linen.Dense(4)(linen.gelu(normal))


class NnxBlock(nnx.Module):
    def __init__(self):
        self.embed, self.up = nnx.Embed(16, 4, rngs=nnx.Rngs(0)), nnx.Linear(4, 8, rngs=nnx.Rngs(0))

    def __call__(self, tokens):
        looked_up = self.embed(tokens)
        return nnx.relu(self.up(looked_up)).sum()


class EqxBlock(eqx.Module):
    embed: eqx.nn.Embedding
    up: eqx.nn.Linear

    def __call__(self, tokens):
        looked_up = jax.vmap(self.embed)(tokens)
        return jax.nn.relu(jax.vmap(self.up)(looked_up)).sum()


TOKENS = ml.named(jnp.zeros(16, int), "batch")
LOOKED_UP = {"looked_up = self.embed(tokens)", "looked_up = jax.vmap(self.embed)(tokens)"}


def nnx_steps():
    graph, state = nnx.split(NnxBlock())

    def run(block, tokens):
        return nnx.value_and_grad(lambda block: block(tokens))(block)

    def step(state, tokens):
        return run(nnx.merge(graph, state), tokens)[0]

    def step_jitted(state, tokens):
        return nnx.jit(run)(nnx.merge(graph, state), tokens)[0]

    return step, (step_jitted, jax.jit(step)), (state, TOKENS)


def eqx_steps():
    keys = jax.random.split(jax.random.key(0))
    arrays, rest = eqx.partition(
        EqxBlock(eqx.nn.Embedding(16, 4, key=keys[0]), eqx.nn.Linear(4, 8, key=keys[1])), eqx.is_array
    )

    def step(arrays, tokens):
        return eqx.filter_value_and_grad(lambda arrays: eqx.combine(arrays, rest)(tokens))(arrays)

    return step, (eqx.filter_jit(step), jax.jit(step)), (arrays, TOKENS)


def linen_steps():
    optimizer = optax.adam(1e-3)
    block: Any = Block()
    params = block.init(jax.random.key(0), X.array)

    def step(params, state, x):
        grads = jax.grad(lambda p: block.apply(p, x).sum())(params)
        updates, state = optimizer.update(grads, state, params)
        return optax.apply_updates(params, updates), state

    return step, (jax.jit(step), lambda *args: jax.jit(step)(*args)), (params, optimizer.init(params), X)


@pytest.mark.parametrize("steps", [nnx_steps, eqx_steps, linen_steps])
def test_other_libraries_say_the_users_lines_with_and_without_jit(steps):
    plain, under_jit, args = steps()
    lines = source_lines(plain, *args)
    assert ("no line", "no function") not in lines
    assert "__call__" in {function for _, function in lines}
    for fn in under_jit:
        assert source_lines(fn, *args) == lines


@pytest.mark.parametrize("steps", [nnx_steps, eqx_steps])
def test_a_lookup_says_the_line_of_the_lookup(steps):
    plain, under_jit, args = steps()
    for fn in (plain, *under_jit):
        [(line, function)] = source_lines(fn, *args, only="gather")
        assert line in LOOKED_UP
        assert function == "__call__"


@pytest.mark.parametrize("wrap", [lambda fn: fn, jax.jit])
def test_two_names_that_meet_say_the_line(wrap):
    def added(x, y):
        return x + y

    fn = wrap(added)
    with pytest.raises(ml.TraceError, match=r"Two names meet on one axis: .*, in `add` at test_source.py:\d+"):
        ml.trace(fn, ml.named(jnp.ones(4), "a"), ml.named(jnp.ones(4), "b"))
