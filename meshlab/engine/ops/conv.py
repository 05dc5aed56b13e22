"""`conv` slides a filter along dims, multiplies it with the elements it covers, and sums.

It is `dot` with windows: it says which dims of the filter slide along which dims of the tensor, and then, as `dot`
does, which dims are summed. The rest ride along.

    >>> import meshlab as ml
    >>> signal = ml.tensor([0.0, 1.0, 0.0, 2.0], "time")
    >>> blur = ml.tensor([0.25, 0.5, 0.25], "window")
    >>> ml.conv(signal, blur, {"time": "window"})
    f32[time=4]([0.25 0.5  0.75 1.  ])

What other libraries have arguments or functions for is said by the dims:

    ml.conv(images, w, {Height: Tall, Width: Wide}, Channels)     w: [tall, wide, channels, features]
    ml.conv(images, w, {Height: Tall, Width: Wide})               w: [tall, wide, channels]: depthwise
    ml.conv(images, w, {Height: Tall, Width: Wide}, Within)       images: [..., groups, within], w: [..., groups, ...]

Only dims of another size need a name, `out={Height: "height_2"}`. A filter of one position is a `dot`.

It becomes one `conv_general_dilated`. That has one axis for a batch and one for features: where several dims ride along
they are merged for it, and parted again.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax import lax

from ..errors import DimError
from ..tensors import dim_lists
from ..tensors import tensor as named
from ..tensors.dim_lists import Dims
from ..tensors.dims import Dim
from ..tensors.tensor import Tensor
from .resized import resized
from .windows import Named, Sizes, Slide, Window, become, windows, windows_back


class _Roles(NamedTuple):
    """Groups the dims of the tensor and the filter by their role.

    Attributes:
        slid: dims of the tensor that the filter slides along.
        window: the filter's dims that slide along them.
        summed: dims of both that are summed.
        shared: dims of both that ride along.
        batch: the other dims of the tensor.
        features: the other dims of the filter.
    """

    slid: Dims
    window: Dims
    summed: Dims
    shared: Dims
    batch: Dims
    features: Dims


def conv(
    x: Tensor,
    w: Tensor,
    window: Named,
    *summed: Dim | str,
    stride: int | Sizes = 1,
    dilation: int | Sizes = 1,
    padding: Any = "SAME",
    out: Named | None = None,
) -> Tensor:
    """Slides a filter along dims, and sums over the positions it covers and over the dims listed.

    Args:
        x: [..., slid dims, summed dims].
        w: [window dims, summed dims, ...].
        window: for each dim to slide along, the dim of `w` that slides along it: `{Height: Tall, Width: Wide}`.
        summed: dims of both, such as the channels.
        stride: how far the filter steps; one number, or one for each dim, `{Height: 2}`.
        dilation: how far apart its elements are.
        padding: `"SAME"`, `"VALID"`, or how many zeros stand before and behind, `(1, 1)`; for all dims or for each.
        out: what a dim becomes whose size changes, `{Height: "height_2"}`; a name alone takes the size that results.

    Returns:
        The dims of `x` without the summed ones, then the dims of `w` that `x` lacks.

    Raises:
        DimError: a dim slides along itself, or its new size has no name.

    Example:
        x = ml.conv(images, w, {Height: Tall, Width: Wide}, Channels, stride=2, out={Height: Height2, Width: Width2})
    """
    roles = _roles("conv", x, w, window, summed)
    slid = windows(Slide("conv", stride, dilation, padding, out), _window_sizes(roles))
    lax_options = {"window_strides": [s.stride for s in slid], "padding": [s.padding for s in slid]}
    return _convolve("conv", (x, w), roles, slid, lax_options)


def conv_transpose(
    x: Tensor,
    w: Tensor,
    window: Named,
    *summed: Dim | str,
    stride: int | Sizes = 1,
    dilation: int | Sizes = 1,
    padding: Any = "SAME",
    out: Named | None = None,
) -> Tensor:
    """Lays the filter, times each element, on the result, a stride apart, and sums where copies overlap.

    It is the transpose, as a linear function, of `conv` with the same filter and options: from what that makes to what
    it is given. With a stride it makes many positions of few.

    Args:
        x: [..., slid dims, summed dims].
        w: [window dims, summed dims, ...].
        window: for each dim to slide along, the dim of `w` that slides along it: `{Height: Tall, Width: Wide}`.
        summed: dims of both, such as the channels.
        stride: how far apart the copies lie; one number, or one for each dim.
        dilation: how far apart the elements of one copy are.
        padding: that of `conv`: what is cut off the result before and behind.
        out: what a dim becomes whose size changes: `{Height2: Height}`, or a name, whose size is then that of the dim
            times the stride (`"SAME"`), or all that the copies cover.

    Returns:
        The dims of `x` without the summed ones, then the dims of `w` that `x` lacks.

    Raises:
        DimError: a dim slides along itself, its new size has no name, or `conv` would not make its size of `out`.

    Example:
        x = ml.conv_transpose(x, w, {Height2: Tall}, Channels, stride=2, out={Height2: Height})
    """
    roles = _roles("conv_transpose", x, w, window, summed)
    slid = windows_back(Slide("conv_transpose", stride, dilation, padding, out), _window_sizes(roles))
    turned = named.result(lax.rev(w.array, tuple(w.dims.index(dim) for dim in roles.window)), w.dims)
    lax_options = {
        "window_strides": [1] * len(slid),
        "lhs_dilation": [s.stride for s in slid],
        "padding": [_around(s) for s in slid],
    }
    return _convolve("conv_transpose", (x, turned), roles, slid, lax_options)


def _roles(what: str, x: Tensor, w: Tensor, window: Named, summed: tuple[Dim | str, ...]) -> _Roles:
    named.array_of(what, x)
    named.array_of(what, w)
    if not isinstance(window, Mapping) or not window:
        raise DimError(
            f"{what} was given {window!r} for its windows; say which dim of w slides along which dim of x: "
            "{Height: Tall, Width: Wide}."
        )
    dim_lists.agree(what, x.dims, w.dims)
    slid = tuple(x.dims[axis] for axis in dim_lists.find_all(what, x.dims, tuple(window)))
    along = tuple(w.dims[axis] for axis in dim_lists.find_all(what, w.dims, tuple(window.values())))
    gone = tuple(x.dims[axis] for axis in (dim_lists.find_all(what, x.dims, summed) if summed else ()))
    for dim in gone:
        dim_lists.find(what, w.dims, dim)
    both = [dim for dim in (*slid, *along) if dim in x.dims and dim in w.dims]
    if both:
        raise DimError(
            f"{what} was asked to slide {dim_lists.show(along)} along "
            f"{dim_lists.show(slid)}, but {dim_lists.show(both)} is in both "
            f"x {dim_lists.show(x.dims)} and w {dim_lists.show(w.dims)}. Rename it in "
            "one of them."
        )
    shared = tuple(dim for dim in x.dims if dim in w.dims and dim not in gone)
    batch = tuple(dim for dim in x.dims if dim not in (*slid, *gone, *shared))
    return _Roles(slid, along, gone, shared, batch, tuple(dim for dim in w.dims if dim not in (*along, *gone, *shared)))


def _window_sizes(roles: _Roles) -> list[tuple[Dim, int]]:
    return [(dim, along.size) for dim, along in zip(roles.slid, roles.window, strict=True)]


def _around(window: Window) -> tuple[int, int]:
    """Returns the zeros around a spread-out dim with which a turned filter leads back to `window.out`."""
    before = window.span - 1 - window.padding[0]
    return before, window.out.size + window.span - 2 - (window.dim.size - 1) * window.stride - before


def _convolve(
    what: str, operands: tuple[Tensor, Tensor], roles: _Roles, slid: Sequence[Window], lax_options: dict[str, Any]
) -> Tensor:
    """Convolves, with one axis for the dims that ride along and one for features."""
    x, w = operands
    features = roles.shared + roles.features
    left, left_spec = _merged(x, (roles.batch, roles.shared + roles.summed, *_alone(roles.slid)))
    right, right_spec = _merged(w, (features, roles.summed, *_alone(roles.window)))
    before = tuple(dim for dim in x.dims if dim not in roles.summed) + roles.features
    wanted = become(before, slid)
    groups = (roles.batch, features, *_alone(become(roles.slid, slid)))
    order = _order(wanted, groups)
    dtype = jnp.result_type(left, right)
    array = lax.conv_general_dilated(
        jnp.asarray(left, dtype),
        jnp.asarray(right, dtype),
        rhs_dilation=[window.dilation for window in slid],
        dimension_numbers=lax.ConvDimensionNumbers(left_spec, right_spec, _places(order)),
        feature_group_count=math.prod(dim_lists.sizes(roles.shared)),
        **lax_options,
    )
    parted = tuple(dim for group in order for dim in groups[group])
    if array.shape != dim_lists.sizes(parted):
        array = lax.reshape(array, dim_lists.sizes(parted))
    return resized(what, named.expand(array, parted, wanted), before, wanted)


def _alone(dims: Dims) -> list[Dims]:
    return [(dim,) for dim in dims]


def _order(dims: Dims, groups: Sequence[Dims]) -> list[int]:
    """Returns the numbers of the groups in the order in which they begin among the dims; empty ones come last."""
    return sorted(range(len(groups)), key=lambda group: min(map(dims.index, groups[group]), default=len(dims)))


def _places(order: Sequence[int]) -> tuple[int, ...]:
    """Returns for each group the axis that it has in this order."""
    return tuple(order.index(group) for group in range(len(order)))


def _merged(x: Tensor, groups: Sequence[Dims]) -> tuple[Any, tuple[int, ...]]:
    """Returns an array with one axis for each group of dims, and which axis each group has."""
    order = _order(x.dims, groups)
    array = named.expand(x.array, x.dims, tuple(dim for group in order for dim in groups[group]))
    shape = tuple(math.prod(dim_lists.sizes(groups[group])) for group in order)
    return (array if array.shape == shape else lax.reshape(array, shape)), _places(order)
