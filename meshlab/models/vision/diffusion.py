"""A diffusion model: a U-Net that predicts the noise in a noised image.

    config = Config.cifar10()                          # 35,746,307 parameters
    loss(params, (images, times), noise)               # [batch, height, width, colours], [batch] and as the images

The noise is an argument: a step is a function of its arguments alone, and where they come from is the data's affair
(`ml.normal(key, ...)` draws them).

What to know of its dims:

- A residual block reads its channels, writes `hidden` between its two convolutions, and `channels_0`, `channels_1`, ...
  by level. What is joined from the way down is `joined_0_1`: level 0, block 1.
- A group norm sees channels as [groups, within], which is how its scale says which channels belong together.
- Attention goes over all positions at once, without a reshape: queries have [height, width], keys [key_height,
  key_width], and the softmax is over both. With `height` on an axis of the mesh, keys are gathered at that rename.

Sizes and formula: Ho et al. 2020, "Denoising Diffusion Probabilistic Models", without dropout.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import numpy as np

import meshlab as ml

from ..parts.layers import softmax, wide
from ..parts.sizes import Sizes
from .convolutional import Grid, Params, bias, convolved, dense, draw, filters, norm

IMAGE = Grid(("height", "width"))
# Each of so many steps adds noise of a variance that grows from the first to the last of these.
STEPS, LEAST, MOST = 1000, 1e-4, 0.02


@dataclasses.dataclass(frozen=True)
class Config(Sizes):
    """Sizes of the U-Net.

    Attributes:
        channels: of the finest level.
        multiples: how many times as many each level has; the first is 1.
        blocks: of each level on the way down; there is one more on the way up.
        attention: at which resolutions positions attend to each other: 2 is half of the image's.
        groups: of channels that are normalised together.
    """

    batch: int = 8
    height: int = 8
    width: int = 8
    colours: int = 3
    channels: int = 8
    multiples: tuple[int, ...] = (1, 2)
    blocks: int = 1
    attention: tuple[int, ...] = (2,)
    groups: int = 4

    @classmethod
    def cifar10(cls, batch: int = 128) -> Config:
        """The published model for images of 32 x 32: 35,746,307 parameters."""
        return cls(batch, 32, 32, 3, 128, (1, 2, 2, 2), 2, (2,), groups=32)


def init(key: jax.Array, config: Config) -> Params:
    """Draws the parameters: `time`, `stem`, `down`, finest first, `middle`, `up`, coarsest first, `norm` and `head`."""
    wave, time = ml.Dim("wave", config.channels), ml.Dim("time", 4 * config.channels)
    inner = ml.Dim("time_hidden", time.size)
    finest, colours = ml.Dim("channels_0", config.channels), config["colours"]
    down, up = _ways(config)
    deepest = ml.Dim(f"channels_{len(down) - 1}", config.channels * config.multiples[-1])
    weights = {
        "time": {"first": _affine(dense(wave, inner)), "second": _affine(dense(inner, time))},
        "stem": _affine(filters(IMAGE, 3, colours, finest)),
        "down": down,
        "middle": [_block(config, deepest, deepest) | _attention(config, deepest), _block(config, deepest, deepest)],
        "up": up,
        "norm": _group_norm(config, finest),
        "head": _affine(filters(IMAGE, 3, finest, ml.Dim("noise_colours", colours.size))),
    }
    return draw(key, weights)


def _ways(config: Config) -> tuple[list[Params], list[Params]]:
    """Returns the weights of the way down and of the way up, a dict for each level."""
    levels = [ml.Dim(f"channels_{n}", config.channels * m) for n, m in enumerate(config.multiples)]
    x, passed, down, up = levels[0], [levels[0]], [], []
    for number, outward in enumerate(levels):
        blocks = []
        for _ in range(config.blocks):
            blocks.append(_block(config, x, outward) | _attention(config, outward, number))
            passed.append(x := outward)
        down.append({"blocks": blocks})
        if outward != levels[-1]:
            passed.append(x := ml.Dim(f"down_{number}", outward.size))
            down[-1]["shrink"] = _affine(filters(IMAGE, 3, outward, x))
    for number, outward in reversed(list(enumerate(levels))):
        blocks = []
        for position in range(config.blocks + 1):
            joined = ml.Dim(f"joined_{number}_{position}", x.size + passed.pop().size)
            blocks.append(_block(config, joined, outward) | _attention(config, outward, number))
            x = outward
        up.append({"blocks": blocks})
        if number:
            x = ml.Dim(f"up_{number}", outward.size)
            up[-1]["grow"] = _affine(filters(IMAGE, 3, outward, x))
    return down, up


def _affine(weight: Any) -> dict[str, Any]:
    """Returns a weight with a bias for what it makes."""
    return {"weight": weight, "bias": bias(weight.dims[-1])}


def _group_norm(config: Config, channels: ml.Dim) -> dict[str, Any]:
    within = ml.Dim(f"{channels.name}_within", channels.size // config.groups)
    return norm(config["groups"], within)


def _block(config: Config, inward: ml.Dim, outward: ml.Dim) -> dict[str, Any]:
    """Returns the weights of a residual block; channels of another number are projected."""
    hidden = ml.Dim(outward.name.replace("channels", "hidden"), outward.size)
    weights = {
        "first_norm": _group_norm(config, inward),
        "first": _affine(filters(IMAGE, 3, inward, hidden)),
        "time": _affine(dense(ml.Dim("time", 4 * config.channels), hidden)),
        "second_norm": _group_norm(config, hidden),
        "second": _affine(filters(IMAGE, 3, hidden, outward)),
    }
    return weights | ({} if inward.size == outward.size else {"project": _affine(dense(inward, outward))})


def _attention(config: Config, channels: ml.Dim, level: int | None = None) -> dict[str, Any]:
    """Returns the weights of attention, or none where this level has no attention."""
    if level is not None and 2**level not in config.attention:
        return {}
    head = ml.Dim(channels.name.replace("channels", "head"), channels.size)
    inward = {name: _affine(dense(channels, head)) for name in ("query", "key", "value")}
    return {"attention": {"norm": _group_norm(config, channels), "output": _affine(dense(head, channels))} | inward}


def inputs(config: Config) -> tuple[tuple[ml.Tensor, ml.Tensor], ml.Tensor]:
    """Returns the shapes of images: [batch, height, width, colours], times: [batch], below `STEPS`, and noise."""
    images = ml.f32[config.dims("batch height width colours")]
    return (images, ml.i32[config["batch"],]), images


def loss(params: Params, inputs: tuple[ml.Tensor, ml.Tensor], noise: ml.Tensor) -> jax.Array:
    """Returns the mean squared error of the noise that is predicted of noised images.

    Args:
        params: as `init` makes them.
        inputs: images: [batch, height, width, colours], and times: [batch], integers below `STEPS`, the later the more
            noise.
        noise: [batch, height, width, colours], of mean 0 and variance 1.
    """
    images, times = inputs
    remaining = np.cumprod(1 - np.linspace(LEAST, MOST, STEPS))
    signal = ml.take(ml.tensor(np.sqrt(remaining), "steps"), times, "steps")
    share = ml.take(ml.tensor(np.sqrt(1 - remaining), "steps"), times, "steps")
    predicted = predict(params, images * signal + noise * share, times)
    return ml.square(wide(predicted) - noise.rename(colours="noise_colours")).mean()


def predict(params: Params, x: ml.Tensor, times: ml.Tensor) -> ml.Tensor:
    """Returns the predicted noise.

    Args:
        params: as `init` makes them.
        x: [batch, height, width, colours], noised images.
        times: [batch], how far they are noised.

    Returns:
        [batch, height, width, noise_colours].
    """
    time = embed(times, params["time"])
    x, grid = applied(x, params["stem"], IMAGE), IMAGE
    passed = [x]
    for level in params["down"]:
        for weights in level["blocks"]:
            x = step(x, time, weights, grid)
            passed.append(x)
        if "shrink" in level:
            x, grid = applied(x, level["shrink"], grid, 2), grid.coarser()
            passed.append(x)
    for weights in params["middle"]:
        x = step(x, time, weights, grid)
    for level in params["up"]:
        for weights in level["blocks"]:
            x = step(join(x, passed.pop(), weights), time, weights, grid)
        if "grow" in level:
            x, grid = enlarge(x, grid), grid.finer()
            x = applied(x, level["grow"], grid)
    return applied(ml.silu(group_norm(x, params["norm"], grid)), params["head"], grid)


def embed(times: ml.Tensor, weights: Params) -> ml.Tensor:
    """Returns waves of many lengths at each time, through two layers: [batch] to [batch, time]."""
    wave = weights["first"]["weight"].dims[0]
    half = ml.Dim("half_wave", wave.size // 2)
    angles = times * ml.exp(ml.arange(half, ml.f32) * (-math.log(10_000.0) / (half.size - 1)))
    waves = ml.concat((ml.sin(angles), ml.cos(angles)), half, wave)
    return affine(ml.silu(affine(waves, weights["first"])), weights["second"])


def step(x: ml.Tensor, time: ml.Tensor, weights: Params, grid: Grid) -> ml.Tensor:
    """Applies a residual block and, where it has weights for it, attention; tags the result `residual`."""
    x = block(x, time, weights, grid)
    return ml.tag(attend(x, weights["attention"], grid) if "attention" in weights else x, "residual")


def block(x: ml.Tensor, time: ml.Tensor, weights: Params, grid: Grid) -> ml.Tensor:
    """Adds to its input what two convolutions make of it, the time between them.

    Args:
        x: [batch, grid, inward].
        time: [batch, time], as `embed` makes it.
        weights: of one block.
        grid: the positions of `x`.

    Returns:
        [batch, grid, channels].
    """
    hidden = applied(ml.silu(group_norm(x, weights["first_norm"], grid)), weights["first"], grid)
    hidden = hidden + affine(ml.silu(time), weights["time"])
    change = applied(ml.silu(group_norm(hidden, weights["second_norm"], grid)), weights["second"], grid)
    if "project" in weights:
        return affine(x, weights["project"]) + change
    inward, outward = weights["first"]["weight"].dims[-2].name, change.dims[-1].name
    return (x if inward == outward else x.rename(**{inward: outward})) + change


def attend(x: ml.Tensor, weights: Params, grid: Grid) -> ml.Tensor:
    """Lets each position read from all: [batch, grid, channels]."""
    normed = group_norm(x, weights["norm"], grid)
    keys = {name: f"key_{name}" for name in grid.names}
    query = affine(normed, weights["query"])
    key, value = (affine(normed, weights[name]).rename(**keys) for name in ("key", "value"))
    head = query.dims[-1]
    weight = softmax(ml.dot(query, key, head) * head.size**-0.5, *keys.values())
    return x + affine(ml.dot(weight, value, *keys.values()), weights["output"])


def group_norm(x: ml.Tensor, weights: Params, grid: Grid) -> ml.Tensor:
    """Normalises each group of channels over its channels and all positions, then scales them.

    Args:
        x: [batch, grid, channels].
        weights: scale and bias: [groups, within].
        grid: the positions of `x`.
    """
    channels, parts = x.dims[-1], weights["scale"].dims
    normed = ml.normalize(ml.unmerge(x, channels, parts), *grid.names, parts[1], epsilon=1e-6)
    return ml.merge(normed * weights["scale"] + weights["bias"], parts, channels)


def join(x: ml.Tensor, across: ml.Tensor, weights: Params) -> ml.Tensor:
    """Joins the channels of the way up with those passed across, as the block that reads them calls them."""
    joined = weights["first"]["weight"].dims[-2]
    return ml.concat((x, across), (x.dims[-1], across.dims[-1]), joined)


def enlarge(x: ml.Tensor, grid: Grid) -> ml.Tensor:
    """Doubles the resolution by repeating: [batch, grid, channels] to [batch, finer grid, channels]."""
    sizes = {dim.name: dim.size for dim in x.dims}
    return ml.upsample(x, {name: ml.Dim(finer, 2 * sizes[name]) for name, finer in grid.to(grid.finer()).items()})


def applied(x: ml.Tensor, weights: Params, grid: Grid, stride: int = 1) -> ml.Tensor:
    """Applies a filter and its bias: [batch, grid, inward] to [batch, grid, outward]."""
    return convolved(x, weights["weight"], grid, stride) + weights["bias"]


def affine(x: ml.Tensor, weights: Params) -> ml.Tensor:
    """Applies a matmul and its bias: [..., inward] to [..., outward]."""
    return ml.dot(x, weights["weight"], weights["weight"].dims[0]) + weights["bias"]
