"""ResNet: residual blocks of convolutions, at half the resolution and twice the channels from stage to stage.

    config = Config.resnet50()                         # 25,557,032 parameters
    loss(params, images, labels)                       # [batch, height, width, colours], [batch]

What to know of its dims:

- Each resolution has positions of its own, `height`, `height_2`, `height_4`, and each stage has channels of its own,
  `channels_1`, `channels_2`, and so on.
- A block reads `channels` and writes `channels`; what is between is `hidden`, and `middle` in a bottleneck. With
  `hidden` on an axis of the mesh, the first filter is split by what comes out, the second by what goes in, and the sum
  is reduced once: what tensor parallelism is to a transformer.
- A filter of one position is a matmul, so in a bottleneck only the middle one is a convolution.
- Batch norm is that of training: over the whole batch, however it is split. `ml.moments` gives what is to be kept for
  use afterwards.

Sizes and formula: He et al. 2016, "Deep Residual Learning for Image Recognition", with the stride of a bottleneck on
its middle filter, as all widely used implementations have it.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import jax

import meshlab as ml

from ..parts.sizes import Sizes
from ..parts.tasks import class_loss, image_inputs
from .convolutional import Grid, Params, batch_norm, bias, convolved, dense, draw, filters, norm

IMAGE = Grid(("height", "width"))
# The filter of the stem for large images, which then has a stride and is followed by pooling.
LARGE = 7


@dataclasses.dataclass(frozen=True)
class Config(Sizes):
    """Sizes of a ResNet.

    Attributes:
        stem: channels before the first stage, and the narrowest of all.
        channels: what each stage writes.
        blocks: how many each stage has.
        bottleneck: whether a block is three filters, the middle of which has a quarter of the channels.
        large: whether images are large: the stem then makes their height and width a quarter.
    """

    batch: int = 8
    height: int = 16
    width: int = 16
    colours: int = 3
    classes: int = 8
    stem: int = 8
    channels: tuple[int, ...] = (8, 16)
    blocks: tuple[int, ...] = (1, 2)
    bottleneck: bool = False
    large: bool = False

    @classmethod
    def resnet18(cls, batch: int = 256) -> Config:
        """ResNet-18 for ImageNet: 11,689,512 parameters."""
        return cls(batch, 224, 224, 3, 1000, 64, (64, 128, 256, 512), (2, 2, 2, 2), large=True)

    @classmethod
    def resnet50(cls, batch: int = 256) -> Config:
        """ResNet-50 for ImageNet: 25,557,032 parameters."""
        return cls(batch, 224, 224, 3, 1000, 64, (256, 512, 1024, 2048), (3, 4, 6, 3), bottleneck=True, large=True)


def init(key: jax.Array, config: Config) -> Params:
    """Draws the parameters: `stem`, `stages`, a list of lists of blocks, and the classes."""
    stages = [ml.Dim(f"channels_{number}", size) for number, size in enumerate(config.channels, start=1)]
    # Blocks of two filters add the stem to what they make of it, so it has their channels.
    stem = ml.Dim("stem", config.stem) if config.bottleneck else stages[0]
    weights = {
        "stem": filters(IMAGE, LARGE if config.large else 3, config["colours"], stem),
        "stem_norm": norm(stem),
        "stages": [
            [_block(inward if number == 0 else outward, outward, config.bottleneck) for number in range(count)]
            for (inward, outward), count in zip(itertools.pairwise([stem, *stages]), config.blocks, strict=True)
        ],
        "head": dense(stages[-1], config["classes"]),
        "head_bias": bias(config["classes"]),
    }
    return draw(key, weights)


def _block(inward: ml.Dim, outward: ml.Dim, bottleneck: bool) -> dict[str, Any]:
    """Returns the weights of one block."""
    stage, size = outward.name.removeprefix("channels_"), outward.size // (4 if bottleneck else 1)
    hidden, middle = ml.Dim(f"hidden_{stage}", size), ml.Dim(f"middle_{stage}", size)
    if bottleneck:
        weights = {
            "first": dense(inward, hidden),
            "second": filters(IMAGE, 3, hidden, middle),
            "second_norm": norm(middle),
            "third": dense(middle, outward),
            "third_norm": norm(outward),
        }
    else:
        weights = {
            "first": filters(IMAGE, 3, inward, hidden),
            "second": filters(IMAGE, 3, hidden, outward),
            "second_norm": norm(outward),
        }
    if inward != outward:
        weights |= {"project": filters(IMAGE, 1, inward, outward), "project_norm": norm(outward)}
    return weights | {"first_norm": norm(hidden)}


inputs = image_inputs("batch height width colours")


def classify(params: Params, images: ml.Tensor) -> ml.Tensor:
    """Returns the logits of the classes.

    Args:
        params: as `init` makes them.
        images: [batch, height, width, colours].

    Returns:
        [batch, classes].
    """
    x, grid = stem(images, params)
    for number, blocks in enumerate(params["stages"]):
        for position, weights in enumerate(blocks):
            stride = 2 if number > 0 and position == 0 else 1
            x = ml.tag(block(x, weights, grid, stride), "residual")
            grid = grid.coarser(stride)
    return ml.dot(x.mean(*grid.names), params["head"], x.dims[-1]) + params["head_bias"]


loss = class_loss(classify)


def stem(images: ml.Tensor, params: Params) -> tuple[ml.Tensor, Grid]:
    """Returns the channels of an image, and the grid that they are on: a quarter of it, for large images."""
    large = params["stem"].shape[0] == LARGE
    grid = IMAGE.coarser() if large else IMAGE
    x = convolved(images, params["stem"], IMAGE, grid.factor)
    x = ml.relu(batch_norm(x, params["stem_norm"], grid))
    if not large:
        return x, grid
    pooled = grid.coarser()
    window = dict.fromkeys(grid.names, 3)
    return ml.max_pool(x, window, stride=2, padding="SAME", out=grid.to(pooled)), pooled


def block(x: ml.Tensor, weights: Params, grid: Grid, stride: int) -> ml.Tensor:
    """Adds to its input what two or three filters make of it.

    Args:
        x: [batch, grid, channels].
        weights: of one block.
        grid: the positions of `x`.
        stride: how far the filters step along it.

    Returns:
        [batch, grid, channels], the grid coarser by the stride, the channels those of the stage.
    """
    after = grid.coarser(stride)
    if "third" in weights:
        hidden = ml.relu(batch_norm(ml.dot(x, weights["first"], x.dims[-1]), weights["first_norm"], grid))
        middle = convolved(hidden, weights["second"], grid, stride)
        middle = ml.relu(batch_norm(middle, weights["second_norm"], after))
        change = batch_norm(ml.dot(middle, weights["third"], middle.dims[-1]), weights["third_norm"], after)
    else:
        hidden = convolved(x, weights["first"], grid, stride)
        hidden = ml.relu(batch_norm(hidden, weights["first_norm"], after))
        change = batch_norm(convolved(hidden, weights["second"], after), weights["second_norm"], after)
    if "project" in weights:
        x = batch_norm(convolved(x, weights["project"], grid, stride), weights["project_norm"], after)
    return ml.relu(x + change)
