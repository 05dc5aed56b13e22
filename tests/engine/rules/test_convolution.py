"""Convolutions and their gradients are the same however batch, features and sliding axes are sharded."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

import meshlab as ml
from meshlab.engine.verifying.random_layouts import draw
from tests.engine.small_programs import X2Y2, X4, checked, moved, sent

N, H, W, D, C, M = ml.dims(n=4, h=16, w=8, d=8, c=4, m=8)
T, U, V = ml.dims(t=3, u=3, v=3)
X8 = ml.mesh(x=8)
IMAGES, FILTERS = ml.f32[N, H, W, C], ml.f32[T, U, C, M]
ROW = 4 * 8 * 4 * 4  # bytes of one row of all images
COLUMN = 4 * 16 * 4 * 4

MESHES_AND_LAYOUTS = [
    (ml.mesh(x=2), "h:x"),
    (X4, "h:x"),
    (X8, "h:x"),
    (X2Y2, "h:y+x"),
    (X2Y2, "h:x w:y"),
    (X2Y2, "n:y h:x"),
    (X2Y2, "h:x c:y"),
    (ml.mesh(x=2, y=2, z=2), "h:z+x w:y"),
]


def convolved(x, w, stride=1, padding: Any = "SAME", **options: Any):
    """A convolution along all axes between the first and the last."""
    rank = x.ndim - 2
    numbers = tuple(spec.replace("S", "HWD"[:rank]) for spec in ("NSC", "SIO", "NSC"))
    options = {"dimension_numbers": numbers} | options
    return lax.conv_general_dilated(x, w, (stride,) * rank, padding, **options)


def forward(**options):
    return lambda x, w: convolved(x.array, w.array, **options)


def gradients(**options):
    """Both gradients, for a change of the result that is given."""

    def fn(x, w, change):
        return jax.vjp(functools.partial(convolved, **options), x.array, w.array)[1](change.array)

    return fn


def edges(plan):
    """The bytes of all permutes."""
    return sent(plan, "payload_bytes").get("collective-permute", 0)


@pytest.mark.parametrize("layout", ["n:x", "c:x", "m:y+x", "n:x c:y", "n:y m:x"])
def test_batch_and_features_are_those_of_a_product(layout):
    plan = checked(forward(), (IMAGES, FILTERS), layout, mesh=X2Y2)
    # What is sent is what is summed: the result, once.
    result = H.size * ROW * M.size // C.size // (2 if "n:" in layout else 1)
    summed = layout[layout.find("c:") + 2 :] if "c:" in layout else None
    assert moved(plan) == ([("all-reduce", (summed,), result, 1)] if summed else [])


@pytest.mark.parametrize(("mesh", "layout"), MESHES_AND_LAYOUTS, ids=str)
def test_a_filter_slides_over_the_edges_of_blocks(mesh, layout):
    plan = checked(forward(), (IMAGES, FILTERS), layout, mesh=mesh)
    assert edges(plan)
    assert "all-gather" not in sent(plan)


@pytest.mark.parametrize(("mesh", "layout"), MESHES_AND_LAYOUTS, ids=str)
def test_both_gradients_slide_over_the_edges_of_blocks(mesh, layout):
    plan = checked(gradients(), (IMAGES, FILTERS, ml.f32[N, H, W, M]), layout, mesh=mesh)
    assert edges(plan)
    assert "all-gather" not in sent(plan)


def test_one_row_goes_to_either_side():
    plan = checked(forward(), (IMAGES, FILTERS), "h:x")
    assert moved(plan) == [("collective-permute", ("x",), ROW, 1)] * 2
    assert plan.collectives[0].because == "Windows slide along `h` while it is split over `x`."


def test_what_a_device_sends_does_not_depend_on_how_many_there_are():
    images = ml.f32[N, ml.Dim("h", 2**17), W, C]
    plan = ml.trace(forward(), images, FILTERS).plan(ml.mesh(x=2**16), "h:x")
    assert moved(plan) == [("collective-permute", ("x",), ROW, 1)] * 2


def test_corners_travel_with_the_second_axis():
    plan = checked(forward(), (IMAGES, FILTERS), "h:x w:y", mesh=X2Y2)
    row, column = ROW // 2, COLUMN // 16 * (8 + 2)
    assert moved(plan) == [("collective-permute", ("x",), row, 1)] * 2 + [("collective-permute", ("y",), column, 1)] * 2


def test_the_gradient_of_a_filter_is_a_partial_sum_over_blocks():
    plan = checked(gradients(), (IMAGES, FILTERS, ml.f32[N, H, W, M]), "h:x")
    filters = 3 * 3 * 4 * 8 * 4
    assert sent(plan, "payload_bytes") == {
        # The rows of the images for the filter's gradient, those of the change for the images'.
        "collective-permute": 2 * ROW + 2 * ROW * M.size // C.size,
        "all-reduce": filters,
    }


@pytest.mark.parametrize(
    ("filter_size", "options", "rows"),
    [
        (1, {}, []),
        (1, {"stride": 2}, []),
        (2, {"stride": 2}, []),
        (2, {}, [1]),
        (3, {"stride": 2}, [1]),
        (5, {}, [2, 2]),
        # Blocks have two rows: the third one comes from two devices away.
        (7, {}, [2, 1, 2, 1]),
        (3, {"rhs_dilation": (2, 1)}, [2, 2]),
        (3, {"padding": ((2, 0), (1, 1))}, [2]),
        # Two rows are made of one: the windows of a block begin with the row before.
        (3, {"padding": ((2, 1), (1, 1)), "lhs_dilation": (2, 1)}, [1]),
        (4, {"padding": ((2, 2), (1, 1)), "lhs_dilation": (2, 1)}, [1, 1]),
    ],
)
def test_as_many_rows_are_sent_as_windows_reach_over_the_edge(filter_size, options, rows):
    filters = ml.f32[ml.Dim("t", filter_size), U, C, M]
    plan = checked(forward(**options), (IMAGES, filters), "h:x", mesh=X8)
    permutes = [payload for kind, _, payload, _ in moved(plan) if kind == "collective-permute"]
    assert permutes == [ROW * count for count in rows]


@pytest.mark.parametrize("layout", ["h:y+x", "h:x w:y", "c:y h:x"])
@pytest.mark.parametrize(
    ("options", "rows", "columns"),
    [
        ({"stride": 2}, ml.Dim("rows", 8), ml.Dim("columns", 4)),
        ({"rhs_dilation": (2, 2)}, H, W),
        ({"lhs_dilation": (2, 2), "padding": ((2, 1), (2, 1))}, ml.Dim("rows", 32), ml.Dim("columns", 16)),
        ({"padding": "VALID"}, ml.Dim("rows", 14), ml.Dim("columns", 6)),
        ({"padding": ((0, 3), (2, 2)), "stride": 3}, ml.Dim("rows", 6), ml.Dim("columns", 4)),
    ],
    ids=str,
)
def test_strides_dilations_and_paddings_go_with_blocks(options, rows, columns, layout):
    checked(forward(**options), (IMAGES, FILTERS), layout, mesh=X2Y2)
    checked(gradients(**options), (IMAGES, FILTERS, ml.f32[N, rows, columns, M]), layout, mesh=X2Y2)


def test_without_padding_devices_take_their_part_of_what_some_device_needs():
    plan = checked(forward(padding="VALID"), (IMAGES, FILTERS), "h:x", mesh=ml.mesh(x=2))
    # 16 rows in blocks of 8, 14 results in blocks of 7: the first needs one row behind it, the second one before.
    assert edges(plan) == 2 * ROW


@pytest.mark.parametrize(
    ("mesh", "options"),
    [
        # 14 results are not split over 4.
        (X4, {"padding": "VALID"}),
        # 6 to either side are more than half of 16.
        (X4, {"rhs_dilation": (6, 1)}),
        # Of rows three apart, with windows two apart, devices would begin at different places between two rows.
        (X4, {"lhs_dilation": (3, 1), "stride": 2, "padding": ((0, 1), (1, 1))}),
    ],
    ids=str,
)
def test_what_does_not_fit_is_gathered(mesh, options):
    plan = checked(forward(**options), (IMAGES, FILTERS), "h:x", mesh=mesh)
    assert moved(plan)[0] == ("all-gather", ("x",), ROW * 4, 1)
    assert edges(plan) == 0


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("layout", ["h:x+y", "h:x n:y", "h:x d:y"])
def test_any_number_of_axes_slides(rank, layout):
    space, window = (H, ml.Dim("w", 4), D)[:rank], (T, U, V)[:rank]
    layout = layout.replace("d:y", ("m:y", "w:y", "d:y")[rank - 1])
    checked(forward(), (ml.f32[N, *space, C], ml.f32[*window, C, M]), layout, mesh=X2Y2)
    changed = ml.f32[N, *space, M]
    checked(gradients(), (ml.f32[N, *space, C], ml.f32[*window, C, M], changed), layout, mesh=X2Y2)


def test_axes_stand_in_any_order():
    numbers = ("CWHN"[::-1], "OHWI", "NCHW")
    images, filters, change = ml.f32[N, H, W, C], ml.f32[M, T, U, C], ml.f32[N, M, H, W]
    for layout in ("h:x w:y", "n:y h:x", "c:y h:x"):
        fn = gradients(dimension_numbers=numbers)
        plan = checked(fn, (images, filters, change), layout, mesh=X2Y2)
        assert "all-gather" not in sent(plan)


def test_what_slides_is_gathered_where_the_order_of_axes_does_not_tell_the_filter():
    images = ml.f32[C, H, W, N]
    fn = forward(dimension_numbers=("CHWN", "HWIO", "CHWN"))
    plan = checked(fn, (images, FILTERS), "h:x", mesh=X4)
    assert [kind for kind, *_ in moved(plan)] == ["all-gather"]
    assert moved(checked(fn, (images, FILTERS), "n:x", mesh=X4)) == []


def updated(x, w):
    """A filter, less the gradient of a loss."""
    return w.array - jax.grad(lambda w: (convolved(x.array, w, padding="VALID") ** 2).sum())(w.array)


def test_the_gradient_of_a_filter_has_its_names():
    program = ml.trace(updated, IMAGES, FILTERS)
    assert program.place("out").dims == ("t", "u", "c", "m")


def test_a_filter_as_large_as_the_image_keeps_its_own_names():
    # Its gradient has the sizes of a convolution with a filter of one element, in which the names would be one.
    filters = ml.f32[ml.Dim("tall", 16), ml.Dim("wide", 8), C, M]
    plan = checked(updated, (IMAGES, filters), "n:x tall:y", mesh=X2Y2)
    assert plan.program.place("out").dims == ("tall", "wide", "c", "m")


@pytest.mark.parametrize("layout", ["h:x", "h:x w:y", "n:x", "c:x h:y", "c:y+x"])
@pytest.mark.parametrize("each", [1, 2])
def test_channels_of_a_depthwise_convolution_are_split_with_its_filters(layout, each):
    channels, outputs = ml.Dim("c", 8), ml.Dim("outputs", 16) if each == 2 else ml.Dim("c", 8)
    images, filters = ml.f32[N, H, W, channels], ml.f32[T, U, ml.Dim("one", 1), outputs]
    fn = forward(feature_group_count=8)
    plan = checked(fn, (images, filters), layout, mesh=X2Y2)
    assert set(sent(plan)) <= ({"collective-permute"} if each == 1 else {"collective-permute", "all-gather"})
    if each == 1:
        back = gradients(feature_group_count=8)
        plan = checked(back, (images, filters, ml.f32[N, H, W, outputs]), layout, mesh=X2Y2)
        assert "all-gather" not in sent(plan)


@pytest.mark.parametrize("layout", ["c:x", "m:x", "h:x", "n:x h:y"])
def test_groups_are_split_as_wholes(layout):
    images, filters = ml.f32[N, H, W, C], ml.f32[T, U, ml.Dim("within", 2), M]
    plan = checked(forward(feature_group_count=2), (images, filters), layout, mesh=X2Y2)
    assert "all-reduce" not in sent(plan)
    # The two groups lie on two devices; only a result that is stored otherwise moves.
    assert "all-gather" not in sent(plan) or layout == "c:x"
    plan = checked(forward(feature_group_count=2), (images, filters), layout, mesh=ml.mesh(x=4, y=2))
    assert ("all-gather" in sent(plan)) == (layout in ("c:x", "m:x"))


def test_channels_before_and_behind_groups_are_different_dims():
    images, filters = ml.f32[N, H, W, ml.Dim("c", 8)], ml.f32[T, U, ml.Dim("within", 4), M]
    for layout in ("c:x", "m:x", "h:x"):
        checked(forward(feature_group_count=2), (images, filters), layout, mesh=X2Y2)


@pytest.mark.parametrize("layout", ["n:x", "m:x", "c:x", "h:x"])
def test_groups_of_the_batch_are_split_as_wholes(layout):
    images, filters = ml.f32[N, H, W, C], ml.f32[T, U, C, M]
    checked(forward(batch_group_count=2), (images, filters), layout, mesh=X2Y2)


@pytest.mark.parametrize("kind", [ml.bf16, ml.i32, ml.i8], ids=str)
def test_other_dtypes_are_convolved(kind):
    for layout in ("h:x w:y", "c:x h:y"):
        checked(forward(), (kind[N, H, W, C], kind[T, U, C, M]), layout, mesh=X2Y2)


def test_second_derivatives_are_computed_whole_where_they_must_be():
    def fn(x, w):
        def inner(x):
            return (jax.grad(lambda w: (convolved(x, w) ** 2).sum())(w.array) ** 2).sum()

        return jax.grad(inner)(x.array)

    program = ml.trace(fn, IMAGES, FILTERS)
    for layout in ("n:x", "m:x"):
        assert program.plan(X2Y2, layout).check().ok
    assert program.plan(X2Y2, "h:x").check().results_equal


def test_one_number_everywhere_has_no_edges_to_send():
    def fn(x, w):
        return x.array * convolved(jnp.ones(x.array.shape), w.array[:, :, :, :4])

    plan = checked(fn, (IMAGES, FILTERS), "h:x")
    assert moved(plan) == []


@pytest.mark.parametrize(
    ("tall", "layout", "gathered"),
    [(3, "h:x", True), (3, "n:x", False), (3, "n:x w:y", False), (1, "h:x", False), (1, "h:x w:y", False)],
)
def test_what_slides_is_gathered_where_blocks_would_be_padded(tall, layout, gathered):
    Images, Rows = ml.dims(n=6, h=10)
    filters = ml.f32[ml.Dim("t", tall), U, C, M]
    program = ml.trace(gradients(), ml.f32[Images, Rows, W, C], filters, ml.f32[Images, Rows, W, M])
    plan = program.plan(ml.mesh(x=4, y=2), layout, pad=True)
    assert plan.check().ok
    assert ("all-gather" in sent(plan)) == gathered


def network(x, stem, first, second, shortcut):
    """Two halvings, a residual, and a mean over the image."""
    x = jax.nn.relu(convolved(x.array, stem.array, stride=2))
    y = jax.nn.relu(convolved(x, first.array, stride=2))
    y = convolved(y, second.array)
    return jax.nn.relu(y + convolved(x, shortcut.array, stride=2)).mean((1, 2))


NETWORK = (
    ml.f32[N, ml.Dim("h", 32), ml.Dim("w", 16), C],
    ml.f32[T, U, C, M],
    ml.f32[T, U, M, ml.Dim("k", 8)],
    ml.f32[T, U, ml.Dim("k", 8), ml.Dim("l", 8)],
    ml.f32[ml.Dim("p", 1), ml.Dim("q", 1), M, ml.Dim("l", 8)],
)


def test_a_network_stays_split_through_its_strides():
    plan = checked(network, NETWORK, "h:x", mesh=X4)
    # 3 x 3 with a stride of 2 looks at one row behind the block, with a stride of 1 at two, 1 x 1 at none.
    row = 4 * 16 * 4 * 4
    assert moved(plan)[:4] == [("collective-permute", ("x",), bytes_, 1) for bytes_ in (row, row, row // 2, row // 2)]
    assert moved(plan)[4:] == [("all-reduce", ("x",), 4 * 8 * 4, 1)]


def trained(model):
    """A step of training: the loss, and the filters less their gradients."""

    def step(params, x, targets):
        def loss(params):
            return ((model(x, *params) - targets.array) ** 2).mean()

        value, changes = jax.value_and_grad(loss)(params)
        return value, jax.tree.map(lambda w, change: w - 0.1 * change, params, changes)

    return step


@pytest.mark.parametrize(
    "layout",
    ["n:x h:y", "h:x", "h:y+x", "h:x w:y", "k:x h:y", "l:y n:x"],
)
def test_a_network_is_trained_alike_in_every_layout(layout):
    data = NETWORK[0], ml.f32[N, ml.Dim("l", 8)]
    plan = checked(trained(network), (NETWORK[1:], *data), layout, mesh=X2Y2)
    if layout == "h:x":
        # Forward 1 + 1 + 2 rows, and back the same again for the changes of what the second and third filter are given:
        # their own gradients need the rows that the forward pass had sent.
        row = 4 * 16 * 4 * 4
        forward, back = row + row + row // 2 * 2, row // 2 + row // 2 * 2
        assert edges(plan) == forward + back


def volumes(x, first, second, third):
    """Two convolutions of volumes, the second one in strides, and one by channels."""
    x = jax.nn.gelu(convolved(x.array, first.array))
    x = jax.nn.gelu(convolved(x, second.array, stride=2))
    return convolved(x, third.array, feature_group_count=8).mean((1, 2, 3))


@pytest.mark.parametrize("layout", ["h:x d:y", "w:y+x", "h:x c:y n:z", "h:z w:y d:x", "m:x h:y k:z"])
def test_a_network_of_volumes_is_trained_alike_in_every_layout(layout):
    Kept = ml.Dim("k", 8)
    filters = (
        ml.f32[T, U, V, C, M],
        ml.f32[T, U, V, M, Kept],
        ml.f32[T, U, V, ml.Dim("one", 1), Kept],
    )
    data = ml.f32[N, ml.Dim("h", 8), W, D, C], ml.f32[N, Kept]
    checked(trained(volumes), (filters, *data), layout, mesh=ml.mesh(x=2, y=2, z=2))


def test_layouts_of_a_network_drawn_at_random():
    program = ml.trace(network, *NETWORK)
    for mesh, layout in draw(program, seed=5, count=8):
        report = program.plan(mesh, layout).check()
        assert report.ok, f"{layout} on {mesh}:\n{report}"


def test_layouts_of_gradients_drawn_at_random():
    program = ml.trace(gradients(), ml.f32[N, H, W, D, C], ml.f32[T, U, V, C, M], ml.f32[N, H, W, D, M])
    for mesh, layout in draw(program, seed=6, count=8):
        report = program.plan(mesh, layout).check()
        assert report.ok, f"{layout} on {mesh}:\n{report}"


@pytest.mark.parametrize("layout", ["c:x", "m:x", "h:x m:y", "n:x c:y"])
def test_the_gradients_of_groups_are_the_same_in_every_layout(layout):
    """JAX parts the groups of a filter by a reshape that reads its operand's axes in another order."""
    filters = ml.f32[T, U, ml.Dim("within", 2), M]
    change = ml.f32[N, H, W, M]
    checked(gradients(feature_group_count=2), (IMAGES, filters, change), layout, mesh=X2Y2)
