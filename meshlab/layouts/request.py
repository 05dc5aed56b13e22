"""What a preset was asked for: the program, the mesh, and all that stands in the way, refused at once."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from ..engine.errors import LayoutError, MeshlabError, closest, listed, numbered, shown, some
from ..engine.legality.examine import resolve
from ..engine.legality.refusal import Refusal
from ..engine.programs.axis_conflicts import scanned_dims
from ..engine.programs.program import Program
from ..engine.specs.layout import Layout, LayoutLike, on_mesh
from ..engine.specs.mesh import Mesh
from ..engine.specs.spec import Axes
from ..engine.tensors.dims import Dim
from .axis_names import NAMES, called, unclaimed

_NONE = {False: "None of the mesh's axes", True: "None of its other axes"}

# What to do where a dialect names an axis in time, which its meshes have not got.
WITHOUT_TIME = "Leave it out, and combine the result with ml.layouts.accumulate(program, mesh)."


class Request:
    """Collects what a preset found out, and the problems that it met.

    Attributes:
        name: the preset's.
        program: the program.
        mesh: the mesh.
        beside: the layout that the preset's is combined with.
        problems: the reasons why there is no layout.
    """

    def __init__(self, name: str, program: Program, mesh: Mesh, beside: LayoutLike = None, *, first: str = ""):
        if not isinstance(program, Program) or not isinstance(mesh, Mesh):
            turned = f" The program comes {'second' if first else 'first'}." if isinstance(program, Mesh) else ""
            raise MeshlabError(
                f"{name}() was given {shown(program)} and {shown(mesh)}; write"
                f" ml.layouts.{name}({first}program, ml.mesh(data=8)), with a program from ml.trace.{turned}"
            )
        self.name, self.program, self.mesh, self.beside = name, program, mesh, Layout.of(beside)
        self.problems: list[Refusal] = []
        # What any dim may be on: only layers can be on stages.
        self.devices: Axes = tuple(axis for axis in mesh.devices.axes if axis not in mesh.stages)

    def refuse(self, code: str, text: str, fix: str):
        """Adds a problem."""
        self.problems.append(Refusal(code, text, fix))

    def axes(self, keyword: str, given: Any, purpose: str, taken: Axes = ()) -> Axes:
        """Returns the mesh axes for a keyword: those given, the only one, or the one that is called so.

        Args:
            keyword: of the preset.
            given: what its user gave for it.
            purpose: a key of `axis_names.NAMES`.
            taken: the axes that the preset has for another purpose.
        """
        names = self.devices
        if given is not None:
            axes = given.split("+") if isinstance(given, str) else given
            known = self.mesh.devices.axes
            if isinstance(axes, tuple | list) and axes and all(axes.count(a) == 1 and a in known for a in axes):
                return tuple(axes)
            text = f"{keyword}={shown(given)} names no axes of the mesh."
            self.refuse("unknown_axis", text, self._axes_text() + closest(given, names))
            return ()
        found = called(names, purpose, taken) or (names[0] if len(names) == 1 and not taken else None)
        if found:
            return (found,)
        text = f"{_NONE[bool(taken)]} is called {listed(NAMES[purpose][:4])}, so the choice is ambiguous."
        likely = next(iter(unclaimed(names, taken)), None)
        own = f"Choose one with {keyword}=, or give the mesh an axis for it: `{NAMES[purpose][0]}`."
        write = f' Write {keyword}="{likely}".' if likely else f" {own}"
        self.refuse("unknown_axis", text, self._axes_text() + (write if names else ""))
        return ()

    def _axes_text(self) -> str:
        if self.devices:
            return f"Its axes are {listed(self.devices)}."
        if self.mesh.stages:
            return f"Only layers can be on {listed(self.mesh.stages)}: write ml.mesh(data=2, {self.mesh.sources})."
        return "It has no axes: write ml.mesh(data=8)."

    def of_kind(self, keyword: str, given: Any, axes: Collection[str], noun: tuple[str, str], size: str) -> str | None:
        """Returns the mesh axis of a kind that is meant: the one given, or the only one; notes a problem for none.

        Args:
            keyword: of the preset.
            given: what its user gave for it.
            axes: the mesh's of that kind.
            noun: what one of them is called, and several.
            size: of one, as it is written, "ml.serial(8)".
        """
        known = tuple(axes)
        if given is None and len(known) == 1:
            return known[0]
        if given in known:
            return given
        one, several = noun
        its = f"Its {several} are {listed(known)}." if known else f"Add one: ml.mesh({self._with(keyword, size)})."
        text = f"The mesh has several {several}." if known else f"The mesh has no {one}."
        if given is not None:
            text = f"{keyword}={shown(given)} is not {_a(one)} of the mesh."
        self.refuse("unknown_axis", text, its + closest(given, known))
        return None

    def _with(self, name: str, size: str) -> str:
        """Writes the axes of the mesh with one of a name and size: one of devices that is called so becomes it."""
        there = self.mesh.axes.get(name)
        sizes = {axis: kind.source for axis, kind in self.mesh.kinds.items()}
        sizes[name] = re.sub(r"\d+", str(there), size) if there else size
        return ", ".join(f"{axis}={own}" for axis, own in sizes.items())

    def count(self, axes: Axes) -> int:
        """The number of parts that mesh axes split a dim into."""
        return math.prod(self.mesh.axes[axis] for axis in axes)

    def computed(self, dim: str) -> Axes:
        """The mesh axes on which the layout beside computes a dim."""
        rules = self.beside.rules
        return rules.get(dim, rules.get(f"{dim}?", ()))

    def names(self, keyword: str, given: Any) -> tuple[str, ...]:
        """Returns the dims that a keyword names: a text, a dim, or several."""
        several = given.split() if isinstance(given, str) else given if isinstance(given, tuple | list) else [given]
        names = tuple(dim.name if isinstance(dim, Dim) else dim for dim in several)
        for dim in several:
            if isinstance(dim, Dim) and self.program.dims.get(dim.name, dim.size) != dim.size:
                text = f"{keyword}={dim} has size {dim.size:,}; in this program it has {self.program.dims[dim.name]:,}."
                self.refuse("another_size", text, f'Name it "{dim.name}", or trace the program at that size.')
        known = [name for name in names if isinstance(name, str) and name in self.program.dims]
        wrong = [name for name in names if not any(name is each for each in known)] if names else [given]
        for name in wrong:
            text = f"{keyword}={shown(given)}: {shown(name)} is not a dim of this program."
            near = closest(name, self.program.dims).strip() or f"Its dims are {listed(self.program.dims)}."
            self.refuse("unknown_dim", text, near)
        return tuple(known)

    def fits(self, layout: LayoutLike) -> bool:
        return not self.refusals(layout)

    def goes_with(self, rules: Any) -> bool:
        """Says whether rules are legal together with the layout beside."""
        try:
            return self.fits(self.beside & rules)
        except LayoutError:  # a conflict
            return False

    def refusals(self, layout: LayoutLike) -> Sequence[Refusal]:
        try:
            resolve(self.program, self.mesh, layout)
        except LayoutError as error:
            return error.problems
        return ()

    def padded(self, rules: Any) -> str:
        """Returns a hint with the padded plan of rules, `, or pad: …`; "" where that is refused as well."""
        try:
            layout = self.beside & rules
            resolve(self.program, self.mesh, layout, True)
        except LayoutError:
            return ""
        return f", or pad: program.plan(mesh, {layout.to_dict()}, pad=True)"

    def candidates(self, dims: Iterable[str], axes: Axes) -> str:
        """Returns a text of dims with their sizes: those that may be on axes, and the reason why others may not."""
        fitting, others = [], []
        scans = scanned_dims(self.program)
        for dim in dict.fromkeys(dims):
            size = self.program.dims[dim]
            if self.fits({dim: axes}):
                fitting.append(f"`{dim}` ({size:,})")
            elif dim in scans:
                others.append(f"`{dim}` ({size:,}, scanned)")
            else:
                others.append(f"`{dim}` ({size:,})")
        on = "+".join(axes)
        text = f"Of its dims {', '.join(fitting)} may be on `{on}`" if fitting else f"None of its dims may be on `{on}`"
        return f"{text}; {', '.join(others)} may not." if others else f"{text}."

    def layout(self, rules: Any, candidates: str = "") -> Layout:
        """Returns the layout of rules, or refuses it with all problems listed."""
        layout = Layout() if self.problems else self.beside & rules
        problems = list(dict.fromkeys([*self.problems, *self.refusals(layout)]))
        if problems:
            count = f"{len(problems):,} problems" if len(problems) > 1 else "one problem"
            of = f"{self.name}() of `{getattr(self.program.fn, '__name__', 'fn')}` on the mesh {self.mesh}"
            text = f"{of} has {count}:\n{numbered(problems)}"
            uneven = not self.problems and all(problem.code == "not_divisible" for problem in problems)
            pad = f"\nTake other sizes{instead}." if uneven and (instead := self.padded(rules)) else ""
            raise LayoutError(text + pad + (f"\n{candidates}" if candidates else ""), tuple(problems))
        return on_mesh(layout, self.mesh)


def places_text(places: Sequence[str]) -> str:
    """Returns places for a message: of a tree its glob, and how many there are."""
    trees: dict[str, list[str]] = {}
    for place in places:
        trees.setdefault(place.split("/")[0], []).append(place)
    return some([f"{tree}/*" if leaves != [tree] else tree for tree, leaves in trees.items()])


def _a(noun: str) -> str:
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
