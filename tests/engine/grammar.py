"""Random programs: a few named operations, strung together by a list of numbers.

Every list of numbers is a program, so hypothesis shrinks a failure to the shortest list. A program keeps a stack of
tensors over dims `a b c d` of 8 (and `k m` to rename to); each step takes some from the stack and puts its result on
it.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

import meshlab as ml

DIMS = ml.dims(a=8, b=8, c=8, d=8, k=8, m=8)
A, B, C, D, K, M = DIMS
ARGS = {"p": ml.f32[A, B], "q": ml.f32[B, C], "r": ml.f32[A, C, D], "s": ml.f32[D]}


def _pick(items, number):
    return items[number % len(items)]


def _dot(x, y, n):
    shared = [d for d in x.dims if d in y.dims]
    union = len({*x.dims, *y.dims})
    if not shared or union > 4:
        return x * y if union <= 3 else x
    return ml.dot(x, y, _pick(shared, n)) if union > 1 else x * y


def _rename(x, _, n):
    free = [d for d in DIMS if d not in x.dims]
    return x.rename(**{_pick(x.dims, n).name: _pick(free, n // 8).name})


def _sum(x, _, n):
    return x.sum(_pick(x.dims, n)) if len(x.dims) > 1 else x


def _add(x, y, n):
    return (x + y if n % 2 else x - y) if len({*x.dims, *y.dims}) <= 3 else x


def _scan(x, y, n):
    """Adds up, along a dim of x, what y makes of its rows."""
    along = _pick(x.dims, n)
    if along in y.dims or len(x.dims) < 2 or len({*x.dims, *y.dims}) > 4:
        return x

    def body(total, row):
        return total + (ml.tanh(row) if n % 2 else row), ml.tanh(row * y if n % 3 else row) * 0.5

    first = x.sum(along) * (0.0 if n % 5 else 0.1)
    total, stacked = ml.scan(body, first, x, along)
    return total if n % 7 else stacked


def _merge(x, _, n):
    """Merges two dims that lie side by side, as a raw reshape does, and takes them apart again.

    What is made of other dims is another dim, and has another name.
    """
    if len(x.dims) < 2:
        return x
    at = n % (len(x.dims) - 1)
    first, second = x.dims[at : at + 2]
    both = f"{first.name}_{second.name}"
    return ml.unmerge(ml.tanh(ml.merge(x, (first, second), both)), both, (first, second))


def _swap_halves(x, _, n):
    along = _pick(x.dims, n)
    left, right = ml.split(x, along, ml.Dim("half", 4))
    return ml.concat((right * 0.5, left), "half", along)


def _branch(x, _, n):
    return jax.lax.cond(x.sum() > 0, ml.tanh, lambda t: t * (0.5 if n % 2 else -1.0), x)


OPERATIONS = (
    _merge,
    _swap_halves,
    _branch,
    lambda x, y, n: ml.cumsum(x, _pick(x.dims, n)) * 0.2,
    _dot,
    _dot,
    _rename,
    _sum,
    _add,
    _scan,
    lambda x, y, n: ml.tanh(x),
    lambda x, y, n: x * 0.5,
    lambda x, y, n: -x,
    lambda x, y, n: ml.tag(x, _pick(("t", "u"), n)),
    lambda x, y, n: x - x.max(_pick(x.dims, n)) if len(x.dims) > 1 else x,
    lambda x, y, n: ml.softmax(x, _pick(x.dims, n)),
    lambda x, y, n: ml.checkpoint(lambda x, y: ml.sin(_dot(ml.tanh(x), y, n)))(x, y),
    lambda x, y, n: ml.shift(x, _pick(x.dims, n), n % 11 - 5, wrap=n % 2 == 0),
    lambda x, y, n: ml.where(x > y, x, y) if set(x.dims) == set(y.dims) else ml.relu(x),
)


def run(numbers, params):
    """Runs the program that a list of numbers stands for; returns its last two tensors."""
    stack = [params[name] for name in sorted(params)]
    for number in numbers:
        operation = _pick(OPERATIONS, number)
        number //= len(OPERATIONS)  # noqa: PLW2901 - each choice takes its digit
        x, y = _pick(stack, number), _pick(stack, number // 4)
        result = operation(x, y, number // 16)
        stack.append(result if isinstance(result, ml.Tensor) and result.dims else x)
    return stack[-1], stack[-2]


def with_gradients(numbers):
    """A function of params: the last two tensors, and the gradients of a number made of all of them."""

    def loss(params):
        last, other = run(numbers, params)
        return ml.square(last).sum() + ml.square(other).mean(), (last, other)

    def fn(params):
        (value, outputs), grads = jax.value_and_grad(loss, has_aux=True)(params)
        return value, outputs, jax.tree.map(lambda w, g: w - 0.1 * g, params, grads)

    return fn


def data(seed):
    """Numbers for the arguments, small enough that nothing saturates."""
    keys = jax.random.split(jax.random.key(seed), len(ARGS))
    return {
        name: ml.tensor(jax.random.uniform(key, t.shape, minval=-0.5, maxval=0.5, dtype=jnp.float32), *t.dims)
        for key, (name, t) in zip(keys, ARGS.items(), strict=True)
    }
