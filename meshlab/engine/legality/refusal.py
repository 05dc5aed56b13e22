"""A refusal says why something is not legal, and what would be.

    refusal.text      "`batch` has size 12, which 8 (`data`) does not divide."
    refusal.fix       "Sizes that fit: 8 or 16; or plan with pad=True."

All are of one grammar. A reason is a sentence, of which the rule is the subject: where it stands, if that is no rule
for all of the program (`At params/w1:`, `In @mlp:`), what is wrong with it and, behind a colon, why. A fix is a command
("Put …", "Write …"), a close name, or what there is ("Its dims are …", "Sizes that fit: …").

One error lists all refusals of a layout; a board colours its zones by them, one by one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from ..code.operations import Operation
from ..code.source import Source
from ..errors import LayoutError, numbered, shown
from ..programs.becoming import changed
from ..specs.layout import Layout
from ..specs.mesh import Mesh


@dataclasses.dataclass(frozen=True)
class Refusal:
    """The reason why something is not legal.

    Attributes:
        code: "unknown_dim", "unknown_axis", "unknown_place", "unknown_scope", "unknown_transport", "unused_dim",
            "repeated_axis", "not_divisible", "another_size", "conflict", "pipeline" or "in_time".
        text: the reason.
        fix: what would be legal.
        source: the user's line that it is about, if there is one.
    """

    code: str
    text: str
    fix: str
    source: Source | None = None

    def __str__(self):
        return f"{self.text} {self.fix}".strip()


def named(operation: Operation | None) -> str:
    """Names an operation with its line; a rename by its line and dims, for the line may not have that word."""
    if operation is None:
        return "an output"
    if operation.name == "rename":
        dims = changed(operation)
        return f"{operation.source or 'an unknown line'}" + (f" ({dims})" if dims else "")
    return f"`{operation.called}` at {operation.source}" if operation.source else f"`{operation.called}`"


def refuse(mesh: Mesh, layout: Layout, problems: Iterable[Refusal], note: str = ""):
    """Refuses a layout that has problems: lists all of them, each once, with a note behind them."""
    unique = tuple(dict.fromkeys(problems))
    if unique:
        count = f"{len(unique):,} problems" if len(unique) > 1 else "one problem"
        text = f"The layout {shown(str(layout))} on the mesh {mesh} has {count}:\n{numbered(unique)}"
        raise LayoutError(f"{text}\n{note}" if note else text, unique)
