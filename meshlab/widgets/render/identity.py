"""Colour = which data, as on the board (js/src/identity.ts): the colour, pattern and letter of each slice of a tensor.

The colours are matplotlib's viridis (https://bids.github.io/colormap, CC0). A table that both are tested against
(`js/test/identities.json`) holds the two together.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

STOPS = ("#46307e", "#3b528b", "#2c718e", "#21908d", "#27ad81", "#5cc863", "#aadc32", "#fde725")
PATTERNS = 8


@dataclasses.dataclass(frozen=True)
class Identity:
    """How a slice is drawn.

    Attributes:
        fill: its colour, as #rrggbb.
        pattern: the number of its pattern; 0 is none.
        label: its letters; "" where the tensor is whole.
    """

    fill: str
    pattern: int
    label: str


def identity(parts: Sequence[int], slice_: int) -> Identity:
    """Returns how a slice is drawn.

    Args:
        parts: into how many parts each axis of the tensor is cut.
        slice_: the number of the slice, row-major over the parts.
    """
    indices, rest, slices = [], slice_, 1
    for count in reversed(parts):
        rest, index = divmod(rest, count)
        indices.insert(0, index)
        slices *= count
    cut = [axis for axis, count in enumerate(parts) if count > 1]
    patterned = cut[1] if len(cut) > 1 else -1
    number, count = 0, 1
    for axis in cut:
        many = -(-parts[axis] // PATTERNS) if axis == patterned else parts[axis]
        number = number * many + (indices[axis] // PATTERNS if axis == patterned else indices[axis])
        count *= many
    fill = STOPS[2] if count == 1 else ramp(number / (count - 1))
    return Identity(fill, indices[patterned] % PATTERNS if cut[1:] else 0, "" if slices == 1 else letters(slice_))


def ramp(share: float) -> str:
    """Returns the colour at a share of the ramp, from 0 to 1."""
    at = min(max(share, 0.0), 1.0) * (len(STOPS) - 1)
    first = min(int(at), len(STOPS) - 2)
    low, high = (channels(STOPS[first + step]) for step in (0, 1))
    mixed = (int(a + (b - a) * (at - first) + 0.5) for a, b in zip(low, high, strict=True))
    return "#" + "".join(f"{each:02x}" for each in mixed)


def channels(colour: str) -> tuple[int, int, int]:
    """Returns red, green and blue of #rrggbb, from 0 to 255."""
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return red, green, blue


def letters(number: int) -> str:
    """Returns a number as letters: A to Z, then AA, AB and so on."""
    last = chr(65 + number % 26)
    return last if number < 26 else letters(number // 26 - 1) + last
