"""The part of the work that each device does stands for every plan, and where parallelism is lost, with the line."""

import json
import math
import random

import jax
import jax.numpy as jnp
import pytest
from jax.extend.core import jaxprs_in_params

import meshlab as ml
from meshlab.commands.plan_text import plan_text
from meshlab.commands.saved import record
from meshlab.engine.running.lower import lowered
from meshlab.engine.running.run import abstract_mesh
from meshlab.engine.verifying.drawn_meshes import MESHES, MESHES_IN_TIME
from meshlab.engine.verifying.random_layouts import draw
from meshlab.models import zoo
from tests import checkpointed
from tests.engine.pipelines import stacks

MODELS = {model.name: model.trace for model in (*zoo.models(), *zoo.imported_models())}
NAMES = ["mlp_adamw", "digits", "gpt2_adamw", "llama_unrolled_adamw", "moe_sgd", "t5", "state_space", "plain_gpt"]
PROGRAMS = {name: MODELS[name] for name in NAMES} | {n: checkpointed.PROGRAMS[n] for n in ("grouped", "scanned")}


def flops(plan):
    """The FLOPs of the matmuls in the function that each device runs, counted in its jaxpr."""
    code = plan.program.code
    arrays = [jax.ShapeDtypeStruct(_stored(plan, a.value), code.dtypes[a.value]) for a in plan.program.arguments]
    return _counted(jax.make_jaxpr(lowered(plan, abstract_mesh(plan.mesh)))(*arrays).jaxpr)


def _stored(plan, value):
    sizes = zip(plan.program.code.shapes[value], plan.argument_specs[value].splits, strict=True)
    return tuple(plan.grid.padded_size(size, split) for size, split in sizes)


def _counted(jaxpr):
    total = 0
    for equation in jaxpr.eqns:
        if equation.primitive.name == "dot_general":
            ((summed, _), _), left = equation.params["dimension_numbers"], equation.invars[0].aval.shape
            total += 2 * equation.outvars[0].aval.size * math.prod(left[axis] for axis in summed)
        inside = [_counted(getattr(inner, "jaxpr", inner)) for inner in jaxprs_in_params(equation.params)]
        total += sum(inside) * (equation.params["length"] if equation.primitive.name == "scan" else 1)
    return total


@pytest.mark.share(5)
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_share_is_the_flops_of_a_device_of_those_of_the_program(name):
    program, seed = PROGRAMS[name](), random.Random().randrange(2**32)
    whole = flops(program.plan(ml.mesh()))
    assert whole > 0
    split = 0
    for mesh, layout in (*draw(program, seed, 4, MESHES), *draw(program, seed, 2, MESHES_IN_TIME)):
        plan = program.plan(mesh, layout)
        assert plan.work.share == pytest.approx(flops(plan) / whole, rel=1e-9), (seed, str(mesh), str(layout))
        assert plan.work.flops == pytest.approx(flops(plan), rel=1e-9)
        assert plan.work.unsharded_flops == pytest.approx(whole, rel=1e-9)
        assert plan.work.devices == mesh.size
        assert plan.work.share >= 1 / mesh.size * (1 - 1e-9)
        split += plan.work.share < 1
    assert split


def test_padding_is_work():
    (rows, cols, out) = ml.dims(rows=6, cols=8, out=4)
    program = ml.trace(lambda x, w: ml.dot(x, w, cols), ml.f32[rows, cols], ml.f32[cols, out])
    plan = program.plan(ml.mesh(x=4), "rows:x", pad=True)
    assert plan.work.share == 2 / 6
    assert flops(plan) == 2 * 2 * 8 * 4


def grouped(w, x):
    """Attention with two heads of keys, whose queries have eight."""
    q = jnp.einsum("bse,ehd->bshd", x, w["q"])
    k, v = (jnp.einsum("bse,ehd->bshd", x, w[name]) for name in "kv")
    q = q.reshape(4, 32, 2, 4, 8)  # whole from here
    shares = jax.nn.softmax(jnp.einsum("bskgd,btkd->bkgst", q, k))
    mixed = jnp.einsum("bkgst,btkd->bskgd", shares, v).reshape(4, 32, 8, 8)
    return x + jnp.einsum("bshd,hde->bse", mixed, w["o"])


def in_micro_batches(w, x):
    """Gradients of four micro-batches, added up in a scan."""

    def turn(total, x):
        return total + jax.grad(lambda w: jnp.square(jnp.tanh(x @ w)).mean())(w), None

    parts = x.reshape(4, 4, *x.shape[1:]).swapaxes(0, 1)  # whole from here
    return w - 0.1 * jax.lax.scan(turn, jnp.zeros_like(w), parts)[0]


def _shaped(names, *shape):
    return ml.named(jax.ShapeDtypeStruct(shape, jnp.float32), names)


def _of_heads(devices):
    w = {"q": _shaped("embed heads head", 64, 8, 8), "o": _shaped("heads head embed", 8, 8, 64)}
    w |= {name: _shaped("embed kv head", 64, 2, 8) for name in "kv"}
    return ml.trace(grouped, w, _shaped("batch seq embed", 4, 32, 64)).plan(ml.mesh(model=devices), "heads:model")


def _of_micro_batches(devices):
    arguments = _shaped("embed ffn", 32, 32), _shaped("batch seq embed", 16, 64, 32)
    return ml.trace(in_micro_batches, *arguments).plan(ml.mesh(data=devices), "batch:data")


LOST = {
    "heads of keys": (
        _of_heads,
        8,
        "reshape",
        "50%",
    ),
    "micro-batches": (
        _of_micro_batches,
        8,
        "reshape",
        "100%",
    ),
}


@pytest.mark.parametrize("case", LOST)
def test_parallelism_that_is_lost_is_said_with_the_line(case):
    make, devices, name, part = LOST[case]
    plan = make(devices)
    assert plan.whole_from is not None
    assert plan.whole_from.source is not None
    assert plan.whole_from.name == name
    assert "whole from here" in plan.whole_from.source.code
    where = f"{plan.whole_from.source} ({name})"
    head = f"{part} of the FLOPs; an even split would be 12.5%"
    share = f"each device does {part} of the FLOPs, 12.5% in an even split"
    text = f"⚠ Parallelism is lost at {where}: what follows is replicated; {share}."
    explained, saved = plan.explain(), record("it", plan)
    assert explained.warnings == (text,)
    assert str(explained).endswith(f"Each device does {head}.\n{text}")
    assert f"<p>{text}</p>" in explained._repr_html_()
    assert saved["warnings"] == [text]
    for table in (repr(plan), plan_text(saved, plan)):
        assert head in table
        assert text in table.splitlines()
    assert f"<p>{text}</p>" in plan._repr_html_()
    share = pytest.approx(flops(plan) / flops(plan.program.plan(ml.mesh())))
    told = json.loads(plan.to_json())["work"]
    counted = {
        "flops": pytest.approx(flops(plan)),
        "unsharded_flops": pytest.approx(flops(plan.program.plan(ml.mesh()))),
    }
    assert told == {"share": share, "devices": devices, "unit": "FLOPs", **counted, "whole_from": where}


@pytest.mark.parametrize("make", [_of_micro_batches, _of_heads])
def test_where_all_devices_share_the_work_nothing_is_lost(make):
    plan = make(4) if make is _of_micro_batches else make(1)
    assert plan.work.is_divided
    assert plan.whole_from is None
    assert plan.explain().warnings == ()
    assert f"Each device does {100 // plan.mesh.size}% of the FLOPs." in str(plan.explain()).splitlines()
    assert json.loads(plan.to_json())["work"]["whole_from"] is None


@pytest.mark.share(3)
@pytest.mark.parametrize("name", ["gpt2_adamw", "llama_adamw", "plain_gpt", "linen_encoder"])
def test_weights_that_are_gathered_for_use_lose_no_parallelism(name):
    program, mesh = MODELS[name](), ml.mesh(data=4)
    plan = program.plan(mesh, ml.layouts.fsdp(program, mesh))
    assert any(c.kind == "all-gather" for c in plan.collectives)
    assert plan.work.share == pytest.approx(1 / 4)
    assert plan.whole_from is None


def test_what_was_never_split_is_not_lost():
    plan = MODELS["gpt2_adamw"]().plan(ml.mesh(data=2, model=2), "batch:data")
    assert plan.work.share == pytest.approx(1 / 2)
    assert plan.whole_from is None
    assert "Each device does 50% of the FLOPs; an even split would be 25%." in str(plan.explain()).splitlines()


STAGES, MICRO = 4, 8
# Of the 2(m + p − 1) ticks of 1F1B p have forward cells alone; all others last as long as backward ones, twice as long.
WAITS_OF_1F1B = 1 - 3 * MICRO / (STAGES + 2 * (2 * (MICRO + STAGES - 1) - STAGES))
WAITS_OF_OTHERS = (STAGES - 1) / (MICRO + STAGES - 1)


@pytest.mark.parametrize(
    ("schedule", "waits"), [("gpipe", WAITS_OF_OTHERS), ("paired", WAITS_OF_OTHERS), ("1f1b", WAITS_OF_1F1B)]
)
def test_what_a_pipeline_s_stages_wait_is_known_without_a_machine(schedule, waits):
    """(p − 1)/(m + p − 1), and in lockstep 1F1B waits longer: a tick lasts as long as its longest cell."""
    mesh = ml.mesh(pipe=ml.stages(STAGES, schedule), micro=ml.serial(MICRO))
    work = stacks.program("plain", batch=64, layers=8, rows=1, classes=1).plan(mesh, "batch:micro layers:pipe").work
    assert work.waits == pytest.approx(waits)
    assert work.taken == pytest.approx(work.share / (1 - waits))
    assert f"stages wait for {100 * waits:.3g}% of their schedule" in str(work)


def test_without_stages_nobody_waits():
    plan = stacks.program("plain").plan(ml.mesh(micro=ml.serial(2)), "batch:micro")
    assert plan.work.waits == 0
    assert plan.work.taken == plan.work.share
    assert "wait" not in str(plan.work)
    assert "waits" not in json.loads(plan.to_json())["work"]
