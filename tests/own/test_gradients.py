"""Whose gradient a value is said to be: each is held against the true gradient, by numbers."""

from __future__ import annotations

import functools
import itertools
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh

from meshlab.engine.devices import devices
from meshlab.own.compiled import with_numbers
from meshlab.own.jitted import taken
from meshlab.own.subject import Subject, subject_of

# What a program adds to a value that has a name, by that name: nothing, as it is explained.
Probes = dict[str, Any]


class See:
    """Adds a probe to each value that is seen, so that the probe's gradient is the value's."""

    def __init__(self, probes: Probes | None):
        self.probes, self.shapes = probes, {}
        self.counts: dict[str, int] = defaultdict(int)

    def __call__(self, name: str, value: Any) -> Any:
        key = f"{name}#{self.counts[name]}"
        self.counts[name] += 1
        self.shapes[key] = value.shape
        return value if self.probes is None else value + self.probes[key]


def array(*shape: int) -> Any:
    return np.random.default_rng(sum(shape) + len(shape)).normal(size=shape).astype(np.float32)


def squashed(x):
    return jnp.tanh(x) * 2.0


def doubled(x):
    return x + x


def mlp(see, params, x):
    hidden = jax.nn.gelu(x @ params["up"])
    hidden = see("hidden", hidden)
    out = hidden @ params["down"] + params["bias"]
    out = see("out", out)
    return ((out - x) ** 2).mean()


def squares(see, params, x):
    """All of one shape and the same dims, which tell nothing apart."""
    first = see("first", x @ params["a"])
    second = jnp.tanh(first @ params["b"])
    second = see("second", second)
    third = second @ second.T
    third = see("third", third)
    return (third @ params["a"]).sum() + (first * second).sum()


def helpers(see, params, x):
    """A line that calls a function of its own, with a part that goes in and another value that comes out."""
    y = squashed(x @ params["a"]) + 1.0
    y = see("y", y)
    z = doubled(y @ params["b"]) * 3.0
    z = see("z", z)
    w = squashed(doubled(z))
    w = see("w", w)
    return (w**2).sum()


def comprehension(see, params, x):
    query, key, value = (x @ params[name] for name in "abc")
    weights = jax.nn.softmax(query @ key.T)
    weights = see("weights", weights)
    mixed = weights @ value
    mixed = see("mixed", mixed)
    return (mixed**2).sum()


def layers(see, params, x):
    for name in "abc":
        x = jnp.tanh(x @ params[name] + params[name][0])
        x = see("x", x)
    for _ in range(2):
        x = jax.nn.gelu(x)
        x = see("x", x)
    return (x**2).sum()


def residual(see, params, x):
    first = x + jnp.sin(x @ params["a"])
    first = see("first", first)
    second = first + jnp.sin(first @ params["a"])
    second = see("second", second)
    total = first * second + second
    total = see("total", total)
    return (total - total.mean()).max()


def parts(see, params, x):
    left, right = jnp.split(x @ params["a"], 2, axis=1)
    joined = jnp.concatenate([right, jnp.tanh(left)], axis=1)
    joined = see("joined", joined)
    picked = joined[jnp.array([0, 2, 1, 3]), 1:5]
    picked = see("picked", picked)
    chosen = jnp.where(picked > 0, picked, 0.1 * picked)
    chosen = see("chosen", chosen)
    return jax.nn.logsumexp(chosen) + jnp.einsum("ij,kj->", joined, params["b"])


def again(see, params, x):
    def block(x):
        hidden = jnp.sin(x @ params["a"])
        hidden = see("hidden", hidden)
        return jnp.sin(hidden @ params["b"])

    kept = jax.checkpoint(block)(x)
    kept = see("kept", kept)
    return (kept @ params["c"]).sum()


@jax.custom_vjp
def scaled(x):
    return x * 2.0


scaled.defvjp(lambda x: (scaled(x), x), lambda x, ct: (ct * 2.0 + 0.0 * (x @ x.T @ x),))


def by_hand(see, params, x):
    first = scaled(x @ params["a"])
    first = see("first", first)
    second = scaled(first) @ params["b"]
    second = see("second", second)
    return (second**2).sum()


def linear(see, params, x):
    """Nothing of the forward pass is kept but what is linear."""
    first = doubled(x @ params["a"]) + x
    first = see("first", first)
    second = (first @ params["b"]).T.reshape(8, 8).T
    second = see("second", second)
    return jnp.sum(second)


def normed(x, scale):
    return x / jnp.sqrt((x * x).mean(axis=1, keepdims=True) + 1.0) * scale


def stacked(see, params, x):
    """Layers in a loop, whose parameters are stacked; what comes round is what each multiplies."""

    def layer(x, weights):
        hidden = jnp.sin(x @ weights["a"])
        return x + hidden @ weights["b"], None

    x, _ = jax.lax.scan(layer, x, {name: params[name] for name in "ab"})
    x = see("last", x)
    return ((x @ params["c"]) ** 2).sum()


def stacked_again(see, params, x):
    """The same, computed again in the backward pass."""

    def layer(x, weights):
        return x + jnp.sin(normed(x, weights["d"]) @ weights["a"]) @ weights["b"], None

    x, _ = jax.lax.scan(jax.checkpoint(layer), x, {name: params[name] for name in "abd"})
    return ((normed(x, params["e"]) @ params["c"]) ** 2).sum()


def stacked_norms(see, params, x):
    """A function is called with two parameters of the loop, and behind it with a third."""

    def layer(x, weights):
        x = x + jnp.sin(normed(x, weights["d"]) @ weights["a"])
        x = x + jnp.sin(normed(x, weights["f"]) @ weights["b"])
        return x, None

    x, _ = jax.lax.scan(layer, x, {name: params[name] for name in "abdf"})
    x = normed(x, params["e"])
    return ((x @ params["c"]) ** 2).sum()


def turn(x, weights):
    return x + jnp.sin(x @ weights), None


@jax.jit
def once(x, weights):
    return jnp.cos(normed(x, weights[0]) @ weights)


def traced_once(see, params, x):
    """JAX keeps what it has traced of a function for the next call of it, with the lines of the first."""
    x, _ = jax.lax.scan(turn, x, params["a"])
    x, _ = jax.lax.scan(turn, x, params["b"])
    x = once(x, params["c"])
    x = once(x, params["g"])
    return (x * params["e"]).sum()


LOOPS = [stacked, stacked_again, stacked_norms]
PROGRAMS = [mlp, squares, helpers, comprehension, layers, residual, parts, again, by_hand, linear, *LOOPS, traced_once]
PARAMS = {
    mlp: {"up": array(8, 16), "down": array(16, 8), "bias": array(8)},
    **{fn: {"a": array(8, 8), "b": array(8, 9)[:, :8], "c": array(8, 10)[:, :8]} for fn in PROGRAMS[1:]},
    **{
        fn: {"a": array(3, 8, 8), "b": array(3, 8, 9)[..., :8], "c": array(8, 8), "d": array(3, 8), "e": array(8)}
        for fn in (*LOOPS, traced_once)
    },
}
PARAMS[traced_once]["g"] = array(8, 12)[:, :8]
PARAMS[stacked_norms]["f"] = array(3, 9)[:, :8]
X = array(8, 11)[:, :8]


def grads(fn: Callable) -> Callable:
    return jax.grad(lambda params, x: fn(See(None), params, x))


def trained(fn: Callable) -> Callable:
    """A step of momentum, which adds up what no name is of."""

    def step(params, moments, x):
        found = grads(fn)(params, x)
        moments = jax.tree.map(lambda m, g: 0.9 * m + g, moments, found)
        return jax.tree.map(lambda p, m: p - 0.1 * m, params, moments), moments

    return step


def truth(fn: Callable, params: Any, x: Any) -> dict[str, list[Any]]:
    """The gradients of parameters and of what is seen, by name."""
    seen = See(None)
    fn(seen, params, x)
    probes = {key: np.zeros(shape, np.float32) for key, shape in seen.shapes.items()}
    of_params, of_probes, of_x = jax.grad(lambda p, probes, x: fn(See(probes), p, x), argnums=(0, 1, 2))(
        params, probes, x
    )
    found: dict[str, list[Any]] = defaultdict(list)
    for key, gradient in of_probes.items():
        found[f"`{key.partition('#')[0]}`"].append(gradient)
    for name, gradient in of_params.items():
        found[f"`params/{name}`"].append(gradient)
    if "`x`" not in found:
        found["`x`"].append(of_x)
    return found


def said(fn: Callable, *args: Any) -> tuple[Subject, dict[int, str]]:
    """Whose gradient, or a term of whose, each value is said to be."""
    mesh = Mesh(np.array(devices(8)), ("data",))
    subject = subject_of(with_numbers(taken(jax.jit(fn), args, mesh)))
    return subject, {v: text for v in range(len(subject.code.shapes)) if "gradient" in (text := subject.quoted(v))}


def values(subject: Subject, args: Any) -> dict[int, Any]:
    """What each value outside of blocks is, of some arguments."""
    found = dict(zip(subject.code.block.inputs, jax.tree.leaves(args), strict=False)) | subject.code.constants
    for operation in subject.code.block.operations:
        inputs = [found[v] if isinstance(v, int) else v.value for v in operation.inputs]
        primitive = operation.equation.primitive
        made = primitive.bind(*inputs, **operation.params)
        found |= zip(operation.outputs, made if primitive.multiple_results else [made], strict=True)
    return found


def alike(one: Any, other: Any) -> bool:
    """Whether one is the other, in whatever order of axes and shape."""
    orders = (np.transpose(one, order) for order in itertools.permutations(range(np.ndim(one))))
    return any(
        each.size == other.size and np.allclose(each.reshape(other.shape), other, rtol=1e-3, atol=1e-4)
        for each in orders
    )


@pytest.mark.share(4)
@pytest.mark.parametrize("wrap", [grads, trained])
@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_what_is_called_a_gradient_is_that_gradient(fn, wrap):
    params = PARAMS[fn]
    args = (params, X) if wrap is grads else (params, jax.tree.map(np.zeros_like, params), X)
    true = truth(fn, params, X)
    subject, names = said(wrap(fn), *args)
    known = values(subject, args)
    checked = 0
    for value, text in names.items():
        name = text.partition("gradient of ")[2]
        if value not in known or name not in true:
            continue  # inside of a block, or of a part of a line
        checked += 1
        whole = [value] if text.startswith("the gradient") else sums_of(subject, value)
        assert any(alike(known[one], gradient) for one in whole for gradient in true[name]), (text, value)
    assert checked


def sums_of(subject: Subject, value: int) -> list[int]:
    """The sums of cotangents that a value is a term of, in whatever form."""
    waiting, found = [value], []
    while waiting:
        for reader in subject.readers.get(waiting.pop(), ()):
            if reader.name in ("add_any", "transpose", "reshape"):
                waiting += reader.outputs
                found += reader.outputs if reader.name == "add_any" else ()
    return found


@functools.cache
def named(fn: Callable) -> set[str]:
    return set(said(grads(fn), PARAMS[fn], X)[1].values())


def test_most_have_a_name():
    assert {f"the gradient of `params/{name}`" for name in ("up", "down", "bias")} <= named(mlp)
    assert {"the gradient of `hidden`", 'the gradient of `x @ params["up"]`'} <= named(mlp)
    assert {f"the gradient of `params/{name}`" for name in "abc"} <= named(again)


def test_parameters_of_loops_have_theirs():
    """The value of one turn has the name too, which is what a collective inside of the loop sends."""
    for fn, names in ((stacked, "abc"), (stacked_again, "abcde"), (stacked_norms, "abcdef")):
        subject, found = said(grads(fn), PARAMS[fn], X)
        outside = {v for operation in subject.code.block.operations for v in operation.outputs}
        for name in names:
            values = {v for v, text in found.items() if text == f"the gradient of `params/{name}`"}
            assert values & outside, (fn, name)
            assert name in "ce" or values - outside, (fn, name)


def test_what_is_differentiated_twice_has_no_name():
    def twice(params, x):
        return jax.grad(lambda p: sum(g.sum() for g in jax.tree.leaves(grads(mlp)(p, x))))(params)

    assert not said(twice, PARAMS[mlp], X)[1]


def beside(see, params, x):
    """One part is differentiated once, another twice."""
    first = jnp.tanh(x @ params["a"])
    first = see("first", first)
    slope = jax.grad(lambda x: jnp.sin(x @ params["b"]).sum())(x)
    slope = see("slope", slope)
    return (first @ params["c"]).sum() + (slope**2).sum()


def test_what_is_differentiated_once_has_a_name_beside_it():
    true, (subject, names) = truth(beside, PARAMS[squares], X), said(grads(beside), PARAMS[squares], X)
    assert {"the gradient of `params/a`", "the gradient of `params/c`", "the gradient of `first`"} <= set(
        names.values()
    )
    assert not any("params/b" in text for text in names.values())
    known = values(subject, (PARAMS[squares], X))
    for value, text in names.items():
        name = text.partition("gradient of ")[2]
        if value in known and name in true and text.startswith("the gradient"):
            assert any(alike(known[value], gradient) for gradient in true[name]), text
