"""The last stage of a search: every single change of its answer is tried, also those that are outside of its space.

What is better is the answer, and is changed in turn, until no change is better. So no hint, preset or rule of a hand
beats an answer. A change is not planned where a bound says that it cannot be better by more than 0.5 %: its kernels,
divided as it says, or the clock in which the parameters that it stores otherwise are sent for nothing.

It takes at most a third of the plans that the search took, or `_FEWEST` where that is more: small models get all
changes tried, and of large ones the proof says which were not. Presets come first, then rules of larger places.
"""

from __future__ import annotations

import dataclasses

from ...engine.errors import LayoutError
from ...engine.legality.asked import as_asked
from ...engine.legality.examine import resolve
from ...engine.legality.legal_rules import LegalRules
from ...engine.programs.program import Program
from ...engine.programs.zigzagged import zigzags
from ...engine.specs.layout import Layout
from ..request.answer import Limits
from .changes import Preset, RuleChange, changes, handed_on, otherwise
from .contexts import elsewhere
from .extras import Dims
from .pricer import LayoutPrice, Pricer
from .search import ROUNDING, TIED, Search

# So many changes are planned in any case, and so large a share of what the search planned.
_FEWEST, _SHARE = 200, 1 / 3


@dataclasses.dataclass(frozen=True)
class Polished:
    """The outcome of polishing an answer.

    Attributes:
        bound: what the best layout, and each that is one change away from the answer, costs at least.
        tried: the number of single changes that were planned, or ruled out by a bound.
        left: the single changes that were not tried, legal or not, for the search was over before.
        made: the changes by which the answer was made of the best layout of the space, in words.
    """

    bound: float
    tried: int = 0
    left: tuple[RuleChange, ...] = ()
    made: tuple[str, ...] = ()


def polish(search: Search, limits: Limits, bound: float, share: float, most: int | None = None) -> Polished:
    """Tries all single changes of a search's answer, which gets better by it.

    Args:
        search: a search that has ended with an answer.
        limits: what ends it.
        bound: what every layout of its space costs at least.
        share: by which the answer may cost more than the best for its lesser peak, or fewer rules.
        most: how many changes are planned at most; by default as many as the search's plans allow for.
    """
    allowed = max(_FEWEST, int(search.pricer.plans * _SHARE)) if most is None else most
    return _Polish(search, limits, bound, allowed).run(share)


class _Polish:
    def __init__(self, search: Search, limits: Limits, bound: float, most: int):
        self.search, self.limits, self.bound = search, limits, bound
        self.program, self.mesh = search.space.program, search.pricer.mesh
        pinned = search.space.constraints.pinned
        self.pinned = {place for glob, _ in pinned.place_rules for place in self.program.matching(glob)}
        self.pinned |= {glob for glob, _ in pinned.scope_rules}
        self.kept = self._otherwise(search.space.constrained(Layout()) or Layout())
        kinds = (*search.space.parameters, *search.space.state)
        self.trained = {argument.place for argument in kinds}
        self.now: tuple = ()
        self.seen: set[tuple] = set()
        self.tried, self.left = 0, tuple[RuleChange, ...]()
        self.most = search.pricer.plans + most
        self.without: dict[tuple[Layout, Dims], float] = {}
        self.made: dict[Layout, tuple[str, ...]] = {}
        self.searches: dict[int, Search] = {}

    def run(self, share: float) -> Polished:
        answer, complete = self.search.tied(share)[0], False
        while not complete:
            if not self._go_through(answer, share):
                break
            before, answer = answer, self.search.tied(share)[0]
            complete = answer is before
        assert self.search.best is not None, "there is an answer"
        made = self.made.get(self.search.tied(share)[0].layout, ())
        return Polished(min(self.bound, self.search.cost(self.search.best)), self.tried, self.left, made)

    def _go_through(self, answer: LayoutPrice, share: float) -> bool:
        """Tries all changes of an answer, or of what is better by more than a share; whether there was time for all."""
        search, cost = self.search, self.search.cost
        rules = self._resolved(answer.layout)
        assert rules is not None, "it was planned"
        self.now = self._effect(answer.layout, rules)
        self.seen.add(self.now)
        single = changes(self.program, self.mesh, answer.layout)
        presets = elsewhere(search.space, self.mesh, answer.layout)
        every = sorted((*presets, *single), key=lambda each: isinstance(each, RuleChange))
        for number, change in enumerate(every):
            if search.is_over(self.limits.seconds) or search.pricer.plans >= self.most:
                self.left = tuple(each for each in every[number:] if isinstance(each, RuleChange))
                return False
            price = self._price(change, answer)
            if price is not None and self._is_better(price):
                self.made[price.layout] = (*self.made.get(answer.layout, ()), str(change))
                if self.limits.progress is not None:
                    self.limits.progress(search.found(self.bound))
                answer = price if cost(price) * (1 + share) < cost(answer) else answer
        return True

    def _is_better(self, price: LayoutPrice) -> bool:
        best = self.search.best
        assert best is not None, "there is an answer"
        return self.search.cost(price) < self.search.cost(best) * (1 - ROUNDING) and self.search.consider(price)

    def _price(self, change: RuleChange | Preset, answer: LayoutPrice) -> LayoutPrice | None:
        """Returns what a change makes of a layout; None where it is not legal, not asked for, known, or no better."""
        layout = self._allowed(change, answer.layout)
        rules = None if layout is None else self._resolved(layout)
        if layout is None or rules is None or otherwise(self.program, rules) - self.kept:
            return None
        key = self._effect(layout, rules)
        if key == self.now and (alike := self.search.pricer.price(layout)) is not None and alike.rules < answer.rules:
            # The same in fewer rules, which is preferred where costs are equal.
            self.search.consider(alike)
            self.made[layout] = self.made.get(answer.layout, ())
        if key in self.seen:
            return None
        self.seen.add(key)
        self.tried += 1
        least = self._least(change, layout, answer)
        if least >= self._enough():
            self.bound = min(self.bound, least)
            return None
        return self.search.pricer.price(layout)

    def _enough(self) -> float:
        """The cost from which on a layout is no better than the best, or better by no more than counts as a tie."""
        assert self.search.best is not None, "there is an answer"
        return self.search.cost(self.search.best) * (1 - min(self.limits.tolerance, TIED))

    def _least(self, change: RuleChange | Preset, layout: Layout, answer: LayoutPrice) -> float:
        """What a changed layout costs at least, by what is known without a plan of it."""
        search = self.search
        if isinstance(change, Preset) or not change.at:
            rules = {dim.removesuffix("?"): axes for dim, axes in layout.rules.items()}
            return 0.0 if layout.scope_rules else self._as_planned(layout).least(rules)
        places = set(self.program.matching(change.at))
        if search.broken or not places or not places <= self.trained:
            return 0.0
        dims = frozenset[str]().union(*(self.program.place_dims[place] for place in places))
        key = answer.layout, dims
        if key not in self.without:
            self.without[key] = search.without(answer, dims)
        return self.without[key]

    def _allowed(self, change: RuleChange | Preset, layout: Layout) -> Layout | None:
        """A changed layout; None where it breaks a constraint."""
        space = self.search.space
        if isinstance(change, Preset):
            return space.constrained(change.layout)
        if change.at in self.pinned or self.pinned & set(self.program.matching(change.at) if change.at else ()):
            return None
        changed = change.applied(layout)
        allowed = space.constrained(changed)
        return changed if allowed is not None and allowed.dim_rules == changed.dim_rules else None

    def _resolved(self, layout: Layout) -> LegalRules | None:
        if self.search.as_written and as_asked(self.program, self.mesh, layout) is not self.program:
            return None
        try:
            return resolve(self.program, self.mesh, layout)
        except LayoutError:
            return None

    def _effect(self, layout: Layout, rules: LegalRules) -> tuple:
        asked = as_asked(self.program, self.mesh, layout)
        return effect(self.program, rules), frozenset((scope, dim) for scope, dim, _ in zigzags(asked, layout))

    def _as_planned(self, layout: Layout) -> Search:
        """The search; or where a layout has attention as an operation, one that knows what that costs at least."""
        program = as_asked(self.search.pricer.program, self.mesh, layout)
        if program is self.program:
            return self.search
        if id(program) not in self.searches:
            pricer = Pricer(program, self.mesh, self.search.pricer.options)
            space = dataclasses.replace(self.search.space, program=program)
            other = type(self.search)(space, pricer, self.limits)
            unsplit = pricer.price(Layout())
            assert unsplit is not None, "a layout without rules is legal"
            other.amounts = other.divisible(unsplit, in_stages=True)
            self.searches[id(program)] = other
        return self.searches[id(program)]

    def _otherwise(self, layout: Layout) -> frozenset[str]:
        rules = self._resolved(layout)
        return frozenset() if rules is None else otherwise(self.program, rules)


def effect(program: Program, rules: LegalRules) -> tuple:
    """Returns what the rules of a layout come to: layouts of which that is equal have equal plans."""
    usual = {argument.place for argument in program.arguments} | handed_on(program).keys()
    stored = []
    for place in sorted(rules.storage):
        own, dims = {**rules.compute, **rules.storage[place]}, sorted(program.place_dims[place])
        # An argument without rules is stored as it is computed with.
        if place not in usual or any(own.get(dim, ()) != rules.compute.get(dim, ()) for dim in dims):
            stored.append((place, tuple((dim, own.get(dim, ())) for dim in dims)))
    scopes = sorted((scope, tuple(sorted(own.items()))) for scope, own in rules.scopes.items())
    return tuple(sorted(rules.compute.items())), tuple(stored), tuple(scopes)
