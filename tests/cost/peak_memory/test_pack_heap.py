"""How large XLA's heap is, and when what lies in it is taken and given back."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from benchmarks import memory as accuracy
from meshlab.cost.peak_memory.backends import CPU
from meshlab.cost.peak_memory.build import build_graph
from meshlab.cost.peak_memory.graph import Buffer, Graph, Node
from meshlab.cost.peak_memory.liveness import liveness_of
from meshlab.cost.peak_memory.memory import memory_of
from meshlab.cost.peak_memory.pack_heap import events, packed
from meshlab.engine.specs.spec import Spec
from meshlab.models.zoo import models

Batch, Hidden = ml.dims(batch=8, hidden=16)
NOBODY = -1


def arrays(*rows):
    return tuple(np.array(row) for row in rows)


# What XLA for CPUs (jaxlib 0.10.2) dumps of `autoencoder` with `io` on 8 devices: (first and last step, bytes) in the
# order of its values' numbers, and the size of its heap, without its one table.
AUTOENCODER = (
    (6, 8, 2048),
    (8, 22, 2048),
    (9, 15, 2048),
    (11, 14, 256),
    (13, 18, 2048),
    (18, 22, 2048),
    (21, 23, 2048),
    (7, 23, 256),
    (23, 24, 32),
    (12, 15, 256),
)


def test_live_ranges_of_xla_give_the_heap_of_xla():
    starts, lasts, sizes = arrays(*zip(*AUTOENCODER, strict=True))
    assert packed(starts, lasts + 1, sizes, alignment=64) == 3 * 2048 + 2048 + 256
    alive = [int(sizes[(starts <= t) & (t <= lasts)].sum()) for t in range(25)]
    assert max(alive) == 3 * 2048 + 3 * 256


def test_lives_are_counted_in_what_comes_and_goes():
    starts, ends = arrays([0, 1, 3, 3], [3, 9, 5, 4])
    taken, given = events(starts, ends, np.arange(4), np.full(4, NOBODY))
    # At point 3 the one that ends first is taken first, and given back after the other is taken.
    assert taken.tolist() == [0, 1, 4, 3]
    assert given.tolist() == [2, 7, 6, 5]


def test_what_is_written_over_is_given_back_before_it_is_taken_anew():
    starts, ends, over = arrays([0, 0, 2], [3, 3, 5], [NOBODY, NOBODY, 1])
    taken, given = events(starts, ends, np.arange(3), over)
    assert taken.tolist() == [0, 1, 3]
    assert given.tolist() == [4, 2, 5]


def test_what_is_written_over_lies_where_that_lay():
    starts, ends, sizes = arrays([0, 2, 4], [3, 5, 7], [8, 8, 8])
    apart, together = (packed(starts, ends, sizes, aliases=np.array(row)) for row in ([-1, -1, -1], [-1, 0, 1]))
    assert (apart, together) == (16, 8)


def test_alike_buffers_are_put_in_by_rank():
    starts, ends = arrays([5, 2, 0, 5, 1, 0, 2, 6], [7, 4, 2, 7, 5, 8, 6, 7])
    sizes, ranks = arrays([4, 4, 4, 4, 4, 4, 4, 6], range(8))
    assert packed(starts, ends, sizes) == packed(starts, ends, sizes, ranks) == 22
    assert packed(starts, ends, sizes, ranks[::-1]) == 18


def test_buffers_begin_at_multiples_of_a_step():
    starts, ends, sizes = arrays([0, 0, 0], [2, 2, 2], [100, 10, 4])
    assert packed(starts, ends, sizes) == 114
    assert packed(starts, ends, sizes, alignment=64) == 128 + 64 + 4


def test_tables_of_addresses_are_counted_beside_the_heap():
    def fn(x, y, z):
        return x.sum(Batch), ml.exp(y).sum(Batch), ml.sin(z).sum(Batch)

    plan = ml.trace(fn, *(ml.f32[Batch, Hidden],) * 3).plan(ml.mesh(x=2), "batch:x")
    memory = memory_of(plan, "cpu")
    assert memory.liveness.tables == [3]
    without = dataclasses.replace(memory, backend=dataclasses.replace(memory.backend, tuple_tables=False))
    assert memory.peak_bytes - without.peak_bytes == 3 * 8
    assert sum(memory.parts.values()) == memory.peak_bytes


def test_a_table_of_a_loop_holds_what_goes_into_a_turn():
    def turn(carry, w):
        return ml.sin(carry) * w, None

    Layers = ml.Dim("layers", 3)
    program = ml.trace(lambda x, w: ml.scan(turn, x, w, Layers)[0], ml.f32[Batch], ml.f32[Layers])
    liveness = liveness_of(build_graph(program.plan(ml.mesh(x=2), ""), CPU))
    # The counter, the carry, and the weights.
    assert liveness.tables == [3]


def held_of(graph, number):
    """The buffer of a node, which nobody else's is as large as."""
    size = graph.nodes[number].buffer
    (live,) = [live for live in liveness_of(graph).buffers if live.size == size]
    return live


def graph_of_one(through):
    """A graph in which a map reads what a product makes: as it is, by another shape, or as one of several results."""
    graph, spec = Graph(CPU), Spec(())
    graph.inputs = [graph.add(Node("source", (), Buffer((0, spec)), (8,), None))]
    if through == "several":
        several = graph.add(Node("opaque", graph.inputs, None, (), None))
        operand = read = graph.add(Node("part", (several,), Buffer((1, spec)), (8,), None))
    else:
        operand = read = graph.add(Node("opaque", graph.inputs, Buffer((1, spec)), (8,), None))
    if through == "barrier":
        barrier = graph.add(Node("barrier", (operand,), None, (), None))
        read = graph.add(Node("through", (barrier, operand), Buffer((1, spec)), (8,), None))
    written = graph.add(Node("elementwise", (read,), Buffer((2, spec)), (8,), None))
    last = graph.add(Node("opaque", (written,), Buffer((3, spec)), (8,), None))
    graph.outputs, graph.output_buffers = [last], [Buffer((3, spec))]
    return graph, written


def test_the_heap_is_not_written_over_through_other_shapes_and_several_results():
    graph, written = graph_of_one("nothing")
    buffer = held_of(graph, written)
    assert buffer.heap_aliases == buffer.may_alias != ()
    for through in ("several", "barrier"):
        buffer = held_of(*graph_of_one(through))
        assert buffer.may_alias
        assert not buffer.heap_aliases


def test_what_a_loop_carries_is_not_written_over_anything_in_the_heap():
    Layers = ml.Dim("layers", 3)

    def fn(x, w):
        start = ml.exp(ml.Tensor(jnp.cumsum(x.array), x.dims))
        return ml.scan(lambda carry, w: (ml.sin(carry) * w, None), start, w, Layers)[0] + 1.0

    def without(x):
        return ml.Tensor(jnp.cumsum(ml.exp(ml.Tensor(jnp.cumsum(x.array), x.dims)).array), x.dims) + 1.0

    carried, other = (
        [
            buffer
            for buffer in liveness_of(build_graph(ml.trace(of, *args).plan(ml.mesh(x=2), ""), CPU)).buffers
            if buffer.may_alias
        ]
        for of, args in ((fn, (ml.f32[Batch], ml.f32[Layers])), (without, (ml.f32[Batch],)))
    )
    assert carried
    assert not carried[0].heap_aliases
    assert other[0].heap_aliases


@pytest.mark.parametrize(
    ("name", "case"),
    [("autoencoder", ("io:x", {"x": 8})), ("unet3d", ("height_2:x channels_1:y", {"x": 4, "y": 2}))],
)
def test_plans_that_were_too_low_are_near(name, case):
    layout, axes = case
    program = next(model for model in models() if model.name == name).trace()
    plan = program.plan(ml.mesh(**axes), layout)
    assert abs(accuracy.error(plan, accuracy.compiled(plan))) < 0.05
