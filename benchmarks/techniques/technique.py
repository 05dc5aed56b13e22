"""A technique of the literature as data: what it is here, and what it sends, as formulas over sizes.

    technique.plan()                        its layout on its step of training, at small sizes
    technique.sent(plan)                    what its formulas say of each kind of collective: times and bytes
    found(plan)                             what the plan has of each

Formulas are Python over the sizes of dims (`batch`, `embed`), the mesh axes (`data`, `model`; serial ones as well), `n`
for all devices, `chunks` for the chunks of a stage, and what the step defines besides (`P`, its parameters). They are
shown as they are evaluated, and the layout likewise: what stands on the page is what runs.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import meshlab as ml
from meshlab.models.parts.sizes import Sizes
from meshlab.models.zoo import Model

# Of a ring of n devices: bytes that one of them sends for each byte of its operand.
RING: dict[str, Callable[[int], float]] = {
    "all-reduce": lambda n: 2 * (n - 1) / n,
    "reduce-scatter": lambda n: (n - 1) / n,
    "all-to-all": lambda n: (n - 1) / n,
    "all-gather": lambda n: n - 1,
    "collective-permute": lambda n: 1,
}
# Times and bytes of the operands on a device, by kind and mesh axes.
Sent = dict[tuple[str, tuple[str, ...]], tuple[int, int]]


@dataclasses.dataclass(frozen=True, eq=False)
class Step:
    """A step of training, of any sizes.

    Attributes:
        name: what the page calls it.
        model: makes it of sizes.
        sizes: "small" ones, which are compiled and run, "middle" ones, which are compiled for accelerators, and "large"
            ones, those of the page, which are planned.
        defined: what formulas call by a name, as formulas over sizes and what was defined before.
    """

    name: str
    model: Callable[[Any], Model]
    sizes: Mapping[str, Sizes]
    defined: Mapping[str, str]

    def program(self, size: str = "small") -> ml.Program:
        """Traces the step."""
        return _program(self.model, self.sizes[size])

    def names(self, mesh: ml.Mesh, size: str = "small") -> dict[str, int]:
        """Returns what the names of formulas stand for."""
        sizes = dataclasses.asdict(self.sizes[size])  # pyright: ignore[reportArgumentType]
        names = sizes | dict(mesh.axes) | {"n": mesh.size}
        for stages in mesh.stages.values():
            names["chunks"] = stages.chunk_count
        for name, formula in self.defined.items():
            names[name] = evaluated(formula, names)
        return names


@functools.cache
def _program(model: Callable[[Any], Model], sizes: Sizes) -> ml.Program:
    return model(sizes).trace()


def evaluated(formula: str, names: Mapping[str, Any]) -> Any:
    """Returns the value of a formula; it may use `min` and `ceil`."""
    return eval(formula, {"__builtins__": {}, "min": min, "ceil": math.ceil}, dict(names))


def _factor(formula: str) -> str:
    """Returns a formula as a factor: a sum in brackets."""
    return f"({formula})" if {"+", "-"} & set(formula) else formula


@dataclasses.dataclass(frozen=True)
class Term:
    """Collectives of one kind that a technique sends for one reason.

    Attributes:
        what: is sent.
        kind: of the collectives.
        axes: the mesh axes, "data" or "data+model".
        times: a formula of how many there are in a step.
        each: a formula of the bytes of each one's operand on a device, where they are alike.
        bytes: a formula of the bytes of all operands together, where they are not.
        beside: whether the closed formula leaves it out: a loss, scales of norms.
    """

    what: str
    kind: str
    axes: str
    times: str
    each: str = ""
    bytes: str = ""
    beside: bool = False

    @property
    def total(self) -> str:
        """The formula of the bytes of all operands together."""
        return self.bytes or (self.each if self.times == "1" else f"{_factor(self.times)} * {_factor(self.each)}")


def loss(axes: str = "data") -> Term:
    """Returns the term of a loss, the mean over a batch that is split."""
    return Term("loss", "all-reduce", axes, "1", each="4", beside=True)


@dataclasses.dataclass(frozen=True)
class Technique:
    """A row of the table.

    Attributes:
        name: of the technique, or of the system that has it.
        step: what is trained.
        mesh: eight devices.
        written: the layout, as Python over `program` and `mesh`.
        sources: where it was published, and where its code is.
        there: what it takes in the system that it comes from.
        here: what it takes here.
        terms: what it sends.
        law: the closed formula of the bytes that one device of a ring sends, for all terms but those beside.
        remark: what differs from the paper, and why.
        bubble: of a pipeline, the paper's formula of a stage's waiting over its working time.
        lockstep: the same in lockstep, where a backward cell takes as long as two forward cells.
    """

    name: str
    step: Step
    mesh: ml.Mesh
    written: str
    sources: tuple[str, ...]
    there: str
    here: str
    terms: tuple[Term, ...]
    law: str
    remark: str = ""
    bubble: str = ""
    lockstep: str = ""

    def plan(self, size: str = "small", mesh: ml.Mesh | None = None) -> ml.Plan:
        """Plans the step under the layout.

        Args:
            size: one of the step's.
            mesh: another than the row's, of the same axes.
        """
        return self.planned(self.step.program(size), mesh)

    def planned(self, program: ml.Program, mesh: ml.Mesh | None = None) -> ml.Plan:
        """Plans the row's step, traced at any size or width, under its layout."""
        on = mesh or self.mesh
        layout = eval(self.written, {"ml": ml, "program": program, "mesh": on})
        return program.plan(on, layout)

    def sent(self, size: str = "small", mesh: ml.Mesh | None = None) -> Sent:
        """Returns what the formulas say."""
        on = mesh or self.mesh
        names, sums = self.step.names(on, size), {}
        for term in self.terms:
            key = term.kind, tuple(axis for axis in on.axes if axis in term.axes.split("+"))
            times, count = sums.get(key, (0, 0))
            sums[key] = times + evaluated(term.times, names), count + evaluated(term.total, names)
        return sums

    def ring_bytes(self, size: str = "small", mesh: ml.Mesh | None = None) -> tuple[float, float]:
        """Returns the bytes that a device sends, by the terms that papers count, and by the closed formula."""
        return self._ring_bytes(size, mesh, False), evaluated(self.law, self.step.names(mesh or self.mesh, size))

    def wire_bytes_beside(self, size: str = "small", mesh: ml.Mesh | None = None) -> float:
        """Returns the bytes that a device sends besides, by terms that papers leave out."""
        return self._ring_bytes(size, mesh, True)

    def _ring_bytes(self, size: str, mesh: ml.Mesh | None, beside: bool) -> float:
        on = mesh or self.mesh
        names = self.step.names(on, size)
        return sum(
            evaluated(term.total, names) * RING[term.kind](math.prod(on.axes[axis] for axis in term.axes.split("+")))
            for term in self.terms
            if term.beside == beside
        )


def found(plan: ml.Plan) -> Sent:
    """Returns what a plan sends: times and bytes by kind and mesh axes."""
    sums: Sent = {}
    for c in plan.collectives:
        key = c.kind, tuple(axis for axis in plan.mesh.axes if axis in c.axes)
        times, count = sums.get(key, (0, 0))
        sums[key] = times + c.times, count + c.times * c.payload_bytes
    return sums
