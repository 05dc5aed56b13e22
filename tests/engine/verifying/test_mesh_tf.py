"""Mesh TensorFlow's own counters, element for element.

It counts elements summed over all processors: of an all-reduce's, all-to-all's and shift's operand, of an all-gather's
result. What was measured there is written here as it was printed; where meshlab differs, the difference is listed with
its bytes.
"""

from collections import Counter

import jax
import pytest

import meshlab as ml
from meshlab.models.basic import mesh_tf
from meshlab.models.parts.initial import shapes
from tests.engine.small_programs import checked

pytestmark = pytest.mark.share(2, of="file")

ALL4 = ml.mesh(all=4)
R2C2 = ml.mesh(r=2, c=2)


def elements(plan):
    """What Mesh TensorFlow would have counted, by kind and axes."""
    sums = Counter()
    for c in plan.collectives:
        result = c.payload_bytes // jax.numpy.dtype(c.dtype).itemsize * c.times * plan.mesh.size
        if c.kind == "all-gather":
            for axis in c.axes:
                result *= plan.mesh.axes[axis]
        sums[c.kind, "+".join(c.axes)] += result
    return dict(sums)


def two_layer(make):
    config = mesh_tf.TwoLayer()
    x = ml.f32[config.dims("batch io")]
    return ml.trace(make(mesh_tf.two_layer_loss), shapes(mesh_tf.init_two_layer, config), x, x)


def block(make):
    config = mesh_tf.Block()
    x = ml.f32[config.dims("batch length d_model")]
    return ml.trace(make(mesh_tf.block_loss), shapes(mesh_tf.init_block, config), x)


def forward(loss):
    return loss


AR = "all-reduce"
# The layout, Mesh TensorFlow's counters forward and in training. It counts the loss in `reduce_op`: 4 elements.
TWO_LAYER = [
    (ALL4, None, {}, {}),
    (ALL4, "batch:all", {(AR, "all"): 4}, {(AR, "all"): 4_096 + 4}),
    (ALL4, "hidden:all", {(AR, "all"): 512}, {(AR, "all"): 512}),
    # Not in its table: the loss sums over `io`, which is split, 4 elements more.
    (ALL4, "io:all", {(AR, "all"): 1_024 + 4}, {(AR, "all"): 2_048 + 4}),
    (
        R2C2,
        "batch:r hidden:c",
        {(AR, "c"): 256, (AR, "r"): 4},
        {(AR, "c"): 256, (AR, "r"): 2_048 + 4},
    ),
]
BLOCK = [
    (ALL4, "batch:all", {(AR, "all"): 4}, {(AR, "all"): 32_768 + 4}),
    (ALL4, "heads:all d_ff:all", {(AR, "all"): 32_768}, {(AR, "all"): 49_152}),
    (
        R2C2,
        "batch:r heads:c d_ff:c",
        {(AR, "c"): 16_384, (AR, "r"): 4},
        {(AR, "c"): 24_576, (AR, "r"): 16_384 + 4},
    ),
    (
        ALL4,
        "length:all",
        {("all-gather", "all"): 16_384, (AR, "all"): 4},
        {("all-gather", "all"): 16_384, (AR, "all"): 57_344 + 4},
    ),
]


@pytest.mark.parametrize(("mesh", "layout", "counted", "_"), TWO_LAYER)
def test_two_layers_forward(mesh, layout, counted, _):
    assert elements(two_layer(forward).plan(mesh, layout)) == counted


@pytest.mark.parametrize(("mesh", "layout", "_", "counted"), TWO_LAYER)
def test_two_layers_in_training(mesh, layout, _, counted):
    assert elements(two_layer(mesh_tf.train).plan(mesh, layout)) == counted


@pytest.mark.parametrize(("mesh", "layout", "counted", "_"), BLOCK)
def test_transformer_block_forward(mesh, layout, counted, _):
    assert elements(block(forward).plan(mesh, layout)) == counted


@pytest.mark.parametrize(("mesh", "layout", "_", "counted"), BLOCK)
def test_transformer_block_in_training(mesh, layout, _, counted):
    assert elements(block(mesh_tf.train).plan(mesh, layout)) == counted


@pytest.mark.parametrize("program", [two_layer, block])
def test_the_compiled_programs_agree(program):
    cases = TWO_LAYER if program is two_layer else BLOCK
    for mesh, layout, *_ in cases[-2:]:
        report = program(mesh_tf.train).plan(mesh, layout).check()
        assert report.ok, report


# The table of operations: x[a=4, b=6], and squares of 8.
A, B = ml.dims(a=4, b=6)
P2 = ml.mesh(p=2)
S, T = ml.dims(s=8, t=8)


@pytest.mark.parametrize(
    ("fn", "args", "mesh", "layout", "counted"),
    [
        (lambda x: ml.softmax(x, "b"), (ml.f32[A, B],), P2, "b:p", {(AR, "p"): 16}),
        (lambda x: ml.softmax(x, "b"), (ml.f32[A, B],), P2, "a:p", {}),
        (lambda x: x.rename(a="k"), (ml.f32[A, B],), P2, "a:p", {("all-gather", "p"): 48}),
        (lambda x: x.rename(a="k"), (ml.f32[A, B],), P2, "k:p", {}),
        (lambda x: x.rename(a="k"), (ml.f32[A, B],), P2, "a:p k:p", {}),
        (lambda x: x.rename(s="k", t="d"), (ml.f32[S, T],), P2, "s:p d:p", {("all-to-all", "p"): 64}),
        (
            lambda x: ml.shift(x, "s", 3, wrap=True),
            (ml.f32[S],),
            ml.mesh(p=4),
            "s:p",
            {("collective-permute", "p"): 4 + 4},
        ),
        (lambda x: ml.shift(x, "s", -2), (ml.f32[S],), ml.mesh(p=4), "s:p", {("collective-permute", "p"): 8}),
        (lambda x: ml.relu(x) + x.max(), (ml.f32[A, B],), P2, None, {}),
        (lambda x: ml.logsumexp(x, "b"), (ml.f32[A, B],), P2, "b:p", {(AR, "p"): 16}),
    ],
    ids="softmax softmax-free rename-old rename-new rename-both exchange shift shift-pad none logsumexp".split(),
)
def test_operations_move_what_mesh_tensorflow_moves(fn, args, mesh, layout, counted):
    assert elements(checked(fn, args, layout, mesh=mesh)) == counted


def wire(plan):
    return sum(c.wire_bytes * c.times for c in plan.collectives)


@pytest.mark.parametrize(
    ("fn", "mesh_tensorflows", "ours"),
    [
        # There an einsum with a triangular matrix, all-reduced: 24 elements. Here the sum of each part, of 4 elements.
        (lambda x: ml.cumsum(x, "b"), 2 * 24 * 4 / 2, 4 * 4),
        # There the two greatest of each part and where they are, gathered: 2 x 8 elements. Here the operand, 12: with
        # more elements in a part than twice k, Mesh TensorFlow's is the cheaper one.
        (lambda x: ml.top_k(x, "b", ml.Dim("k", 2)), 2 * 8 * 4, 12 * 4),
        # There refused, since the axis is split; here the operand is gathered.
        (lambda x: ml.concat((x, x), "b", ml.Dim("bb", 12)), None, 12 * 4),
    ],
    ids=["cumsum", "top_k", "concat"],
)
def test_operations_that_move_something_else(fn, mesh_tensorflows, ours):
    plan = checked(fn, (ml.f32[A, B],), "b:p", mesh=P2)
    assert wire(plan) == ours
    assert mesh_tensorflows is None or ours <= mesh_tensorflows


def test_an_embedding_is_a_lookup_and_not_a_product():
    """There a one-hot product; here a masked gather. Both all-reduce the rows that were found."""
    plan = checked(lambda t, i: ml.take(t, i, "s"), (ml.f32[S, B], ml.i32[A]), "s:p", mesh=P2)
    assert elements(plan) == {(AR, "p"): 4 * 6 * 2}


def operations(x, y, ids):
    """The table's operations on x[a=4, b=6]; reshapes, slices and stacks as JAX spells them."""
    K = ml.Dim("k", 2)
    return {
        "relu": ml.relu(x),
        "softmax": ml.softmax(x, A),
        "logsumexp": ml.logsumexp(x, B),
        "reduce": (x.sum(A), x.max(B), x.min(A), x.mean(B), x.sum()),
        "einsum": ml.dot(x, y, B),
        "cumsum, exclusive": ml.cumsum(x, B) - x,
        "shift": (ml.shift(x, B, 1, wrap=True), ml.shift(x, B, -4), ml.shift(x, A, 7, wrap=True)),
        "top_k": (ml.top_k(x, B, K), ml.top_k(x, B, ml.Dim("five", 5))),
        "argmax": ml.argmax(x, B),
        "sort": ml.sort(x, A),
        "one_hot": ml.one_hot(ids, A),
        "gather": ml.take(x, ids, A),
        "rename": x.rename(a="aa", b="bb"),
        "broadcast": x + y.rename(b="cc"),
        "where": ml.where(x > 0.5, x, -1.0),
        "range": ml.arange(B) + ml.arange(A),
        "pow": x**2,
        "divide": x / (x + 2.0),
        "max": ml.maximum(x, y),
        "transpose, merge, split": (x.array.T, x.array.reshape(24), x.array.reshape(4, 2, 3), x.array.reshape(6, 4)),
        "slice, pad, stack": (
            x.array[:, 1:3],
            jax.numpy.pad(x.array, ((0, 0), (1, 1))),
            jax.numpy.stack((x.array,) * 2),
        ),
    }


@pytest.mark.parametrize("layout", ["a:p", "b:p", "a:p b:q", "a:q b:p"])
def test_every_operation_of_the_table_equals_the_unsplit_one(layout):
    args = (ml.f32[A, B], ml.f32[B], ml.i32[ml.Dim("n", 8)])
    checked(operations, args, layout, mesh=ml.mesh(p=2, q=2))
