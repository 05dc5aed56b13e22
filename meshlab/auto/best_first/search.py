"""Branch and bound, best first: expand the open node with the lowest bound until no bound beats the incumbent.

A search begins with the recipes, so that there is a good incumbent at once. Then every point of what is computed is
open, with an admissible bound that needs no plan of it; a node that is expanded is pushed again with a sharper bound,
or is planned. The incumbent is the answer so far, and the lowest bound among open nodes says how far it can be from
the best.

Of each node two bounds are kept: the sharpest, and the surest, which follows from one plan for all points. Bounds are
checked against every plan. Where one is broken, the sharpest count only as far as twice that from then on, or not at
all where the very best is asked for, and pruned nodes are open again.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import math
import time
from collections.abc import Callable, Iterator

import numpy as np

from ...engine.gc_pause import paused
from ...engine.specs.layout import Layout
from ..request.answer import Found, Limits
from .bounds import Amounts, divided, least_under, memory_bounds
from .contexts import beginnings
from .extras import Dims, Extra, Rules
from .orders import reordered
from .points import Parts, Point, SearchSpace
from .pricer import LayoutPrice, Pricer
from .unopened import Unopened

# The share by which a bound may lie above what it bounds, for rounding.
ROUNDING = 1e-6
# Costs, and peaks, that differ by at most so much are told as equally good.
TIED = 0.005
# Sharpest bounds of which a smaller share counts are none.
_LEAST_TRUST = 0.5
# A search tells how far it is when there is a better answer, the gap is so much smaller, or so many more are planned.
_CLOSER, _PLANS = 0.01, 10


@dataclasses.dataclass(order=True)
class Node:
    """An open node: layouts that have what is computed in common.

    Attributes:
        bound: what they cost at least.
        number: of nodes with one bound the first to be pushed is expanded first.
        stage: what expanding it does.
        computed: the dims that each axis splits.
        extra: what it says besides.
        surest: the bound that needed no plan of parts of it.
        sharpest: the best bound known of it, if all bounds hold.
    """

    bound: float
    number: int
    stage: str = dataclasses.field(compare=False)
    computed: Parts = dataclasses.field(compare=False)
    extra: Extra = dataclasses.field(compare=False)
    surest: float = dataclasses.field(compare=False)
    sharpest: float = dataclasses.field(compare=False)


class Search:
    """One search; what it minimises, its bounds and its stages are its subclass's.

    Attributes:
        space: the space.
        pricer: what layouts cost.
        limits: what ends it.
        allows: says of a recipe whether it is in the space; None: what the space's constraints say.
        amounts: what every layout costs, before it is divided (`divisible`).
        bounds: the first bounds of all points of what is computed: an array with an axis for each mesh axis.
        alone: the same of what is in no stages, where there are some.
        peaks: the least peaks of the same points, where the peak is limited: those above the limit are not opened.
        best: the incumbent: the best layout so far.
        met: every layout that was priced as a possible answer.
        least_peak: the one with the least peak, of those whose peak was asked for.
        broken: the bounds that a plan has broken, in words.
        trust: the share of a sharpest bound that counts: 1 where none was broken.
    """

    # Whether costs of attention as an operation cannot be compared with those of the program as it is written.
    as_written = False

    def __init__(
        self, space: SearchSpace, pricer: Pricer, limits: Limits, allows: Callable[[Layout], bool] | None = None
    ):
        self.space, self.pricer, self.limits, self.allows = space, pricer, limits, allows
        self.amounts: Amounts = ()
        self.bounds = self.alone = self.peaks = np.zeros(0)
        self.best: LayoutPrice | None = None
        self.met: dict[Layout, LayoutPrice] = {}
        self.least_peak: LayoutPrice | None = None
        self.broken: list[str] = []
        self.trust = 1.0
        self._pruned: list[Node] = []
        self._open_nodes: list[Node] = []
        self._unopened = Unopened(self.bounds, self.bounds > 0)
        self._numbers = itertools.count()
        self._began = time.perf_counter()

    def cost(self, price: LayoutPrice) -> float:
        """What is minimised."""
        raise NotImplementedError

    def divisible(self, unsplit: LayoutPrice, in_stages: bool) -> Amounts:
        """What every layout costs, as amounts of which each is divided by the axes that split one of its dims.

        Args:
            unsplit: what the plan costs that splits nothing.
            in_stages: whether stages may share it, where there are some.
        """
        raise NotImplementedError

    def promise(self, unsplit: LayoutPrice) -> np.ndarray | None:
        """Returns what each point may cost, where it pays to look ahead; of the shape of `bounds`.

        Args:
            unsplit: what the plan costs that splits nothing.
        """
        return None

    def excluded(self) -> np.ndarray:
        """The points of what is computed that cannot be an answer: of the shape of `bounds`."""
        most = self.limits.most_bytes
        return self.peaks > (math.inf if most is None else most)

    def least(self, rules: Rules) -> float:
        """What a layout costs at least under some compute rules, which no point of the space may have."""
        return least_under(self.space, self.amounts, rules)

    def without(self, price: LayoutPrice, dims: Dims) -> float:
        """What a layout costs at least, however parameters of these dims are stored; 0 where that is not known."""
        return 0.0

    def branch(self, computed: Parts):
        """Pushes the nodes of a point of what is computed."""
        raise NotImplementedError

    def expand(self, node: Node):
        """Expands a node: bounds it more sharply, or plans layouts of it."""
        raise NotImplementedError

    @property
    def most_work(self) -> float | None:
        """The most multiply-adds that a device may do; None: any."""
        return None

    @property
    def limit(self) -> float:
        """The cost below which answers are looked for."""
        best = math.inf if self.best is None else self.cost(self.best)
        return min(best, self.limits.to_beat) * (1 - self.limits.tolerance)

    def run(self) -> Iterator[Found]:
        """Searches; yields the answer so far whenever it is better or the search is further, and at the end."""
        yield from paused(itertools.chain(self.begin(), self.proceed()))

    def begin(self) -> Iterator[Found]:
        """Prices the recipes, the best one with its axes in other orders too."""
        for layout in beginnings(self.space, self.pricer.mesh, self.as_written):
            self.limits.watch.check()
            if self.allows is not None and not self.allows(layout):
                continue
            if self.consider(self.pricer.price(layout)):
                yield self.found(0.0)
            if self.best is not None and self.limits.watch.is_enough:
                break
        self._reorder()

    def proceed(self) -> Iterator[Found]:
        unsplit = self.pricer.price(Layout())
        assert unsplit is not None, "a layout without rules is legal"
        self.amounts, most = self.divisible(unsplit, in_stages=True), self.limits.most_bytes
        self.bounds = divided(self.space, self.amounts)
        self.alone = divided(self.space, self.divisible(unsplit, in_stages=False))
        self.peaks = np.zeros_like(self.bounds) if most is None else memory_bounds(self.space, unsplit)
        self._unopened = Unopened(self.bounds, self.excluded(), self.promise(unsplit))
        least, reported, plans = 0.0, 0.0, self.pricer.plans
        # Of an unopened point only its first bound is known, of a node a sharper one. The least of all is what any
        # layout costs: when it reaches the incumbent, the search is over.
        for turn in itertools.count():
            before = self.best
            coming = self._unopened.bound
            first = self._open_nodes[0].bound if self._open_nodes else math.inf
            least = min(coming, first)
            if least >= self.limit or math.isinf(least) or self.is_over(self.limits.seconds):
                break
            if turn % 2 and self._unopened.promised < self.limit:
                # Points of low bounds need not be good ones. Every other turn goes to what looks best: the sooner the
                # incumbent is good, the more is pruned.
                self._look_ahead()
            elif coming <= first:
                self._open(self._unopened.pop())
            else:
                self.expand(heapq.heappop(self._open_nodes))
            closer = self.best is not None and least - reported >= _CLOSER * self.cost(self.best)
            if self.best is not before or closer or self.pricer.plans - plans >= _PLANS:
                reported, plans = least, self.pricer.plans
                yield self.found(least)
        self._reorder()
        yield self.found(least)

    def _reorder(self):
        """Prices the best layout with the axes of its dims in other orders, as far as its constraints allow."""
        for layout in reordered(self.best.layout, tuple(self.space.axes)) if self.best else ():
            self.limits.watch.check()
            if self.limits.watch.is_enough:
                return
            allowed = self.space.constrained(layout)
            if allowed == layout and (self.allows is None or self.allows(layout)):
                self.consider(self.pricer.price(layout))

    def bound_of(self, decides: Callable[[Layout], bool]) -> float:
        """Returns what every layout costs at least of which some decision holds, as far as the search has come."""
        left = (
            node.bound
            for node in (*self._pruned, *self._open_nodes)
            if decides(self.space.layout(Point(node.computed, extra=node.extra)))
        )
        return min((self._unopened.bound, *left))

    def found(self, waiting: float) -> Found:
        """The incumbent, where no open node can cost less than `waiting`."""
        left = min((node.bound for node in self._pruned), default=math.inf)
        best = self.best
        value = math.inf if best is None else self.cost(best)
        seconds = time.perf_counter() - self._began
        return Found(best.plan if best else None, value, min(waiting, left, value), self.pricer.plans, seconds)

    def consider(self, price: LayoutPrice | None) -> bool:
        """Takes a layout for the answer if it is better and fits; returns whether it is."""
        if price is None or not self.is_allowed(price):
            return False
        self.met[price.layout] = price
        if self.best is not None and self.cost(price) >= self.cost(self.best):
            return False
        if not self.fits(price):
            return False
        self.best = price
        return True

    def is_allowed(self, price: LayoutPrice) -> bool:
        """Whether a layout sends nothing over the axes that must stay silent; what it splits has been looked at."""
        silent = self.space.constraints.silent
        return not silent or silent.isdisjoint(price.axes_sent_over)

    def fits(self, price: LayoutPrice) -> bool:
        """Whether a layout's peak is at most what it may be."""
        if self.limits.most_bytes is None:
            return True
        if self.least_peak is None or price.peak_bytes < self.least_peak.peak_bytes:
            self.least_peak = price
        return price.peak_bytes <= self.limits.most_bytes

    def tied(self, share: float) -> list[LayoutPrice]:
        """Returns the layouts met that cost at most so much more than the best and fit, the preferred one first.

        That is the one with the least peak of memory and, where peaks differ by less than `TIED`, the fewest rules.

        Args:
            share: of the best one's cost.
        """
        if self.best is None:
            return []
        most = self.cost(self.best) * (1 + share)
        close = [price for price in self.met.values() if self.cost(price) <= most and self.fits(price)]
        least = min(price.peak_bytes for price in close) * (1 + TIED)
        return sorted(
            close, key=lambda p: (p.peak_bytes if p.peak_bytes > least else 0, p.rules, self.cost(p), str(p.layout))
        )

    def push(self, bound: float, stage: str, computed: Parts, extra: Extra, surest: float):
        """Pushes a node, or prunes it where it cannot beat the incumbent."""
        known = max(surest, bound * self.trust)
        self._push(Node(known, next(self._numbers), stage, computed, extra, surest, bound))

    def _push(self, node: Node):
        if node.bound >= self.limit:
            self.prune(node)
        else:
            heapq.heappush(self._open_nodes, node)

    def prune(self, node: Node):
        """Keeps a node that cannot beat the incumbent out of the open ones."""
        self._pruned.append(node)

    def check_bound(self, node: Node, cost: float, price: LayoutPrice):
        if node.bound > cost * (1 + ROUNDING):
            self._distrust(price, node.sharpest, cost)

    def check_peak_bound(self, computed: Parts, price: LayoutPrice):
        bound = float(self.peaks[self.space.place(computed)])
        if bound > price.peak_bytes * (1 + ROUNDING):
            self._distrust(price, bound, price.peak_bytes)
            self.peaks *= self.trust
            self._unopened.keep_out(self.excluded())

    def _distrust(self, price: LayoutPrice, bound: float, cost: float):
        """Trusts the sharpest bounds less, and opens all pruned nodes again."""
        self.broken.append(f"{price.layout}: bounded by {bound:.7g}, but {cost:.7g}")
        # One plan shows how far off its own bound was, not how far others are: twice that leaves room for worse.
        loose = 1 - 2 * (1 - cost / bound)
        self.trust = min(self.trust, loose) if self.limits.tolerance and loose > _LEAST_TRUST else 0.0
        everything, self._pruned, self._open_nodes = [*self._pruned, *self._open_nodes], [], []
        for node in everything:
            self._push(dataclasses.replace(node, bound=max(node.surest, node.sharpest * self.trust)))

    def beside(self, node: Node, enough: float = 0.0) -> float:
        """Returns the bytes at the peak of a point beside its arguments, however it is stored.

        They are those of it stored in the smallest parts or, where they are fewer, as it is computed with, which
        gathers nothing, or in another order of axes: all ways to store it are taken to lie between these.

        Args:
            node: of the point.
            enough: where it is met, that is enough: no others are priced.
        """
        least = math.inf
        for stored in self.space.extremes(node.computed, node.extra.layers):
            point = Point(node.computed, stored, node.extra)
            if least > enough and (price := self.pricer.price(self.space.layout(point))) is not None:
                least = min(least, price.peak_bytes - self.space.argument_bytes(point))
        return least

    def _open(self, index: tuple[int, ...]) -> Parts | None:
        """Opens a point; returns what it splits, None where that does not divide."""
        computed = tuple(sets[i] for sets, i in zip(self.space.sets, index, strict=True))
        if not self.space.divides(self.space.rules(computed)):
            return None
        self.branch(computed)
        return computed

    def first_bound(self, computed: Parts, in_stages: bool) -> float:
        """Returns what a point costs at least, in a pipeline or not."""
        return float((self.bounds if in_stages else self.alone)[self.space.place(computed)])

    def _look_ahead(self):
        """Opens the point that promises most, and plans it; where it is the best so far, in all ways to store it."""
        computed = self._open(self._unopened.pop(promising=True))
        if computed is None:
            return
        smallest, *others = [Point(computed, stored) for stored in self.space.storages(computed)]
        if self.consider(self.pricer.price(self.space.layout(smallest))):
            for point in others:
                self.consider(self.pricer.price(self.space.layout(point)))

    def is_over(self, seconds: float | None) -> bool:
        """Whether so many seconds have gone, or the best so far is enough; raises `Cancelled` where it was."""
        self.limits.watch.check()
        if self.limits.watch.is_enough:
            return True
        return seconds is not None and time.perf_counter() - self._began > seconds
