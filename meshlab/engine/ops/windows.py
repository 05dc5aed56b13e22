"""Windows that slide along dims: how large, how far they step, and what size comes out.

Convolutions and pooling ask the same of each dim that a window slides along. `Slide` is what the caller said, and
`windows` answers with one `Window` for each dim:

    >>> from meshlab.engine.tensors.dims import Dim
    >>> slide = Slide("max_pool", stride=2, out={"height": "height_2"})
    >>> found = windows(slide, [(Dim("height", 8), 2)])
    >>> str(found[0].out), found[0].padding
    ('height_2=4', (0, 0))

What is said of a window is said for all dims at once (`stride=2`), or for each (`stride={Height: 2}`; a dim that is
left out has a stride and a dilation of 1, and no padding). A dim whose size does not change keeps its name; where the
size changes, the caller names the dim of the result, since a name has one size in a program.
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
    """How windows slide.

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
    """What slides along one dim.

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


class _Told(NamedTuple):
    """What was said of the window along one dim."""

    dim: Dim
    span: int
    stride: int
    dilation: int
    padding: Any


def windows(slide: Slide, sizes: Sequence[tuple[Dim, int]]) -> tuple[Window, ...]:
    """Returns the window along each dim, and what comes out.

    Args:
        slide: how they slide.
        sizes: the dims, each with the size of its window.

    Raises:
        DimError: an option that cannot be, or a result without a name or of another size than asked for.
    """
    made = []
    for told in _told(slide, sizes):
        pads = _pads(slide.what, told, told.dim.size)
        if told.dim.size + sum(pads) < told.span:
            raise DimError(
                f"{slide.what} was asked to slide a window over {told.span} positions of {told.dim}, padded by {pads}: "
                'it does not fit. Use a smaller window or padding="SAME".'
            )
        out = _called(slide, told.dim, _count(told, told.dim.size, pads))
        made.append(Window(told.dim, out, told.span, told.stride, told.dilation, pads))
    return tuple(made)


def windows_back(slide: Slide, sizes: Sequence[tuple[Dim, int]]) -> tuple[Window, ...]:
    """Returns the windows that make these dims of those in `slide.out`, seen from these.

    A stride of 2 makes 8 positions of 16 as well as of 15, so the size of what they come from is that of the dim in
    `out`; for a name alone, it is the size that leaves nothing over.

    Args:
        slide: how windows slide along `out`.
        sizes: the dims, each with the size of its window.

    Raises:
        DimError: an option that cannot be, or windows along `out` that do not make these dims.
    """
    made = []
    for told in _told(slide, sizes):
        usual, asked = _usual(slide.what, told), _asked(slide, told.dim)
        size = asked.size if isinstance(asked, Dim) else usual
        pads = _pads(slide.what, told, size)
        count = max(0, _count(told, size, pads))
        if count != told.dim.size:
            raise DimError(
                f"{slide.what} was asked to make {asked} of {told.dim}, but of {asked} a window over {told.span} "
                f"positions with a stride of {told.stride} makes {count}, not {told.dim.size}. "
                f"It makes {told.dim.size} of {usual}."
            )
        made.append(Window(told.dim, _called(slide, told.dim, size), told.span, told.stride, told.dilation, pads))
    return tuple(made)


def become(dims: Dims, slid: Sequence[Window]) -> Dims:
    """Returns the dims with what the windows make of them."""
    made = {window.dim: window.out for window in slid}
    return tuple(made.get(dim, dim) for dim in dims)


def _told(slide: Slide, sizes: Sequence[tuple[Dim, int]]) -> Iterator[_Told]:
    """Yields what was said for each dim."""
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
        yield _Told(dim, span, _positive(slide.what, "stride", stride, dim), gap, padding)


def _each(slide: Slide, option: str, default: Any, dims: Dims) -> list[Any]:
    """Returns an option's value for each dim."""
    value = getattr(slide, option)
    if not isinstance(value, Mapping):
        return [value] * len(dims)
    given = {dim_lists.find(f"{option} of {slide.what}", dims, key): one for key, one in value.items()}
    return [given.get(position, default) for position in range(len(dims))]


def _positive(what: str, option: str, value: Any, dim: Dim) -> int:
    """Returns an integer that is at least 1."""
    if not is_whole(value) or value < 1:
        raise DimError(f"{what} was given the {option} {shown(value)} along {dim}; it is an integer of at least 1.")
    return operator.index(value)


def _pads(what: str, told: _Told, size: int) -> Pair:
    """Returns how many positions stand before and behind a dim of this size."""
    padding = told.padding
    if isinstance(padding, str) and padding == "VALID":
        return 0, 0
    if isinstance(padding, str) and padding == "SAME":
        total = max(0, (-(-size // told.stride) - 1) * told.stride + told.span - size)
        return total // 2, total - total // 2
    if isinstance(padding, tuple | list) and len(padding) == 2 and all(isinstance(p, int) and p >= 0 for p in padding):
        return padding[0], padding[1]
    raise DimError(
        f'{what} was given the padding {shown(padding)} along {told.dim}; it is "SAME", "VALID", or how many positions '
        "stand before and behind: (1, 1)."
    )


def _count(told: _Told, size: int, pads: Pair) -> int:
    """Returns how many windows fit into a dim of this size."""
    return (size + sum(pads) - told.span) // told.stride + 1


def _usual(what: str, told: _Told) -> int:
    """Returns the size of which a window makes this dim with nothing left over."""
    if told.padding == "SAME":
        return told.dim.size * told.stride
    return (told.dim.size - 1) * told.stride + told.span - sum(_pads(what, told, told.dim.size))


def _asked(slide: Slide, dim: Dim) -> Dim | str | None:
    """Returns what a dim is to become, where that is said."""
    return next((new for key, new in (slide.out or {}).items() if key in (dim, dim.name)), None)


def _called(slide: Slide, dim: Dim, size: int) -> Dim:
    """Returns the dim of the result."""
    asked = _asked(slide, dim)
    if asked is None and size == dim.size:
        return dim
    if asked is None:
        raise DimError(
            f"{slide.what} makes {size} positions of {dim}, and a name has one size. Name what it becomes: "
            f'out={{"{dim.name}": ml.Dim("{dim.name}_{size}", {size})}}.'
        )
    made = asked if isinstance(asked, Dim) else Dim(asked, size)
    dim_lists.agree(slide.what, [dim], [made])
    if made.size != size:
        raise DimError(f"{slide.what} was asked to make {made} of {dim}, but makes {size} positions of it.")
    return made
