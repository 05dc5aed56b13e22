"""The mark of each mesh axis, a colour with a pattern: it belongs to the axis's name as long as an Explorer is open.

    marks = Marks()
    marks.of(("data", "model"), [])                 {"data": 0, "model": 1}
    marks.of(("pod", "data", "model"), [])          {"data": 0, "model": 1, "pod": 2}      `data` was split
    marks.of(("pod", "shards", "model"), [])        {"pod": 2, "shards": 0, "model": 1}    `data` was renamed

Two axes never share a mark while one is free. Sets of axes that something is sent over have marks of their own as long
as there are any; an axis goes first, and all sets for which nothing is left have the mark `SEVERAL`. What has left the
board, by an undo say, comes back in its old mark, unless that was needed meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

# The marks of the palette (`render/palette.py`, js/src/colours.css), and that of sets for which none of them is left.
MARKS = 6
SEVERAL = MARKS


class Marks:
    """The marks of one Explorer: what was coloured once is remembered."""

    def __init__(self):
        self._known: dict[str, int] = {}
        self._axes: Sequence[str] = ()

    def of(self, axes: Sequence[str], sets: Iterable[str]) -> dict[str, int]:
        """Returns the number of the mark of each.

        Args:
            axes: the names of the mesh axes, in order.
            sets: sets of several of them, as "data+model".
        """
        self._known = inherited(self._known, self._axes, axes)
        # What is on the board already goes before what comes back to it.
        stayed = sorted(axes, key=lambda axis: axis not in self._axes)
        shown = marked(self._known, stayed, tuple(sets))
        self._axes = tuple(axes)
        self._known |= shown
        return shown


def inherited(known: Mapping[str, int], before: Sequence[str], axes: Sequence[str]) -> dict[str, int]:
    """Gives an axis that was never seen the mark of the one whose place it has taken: it was renamed."""
    pairs = zip(before, axes, strict=True) if len(before) == len(axes) else ()
    return {**known, **{new: known[old] for old, new in pairs if new not in known and old not in axes}}


def marked(known: Mapping[str, int], axes: Sequence[str], sets: Sequence[str]) -> dict[str, int]:
    """Returns the mark of each axis and set: the one that it is known by, if nothing before it has that."""
    shown: dict[str, int] = {}
    for axis in axes:
        if axis in known and known[axis] not in shown.values():
            shown[axis] = known[axis]
    for axis in axes:
        if axis not in shown:
            shown[axis] = _free(known, shown, {known[each] for each in sets if each in known})
    for each in sets:
        mark = known.get(each, SEVERAL)
        if mark == SEVERAL or mark in shown.values():
            mark = _free(known, shown, set())
        shown[each] = SEVERAL if mark in shown.values() else mark
    return shown


def _free(known: Mapping[str, int], shown: Mapping[str, int], sets: set[int]) -> int:
    """Returns the mark that is missed least: of nothing, else of what is not there, else of a set, else of few axes."""
    used, remembered = list(shown.values()), set(known.values())
    return min(range(MARKS), key=lambda mark: (used.count(mark), mark in sets, mark in remembered, mark))
