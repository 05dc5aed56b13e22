"""Mesh TensorFlow's 3-D U-Net: which voxels of a CT scan are liver, and which lesion.

Going down, each level is two convolutions of 3 x 3 x 3, and pooling halves the resolution; going up, a transposed
convolution doubles it, and what the level made on the way down is joined to it. A scan of 128 x 128 x 128 with its
channels is more than one device holds, which is why space is split:

    config = Config.mesh_tf()
    program = ml.trace(training.sgd_step(loss), shapes(init, config), *inputs(config))
    program.plan(ml.mesh(cores=2, rows=2, columns=2), "batch:cores depth:rows height:columns")

Each resolution has dims of its own, `depth`, `depth_2`, `depth_4`, so a layout may split the fine ones only. Channels
are `hidden_0` between the two convolutions of level 0, `channels_0` after them, `joined_0` where two of those are.

Sizes and formula: `experimental/unet.py` of Mesh TensorFlow, without its dropout: the step is a function of parameters
and data alone.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax

import meshlab as ml

from ..parts.layers import wide
from ..parts.sizes import Sizes
from .convolutional import Grid, Params, batch_norm, convolved, dense, draw, filters, norm

VOLUME = Grid(("depth", "height", "width"))
LIVER, LESION = 1, 2
# How much more the voxels of each count in the cross entropy, and how much the overlap counts beside it.
LIVER_WEIGHT, LESION_WEIGHT, OVERLAP_WEIGHT, OVERLAP_EPSILON = 7.0, 8.0, 0.2, 0.1


@dataclasses.dataclass(frozen=True)
class Config(Sizes):
    """Sizes of the U-Net.

    Attributes:
        filters: channels of the finest level; each further one has twice as many.
        levels: how many resolutions there are.
    """

    batch: int = 8
    depth: int = 8
    height: int = 8
    width: int = 4
    modalities: int = 1
    classes: int = 3
    filters: int = 8
    levels: int = 2

    @classmethod
    def mesh_tf(cls, batch: int = 32) -> Config:
        """Mesh TensorFlow's own sizes."""
        return cls(batch, 128, 128, 128, filters=32, levels=4)


def init(key: jax.Array, config: Config) -> Params:
    """Draws the parameters: `down`, finest first, `up`, coarsest first, and `head`."""
    channels = [ml.Dim(f"channels_{level}", config.filters * 2**level) for level in range(config.levels)]
    down = [
        _level(inward, outward) for inward, outward in zip([config["modalities"], *channels], channels, strict=False)
    ]
    up = [_rise(channels[level + 1], channels[level], level) for level in reversed(range(config.levels - 1))]
    return draw(key, {"down": down, "up": up, "head": dense(channels[0], config["classes"])})


def _level(inward: ml.Dim, outward: ml.Dim) -> dict[str, Any]:
    """Returns the weights of the two convolutions of a level."""
    hidden = ml.Dim(outward.name.replace("channels", "hidden"), outward.size)
    return {
        "first": filters(VOLUME, 3, inward, hidden),
        "first_norm": norm(hidden),
        "second": filters(VOLUME, 3, hidden, outward),
        "second_norm": norm(outward),
    }


def _rise(inward: ml.Dim, outward: ml.Dim, level: int) -> dict[str, Any]:
    """Returns the weights of a level on the way up."""
    joined = ml.Dim(f"joined_{level}", 2 * outward.size)
    return {"rise": filters(VOLUME, 2, inward, outward)} | _level(joined, outward)


def inputs(config: Config) -> tuple[ml.Tensor, ml.Tensor]:
    """Returns the shapes of scans: [batch, depth, height, width, modalities] and labels, without `modalities`."""
    labels = config.dims("batch depth height width")
    return ml.f32[(*labels, config["modalities"])], ml.i32[labels]


def loss(params: Params, scans: ml.Tensor, labels: ml.Tensor) -> jax.Array:
    """Returns the weighted cross entropy of the voxels, less the overlap of lesions and what is taken for them.

    Args:
        params: as `init` makes them.
        scans: [batch, depth, height, width, modalities].
        labels: [batch, depth, height, width], which class each voxel is of.
    """
    logits = wide(segment(params, scans))
    weight = 1.0 + LIVER_WEIGHT * (labels == LIVER) + LESION_WEIGHT * (labels == LESION)
    entropy = (ml.cross_entropy(logits, labels, "classes") * weight).mean()
    return (1 - OVERLAP_WEIGHT) * entropy - OVERLAP_WEIGHT * overlap(logits, labels)


def overlap(logits: ml.Tensor, labels: ml.Tensor) -> jax.Array:
    """Returns the Dice coefficient of lesions, half of it that of each scan, half that of all together.

    Args:
        logits: [batch, depth, height, width, classes].
        labels: [batch, depth, height, width].
    """
    predicted = ml.take(ml.softmax(logits, "classes"), LESION, "classes")
    actual = (labels == LESION).astype(predicted.dtype)
    both, total = (predicted * actual).sum(*VOLUME.names), (predicted + actual).sum(*VOLUME.names)
    each = (2 * both / (total + OVERLAP_EPSILON)).mean()
    return (each + 2 * both.sum() / (total.sum() + OVERLAP_EPSILON)) / 2


def segment(params: Params, scans: ml.Tensor) -> ml.Tensor:
    """Returns the logits of the classes of each voxel.

    Args:
        params: as `init` makes them.
        scans: [batch, depth, height, width, modalities].

    Returns:
        [batch, depth, height, width, classes].
    """
    x, grid = level(scans, params["down"][0], VOLUME), VOLUME
    passed = []
    for weights in params["down"][1:]:
        passed.append(x)
        coarse = grid.coarser()
        x = ml.max_pool(x, dict.fromkeys(grid.names, 2), out=grid.to(coarse))
        x, grid = level(x, weights, coarse), coarse
    for weights, across in zip(params["up"], reversed(passed), strict=True):
        x, grid = rise(x, weights["rise"], grid), grid.finer()
        joined = weights["first"].dims[-2]
        x = level(ml.concat((x, across), x.dims[-1], joined), weights, grid)
    return ml.dot(x, params["head"], "channels_0")


def level(x: ml.Tensor, weights: Params, grid: Grid) -> ml.Tensor:
    """Applies two convolutions: [batch, grid, inward] to [batch, grid, channels]."""
    for name in ("first", "second"):
        x = batch_norm(convolved(x, weights[name], grid), weights[f"{name}_norm"], grid, epsilon=1e-6)
        x = ml.leaky_relu(x, 0.1)
    return x


def rise(x: ml.Tensor, w: ml.Tensor, grid: Grid) -> ml.Tensor:
    """Doubles the resolution by a transposed convolution: [batch, grid, inward] to [batch, finer grid, outward]."""
    windows = dict(zip(grid.names, w.dims[:-2], strict=True))
    return ml.conv_transpose(x, w, windows, w.dims[-2], stride=2, out=grid.to(grid.finer()))
