"""What a row says beside its line: its pass, how often it runs, and the causes that were found late."""

from __future__ import annotations

import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import meshlab as ml
from meshlab.engine.devices import devices
from meshlab.own.explained import Explained
from meshlab.own.report import Report

pytestmark = pytest.mark.share(2, of="file")


@pytest.fixture(scope="module")
def mesh() -> Mesh:
    return Mesh(np.array(devices(8)).reshape(2, 4), ("data", "model"), axis_types=(AxisType.Auto,) * 2)


def array(mesh: Mesh, shape: tuple[int, ...], *spec, dtype=jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, P(*spec)))


def only(report: Report) -> Explained:
    (row,) = report.collectives
    return row


def test_forward_backward_and_recomputed_rows_are_told_apart(mesh):
    """One line sends the same three times over: in each pass, and once more where it is computed again."""

    def block(x, w):
        return jnp.sin(jnp.sin(x @ w) @ w.T)

    def step(x, w):
        # A loop: XLA for CPUs would take what is computed again for what was computed first.
        return jax.lax.scan(lambda x, w: (jax.checkpoint(block)(x, w), None), x, w)[0].sum()

    x, w = array(mesh, (8, 16), "data"), array(mesh, (3, 16, 16), None, None, "model")
    report = ml.explain(jax.jit(jax.grad(step, argnums=(0, 1))), x, w)
    assert {c.phase for c in report.collectives} == {None, "backward pass", "recomputed under jax.checkpoint"}
    assert all(c.phase is None for c in ml.explain(step, x, w).collectives)
    text = str(report)
    for c in report.collectives:
        assert f"{c.source}  {c.source and c.source.code}" + (f"   ({c.phase})" if c.phase else "") in text
    assert [row["phase"] for row in json.loads(report.to_json())["collectives"]] == [
        c.phase for c in report.collectives
    ]


def test_loops_of_unknown_length_and_branches_say_so(mesh):
    def settled(x):
        return jax.lax.while_loop(lambda c: c[1] < 1e3, lambda c: (jnp.tanh(c[0]), c[1] + c[0].sum()), (x, 0.0))

    x = array(mesh, (32, 32), "data")
    report = ml.explain(settled, x)
    row = only(report)
    assert (row.times, row.counted) == (1, ("each iteration of a loop whose trip count depends on data",))
    head, line, *_ = str(report).splitlines()
    assert head.endswith("in one collective, counting one iteration of each loop whose trip count depends on data")
    assert "B sent, each iteration of a loop whose trip count depends on data   test_rows.py" in line
    assert json.loads(report.to_json())["collectives"][0]["counted"] == list(row.counted)
    known = only(ml.explain(lambda x: jax.lax.fori_loop(0, 3, lambda _, c: c + x.sum(0).sum() * c, 1.0), x))
    assert known.counted == ()

    def chosen(x, flag):
        return jax.lax.cond(flag, lambda x: x.sum(), lambda x: x[0, 0], x)

    branches = ml.explain(chosen, x, jax.ShapeDtypeStruct((), jnp.bool_))
    assert {c.counted for c in branches.collectives} == {("each time its branch is taken",)}
    assert str(branches).splitlines()[0].endswith(", counting every branch")


def test_only_what_is_counted_alike_stands_in_one_row(mesh):
    def total(x):
        return x.sum()

    def chosen(x, flag):
        return jax.lax.cond(flag, total, lambda x: x[0, 0], x) + total(x)

    report = ml.explain(chosen, array(mesh, (32, 32), "data"), jax.ShapeDtypeStruct((), jnp.bool_))
    twice = [c for c in report.collectives if c.source and c.source.code == "return x.sum()"]
    assert len({(c.kind, c.wire_bytes, c.times, c.because, c.started_by) for c in twice}) == 1 < len(twice)
    rows = [line for line in str(report).splitlines() if line.endswith("return x.sum()")]
    assert sorted("its branch is taken" in line for line in rows) == [False, True]


def test_on_a_machine_the_sum_says_both_what_is_counted_and_how_long_it_takes(mesh):
    def settled(x):
        return jax.lax.while_loop(lambda c: c[1] < 1e3, lambda c: (jnp.tanh(c[0]), c[1] + c[0].sum()), (x, 0.0))

    head, row, *_ = str(
        ml.explain(settled, array(mesh, (32, 32), "data"), mesh=ml.mesh("h100:1x8", data=2, model=4))
    ).splitlines()
    assert re.search(
        r"in one collective, counting one iteration of .* depends on data, [\d.]+ µs one after another$", head
    )
    assert re.search(r"B sent, each iteration of a loop whose trip count depends on data, [\d.]+ µs   test_rows", row)
    whole = jax.jit(lambda x: x, out_shardings=NamedSharding(mesh, P()))
    passed = only(ml.explain(whole, array(mesh, (32, 16), "data"), mesh=ml.mesh("h100:1x8", data=2, model=4)))
    assert passed.source is None
    assert passed.seconds


def test_a_scan_along_a_split_axis(mesh):
    def scanned(xs):
        return jax.lax.scan(lambda h, x: (h + x, h), jnp.zeros(8), xs)[0]

    row = only(ml.explain(scanned, array(mesh, (16, 8), "data")))
    assert (row.cause, row.dims) == ("along", ("xs.0",))
    assert row.because == "scan goes along `xs.0`, which is split over data."
    assert row.is_explained


def test_what_comes_in_goes_out_otherwise(mesh):
    whole = NamedSharding(mesh, P())
    row = only(ml.explain(jax.jit(lambda x: x, out_shardings=whole), array(mesh, (32, 16), "data")))
    assert (row.cause, row.value, row.dims, row.source) == ("stored", "x", ("x.0",), None)
    assert row.because == "`out` must come out with `x.0` split otherwise over data than it comes in."
    assert row.is_explained
    twice = ml.explain(
        jax.jit(lambda x: (x, x), out_shardings=NamedSharding(mesh, P("model"))), array(mesh, (8, 8), "data")
    )
    assert {(c.cause, c.value) for c in twice.collectives} == {("stored", "x")}
    both = jax.jit(lambda p, x: (p, x * 2.0, p), out_shardings=(NamedSharding(mesh, P("data")), None, whole))
    row = only(ml.explain(both, array(mesh, (8, 8), "data"), array(mesh, (8, 8))))
    assert (row.cause, row.value) == ("stored", "p")
    assert row.because.startswith("`out/2` must")
    reshaped = jax.jit(lambda x: x.reshape(8, 4, 16), out_shardings=whole)
    assert only(ml.explain(reshaped, array(mesh, (32, 16), "data"))).is_explained


def attention(heads: int):
    def fn(x, w):
        query = (x @ w).reshape(8, heads, -1)
        return jax.nn.softmax(jnp.einsum("bhd,chd->hbc", query, query))

    return fn


def test_heads_that_do_not_divide_are_said(mesh):
    """Six heads on four devices; eight send nothing for it, which shows that it is the cause."""
    args = array(mesh, (8, 48)), array(mesh, (48, 48), None, "model")
    report = ml.explain(attention(6), *args)
    assert {c.cause for c in report.collectives} == {"uneven"}
    assert {c.because.partition(":")[0] for c in report.collectives} == {
        "The 6 that reshape has along `w.1` do not divide by model=4"
    }
    assert not ml.explain(attention(8), *args).collectives
    named = ml.explain(attention(6), *args, names={"w": "embed hidden"})
    assert {c.cause for c in named.collectives} == {"uneven"}


@pytest.mark.parametrize(
    "after",
    [
        lambda heads, whole: jnp.cumsum(heads, 1),
        lambda heads, whole: jnp.tanh(jax.lax.with_sharding_constraint(jnp.tanh(heads), whole)),
        lambda heads, whole: heads[:, ::-1],
    ],
)
def test_what_is_gathered_however_many_heads_there_are_is_not_uneven(mesh, after):
    def fn(heads):
        return lambda x, w: after((x @ w).reshape(8, heads, -1), NamedSharding(mesh, P()))

    args = array(mesh, (8, 48)), array(mesh, (48, 48), None, "model")
    for heads in (6, 8):
        report = ml.explain(fn(heads), *args)
        assert report.collectives
        assert "uneven" not in {c.cause for c in report.collectives}


def test_what_a_constraint_wants_is_said_before_what_does_not_divide(mesh):
    def fn(spec):
        def constrained(x, w):
            heads = (x @ w).reshape(8, 6, -1)
            heads = jax.lax.with_sharding_constraint(heads, NamedSharding(mesh, spec))
            return jax.nn.softmax(jnp.einsum("bhd,chd->hbc", heads, heads))

        return constrained

    args = array(mesh, (8, 48)), array(mesh, (48, 48), None, "model")
    row = only(ml.explain(fn(P()), *args))
    assert row.cause == "constrained"
    assert "wants `heads` whole along" in row.because
    anything = ml.explain(fn(P(*[P.UNCONSTRAINED] * 3)), *args)
    assert {c.cause for c in anything.collectives} == {"uneven"}


def test_where_a_part_goes_on_evenly_nothing_is_uneven(mesh):
    """Two heads of 24 on four devices: each has half of one, and sums what it has of a product along it."""
    report = ml.explain(attention(2), array(mesh, (8, 48)), array(mesh, (48, 48), None, "model"))
    assert report.collectives
    assert "uneven" not in {c.cause for c in report.collectives if c.source and "reshape" in c.source.code}


def test_a_lookup_says_that_it_looks_up(mesh):
    table, tokens = array(mesh, (64, 16), "model"), array(mesh, (8, 16), "data", dtype=jnp.int32)
    row = only(ml.explain(lambda table, tokens: table[tokens], table, tokens, names={"table": "vocab embed"}))
    assert (row.cause, row.dims) == ("looked_up", ("vocab",))
    assert row.because == (
        "gather looks up along `vocab`, which is split over model: each device looks up its part, and they are summed."
    )
