"""Pooling, its gradient and its derivative are the same however the axes that windows slide along are sharded."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import meshlab as ml
from meshlab.engine.verifying.random_layouts import draw
from tests.engine.small_programs import X2Y2, X4, checked, moved, sent

N, H, W, C = ml.dims(n=4, h=16, w=8, c=4)
X8 = ml.mesh(x=8)
IMAGES = ml.f32[N, H, W, C]
ROW = 4 * 8 * 4 * 4  # bytes of one row of all images
COLUMN = 4 * 16 * 4 * 4

REDUCTIONS: dict[str, tuple[Any, Any]] = {
    "max": (lax.max, -np.inf),
    "min": (lax.min, np.inf),
    "sum": (lax.add, 0.0),
    "product": (lax.mul, 1.0),
}


def pooled(x, kind="max", size: Any = 3, stride: Any = 2, padding: Any = "SAME", **options: Any):
    """A reduction over windows along the two axes in the middle."""
    reduction, start = REDUCTIONS[kind]
    sizes, strides = ((1, *both, 1) if isinstance(both, tuple) else (1, both, both, 1) for both in (size, stride))
    return lax.reduce_window(x, start, reduction, sizes, strides, padding, **options)


def forward(*args, **options):
    return lambda x: pooled(x.array, *args, **options)


def gradient(*args, **options):
    """The gradient, for a change of the result that is given."""
    return lambda x, change: jax.vjp(lambda x: pooled(x, *args, **options), x.array)[1](change.array)


def derivative(*args, **options):
    """How the result changes with a change of the array that is given."""
    return lambda x, change: jax.jvp(lambda x: pooled(x, *args, **options), (x.array,), (change.array,))[1]


def edges(plan):
    """The bytes of all permutes."""
    return sent(plan, "payload_bytes").get("collective-permute", 0)


@pytest.mark.parametrize("kind", REDUCTIONS)
@pytest.mark.parametrize(
    ("mesh", "layout"), [(X4, "h:x"), (X2Y2, "h:y+x"), (X2Y2, "h:x w:y"), (X2Y2, "n:x h:y"), (X2Y2, "c:x w:y")], ids=str
)
def test_windows_look_over_the_edges_of_blocks(kind, mesh, layout):
    for size, stride in ((3, 1), (3, 2)):
        plan = checked(forward(kind, size, stride), (IMAGES,), layout, mesh=mesh)
        assert edges(plan)


@pytest.mark.parametrize(
    ("mesh", "options", "rows"),
    [
        (X8, {"size": 2}, []),
        (X4, {"size": 3, "stride": 4}, []),
        (X8, {"size": 3}, [1]),
        (X8, {"size": 3, "stride": 1}, [1, 1]),
        # Blocks have two rows: the third one comes from two devices away.
        (X8, {"size": (7, 3), "stride": 1}, [2, 1, 2, 1]),
        (X8, {"size": 3, "stride": 1, "window_dilation": (1, 2, 2, 1)}, [2, 2]),
        # Between the rows stand others that hold nothing: a block makes four, the first of which sees the row before.
        (X8, {"stride": 1, "base_dilation": (1, 2, 2, 1), "padding": ((0, 0), (2, 1), (1, 1), (0, 0))}, [1]),
    ],
    ids=str,
)
def test_as_many_rows_are_sent_as_windows_reach_over_the_edge(mesh, options, rows):
    for kind in ("max", "sum"):
        plan = checked(forward(kind, **options), (IMAGES,), "h:x", mesh=mesh)
        permutes = [payload for how, _, payload, _ in moved(plan) if how == "collective-permute"]
        assert permutes == [ROW * count for count in rows]


def test_the_cause_of_a_halo_is_told():
    plan = checked(forward(stride=1), (IMAGES,), "h:x")
    assert plan.collectives[0].because == "The greatest value in windows along `h` is taken while it is split over `x`."
    plan = checked(forward("sum", stride=1), (IMAGES,), "h:x")
    assert plan.collectives[0].because == "Windows slide along `h` while it is split over `x`."


def test_without_padding_devices_take_their_part_of_what_some_device_needs():
    plan = checked(forward(stride=1, padding="VALID"), (IMAGES,), "h:x", mesh=ml.mesh(x=2))
    # 16 rows in blocks of 8, 14 results in blocks of 7: the first needs one row behind it, the second one before.
    assert edges(plan) == 2 * ROW
    assert edges(checked(forward(stride=1, padding="VALID"), (IMAGES,), "h:x", mesh=X4)) == 0


@pytest.mark.parametrize(
    ("kind", "layout"), [("max", "h:y+x"), ("max", "h:x w:y"), ("min", "n:x h:y"), ("min", "c:x w:y")]
)
def test_gradients_go_to_the_chosen_places(kind, layout):
    Half, Quarter = ml.dims(half=8, quarter=4)
    for options, change in (
        ({"size": 2}, ml.f32[N, Half, Quarter, C]),
        ({"size": 3}, ml.f32[N, Half, Quarter, C]),
        ({"size": 3, "stride": 1}, ml.f32[N, H, W, C]),
        ({"size": 3, "stride": 1, "padding": "VALID"}, ml.f32[N, ml.Dim("rows", 14), ml.Dim("columns", 6), C]),
    ):
        checked(gradient(kind, **options), (IMAGES, change), layout, mesh=X2Y2)
        checked(derivative(kind, **options), (IMAGES, IMAGES), layout, mesh=X2Y2)


def test_a_gradient_hands_on_what_falls_into_the_next_block():
    plan = checked(gradient(size=3), (IMAGES, ml.f32[N, ml.Dim("half", 8), ml.Dim("quarter", 4), C]), "h:x")
    # The row behind the block comes, and what belongs to it goes back.
    assert moved(plan)[:2] == [("collective-permute", ("x",), ROW, 1)] * 2
    assert plan.collectives[1].because.startswith("Values go to the chosen places of windows along `half` and `h`")


@pytest.mark.parametrize("layout", ["h:x", "h:x w:y", "n:x h:y"])
def test_the_gradient_of_a_sum_is_a_sum(layout):
    change = ml.f32[N, ml.Dim("half", 8), ml.Dim("quarter", 4), C]
    for size in (2, 3):
        checked(gradient("sum", size), (IMAGES, change), layout, mesh=X2Y2)
        checked(derivative("sum", size), (IMAGES, IMAGES), layout, mesh=X2Y2)


@pytest.mark.parametrize("kind", ["max", "min", "sum"])
@pytest.mark.parametrize(
    ("layout", "over", "results"),
    [("h:x", ("x",), 1), ("h:y+x", ("x", "y"), 1), ("h:x w:y", ("x", "y"), 1), ("h:x n:y", ("x",), 2)],
)
def test_a_window_over_all_of_an_axis_is_a_reduction(kind, layout, over, results):
    for stride in (1, (16, 8)):
        plan = checked(forward(kind, (16, 8), stride, "VALID"), (IMAGES,), layout, mesh=X2Y2)
        assert moved(plan) == [("all-reduce", over, 4 * 4 * 4 // results, 1)]


@pytest.mark.parametrize("kind", ["max", "min", "sum"])
def test_every_device_may_hold_a_single_element_of_a_window(kind):
    plan = checked(forward(kind, (16, 8), 1, "VALID"), (IMAGES,), "w:x", mesh=X8)
    assert moved(plan) == [("all-reduce", ("x",), 4 * 4 * 4, 1)]


def test_a_window_over_all_of_one_axis_slides_along_the_other():
    for kind in ("max", "sum"):
        plan = checked(forward(kind, (16, 3), 1, ((0, 0), (0, 0), (1, 1), (0, 0))), (IMAGES,), "h:x w:y", mesh=X2Y2)
        assert moved(plan) == [
            *[("collective-permute", ("y",), COLUMN // 2, 1)] * 2,
            ("all-reduce", ("x",), ROW // 2, 1),
        ]


def test_a_partial_sum_is_pooled_before_it_is_added_up():
    def fn(x, w):
        return pooled(jnp.einsum("nhwc,cm->nhwm", x.array, w.array), "sum", 2)

    plan = checked(fn, (IMAGES, ml.f32[C, ml.Dim("m", 8)]), "c:x h:y", mesh=X2Y2)
    assert moved(plan)[0] == ("all-reduce", ("x",), 4 * 4 * 4 * 8 * 4, 1)


def test_how_many_elements_windows_cover_is_counted_where_it_is_needed():
    def fn(x):
        ones = jnp.ones(x.array.shape)
        return pooled(x.array, "sum", 3, 1) / pooled(ones, "sum", 3, 1)

    assert moved(checked(fn, (IMAGES,), "h:x")) == [("collective-permute", ("x",), ROW, 1)] * 2


@pytest.mark.parametrize("kind", [ml.bf16, ml.i32, ml.i8], ids=str)
def test_other_dtypes_are_pooled(kind):
    checked(forward(), (kind[N, H, W, C],), "h:x w:y", mesh=X2Y2)


def test_infinities_stay_where_they_are():
    x = np.full((4, 16, 8, 4), -np.inf, np.float32)
    x[:, ::5, ::3] = 2.0
    for kind in ("max", "min"):
        checked(forward(kind, 3, 1), (IMAGES,), "h:x w:y", mesh=X2Y2, data=(x,))


def reduced(reduction, start, padding):
    """A reduction that JAX has no primitive of its own for."""

    def fn(x):
        return lax.reduce_window(x.array, start, reduction, (1, 3, 3, 1), (1, 1, 1, 1), padding)

    return fn


def mean_of(a, b):
    return (a + b) / 2


def test_any_reduction_slides_over_edges():
    around = ((0, 0), (1, 1), (1, 1), (0, 0))
    assert edges(checked(reduced(lax.mul, 1.0, around), (IMAGES,), "h:x"))
    # Of equals the greatest is one of them: it may start from anything.
    assert edges(checked(reduced(lax.max, 0.5, around), (IMAGES,), "h:x"))
    assert edges(checked(reduced(mean_of, 0.0, "VALID"), (IMAGES,), "h:x", mesh=ml.mesh(x=2)))


def test_a_start_that_counts_is_not_made_up_beyond_the_ends():
    around = ((0, 0), (1, 1), (1, 1), (0, 0))
    for reduction, start in ((lax.mul, 0.5), (mean_of, 0.0), (lax.add, 1.0)):
        plan = checked(reduced(reduction, start, around), (IMAGES,), "h:x")
        assert [how for how, *_ in moved(plan)] == ["all-gather"]


def test_truth_values_are_joined():
    def fn(x):
        return lax.reduce_window(x.array > 0, False, lax.bitwise_or, (1, 3, 3, 1), (1, 1, 1, 1), "SAME")

    assert edges(checked(fn, (IMAGES,), "h:x")) == 2 * ROW // 4


def test_several_arrays_are_reduced_together():
    def place_of_greatest(x):
        places = lax.broadcasted_iota(jnp.int32, x.array.shape, 1) + x.array.astype(jnp.int32)
        greater = lambda a, b: jax.tree.map(lambda u, v: jnp.where(a[0] >= b[0], u, v), a, b)  # noqa: E731
        return lax.reduce_window((x.array, places), (-np.inf, 0), greater, (1, 3, 1, 1), (1, 1, 1, 1), "VALID")

    plan = checked(place_of_greatest, (IMAGES,), "h:x", mesh=ml.mesh(x=2))
    assert edges(plan) == 2 * ROW + 2 * ROW


@pytest.mark.parametrize("kind", ["max", "min", "sum"])
def test_axes_are_padded_where_nothing_slides(kind):
    images = ml.f32[ml.Dim("n", 6), ml.Dim("h", 10), W, C]
    plan = ml.trace(forward(kind, (10, 3), 1, "VALID"), images).plan(ml.mesh(x=4, y=2), "n:x h:y", pad=True)
    assert plan.check().ok
    plan = ml.trace(forward(kind, (10, 3), 1, "VALID"), images).plan(X4, "h:x", pad=True)
    assert plan.check().ok
    assert ("all-gather" in sent(plan)) == (kind != "sum")


def network(x, stem, head):
    """A stem that pools, and a mean over what is left."""
    numbers = ("NHWC", "HWIO", "NHWC")
    x = jax.nn.relu(lax.conv_general_dilated(x.array, stem.array, (2, 2), "SAME", dimension_numbers=numbers))
    x = pooled(x) - pooled(x, "sum", 2, 2) / 4
    return x.mean((1, 2)) @ head.array


@pytest.mark.parametrize("layout", ["h:x", "h:x w:y", "h:y+x", "n:x h:y", "m:x h:y"])
def test_a_network_that_pools_is_trained_alike_in_every_layout(layout):
    def step(x, stem, head):
        """The gradients of the filters; that of the pooling needs the edges that the pooling had sent."""
        return jax.grad(lambda stem, head: (network(x, stem, head) ** 2).sum(), (0, 1))(stem, head)

    shapes = (
        ml.f32[N, ml.Dim("h", 32), ml.Dim("w", 16), C],
        ml.f32[ml.dims(t=3, u=3, c=4, m=8)],
        ml.f32[ml.dims(m=8, k=4)],
    )
    checked(step, shapes, layout, mesh=X2Y2)


def test_layouts_of_a_network_drawn_at_random():
    shapes = (
        ml.f32[N, ml.Dim("h", 32), ml.Dim("w", 16), C],
        ml.f32[ml.dims(t=3, u=3, c=4, m=8)],
        ml.f32[ml.dims(m=8, k=4)],
    )
    program = ml.trace(network, *shapes)
    for mesh, layout in draw(program, seed=7, count=8):
        report = program.plan(mesh, layout).check()
        assert report.ok, f"{layout} on {mesh}:\n{report}"


def test_layouts_of_gradients_drawn_at_random():
    program = ml.trace(gradient(size=3, stride=1), IMAGES, IMAGES)
    for mesh, layout in draw(program, seed=8, count=8):
        report = program.plan(mesh, layout).check()
        assert report.ok, f"{layout} on {mesh}:\n{report}"
