"""The rules of a layout as they apply to one program on one mesh, once `examine` has found nothing wrong with it.

rules.spec(("batch", "embed"))                      how a value with these dims is computed
rules.spec(("embed", "ffn"), "params/w1")           how it is stored, at a place with rules of its own
rules.within(operation.scope)                       the compute rules of an operation
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence

from ..axes.axis import InTime
from ..axes.stages import Stages
from ..code.operations import Scope
from ..programs.spread_names import Names
from ..specs.mesh import Mesh
from ..specs.scopes import matches
from ..specs.spec import Axes, AxesByDim, Grid, Padded, Spec


@dataclasses.dataclass(frozen=True)
class LegalRules:
    """The rules of a layout that is legal for one program and mesh; mesh axes of size 1 are left out.

    Attributes:
        compute: the compute rules, mesh axes by dim.
        storage: for each place with rules of its own, the storage rules, which replace the compute rules.
        padded: for sizes that the axes do not divide, what they are padded to, as of `Grid`; empty unless padding was
            asked for.
        scopes: the compute rules in each scope that has rules of its own, instead of `compute`.
        globs: the globs that these come of, with the rules of each, in order.
        in_time: the axes in time that split some dim; arguments and outputs are not stored split over them.
        fronts: for what is split over an axis in time the axes of devices in front of it, over whose shards blocks are
            cut; where rules differ the most of them.
        stages: the axes of stages that layers are on.
    """

    compute: AxesByDim
    storage: Mapping[str, AxesByDim]
    padded: Padded = dataclasses.field(default_factory=dict)
    scopes: Mapping[Scope, AxesByDim] = dataclasses.field(default_factory=dict)
    globs: tuple[tuple[str, AxesByDim], ...] = ()
    in_time: Mapping[str, InTime] = dataclasses.field(default_factory=dict)
    fronts: AxesByDim = dataclasses.field(default_factory=dict)
    stages: Mapping[str, Stages] = dataclasses.field(default_factory=dict)

    def grid(self, mesh: Mesh) -> Grid:
        uneven = {axis: stages.uneven for axis, stages in self.stages.items() if stages.uneven}
        return Grid(mesh.axes, self.padded, self.in_time, uneven)

    def glob(self, scope: Scope, dim: str) -> str:
        """Returns the glob whose rule for a dim counts in a scope; "" where none has one."""
        with_rule = (glob for glob, rules in reversed(self.globs) if dim in rules and matches(glob, scope))
        return next(with_rule, "")

    def within(self, scope: Scope) -> AxesByDim:
        return self.scopes.get(scope, self.compute) if self.scopes else self.compute

    def on(self, axis: str) -> dict[str, tuple[str, ...]]:
        """Returns the dims that an axis splits, each with the globs of scopes if it does so there alone."""
        dims: dict[str, tuple[str, ...]] = {dim: () for dim, axes in self.compute.items() if axis in axes}
        for dim in dict.fromkeys(dim for _, rules in self.globs for dim, axes in rules.items() if axis in axes):
            dims.setdefault(dim, tuple(glob for glob, rules in self.globs if axis in rules.get(dim, ())))
        return dims

    @property
    def every(self) -> tuple[AxesByDim, ...]:
        """The compute rules, those of scopes, and those of places."""
        different = {id(rules): rules for rules in (*self.scopes.values(), *self.storage.values())}
        return (self.compute, *different.values())

    def spec(self, names: tuple[str | None, ...], place: str | None = None) -> Spec:
        """How a value with these dim names is computed or, at a place, stored."""
        place_rules = self.storage.get(place, {}) if place else {}
        key = (names, id(place_rules) if place_rules else 0)
        known = self._specs.get(key)
        if known is None:
            rules = {**self.compute, **place_rules}
            known = self._specs[key] = Spec(_once_each(names, [rules.get(n, ()) if n else () for n in names]))
        return known

    @functools.cached_property
    def _specs(self) -> dict[tuple, Spec]:
        return {}


def _once_each(names: Names, splits: Sequence[Axes]) -> tuple[Axes, ...]:
    """Returns the mesh axes of a value's axes; what is no dim leaves those to others that split these as well."""
    every = [axis for axes in splits for axis in axes]
    if len(every) == len(set(every)):
        return tuple(splits)
    is_dim = [name is not None and name.isidentifier() for name in names]
    taken = {axis for axes, own in zip(splits, is_dim, strict=True) if own for axis in axes}
    left = []
    for axes, own in zip(splits, is_dim, strict=True):
        left.append(axes if own else tuple(itertools.takewhile(lambda axis: axis not in taken, axes)))
        taken.update(left[-1])
    return tuple(left)
