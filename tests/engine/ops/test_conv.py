"""Convolutions and windows equal sums written out, trace to one primitive, and refuse what cannot be."""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax

import meshlab as ml
from tests.engine import drawn
from tests.engine.drawn import draw, primitives

pytestmark = pytest.mark.share(2, of="file")

close = functools.partial(drawn.close, tolerance=1e-4)
Batch, Height, Width, Depth = ml.dims(batch=2, height=8, width=6, depth=4)
Channels, Features, Tall, Wide, Deep = ml.dims(channels=3, features=4, tall=3, wide=2, deep=2)
SLIDE = {Height: Tall, Width: Wide}


def names(tree):
    return [dim.name for dim in tree.dims]


def covered(size, span, stride, padding) -> tuple[np.ndarray, tuple[int, int]]:
    """Where windows start in a padded dim, and how much is padded."""
    if padding == "VALID":
        pads = (0, 0)
    elif padding == "SAME":
        total = max(0, (int(np.ceil(size / stride)) - 1) * stride + span - size)
        pads = (total // 2, total - total // 2)
    else:
        pads = padding
    return np.arange(0, size + sum(pads) - span + 1, stride), pads


def written_out(x, w, slide, summed, *, stride=1, dilation=1, padding="SAME"):
    """A convolution as a sum over the filter's positions, each a strided slice and an einsum of names."""
    letters = dict(zip(dict.fromkeys(dim.name for dim in (*x.dims, *w.dims)), "abcdefghijkl", strict=False))
    array, weights = np.asarray(x.array, np.float64), np.asarray(w.array, np.float64)
    starts = {}
    for dim, window in slide.items():
        axis = x.dims.index(dim)
        starts[axis], pads = covered(dim.size, (window.size - 1) * dilation + 1, stride, padding)
        array = np.pad(array, [pads if i == axis else (0, 0) for i in range(array.ndim)])
    own = [dim for dim in w.dims if dim not in slide.values()]
    result = [dim for dim in (*x.dims, *own) if dim.name not in summed]
    spec = ",".join("".join(letters[d.name] for d in dims) for dims in (x.dims, own))
    spec += "->" + "".join(dict.fromkeys(letters[dim.name] for dim in result))
    total = 0.0
    for place in itertools.product(*(range(window.size) for window in slide.values())):
        part, filtered = array, weights
        for (axis, begin), offset in zip(starts.items(), place, strict=True):
            part = np.take(part, begin + offset * dilation, axis)
        for window, offset in sorted(zip(slide.values(), place, strict=True), key=lambda p: -w.dims.index(p[0])):
            filtered = np.take(filtered, offset, w.dims.index(window))
        total = total + np.einsum(spec, part, filtered)
    return total


def test_a_convolution_of_images_is_that_of_lax_and_one_primitive():
    x, w = draw(Batch, Height, Width, Channels), draw(Tall, Wide, Channels, Features, seed=1)

    def named(x, w):
        return ml.conv(x, w, SLIDE, Channels)

    def plain(x, w):
        return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    result = named(x, w)
    assert result.dims == (Batch, Height, Width, Features)
    close(result, plain(x.array, w.array))
    assert primitives(named, x, w) == ["conv_general_dilated", "dim_names"]
    grads = jax.grad(lambda *a: ml.square(named(*a)).sum(), (0, 1))(x, w)
    wanted = jax.grad(lambda *a: jnp.square(plain(*a)).sum(), (0, 1))(x.array, w.array)
    for mine, theirs, dims in zip(grads, wanted, (x.dims, w.dims), strict=True):
        assert mine.dims == dims
        close(mine, theirs)


@pytest.mark.parametrize(
    ("x_dims", "w_dims"),
    [
        ((Batch, Channels, Height, Width), (Features, Channels, Tall, Wide)),
        ((Height, Width, Channels, Batch), (Channels, Tall, Wide, Features)),
        ((Width, Batch, Height, Channels), (Wide, Features, Tall, Channels)),
    ],
)
def test_any_order_of_dims_is_taken_as_it_is(x_dims, w_dims):
    x, w = draw(*x_dims), draw(*w_dims, seed=1)
    result = ml.conv(x, w, SLIDE, Channels)
    assert result.dims == (*(dim for dim in x_dims if dim != Channels), Features)
    close(result, written_out(x, w, SLIDE, ["channels"]))
    assert primitives(lambda x, w: ml.conv(x, w, SLIDE, Channels), x, w) == ["conv_general_dilated", "dim_names"]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_one_two_and_three_dims_are_slid_along(count):
    pairs = [(Height, Tall), (Width, Wide), (Depth, Deep)][:count]
    x = draw(Batch, *(dim for dim, _ in pairs), Channels)
    w = draw(*(window for _, window in pairs), Channels, Features, seed=1)
    result = ml.conv(x, w, dict(pairs), "channels")
    assert result.dims == (Batch, *(dim for dim, _ in pairs), Features)
    close(result, written_out(x, w, dict(pairs), ["channels"]))


@settings(max_examples=20)
@given(st.data())
def test_any_convolution_is_its_sum_written_out(data):
    stride, dilation = data.draw(st.sampled_from([1, 2, 3])), data.draw(st.sampled_from([1, 2]))
    padding = data.draw(st.sampled_from(["SAME", "VALID", (1, 0), (2, 3)]))
    slide = data.draw(st.sampled_from([{Height: Tall}, SLIDE, {Width: Wide, Height: Tall}]))
    Time, Group, Head = ml.dims(time=2, group=3, head=2)
    summed = data.draw(st.lists(st.sampled_from((Channels, Head)), unique=True))
    shared = data.draw(st.lists(st.sampled_from((Group, Depth)), unique=True))
    batch = data.draw(st.lists(st.sampled_from((Batch, Time)), unique=True))
    features = data.draw(st.lists(st.sampled_from((Features, ml.Dim("kind", 2))), unique=True))
    x = draw(*data.draw(st.permutations((*slide, *summed, *shared, *batch))))
    w = draw(*data.draw(st.permutations((*slide.values(), *summed, *shared, *features))), seed=1)
    out = {dim: f"{dim.name}_out" for dim in slide}
    options = {"stride": stride, "dilation": dilation, "padding": padding}
    result = ml.conv(x, w, slide, *summed, out=out, **options)
    close(result, written_out(x, w, slide, [d.name for d in summed], **options))
    renamed = [out.get(dim, dim.name) for dim in x.dims if dim not in summed]
    assert names(result) == renamed + [dim.name for dim in w.dims if dim in features]


def test_a_dim_that_both_have_and_that_is_not_summed_makes_a_depthwise_convolution():
    x, w = draw(Batch, Height, Width, Channels), draw(Tall, Wide, Channels, seed=1)
    result = ml.conv(x, w, SLIDE)
    assert result.dims == x.dims
    plain = lax.conv_general_dilated(
        x.array,
        w.array[..., None, :],
        (1, 1),
        "SAME",
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        feature_group_count=3,
    )
    close(result, plain)
    assert "transpose" not in primitives(lambda x, w: ml.conv(x, w, SLIDE), x, w)


def test_what_is_said_of_windows_may_differ_from_dim_to_dim():
    x, w = draw(Batch, Height, Width, Channels), draw(Tall, Wide, Channels, Features, seed=1)
    result = ml.conv(
        x, w, SLIDE, Channels, stride={"height": 2}, padding={Width: (1, 0)}, dilation={"height": 2}, out={Height: "h"}
    )
    assert names(result) == ["batch", "h", "width", "features"]
    plain = lax.conv_general_dilated(
        x.array, w.array, (2, 1), ((0, 0), (1, 0)), rhs_dilation=(2, 1), dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    close(result, plain)


def test_dtypes_are_promoted():
    x, w = draw(Height, Channels).astype(ml.bf16), draw(Tall, Channels)
    assert ml.conv(x, w, {Height: Tall}, Channels).dtype == jnp.float32
    assert ml.conv(x, w.astype(ml.bf16), {Height: Tall}, Channels).dtype == jnp.bfloat16


@settings(max_examples=20)
@given(st.data())
def test_conv_transpose_is_the_transpose_of_conv(data):
    stride, dilation = data.draw(st.sampled_from([1, 2, 3])), data.draw(st.sampled_from([1, 2]))
    padding = data.draw(st.sampled_from(["SAME", "VALID", (1, 0), (2, 3)]))
    size = data.draw(st.integers(3, 9))
    group = data.draw(st.sampled_from([(), (Depth,)]))
    Long, w = ml.Dim("long", size), draw(Deep, Features, *group, Channels)
    large = draw(Batch, Long, *group, Channels, seed=1)
    options = {"stride": stride, "dilation": dilation, "padding": padding}

    def there(y):
        return ml.conv(y, w, {Long: Deep}, Channels, out={Long: "short"}, **options)

    x = there(large)
    short = next(dim for dim in x.dims if dim.name == "short")
    back = ml.conv_transpose(x, w, {short: Deep}, Features, out={short: Long}, **options)
    (wanted,) = jax.linear_transpose(there, large)(x)
    assert set(back.dims) == set(wanted.dims)
    close(back, np.moveaxis(wanted.array, range(wanted.array.ndim), [back.dims.index(dim) for dim in wanted.dims]))


def test_conv_transpose_lays_copies_of_the_filter_side_by_side():
    x, w = ml.tensor([1.0, 10.0], "short"), ml.tensor([1.0, 2.0], "deep")
    result = ml.conv_transpose(x, w, {"short": "deep"}, stride=2, out={"short": "long"})
    assert result.dims == (ml.Dim("long", 4),)
    close(result, [1, 2, 10, 20])
    overlapping = ml.conv_transpose(x, w, {"short": "deep"}, padding="VALID", out={"short": "long"})
    close(overlapping, [1, 12, 20])
    same = ml.conv_transpose(x, ml.tensor([1.0, 2.0, 3.0], "deep"), {"short": "deep"})
    assert same.dims == x.dims
    close(same, [12, 23])


def test_the_gradient_of_conv_transpose_is_finite_differences():
    x, w = draw(Batch, Height, Channels), draw(Deep, Channels, Features, seed=1)

    def value(x, w):
        return ml.square(ml.conv_transpose(x, w, {Height: Deep}, Channels, stride=2, out={Height: "long"})).sum()

    grads = jax.grad(value, (0, 1))(x, w)
    step = jax.tree.map(lambda a: jnp.asarray(np.random.default_rng(2).normal(size=a.shape), a.dtype), (x, w))
    ahead, behind = (value(*jax.tree.map(lambda a, s: a + sign * s, (x, w), step)) for sign in (1e-2, -1e-2))  # noqa: B023
    slope = sum(jnp.vdot(g.array, s.array) for g, s in zip(grads, step, strict=True))
    np.testing.assert_allclose((ahead - behind) / 2e-2, slope, rtol=1e-2)


@pytest.mark.parametrize("order", [(Batch, Height, Width, Channels), (Channels, Width, Batch, Height)])
def test_pooling_takes_the_greatest_and_the_mean_of_each_window(order):
    x = draw(*order)
    window = {Height: 2, "width": 3}
    greatest = ml.max_pool(x, window, out={"height": "height_2", Width: "width_3"})
    assert names(greatest) == [{"height": "height_2", "width": "width_3"}.get(dim.name, dim.name) for dim in order]
    shape = [part for dim in order for part in {Height: (4, 2), Width: (2, 3)}.get(dim, (dim.size,))]
    pieces = np.asarray(x.array).reshape(shape)
    gone = tuple(i + 1 for i, part in enumerate(shape) if (part, *shape[i + 1 : i + 2]) in {(4, 2), (2, 3)})
    close(greatest, pieces.max(gone))
    mean = ml.mean_pool(x, window, out={"height": "height_2", Width: "width_3"})
    close(mean, pieces.mean(gone))
    assert primitives(lambda x: ml.max_pool(x, {Height: 1}), x) == ["reduce_window_max", "dim_names"]


def test_windows_of_pooling_may_overlap_and_leave_the_edge():
    x = ml.tensor([4.0, 1.0, 2.0, 9.0, 5.0], "time")
    close(ml.max_pool(x, {"time": 3}, stride=1, padding="SAME"), [4, 4, 9, 9, 9])
    close(ml.max_pool(-x, {"time": 3}, stride=2, padding=(1, 1), out={"time": "t"}), [-1, -1, -5])
    close(ml.mean_pool(x, {"time": 3}, stride=1, padding="SAME"), [2.5, 7 / 3, 4, 16 / 3, 7])
    close(ml.mean_pool(x, {"time": 3}, stride=2, out={"time": "t"}), [7 / 3, 16 / 3])
    counts = ml.tensor([3, -7, 5], "time")
    result = ml.max_pool(counts, {"time": 2}, stride=1, padding="SAME")
    assert result.dtype == jnp.int32
    close(result, [3, 5, 5])
    assert ml.mean_pool(x.astype(ml.bf16), {"time": 3}, stride=1, padding="SAME").dtype == jnp.bfloat16


def test_gradients_of_pooling_go_to_the_greatest_and_to_all():
    x = ml.tensor(jnp.asarray([[4.0, 1.0], [2.0, 9.0]]), "height", "width")
    both = {"height": 2, "width": 2}
    out = {"height": "h", "width": "w"}
    close(jax.grad(lambda x: ml.max_pool(x, both, out=out).sum())(x), [[0, 0], [0, 1]])
    close(jax.grad(lambda x: ml.mean_pool(x, both, out=out).sum())(x), np.full((2, 2), 0.25))


def test_upsampling_repeats_and_its_gradient_adds_up():
    x = draw(Batch, Height, Width, Channels)
    Height2, Width3 = ml.dims(height_2=16, width_3=18)
    result = ml.upsample(x, {Height: Height2, "width": Width3})
    assert result.dims == (Batch, Height2, Width3, Channels)
    close(result, np.repeat(np.repeat(x.array, 2, 1), 3, 2))
    close(jax.grad(lambda x: ml.upsample(x, {Height: Height2}).sum())(x), np.full(x.shape, 2.0))
    assert "transpose" not in primitives(lambda x: ml.upsample(x, {Height: Height2}), x)


def test_upsampling_by_one_is_a_rename():
    x = draw(Batch, Height)
    result = ml.upsample(x, {Height: ml.Dim("rows", 8)})
    assert names(result) == ["batch", "rows"]
    program = ml.trace(lambda x: ml.upsample(x, {Height: ml.Dim("rows", 8)}), ml.f32[Batch, Height])
    assert list(program.dims) == ["batch", "height", "rows"]


def test_convolutions_and_windows_survive_vmap_and_scan():
    x, w = draw(Batch, Height, Width, Channels), draw(Tall, Wide, Channels, Features, seed=1)

    def one(image):
        y = ml.conv(image, w, SLIDE, Channels, stride=2, out={Height: "height_2", Width: "width_2"})
        return ml.upsample(ml.max_pool(y, {"height_2": 2}, out={"height_2": "h"}), {"h": ml.Dim("height_2", 4)})

    wanted = one(x)
    close(ml.vmap(one, Batch)(x), wanted.array)
    _, result = ml.scan(lambda carry, image: (carry, one(image)), 0.0, x, Batch)
    close(result, wanted.array)


def step(x, w):
    def loss(w):
        y = ml.relu(ml.conv(x, w, SLIDE, Channels, stride=2, out={Height: "height_2", Width: "width_2"}))
        y = ml.max_pool(y, {"height_2": 2}, out={"height_2": "height_4"})
        y = ml.upsample(y, {"height_4": ml.Dim("height_2", 4)})
        return ml.square(ml.conv_transpose(y, w, {"height_2": Tall, "width_2": Wide}, Features)).mean()

    value, grads = jax.value_and_grad(loss)(w)
    return value, w - 0.1 * grads


def test_convolutions_have_names_everywhere_and_run_split_over_the_batch():
    program = ml.trace(step, ml.f32[Batch, Height, Width, Channels], ml.f32[Tall, Wide, Channels, Features])
    result = {op.name: program.names[op.outputs[0]] for op in program.code.block.operations}
    for name in ("conv_general_dilated", "reduce_window_max", "select_and_scatter_add", "sub"):
        assert {"height", "height_2", "height_4", "tall"} & set(result[name]), result[name]
    plan = program.plan(ml.mesh(data=2), "batch:data")
    report = plan.check()
    assert report.ok, report
