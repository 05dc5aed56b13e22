"""The chain of a reshard is the cheapest: against an exhaustive search, by hand, and against XLA's one hop."""

import heapq
import itertools
import math
import pathlib
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml
from meshlab.engine.collectives.chains import reshard
from meshlab.engine.collectives.reshard import price
from meshlab.engine.specs.spec import Spec
from tests.engine.collectives.one_hop import MESHES, UNEVEN, compared, drawn

pytestmark = pytest.mark.share(2, of="file")

ROOT = pathlib.Path(__file__).parents[3]
SAMPLE, SEED = 24, 0
EIGHT = {"x": 2, "y": 2, "z": 2}


def spec(text, partial=""):
    """A spec of a text such as "x+y ." (two axes, the second whole)."""
    return Spec(
        tuple(tuple(split.strip(".").split("+")) if split != "." else () for split in text.split()), (*partial,)
    )


@pytest.mark.parametrize(
    ("start", "target", "kinds", "shares"),
    [
        # What is sliced may lie in the wrong order, where a permute follows.
        ("x", "y+z+x", ["slice", "collective-permute"], 1 / 8),
        ("x .", "y+x .", ["slice", "collective-permute"], 1 / 4),
        # A move across two axes of the value: what an axis of the mesh splits changes altogether.
        (". x+y+z", "x y+z", ["all-to-all", "collective-permute"], 3 / 16),
        # The axis that is behind the other can go first.
        ("x+y", "y", ["collective-permute", "all-gather"], 1 / 2),
    ],
)
def test_chains_known_by_hand(start, target, kinds, shares):
    found = reshard(spec(start), spec(target), EIGHT)
    assert [step.kind.name for step in found.steps] == kinds
    assert price(found, EIGHT) == pytest.approx(shares)


def test_of_two_gathers_that_along_the_first_axis_is_the_last():
    # Parts of the first axis lie one behind the other as they come; those of another are transposed, when still small.
    found = reshard(spec("x y z"), spec(". . ."), EIGHT)
    assert [(step.kind.name, step.axis) for step in found.steps] == [("all-gather", i) for i in (2, 1, 0)]


@pytest.mark.parametrize("names", [("groups", "model"), ("nodes", "inside")], ids=str)
@pytest.mark.parametrize(("target", "axis"), [((1, 0), 0), ((0, 1), 1)])
def test_of_two_axes_that_are_summed_over_the_last_of_the_mesh_is_the_first(names, target, axis):
    # Both orders send 7/8 of the value in all: over the first mesh axis 1/2 of it, or 1/8.
    sizes = dict(zip(names, (2, 4), strict=True))
    start = Spec(((), ()), tuple(sorted(names)))
    found = reshard(start, Spec(tuple((names[i],) for i in target)), sizes)
    assert [(step.kind.name, step.axes, step.axis) for step in found.steps] == [
        ("reduce-scatter", names[1:], axis),
        ("reduce-scatter", names[:1], 1 - axis),
    ]
    assert price(found, sizes) == pytest.approx(7 / 8)


def test_an_optimizer_over_both_axes_of_hsdp_sends_its_share_alone_between_nodes():
    def step(params, state, x):
        grads = jax.grad(lambda p: jnp.mean((jnp.tanh(x @ p["up"]) @ p["down"] - x) ** 2))(params)
        state = jax.tree.map(lambda m, g: 0.9 * m + g, state, grads)
        return jax.tree.map(lambda p, m: p - 0.1 * m, params, state), state

    shapes = {"up": jnp.zeros((64, 256)), "down": jnp.zeros((256, 64))}
    named = ml.named(shapes, {"up": "embed ffn", "down": "ffn embed"})
    program = ml.trace(step, named, named, ml.named(jnp.zeros((32, 64)), "batch embed"))
    mesh = ml.mesh("h100:2x4", groups=2, model=4)
    rules = {"batch": "groups+model", "params/*": {"ffn": "model"}, "out/0/*": {"ffn": "model"}}
    both = {"ffn": "model", "embed": "groups"}
    plan = program.plan(mesh, {**rules, "state/*": both, "out/1/*": both})
    weight = 64 * 256 * 4
    # Of both gradients: reduce-scattered in the node first, so that between nodes a quarter of each is; then the
    # update, gathered there.
    sums = [(c.axes, c.wire_bytes) for c in plan.collectives if c.kind == "reduce-scatter"]
    assert sorted(sums) == sorted([(("model",), 3 / 4 * weight), (("groups",), 1 / 8 * weight)] * 2)
    assert plan.check().ok


def test_a_checkpoint_restored_on_another_mesh_moves_what_xla_moves():
    shape = ml.f32[ml.Dim("embed", 64), ml.Dim("ffn", 256)]
    program = ml.trace(lambda p: p, {"w": shape})
    plan = program.plan(ml.mesh(**EIGHT), {"p/*": {"ffn": "x+y+z"}, "out/*": {"embed": "x", "ffn": "y+z"}})
    assert plan.wire_bytes == 12_288 == plan.xla("stored").inserted_wire_bytes
    assert plan.check().ok


def exhaustive(start, target, sizes):
    """The least that a chain sends, by going through all specs: in the order of their cost, without any bound."""

    def count(axes):
        return math.prod(sizes[a] for a in axes)

    named = {*start.axes, *start.partial, *target.axes}
    parts = [math.lcm(count(a), count(b)) for a, b in zip(start.splits, target.splits, strict=True)]
    rank = range(len(parts))

    def every(axes):
        return itertools.chain.from_iterable(itertools.permutations(axes, k) for k in range(len(axes) + 1))

    def put(splits, **changed):
        return tuple(changed.get(f"_{i}", splits[i]) for i in rank)

    def moves(splits, partial):
        size, used = 1 / count(itertools.chain(*splits)), {*itertools.chain(*splits), *partial}
        for more in every(sorted(named - used)):
            yield from ((0, put(splits, **{f"_{i}": splits[i] + more}), partial) for i in rank)
        for over in every(sorted(partial - set(target.partial))):
            n = count(over)
            yield size * 2 * (n - 1) / n, splits, partial - set(over)
            for i in rank:
                yield size * (n - 1) / n, put(splits, **{f"_{i}": splits[i] + over}), partial - set(over)
        for i in rank:
            for keep in range(len(splits[i])):
                kept, rest = splits[i][:keep], splits[i][keep:]
                yield size * (count(rest) - 1), put(splits, **{f"_{i}": kept}), partial
                for j in set(rank) - {i}:
                    n = count(rest)
                    yield size * (n - 1) / n, put(splits, **{f"_{i}": kept, f"_{j}": splits[j] + rest}), partial
        for others in itertools.product(
            *([a for a in every(sorted(named - partial)) if count(a) == count(s)] for s in splits)
        ):
            flat = [*itertools.chain(*others)]
            if len(flat) == len(set(flat)):
                yield size, others, partial

    waiting, settled = [(0.0, start.splits, tuple(start.partial))], set()
    while waiting:
        cost, splits, partial = heapq.heappop(waiting)
        if Spec(splits, partial) == target:
            return cost
        if (splits, partial) in settled:
            continue
        settled.add((splits, partial))
        for more, after, left in moves(splits, frozenset(partial)):
            key = after, tuple(sorted(left))
            if key not in settled and all(n % count(split) == 0 for n, split in zip(parts, after, strict=True)):
                heapq.heappush(waiting, (round(cost + more, 12), *key))
    raise AssertionError("no chain")


@pytest.mark.parametrize("sizes", [EIGHT, {"x": 2, "y": 4}, {"x": 4, "y": 2, "z": 2}], ids=str)
def test_no_chain_of_any_moves_sends_less(sizes):
    pairs = list(drawn([sizes], SEED, SAMPLE))
    least = [exhaustive(start, target, sizes) for _, start, target in pairs]
    found = [price(reshard(start, target, sizes), sizes) for _, start, target in pairs]
    assert found == pytest.approx(least)
    assert sum(map(bool, found)) > SAMPLE / 2


def test_no_chain_sends_more_than_xla_in_one_hop():
    """On 8 devices here; `python -m tests.engine.collectives.one_hop` takes more pairs."""
    seen = [compared(pair) for pair in drawn(MESHES[8], SEED, SAMPLE)]
    assert len(seen) == SAMPLE
    for each in seen:
        assert each.ours <= each.one_hop + 1e-6, each
        assert each.predicted == each.compiled, each
        assert each.right, each


def test_chains_are_compiled_as_predicted_where_axes_differ_in_size():
    for each in map(compared, drawn(UNEVEN[8], SEED, SAMPLE // 3)):
        assert each.predicted == each.compiled, each
        assert each.right, each


def test_nor_on_16_devices():
    command = [sys.executable, "-m", "tests.engine.collectives.one_hop", "--devices", "16", "--pairs", str(SAMPLE // 2)]
    ended = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout
    assert f"{SAMPLE // 2} pairs on 16 devices" in ended.stdout
