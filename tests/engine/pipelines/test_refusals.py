"""What cannot be a pipeline is refused, with all problems at once: who reads what, and who makes it."""

import re
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml
from meshlab.engine.legality.unrolled import REMEDY, ROWS
from tests.engine.pipelines import stacks

LAYOUT = "batch:micro layers:pipe"


def refused(
    program: Any, layout: Any = LAYOUT, schedule: Any = None, micro: int = 4, stages: int = 2, **axes: Any
) -> list[str]:
    sizes: Any = {"pipe": ml.stages(stages, schedule), **({"micro": ml.serial(micro)} if micro else {}), **axes}
    with pytest.raises(ml.LayoutError) as error:
        program.plan(ml.mesh(**sizes), layout)
    return [str(problem) for problem in error.value.problems]


def traced(loss, value=True, **sizes):
    return ml.trace(stacks.descent(loss, value), *stacks.named(**sizes))


def test_stages_without_micro_batches():
    """They were accepted once, and silently wrong."""
    program = stacks.program("plain")
    told = "`layers` is on the stages `pipe`, but nothing is on a serial axis: a pipeline needs micro-batches."
    assert refused(program, "layers:pipe") == [f"{told} Add `batch:micro`."]
    assert refused(program, "layers:pipe", micro=0) == [f"{told} Add `batch:micro` with `micro=ml.serial(8)`."]


def test_only_layers_are_on_stages():
    program = stacks.program("plain")
    problems = refused(program, "batch:pipe embed:pipe layers:pipe")
    told = "cannot be on `pipe`: its stages hold the layers of a scan, and no other dim. Put"
    for dim in ("batch", "embed"):
        assert f"`{dim}` {told} `{dim}` on an axis of devices; only `layers` can be on stages." in problems
    (stored,) = refused(program, {"batch": "micro", "layers": "pipe", "params/table": {"words": "pipe"}})
    assert stored.startswith("At `params/table`: `words` cannot be on `pipe`")
    assert refused(program, "batch:micro layers:pipe+data", data=2)[0].startswith(
        "`layers:pipe+data` has other axes beside the stages: a stage has whole layers. Write `layers:pipe`."
    )


def test_layers_that_would_be_stored_with_padding():
    """Found by a drawn layout: they were moved between stages and an axis that pads them, and could not be compiled."""
    layout = {"batch": "micro", "layers": "pipe", "params/*": {"layers": "data"}}
    mesh = ml.mesh(pipe=ml.stages(2), micro=ml.serial(4), data=3)
    with pytest.raises(ml.LayoutError) as error:
        stacks.program("plain").plan(mesh, layout, pad=True)
    (problem,) = map(str, error.value.problems)
    assert problem.endswith(
        "`layers` has size 4, which 3 (`data`) does not divide, and layers on stages are not padded."
        " Leave `layers` on the stages there."
    )
    del layout["params/*"]
    assert stacks.program("plain").plan(mesh, layout, pad=True).check().ok


def test_all_problems_at_once():
    problems = refused(stacks.program("plain"), "layers:pipe embed:pipe batch:nowhere", stages=3)
    for text in ("nothing is on a serial axis", "`embed` cannot be", "nowhere", "`layers` has size 4, which 3"):
        assert any(text in problem for problem in problems), problems


@pytest.mark.parametrize(
    ("schedule", "micro", "message"),
    [
        ("interleaved", 3, "micro=3, which must be a multiple of its 2 stages"),
        ("dualpipe-v", 2, "over 2 stages it needs at least 4"),
        (ml.Schedule.of("1f1b", 2, 8), 4, "1f1b has 8 micro-batches, and there are 4"),
        ("zb-h1", 4, "zb-h1, which computes gradients of weights separately"),
        ("zb-v", 4, "zb-v, which computes gradients of weights separately"),
        (("interleaved", 3), 4, "`layers` has size 4, which 2 stages of 3 chunks do not divide"),
    ],
)
def test_schedules_that_are_not_run(schedule, micro, message):
    program = stacks.program("plain", batch=24)
    name, chunks = schedule if isinstance(schedule, tuple) else (schedule, None)
    with pytest.raises(ml.LayoutError) as error:
        program.plan(ml.mesh(pipe=ml.stages(2, name, chunks), micro=ml.serial(micro)), LAYOUT)
    (problem,) = map(str, error.value.problems)
    assert message in problem


def test_a_forward_pass_alone():
    program = ml.trace(lambda params, x, y: stacks.plain(params, x, y), *stacks.named())
    (problem,) = refused(program)
    told = (
        "a pipeline is one scan over it forward and one in reverse, or two forward and then two in reverse, and there"
    )
    assert f"{told} are 1: `scan` at stacks.py" in problem
    assert problem.endswith("Take `layers` off `pipe`.")


def test_three_stacks():
    def loss(p, x, y):
        h = x @ p["w_in"]
        for _ in range(3):
            h, _ = jax.lax.scan(stacks.layer, h, {"w": p["w"], "b": p["b"]})
        return jnp.square(h @ p["w_out"] - y).mean()

    (problem,) = refused(traced(loss))
    assert "and there are 6: `scan` at test_refusals.py" in problem


def test_layers_in_a_loop_of_python():
    def loss(p, x, y):
        h = x @ p["w_in"]
        for i in range(stacks.LAYERS):
            h, _ = stacks.layer(h, {"w": p["w"][i], "b": p["b"][i]})
        return jnp.square(h @ p["w_out"] - y).mean()

    (problem,) = refused(traced(loss))
    loop = r"The function runs its layers in a Python loop, at test_refusals.py:\d+"
    fix = re.escape(ROWS)
    held = "`layers` cannot be on `pipe`: its stages hold the layers of a scan, and no other dim"
    assert re.fullmatch(rf"{held}\. {loop}\. {fix}", problem), problem
    # As the remedies say.
    scanned = ml.trace(ml.scan_layers(stacks.descent(loss)), *stacks.named())
    assert scanned.plan(ml.mesh(pipe=ml.stages(2), micro=ml.serial(4)), LAYOUT).schedule
    assert traced(stacks.plain).plan(ml.mesh(pipe=ml.stages(2), micro=ml.serial(4)), LAYOUT).schedule


def test_a_list_of_layers():
    """Their weights have no dim that could be on stages: the name that is asked for is none."""

    def loss(blocks, x, y):
        h = x
        for block in blocks:
            h, _ = stacks.layer(h, block)
        return jnp.square(h - y).mean()

    block = {"w": ml.named(jax.ShapeDtypeStruct((4, 4), jnp.float32), "embed _"), "b": jnp.zeros(4)}
    rows = ml.named(jax.ShapeDtypeStruct((8, 4), jnp.float32), "batch embed")
    step = stacks.descent(loss)
    program = ml.trace(step, [block] * 6, rows, rows)
    (problem,) = refused(program)
    loop = r"The function runs its layers in a Python loop, at stacks.py:\d+\. " + re.escape(REMEDY)
    assert re.fullmatch(rf"`layers` is not a dim of this program\. {loop}", problem), problem
    told = rf"No scan steps through a named dim of its weights\. {loop}"
    with pytest.raises(ml.LayoutError, match=told):
        ml.layouts.pipeline_parallel(program, ml.mesh(pipe=ml.stages(2), micro=ml.serial(4)))
    # As the remedy says.
    scanned = ml.trace(ml.scan_layers(step), ml.stack_layers([block] * 6), rows, rows)
    assert scanned.plan(ml.mesh(pipe=ml.stages(2), micro=ml.serial(4)), LAYOUT).schedule
    # On devices it is a name that is not there, and no more.
    with pytest.raises(ml.LayoutError, match="`layers` is not a dim of this program. Its dims are"):
        program.plan(ml.mesh(x=2), "layers:x")


def test_what_all_stages_together_know_in_each_micro_batch():
    """A penalty on the activations of all layers, in which each micro-batch's own loss is multiplied."""

    def loss(p, x, y):
        def both(h, weights):
            h, _ = stacks.layer(h, weights)
            return h, jnp.square(h).sum(1)

        h, sums = jax.lax.scan(both, x @ p["w_in"], {"w": p["w"], "b": p["b"]})
        return (jnp.square(h @ p["w_out"] - y).mean(1) * sums.sum(0)).sum()

    (problem, *_) = refused(traced(loss))
    assert "of all stages `pipe` in each micro-batch, but at any time these have different micro-batches" in problem


def test_what_does_not_go_along_with_the_carry():
    """The layers' gradients are scaled by what the first stage has when all of them are through."""

    def loss(p, x, y):
        h, _ = jax.lax.scan(stacks.layer, x @ p["w_in"], {"w": p["w"], "b": p["b"]})
        return jnp.square(h @ p["w_out"] - y).sum(), h

    def step(params, x, y):
        _, vjp = jax.vjp(lambda p, x: loss(p, x, y)[0], params, x)
        grads, of_x = vjp(1.0)
        scale = jnp.abs(of_x).sum(1)
        return jax.tree.map(lambda w, g: w - g, params, grads), (params["b"][:, None] * scale[None, :, None]).sum(1)

    (problem, *_) = refused(ml.trace(step, *stacks.named()))
    assert "on one stage, but" in problem
    assert "makes it on another, and it cannot be sent" in problem


def test_keys_of_random_numbers_are_not_sent():
    def loss(p, x, y, key):
        def both(carry, weights):
            h, key = carry
            key, own = jax.random.split(key)
            h, _ = stacks.layer(h, weights)
            return (h * jax.random.bernoulli(own, 0.5, (stacks.WIDTH,)), key), None

        (h, _), _ = jax.lax.scan(both, (x @ p["w_in"], key), {"w": p["w"], "b": p["b"]})
        return jnp.square(h @ p["w_out"] - y).mean()

    key = jax.eval_shape(lambda: jax.random.key(0))
    program = ml.trace(stacks.descent(loss), *stacks.named(), key)
    (problem, *_) = refused(program)
    assert "keys of random numbers cannot be sent" in problem


def test_chunks_in_turn_see_no_order_of_layers():
    for name, message in (("dropped", "are keys of random numbers"), ("stacked", "works along `layers` in each")):
        problem, *_ = refused(stacks.program(name), schedule="interleaved")
        assert message in problem
        assert "with the schedule interleaved a stage has several chunks of `layers`" in problem
        assert problem.endswith("Write pipe=ml.stages(2): one chunk a stage.")


def test_layers_are_not_padded():
    program = stacks.program("plain", layers=6)
    with pytest.raises(
        ml.LayoutError, match="`layers` has size 6, which 4 stages do not divide, and layers are not padded"
    ):
        program.plan(ml.mesh(pipe=ml.stages(4), micro=ml.serial(4)), LAYOUT, pad=True)
    (problem, *_) = refused(program, stages=4)
    # That padding mends it was said once.
    fits = "Sizes that fit: 4 or 8; or add layers=(1, 2, 2, 1) to the ml.stages() of `pipe`."
    assert problem == f"`layers` has size 6, which 4 (`pipe`) does not divide. {fits}"
    with pytest.raises(ml.LayoutError, match=re.escape(fits)):
        program.plan(ml.mesh(pipe=ml.stages(4), micro=ml.serial(4)), LAYOUT, pad=True)
    assert program.plan(ml.mesh(pipe=ml.stages(4, layers=(1, 2, 2, 1)), micro=ml.serial(4)), LAYOUT, pad=True).schedule


def test_stages_have_all_layers_together():
    program = stacks.program("plain", layers=6)

    def problems(size: Any, layout: Any = LAYOUT, **axes: Any) -> list[str]:
        with pytest.raises(ml.LayoutError) as error:
            program.plan(ml.mesh(pipe=size, micro=ml.serial(4), **axes), layout)
        return [str(problem) for problem in error.value.problems]

    told = "`pipe` has layers=(1, 2, 1), 4 in all, but `layers` has size 6. Write layers=(2, 2, 2)."
    assert problems(ml.stages(3, layers=(1, 2, 1))) == [told]
    both = problems(ml.stages(3, layers=(1, 2, 1)), "batch:micro layers:pipe embed:pipe")
    assert both[-1] == told
    assert any("`embed` cannot be on `pipe`" in each for each in both)
    (few,) = problems(ml.stages(8, layers=(1,) * 8))
    assert few.endswith("`layers` has size 6. Use at most 6 stages.")
    stored = {"batch": "micro", "layers": "pipe", "params/w": {"layers": "pipe+data"}}
    (cut,) = problems(ml.stages(2, layers=(2, 4)), stored, data=2)
    assert cut == (
        "At `params/w`: `layers:pipe+data` cuts layers whose number differs from stage to stage. Store it by"
        " `layers:pipe`."
    )


def test_a_drop_says_the_same():
    program, mesh = stacks.program("plain"), ml.mesh(pipe=ml.stages(2), micro=ml.serial(4))
    table = program.refusals(mesh, "batch:micro")
    assert table["layers"]["pipe"] is None
    assert "its stages hold the layers" in str(table["embed"]["pipe"])
    assert "nothing is on a serial axis" in str(program.refusals(mesh)["layers"]["pipe"])


def test_xla_s_partitioner_is_given_no_stages():
    mesh: Any = {"data": 2, "pipe": ml.stages(2), "micro": ml.serial(4)}
    plan = stacks.program("plain").plan(ml.mesh(**mesh), "batch:data+micro layers:pipe")
    with pytest.raises(ml.LayoutError, match=r"Plan without `?micro`? and `?pipe`?, on ml\.mesh\(data=2\), to see"):
        plan.xla()
