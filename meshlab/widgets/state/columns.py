"""Columns of the board: where a layout's rules can hold.

    compute       compute rules: how values are computed
    params        rules at `params/*`: how parameters are stored, and their gradients and new values with them
    grads         rules at `grads/*`: how gradients are stored
    opt_state     rules at `opt_state/*`: how the optimizer's state is stored
    residual      rules at a tag
    …             every other glob that the layout has rules at
    @core         rules in a scope: how values are computed there

Which arguments are parameters and which are optimizer state follows from the program (`engine/programs/trained`).
"""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterator, Mapping

from ...engine.programs.program import Program, analysis
from ...engine.programs.scoped import scopes
from ...engine.programs.trained import trained
from ...engine.specs.layout import Layout
from ...engine.specs.spec import Axes

COMPUTE = ""
_NUMBER = re.compile(r"\d+")


@dataclasses.dataclass(frozen=True)
class Column:
    """A place of the board's columns.

    Attributes:
        at: the glob of its rules; "" for compute rules.
        label: its name on the board.
        kind: "compute", "parameters", "gradients", "state", "tag", "glob" or "scope".
        within: other globs of the layout that match some of its places alone; their rules are listed at its head.
    """

    at: str
    label: str
    kind: str
    within: tuple[str, ...] = ()


def columns_of(program: Program, layout: Layout) -> tuple[Column, ...]:
    """Returns the columns of a program, and of the other places that a layout has rules at."""
    columns = [_as_written(program, column, layout) for column in _program_columns(program)]
    known, others = {column.at for column in columns}, []
    for at in layout.places:
        if at in known:
            continue
        places = set(program.matching(at.removesuffix("?")))
        around = (i for i, c in enumerate(columns) if c.at and places and places <= set(program.matching(c.at)))
        position = next(around, None)
        if position is None:
            others.append(Column(at, at, "glob"))
        else:
            column = columns[position]
            columns[position] = dataclasses.replace(column, within=(*column.within, at))
    return (*columns, *others, *(Column(at, at, "scope") for at in layout.scopes))


def scope_columns(program: Program, layout: Layout) -> tuple[Column, ...]:
    """Returns the columns of scopes that a layout has no rules in: one for each name, `layer_*` for numbered ones."""
    names = dict.fromkeys(name for scope in scopes(program) for name in scope)
    stems = Counter(_NUMBER.sub("*", name) for name in names)
    globs = dict.fromkeys(f"@{stem if stems[stem := _NUMBER.sub('*', name)] > 1 else name}" for name in names)
    return tuple(Column(glob, glob, "scope") for glob in globs if glob not in layout.scopes)


def rules_at(layout: Layout, column: Column) -> Mapping[str, Axes]:
    """Returns a layout's rules in a column: compute rules, or those at its places or in its scope."""
    by_glob = layout.scopes if column.kind == "scope" else layout.places
    return by_glob.get(column.at, {}) if column.at else layout.rules


def _as_written(program: Program, column: Column, layout: Layout) -> Column:
    """A column under the glob by which the layout has its rules: `?` at its end, or another that matches the same."""
    if not column.at or column.at in layout.places:
        return column
    places = set(program.matching(column.at))
    same = (at for at in layout.places if set(program.matching(at.removesuffix("?"))) == places)
    return dataclasses.replace(column, at=next(same, column.at))


@analysis
def _program_columns(program: Program) -> tuple[Column, ...]:
    learned = trained(program)
    kinds = dict.fromkeys(learned.parameters, "parameters") | dict.fromkeys(learned.state, "state")
    arguments = [(i, a) for i, a in enumerate(program.arguments) if program.code.shapes[a.value]]
    kind_at = {argument.place: kinds.get(i, "") for i, argument in arguments}
    gradients = dict.fromkeys(f"{place.split('/')[0]}/*" for place in program.gradients)
    columns = [Column(COMPUTE, "compute", "compute")]
    columns += [Column(glob, _label(glob), "parameters") for glob in _globs(kind_at, "parameters")]
    columns += [Column(glob, _label(glob), "gradients") for glob in gradients]
    columns += [Column(glob, _label(glob), "state") for glob in _globs(kind_at, "state")]
    return (*columns, *(Column(tag, tag, "tag") for tag in program.tags))


def _label(glob: str) -> str:
    return glob.removesuffix("/*")


def _globs(kind_at: dict[str, str], kind: str) -> list[str]:
    """Returns the fewest globs that match the places of a kind, and none of another."""

    def covering(prefix: str) -> Iterator[str]:
        below = {place: k for place, k in kind_at.items() if place == prefix or place.startswith(f"{prefix}/")}
        if all(k == kind for k in below.values()):
            yield prefix if prefix in below else f"{prefix}/*"
        elif kind in below.values():
            depth = prefix.count("/") + 2
            for further in dict.fromkeys("/".join(place.split("/")[:depth]) for place in below):
                yield from covering(further)

    return [glob for name in dict.fromkeys(place.split("/")[0] for place in kind_at) for glob in covering(name)]
