"""What is stored, in what order, and where it lies."""

import itertools
import random

import jax
import numpy as np
import pytest

import meshlab as ml
from meshlab.cost.peak_memory.backends import BACKENDS, CPU
from meshlab.cost.peak_memory.build import build_graph
from meshlab.cost.peak_memory.fuse import clustered
from meshlab.cost.peak_memory.liveness import breadth_first, liveness_of
from meshlab.cost.peak_memory.pack_heap import packed

Batch, Hidden, Out = ml.dims(batch=8, hidden=16, out=4)


def graph_of(fn, *arguments, layout="", devices=2, backend=CPU):
    return build_graph(ml.trace(fn, *arguments).plan(ml.mesh(x=devices), layout), backend)


def stored(graph):
    """The primitives of what is stored, and of what is computed inside each."""
    nodes = graph.nodes
    clusters = clustered(graph).items()
    return {nodes[n].op: {nodes[i].op for i in cluster.inside} for n, cluster in clusters if nodes[n].op}


def test_what_one_reads_is_computed_inside_it():
    assert stored(graph_of(lambda x, y: x * 2.0 + y, ml.f32[Batch], ml.f32[Batch])) == {"add": {"mul", "add"}}


def test_what_a_product_reads_is_stored():
    kernels = stored(graph_of(lambda x, w: ml.dot(ml.relu(x), w, Hidden), ml.f32[Batch, Hidden], ml.f32[Hidden, Out]))
    assert kernels == {"max": {"max"}, "dot_general": {"dot_general"}}


def test_what_is_cheap_is_computed_twice_and_what_is_not_once():
    def of(function):
        def fn(x, y, z):
            value = function(x)
            return value + y, value - z

        return fn

    shapes = (ml.f32[Batch, Hidden],) * 3
    cheap = stored(graph_of(of(lambda x: x * 3.0), *shapes))
    assert cheap == {"add": {"mul", "add"}, "sub": {"mul", "sub"}}
    costly = stored(graph_of(of(ml.exp), *shapes))
    assert costly == {"exp": {"exp"}, "add": {"add"}, "sub": {"sub"}}
    # On GPUs memory traffic decides.
    on_gpu = stored(graph_of(of(ml.exp), *shapes, backend=BACKENDS["gpu"]))
    assert on_gpu == {"add": {"exp", "add"}, "sub": {"exp", "sub"}}


def test_what_is_read_under_other_shapes_is_stored_once_on_gpus():
    """Two products read the rounded gradient of logits with batch and seq merged; it is no kernel of each."""

    def fn(x, w, v):
        narrow = (x * 2.0).astype(jax.numpy.bfloat16)
        return ml.dot(narrow, w, Hidden), ml.dot(narrow, v, Batch, Hidden)

    Seq = ml.Dim("seq", 32)
    shapes = ml.f32[Batch, Seq, Hidden], ml.bf16[Hidden, Out], ml.bf16[Batch, Hidden, Out]
    graph = graph_of(fn, *shapes, backend=BACKENDS["gpu"])
    nodes = graph.nodes
    rounded = [n for n, cluster in clustered(graph).items() if "mul" in {nodes[i].op for i in cluster.inside}]
    assert [nodes[n].op for n in rounded] == ["convert_element_type"]


def test_what_is_padded_is_computed_again_on_gpus():
    def fn(x, y):
        padded = jax.lax.pad(jax.numpy.exp(x), 0.0, [(1, 1, 0), (0, 0, 0)])
        return padded * 2.0 + y, padded * 3.0 - y

    shapes = tuple(jax.ShapeDtypeStruct(shape, np.float32) for shape in ((8, 16), (10, 16)))
    assert "pad" in stored(graph_of(fn, *shapes))
    assert "pad" not in stored(graph_of(fn, *shapes, backend=BACKENDS["gpu"]))


def test_what_is_read_beside_its_own_mean_is_stored():
    def fn(x, y):
        added = x + y
        return added - added.mean(Hidden)

    kernels = stored(graph_of(fn, ml.f32[Batch, Hidden], ml.f32[Batch, Hidden]))
    assert kernels["add"] == {"add"}


def test_large_sums_are_a_library_s():
    Many = ml.Dim("many", 4096)
    fn = lambda x: (x * x).sum(Many) * 2.0  # noqa: E731
    kernels = stored(graph_of(fn, ml.f32[Batch, Many]))
    assert kernels["reduce_sum"] == {"mul", "reduce_sum"}
    assert kernels["mul"] == {"mul"}


def test_all_reduces_that_do_not_wait_for_each_other_are_one():
    def fn(x, a, b):
        return ml.dot(x, a, Hidden), ml.dot(x, b, Hidden)

    graph = graph_of(fn, ml.f32[Batch, Hidden], ml.f32[Hidden, Out], ml.f32[Hidden, Out], layout="hidden:x")
    assert [node.kind for node in graph.nodes].count("several") == 1
    assert "collective" not in [node.kind for node in graph.nodes]


def test_an_all_reduce_that_waits_for_another_stays_alone():
    Back = ml.Dim("back", 16)

    def fn(x, a, b):
        return ml.dot(ml.dot(x, a, Hidden), b, Back)

    shapes = ml.f32[Batch, Hidden], ml.f32[Hidden, Back], ml.f32[Back, Out]
    graph = graph_of(fn, *shapes, layout="hidden:x")
    assert [node.kind for node in graph.nodes].count("several") == 0
    both = graph_of(lambda x, a, b: ml.dot(ml.dot(x, a, Hidden).rename(back="hidden"), b, Hidden), *_chain())
    assert [node.kind for node in both.nodes].count("several") == 0


def _chain():
    Back = ml.Dim("back", 16)
    return ml.f32[Batch, Hidden], ml.f32[Hidden, Back], ml.f32[Hidden, Out]


def test_steps_run_as_soon_as_what_they_read_is_there():
    def fn(x, a, b):
        first = ml.dot(x, a, Hidden)
        return (first * 2.0).sum(), ml.dot(x, b, Hidden)

    graph = graph_of(fn, ml.f32[Batch, Hidden], ml.f32[Hidden, Out], ml.f32[Hidden, Out])
    clusters = clustered(graph)
    order = breadth_first(clusters)
    place = {number: i for i, number in enumerate(order)}
    ready = [max((place[r] for r in clusters[n].reads), default=-1) for n in order]
    assert ready == sorted(ready)


def test_what_is_read_for_the_last_time_may_be_written_over():
    def fn(x, w, v):
        return ml.dot(ml.exp(ml.dot(x, w, Hidden)), v, Out)

    Last = ml.Dim("last", 8)
    liveness = liveness_of(graph_of(fn, ml.f32[Batch, Hidden], ml.f32[Hidden, Out], ml.f32[Out, Last]))
    product, raised, _ = liveness.buffers
    assert raised.may_alias == (product,)
    assert product.end == raised.start


def test_a_carry_that_others_read_is_held_twice():
    Layers = ml.Dim("layers", 4)

    def run(keeps):
        def turn(carry, weight):
            return ml.exp(carry) * weight, carry if keeps else weight

        return lambda x, w: ml.scan(turn, x, w, Layers)

    counts = []
    for keeps in (False, True):
        program = ml.trace(run(keeps), ml.f32[Batch, Hidden], ml.f32[Layers])
        memory = program.plan(ml.mesh(x=2), "batch:x").memory
        held = [alive.bytes for alive in memory.at_peak if alive.place != "out/1"]
        counts.append(held.count(4 * 16 * 4))
    # The argument and the carry, which is an output; and what is kept of it.
    assert counts == [2, 3]


def test_a_heap_is_packed_with_gaps():
    starts, ends, sizes = (np.array(x) for x in ([0, 3, 6], [6, 10, 9], [4, 3, 2]))
    assert packed(starts, ends, sizes) == 7
    assert packed(np.zeros(0, int), np.zeros(0, int), np.zeros(0)) == 0


@pytest.mark.parametrize("seed", range(20))
def test_a_heap_holds_what_is_alive_and_no_more_than_all(seed):
    chance = random.Random(seed)
    spans = [sorted(chance.sample(range(30), 2)) for _ in range(25)]
    starts, ends = np.array(spans).T
    sizes = np.array([chance.randint(1, 100) for _ in spans])
    alive = max(int(sizes[(starts <= t) & (t < ends)].sum()) for t in range(30))
    assert alive <= packed(starts, ends, sizes) <= sizes.sum()


def test_outputs_give_their_space_to_what_is_gone_before():
    def fn(x, w):
        hidden = ml.exp(ml.dot(x, w, Hidden))
        return hidden.sum(), w * hidden.sum()

    Same = ml.Dim("same", 16)
    memory = ml.trace(fn, ml.f32[Batch, Hidden], ml.f32[Hidden, Same]).plan(ml.mesh(x=2), "").memory
    assert memory.temporary_bytes == 0
    assert memory.peak_bytes == memory.argument_bytes + memory.output_bytes
    assert memory.assignment.shared
    for buffer, space in memory.assignment.shared.items():
        assert buffer.end <= space.start or space.end <= buffer.start
    together = itertools.combinations(memory.assignment.shared.items(), 2)
    assert all(a.end <= b.start or b.end <= a.start for (a, s), (b, t) in together if s is t)


def test_the_plan_of_a_large_program_is_quick():
    Wide = ml.Dim("wide", 16)

    def fn(x, w):
        for _ in range(300):
            x = ml.relu(ml.dot(x, w, Hidden).rename(wide="hidden")) + x
        return jax.numpy.sum(x.array)

    plan = ml.trace(fn, ml.f32[Batch, Hidden], ml.f32[Hidden, Wide]).plan(ml.mesh(x=2), "batch:x")
    assert len(plan.memory.liveness.points) > 600
