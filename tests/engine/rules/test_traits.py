"""Each primitive exists and has all traits, and is as linear as they say; no other table of names is left."""

import ast
import dataclasses
import functools
import itertools
import pathlib

import jax
import jax.extend.random
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.extend import core

import meshlab as ml
from meshlab.engine.code.operations import Literal, Operation
from meshlab.engine.rules import TRAITS, Facts, Traits, factors_of
from meshlab.engine.rules.table import RULES
from meshlab.engine.rules.traits import KINDS, SINCE
from meshlab.engine.tensors.zigzag import zigzag_p
from tests.engine.rules.test_primitives import KEY, M, S, V, X, equations, used

OURS = {
    *("attention", "attention_grad", "dim_names", "rename", "shift", "tag", "zigzag"),
    *("collect_experts", "pair_experts", "ragged_experts", "ragged_experts_grad", "route_experts", "send_experts"),
    "weigh_experts",
}
Rows, Cols, Experts = ml.dims(rows=8, cols=4, experts=2)
BITS = jax.ShapeDtypeStruct((8,), jnp.uint32)
SCALED = [jax.ShapeDtypeStruct((1, 32, size), jnp.float32) for size in (32, 32, 1, 1)]
RAGGED = S.update(shape=(8, 4)), S, jax.ShapeDtypeStruct((3,), jnp.int32)


KEYS = ml.Dim("keys", 8)


def attended(q, k, v):
    return ml.attention(q, k, v, Rows, KEYS).sum()


def sent(x, weights, shares):
    """Two rows each sent to one expert of two, multiplied there and brought back."""
    rows, where = ml.dispatch(
        x, ml.tensor(jnp.zeros((8, 1), jnp.int32), Rows, ml.Dim("k", 1)), Experts, factor=1.0, rows="places"
    )
    return (ml.combine(ml.ragged_dot(rows, weights, where, Cols), where, shares) ** 2).sum()


def pooled(kind):
    pads = ((0, 0), (1, 1), (1, 1), (0, 0))
    return functools.partial(lax.reduce_window, computation=kind, window_dimensions=(1, 2, 2, 1), padding=pads,
                             window_strides=(1, 2, 2, 1))  # fmt: skip


# Primitives that no function of `FUNCTIONS` uses.
MORE = [
    ("renamed", lambda x: ml.tag(x.rename(rows="lines"), "place"), (ml.f32[Rows, Cols],)),
    ("attention", jax.value_and_grad(attended), (ml.f32[Rows, Cols], ml.f32[KEYS, Cols], ml.f32[KEYS, Cols])),
    (
        "sent",
        jax.grad(sent, argnums=(0, 1, 2)),
        (ml.f32[Rows, Cols], ml.f32[Experts, Cols, ml.Dim("out", 3)], ml.f32[Rows, ml.Dim("k", 1)]),
    ),
    ("in another order", functools.partial(zigzag_p.bind, axis=0, back=False), (S,)),
    ("shifted", lambda x: ml.shift(x, Rows, 1), (ml.f32[Rows, Cols],)),
    ("ragged", jax.value_and_grad(lambda x, w, n: lax.ragged_dot(x, w, n).sum(), (0, 1)), RAGGED),
    ("scaled", jax.nn.scaled_matmul, SCALED),
    ("reflected", lax.linalg.householder_product, (S, V.update(shape=(3, 4)))),
    ("reflected further", lax.linalg.ormqr, (S, V.update(shape=(3, 4)), S)),
    ("symmetric", functools.partial(lax.linalg.symmetric_product, beta=1.0), (S, S)),
    ("tridiagonal", lax.linalg.tridiagonal, (M,)),
    ("least in windows", lambda x: pooled(lax.min)(x, jnp.inf), (X,)),
    ("greatest in windows", jax.value_and_grad(lambda x: pooled(lax.max)(x, -jnp.inf).sum()), (X,)),
    ("and its derivative", lambda x, y: jax.jvp(lambda x: pooled(lax.max)(x, -jnp.inf), (x,), (y,)), (X, X)),
    ("joined in windows", lambda x: pooled(lambda a, b: a * b + b)(x, 1.0), (X,)),
    ("bits", lambda x: jax.extend.random.threefry_2x32((x[0], x[1]), x), (BITS,)),
    ("a generator's", lambda x: lax.rng_bit_generator(x[:4], (3,)), (BITS,)),
    ("shifted bits", lambda x: (lax.shift_left(x, x), lax.shift_right_logical(x, x)), (BITS,)),
    ("divided integers", lambda x: (lax.div(x, x), x.astype(jnp.uint8), x.astype(jnp.float32)), (BITS,)),
    ("filled", lambda x, i: (x.at[i].get(mode="fill", fill_value=2), x.at[i].get(mode="fill")), (V, BITS)),
    ("clipped", lambda x, i: x.at[i].get(mode="clip"), (V, BITS)),
    ("of nothing in particular", lambda: lax.empty((2,), jnp.float32), ()),
    ("equal in the order of all floats", lax.eq_to_p.bind, (V, V)),
    ("held back", lax.optimization_barrier, (V,)),
    ("keys", lambda k: jax.random.split(jax.random.wrap_key_data(jax.random.key_data(k))), (KEY,)),
]
if hasattr(lax, "mulhi"):
    MORE.append(("high words", lax.mulhi, (BITS, BITS)))


@functools.cache
def examples():
    """Returns for every primitive equations of it."""
    of = {name: [equation for _, equation in users] for name, users in used().items()}
    for _, function, args in MORE:
        for equation in equations(jax.make_jaxpr(function)(*args).jaxpr):
            of.setdefault(equation.primitive.name, []).append(equation)
    return of


def operation(equation):
    """An equation as an operation of its own, whose operands are its first values."""
    inputs = [Literal(v.val) if isinstance(v, core.Literal) else i for i, v in enumerate(equation.invars)]
    return Operation(equation.primitive.name, equation, tuple(inputs), (len(inputs),), None, False)


# Names


def test_every_primitive_with_traits_exists():
    """The table has the primitives that JAX makes public, those that its public functions use, and ours."""
    modules = (core.primitives, lax, lax.linalg, jax.extend.random)
    public = {p.name for module in modules for p in vars(module).values() if isinstance(p, core.Primitive)}
    assert set(TRAITS) - public - set(examples()) == _later()
    assert set(TRAITS) >= OURS
    assert not OURS & public


def test_every_rule_has_traits_and_no_trait_has_a_default():
    assert set(RULES) <= set(TRAITS)
    for field in dataclasses.fields(Traits):
        assert field.default is dataclasses.MISSING
        assert field.default_factory is dataclasses.MISSING
    for name, traits in TRAITS.items():
        assert traits.kind in KINDS, name
        assert traits.kind != "matmul" or traits.multiplies, name
        assert (traits.updates is not None) == (traits.kind in ("update", "scatter")), name
        assert (traits.indexes is not None) == (traits.kind in ("gather", "scatter")), name
        assert traits.joins or traits.kind != "reduce", name
        assert traits.neutral is None or traits.kind == "elementwise", name


# Names together that say how code takes apart the parameters of these primitives, and nothing that another could ask.
TAKEN_APART = {
    # What an operator makes of constants, or of a value and itself: NumPy's names for them are no traits.
    "identities.py": [
        set("add sub mul div neg max min and or xor not eq ne lt le gt ge exp log clamp".split()),
        set("sub xor eq ge le ne gt lt".split()),
        {"convert_element_type", "div", "integer_pow", "pow", "select_n", "square"},
    ],
    "data_movement.py": [{"broadcast_in_dim", "concatenate", "rev", "transpose"}],
    "fold.py": [{"conv_general_dilated", "reduce_window_max", "reduce_window_min", "reduce_window_sum"}],
    "axis_conflicts.py": [{"rename", "reshape", "tag"}],
    # What the joins of traits (`Join`) are called in a sentence: some have the name of a primitive.
    "sentences.py": [set("max min and or xor".split())],
    # What of a gradient is a part of it, put together after its sums.
    # The second: of what a gradient is put together after its sums.
    "gradients.py": [{"convert_element_type", "rename", "tag"}, set("add_any concatenate rev slice split".split())],
    # How a sum of products of scores is read.
    "softmaxes.py": [set("add add_any sub neg mul div integer_pow square".split())],
    # What is positive where its result is.
    "positive.py": [
        {"digamma", "lgamma", "log", "rsqrt", "sqrt"},
        set("add add_any div min concatenate tag rename optimization_barrier".split()),
        set(
            "convert_element_type copy reshape broadcast_in_dim transpose squeeze slice rev reduce_sum reduce_max"
            " reduce_min reduce_prod cumsum cumprod cummax cummin dynamic_slice gather reduce_precision sqrt"
            " rsqrt".split()
        ),
    ],
    # What an update of a carried value may be, element by element.
    "carrying.py": [{"convert_element_type", "copy", "dim_names", "tag"}],
    # How an operation picks along a dim: by numbers, or by what is the greatest.
    # And what of a comparison's operand is still a position.
    "linear.py": [{"argmax", "eq", "gather", "top_k"}, {"broadcast_in_dim", "convert_element_type", "reshape"}],
    "time_legality.py": [{"argmax", "argmin", "sort", "top_k"}],
    "loops.py": [{"ge", "gt", "le", "lt"}],
    "causal_masks.py": [
        {"ge", "gt", "le", "lt"},
        {"convert_element_type", "copy", "rename", "tag"},
        {"and", "broadcast_in_dim", "not", "reshape", "squeeze", "transpose"},
    ],
    "find_rolls.py": [{"broadcast_in_dim", "concatenate", "pad", "slice", "split"}],
    # How a file for JAX alone is written: what results are called, JAX's names and operators, and how arguments stand.
    "naming.py": [
        set(
            "abs add add_any broadcast_in_dim concatenate conv_general_dilated convert_element_type div dot_general"
            " dynamic_slice iota max min mul optimization_barrier reduce_max reduce_min reduce_sum select_n sub"
            " transpose".split()
        )
    ],
    "words.py": [
        set("add add_any and eq ge gt le lt mul ne or sub xor".split()),
        {"add_any", "and", "not", "or", "xor"},
        {"reduce_window_max", "reduce_window_min", "reduce_window_sum"},
        set(
            "argmax argmin broadcast_in_dim dynamic_slice dynamic_update_slice iota random_bits random_fold_in"
            " random_split random_unwrap random_wrap select_n slice threefry2x32".split()
        ),
    ],
    "writer.py": [{"broadcast_in_dim", "convert_element_type", "iota", "reshape", "squeeze"}],
}


def test_no_table_of_primitives_stands_beside_the_traits():
    root, primitives = pathlib.Path(ml.__file__).parent, set(TRAITS)
    allowed = []
    for path in root.rglob("*.py"):
        if path.parent.name == "rules":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = _strings(node)
            known = names & primitives
            if len(known) >= 3 and 2 * len(known) > len(names):
                assert known in TAKEN_APART.get(path.name, []), f"{path}: {known}"
                allowed.append((path.name, frozenset(known)))
    assert set(allowed) == {(file, frozenset(names)) for file, sets in TAKEN_APART.items() for names in sets}


def _strings(node):
    """The strings that a collection holds or a call is given, or the words of one."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return set(node.value.split()) if "\n" not in node.value else set()
    elements = getattr(node, "elts", None) or getattr(node, "keys", None) or getattr(node, "args", None) or ()
    elements = elements if isinstance(elements, list) else ()  # those of a function's definition are none
    return {e.value for e in elements if isinstance(e, ast.Constant) and isinstance(e.value, str)}


# Linear


def _numbers(random, aval, whole):
    """Small numbers of an aval, whole ones, so that sums are exact; or such with fractions."""
    if jnp.issubdtype(aval.dtype, jnp.bool_):
        return jnp.asarray(random.random(aval.shape) < 0.5)
    drawn = random.integers(1, 4, aval.shape) * random.choice([-1, 1], aval.shape)
    if jnp.issubdtype(aval.dtype, jnp.integer):
        return jnp.asarray(drawn).astype(aval.dtype)
    drawn = drawn if whole else random.uniform(-0.9, 0.9, aval.shape)
    if jnp.issubdtype(aval.dtype, jnp.complexfloating):
        drawn = drawn + 1j * random.integers(1, 4, aval.shape)
    return jnp.asarray(drawn, aval.dtype)


def is_additive(equation, group, *, whole, seed=0):
    """Whether of two sums, one in each operand of a group, the results are the sum of the results."""
    random = np.random.default_rng(seed)
    avals = [v.aval for v in equation.invars]
    # What is not of the group may be indices or a predicate.
    fixed = [jnp.asarray(random.integers(0, 2, a.shape)).astype(a.dtype)
             if jnp.issubdtype(a.dtype, jnp.integer) else _numbers(random, a, whole) for a in avals]  # fmt: skip
    first, second = ([_numbers(random, a, whole) for a in avals] for _ in range(2))

    def run(values):
        operands = [values[i] if i in group else fixed[i] for i in range(len(avals))]
        results = equation.primitive.bind(*operands, **equation.params)
        return results if equation.primitive.multiple_results else [results]

    results = run(first), run(second), run([a + b for a, b in zip(first, second, strict=True)])
    for a, b, both in zip(*results, strict=True):
        if not jnp.issubdtype(both.dtype, jnp.number):
            return False
        tolerance = 0.0 if jnp.issubdtype(both.dtype, jnp.integer) else 1e-4 * max(1.0, float(jnp.abs(both).max()))
        if not np.allclose(a + b, both, rtol=0, atol=tolerance, equal_nan=False):
            return False
    return True


def _can_be_summed(equation, positions):
    return all(jnp.issubdtype(equation.invars[i].aval.dtype, jnp.number) for i in positions)


def _distinct(name, most=8):
    """Some equations of a primitive, no two with the same shapes, dtypes and parameters, and none of no elements.

    A barrier around several values is taken apart before anything asks for its traits.
    """
    single = (e for e in examples().get(name, ()) if name != "optimization_barrier" or len(e.invars) == 1)
    full = (e for e in single if all(0 not in v.aval.shape for v in (*e.invars, *e.outvars)))
    distinct = {str(([v.aval for v in e.invars], e.params)): e for e in full}
    return list(itertools.islice(distinct.values(), most))


def _later():
    """Primitives that JAX has, but not the installed one yet."""
    version = tuple(int(part) for part in jax.__version__.split(".")[:3])
    return {name for name, first in SINCE.items() if tuple(map(int, first.split("."))) > version}


def _not_covered(name):
    """For each operand that some equation of a primitive is not said to be linear in, those equations."""
    others: dict[int, list] = {}
    for equation in _distinct(name):
        covered = frozenset().union(*TRAITS[name].linear(operation(equation)))
        if any(jnp.issubdtype(v.aval.dtype, jax.dtypes.extended) for v in equation.invars):
            continue
        for position, variable in enumerate(equation.invars):
            if position not in covered and jnp.issubdtype(variable.aval.dtype, jnp.inexact):
                others.setdefault(position, []).append(equation)
    return others


def _is_linear(name):
    """Whether a primitive is said to be linear in something."""
    return any(TRAITS[name].linear(operation(equation)) for equation in _distinct(name))


# What no CPU computes; and nextafter, which moves a number by less than can be told here from nothing.
NOT_TRIED = {"nextafter", "scaled_matmul_wrapper"}


def test_every_primitive_has_examples():
    assert {name for name in TRAITS if not _distinct(name)} == _later()
    named = "add cumsum concatenate dynamic_update_slice gather mul pad ragged_dot_general scatter select_n".split()
    assert all(map(_is_linear, named))
    assert all(map(_not_covered, ("exp", "max", "sort", "div")))


@pytest.mark.share(8)
@pytest.mark.parametrize("name", sorted(TRAITS))
def test_what_is_said_to_be_linear_is(name):
    tested = 0
    for equation in _distinct(name):
        for group in TRAITS[name].linear(operation(equation)):
            if _can_be_summed(equation, group):
                assert is_additive(equation, group, whole=True), (equation, group)
                tested += 1
    assert tested or not _is_linear(name)


@pytest.mark.share(8)
@pytest.mark.parametrize("name", sorted(set(TRAITS) - NOT_TRIED))
def test_nothing_linear_is_left_out(name):
    """In each operand that no set holds some equation of the primitive is not linear."""
    for position, left in _not_covered(name).items():
        drawn = itertools.product(left, range(24))
        assert not all(is_additive(one, {position}, whole=False, seed=seed) for one, seed in drawn), position


@pytest.mark.parametrize("name", sorted(set(TRAITS) & set(RULES)))
def test_planner_lets_through_only_what_is_linear(name):
    """Of what is linear in nothing the planner lets nothing through: it asks for both."""
    tested = 0
    for equation in _distinct(name):
        shapes = [v.aval.shape for v in equation.invars]
        results = tuple(v.aval.shape for v in equation.outvars)
        for uniform, zero in itertools.product((False, True), repeat=2):
            zeros, uniforms = (zero,) * len(shapes), (uniform,) * len(shapes)
            factors = factors_of(operation(equation), Facts(tuple(shapes), results, zeros, uniforms))
            if factors.linear:
                assert factors.through <= frozenset().union(*factors.linear)
                tested += 1
    assert tested or not _is_linear(name)
