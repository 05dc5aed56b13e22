"""The names in a layout, held against a program and a mesh: what they mean there, and which of them do not exist.

    {"batch": "data", "params/*": {"embed": "data"}, "@core": {"seq": None}}

Every dim, mesh axis, place and scope must exist. A dim, place or scope whose name ends in `?` may be missing, and its
rule is left out; in a glob `?` stands for one character first. What is wrong comes back as `Refusal`s, all at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ..errors import closest, listed, some
from ..programs.program import Program
from ..programs.rename import made_up
from ..programs.scoped import scopes
from ..specs.layout import Layout
from ..specs.mesh import Mesh
from ..specs.scopes import matches, path
from ..specs.spec import Axes, AxesByDim
from .refusal import Refusal
from .unrolled import REMEDY, unrolled

_OPENS_NONE = 'The function opens no scopes. Open one with jax.named_scope("core"): …; Flax modules open their own.'


def named_rules(program: Program, mesh: Mesh, layout: Layout) -> tuple[dict[str, Axes], list[Refusal]]:
    """Returns the compute rules of a layout whose names exist, and what is wrong with its names and sizes."""
    problems = _said_problems(program, layout)
    return _known_rules(program, mesh, layout.rules, "", problems), problems


def _said_problems(program: Program, layout: Layout) -> list[Refusal]:
    """Returns the problems of dims that are named and get no axes, and of sizes that are named."""
    unknown = (dim for dim in layout.whole if not dim.endswith("?") and dim not in program.dims)
    problems = [_unknown_dim(program, dim, "") for dim in unknown]
    for place, dim, size in layout.sizes:
        actual = program.dims.get(dim, size)
        if actual != size:
            where = f"At `{place}`: " if place else ""
            text = f"{where}`{dim}` has size {actual:,} in this program, and was given as a dim of size {size:,}."
            problems.append(Refusal("another_size", text, f'Name it "{dim}", or trace the program at that size.'))
    return problems


def _known_rules(
    program: Program, mesh: Mesh, rules: AxesByDim, where: str, problems: list[Refusal]
) -> dict[str, Axes]:
    """Returns the rules whose names exist; the others are problems, or left out where they are optional."""
    known: dict[str, Axes] = {}
    for written, axes in rules.items():
        dim, optional = written.removesuffix("?"), written.endswith("?")
        missing = [a for a in axes if a not in mesh.axes]
        if missing and dim in mesh.axes and dim not in program.dims and all(a in program.dims for a in axes):
            text = f"{where}`{dim}:{'+'.join(axes)}` has the mesh axis in front."
            problems.append(Refusal("unknown_dim", text, f"Write `{axes[0]}:{dim}`: the dim first."))
            continue
        if dim not in program.dims and not optional:
            loop = unrolled(program) if any(axis in mesh.stages for axis in axes) else ""
            problems.append(_no_scan(dim, where, loop) if loop else _unknown_dim(program, dim, where))
        if dim in program.dims or not optional:  # the `?` of a dim that is there excuses no mesh axis
            for axis in missing:
                fix = closest(axis, mesh.axes).strip() or f"Its axes are {listed(mesh.axes)}."
                problems.append(Refusal("unknown_axis", f"{where}`{dim}:{axis}`: the mesh has no axis `{axis}`.", fix))
        if len(set(axes)) < len(axes):
            text = f"{where}`{dim}:{'+'.join(axes)}` names one axis twice."
            problems.append(Refusal("repeated_axis", text, "Name each axis once."))
        elif dim in program.dims and not missing:
            known[dim] = axes
    return known


def _no_scan(dim: str, where: str, loop: str) -> Refusal:
    """Refuses a dim for stages in a program whose layers have none."""
    return Refusal("unknown_dim", f"{where}`{dim}` is not a dim of this program. {loop}", REMEDY)


def _unknown_dim(program: Program, dim: str, where: str) -> Refusal:
    if dim in made_up(program):
        text = f"{where}`{dim}` is a name that meshlab made up, which layouts cannot address."
        new = re.sub(r"\W", "", dim) or "kv"
        new = f"{new}_2" if new in program.dims or not new.isidentifier() else new
        return Refusal("unknown_dim", text, f'Rename it: program.rename({{"{dim}": "{new}"}}).')
    if dim in program.places:
        fix = f'It is a place, whose rules are a dict: {{"{dim}": {{"embed": "data"}}}}, say.'
    else:
        near = closest(dim, (*program.dims, *{place.split("/")[0] + "/*" for place in program.places if "/" in place}))
        fix = near.strip() or f"Its dims are {listed(program.dims)}."
    return Refusal("unknown_dim", f"{where}`{dim}` is not a dim of this program.", fix)


def matched_places(program: Program, mesh: Mesh, layout: Layout, problems: list[Refusal]) -> dict[str, dict[str, Axes]]:
    """Returns the rules of each place that some glob matches; of several globs the last one counts."""
    matched: dict[str, dict[str, Axes]] = {}
    for written, rules in layout.places.items():
        # `?` stands for one character, as everywhere in globs; only where nothing matches so is it read as optional.
        glob, optional = written, written.endswith("?")
        if optional and not program.matching(glob):
            glob = written.removesuffix("?")
        places = program.matching(glob)
        known = _known_rules(program, mesh, rules, f"At `{glob}`: ", problems)
        if not places and not optional:
            empty = [p for p in program.parameters if not program.matching(f"{p}/*") and p not in program.places]
            globs = [f"{p}/*" for p in program.parameters if p not in program.places and p not in empty]
            near = globs if "*" in glob else program.places
            fix = closest(glob, near).strip() or f"Its places are {some(program.places, 12)}."
            fix = f"Argument `{owner}` holds no arrays." if (owner := glob.split("/")[0]) in empty else fix
            problems.append(Refusal("unknown_place", f"`{glob}` matches no place of this program.", fix))
        dims = frozenset[str]().union(*(program.place_dims[p] for p in places))
        for dim in known:
            if places and dim not in dims:
                named = "" if glob in places else f" ({some(places, 4)})"
                text = f"At `{glob}`: no value there has the dim `{dim}`{named}."
                problems.append(Refusal("unused_dim", text, f"The dims there are {listed(sorted(dims))}."))
        for place in places:
            matched[place] = known
    return matched


def as_written(program: Program, layout: Layout, matched: Mapping[str, AxesByDim]) -> dict[str, AxesByDim]:
    """Returns the rules of places (`matched_places`) by the globs that were written, of which the last one counts."""
    globs: dict[str, str] = {}
    for written in layout.places:
        glob = written if program.matching(written) else written.removesuffix("?")
        globs |= dict.fromkeys(program.matching(glob), glob)
    return {globs[place]: rules for place, rules in matched.items()}


def matched_scopes(
    program: Program, mesh: Mesh, layout: Layout, problems: list[Refusal]
) -> list[tuple[str, dict[str, Axes]]]:
    """Returns the globs that match some scope, with the rules there, in order."""
    matched = []
    for written, rules in layout.scope_rules:
        if not written.strip("@/*? "):
            problems.append(_every_scope(program, written, dict(rules)))
            continue
        glob, optional = written, written.endswith("?")
        there = [scope for scope in scopes(program) if matches(glob, scope)]
        if optional and not there:
            glob = written.removesuffix("?")
            there = [scope for scope in scopes(program) if matches(glob, scope)]
        known = _known_rules(program, mesh, dict(rules), f"In `{glob}`: ", problems)
        if there:
            problems += _unused_in(program, glob, known)
            matched.append((glob, known))
        elif not optional:
            problems.append(_unknown_scope(program, glob))
    return matched


def _unused_in(program: Program, glob: str, rules: Iterable[str]) -> list[Refusal]:
    """Returns the problems of dims that no operation in a scope has."""
    there = program.dims_in(glob)
    have = f"The dims there are {some(sorted(there))}."
    return [
        Refusal("unused_dim", f"In `{glob}`: no operation there has the dim `{dim}`.", have)
        for dim in rules
        if dim not in there
    ]


def _unknown_scope(program: Program, glob: str) -> Refusal:
    """Refuses a glob that matches no scope, with the closest name of one."""
    known = scopes(program)
    names = dict.fromkeys(name for scope in known for name in scope)
    near = closest(glob, dict.fromkeys(f"@{name}" for name in (*names, *map(path, known)))).strip()
    fix = near or f"Its scopes are {some([f'@{name}' for name in names], 12)}." if known else _OPENS_NONE
    return Refusal("unknown_scope", f"`{glob}` matches no scope of this program.", fix)


def _every_scope(program: Program, glob: str, rules: AxesByDim) -> Refusal:
    """Refuses a glob of every scope, with its rules for all of the program, and the names of scopes."""
    names = dict.fromkeys(f"@{name}" for scope in scopes(program) for name in scope)
    everywhere = ", ".join(f'"{d}": ' + (f'"{"+".join(axes)}"' if axes else "None") for d, axes in rules.items())
    one = f"Name one, for rules in that scope only: {some(list(names), 12)}." if names else _OPENS_NONE
    text = f"`{glob}` names no scope: it would match every operation that is in any scope."
    return Refusal("unknown_scope", text, f"Write {{{everywhere}}} for all of the program. {one}")
