"""Convolutions, pooling and up-sampling refuse what cannot be, and say what would."""

import itertools
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from meshlab.engine.ops.windows import Slide, windows, windows_back

Batch, Height, Width, Depth = ml.dims(batch=2, height=8, width=6, depth=4)
Channels, Features, Tall, Wide, Deep = ml.dims(channels=3, features=4, tall=3, wide=2, deep=2)
SLIDE = {Height: Tall, Width: Wide}


def draw(*dims):
    return ml.tensor(np.ones([dim.size for dim in dims], np.float32), *dims)


@pytest.mark.parametrize(
    ("window", "summed", "message"),
    [
        ({}, (), r"conv was given \{\} for its windows; say which dim of w slides along which dim of x"),
        ("height", (), "conv was given 'height' for its windows"),
        ({"hight": Tall}, (), r"conv was asked for the dim `hight` of \[.*Did you mean `height`\?"),
        ({Height: "tal"}, (), "conv was asked for the dim `tal` of .*Did you mean `tall`"),
        ({Height: Tall, Width: "tall"}, (), "conv was given a dim twice: `tall`, `tall`"),
        ({Height: Tall, "height": Wide}, (), "conv was given a dim twice: `height`, `height`"),
        (SLIDE, (Features,), r"conv was asked for the dim `features` of \[batch=2"),
        (SLIDE, (Batch,), r"conv was asked for the dim `batch` of \[tall=3"),
        (SLIDE, (Channels, "channels"), "conv was given a dim twice: `channels`, `channels`"),
        (
            {Channels: Tall},
            (),
            r"conv was asked to slide \[tall=3\] along \[channels=3\], but \[channels=3\] is in both",
        ),
        ({Height: Channels}, (), r"slide \[channels=3\] along \[height=8\], but \[channels=3\] is in both.*Rename it"),
    ],
)
@pytest.mark.parametrize("operation", [ml.conv, ml.conv_transpose])
def test_convolutions_refuse_dims_that_cannot_be(window, summed, message, operation):
    x, w = draw(Batch, Height, Width, Channels), draw(Tall, Wide, Channels, Features)
    with pytest.raises(ml.DimError, match=message.replace("conv was", f"{operation.__name__} was")):
        operation(x, w, window, *summed)


def test_convolutions_refuse_arrays_and_two_sizes_of_a_name():
    x, w = draw(Batch, Height, Channels), draw(Tall, Channels)
    array: Any = jnp.ones((2, 3))
    for operation in (ml.conv, ml.conv_transpose):
        what = operation.__name__
        with pytest.raises(ml.DimError, match=f"{what} was given an array of shape .* without names"):
            operation(array, w, {Height: Tall})
        with pytest.raises(ml.DimError, match=f"{what} was given an array of shape .* without names"):
            operation(x, array, {Height: Tall})
        with pytest.raises(ml.DimError, match=f"{what} met two sizes of the dim `channels`: channels=3 and channels=5"):
            operation(x, draw(Tall, ml.Dim("channels", 5)), {Height: Tall}, "channels")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stride": 0}, "conv was given the stride 0 along height=8; it must be a positive integer"),
        ({"stride": {Height: 1.5}}, "conv was given the stride 1.5 along height=8"),
        ({"dilation": True}, "conv was given the dilation True along height=8"),
        (
            {"stride": {"hight": 2}},
            r"stride of conv was asked for the dim `hight` of \[height=8\].*Did you mean `height`",
        ),
        (
            {"padding": "REFLECT"},
            'conv was given the padding \'REFLECT\' along height=8; it must be "SAME", "VALID", or the number',
        ),
        ({"padding": (1, -1)}, r"conv was given the padding \(1, -1\) along height=8"),
        ({"out": {"batch": "b"}}, r"out of conv was asked for the dim `batch` of \[height=8\]"),
        ({"stride": 2}, r"conv makes 4 positions of height=8.*out=\{\"height\": ml.Dim\(\"height_4\", 4\)\}"),
        ({"out": {Height: ml.Dim("h", 4)}}, "conv was asked to make h=4 of height=8, but makes 8 positions of it"),
        ({"stride": 2, "out": {Height: "height"}}, "conv met two sizes of the dim `height`: height=8 and height=4"),
        ({"out": {Height: "batch"}}, "The result of conv has the dim `batch` twice"),
        (
            {"padding": "VALID", "dilation": 5},
            r"conv was asked to slide a window over 11 positions of height=8, padded by",
        ),
    ],
)
def test_windows_that_cannot_be_are_refused(options, message):
    with pytest.raises(ml.DimError, match=message):
        ml.conv(draw(Batch, Height), draw(Tall), {Height: Tall}, **options)


def test_conv_transpose_refuses_a_size_that_conv_would_not_come_from():
    x, w = draw(Batch, Height), draw(Tall)
    with pytest.raises(
        ml.DimError, match=r"asked to make long=17 of height=8, but of long=17 a window over 3 .* makes 9"
    ):
        ml.conv_transpose(x, w, {Height: Tall}, stride=2, out={Height: ml.Dim("long", 17)})
    with pytest.raises(ml.DimError, match=r"makes 0, not 8\. It makes 8 of 17"):
        ml.conv_transpose(x, w, {Height: Tall}, stride=2, padding="VALID", out={Height: ml.Dim("long", 1)})
    with pytest.raises(ml.DimError, match="conv_transpose makes 16 positions of height=8"):
        ml.conv_transpose(x, w, {Height: Tall}, stride=2)


@pytest.mark.parametrize("operation", [ml.max_pool, ml.mean_pool])
def test_pooling_refuses_windows_that_cannot_be(operation):
    x, what = draw(Batch, Height), operation.__name__
    with pytest.raises(ml.DimError, match=rf"{what} was given 2 for its windows; say their sizes: \{{Height: 2"):
        operation(x, 2)
    with pytest.raises(ml.DimError, match=f"{what} was given the window 0 along height=8; it must be a pos"):
        operation(x, {Height: 0})
    with pytest.raises(ml.DimError, match=f"{what} was asked for the dim `width` of"):
        operation(x, {Width: 2})
    with pytest.raises(ml.DimError, match=f"{what} makes 4 positions of height=8"):
        operation(x, {Height: 2})
    with pytest.raises(ml.DimError, match=f"{what} was asked to slide a window over 9 positions of height=8"):
        operation(x, {Height: 9})
    with pytest.raises(ml.DimError, match=f"{what} was given an array of shape"):
        operation(jnp.ones(3), {Height: 2})


def test_upsampling_refuses_what_is_no_multiple():
    x = draw(Batch, Height)
    with pytest.raises(ml.DimError, match="upsample was given 2; say what each dim becomes"):
        ml.upsample(x, 2)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ml.DimError, match="asked to make h=12 of height=8; the new size must be a multiple"):
        ml.upsample(x, {Height: ml.Dim("h", 12)})
    with pytest.raises(ml.DimError, match="upsample was given 'h'; it needs a dim with a size"):
        ml.upsample(x, {Height: "h"})  # pyright: ignore[reportArgumentType]
    with pytest.raises(ml.DimError, match="upsample met two sizes of the dim `height`"):
        ml.upsample(x, {Height: ml.Dim("height", 16)})
    with pytest.raises(ml.DimError, match="The result of upsample has the dim `batch` twice"):
        ml.upsample(draw(Batch, ml.Dim("one", 1)), {"one": Batch})


def test_windows_there_and_back_agree():
    for size, span, stride, padding in itertools.product(range(3, 9), (1, 2, 3), (1, 2, 3), ("SAME", "VALID", (1, 1))):
        slide = Slide("conv", stride, padding=padding, out={"long": "short"})
        (there,) = windows(slide, [(ml.Dim("long", size), span)])
        (back,) = windows_back(slide._replace(out={"short": ml.Dim("long", size)}), [(there.out, span)])
        assert (back.out, back.dim, back.padding) == (there.dim, there.out, there.padding)
