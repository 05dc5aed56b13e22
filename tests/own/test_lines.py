"""Lines that mend a program: those of the report send less as compiled, and change no result."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import meshlab as ml
from meshlab.engine.devices import devices
from meshlab.models import zoo
from meshlab.own.lines import _fewest
from meshlab.own.naming.errors import OwnError

pytestmark = pytest.mark.share(2, of="file")


@pytest.fixture(scope="module")
def mesh() -> Mesh:
    return Mesh(np.array(devices(8)).reshape(2, 4), ("data", "model"), axis_types=(AxisType.Auto,) * 2)


def test_one_line_keeps_the_batch_split_and_results_are_equal():
    """FSDP of a small transformer: 231,424 bytes by XLA alone, 120,420 with every value constrained by hand."""
    model = next(model for model in zoo.models() if model.name == "transformer_sgd")
    program, on = model.trace(), ml.mesh(data=2, model=4)
    inputs, outputs = program.plan(on, ml.layouts.fsdp(program, on, data="data")).shardings
    report = ml.explain(jax.jit(model.step, in_shardings=inputs, out_shardings=outputs), *model.shapes)
    lines = report.lines
    assert lines.before.sent == report.wire_bytes
    assert lines.after.sent <= 0.53 * lines.before.sent
    (line,) = lines.lines
    assert line.code == "x = jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P('data', None, None)))"
    assert line.saves.sent == lines.before.sent - lines.after.sent
    assert str(lines).startswith("1 line: a device sends")
    arguments = model.data(0)
    expected = jax.tree.leaves(jax.jit(model.step)(*arguments))
    for mine, theirs in zip(jax.tree.leaves(report.apply()(*arguments)), expected, strict=True):
        np.testing.assert_allclose(np.asarray(mine), np.asarray(theirs), rtol=2e-4, atol=2e-5)
    with pytest.raises(OwnError, match="explained with other arguments"):
        report.apply()()


def test_a_line_holds_all_that_it_assigns_each_time_it_runs(mesh):
    """A helper that is called twice, and a tree: a line that was tried on one of them alone was false, or not found."""

    def looked_up(table, tokens):
        rows = jnp.tanh(table[tokens])
        return rows

    def step(one, two, tokens, up):
        hidden = {"a": looked_up(one, tokens) @ up, "b": looked_up(two, tokens) @ up}
        return jax.tree.map(jnp.tanh, hidden)

    def array(shape, *spec, dtype=jnp.float32):
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, P(*spec)))

    table, tokens = array((512, 64), None, "data"), array((32, 64), "data", dtype=jnp.int32)
    report = ml.explain(jax.jit(step), table, table, tokens, array((64, 256), None, "model"))
    assert report.lines.after.sent < 0.7 * report.lines.before.sent
    assert max(len(line.candidate.numbers) for line in report.lines.lines) == 2


def test_a_line_is_tried_on_what_it_names(mesh):
    """The product was constrained, and `hidden = with_sharding_constraint(hidden, …)` shown, which is another array."""

    def squashed(x):
        return jnp.tanh(x)

    def lookup(table, tokens, up):
        hidden = squashed(table[tokens] @ up)
        return hidden

    def array(shape, *spec, dtype=jnp.float32):
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, P(*spec)))

    tokens, up = array((32, 64), "data", dtype=jnp.int32), array((64, 256), None, "model")
    assert ml.explain(lookup, array((512, 64), None, "data"), tokens, up).lines.lines == ()


def cube(mesh: Mesh, *spec) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((8, 16, 32), jnp.float32, sharding=NamedSharding(mesh, P(*spec)))


def test_a_constraint_that_moves_two_axes_is_reached_by_a_spec_between(mesh):
    """Written into the function, the line sends what the report says."""

    after = NamedSharding(mesh, P(None, ("model", "data")))

    def moving(between: P | None):
        def moved(a, b):
            total = a + b
            total = total if between is None else jax.lax.with_sharding_constraint(total, NamedSharding(mesh, between))
            rows = jax.lax.with_sharding_constraint(total, after)
            return rows * 2

        return jax.jit(moved, out_shardings=after)

    given = cube(mesh, "data", None, "model")
    lines = ml.explain(moving(None), given, given).lines
    (line,) = lines.lines
    assert line.code == "total = jax.lax.with_sharding_constraint(total, NamedSharding(mesh, P('data', 'model', None)))"
    assert lines.after.sent < 0.2 * lines.before.sent
    assert ml.explain(moving(line.candidate.spec), given, given).wire_bytes == lines.after.sent


def test_a_constraint_that_asks_for_too_much_is_mended_wherever_it_runs(mesh):
    """Its transpose in the backward pass asks for the same, and changes with the line."""

    def with_hidden(spec: P):
        def loss(up, down, x):
            hidden = jnp.tanh(x @ up)
            hidden = jax.lax.with_sharding_constraint(hidden, NamedSharding(mesh, spec))
            return ((hidden @ down) ** 2).mean()

        return jax.grad(loss, argnums=(0, 1))

    def array(shape, *spec):
        return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, P(*spec)))

    given = array((16, 64), None, "model"), array((64, 16), "model"), array((32, 16), "data")
    report = ml.explain(with_hidden(P()), *given)
    (line,) = report.lines.lines
    assert line.code == "P('data', 'model') in place of P()"
    assert str(line.where).startswith("in the constraint on `hidden` at test_lines.py:")
    assert report.lines.after.sent < report.lines.before.sent
    assert ml.explain(with_hidden(line.candidate.spec), *given).wire_bytes == report.lines.after.sent
    changed = report.apply()(*(jnp.ones(each.shape) for each in given))
    plain = jax.jit(with_hidden(P()))(*(jnp.ones(each.shape) for each in given))
    for mine, theirs in zip(changed, plain, strict=True):
        np.testing.assert_allclose(np.asarray(mine), np.asarray(theirs), rtol=1e-5)


def test_where_no_line_helps_that_is_said(mesh):
    def project(x, w):
        hidden = x @ w
        return hidden

    def array(*spec):
        return jax.ShapeDtypeStruct((16, 16), jnp.float32, sharding=NamedSharding(mesh, P(*spec)))

    lines = ml.explain(project, array(None, "model"), array("model")).lines
    assert lines.lines == ()
    assert lines.after.sent == lines.before.sent
    assert str(lines) == f"No line was found that reduces the traffic of a device below {round(lines.before.sent):,} B."


@pytest.mark.parametrize("needed", [{3}, {0}, {7}, {2, 5}, {0, 1, 7}, set(range(8))])
def test_the_fewest_of_some_numbers(needed):
    asked = []

    def enough(numbers):
        asked.append(numbers)
        return needed <= set(numbers)

    assert set(_fewest(list(range(8)), (), enough)) == needed
    assert len(needed) > 1 or len(asked) <= 6
