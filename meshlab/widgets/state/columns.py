"""Columns of the board: where a layout's rules can hold.

    compute       compute rules: how values are computed
    params        rules at `params/*`: how parameters are stored, and their gradients and new values with them
    opt_state     rules at `opt_state/*`: how the optimizer's state is stored
    residual      rules at a tag
    …             every other glob that the layout has rules at

Which arguments are parameters and which are optimizer state is read off the program (`peak_memory/roles`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from ...cost.peak_memory.roles import MASTERS, PARAMETERS, STATE, roles_of
from ...engine.programs.data import Program, analysis
from ...engine.specs.layout import Layout

COMPUTE = ""
# The tag that ZeRO-2 shards.
GRADIENTS = "grads"
_NO_GRADIENTS = (
    'This program has no place for its gradients. Name them in the step, `grads = ml.tag(grads, "grads")`, and trace'
    " it again: rules here then say how they are stored."
)


@dataclasses.dataclass(frozen=True)
class Column:
    """A place of the board's columns.

    Attributes:
        at: the glob of its rules; "" for compute rules.
        label: its name on the board.
        kind: "compute", "parameters", "gradients", "state", "tag" or "glob".
        missing: why it takes no rules, and what to do; empty where it takes some.
    """

    at: str
    label: str
    kind: str
    missing: str = ""


def columns_of(program: Program, layout: Layout) -> tuple[Column, ...]:
    """Returns the columns of a program, and of the other places that a layout has rules at."""
    columns = _program_columns(program)
    known = {column.at for column in columns}
    return (*columns, *(Column(at, at, "glob") for at in layout.places if at.removesuffix("?") not in known))


@analysis
def _program_columns(program: Program) -> tuple[Column, ...]:
    roles = roles_of(program)
    parts = zip(program.arguments, roles.arguments, strict=True)
    role_at = {a.place: role for a, role in parts if program.code.shapes[a.value]}
    parameters = _globs(role_at, (PARAMETERS, MASTERS))
    tags = [tag for tag in program.tags if tag != GRADIENTS]
    columns = [Column(COMPUTE, "compute", "compute")]
    columns += [Column(glob, _label(glob), "parameters") for glob in parameters]
    if GRADIENTS in program.tags:
        columns.append(Column(GRADIENTS, GRADIENTS, "gradients"))
    elif roles.backward and parameters:
        columns.append(Column(GRADIENTS, GRADIENTS, "gradients", _NO_GRADIENTS))
    columns += [Column(glob, _label(glob), "state") for glob in _globs(role_at, (STATE,))]
    return (*columns, *(Column(tag, tag, "tag") for tag in tags))


def _label(glob: str) -> str:
    return glob.removesuffix("/*")


def _globs(role_at: dict[str, str], wanted: Sequence[str]) -> list[str]:
    """Returns the fewest globs that match the places of some roles, and none of another role."""

    def covering(prefix: str) -> Iterator[str]:
        below = {place: role for place, role in role_at.items() if place == prefix or place.startswith(f"{prefix}/")}
        if all(role in wanted for role in below.values()):
            yield prefix if prefix in below else f"{prefix}/*"
        elif any(role in wanted for role in below.values()):
            depth = prefix.count("/") + 2
            for further in dict.fromkeys("/".join(place.split("/")[:depth]) for place in below):
                yield from covering(further)

    return [glob for name in dict.fromkeys(place.split("/")[0] for place in role_at) for glob in covering(name)]
