"""The primitives of public functions of JAX and optax have rules, or the reason stands here why they run unsharded."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax
from jax.extend.core import jaxprs_in_params

import meshlab as ml
from meshlab.engine import jax_compat
from meshlab.engine.planning.steps import Compute
from meshlab.engine.rules.table import RULES
from tests.engine.small_programs import X4, A, B, checked

# Calls and control flow: what is inside of them has rules.
CALLS = {
    "cond": "its branches",
    "custom_jvp_call": "inlined",
    "custom_linear_solve": "its solver",
    "custom_vjp_call": "inlined",
    "jit": "inlined",
    "platform_index": "which branch this platform takes",
    "remat2": "a block of its own",
    "scan": "its body",
    "while": "its body and its condition",
}
# Primitives without a rule: they run unsharded on every device.
WHOLE = {
    "rng_uniform": "its numbers are not the same twice",
}

V = jax.ShapeDtypeStruct((8,), jnp.float32)
W = jax.ShapeDtypeStruct((3,), jnp.float32)
I = jax.ShapeDtypeStruct((8,), jnp.int32)  # noqa: E741
T = jax.ShapeDtypeStruct((8,), jnp.bool_)
C = jax.ShapeDtypeStruct((8,), jnp.complex64)
M = jax.ShapeDtypeStruct((4, 4), jnp.float32)
S = jax.ShapeDtypeStruct((3, 4, 4), jnp.float32)
X = jax.ShapeDtypeStruct((2, 8, 8, 3), jnp.float32)
N = jax.ShapeDtypeStruct((), jnp.int32)
KEY = jax.eval_shape(lambda: jax.random.key(0))


@jax.custom_vjp
def turned(x):
    """The identity, whose gradient is turned around."""
    return x


turned.defvjp(lambda x: (x, None), lambda _, gradient: (-gradient,))

UNARY = """
abs sign sqrt square cbrt reciprocal negative positive exp exp2 expm1 log log2 log10 log1p sin cos tan arcsin arccos
arctan sinh cosh tanh arcsinh arccosh arctanh floor ceil rint trunc round deg2rad rad2deg isnan isfinite isinf
signbit nan_to_num i0 sinc angle real imag conj sum prod mean std var max min ptp median argmax argmin argsort sort
cumsum cumprod nancumsum nansum nanmax nanmean nanstd all any diff flip roll1 ravel squeeze atleast_2d tile2 repeat2
count_nonzero histogram quantile percentile gradient trapezoid ediff1d unwrap nanmedian average frexp modf spacing
"""
BINARY = """
add subtract multiply divide floor_divide mod remainder power float_power maximum minimum fmax fmin logaddexp
logaddexp2 hypot arctan2 copysign nextafter heaviside equal not_equal less greater isclose allclose dot inner outer
kron convolve correlate append concatenate2 stack2 hstack2 vstack2 where2 interp2 searchsorted digitize polyval cross3
"""
INTEGERS = "bitwise_and bitwise_or bitwise_xor left_shift right_shift gcd lcm"
SHORT = {
    "roll1": lambda x: jnp.roll(x, 1),
    "tile2": lambda x: jnp.tile(x, 2),
    "repeat2": lambda x: jnp.repeat(x, 2),
    "quantile": lambda x: jnp.quantile(x, 0.3),
    "percentile": lambda x: jnp.percentile(x, 30),
    "concatenate2": lambda x, y: jnp.concatenate([x, y]),
    "stack2": lambda x, y: jnp.stack([x, y]),
    "hstack2": lambda x, y: jnp.hstack([x, y]),
    "vstack2": lambda x, y: jnp.vstack([x, y]),
    "where2": lambda x, y: jnp.where(x > y, x, y),
    "interp2": lambda x, y: jnp.interp(x, y, y),
    "cross3": lambda x, y: jnp.cross(x[:3], y[:3]),
}
NN = """
relu relu6 sigmoid softplus sparse_plus soft_sign silu log_sigmoid leaky_relu hard_sigmoid hard_silu hard_tanh elu celu
selu gelu glu squareplus mish softmax log_softmax logsumexp standardize identity
"""
SPECIAL = """
digamma entr erf erfc erfinv expit gammaln i0 i0e i1 i1e log_ndtr logit ndtr ndtri
spence
"""
LINALG = "cholesky det eigh eigvalsh eig inv matrix_rank norm pinv qr slogdet svd"
FOURIER = "fft ifft fft2 ifft2 fftn rfft irfft rfft2 hfft fftshift"
DRAWN = """
bits uniform normal bernoulli categorical gumbel exponential cauchy laplace logistic truncated_normal gamma beta
dirichlet poisson permutation choice randint rademacher maxwell pareto rayleigh t weibull_min orthogonal ball
"""
DRAWN_WITH = {
    "bernoulli": lambda k: jax.random.bernoulli(k, 0.3, (4,)),
    "categorical": lambda k: jax.random.categorical(k, jnp.zeros((4, 3))),
    "truncated_normal": lambda k: jax.random.truncated_normal(k, -1, 1, (4,)),
    "gamma": lambda k: jax.random.gamma(k, 2.0, (4,)),
    "beta": lambda k: jax.random.beta(k, 2.0, 3.0, (4,)),
    "dirichlet": lambda k: jax.random.dirichlet(k, jnp.ones(3)),
    "poisson": lambda k: jax.random.poisson(k, 3.0, (4,)),
    "permutation": lambda k: jax.random.permutation(k, 4),
    "choice": lambda k: jax.random.choice(k, 9, (4,), replace=False),
    "randint": lambda k: jax.random.randint(k, (4,), 0, 9),
    "pareto": lambda k: jax.random.pareto(k, 2.0, (4,)),
    "rayleigh": lambda k: jax.random.rayleigh(k, 2.0, (4,)),
    "t": lambda k: jax.random.t(k, 2.0, (4,)),
    "weibull_min": lambda k: jax.random.weibull_min(k, 2.0, 3.0, (4,)),
    "orthogonal": lambda k: jax.random.orthogonal(k, 3),
    "ball": lambda k: jax.random.ball(k, 3),
}
OTHERS = {
    "einsum": (lambda x, y: jnp.einsum("bij,bjk->bik", x, y), S, S),
    "matmul": (jnp.matmul, S, S),
    "take": (lambda x, i: jnp.take(x, i, 0), M, I),
    "take along an axis": (lambda x, i: jnp.take_along_axis(x, i, 1), M, jax.ShapeDtypeStruct((4, 2), jnp.int32)),
    "indexing": (lambda x, i: (x[i, 0], x[:, i], x[i], x[::2, 1:]), M, N),
    "setting": (lambda x, i: x.at[i].set(1.0), V, I),
    "adding": (lambda x, i: x.at[i].add(1.0), V, I),
    "multiplying": (lambda x, i: x.at[i].multiply(2.0), V, I),
    "taking extremes": (lambda x, i: (x.at[i].max(2.0), x.at[i].min(1.0)), V, I),
    "subtracting": (lambda x, i: x.at[i].subtract(2.0), V, I),
    "applying": (lambda x, i: x.at[i].apply(jnp.sin), V, I),
    "one hot": (lambda i: jax.nn.one_hot(i, 5), I),
    "attention": (lambda q: jax.nn.dot_product_attention(q, q, q, is_causal=True), X),
    "pad": (lambda x: jnp.pad(x, 1, "reflect"), M),
    "triangle": (lambda x: (jnp.tril(x), jnp.triu(x), jnp.diag(x), jnp.trace(x)), M),
    "grid": (lambda x: jnp.meshgrid(x, x), V),
    "split": (lambda x: jnp.split(x, 2), V),
    "unstack": (jnp.unstack, M),
    "array split": (lambda x: jnp.array_split(x, 3), V),
    "linspace": (lambda x: jnp.linspace(0, x[0], 5), V),
    "select": (lambda x: jnp.select([x > 1, x > 0], [x, -x]), V),
    "unique": (lambda i: jnp.unique(i, size=4), I),
    "bincount": (lambda i: jnp.bincount(i, length=5), I),
    "nonzero": (lambda i: jnp.nonzero(i, size=4), I),
    "packbits": (lambda i: jnp.packbits(i.astype(jnp.uint8)), I),
    "counting bits": (lambda i: (lax.population_count(i), lax.clz(i), ~i), I),
    "bits of floats": (lambda x: (x.view(jnp.int32), x.view(jnp.uint8)), V),
    "associative scan": (lambda x: lax.associative_scan(jnp.add, x), V),
    "running": (lambda x: (lax.cummax(x), lax.cummin(x), lax.cumlogsumexp(x)), V),
    "largest": (lambda x: (lax.top_k(x, 3), lax.approx_max_k(x, 3), lax.approx_min_k(x, 3)), V),
    "sorting by keys": (lambda x, y: lax.sort((x, y), num_keys=2), V, I),
    "lexical sort": (lambda x: jnp.lexsort((x, x)), V),
    "median filter": (lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (3,), (1,), "SAME"), V),
    "average pool": (lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"), X),
    "convolution": (lambda x: lax.conv(x, jnp.ones((4, 8, 3, 3)), (1, 1), "SAME"), X),
    "resize": (lambda x: jax.image.resize(x, (2, 4, 4, 3), "bilinear"), X),
    "clamp": (lambda x: (lax.clamp(0.0, x, 1.0), jnp.clip(x, 0, 1)), V),
    "narrowing": (lambda x: (x.astype(jnp.bfloat16), lax.reduce_precision(x, 5, 7)), V),
    "comparing bits": (lambda x, y: (jnp.logical_and(x, y), jnp.logical_xor(x, y), jnp.logical_not(x)), T, T),
    "all of them": (lambda i: [lax.reduce_and(i, [0]), lax.reduce_or(i, [0]), lax.reduce_xor(i, [0])], I),
    "complex": (lambda z: (z.real, z.imag, jnp.conj(z), jnp.abs(z), jnp.exp(z), lax.complex(z.real, z.imag)), C),
    "map": (lambda x: lax.map(jnp.sin, x), V),
    "loop": (lambda x: lax.fori_loop(0, 3, lambda _, y: jnp.sin(y), x), V),
    "while": (lambda x: lax.while_loop(lambda y: y.sum() < 9, jnp.exp, x), V),
    "branches": (lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.cos, x), V),
    "switch": (lambda x, i: lax.switch(i, [jnp.sin, jnp.cos, jnp.tan], x), V, N),
    "dynamic slices": (lambda x, i: lax.dynamic_update_slice(x, lax.dynamic_slice(x, (i,), (2,)), (i + 1,)), V, N),
    "solve": (jnp.linalg.solve, M, W.update(shape=(4,))),
    "least squares": (lambda x, y: jnp.linalg.lstsq(x, y)[0], M, W.update(shape=(4,))),
    "lu": (jax.scipy.linalg.lu, M),
    "lu solve": (lambda x, y: jax.scipy.linalg.lu_solve(jax.scipy.linalg.lu_factor(x), y), M, M),
    "triangular solve": (jax.scipy.linalg.solve_triangular, M, M),
    "tridiagonal solve": (lambda x: lax.linalg.tridiagonal_solve(x, x, x, x[:, None]), V),
    "matrix exponential": (jax.scipy.linalg.expm, M),
    "schur": (jax.scipy.linalg.schur, M),
    "hessenberg": (jax.scipy.linalg.hessenberg, M),
    "polar": (jax.scipy.linalg.polar, M),
    "incomplete gamma": (jax.scipy.special.gammainc, V, V),
    "incomplete gamma from above": (jax.scipy.special.gammaincc, V, V),
    "incomplete beta": (jax.scipy.special.betainc, V, V, V),
    "polygamma": (lambda x: jax.scipy.special.polygamma(1, x), V),
    "zeta": (jax.scipy.special.zeta, V, V),
    "x log y": (jax.scipy.special.xlogy, V, V),
    "normal": (lambda x: (jax.scipy.stats.norm.logpdf(x), jax.scipy.stats.norm.cdf(x)), V),
    "map coordinates": (lambda x: jax.scipy.ndimage.map_coordinates(x, [jnp.ones(3)] * 2, 1), M),
    "filter": (lambda x: jax.scipy.signal.fftconvolve(x, x), V),
    "folding in": (lambda k: jax.random.fold_in(k, 3), KEY),
    "cloning": (jax.random.clone, KEY),
    "key data": (lambda k: jax.random.wrap_key_data(jax.random.key_data(k)), KEY),
    "seeding": (lambda i: jax.random.normal(jax.random.PRNGKey(i), (3,)), N),
    "stop gradient": (lax.stop_gradient, V),
    "recomputed": (jax.checkpoint(lambda x: jnp.sin(jnp.sin(x))), V),
    "own derivative": (turned, V),
    "barrier": (lambda x: lax.optimization_barrier((x, -x)), V),
    "own reduction": (lambda x: lax.reduce(x, 1.0, lambda a, b: a + 2 * b, (0,)), V),
    "numbers of no seed": (lambda x: lax.rng_uniform(0.0, x[0], (3,)), V),
    "segments": (lambda x, i: jax.ops.segment_sum(x, i, 4), V, I),
    "segments' products": (lambda x, i: jax.ops.segment_prod(x, i, 4), V, I),
    "segments' greatest": (lambda x, i: jax.ops.segment_max(x, i, 4), V, I),
}
LOSSES = {
    "squared_error": (optax.squared_error, V, V),
    "huber_loss": (optax.huber_loss, V, V),
    "cosine_similarity": (optax.cosine_similarity, M, M),
    "sigmoid_binary_cross_entropy": (optax.sigmoid_binary_cross_entropy, V, V),
    "softmax_cross_entropy": (optax.softmax_cross_entropy, M, M),
    "integer labels": (optax.softmax_cross_entropy_with_integer_labels, M, I.update(shape=(4,))),
    "ctc_loss": (
        optax.ctc_loss,
        S,
        W.update(shape=(3, 4)),
        I.update(shape=(3, 2)),
        W.update(shape=(3, 2)),
    ),
    "kl_divergence": (optax.kl_divergence, M, M),
}
OPTIMIZERS = """
adabelief adadelta adafactor adagrad adam adamax adamw amsgrad fromage lamb lars lion nadam noisy_sgd novograd radam
rmsprop rprop sgd sm3 yogi
"""


def _functions():
    """(name, function, arguments) of everything that is traced."""
    for names, module, args in (
        (UNARY, jnp, (V,)),
        (BINARY, jnp, (V, V)),
        (INTEGERS, jnp, (I, I)),
        (NN, jax.nn, (V,)),
        (SPECIAL, jax.scipy.special, (V,)),
        (LINALG, jnp.linalg, (S,)),
        (FOURIER, jnp.fft, (M,)),
    ):
        for name in names.split():
            yield name, SHORT.get(name) or getattr(module, name), args
    for name in DRAWN.split():
        draw = getattr(jax.random, name)
        yield name, DRAWN_WITH.get(name) or functools.partial(draw, shape=(4,)), (KEY,)
    for name, (function, *args) in (OTHERS | LOSSES).items():
        yield name, function, args
    for name in OPTIMIZERS.split():
        options = {"key": 0} if name == "noisy_sgd" else {}
        yield name, functools.partial(_update, getattr(optax, name)(learning_rate=0.1, **options)), ({"w": M, "b": V},)


def _update(optimizer, params):
    return optimizer.update(params, optimizer.init(params), params)


FUNCTIONS = list(_functions())


def equations(jaxpr):
    """All equations of a jaxpr, those of nested ones too."""
    for equation in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        expanded = jax_compat.expanded(equation)
        if expanded is not None:
            yield from equations(expanded)
            continue
        yield equation
        for inner in jaxprs_in_params(equation.params):
            yield from equations(inner)


def _with_gradient(function):
    """The function, and what its derivative makes of ones, where it has one."""

    def both(*args):
        results, pull = jax.vjp(function, *args)
        return results, pull(jax.tree.map(jnp.ones_like, results))

    return both


@functools.cache
def used():
    """For every primitive the equations that public functions make of it, each with the function's name."""
    uses = {}
    for name, function, args in FUNCTIONS:
        for traced in (function, _with_gradient(function)):
            try:
                jaxpr = jax.make_jaxpr(traced)(*args).jaxpr
            except (TypeError, ValueError, NotImplementedError):
                # Not everything has a derivative.
                assert traced is not function, name
                continue
            for equation in equations(jaxpr):
                uses.setdefault(equation.primitive.name, []).append((name, equation))
    return uses


def test_every_primitive_that_public_functions_use_has_a_rule_or_a_reason():
    uses = used()
    missing = {p: sorted({n for n, _ in users})[:3] for p, users in uses.items() if p not in {*RULES, *CALLS, *WHOLE}}
    assert not missing
    assert len(FUNCTIONS) > 300
    # What has a rule by now, or is used by nothing here, does not belong on the lists.
    assert {name for name in WHOLE if name in RULES or name not in uses} == set()
    assert {name for name in CALLS if name not in uses} == set()


def test_what_has_no_rule_runs_unsharded_and_says_so():
    def fn(x):
        return jax.pure_callback(np.cbrt, jax.ShapeDtypeStruct(x.shape, x.dtype), x.array)

    plan = checked(fn, (ml.f32[A, B],), "b:x", mesh=X4)
    (step,) = [s for s in plan.steps if isinstance(s, Compute) and s.operation.name == "pure_callback"]
    assert not step.known
    assert [c.kind for c in plan.collectives] == ["all-gather"]


@pytest.mark.parametrize("layout", ["a:x", "b:x"])
def test_special_functions_of_several_arguments_run_through(layout):
    def fn(x):
        x = x.array + 1.0
        gammas = jax.scipy.special.gammainc(x, 2.0), jax.scipy.special.gammaincc(0.5, x)
        return gammas, jax.scipy.special.betainc(x, 1.5, 0.3), jax.scipy.special.zeta(x + 1, 2.0)

    assert not checked(fn, (ml.f32[A, B],), layout, mesh=X4).collectives
