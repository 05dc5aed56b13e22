"""A Python loop over the rows of arrays that are stacked already, `params["w"][i]`, becomes scans over these arrays."""

from __future__ import annotations

import collections
import re
from collections.abc import Callable, Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from tests.engine.rolling import loops
from tests.engine.rolling.test_scan_layers import scans, worst

pytestmark = pytest.mark.share(2, of="file")

Loss = Callable[[Any, Any, Any], Any]
IN_ORDER = range(loops.COUNT)


def over_rows(order: Iterable[int], how: Any = lambda layer: layer) -> Loss:
    """A loss whose layers are rows of arrays."""

    def loss(params: Any, x: Any, y: Any) -> Any:
        h = x @ params["w_in"]
        for index in order:
            h = how(loops.layer)(h, jax.tree.map(lambda w, i=index: w[i], params["layers"]))
        return jnp.square(h - y).mean()

    return loss


def first_of_all(params: Any, x: Any, y: Any) -> Any:
    """All rows are read before the first layer, of weights that are cast at once."""
    half = jax.tree.map(lambda w: w.astype(jnp.float16).astype(w.dtype), params)
    rows = [jax.tree.map(lambda w, i=index: w[i], half["layers"]) for index in IN_ORDER]
    return loops.over_a_list({**half, "layers": rows}, x, y)


def decayed(params: Any, x: Any, y: Any) -> Any:
    """The gradient of the weights is not of the rows alone."""
    whole = sum(jnp.square(w).sum() for w in jax.tree.leaves(params))
    return over_rows(IN_ORDER)(params, x, y) + 0.01 * whole


def scanned(params: Any, x: Any, y: Any) -> Any:
    h, _ = jax.lax.scan(lambda h, w: (loops.layer(h, w), None), x @ params["w_in"], params["layers"])
    return jnp.square(h - y).mean()


LOSSES: dict[str, Loss] = {
    "plain": over_rows(IN_ORDER),
    "rematerialised": over_rows(IN_ORDER, jax.checkpoint),
    "each layer is jitted": over_rows(IN_ORDER, jax.jit),
    "all are jitted": jax.jit(over_rows(IN_ORDER)),
    "all rows first": first_of_all,
    "decayed": decayed,
    "the last one first": over_rows(IN_ORDER[::-1]),
    "each one twice in turn": over_rows([index for index in IN_ORDER for _ in range(2)]),
    "passed twice": over_rows([*IN_ORDER, *IN_ORDER]),
}


def arguments(dtype: Any = np.float32) -> tuple[Any, ...]:
    params, momentum, *batch = loops.arguments(loops.over_a_list, dtype=dtype)
    stacked = ({**tree, "layers": jax.tree.map(lambda *w: np.stack(w), *tree["layers"])} for tree in (params, momentum))
    return *stacked, *batch


@pytest.mark.parametrize("name", LOSSES)
def test_a_train_step_gives_the_same(name: str):
    step, args = loops.descent(LOSSES[name]), arguments()
    closed = jax.make_jaxpr(ml.scan_layers(step))(*args)
    back = name == "the last one first"
    passes = 2 if name == "passed twice" else 1
    wanted = [(4, back)] * passes + [(4, not back)] * passes
    assert [(each.params["length"], each.params["reverse"]) for each in scans(closed)] == wanted
    assert not {each.primitive.name for each in closed.jaxpr.eqns} & {"slice", "dynamic_slice", "concatenate", "pad"}
    assert worst(jax.jit(ml.scan_layers(step))(*args), jax.jit(step)(*args)) < 1e-6


def test_inputs_and_targets_that_are_rows_of_a_batch():
    """They are no layers, though all rows are read."""
    params, _, x, y = arguments()

    def step(params: Any, batch: Any) -> Any:
        return jax.value_and_grad(LOSSES["plain"])(params, batch[0], batch[1])

    closed = jax.make_jaxpr(ml.scan_layers(step))(params, np.stack([x, y]))
    assert [each.params["length"] for each in scans(closed)] == [4, 4]
    assert worst(ml.scan_layers(step)(params, np.stack([x, y])), step(params, np.stack([x, y]))) < 1e-6


def test_rows_that_are_results():
    """Of rows that are read twice each is a result, and the gradient of one row is what another row is added to."""

    def step(params: Any, x: Any, y: Any) -> Any:
        grads = jax.grad(LOSSES["passed twice"])(params, x, y)
        rows = [params["layers"]["w"][index] for index in (0, 0, 2)]
        return rows, grads, grads["layers"]["w"][1] + params["layers"]["w"][1]

    params, _, *batch = arguments()
    assert worst(ml.scan_layers(step)(params, *batch), step(params, *batch)) < 1e-6


@pytest.mark.parametrize(
    ("order", "why"),
    [
        (range(3), "was given no stacked layers: give it ml.stack_layers(params), or read all rows of arrays"),
        ((2, 0, 1, 3), "cannot become a scan: they must all compute the same, and pass their results on"),
        ((*IN_ORDER, 1), "reads the weights of one layer alone"),
    ],
)
def test_rows_that_are_no_layers_in_order(order: Iterable[int], why: str):
    with pytest.raises(ml.TraceError, match=re.escape(why)):
        jax.make_jaxpr(ml.scan_layers(loops.descent(over_rows(order))))(*arguments())


def named(dtype: Any = jnp.float32) -> tuple[Any, ...]:
    params, momentum, x, y = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, dtype), arguments())
    names = {"w_in": "rows embed", "*/w": "layers embed _", "*/b": "layers _"}
    return ml.named(params, names), ml.named(momentum, names), ml.named(x, "batch rows"), ml.named(y, "batch embed")


def planned(step: Any, dtype: Any = jnp.float32) -> ml.Plan:
    mesh = ml.mesh(data=2, pipe=ml.stages(2), micro=ml.serial(4))
    return ml.trace(step, *named(dtype)).plan(mesh, "batch:data+micro layers:pipe")


def sent(plan: ml.Plan) -> dict[Any, int]:
    return collections.Counter((c.kind, c.axes, c.payload_bytes, c.times) for c in plan.collectives)


def test_a_pipeline_of_them_is_that_of_the_scan():
    wanted = sent(planned(loops.descent(scanned)))
    assert len(wanted) > 4
    with pytest.raises(ml.LayoutError, match="runs its layers in a Python loop"):
        planned(loops.descent(LOSSES["plain"]))
    assert sent(planned(ml.scan_layers(loops.descent(LOSSES["plain"])))) == wanted


@pytest.mark.parametrize("name", ["plain", "rematerialised", "decayed", "passed twice"])
def test_a_pipeline_of_them_gives_the_plain_step(name: str):
    step = loops.descent(LOSSES[name])
    with jax.enable_x64(True):
        plan = planned(ml.scan_layers(step), jnp.float64)
        report = plan.check()
        assert report.ok, report
        assert max(error for _, error, _ in report.errors) < 1e-12
        args = arguments(np.float64)
        assert worst(plan.run(*args), jax.jit(step)(*args)) < 1e-12
