"""The parts of convolutional models: positions at several resolutions, filters, norms, and drawing them.

An image has one pair of dims at each resolution, since a name has one size in a program:

    grid = Grid(("height", "width"))               height, width
    grid.coarser()                                 height_2, width_2: half as many
    grid.coarser().coarser()                       height_4, width_4

so a layout splits each resolution as it likes, the fine ones over the mesh and the coarse ones perhaps not. A filter
names its window (`window_height_3`), what goes in and what comes out, in this order, and so says by itself how it is to
be applied:

    x = convolved(x, w, grid)                      w: [window_height_3, window_width_3, channels, features]

Parameters are written down as a tree of `Weight`, and drawn all at once.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np

import meshlab as ml

from ..parts.initial import normal

Params = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Grid:
    """The positions of an image or a volume at one resolution.

    Attributes:
        dims: what they are called at the finest.
        factor: how many of the finest make one of these, along each dim.
    """

    dims: tuple[str, ...]
    factor: int = 1

    @property
    def names(self) -> tuple[str, ...]:
        """What the dims are called at this resolution."""
        return self.dims if self.factor == 1 else tuple(f"{name}_{self.factor}" for name in self.dims)

    def coarser(self, by: int = 2) -> Grid:
        """Returns the grid with fewer positions."""
        return Grid(self.dims, self.factor * by)

    def finer(self, by: int = 2) -> Grid:
        """Returns the grid with more positions."""
        return Grid(self.dims, self.factor // by)

    def to(self, other: Grid) -> dict[str, str]:
        """Returns what each dim is called on another grid."""
        return dict(zip(self.names, other.names, strict=True))


@dataclasses.dataclass(frozen=True)
class Weight:
    """A parameter before it is drawn.

    Attributes:
        dims: of the parameter.
        summed: which of them a contraction with it sums over.
        constant: what it starts as, where it is not drawn.
    """

    dims: tuple[ml.Dim, ...]
    summed: tuple[str, ...] = ()
    constant: float | None = None


def filters(grid: Grid, window: int, inward: ml.Dim, outward: ml.Dim) -> Weight:
    """Returns a filter of as many positions along each dim of the grid: [windows, inward, outward]."""
    windows = tuple(ml.Dim(f"window_{name}_{window}", window) for name in grid.dims)
    return Weight((*windows, inward, outward), (*(dim.name for dim in windows), inward.name))


def dense(inward: ml.Dim, outward: ml.Dim) -> Weight:
    """Returns the weight of a matmul: [inward, outward]."""
    return Weight((inward, outward), (inward.name,))


def bias(*dims: ml.Dim) -> Weight:
    """Returns what is added, at first nothing: [dims]."""
    return Weight(dims, constant=0.0)


def norm(*dims: ml.Dim) -> dict[str, Weight]:
    """Returns scale and bias of a normalisation, which change nothing at first: both [dims]."""
    return {"scale": Weight(dims, constant=1.0), "bias": bias(*dims)}


def draw(key: jax.Array, weights: Any) -> Any:
    """Draws a tree of weights, each with a key of its own."""
    leaves, tree = jax.tree.flatten(weights)
    keys = jax.random.split(key, len(leaves))
    return jax.tree.unflatten(tree, [_one(each, weight) for each, weight in zip(keys, leaves, strict=True)])


def _one(key: jax.Array, weight: Weight) -> ml.Tensor:
    if weight.constant is None:
        return normal(key, weight.dims, weight.summed)
    sizes = [dim.size for dim in weight.dims]
    return ml.tensor(np.full(sizes, weight.constant, np.float32), *weight.dims)


def convolved(x: ml.Tensor, w: ml.Tensor, grid: Grid, stride: int = 1) -> ml.Tensor:
    """Applies a filter.

    Args:
        x: [..., grid, inward].
        w: as `filters` makes it.
        grid: the positions of `x`.
        stride: how far the filter steps; the result is on the grid that is coarser by that.

    Returns:
        [..., grid, outward].
    """
    windows = dict(zip(grid.names, w.dims[:-2], strict=True))
    return ml.conv(x, w, windows, w.dims[-2], stride=stride, out=grid.to(grid.coarser(stride)))


def batch_norm(x: ml.Tensor, weights: Params, grid: Grid, epsilon: float = 1e-5) -> ml.Tensor:
    """Normalises each channel over the batch and all positions, as in training, then scales it.

    Args:
        x: [batch, grid, channels].
        weights: scale and bias: [channels].
        grid: the positions of `x`.
        epsilon: what is added to the variance.
    """
    return ml.normalize(x, "batch", *grid.names, epsilon=epsilon) * weights["scale"] + weights["bias"]
