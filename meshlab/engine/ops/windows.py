"""Works out the windows that slide along dims: their spans, strides, paddings, and the sizes that come out.

Convolutions and pooling ask the same of each dim that a window slides along. `Slide` is what the caller said, and
`windows` answers with one `Window` for each dim:

    >>> from meshlab.engine.tensors.dims import Dim
    >>> slide = Slide("max_pool", stride=2, out={"height": "height_2"})
    >>> slid = windows(slide, [(Dim("height", 8), 2)])
    >>> str(slid[0].out), slid[0].padding
    ('height_2=4', (0, 0))

An option is given for all dims at once (`stride=2`), or for each (`stride={Height: 2}`; a dim that is left out has a
stride and a dilation of 1, and no padding). A dim whose size does not change keeps its name; where the size changes,
the caller names the dim of the result, since a name has one size in a program.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..argument_checks import is_whole, mapping
from ..errors import DimError, shown
from ..tensors import dim_lists
from ..tensors.dim_lists import Dims
from ..tensors.dims import Dim

# Keys are dims or their names.
Sizes = Mapping[Any, int]
Named = Mapping[Any, Dim | str]
Pair = tuple[int, int]


class Slide(NamedTuple):
    """The options of windows, as the caller gave them.

    Attributes:
        what: the operation.
        stride: how far a window steps.
        dilation: how far apart its elements are.
        padding: `"SAME"` (the window steps as often as the stride fits into the dim), `"VALID"` (none), or how many
            positions stand before and behind, `(1, 1)`.
        out: what dims of another size are called.
    """

    what: str
    stride: int | Sizes = 1
    dilation: int | Sizes = 1
    padding: Any = "VALID"
    out: Named | None = None


class Window(NamedTuple):
    """The window along one dim.

    Attributes:
        dim: the dim.
        out: what it becomes.
        span: how many positions the window covers, gaps included.
        stride: how far it steps.
        dilation: how far apart its elements are.
        padding: how many positions stand before and behind the dim.
    """

    dim: Dim
    out: Dim
    span: int
    stride: int
    dilation: int
    padding: Pair


class _Options(NamedTuple):
    dim: Dim
    span: int
    stride: int
    dilation: int
    padding: Any


def windows(slide: Slide, sizes: Sequence[tuple[Dim, int]]) -> tuple[Window, ...]:
    """Returns the window along each dim, with the dim that results.

    Args:
        slide: how they slide.
        sizes: the dims, each with the size of its window.
    """
    result = []
    for one in _options(slide, sizes):
        pads = _pads(slide.what, one, one.dim.size)
        if one.dim.size + sum(pads) < one.span:
            raise DimError(
                f"{slide.what} was asked to slide a window over {one.span} positions of {one.dim}, padded by {pads}: "
                'it does not fit. Use a smaller window or padding="SAME".'
            )
        out = _called(slide, one.dim, _count(one, one.dim.size, pads))
        result.append(Window(one.dim, out, one.span, one.stride, one.dilation, pads))
    return tuple(result)


def windows_back(slide: Slide, sizes: Sequence[tuple[Dim, int]]) -> tuple[Window, ...]:
    """Returns the windows that make these dims of those in `slide.out`, seen from these.

    A stride of 2 makes 8 positions of 16 as well as of 15, so the size of what they come from is that of the dim in
    `out`; for a name alone, it is the size that leaves nothing over.

    Args:
        slide: how windows slide along `out`.
        sizes: the dims, each with the size of its window.
    """
    result = []
    for one in _options(slide, sizes):
        usual, asked = _usual(slide.what, one), _asked(slide, one.dim)
        size = asked.size if isinstance(asked, Dim) else usual
        pads = _pads(slide.what, one, size)
        count = max(0, _count(one, size, pads))
        if count != one.dim.size:
            raise DimError(
                f"{slide.what} was asked to make {asked} of {one.dim}, but of {asked} a window over {one.span} "
                f"positions with a stride of {one.stride} makes {count}, not {one.dim.size}. "
                f"It makes {one.dim.size} of {usual}."
            )
        result.append(Window(one.dim, _called(slide, one.dim, size), one.span, one.stride, one.dilation, pads))
    return tuple(result)


def become(dims: Dims, slid: Sequence[Window]) -> Dims:
    """Returns the dims after the windows."""
    after = {window.dim: window.out for window in slid}
    return tuple(after.get(dim, dim) for dim in dims)


def _options(slide: Slide, sizes: Sequence[tuple[Dim, int]]) -> Iterator[_Options]:
    dims = tuple(dim for dim, _ in sizes)
    if slide.out is not None:
        mapping(slide.what, "out", slide.out, '{"height": "height_2"}', DimError)
    for key in slide.out or {}:
        dim_lists.find(f"out of {slide.what}", dims, key)
    strides, dilations = _each(slide, "stride", 1, dims), _each(slide, "dilation", 1, dims)
    for (dim, size), stride, dilation, padding in zip(
        sizes, strides, dilations, _each(slide, "padding", "VALID", dims), strict=True
    ):
        gap = _positive(slide.what, "dilation", dilation, dim)
        span = (_positive(slide.what, "window", size, dim) - 1) * gap + 1
        yield _Options(dim, span, _positive(slide.what, "stride", stride, dim), gap, padding)


def _each(slide: Slide, option: str, default: Any, dims: Dims) -> list[Any]:
    """Returns an option's value for each dim."""
    value = getattr(slide, option)
    if not isinstance(value, Mapping):
        return [value] * len(dims)
    given = {dim_lists.find(f"{option} of {slide.what}", dims, key): one for key, one in value.items()}
    return [given.get(position, default) for position in range(len(dims))]


def _positive(what: str, option: str, value: Any, dim: Dim) -> int:
    if not is_whole(value) or value < 1:
        raise DimError(f"{what} was given the {option} {shown(value)} along {dim}; it must be a positive integer.")
    return operator.index(value)


def _pads(what: str, one: _Options, size: int) -> Pair:
    """Returns how many positions stand before and behind a dim of this size."""
    padding = one.padding
    if isinstance(padding, str) and padding == "VALID":
        return 0, 0
    if isinstance(padding, str) and padding == "SAME":
        total = max(0, (-(-size // one.stride) - 1) * one.stride + one.span - size)
        return total // 2, total - total // 2
    if isinstance(padding, tuple | list) and len(padding) == 2 and all(isinstance(p, int) and p >= 0 for p in padding):
        return padding[0], padding[1]
    raise DimError(
        f'{what} was given the padding {shown(padding)} along {one.dim}; it must be "SAME", "VALID", or the '
        "number of positions before and after: (1, 1)."
    )


def _count(one: _Options, size: int, pads: Pair) -> int:
    """Returns how many windows fit into a dim of this size."""
    return (size + sum(pads) - one.span) // one.stride + 1


def _usual(what: str, one: _Options) -> int:
    """Returns the size of which a window makes this dim with nothing left over."""
    if one.padding == "SAME":
        return one.dim.size * one.stride
    return (one.dim.size - 1) * one.stride + one.span - sum(_pads(what, one, one.dim.size))


def _asked(slide: Slide, dim: Dim) -> Dim | str | None:
    """Returns the dim or the name that the caller gave for a result, if any."""
    return next((new for key, new in (slide.out or {}).items() if key in (dim, dim.name)), None)


def _called(slide: Slide, dim: Dim, size: int) -> Dim:
    asked = _asked(slide, dim)
    if asked is None and size == dim.size:
        return dim
    if asked is None:
        raise DimError(
            f"{slide.what} makes {size} positions of {dim}, and a dim has one size. Name the result: "
            f'out={{"{dim.name}": ml.Dim("{dim.name}_{size}", {size})}}.'
        )
    new = asked if isinstance(asked, Dim) else Dim(asked, size)
    dim_lists.agree(slide.what, [dim], [new])
    if new.size != size:
        raise DimError(f"{slide.what} was asked to make {new} of {dim}, but makes {size} positions of it.")
    return new
