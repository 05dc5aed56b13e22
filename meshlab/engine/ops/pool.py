"""Takes the greatest element or the mean of each window, and repeats elements for the way back.

    >>> import meshlab as ml
    >>> x = ml.tensor([1.0, 3.0, 2.0, 4.0], "time")
    >>> ml.max_pool(x, {"time": 2}, out={"time": "time_2"})
    f32[time_2=2]([3. 4.])
    >>> ml.upsample(ml.mean_pool(x, {"time": 2}, out={"time": "time_2"}), {"time_2": ml.Dim("time", 4)})
    f32[time=4]([2. 2. 3. 3.])

Windows lie side by side unless a stride is given. Pooling over a whole dim is `x.max(dim)` or `x.mean(dim)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from ..errors import DimError
from ..tensors import dim_lists
from ..tensors import tensor as named
from ..tensors.dims import Dim
from ..tensors.dtypes import numbers
from ..tensors.tensor import Tensor
from .index import sized
from .resized import resized
from .windows import Named, Sizes, Slide, Window, become, windows


def max_pool(
    x: Tensor,
    window: Sizes,
    *,
    stride: int | Sizes | None = None,
    padding: Any = "VALID",
    out: Named | None = None,
) -> Tensor:
    """Returns the greatest element of each window.

    Args:
        x: [..., dims of the window].
        window: how many positions it covers of each dim, `{Height: 2, Width: 2}`.
        stride: how far it steps; without one, its own size.
        padding: `"VALID"`, `"SAME"`, or how many positions stand before and behind, `(1, 1)`; none of them is greatest.
        out: what a dim becomes whose size changes, `{Height: "height_2"}`.

    Returns:
        The dims of `x`, with `out` for those that change.

    Raises:
        DimError: a window does not fit or lies in the padding alone, or a new size has no name.
    """
    slid = _slid(x, window, Slide("max_pool", window if stride is None else stride, padding=padding, out=out))
    least = -jnp.inf if jnp.issubdtype(x.dtype, jnp.inexact) else jnp.iinfo(x.dtype).min
    return _reduce("max_pool", x, least, lax.max, slid)


def mean_pool(
    x: Tensor,
    window: Sizes,
    *,
    stride: int | Sizes | None = None,
    padding: Any = "VALID",
    out: Named | None = None,
) -> Tensor:
    """Returns the mean of each window, over the positions that `x` has: padding does not count.

    Args:
        x: [..., dims of the window].
        window: how many positions it covers of each dim, `{Height: 2, Width: 2}`.
        stride: how far it steps; without one, its own size.
        padding: `"VALID"`, `"SAME"`, or how many positions stand before and behind, `(1, 1)`.
        out: what a dim becomes whose size changes, `{Height: "height_2"}`.

    Returns:
        The dims of `x`, with `out` for those that change.

    Raises:
        DimError: a window does not fit or lies in the padding alone, or a new size has no name.
    """
    slid = _slid(x, window, Slide("mean_pool", window if stride is None else stride, padding=padding, out=out))
    total = _reduce("mean_pool", x, 0, lax.add, slid) * (1 / math.prod(s.span for s in slid if not any(s.padding)))
    for padded in (s for s in slid if any(s.padding)):
        total = total / named.tensor(_covered(padded), padded.out).astype(total.dtype)
    return total


def upsample(x: Tensor, sizes: Mapping[Any, Dim]) -> Tensor:
    """Repeats each element, so that dims become longer.

    Args:
        x: [..., dims].
        sizes: what each dim becomes, `{Height2: Height}`; its size is a multiple of what it was.

    Returns:
        The dims of `x`, with the dims of `sizes` in place of the ones that change.
    """
    array = named.array_of("upsample", x)
    if not isinstance(sizes, Mapping) or not sizes:
        raise DimError(f"upsample was given {sizes!r}; say what each dim becomes: {{Height2: Height, Width2: Width}}.")
    after = list(x.dims)
    for axis, new in zip(dim_lists.find_all("upsample", x.dims, tuple(sizes)), sizes.values(), strict=True):
        sized("upsample", new)
        if new.size % x.shape[axis]:
            raise DimError(
                f"upsample was asked to make {new} of {x.dims[axis]}; the new size must be a multiple of the old one."
            )
        after[axis] = new
    spread: list[int] = []
    places = []
    for size, new in zip(x.shape, after, strict=True):
        places.append(len(spread))
        spread += [size, new.size // size] if new.size > size else [size]
    repeated = lax.broadcast_in_dim(array, spread, places)
    return resized("upsample", lax.reshape(repeated, dim_lists.sizes(after)), x.dims, tuple(after))


def _slid(x: Tensor, window: Sizes, slide: Slide) -> tuple[Window, ...]:
    named.array_of(slide.what, x)
    if not isinstance(window, Mapping) or not window:
        raise DimError(f"{slide.what} was given {window!r} for its windows; say their sizes: {{Height: 2, Width: 2}}.")
    numbers(slide.what, x)
    axes = dim_lists.find_all(slide.what, x.dims, tuple(window))
    slid = windows(slide, [(x.dims[axis], size) for axis, size in zip(axes, window.values(), strict=True)])
    for one in slid:
        if one.padding[0] >= one.span or (one.out.size - 1) * one.stride - one.padding[0] >= one.dim.size:
            raise DimError(
                f"{slide.what} was asked to slide a window over {one.span} positions of {one.dim}, padded by"
                f" {one.padding}: some windows would contain only padding. Pad by less than the window."
            )
    return slid


def _reduce(what: str, x: Tensor, start: Any, join: Callable[[Any, Any], Any], slid: tuple[Window, ...]) -> Tensor:
    by_dim = {window.dim: window for window in slid}
    by_axis = [by_dim.get(dim, Window(dim, dim, 1, 1, 1, (0, 0))) for dim in x.dims]
    array = lax.reduce_window(
        jnp.asarray(x.array),
        np.asarray(start, x.dtype),
        join,
        window_dimensions=tuple(window.span for window in by_axis),
        window_strides=tuple(window.stride for window in by_axis),
        padding=tuple(window.padding for window in by_axis),
    )
    return resized(what, array, x.dims, become(x.dims, slid))


def _covered(window: Window) -> np.ndarray:
    """Returns how many positions of a dim each window covers."""
    starts = np.arange(window.out.size) * window.stride - window.padding[0]
    covered = np.minimum(starts + window.span, window.dim.size) - np.maximum(starts, 0)
    return covered.astype(np.float32)
