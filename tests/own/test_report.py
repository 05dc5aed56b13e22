"""Programs of the user's own `jax.jit`: what is explained is their program, and what is said of it is so."""

from __future__ import annotations

import functools
import json
import re
import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import meshlab as ml
from meshlab.engine.devices import compiler_options, devices
from meshlab.engine.verifying.hlo import read_collectives, totals
from meshlab.models import zoo
from meshlab.own.naming.errors import OwnError
from meshlab.own.report import Report

AXES = {"data": 2, "model": 4}


@pytest.fixture(scope="module")
def mesh() -> Mesh:
    return Mesh(np.array(devices(8)).reshape(2, 4), tuple(AXES), axis_types=(AxisType.Auto,) * 2)


def array(mesh: Mesh, shape: tuple[int, ...], *spec: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32, sharding=NamedSharding(mesh, P(*spec)))


def sums(report: Report) -> dict:
    """Payload bytes by kind and axes, as `totals` gives those of a compiled program."""
    found: dict = {}
    for c in report.collectives:
        found[c.kind, c.axes] = found.get((c.kind, c.axes), 0) + c.payload_bytes * c.times
    return found


def layer(x, w):
    return jnp.tanh(x @ w), None


def step(w, x):
    loss = lambda w: (jax.lax.scan(layer, x, w)[0] ** 2).sum()  # noqa: E731
    return w - 0.1 * jax.grad(loss)(w)


def test_a_product_that_sums_what_is_split(mesh):
    def project(x, w):
        hidden = x @ w
        return hidden * 2.0

    report = ml.explain(jax.jit(project), array(mesh, (8, 16), None, "model"), array(mesh, (16, 4), "model"))
    (only,) = report.collectives
    assert (only.kind, only.axes, only.payload_bytes, only.times) == ("all-reduce", ("model",), 8 * 4 * 4, 1)
    assert only.source is not None
    assert only.source.code == "hidden = x @ w"
    assert only.dims == ("x.1",)
    assert only.because == "dot_general sums `x.1` of `x` and `w`, split over model."
    assert only.started_by == ("`x` came in as P(None, 'model')", "`w` came in as P('model')")
    assert report.wire_bytes == pytest.approx(2 * 3 / 4 * 8 * 4 * 4)
    # What is named goes with what started it.
    assert not ml.explain(jax.jit(project), array(mesh, (8, 16)), array(mesh, (16, 4))).collectives


def test_the_program_is_the_users_and_a_loop_s_collectives_count_each_time(mesh):
    shardings = NamedSharding(mesh, P(None, "data")), NamedSharding(mesh, P("data"))
    jitted = jax.jit(step, in_shardings=shardings, out_shardings=shardings[0], keep_unused=True)
    args = jax.ShapeDtypeStruct((3, 16, 16), jnp.float32), jax.ShapeDtypeStruct((8, 16), jnp.float32)
    report = ml.explain(jitted, *args)
    compiled = jitted.lower(*args).compile(compiler_options=compiler_options("cpu")).as_text()
    assert sums(report) == totals(read_collectives(compiled, AXES, unknown_trips=1))
    assert {c.times for c in report.collectives} == {3}
    assert all(c.is_explained for c in report.collectives)
    assert [c.wire_bytes * c.times for c in report.collectives] == sorted(
        (c.wire_bytes * c.times for c in report.collectives), reverse=True
    )


def test_names_are_the_users_where_they_are_given(mesh):
    args = array(mesh, (8, 16), "data"), array(mesh, (16, 4))
    report = ml.explain(lambda x, w: (x @ w).sum(), *args, names={"x": "batch embed", "w*": "embed _"})
    assert [c.dims for c in report.collectives] == [("batch",)]


def test_names_come_with_flax_s_metadata_and_with_named_tensors(mesh):
    nn = pytest.importorskip("flax.linen")
    kernel = nn.with_partitioning(nn.initializers.lecun_normal(), ("embed", "hidden"))
    model = nn.Dense(16, kernel_init=kernel)
    x = array(mesh, (8, 16), None, "model")
    weights = jax.eval_shape(model.init, jax.random.key(0), jnp.ones((8, 16)))
    (only,) = ml.explain(jax.jit(model.apply), weights, x).collectives
    assert (only.cause, only.dims) == ("summed", ("embed",))
    Batch, Embed = ml.dims(batch=8, embed=16)
    jitted = jax.jit(lambda x: x.sum(Embed), in_shardings=x.sharding)
    assert [c.dims for c in ml.explain(jitted, ml.f32[Batch, Embed]).collectives] == [("embed",)]
    # Names that do not fit the program are left out, for nobody gave them.
    Rows, Cols = ml.dims(rows=8, cols=8)
    square = jax.jit(lambda x: (x.array + x.array.T).sum(), in_shardings=array(mesh, (8, 8), "data").sharding)
    dims = {dim for c in ml.explain(square, ml.f32[Rows, Cols]).collectives for dim in c.dims}
    assert dims
    assert dims <= {"x.0", "x.1"}


def test_what_stands_in_the_program_itself_is_read(mesh):
    """Constraints, static arguments, donated ones, results of arguments, and a tree of them."""

    @functools.partial(jax.jit, static_argnums=2, donate_argnums=0)
    def fn(weights, x, times):
        x = jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P("data", "model")))
        for _ in range(times):
            x = x @ weights["w"]
        return weights, x

    report = ml.explain(fn, {"w": jax.ShapeDtypeStruct((16, 16), jnp.float32)}, np.ones((8, 16), np.float32), 1)
    assert report.collectives
    assert {c.source.code for c in report.collectives if c.source} <= {'x = x @ weights["w"]'}
    assert report.axes == AXES


def test_a_constraint_is_told_that_started_it(mesh):
    def fn(x, w):
        hidden = jax.lax.with_sharding_constraint(jnp.tanh(x), NamedSharding(mesh, P(None, "model")))
        return hidden @ w

    (only,) = ml.explain(jax.jit(fn), array(mesh, (8, 16)), array(mesh, (16, 4))).collectives
    (started,) = only.started_by
    assert re.fullmatch(r"the constraint P\(None, 'model'\) at test_report\.py:\d+", started)


def test_a_constraint_that_has_a_value_gathered_is_named(mesh):
    """Of an argument, as under FSDP by hand, and of a value behind a call and another constraint."""

    def gathered(x, w):
        w = jax.lax.with_sharding_constraint(w, NamedSharding(mesh, P()))
        return jnp.tanh(x @ w)

    def twice(x, w):
        total = jax.lax.with_sharding_constraint(jnp.cumsum(x, 1), NamedSharding(mesh, P("data")))
        total = jax.lax.with_sharding_constraint(total, NamedSharding(mesh, P()))
        return total @ w

    for fn, name, dim, line in ((gathered, "w", "x.1", "w = "), (twice, "total", "x.0", "total = ")):
        args = (
            array(mesh, (8, 16), *(() if fn is gathered else ("data",))),
            array(mesh, (16, 4), *("data",) * (fn is gathered)),
        )
        (only,) = ml.explain(jax.jit(fn), *args).collectives
        assert (only.kind, only.cause, only.dims) == ("all-gather", "constrained", (dim,))
        assert only.source is not None
        assert only.source.code.startswith(f"{line}jax.lax.with_sharding_constraint({line[:-3]}")
        assert re.fullmatch(
            rf"`{name}` is split along `{dim}` over data, and the constraint P\(\) at test_report\.py:\d+ wants it"
            rf" whole along `{dim}`: it is gathered\.",
            only.because,
        )


def test_arrays_that_are_split_in_several_ways_are_told_apart(mesh):
    def meet(x, y):
        total = x + y
        return total

    (only,) = ml.explain(jax.jit(meet), array(mesh, (8, 8), "data"), array(mesh, (8, 8), None, "data")).collectives
    assert only.because == (
        "The arrays of add are split in several ways, `x` and `out` along `x.0` over data, `y` along `x.1` over data:"
        " one is moved."
    )


def test_what_devices_send_by_hand_is_the_users_own(mesh):
    @functools.partial(jax.shard_map, mesh=mesh, in_specs=P("data"), out_specs=P())
    def summed(x):
        return jax.lax.psum(x, "data")

    (only,) = ml.explain(lambda x: summed(x) * 2.0, array(mesh, (8, 16), "data")).collectives
    assert only.cause == "manual"
    assert only.because == "It is your own: shard_map says what each device sends."


def test_explicit_axes_are_kept():
    mesh = Mesh(np.array(devices(8)).reshape(2, 4), tuple(AXES), axis_types=(AxisType.Explicit,) * 2)
    with jax.set_mesh(mesh):
        report = ml.explain(
            lambda x, w: jnp.einsum("bd,df->bf", x, w, out_sharding=P("data", None)),
            array(mesh, (8, 16), "data", "model"),
            array(mesh, (16, 8), "model"),
        )
    assert [(c.kind, c.axes, c.cause) for c in report.collectives] == [("all-reduce", ("model",), "summed")]


def test_random_keys_come_in(mesh):
    noisy = lambda key, x: (x + jax.random.normal(key, x.shape)).sum()  # noqa: E731
    report = ml.explain(jax.jit(noisy), jax.random.key(0), array(mesh, (8, 16), "data"))
    assert [c.dims for c in report.collectives] == [("x.0",)]


def test_what_goes_along_a_split_axis(mesh):
    report = ml.explain(lambda x: jnp.cumsum(x, 0), array(mesh, (8, 16), "data"))
    assert [c.cause for c in report.collectives] == ["along"]


def test_what_is_split_and_read_whole_is_said_so(mesh):
    """A transform along a split axis: XLA gathers what a product made, and names the product."""

    def fn(x, w):
        made = x @ w
        return jnp.abs(jnp.fft.rfft(made, axis=1))

    report = ml.explain(jax.jit(fn), array(mesh, (8, 16)), array(mesh, (16, 32), None, "model"))
    (only,) = report.collectives
    assert (only.kind, only.dims) == ("all-gather", ("w.1",))
    assert "split over model" in only.because
    assert only.cause in ("made", "along")


def test_a_result_that_is_asked_for_otherwise(mesh):
    jitted = jax.jit(lambda x: x * 2.0, out_shardings=NamedSharding(mesh, P()))
    (only,) = ml.explain(jitted, array(mesh, (8, 16), "data")).collectives
    assert (only.kind, only.dims) == ("all-gather", ("x.0",))
    assert (
        only.because
        == "`x` is split along `x.0` over data, and `out` has to come out whole along `x.0`: it is gathered."
    )


def test_a_report_is_a_table_and_json(mesh):
    report = ml.explain(lambda x: x.sum(), array(mesh, (8, 16), "data"))
    assert str(report).startswith(
        "`<lambda>` on data=2 model=4, as XLA compiles it: a device sends 4 B in one collective"
    )
    read = json.loads(report.to_json())
    assert read["mesh"] == AXES
    assert [row["because"] for row in read["collectives"]] == [c.because for c in report.collectives]
    assert str(ml.explain(lambda x: x * 2, array(mesh, (8, 16), "data"))).endswith("It has no collectives.")


def test_collectives_of_one_reason_are_one_row(mesh):
    cut = jax.jit(
        lambda x, w: jnp.split(x @ w, 3, axis=1), in_shardings=(None, array(mesh, (16, 48), None, "model").sharding)
    )
    report = ml.explain(cut, np.ones((8, 16), np.float32), np.ones((16, 48), np.float32))
    heads = [line for line in str(report).splitlines()[1:] if " sent" in line]
    assert len(heads) < len(report.collectives)
    row = re.match(
        r"  (\d+) collective-permutes over model, ([\d,]+) B sent \(([\d,]+) B × (\d+)\)   test_report", heads[0]
    )
    assert row is not None
    count, sent, each, times = (int(number.replace(",", "")) for number in row.groups())
    assert (count, sent) == (times, each * times)


@pytest.mark.parametrize(
    ("fn", "arguments", "keywords", "says"),
    [
        (lambda x: x, [()], {}, "No sharding names a mesh"),
        (lambda x: x @ x[1:], [("data",)], {}, "could not be traced: TypeError"),
        (lambda x: x.sum(), [("data",)], {"names": {"y*": "a b"}}, "names has 'y*', which matches no argument"),
        (lambda x: x.sum(), [("data",)], {"names": {"x": "a"}}, "1 dims, 'a', but it has 2 axes"),
        (lambda x: x + x.T, [("data",)], {"names": {"x": "a b"}}, "Two names meet on one axis"),
        (lambda x: x.sum(), [("data",)], {"mesh": {"data": 2}}, "must be a jax.sharding.Mesh"),
        (jax.pmap(lambda x: x), [("data",)], {}, "use jax.jit with shardings"),
        (3, [], {}, "ml.explain"),
    ],
)
def test_what_cannot_be_explained_is_refused(mesh, fn, arguments, keywords, says):
    args = [array(mesh, (8, 8), *spec) if spec else np.ones((8, 8), np.float32) for spec in arguments]
    with pytest.raises(OwnError) as error:
        ml.explain(fn, *args, **keywords)
    assert says in str(error.value)


def test_numbers_are_arguments_and_what_else_is_bound_is_refused_if_it_differs(mesh):
    @functools.partial(jax.jit, static_argnums=3, in_shardings=(NamedSharding(mesh, P("data")), None, None))
    def scaled(x, rate, nothing, times):
        assert nothing is None
        return (x * rate).sum() * times

    x = np.ones((8, 16), np.float32)
    report = ml.explain(scaled, x, 0.5, None, 3)
    assert [c.started_by for c in report.collectives] == [("`x` came in as P('data')",)]
    run = report.apply()
    assert float(run(x, 2.0, None, 3)) == 2.0 * 128 * 3
    with pytest.raises(OwnError, match="explained with other arguments"):
        run(x, 2.0, None, 4)


def test_what_a_jit_keeps_for_itself_is_computed_all_the_same(mesh):
    """Flax's `nnx.jit` writes results into its modules, and its caller returns none of them."""
    state = {}

    @jax.jit
    def update(w, x):
        return w - 0.1 * jax.grad(lambda w: ((x @ w) ** 2).sum())(w), (x @ w).sum()

    def step(w, x):
        state["w"], loss = update(w, x)
        return loss

    args = array(mesh, (16, 4)), array(mesh, (8, 16), "data")
    kept = ml.explain(step, *args)
    assert sums(kept) == sums(ml.explain(update, *args))
    assert len(kept.collectives) == 2


def test_results_that_are_no_arrays_are_left_out(mesh):
    (only,) = ml.explain(lambda x: (x.sum(), jnp.tanh, "name"), array(mesh, (8, 16), "data")).collectives
    assert only.kind == "all-reduce"


def test_a_group_of_no_set_of_axes_has_a_cause(mesh):
    """Six heads on four devices: XLA splits them by two, along a part of an axis."""

    def heads(x, w):
        query = (x @ w).reshape(8, 6, 8)
        return jax.nn.softmax(jnp.einsum("bhd,chd->hbc", query, query)).sum()

    report = ml.explain(jax.jit(heads), array(mesh, (8, 48), "data"), array(mesh, (48, 48), None, "model"))
    assert any(c.axes is None for c in report.collectives)
    assert all(c.is_explained for c in report.collectives)
    assert not [dim for c in report.collectives for dim in c.dims if dim.startswith("~")]


def test_sharded_arrays_are_arguments(mesh):
    weights = jax.device_put(np.ones((8, 8), np.float32), NamedSharding(mesh, P("data")))
    with pytest.raises(OwnError, match="closes over sharded arrays"):
        ml.explain(jax.jit(lambda x: x @ weights), array(mesh, (8, 8), "data"))


def test_a_callback_is_refused(mesh):
    def fn(x):
        jax.debug.print("{}", x.sum())
        return x.sum()

    with pytest.raises(OwnError, match="calls back into Python"):
        ml.explain(jax.jit(fn), array(mesh, (8, 8), "data"))


def test_one_device_sends_nothing():
    alone = Mesh(np.array(devices(1)).reshape(1), ("data",))
    with pytest.raises(OwnError, match="one device"):
        ml.explain(lambda x: x.sum(), array(alone, (8, 8), "data"))


def test_a_compilation_is_cancelled(mesh):
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(ml.CompilerError, match="cancelled"):
        ml.explain(lambda x: x.sum(), array(mesh, (8, 8), "data"), cancel=cancel)


PATTERNS = {
    "FSDP": lambda program, mesh: ml.layouts.fsdp(program, mesh, data="data"),
    "FSDP and TP": lambda program, mesh: (
        PATTERNS["FSDP"](program, mesh) & ml.layouts.tensor_parallel(program, mesh, model="model")
    ),
    "TP": lambda program, mesh: ml.layouts.tensor_parallel(program, mesh, model="model"),
}
MODELS = ("mlp", "mlp_adamw", "block", "transformer_sgd", "moe", "llama", "gpt2_adamw", "convnet_sgd", "vit")


@pytest.mark.share(12)
@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("name", MODELS)
def test_models_under_presets(name, pattern):
    """Nearly all collectives have a line, dims and a cause; together they are those of the user's own `jit`."""
    model = next(model for model in zoo.models() if model.name == name)
    program, on = model.trace(), ml.mesh(**AXES)
    try:
        inputs, outputs = program.plan(on, PATTERNS[pattern](program, on)).shardings
    except ml.LayoutError:
        pytest.skip("the preset does not fit the model's sizes")
    jitted = jax.jit(model.step, in_shardings=inputs, out_shardings=outputs, keep_unused=True)
    report = ml.explain(jitted, *model.shapes)
    compiled = jitted.lower(*model.shapes).compile(compiler_options=compiler_options("cpu")).as_text()
    assert sums(report) == totals(read_collectives(compiled, AXES, unknown_trips=1))
    known = [c for c in report.collectives if c.is_explained]
    assert sum(c.wire_bytes * c.times for c in known) >= 0.98 * report.wire_bytes
    assert len(known) >= 0.9 * len(report.collectives)
