"""The answers of the searches: the fastest layout that fits, and the one with the least peak, each with its proof."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...cost.machines.units import bytes_text
from ...engine.errors import MeshlabError, first_of, listed
from ...engine.programs.axis_conflicts import exchangeable_dims
from ...engine.specs.layout import Layout
from ..request.answer import Answer, Asked, Found, Limits
from .changes import handed_on
from .contexts import tried_alone
from .fastest import Fastest
from .in_the_way import Obstacle, in_the_way
from .least_peak import LeastPeak
from .polish import Polished, polish
from .pricer import LayoutPrice, Pricer
from .search import TIED, Search
from .space import kinds_searched, search_space

# The share by which costs differ that are equal where the very best is asked for: rounding.
_EQUAL = 1e-9
BY_CLOCK, BY_PEAK, BY_BYTES = (f"branch and bound by {what}" for what in ("plan.time", "plan.memory", "bytes sent"))
# Seconds in which the least peak is looked for, and how far from it is near enough, to say by how much nothing fits.
_LOOK, _NEAR = 5.0, 0.05
# So many places are named at which no single change was tried.
_NAMED = 3


class NothingAllowed(MeshlabError):
    """The error of a search that has met no layout that keeps to its constraints.

    Attributes:
        in_the_way: the constraints without which a layout does, each tried alone.
    """

    def __init__(self, text: str, in_the_way: tuple[Obstacle, ...] = ()):
        super().__init__(text)
        self.in_the_way = in_the_way


class NothingFits(NothingAllowed):
    """The error of a search that has met no layout whose peak fits.

    Attributes:
        layout: the one with the least peak of those that were met.
        peak_bytes: that peak.
    """

    def __init__(self, text: str, layout: Layout, peak_bytes: int, in_the_way: tuple[Obstacle, ...] = ()):
        super().__init__(text, in_the_way)
        self.layout, self.peak_bytes = layout, peak_bytes


def search_of(asked: Asked, kind: Callable[..., Search] = Fastest) -> Search:
    """Returns a search that has not begun."""
    pricer = Pricer(asked.program, asked.mesh, asked.options)
    return kind(search_space(pricer, asked.constraints, asked.limits.watch), pricer, asked.limits)


def answer_of(asked: Asked, search: Search, found: Found, method: str = BY_CLOCK) -> Answer:
    """Returns the answer of a search that has ended: what single changes make of its best layout.

    Of layouts that are equally good it is the one with the least peak of memory; of these, with the fewest rules.
    """
    if search.best is None:
        _look_for_the_least_peak(asked, search)
    share, before = tie_share(asked.limits), search.pricer.plans
    polished = polish(search, asked.limits, found.bound, share)
    best = search.tied(share)[0]
    ties = [price for price in search.tied(TIED) if price is not best]
    return Answer(
        layout=best.layout,
        value=search.cost(best),
        bound=polished.bound,
        method=f"{method}{_as_trusted(search)}",
        layouts=search.space.count(),
        most_work=search.most_work,
        plans=found.plans + search.pricer.plans - before,
        ties=tuple(price.layout for price in ties),
        searched=_searched(search, polished),
        not_searched=_not_searched(search, polished),
        made=polished.made,
        search=search,
    )


def tie_share(limits: Limits) -> float:
    """Returns the share by which an answer may cost more than another and be taken for its fewer rules, or axes."""
    return TIED if limits.tolerance else _EQUAL


def _as_trusted(search: Search) -> str:
    """How bounds were taken where some did not hold, in words."""
    if not search.broken:
        return ""
    looser = f"were taken {1 - search.trust:.1%} lower" if search.trust else "no longer counted, except the safest"
    return f" (some bounds did not hold, and {looser})"


def _searched(search: Search, polished: Polished) -> str:
    space, extras = search.space, search.space.extras
    loop = extras.loop if extras.in_time else ""
    ways = f"{space.count():,} way{'' if space.count() == 1 else 's'} to compute with "
    stages = extras.stages if extras.layers else ""
    trains = bool(space.parameters)
    kinds = kinds_searched(len(space.axes), trains, extras.tags, extras.scopes, loop=loop, stages=stages)
    among = " and ".join(("presets", *(() if _hidden(search) else tried_alone(space))))
    changed = f"{polished.tried:,} single change{'' if polished.tried == 1 else 's'} of the answer, {among} among them"
    return f"{ways}{kinds}; {changed}"


def _hidden(search: Search) -> bool:
    """Whether attention is an operation for no layout that the search compares."""
    return search.as_written and not exchangeable_dims(search.space.program)


def _not_searched(search: Search, polished: Polished) -> str:
    space = search.space
    places = [f"at `{at}`" if at else "of compute rules" for at in dict.fromkeys(each.at for each in polished.left)]
    late = [f"up to {len(polished.left):,} single changes ({first_of(places, _NAMED)})"] if places else []
    scopes = "other scopes" if space.extras.scopes else "rules in scopes"
    several = [scopes, "two or more arrays each stored in its own way"] if space.parameters else [scopes]
    ends = ["outputs stored differently from the arguments that they become"] if handed_on(space.program) else []
    alone = " and ".join(tried_alone(space))
    rings = [alone + " beyond the presets and single changes of the answer" * (not _hidden(search))] if alone else []
    whole: dict[str, list[str]] = {}
    for dim, reason in space.left_out.items():
        whole.setdefault(reason, []).append(dim)
    dims = [f"{listed(some)} ({reason})" for reason, some in whole.items()]
    return "; ".join((*late, *several, *rings, *ends, *dims))


def _look_for_the_least_peak(asked: Asked, search: Search):
    """Takes the layout with the least peak for the answer, if it fits against all bounds; else says why not."""
    if asked.limits.most_bytes is None:
        raise _nothing_allowed(asked)
    limits = Limits(tolerance=_NEAR, seconds=_LOOK, watch=asked.limits.watch)
    smallest = LeastPeak(search.space, search.pricer, limits)
    *_, found = smallest.run()
    met = [price for price in (search.least_peak, smallest.best) if price is not None]
    if not met:
        raise _nothing_allowed(asked)
    least = min(met, key=lambda price: price.peak_bytes)
    if not search.consider(least):
        raise _nothing_fits(asked, least, min(found.bound, least.peak_bytes))
    search.broken.append(f"{least.layout}: fits, against the bounds of peaks")


def _nothing_allowed(asked: Asked) -> NothingAllowed:
    """Says that each layout that was met sends over an axis that must stay silent, and what is in the way."""
    silent, obstacles = sorted(asked.constraints.silent), in_the_way(asked)
    also = f" and sends nothing over {listed(silent)}" if silent else ""
    text = f"ml.auto.layout() found no layout that satisfies all pins{also}.{_tried(obstacles)}"
    return NothingAllowed(text, obstacles)


def _tried(obstacles: Sequence[Obstacle]) -> str:
    """What was found without a constraint, in words; nothing where that was not found."""
    return "".join(f" {str(each)[:1].upper()}{str(each)[1:]}." for each in obstacles)


def _nothing_fits(asked: Asked, least: LayoutPrice, bound: float) -> NothingFits:
    """Says by how much the least peak is too much, and when it is reached."""
    most, memory = asked.limits.most_bytes, least.memory
    assert most is not None, "what has no limit fits"
    step = max(memory.timeline, key=lambda point: point.bytes)
    where = f"`{step.step}`" + (f" ({step.source})" if step.source else "")
    none_less = f"; none has less than {bytes_text(bound)}" if bound else ""
    obstacles = in_the_way(asked)
    text = (
        f"ml.auto.layout() found no layout that fits {bytes_text(most)} of a device's memory. The least peak found is"
        f" {bytes_text(least.peak_bytes)}, {bytes_text(least.peak_bytes - most)} too much, at {where}, under"
        f" {str(least.layout) or 'no rules'!r}{none_less}.{_tried(obstacles)} Take more devices, or others; make the"
        " batch smaller, or rematerialise more; or allow more, as in memory=1.0."
    )
    return NothingFits(text, least.layout, least.peak_bytes, obstacles)
