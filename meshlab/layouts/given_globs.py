"""Says how each place is stored in few globs, exactly: no place gets other axes than those wanted.

    wanted = {"params/w1": {"embed": ("data",)}, "params/w2": {"embed": ("data",)}, "params/scale": {"embed": ()}}
    layout_of(program, wanted, computed={"batch": ("data",)})
                                        batch:data · params/*: embed:data · params/scale: embed:whole

Of each tree the glob of all its places comes first, with the axes that most of them want for each dim; then a glob for
each group of places that want something else, `params/*/scale` say, and the place itself where no glob serves. A glob
is taken only where one set of rules is right for all that it matches, whatever stands before it: the last one counts.
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..engine.programs.program import Program
from ..engine.specs.layout import DimRules, Layout
from ..engine.specs.spec import Axes

Stored = Mapping[str, Axes]
Wanted = Mapping[str, Stored]
Rules = dict[str, dict[str, Axes]]


def layout_of(program: Program, wanted: Wanted, computed: Stored) -> Layout:
    """Returns the layout under which dims are computed on given axes, and places are stored as wanted.

    Args:
        program: the program.
        wanted: for places the mesh axes of each of their dims; arguments that are not there are stored as computed,
            outputs as the arguments that they are the next values of, or as computed.
        computed: the mesh axes of dims where there is no rule for the place.
    """
    usual = {dim: computed.get(dim, ()) for dim in program.dims}
    places = [*(argument.place for argument in program.arguments), *program.outputs, *wanted]
    default = {place: wanted.get(source(program, place), usual) for place in places}
    rules: Rules = {}
    for root, below in _trees(dict.fromkeys(places)).items():
        there = {place: wanted.get(place) or _of(default[place], program.place_dims[place]) for place in below}
        rules |= _Tree(program, root, there, usual, default).rules()
    plain = {dim: axes for dim, axes in usual.items() if axes}
    return Layout(_sorted(plain), tuple((glob, _sorted(axes)) for glob, axes in rules.items()))


def _sorted(rules: Stored) -> DimRules:
    return tuple(sorted(rules.items()))


def _of(rules: Stored, dims: Iterable[str]) -> Stored:
    return {dim: rules.get(dim, ()) for dim in dims}


def _trees(places: Iterable[str]) -> dict[str, list[str]]:
    """Returns the places of each argument of the function, each of its outputs, and each tag."""
    trees: dict[str, list[str]] = {}
    for place in places:
        path = place.split("/")
        trees.setdefault("/".join(path[: 2 if path[0] == "out" else 1]), []).append(place)
    return trees


def source(program: Program, place: str) -> str:
    """Returns the argument whose rules an output has where it has none of its own; "" where it is not carried."""
    for carry in program.carries:
        if place == carry.place or place.startswith(f"{carry.place}/"):
            return carry.parameter + place[len(carry.place) :]
    return ""


@dataclasses.dataclass(frozen=True)
class _Tree:
    """The places below one root, and how each of them is to be stored.

    Attributes:
        program: the program.
        root: what all their paths begin with.
        wanted: the mesh axes that each place wants for its dims.
        computed: those that each dim is computed on.
        default: those that each place gets where it has no rule.
    """

    program: Program
    root: str
    wanted: Wanted
    computed: Stored
    default: Wanted

    def rules(self) -> Rules:
        """Returns the fewest rules that serve, of some ways to begin; none where every place has what it wants."""
        if self._right({}) == set(self.wanted):
            return {}
        common = self._most_wanted()
        ways = [self._after(first) for first in ({}, self._undisturbed(common), common)]
        return min(ways, key=lambda rules: (len(rules), sum(map(len, rules.values()))))

    def _after(self, common: Stored) -> Rules:
        """Returns common rules for all places, and behind them rules for those that want something else."""
        glob = exact(self.root) if list(self.wanted) == [self.root] else f"{exact(self.root)}/*"
        rules = {self._no_dim(glob): dict(common)} if common else {}
        right = self._right(common)
        for place in self.wanted:
            if place not in right:
                glob, shared = next(self._serving(place))
                other = {dim: axes for dim, axes in shared.items() if axes != self.computed[dim]}
                rules[self._no_dim(glob)] = other or {dim: axes for dim, axes in shared.items() if dim in common}
                right |= set(self.program.matching(glob))
        return rules

    def _right(self, common: Stored) -> set[str]:
        """Returns the places that have what they want under common rules."""
        rules = {**self.computed, **common}
        return {p for p, stored in self.wanted.items() if _agrees(stored, rules if common else self.default[p])}

    def _serving(self, place: str) -> Iterator[tuple[str, dict[str, Axes]]]:
        """Yields globs of a place and others that want their dims stored alike, with what all of them want."""
        for glob in globs(self.root, place):
            matched = self.program.matching(glob)
            if glob == exact(place) or (len(matched) > 1 and place in matched and self.wanted.keys() >= set(matched)):
                shared = agreed(self.wanted[each] for each in matched)
                if shared is not None:
                    yield glob, shared

    def _most_wanted(self) -> dict[str, Axes]:
        """Returns the axes that most places want for each dim, if it is not computed so; of most places first."""
        counts: dict[str, Counter[Axes]] = {}
        for stored in self.wanted.values():
            for dim, axes in stored.items():
                counts.setdefault(dim, Counter())[axes] += 1
        most = {d: max(count, key=lambda axes: (count[axes], axes == self.computed[d])) for d, count in counts.items()}
        by_count = sorted(most, key=lambda dim: -counts[dim][most[dim]])
        return {dim: most[dim] for dim in by_count if most[dim] != self.computed[dim]}

    def _undisturbed(self, common: Stored) -> dict[str, Axes]:
        """Returns those of some common rules that make more places right, and none wrong."""
        rules: dict[str, Axes] = {}
        for dim, axes in common.items():
            if self._right(rules) < self._right({**rules, dim: axes}):
                rules[dim] = axes
        return rules

    def _no_dim(self, glob: str) -> str:
        """Returns a glob that is not called like a dim, whose rule it would be in a dict: "batch*" for "batch"."""
        if glob not in self.program.dims:
            return glob
        places = self.program.matching(glob)
        tried = (f"{glob}*", *(f"{glob[:i]}?{glob[i + 1 :]}" for i in range(len(glob))), f"*{glob}")
        # Where all of these match another place too, the `?` behind a name that makes its rule optional.
        return next((each for each in tried if self.program.matching(each) == places), f"{glob}?")


def _agrees(wanted: Stored, rules: Stored) -> bool:
    return all(rules.get(dim, ()) == axes for dim, axes in wanted.items())


def agreed(stored: Iterable[Stored]) -> dict[str, Axes] | None:
    """Returns the axes of all dims that several values have, or None where two disagree about one."""
    shared: dict[str, Axes] = {}
    same = all(shared.setdefault(dim, axes) == axes for each in stored for dim, axes in each.items())
    return shared if same else None


def globs(root: str, place: str) -> Iterator[str]:
    """Yields globs that may match a place below a root, general ones first, the place itself last."""
    below = exact(place.removeprefix(root))
    parts: Sequence[str] = below.split("/")[1:]
    for depth in range(1, len(parts)):
        yield f"{exact(root)}/*/{'/'.join(parts[-depth:])}"
    yield exact(root) + re.sub(r"(?<=/)\d+(?=/|$)", "*", below)
    yield exact(place)


def exact(place: str) -> str:
    """Returns the glob of one place: a `?` where its name has a star."""
    return place.replace("*", "?")
