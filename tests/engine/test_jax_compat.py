"""What is read of JAX beyond its documented surface: one test each, on whatever JAX is installed.

`make newest` and `make oldest` run this file too: where a new JAX breaks a test here, `jax_compat.py` is what to mend.
"""

import os
import pathlib
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import meshlab
from meshlab.engine import jax_compat, jax_programs, own_primitives
from meshlab.engine.code.operations import walk
from meshlab.engine.devices import QUICK_COMPILES
from meshlab.engine.jax_compat import opened
from meshlab.engine.rules.table import RULES

V = jnp.arange(4.0)


def equations(fn, *args):
    return opened(jax.make_jaxpr(fn)(*args)).equations


def the(name, fn, *args):
    """The one equation of a primitive that a function is traced to."""
    (result,) = (e for e in equations(fn, *args) if e.primitive.name == name)
    return result


def names(jaxpr):
    return [equation.primitive.name for equation in opened(jaxpr).equations]


# Jaxprs


def test_a_jaxpr_is_opened_with_its_constants():
    table = np.arange(4000, dtype=np.float32).reshape(1000, 4)
    jaxpr = opened(jax.make_jaxpr(lambda x, y: jnp.asarray(table)[3] + x * y)(V, V))
    ((variable, constant),) = jaxpr.constants
    assert np.array_equal(constant, table)
    assert [v.aval.shape for v in jaxpr.invars] == [(4,), (4,)]
    assert any(variable in equation.invars for equation in jaxpr.equations)
    assert jaxpr.outvars == list(jaxpr.equations[-1].outvars)


def test_a_jaxpr_inside_an_equation_is_opened_alike():
    inside = opened(jax_compat.call(the("jit", jax.jit(lambda x: jnp.sin(x) * 2), V)))
    assert [e.primitive.name for e in inside.equations] == ["sin", "mul"]
    assert len(inside.invars) == len(inside.outvars) == 1


def test_only_what_is_needed_is_kept():
    table = np.ones((1000, 4), np.float32)

    def fn(x, y):
        def turn(carry, row):
            return (carry[0] + row, carry[1] * 2), carry[1]

        (remaining, _), _ = lax.scan(turn, (x, y), jnp.asarray(table))
        return remaining, jnp.sin(y)

    closed = jax.make_jaxpr(fn)(V, V)
    result = opened(jax_compat.needed(closed, [True, False]))
    assert [e.primitive.name for e in result.equations] == ["scan"]
    assert jax_compat.carries(result.equations[0]) == 1
    assert len(result.equations[0].outvars) == 1
    assert len(result.invars) == 2
    assert len(result.outvars) == 1
    assert [np.asarray(c).shape for _, c in result.constants] == [(1000, 4)]
    assert len(opened(jax_compat.needed(closed, [True, True])).outvars) == 2


def test_an_equation_is_changed_and_the_one_before_stays():
    add = the("add", lambda x, y: x + y, V, V)
    turned = jax_compat.changed(add, invars=add.invars[::-1], params={"note": 1})
    assert turned.invars == add.invars[::-1]
    assert turned.params == {"note": 1}
    assert add.params == {}
    assert turned.primitive is add.primitive
    assert turned.outvars == add.outvars


def test_effects_are_seen():
    prints = equations(lambda x: jax.debug.print("{x}", x=x) or x + 1, V)
    assert [jax_compat.has_effects(e) for e in prints] == [e.primitive.name != "add" for e in prints]
    assert any(map(jax_compat.has_effects, prints))


def test_an_abstract_value_gets_another_shape():
    aval = opened(jax.make_jaxpr(lambda x: x)(V)).invars[0].aval
    other = jax_compat.with_shape(aval, [2, 3])
    assert other.shape == (2, 3)
    assert other.dtype == aval.dtype


# Equations with jaxprs inside


@jax.custom_jvp
def doubled(x):
    return x * 2


@jax.custom_vjp
def halved(x):
    return x / 2


@jax.custom_vjp
def turned(x):
    return jnp.sin(x)


doubled.defjvp(lambda x, t: (doubled(*x), t[0] * 2))
halved.defvjp(lambda x: (x / 2, None), lambda _, g: (g / 2,))
turned.defvjp(lambda x: (jnp.sin(x), jnp.cos(x)), lambda slope, g: (g * slope,), optimize_remat=True)


def forward(x):
    """Of which nothing reads what the backward pass would need: a `closed_call`, or `eval_jaxpr` since JAX 0.12."""
    return jax.vjp(turned, x)[0]


@pytest.mark.parametrize(
    ("fn", "inside", "cached"),
    [
        (jax.jit(lambda x: x + 1), ["add"], True),
        (doubled, ["mul"], True),
        (halved, ["div"], True),
        (forward, ["sin"], False),
        (lambda x: jax.vjp(turned, x)[1](x)[0], ["cos"], False),
    ],
    ids=["jit", "custom_jvp", "custom_vjp", "closed_call", "remat_opt"],
)
def test_calls_are_seen_through(fn, inside, cached):
    call = opened(jax_compat.needed(jax.make_jaxpr(fn)(V), [True])).equations[0]
    assert names(jax_compat.call(call)) == inside
    assert jax_compat.is_cached(call) == cached
    assert jax_compat.is_ruled(call) == (fn in (doubled, halved))
    assert np.allclose(meshlab.trace(fn, V).plan(meshlab.mesh(a=1), {}).run(V), jax.jit(fn)(V))


def test_what_is_no_call_has_no_jaxpr_to_see_through():
    scan = the("scan", lambda x: lax.scan(lambda c, _: (c * 2, None), x, None, length=3)[0], V)
    assert jax_compat.call(scan) is None
    assert jax_compat.call(the("sin", jnp.sin, V)) is None
    assert jax_compat.nested(the("sin", jnp.sin, V)) is None


def inside(equation):
    result = jax_compat.nested(equation)
    assert result is not None
    return result


def scanned(x, rows):
    """One constant, one carry, two stacks that come in and three that go out."""
    shift = x + 1

    def turn(carry, row):
        new = carry * row[0] + shift + row[1]
        return new, (new, row[0] * 2, carry)

    return lax.scan(turn, x, rows, reverse=True, unroll=2)


def test_a_scan_says_what_it_carries():
    rows = (jnp.ones((6, 4)), jnp.ones((6, 4)))
    scan = the("scan", scanned, V, rows)
    result = inside(scan)
    (body,) = result.bodies
    assert jax_compat.carries(scan) == 1
    assert [v.aval.shape for v in scan.invars[result.inputs]] == [(4,), (6, 4), (6, 4)]
    assert [v.aval.shape for v in scan.invars[body.constants]] == [(4,)]
    assert len(opened(body.jaxpr).invars) == 4
    assert len(opened(body.jaxpr).outvars) == 4
    assert jax_compat.scan_options(scan) == {"length": 6, "reverse": True, "unroll": 2}


def test_the_scan_of_a_backward_pass_says_it_too():
    rows = (jnp.ones((6, 4)), jnp.ones((6, 4)))
    backward = [e for e in equations(jax.grad(lambda x: scanned(x, rows)[0].sum()), V) if e.primitive.name == "scan"]
    for scan in backward:
        result = inside(scan)
        carried = scan.invars[result.inputs][: jax_compat.carries(scan)]
        assert [v.aval.shape for v in carried] == [v.aval.shape for v in scan.outvars[: len(carried)]]
        stacks = (*scan.invars[result.inputs][len(carried) :], *scan.outvars[len(carried) :])
        assert {v.aval.shape[0] for v in stacks} == {6}
    assert len(backward) == 2


def test_a_while_has_a_body_and_a_test():
    equation = the("while", lambda x, most: lax.while_loop(lambda c: c.sum() < most.sum(), lambda c: c * most, x), V, V)
    result = inside(equation)
    body, test = result.bodies
    assert names(body.jaxpr) == ["mul"]
    assert names(test.jaxpr)[-1] == "lt"
    assert len(equation.invars[result.inputs]) == 1
    assert [len(equation.invars[b.constants]) for b in result.bodies] == [1, 1]


def test_a_cond_has_branches():
    equation = the("cond", lambda x: lax.cond(x.sum() > 0, jnp.sin, lambda y: y * x, x), V)
    result = inside(equation)
    assert [names(body.jaxpr) for body in result.bodies] == [["mul"], ["sin"]]
    assert [v.aval.shape for v in equation.invars[result.inputs]] == [()]
    assert all(equation.invars[body.constants] == equation.invars[1:] for body in result.bodies)


@pytest.mark.parametrize("prevent", [True, False])
def test_a_recomputed_piece_says_whether_it_needs_a_barrier(prevent):
    piece = jax.checkpoint(lambda x: jnp.sin(jnp.sin(x)), prevent_cse=prevent)
    (equation,) = (e for e in equations(jax.grad(lambda x: piece(x).sum()), V) if e.primitive.name in jax_compat.REMAT)
    result = inside(equation)
    assert jax_compat.is_barrier(equation) == prevent
    assert equation.invars[result.inputs] == equation.invars
    assert equation.invars[result.bodies[0].constants] == []
    assert "cos" in names(result.bodies[0].jaxpr)


def test_own_parameters_are_those_that_say_what_runs():
    first, second = (the("scan", scanned, V, (jnp.ones((6, 4)),) * 2) for _ in range(2))
    assert jax_compat.own_params(first) == {"length": 6, "reverse": True, "unroll": 2, "carries": 1}
    assert jax_compat.own_params(first) == jax_compat.own_params(second)
    assert jax_compat.own_params(the("reduce_sum", lambda x: x.sum(), V))["axes"] == (0,)


def test_what_solves_a_linear_system_is_found():
    def solve(matrix, right):
        return lax.custom_linear_solve(lambda x: matrix @ x, right, lambda _, b: b / jnp.diag(matrix), symmetric=True)

    equation = the("custom_linear_solve", solve, jnp.eye(4), V)
    jaxpr, reads = jax_compat.solver(equation)
    assert names(jaxpr)[-1] == "div"
    assert len(reads) == len(opened(jaxpr).invars)
    assert reads[-1] == len(equation.invars) - 1


def test_the_function_of_a_reduction_is_found():
    equation = the("reduce_window", lambda x: lax.reduce_window(x, 3.0, lambda a, b: a * b + 1, (2,), (2,), "VALID"), V)
    assert [e.primitive.name for e in jax_compat.reducer(equation).equations] == ["mul", "add"]


def cut(x):
    return jnp.searchsorted(V, x)  # the line of all that this is made of


def test_what_stands_for_other_operations_is_expanded():
    """Since JAX 0.12 `searchsorted` is one operation; before, it is a call of those that it is made of."""
    program = meshlab.trace(jax.vmap(cut), jnp.array([0.5, 2.5, 9.0]))
    everything = list(walk(program.code.block))
    assert all(operation.name in RULES or operation.blocks for operation in everything)
    assert {str(op.source and op.source.code).partition("  #")[0] for op in everything} == {
        "return jnp.searchsorted(V, x)"
    }
    assert program.plan(meshlab.mesh(a=1), {}).run(jnp.array([0.5, 2.5, 9.0])).tolist() == [1, 3, 4]
    assert jax_compat.expanded(the("sin", jnp.sin, V)) is None


# Primitives of our own

scaled_p = own_primitives.linear_primitive(
    "scaled",
    lambda x, *, by, axis: x * by,
    transpose=lambda params: params | {"by": params["by"] * 10},
    batch=lambda params, position: params | {"axis": params["axis"] + (position <= params["axis"])},
)


def scaled(x, axis=0):
    return scaled_p.bind(x, by=2.0, axis=axis)


def test_a_primitive_of_our_own_runs_and_is_differentiated_and_batched():
    assert np.array_equal(scaled(V), V * 2)
    assert np.array_equal(jax.jit(scaled)(V), V * 2)
    assert np.array_equal(jax.jvp(scaled, (V,), (V,))[1], V * 2)
    assert np.array_equal(jax.grad(lambda x: scaled(x).sum())(V), jnp.full(4, 20.0))
    batched = the("scaled", jax.vmap(scaled, in_axes=0), jnp.ones((3, 4)))
    assert batched.params["axis"] == 1
    assert batched.outvars[0].aval.shape == (3, 4)


# Settings, keys, devices


def test_settings_are_read():
    # 8 (tests/conftest.py), or more where a test of this process has asked for more.
    assert jax_compat.setting("jax_num_cpu_devices") == len(jax.devices()) >= 8
    assert jax_compat.setting("jax_platforms") == "cpu"
    assert jax_compat.setting("jax_threefry_partitionable") is True
    with jax.threefry_partitionable(False):
        assert jax_compat.setting("jax_threefry_partitionable") is False


@pytest.mark.parametrize(("generator", "known"), [("threefry2x32", True), ("rbg", False), ("unsafe_rbg", False)])
def test_the_generator_shows_in_the_dtype_of_keys(generator, known):
    dtype = jax.random.key(0, impl=generator).dtype
    assert jax_compat.is_threefry(dtype) == known
    assert jax.random.key(0, impl=jax_compat.generator(dtype)).dtype == dtype
    assert not jax_compat.is_threefry(jnp.dtype("uint32"))


def test_an_array_is_held_to_its_order_in_memory():
    text = jax.jit(lambda x: jax_compat.in_memory_order(x.T)).lower(jnp.ones((3, 4))).as_text()
    assert "LayoutConstraint" in text
    assert np.array_equal(jax.jit(jax_compat.in_memory_order)(V), V)


def test_devices_that_are_not_there_need_a_compiler():
    with pytest.raises(Exception, match=r"nowhere"):
        jax_compat.absent_devices("nowhere", topology_name="v5e:4x4")


def test_the_flags_for_quick_compiles_are_known():
    code = "import jax; print(jax.jit(lambda x: x + 1)(1.0))"
    environment = os.environ | {"XLA_FLAGS": QUICK_COMPILES}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "2.0"


# The rule


BEYOND = {pathlib.Path(str(module.__file__)) for module in (jax_compat, jax_programs, own_primitives)}
SOURCES = sorted(set(pathlib.Path(meshlab.__file__).parent.rglob("*.py")) - BEYOND)
UNSTABLE = re.compile(
    r"jax\.interpreters|jax\.experimental|config\.values|source_info|name_stack|debug_info|func_src_info"
    r"|key<|num_consts|num_carry|_nconsts|const_lengths|call_jaxpr|\bft_(in|out)\b|\.eqns\b|getattr\([^)]*jaxpr"
    r"|\.consts\b|\.constvars\b|equation\.replace|jaxpr\.replace|closed\.replace|dce_jaxpr|\.effects\b"
)


def test_only_these_modules_read_beyond_the_documented_surface():
    code = {source: re.sub(r'""".*?"""', "", source.read_text(), flags=re.DOTALL) for source in SOURCES}
    assert len(code) > 300
    assert not {source.name: found for source, text in code.items() if (found := UNSTABLE.findall(text))}
