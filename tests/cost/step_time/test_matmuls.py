"""What XLA for TPUs makes of products: what is computed inside them, what is stored rounded, and in which order."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from meshlab.cost.peak_memory.backends import BACKENDS
from meshlab.cost.peak_memory.build import build_graph
from meshlab.cost.peak_memory.fuse import clustered
from meshlab.cost.peak_memory.graph import depth_first
from meshlab.cost.peak_memory.liveness import liveness_of
from meshlab.cost.peak_memory.memory import memory_of
from meshlab.cost.peak_memory.run_order import _Sizes, least_memory

TPU = BACKENDS["tpu"]
Batch, Hidden, Out = ml.dims(batch=1024, hidden=512, out=256)
X, W, V = ml.f32[Batch, Hidden], ml.f32[Hidden, Out], ml.f32[Out, Hidden]


def graph_of(fn, *arguments, layout: Any = "", devices=2):
    return build_graph(ml.trace(fn, *arguments).plan(ml.mesh(x=devices), layout), TPU)


def stored(graph):
    """What is computed inside each node that is stored, by the primitives' names."""
    clusters = clustered(graph)
    return [
        sorted(graph.nodes[i].op for i in c.inside if graph.nodes[i].op) for c in clusters.values() if len(c.inside)
    ]


def halves(graph):
    """The primitives of what lies in 16 bits."""
    return [node.op for node in graph.nodes if node.buffer is not None and node.buffer.factor == 0.5]


def collectives(graph):
    """How large collectives are, beside what the program says."""
    return [node.buffer.factor for node in graph.nodes if node.kind == "collective"]


def test_what_a_product_reads_is_computed_inside_it_however_expensive():
    kernels = stored(graph_of(lambda x, w: ml.dot(ml.exp(x), w, Hidden), X, W))
    assert ["dot_general", "exp"] in kernels
    assert ["exp"] not in kernels


def test_what_several_products_read_is_computed_in_each():
    def fn(x, w, v):
        h = ml.relu(ml.dot(x, w, Hidden))
        return ml.dot(h, v, Out), ml.dot(h, w, Out)

    kernels = stored(graph_of(fn, X, W, V))
    assert kernels.count(["dot_general", "max"]) == 2


def test_what_is_made_of_a_product_alone_is_computed_in_it():
    kernels = stored(graph_of(lambda x, w, y: ml.exp(ml.dot(x, w, Hidden)) + y, X, W, ml.f32[Batch, Out]))
    assert ["add", "dot_general", "exp"] in kernels


def test_two_products_are_not_one():
    kernels = stored(graph_of(lambda x, w, y: ml.dot(x, w, Hidden) + ml.dot(y, w, Hidden), X, W, X))
    assert ["dot_general"] in kernels
    assert ["add", "dot_general"] in kernels


def test_a_product_that_two_read_is_stored():
    def fn(x, w, y):
        product = ml.dot(x, w, Hidden)
        return product + y, product * y

    assert ["dot_general"] in stored(graph_of(fn, X, W, ml.f32[Batch, Out]))


def test_what_one_product_makes_for_another_is_computed_where_it_is_made():
    kernels = stored(graph_of(lambda x, w, v: ml.dot(ml.relu(ml.dot(x, w, Hidden)), v, Out), X, W, V))
    assert ["dot_general", "max"] in kernels
    assert ["dot_general"] in kernels


def test_sums_are_computed_once():
    fn = lambda x, w: ml.dot(x - x.mean(Hidden), w, Hidden)  # noqa: E731
    kernels = stored(graph_of(fn, X, W))
    assert ["dot_general", "sub"] in [[op for op in ops if op in ("dot_general", "sub")] for ops in kernels]
    assert all(not {"reduce_sum", "dot_general"} <= set(ops) for ops in kernels)


def test_what_only_products_read_lies_in_16_bits():
    def fn(x, w, v):
        return ml.dot(ml.dot(x, w, Hidden), v, Out)

    assert halves(graph_of(fn, X, W, V)) == ["dot_general"]
    assert memory_of(ml.trace(fn, X, W, V).plan(ml.mesh(x=2)), "tpu").temporary_bytes == 2 * 1024 * 256


def test_what_others_read_too_keeps_its_bits():
    def fn(x, w, v):
        product = ml.dot(x, w, Hidden)
        return ml.dot(product, v, Out), product.sum()

    assert halves(graph_of(fn, X, W, V)) == []


@pytest.mark.parametrize(("precision", "rounded"), [(None, 1), ("default", 1), ("highest", 0), ("high", 0)])
def test_products_of_more_precision_read_all_bits(precision, rounded):
    def fn(x, w, v):
        return jnp.dot(jnp.dot(x, w), v, precision=precision)

    shapes = [jax.ShapeDtypeStruct(s, np.float32) for s in ((1024, 512), (512, 256), (256, 128))]
    program = ml.trace(fn, *shapes)
    assert len(halves(build_graph(program.plan(ml.mesh(x=1)), TPU))) == rounded


def test_what_is_gathered_for_products_is_gathered_in_16_bits():
    graph = graph_of(lambda x, w: ml.dot(x, w, Hidden), X, W, layout={"batch": "x", "w": {"out": "x"}})
    assert collectives(graph) == [0.5]
    reduced = graph_of(lambda x, w: ml.dot(x, w, Hidden).sum(), X, W, layout="hidden:x")
    assert collectives(reduced) == [1.0]


def test_what_turns_of_a_loop_multiply_by_is_rounded_before_it():
    def fn(x, w):
        return jax.lax.scan(lambda carry, one: (jnp.tanh(carry @ one), None), x, w)[0]

    def twice(x, w):
        return jax.lax.scan(lambda carry, one: (jnp.tanh(carry @ one) + one.sum(), None), x, w)[0]

    shapes = [jax.ShapeDtypeStruct(s, np.float32) for s in ((1024, 512), (4, 512, 512))]
    for function, copies in ((fn, 1), (twice, 0)):
        graph = build_graph(ml.trace(function, *shapes).plan(ml.mesh(x=1)), TPU)
        rounded = [n for n in graph.nodes if n.kind == "copy" and n.shape == (4, 512, 512)]
        assert len(rounded) == copies


def test_what_is_scattered_into_zeros_and_added_is_scattered_into_the_other():
    def fn(table, rows, x):
        return jax.grad(lambda t: (t[rows] * 2.0).sum() + (x @ t).sum())(table)

    shapes = [jax.ShapeDtypeStruct((256, 512), np.float32), jax.ShapeDtypeStruct((8,), np.int32)]
    graph = build_graph(ml.trace(fn, *shapes, jax.ShapeDtypeStruct((1024, 256), np.float32)).plan(ml.mesh(x=1)), TPU)
    (last,) = graph.outputs
    assert last is not None
    assert graph.nodes[last].op == "scatter-add"
    assert graph.nodes[graph.nodes[last].reads[0]].kind != "constant"


def test_an_all_reduce_writes_over_what_it_reads():
    fn = lambda x, w: ml.exp(ml.dot(x, w, Hidden)) * 2.0  # noqa: E731
    graph = graph_of(fn, X, W, layout="hidden:x")
    buffers = [h for h in liveness_of(graph).buffers if h.output < 0]
    assert len(buffers) == 1
    assert memory_of(ml.trace(fn, X, W).plan(ml.mesh(x=2), "hidden:x"), "tpu").temporary_bytes == 0


def test_steps_run_in_the_order_that_needs_least_memory():
    """Each sum of an outer product frees it at once: first made all, they would all be alive."""

    def fn(x, y):
        sums = [ml.exp(x * float(i) + y).sum(Hidden) + ml.cos(x * float(i) + y).sum(Hidden) for i in range(1, 5)]
        return sum(sums[1:], sums[0])

    graph = graph_of(fn, X, X)
    clusters = clustered(graph)
    needed = depth_first(graph, {number: cluster.reads for number, cluster in clusters.items()})
    order, most = least_memory(graph, clusters, needed, lambda _: 0.0)
    sizes = _Sizes(graph, clusters, lambda _: 0.0)
    assert sorted(order) == sorted(clusters)
    assert most == sizes.most_alive(order) == min(sizes.most_alive(needed), sizes.most_alive(sizes.greedy()))
    place = {number: at for at, number in enumerate(order)}
    assert all(place[read] < place[number] for number, cluster in clusters.items() for read in cluster.reads)


def test_a_loop_comes_after_what_makes_room_for_it():
    """The product that is last to read `wide` runs before the loop, whose turns need memory, though it could wait."""

    def fn(x, w, stack):
        wide = jnp.exp(x @ w)
        carry = jnp.cos(wide.sum(1, keepdims=True) * x)
        carry = jax.lax.scan(lambda c, one: (jnp.tanh(c @ one) @ one.T, None), carry, stack)[0]
        return carry, x.T @ (wide * 2.0)

    shapes = [jax.ShapeDtypeStruct(s, np.float32) for s in ((1024, 512), (512, 4096), (2, 512, 8192))]
    memory = memory_of(ml.trace(fn, *shapes).plan(ml.mesh(x=1)), "tpu")
    assert memory.gap_bytes == 0
    wide = 4 * 1024 * 4096
    *_, at_loop = (point.bytes for point in memory.timeline if point.step == "scan")
    assert at_loop < memory.argument_bytes + memory.output_bytes + wide


def test_what_is_recomputed_is_multiplied_by_what_was_rounded_before():
    def fn(x, w):
        piece = jax.checkpoint(lambda carry, one: (jnp.tanh(carry @ one), None))
        return jax.grad(lambda x: jax.lax.scan(piece, x, w)[0].sum())(x)

    shapes = [jax.ShapeDtypeStruct(s, np.float32) for s in ((1024, 512), (4, 512, 512))]
    graph = build_graph(ml.trace(fn, *shapes).plan(ml.mesh(x=1)), TPU)
    (rounded,) = [i for i, n in enumerate(graph.nodes) if n.kind == "copy" and n.shape == (4, 512, 512)]
    loops = [n for n in graph.nodes if n.kind == "loop"]
    assert len(loops) == 2
    assert all(rounded in loop.reads for loop in loops)


def test_what_a_loop_needs_inside_puts_it_off():
    """The loop frees the most; but while it runs, what the product frees were alive as well."""

    def fn(x, w, stack):
        wide = jnp.exp(x @ w)
        slices = jnp.sort(stack * wide.sum(), axis=0)
        return jax.lax.scan(lambda c, one: (c * one.sum(), None), x, slices)[0], x.T @ (wide * slices.sum())

    shapes = [jax.ShapeDtypeStruct(s, np.float32) for s in ((1024, 512), (512, 4096), (64, 1024, 512))]
    graph = build_graph(ml.trace(fn, *shapes).plan(ml.mesh(x=1)), TPU)
    clusters = clustered(graph)

    def runs_last(inside: float) -> str:
        order = _Sizes(graph, clusters, lambda _: inside).greedy()
        products = [n for n in order if graph.nodes[n].kind == "matmul"]
        loop = next(n for n in order if graph.nodes[n].kind == "loop")
        return "loop" if order.index(loop) > order.index(products[-1]) else "matmul"

    assert [runs_last(0.0), runs_last(1e9)] == ["matmul", "loop"]
