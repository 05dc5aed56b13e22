"""The program as a tree: every step and every collective once, in the user's words, whatever repeats folded."""

from __future__ import annotations

import dataclasses
import json
import linecache
import random
import re
from collections.abc import Iterator
from typing import Any

import jax
import pytest

import meshlab as ml
from meshlab.engine.planning.shared_steps import each_once
from meshlab.engine.planning.step import only
from meshlab.engine.planning.steps import Compute, Move
from meshlab.engine.verifying.random_layouts import draw
from meshlab.models import zoo
from meshlab.models.language import llama
from meshlab.models.parts import training
from meshlab.models.parts.initial import shapes
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.notebook.protocol import answer
from meshlab.widgets.state.selection import identities
from meshlab.widgets.views.plan import collectives_view
from meshlab.widgets.views.program.nodes import ProgramDataView
from meshlab.widgets.views.program.steps import steps_view
from meshlab.widgets.views.reads import read
from meshlab.widgets.views.step_lanes import lanes_view
from tests.widgets import small

pytestmark = pytest.mark.share(2, of="file")

ZOO = ("mlp", "convnet_sgd", "moe_switch", "unet3d", "gpt2_adamw")
Node = dict[str, Any]


def nodes(view: ProgramDataView) -> list[Node]:
    """Returns the nodes of a view as they are to be read."""
    columns: Any = view["nodes"]
    strings = view["strings"]
    rows: list[Node] = []
    for values in zip(*columns.values(), strict=True):
        node = dict(zip(columns, values, strict=True))
        texts = {name: strings[node[name]] for name in ("label", "name", "source", "value", "uses")}
        node |= texts | {"kind": view["kinds"][node["kind"]], "makes": type_text(view, node["makes"])}
        node["reads"] = [type_text(view, each) for each in node["reads"]]
        node["depth"] = 0 if node["parent"] < 0 else rows[node["parent"]]["depth"] + 1
        rows.append(node)
    return rows


def type_text(view: ProgramDataView, number: int) -> str:
    if number < 0:
        return ""
    strings = view["strings"]
    _, dims, partial = view["types"][number]
    parts = [f"{strings[d]}{'/' + strings[axes] if axes else ''} {local}" for d, _, local, axes in dims]
    return f"[{', '.join(parts)}]{' partial over ' + strings[partial] if partial else ''}"


def above(rows: list[Node], node: Node) -> Iterator[Node]:
    while node["parent"] >= 0:
        node = rows[node["parent"]]
        yield node


def check(plan: ml.Plan) -> None:
    """Holds the tree against the plan."""
    view = steps_view(plan)
    rows = nodes(view)
    sent = json.dumps(view, allow_nan=False)
    assert json.dumps(json.loads(sent)) == sent
    # A node stands behind its parent, and its siblings before it with all that is in them.
    last: list[int] = []
    for number, node in enumerate(rows):
        assert node["parent"] == (last[node["depth"] - 1] if node["depth"] else -1)
        last[node["depth"] :] = [number]
    # Each step once: a collective has no other row than its own.
    steps = [step for step, *_ in each_once(plan.planned.steps) if not step.parts]
    moves = list(only(Move, steps))
    found = [node for node in rows if node["kind"] in ("step", "slice", "collective")]
    inside = sum(len(each) for each in plan.collectives_by_step) - sum(m.via.kind.sends for m in moves)
    assert len(found) == len(steps) + inside
    assert [n["name"] for n in rows if n["kind"] == "step"] == [step.title for step in steps if step.runs]
    assert [node["collective"] for node in rows if node["collective"] >= 0] == list(range(len(plan.collectives)))
    assert [each["id"] for each in view["collectives"]] == identities(plan)
    listed = {row["id"]: row for row in collectives_view(plan)["rows"]}
    for each, collective in zip(view["collectives"], plan.collectives, strict=True):
        same = listed.get(each["id"], each)
        assert {name: same[name] for name in each if name != "wire"} == {n: v for n, v in each.items() if n != "wire"}
        assert each["wire"] == collective.wire_bytes
    assert sum(each["wire"] * each["times"] for each in view["collectives"]) == plan.wire_bytes


@pytest.mark.parametrize("name", ["gpt2_adamw", "llama_unrolled_adamw"])
def test_no_name_of_jaxs_own_is_a_heading_or_a_name(name: str) -> None:
    """Timeline and Program said `remat2 in repeated`, of a layer that is computed again."""
    program = next(model for model in zoo.models() if model.name == name).trace()
    explorer = explore(program, ml.mesh("v5e:2x2", data=4), {"batch": "data", "params/*": {"embed": "data"}})
    time = explorer.time  # which waits
    view, tree, lanes = explorer.view(), steps_view(explorer.plan), lanes_view(time)
    names = [node["label"] for node in nodes(tree) if node["kind"] in ("phase", "scope", "function", "block")]
    names += [node[what] for node in nodes(tree) for what in ("name", "value")]
    names += [lanes["strings"][each] for each in lanes["what"]["name"]]
    names += [each["name"] for lane in view["timeline"]["lanes"] for each in lane["segments"]]
    names += [each["name"] for each in view["peak_memory"]["alive"]]
    moments = range(0, len(explorer.costs.of(explorer.document).memory.timeline), 9)
    names += [str(asked["name"]) for at in moments if isinstance(asked := read(explorer, "alive", {"step": at}), dict)]
    made = re.compile("remat|checkpoint|pjit|closed_call|custom_|core_call|shard_map")
    assert {each for each in names if made.search(each)} == set()
    assert {each for each in names if each.endswith(", computed again")} == {"one_layer, computed again"}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", ZOO)
def test_every_collective_is_in_the_program_once(name: str) -> None:
    program = next(model for model in zoo.models() if model.name == name).trace()
    sent = 0
    for mesh, layout in draw(program, seed=0, count=8):
        plan = program.plan(mesh, layout)
        check(plan)
        sent += len(plan.collectives)
    assert sent > 8


def test_a_collective_is_executed_as_often_as_what_is_around_it_says() -> None:
    """Loops, and repetitions that are folded, multiply."""
    config = llama.Config(batch=4, seq=16, vocab=64, embed=32, heads=2, group=2, head=8, ffn=64, layers=6)
    for unrolled in (False, True):
        plan = planned(dataclasses.replace(config, unrolled=unrolled))
        check(plan)
        rows = nodes(view := steps_view(plan))
        for node in (each for each in rows if each["collective"] >= 0):
            times = 1
            for around in above(rows, node):
                times *= around["times"]
            assert view["collectives"][node["collective"]]["times"] == times
        kinds = {node["kind"] for node in rows}
        assert ("alike" in kinds, "loop" in kinds) == (unrolled, True)
    assert {node["times"] for node in rows if node["kind"] == "alike"} >= {3, 6}


def planned(config: llama.Config) -> ml.Plan:
    optimizer, params = training.adamw(), shapes(llama.init, config)
    arguments = params, jax.eval_shape(optimizer.init, params), *llama.inputs(config)
    program = ml.trace(training.adamw_step(llama.loss, optimizer), *arguments)
    return program.plan(ml.mesh(data=2, model=2), {"batch": "data", "ffn": "model", "params/*": {"embed": "data"}})


def test_it_says_what_the_user_wrote() -> None:
    rows = nodes(view := steps_view(small.program().plan(small.mesh(), "batch:data hidden:model")))
    top = [(node["kind"], node["label"]) for node in rows if node["depth"] < 2]
    functions = (("forward", "loss"), ("backward", "loss"), ("update", "small.py"))
    assert top[:-1] == [each for phase, name in functions for each in (("phase", phase), ("function", name))]
    assert top[-1] == ("collective", "")  # an output that is stored whole
    lines = [node for node in rows if node["kind"] == "line"]
    assert lines[0]["label"] == 'hidden = ml.relu(ml.dot(images, params["w1"], Rows, Cols))'
    assert lines[0]["source"].startswith("small.py:")
    assert lines[0]["makes"] == "[batch/data 4, hidden/model 4]"
    assert (lines[0]["value"], lines[0]["name"]) == ("hidden", "dot_general, max, gt")
    assert lines[1]["makes"] == "[batch/data 4, classes 10]"  # what it is behind the all-reduce
    step = next(node for node in rows if node["name"] == "dot_general")
    assert step["reads"] == ["[batch/data 4, rows 4, cols 4]", "[rows 4, cols 4, hidden/model 4]"]
    assert step["uses"] == "images, params/w1"
    sent = next(node for node in rows if node["collective"] == 0)
    assert rows[sent["parent"]]["label"].startswith("logits = ")
    assert sent["reads"] == ["[batch/data 4, classes 10] partial over model"]
    assert view["collectives"][0]["because"] == "`hidden` is summed while split over `model`."


def test_modules_and_named_scopes_are_nested() -> None:
    def loss(w: jax.Array, x: jax.Array) -> jax.Array:
        with jax.named_scope("block"):
            with jax.named_scope("up"):
                x = x @ w
            return jax.numpy.tanh(x).sum()

    arguments = (
        ml.named(jax.ShapeDtypeStruct((8, 4), "float32"), "a b"),
        ml.named(jax.ShapeDtypeStruct((2, 8), "float32"), "n a"),
    )
    program = ml.trace(jax.value_and_grad(loss), *arguments)
    rows = nodes(steps_view(program.plan(ml.mesh(x=2), "n:x")))
    scopes = [(node["depth"], node["label"]) for node in rows if node["kind"] == "scope"]
    assert scopes[:2] == [(1, "block"), (2, "up")]
    matmuls = [[each["label"] for each in above(rows, node)] for node in rows if node["name"] == "dot_general"]
    assert matmuls[0][-3:] == ["up", "block", "forward"]
    assert matmuls[-1][-3:] == ["up", "block", "backward"]


def test_loops_and_branches_have_their_blocks() -> None:
    def loop(x: jax.Array) -> jax.Array:
        x = jax.lax.while_loop(lambda c: c.sum() < 9.0, lambda c: c + 1.0, x)
        return jax.lax.cond(x[0] > 0, lambda c: c * 2.0, lambda c: c - 1.0, x)

    program = ml.trace(loop, ml.named(jax.ShapeDtypeStruct((8,), "float32"), "n"))
    plan = program.plan(ml.mesh(x=2), "n:x")
    check(plan)
    rows = nodes(steps_view(plan))
    blocks = [node["label"] for node in rows if node["kind"] == "block"]
    assert blocks == ["each iteration", "each test", "branch 0", "branch 1"]
    assert [node["name"] for node in rows if node["kind"] == "loop"] == ["while", "cond"]


def test_the_page_reads_that_of_the_present_layout(explorer: Explorer) -> None:
    for layout in ("batch:data", "hidden:model"):
        explorer.load(layout)
        reply: Any = answer(explorer, {"v": 2, "kind": "read", "id": "x-1", "what": "program", "args": {}})
        assert reply["data"] == steps_view(explorer.plan)
        assert explorer.plan.collectives


def long_program(steps: int = 10_000) -> ml.Program:
    """A program of so many different steps: functions of 50 lines with two operations each, at random."""
    chance = random.Random(0)
    name = "long_program.py"
    forms = ("x = jnp.sin(x) * w{}", "x = jnp.tanh(x + w{})", "x = (x @ w{}) * {}.5", "x = jnp.cos(x) - w{}")
    lines = ["import jax.numpy as jnp"]
    for part in range(steps // 100):
        lines.append(f"def part_{part}(x, w0, w1, w2):")
        lines += [f"    {chance.choice(forms).format(chance.randrange(3), line + 1)}" for line in range(50)]
        lines.append("    return x")
    lines += ["def whole(x, w0, w1, w2):"]
    lines += [f"    x = part_{part}(x, w0, w1, w2)" for part in range(steps // 100)] + ["    return x"]
    source = "\n".join(lines)
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    scope: dict[str, Any] = {}
    exec(compile(source, name, "exec"), scope)
    square = ml.named(jax.ShapeDtypeStruct((8, 8), "float32"), "n _")
    return ml.trace(scope["whole"], square, square, square, square)


def test_ten_thousand_steps_that_do_not_repeat_are_sent_in_little() -> None:
    plan = long_program().plan(ml.mesh(x=2), "n:x")
    check(plan)
    view = steps_view(plan)
    rows = nodes(view)
    assert sum(isinstance(step, Compute) for step in plan.steps) >= 10_000
    assert len(rows) > 10_000
    assert len(json.dumps(view)) < 1_500_000
    functions = [node["label"] for node in rows if node["kind"] == "function"]
    assert functions == [f"part_{part}" for part in range(100)]
