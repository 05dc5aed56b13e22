"""What started a split: as Shardy recorded it, and where it recorded nothing, by dims and mesh axes."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import meshlab as ml
from meshlab.engine.devices import devices
from meshlab.own import shardy
from meshlab.own.compiled import with_numbers
from meshlab.own.jitted import taken
from meshlab.own.known import Found
from meshlab.own.started import Starts
from meshlab.own.subject import subject_of

pytestmark = pytest.mark.share(2, of="file")


@pytest.fixture(scope="module")
def mesh() -> Mesh:
    return Mesh(np.array(devices(8)).reshape(2, 4), ("data", "model"), axis_types=(AxisType.Auto,) * 2)


def array(mesh: Mesh, shape: tuple[int, ...], *spec) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, P(*spec)))


def both(x, y):
    total = (x * 2).sum(0)
    return total, x - y


def test_of_two_arguments_that_are_split_alike_the_one_that_it_came_from(mesh):
    rows = array(mesh, (8, 4), "data")
    (only,) = ml.explain(jax.jit(both), rows, rows).collectives
    assert only.started_by == ("`x` came in as P('data')",)


def test_of_many_the_first_are_printed_and_how_many_more(mesh):
    rows = array(mesh, (8, 4), "data")
    report = ml.explain(jax.jit(both), rows, rows)
    many = dataclasses.replace(
        report.collectives[0], started_by=tuple(f"`x{i}` came in as P('data')" for i in range(5))
    )
    printed = str(dataclasses.replace(report, collectives=(many,)))
    assert printed.count("started by") == 3
    assert printed.endswith("and by 2 more")


def test_without_records_all_that_is_split_alike(mesh):
    rows = array(mesh, (8, 4), "data")
    subject = subject_of(with_numbers(taken(jax.jit(both), (rows, rows), mesh)))
    x = subject.code.block.inputs[0]
    started = Starts(subject, None).of([Found("x.0", x, ("data",))], ("data",))
    assert started == ("`x` came in as P('data')", "`y` came in as P('data')")


def test_through_loops_and_calls(mesh):
    """A loop over layers, with a call in it: the weights inside came in with the stack outside."""
    half = jax.jit(lambda h: h / 2)

    def step(w, x):
        def layer(h, w):
            h = half(jnp.tanh(h @ w))
            return h, None

        return jax.lax.scan(layer, x, w)[0]

    stack, rows = array(mesh, (3, 16, 16), None, "model"), array(mesh, (8, 16), "data")
    collectives = ml.explain(jax.jit(step), stack, rows).collectives
    assert {c.times for c in collectives} == {3}
    assert {c.started_by for c in collectives} == {("`w` came in as P(None, 'model')",)}


def test_a_constraint_and_a_result(mesh):
    columns = NamedSharding(mesh, P("data", "model"))

    def step(x, w):
        hidden = jax.lax.with_sharding_constraint(x @ w, columns)
        return jnp.cumsum(hidden, axis=1)

    (only,) = ml.explain(jax.jit(step), array(mesh, (8, 16), "data"), array(mesh, (16, 16))).collectives
    (started,) = only.started_by
    assert started.startswith("the constraint P('data', 'model') at test_started.py:")

    def rows_and_sums(x):
        rows = jnp.tanh(x)
        return rows, rows.sum(1)

    asked = NamedSharding(mesh, P(None, "model")), NamedSharding(mesh, P())
    (only,) = ml.explain(jax.jit(rows_and_sums, out_shardings=asked), array(mesh, (8, 16))).collectives
    assert only.started_by == ("`out/0` is asked to come out as P(None, 'model')",)


def test_what_is_taken_away_takes_the_collective_with_it(mesh):
    """What an explanation names is what starts it: without that, and with all else, nothing is sent."""
    split, whole = array(mesh, (16, 16), "model"), array(mesh, (16, 16))
    product = jax.jit(lambda x, w, u: (jnp.tanh(x @ w), x + u))
    (only,) = ml.explain(product, array(mesh, (8, 16), "data"), split, array(mesh, (8, 16), "data")).collectives
    assert only.started_by == ("`w` came in as P('model')",)
    assert not ml.explain(product, array(mesh, (8, 16), "data"), whole, array(mesh, (8, 16), "data")).collectives


def test_this_version_of_xla_has_the_passes(mesh, monkeypatch):
    """Their names are XLA's own. Where they go, so do the records, and no error is raised."""

    def lowered():
        return jax.jit(both).lower(*[array(mesh, (8, 4), "data")] * 2)

    records = shardy.recorded(lowered())
    assert records is not None
    assert {record.origins["data"] for record in records.values} == {"input: 0"}
    assert shardy.Records.from_dict(records.to_dict()) == records
    monkeypatch.setattr(shardy, "_REST", ("sdy-no-such-pass",))
    assert shardy.recorded(lowered()) is None
