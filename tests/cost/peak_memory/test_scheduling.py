"""What XLA makes of products, all-reduces and gathers before it orders nodes, and in what order they run."""

import math
from typing import Any, cast

import jax
import jax.numpy as jnp

import meshlab as ml
from meshlab.cost.peak_memory.assign_layouts import hoist_copies
from meshlab.cost.peak_memory.backends import BACKENDS, CPU
from meshlab.cost.peak_memory.build import build_graph
from meshlab.cost.peak_memory.combine_all_reduces import combine
from meshlab.cost.peak_memory.fuse import clustered
from meshlab.cost.peak_memory.graph import Buffer, Graph, Node, topological
from meshlab.cost.peak_memory.liveness import liveness_of
from meshlab.cost.peak_memory.run_order import behind_loops, breadth_first
from meshlab.engine.planning.steps import Compute
from meshlab.engine.specs.spec import Spec

Batch, Hidden, Out = ml.dims(batch=8, hidden=16, out=4)


def graph_of(fn, *arguments, layout: Any = "", devices=2):
    return build_graph(ml.trace(fn, *arguments).plan(ml.mesh(x=devices), layout), CPU)


class Drawn:
    """A graph that is drawn node by node; every array is of its own."""

    def __init__(self, backend=CPU):
        self.graph = Graph(backend)

    def add(self, kind, *reads, shape=(8, 8), **flags):
        buffer = None if kind in ("several", "opaque several") else Buffer((len(self.graph.nodes), Spec(())))
        node = Node(kind, reads, buffer, shape, None, **flags)
        node.dtype = cast("Any", jnp.dtype("float32"))
        number = self.graph.add(node)
        if kind == "source":
            self.graph.inputs.append(number)
        return number

    def returns(self, *numbers):
        self.graph.outputs = list(numbers)
        self.graph.output_buffers = [self.graph.nodes[n].buffer for n in numbers]
        return self.graph


# Products


def stored_shapes(graph):
    return [(graph.nodes[n].kind, graph.nodes[n].shape) for n in clustered(graph)]


def test_a_vector_in_a_product_is_copied():
    def fn(x, w):
        return ml.dot(x, w, Hidden)

    shapes = (ml.f32[Batch, Hidden], ml.f32[Hidden, Out])
    # A column of w on each device: XLA takes its axis away and gives it another, which is a copy of its own; and so for
    # what the product makes.
    column = stored_shapes(graph_of(fn, *shapes, layout="out:x", devices=4))
    assert column == [
        ("source", (8, 16)),
        ("source", (16, 1)),
        ("bitcast", (16, 1)),
        ("opaque", (8, 1)),
        ("bitcast", (8, 1)),
    ]
    whole = stored_shapes(graph_of(fn, *shapes))
    assert whole == [("source", (8, 16)), ("source", (16, 4)), ("opaque", (8, 4))]


def test_a_product_of_vectors_is_a_sum_of_products():
    graph = graph_of(lambda x, y: ml.dot(x, y, Hidden), ml.f32[Batch, Hidden], ml.f32[Batch, Hidden])
    clusters = {graph.nodes[n].op: cluster for n, cluster in clustered(graph).items() if graph.nodes[n].op}
    assert {graph.nodes[n].op for n in clusters["reduce_sum"].inside} == {"mul", "reduce_sum"}
    assert set(clusters) == {"reduce_sum"}


def test_what_takes_all_of_an_array_in_a_per_shard_implementation_is_no_node():
    Height, Width, Near, Far = ml.dims(height=8, width=8, near=3, far=3)
    shapes = (ml.f32[Batch, Height, Width, Hidden], ml.f32[Near, Far, Hidden, Out])

    def fn(image, window):
        return ml.conv(image, window, {Height: Near, Width: Far}, Hidden)

    graph = graph_of(fn, *shapes, layout="height:x")
    slices = [node for node in graph.nodes if node.op in ("slice", "dynamic_slice")]
    assert slices
    assert all(graph.nodes[node.reads[0]].shape != node.shape for node in slices)


# All-reduces


def test_all_reduces_are_ordered_anew_when_some_were_made_one():
    drawn = Drawn()
    x = drawn.add("source")
    first = drawn.add("collective", x)
    largest = drawn.add("collective", first)
    later = drawn.add("collective", largest)
    second = drawn.add("collective", x)
    other = drawn.add("collective", second)
    graph = drawn.returns(later, other)
    sums, maxima = [("sum", n) for n in (first, later, second)], [("max", n) for n in (largest, other)]
    combine(graph, [*sums, *maxima], math.inf)
    # `first` stays alone, for `later` comes next and waits for it. Then the maxima are made one, so that `later` waits
    # for `second` as well, and these two cannot be.
    assert [node.reads for node in graph.nodes if node.kind == "several"] == [(first, second)]
    assert [graph.nodes[n].kind for n in (first, later, second)] == ["collective"] * 3
    assert [graph.nodes[n].kind for n in (largest, other)] == ["part"] * 2


def test_all_reduces_that_are_too_large_together_stay_apart():
    drawn = Drawn()
    x = drawn.add("source")
    sums = [drawn.add("collective", x) for _ in range(3)]
    graph = drawn.returns(*sums)
    combine(graph, [("sum", number) for number in sums], 2 * 8 * 8 * 4)
    assert [len(node.reads) for node in graph.nodes if node.kind == "several"] == [2]


# Order


def test_users_are_listed_as_xla_lists_them():
    """A node that is computed where it is read is taken off its operand's list, and the last takes its place."""
    drawn = Drawn()
    x = drawn.add("source")
    product = drawn.add("opaque", x)
    shared = drawn.add("elementwise", product)
    users = [drawn.add("elementwise", shared) for _ in range(3)]
    graph = drawn.returns(*[drawn.add("opaque", user) for user in users])
    clusters = clustered(graph)
    assert clusters[product].reads == (x,)
    # From the last to the first each takes in what is shared; the first is the last that does so.
    assert clusters[product].users == (users[0], users[2], users[1])


def test_users_were_listed_before_all_reduces_were_made_one():
    drawn = Drawn()
    x = drawn.add("source")
    shared = drawn.add("opaque", x)
    loss = drawn.add("collective", x)
    deep = drawn.add("opaque", shared)
    weights = drawn.add("opaque", shared)
    summed = drawn.add("collective", weights)
    graph = drawn.returns(loss, deep, summed)
    combine(graph, [("sum", loss), ("sum", summed)], math.inf)
    # By now the weights' gradient is needed first, for it is in one all-reduce with the loss.
    order = topological(graph)
    assert order.index(weights) < order.index(deep)
    assert clustered(graph)[shared].users == (deep, weights)


def test_a_turn_of_a_loop_starts_with_what_comes_in_last():
    Layers = ml.Dim("layers", 3)

    def turn(carry, w):
        one, two = carry
        return (ml.cumsum(one, Batch), ml.cumsum(two, Batch)), None

    def fn(one, two, w):
        return ml.scan(turn, (one, two), w, Layers)[0]

    liveness = liveness_of(graph_of(fn, ml.f32[Batch], ml.f32[Batch, Hidden], ml.f32[Layers]))
    steps = [step for step in liveness.points if isinstance(step, Compute)]
    sums = [step.operation.outputs for step in steps if step.operation.name == "cumsum"]
    assert len(sums) == 2
    assert sums[0] > sums[1]


def looped(*, inside: bool, behind: bool, needed: bool = False):
    """A product before a loop, and what is sent: by each iteration, or of the loop's result; on GPUs."""
    body = Drawn(BACKENDS["gpu"])
    made = body.add("opaque", body.add("source"))
    body.returns(body.add("store", body.add("collective", made) if inside else made))
    drawn = Drawn(BACKENDS["gpu"])
    x = drawn.add("source")
    product = drawn.add("opaque", x)
    late = drawn.add("elementwise", product)
    loop = drawn.add("loop", product if needed else x)
    drawn.graph.nodes[loop].inner = (body.graph,)
    result = drawn.add("part", loop)
    graph = drawn.returns(drawn.add("collective", late), drawn.add("collective", result) if behind else result)
    clusters = clustered(graph)
    order = behind_loops(graph, clusters, breadth_first(clusters))
    return order.index(loop) < order.index(product)


def test_products_that_a_loop_does_not_wait_for_run_beside_what_is_sent_behind_it():
    assert looped(inside=True, behind=False)
    assert looped(inside=False, behind=True)
    assert not looped(inside=False, behind=False)
    assert not looped(inside=True, behind=True, needed=True)


def test_on_gpus_a_loop_holds_what_the_iteration_before_has_yet_to_send():
    """Under FSDP the whole gradients of one layer, beside those that the next one computes."""
    Layers = ml.Dim("layers", 3)

    def loss(w, x):
        return ml.scan(lambda x, w: (ml.relu(ml.dot(x, w, Hidden)).rename(hidden2=Hidden), None), x, w, Layers)[0].sum()

    weights = ml.f32[Layers, Hidden, ml.Dim("hidden2", 16)]
    plan = ml.trace(jax.grad(loss), weights, ml.f32[Batch, Hidden]).plan(
        ml.mesh(x=4), {"batch": "x", "w": {"hidden": "x"}, "out": {"hidden": "x"}}
    )
    assert any(c.kind == "reduce-scatter" and c.times == 3 for c in plan.collectives)
    held = [b for b in liveness_of(build_graph(plan, BACKENDS["gpu"])).buffers if b.rank == (0, 0)]
    assert len(held) == 1
    assert not [b for b in liveness_of(build_graph(plan, CPU)).buffers if b.rank == (0, 0)]


# Gathers


def test_copies_for_a_gather_are_made_of_what_it_is_computed_of():
    drawn = Drawn()
    x, y = drawn.add("source"), drawn.add("source")
    product, shared = drawn.add("opaque", x), drawn.add("elementwise", y)
    summed = drawn.add("elementwise", product, shared)
    copy = drawn.add("move", summed)
    gathered = drawn.add("collective", copy)
    graph = drawn.returns(gathered, shared)
    hoist_copies(graph, [copy])
    nodes = graph.nodes
    assert nodes[copy].kind == "bitcast"
    assert [nodes[read].kind for read in nodes[summed].reads] == ["move", "move"]
    assert [nodes[read].reads for read in nodes[summed].reads] == [(product,), (shared,)]
    # What others read as well is not made anew in another order.
    assert nodes[shared].kind == "elementwise"
    assert nodes[shared].reads == (y,)


def test_what_is_gathered_along_another_axis_is_computed_in_its_order():
    shapes = (ml.f32[Batch, Hidden],) * 2
    graph = graph_of(lambda x, y: x * y, *shapes, layout={"hidden": "x", "out": {"hidden": None}})
    (gathered,) = [node for node in graph.nodes if node.kind == "collective"]
    (product,) = [node for node in graph.nodes if node.op == "mul"]
    assert graph.nodes[gathered.reads[0]].kind == "bitcast"
    assert [graph.nodes[read].kind for read in product.reads] == ["move", "move"]
