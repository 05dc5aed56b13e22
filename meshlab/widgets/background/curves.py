"""What a step costs over the sizes of a dim or of a mesh axis, worked out in the background for a slider.

    curves.begin(DIM, "batch")          begins; `tell` is called as points come
    curves.of(AXIS, "data").points      waits; (Point(1, …), Point(2, …), …)

Of a dim a point is of the plan on the board at another size, as in `ml.sweep`: nothing is traced, so that a Llama at
twenty sizes takes a second. Of a mesh axis each size is planned anew, as it is once it is taken. What was worked out is
kept, by the document that it is of.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...cost.workload.options import Options
from ...engine.errors import MeshlabError, closest, listed
from ...engine.programs.resize import check_sizes
from ...whatif.at_sizes import costs_at
from ...whatif.variations import splits_of, uneven
from .one_by_one import Background
from .quiet import QUIET

DIM, AXIS = "dim", "axis"
WORKING, DONE, CANCELLED = "working", "done", "cancelled"
# A dim is tried up to so many times its size, and down to such a part of it; a mesh axis up to so many times its size.
FURTHER, LONGER = 32, 8
# So many sizes of a dim are worked out at once, and so many curves are kept.
AT_ONCE, KEPT = 6, 12
# Of more sizes a slider is no longer one to choose from.
MANY = 24


@dataclasses.dataclass(frozen=True)
class Point:
    """A size, and what a step costs there.

    Attributes:
        size: of the dim or the mesh axis.
        seconds: of a step; None without a machine, or where a figure of it is missing.
        peak_bytes: of a device, with arguments donated; None without a machine.
        wire_bytes: that a device sends.
        argument_bytes: that a device stores of all arguments.
        refused: why the layout does not fit this size; nothing else is known then.
    """

    size: int
    seconds: float | None = None
    peak_bytes: int | None = None
    wire_bytes: int | None = None
    argument_bytes: int | None = None
    refused: str = ""


@dataclasses.dataclass(frozen=True, eq=False)
class Curve:
    """Costs over sizes, as far as they are worked out.

    Attributes:
        kind: "dim" or "axis".
        name: of the dim or the mesh axis.
        document: that it is of.
        present: the size that it has there.
        sizes: all that are tried, the least first.
        points: those that are worked out, by size.
        phase: "working", "done" or "cancelled".
        error: why there are no points.
        stop: the event that ends it.
    """

    kind: str
    name: str
    document: Any
    present: int
    sizes: tuple[int, ...] = ()
    points: tuple[Point, ...] = ()
    phase: str = WORKING
    error: str = ""
    stop: threading.Event = dataclasses.field(default_factory=threading.Event)


class Curves:
    """The curves of one Explorer.

    Args:
        present: gives the document on the board.
        plan: gives its plan.
        resized: gives the point of a mesh axis at a size, of the document on the board.
        lock: guards the Explorer.
        tell: called under the lock when a curve is further.
    """

    def __init__(
        self,
        present: Callable[[], Any],
        plan: Callable[[], Any],
        resized: Callable[[str, int], Point],
        lock: threading.RLock,
        tell: Callable[[], Any],
    ):
        self._present, self._plan, self._resized, self._lock, self._tell = present, plan, resized, lock, tell
        self._background = Background()
        self._last: Curve | None = None
        self._known: dict[tuple[str, str, Any], Curve] = {}

    @property
    def last(self) -> Curve | None:
        """The curve that was asked for last, while the document that it is of is on the board."""
        last = self._last
        return last if last is not None and last.document == self._present() else None

    def begin(self, kind: str, name: str) -> None:
        """Works a curve out in the background.

        Raises:
            MeshlabError: there is no such dim or mesh axis.
        """
        curve = self._begun(kind, name)
        if curve.phase == WORKING:
            self._background.follow(self, lambda: self._quietly(curve))

    def of(self, kind: str, name: str) -> Curve:
        """Returns a curve, and waits for it; one that was cancelled has the points that were there.

        Raises:
            MeshlabError: there is no such dim or mesh axis, or it cannot have other sizes.
        """
        curve = self._begun(kind, name)
        return self._work(curve) if curve.phase == WORKING else curve

    def cancel(self) -> bool:
        """Ends the present curve, and says whether there was one; the points that are there stay."""
        with self._lock:
            if self._last is None or self._last.phase != WORKING:
                return False
            self._last.stop.set()
            self._show(self._last, phase=CANCELLED)
            return True

    def forget(self) -> None:
        """Forgets everything, since a machine has changed."""
        with self._lock:
            self._known.clear()
            if self._last is not None:
                self._last.stop.set()
            self._last = None

    def _begun(self, kind: str, name: str) -> Curve:
        with self._lock:
            document, plan = self._present(), self._plan()
            there = plan.program.dims | plan.program.made_up if kind == DIM else plan.mesh.axes
            if name not in there:
                what = "dim" if kind == DIM else "mesh axis"
                near = closest(name, there) or f" There are {listed(there)}."
                raise MeshlabError(f"There is no {what} `{name}`.{near}")
            if self._last is not None:
                self._last.stop.set()
            curve = self._known.get((kind, name, document))
            if curve is None:
                curve = Curve(kind, name, document, there[name], _sizes(plan, kind, name, there[name]))
            self._last = curve
            self._tell()
            return curve

    def _work(self, curve: Curve) -> Curve:
        """Works a curve out, and returns it as it ended: cancelled as well where it is no longer that of the board."""
        try:
            for more in self._points(curve):
                if curve.stop.is_set() or self._present() != curve.document:
                    return self._show(curve, phase=CANCELLED)
                points = sorted((*curve.points, *more), key=lambda point: point.size)
                curve = self._show(curve, points=tuple(points))
                QUIET.wait()
        except Exception as error:  # shown beside the slider
            self._show(curve, phase=DONE, error=str(error))
            raise
        return self._show(curve, phase=DONE)

    def _quietly(self, curve: Curve) -> None:
        with contextlib.suppress(Exception):  # shown before it was raised
            self._work(curve)

    def _points(self, curve: Curve) -> Iterator[list[Point]]:
        """Yields points, those around the present size first."""
        here = curve.sizes.index(curve.present)
        near = [curve.sizes[i] for i in sorted(range(len(curve.sizes)), key=lambda i: abs(i - here))]
        if curve.kind == AXIS:
            yield from ([self._resized(curve.name, size)] for size in near)
            return
        plan = self._plan()
        check_sizes(plan.program, {curve.name: curve.present})
        for i in range(0, len(near), AT_ONCE):
            yield _dim_points(plan, curve.name, near[i : i + AT_ONCE], curve.document.options)

    def _show(self, curve: Curve, **changes: Any) -> Curve:
        """Changes a curve, unless it was cancelled, and returns it as it is then; shows it if it is the last one."""
        with self._lock:
            last = self._last
            if last is None or last.stop is not curve.stop:
                return dataclasses.replace(curve, **changes)
            if last.phase == WORKING:
                self._last = last = dataclasses.replace(last, **changes)
                if last.phase == DONE and not last.error:
                    self._known[curve.kind, curve.name, curve.document] = last
                    while len(self._known) > KEPT:
                        self._known.pop(next(iter(self._known)))
                self._tell()
            return last


def _sizes(plan: Any, kind: str, name: str, present: int) -> tuple[int, ...]:
    if kind == DIM:
        return sizes_around(present, FURTHER)
    on_it = (plan.program.dims[dim] for dim, split in splits_of(plan) if name in split)
    return sizes_around(present, LONGER, math.gcd(*on_it))


def sizes_around(present: int, most: int, whole: int = 0) -> tuple[int, ...]:
    """Returns the sizes to choose from: powers of two, what doubling and halving leads to, divisors, and itself.

    Args:
        present: the size that it has.
        most: how many times as long it can become.
        whole: a size whose divisors are among them, where these are few; 0 for none.
    """
    top, least = present * most, max(1, present // (4 * most))
    doubled = {present << i for i in range(most.bit_length())} | {1 << i for i in range(top.bit_length())}
    halved = {present >> i for i in range(present.bit_length()) if present % (1 << i) == 0}
    within = {size for size in doubled | halved | {present} if least <= size <= top}
    divisors = {part for part in range(1, min(top, whole) + 1) if whole % part == 0}
    return tuple(sorted(within | divisors if len(within | divisors) <= MANY else within))


def _dim_points(plan: Any, name: str, sizes: Sequence[int], options: Options) -> list[Point]:
    """The points of a plan at other sizes of a dim."""
    splits, dims, axes = splits_of(plan), plan.program.dims, plan.mesh.axes
    why = {size: uneven(splits, {**dims, name: size}, axes) for size in sizes}
    fine = [size for size in sizes if not why[size]]
    crossed = [Point(size, refused=why[size]) for size in sizes if why[size]]
    if not fine:
        return crossed
    costs = costs_at(plan, name, fine, options)
    return crossed + [
        Point(
            size,
            None if costs.seconds is None else float(costs.seconds[i]),
            None if costs.peak_bytes is None else round(costs.peak_bytes[i]),
            round(costs.wire_bytes[i]),
            round(costs.argument_bytes[i]),
        )
        for i, size in enumerate(fine)
    ]
