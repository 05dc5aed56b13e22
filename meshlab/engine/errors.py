"""What meshlab raises.

One base, so that `except meshlab.MeshlabError` catches everything that meshlab refuses; it is a `ValueError`, since
each of them says that something that was handed in cannot be used as it is. A message says what was asked, what was
found, where, and what to do; `closest` finds the name that was probably meant.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class MeshlabError(ValueError):
    """Base of every error that meshlab raises on purpose."""


class DimError(MeshlabError):
    """A dim, or an operation on named tensors, that cannot be."""


class MeshError(MeshlabError):
    """A mesh, or a number of devices, that cannot be."""


class TraceError(MeshlabError):
    """A function or its arguments that cannot be made into a program."""


class RunError(MeshlabError):
    """Arguments that do not fit the plan that is to run."""


class LayoutError(MeshlabError):
    """A layout that is refused; `problems` holds every reason, each with its fix.

    Attributes:
        problems: the refusals, in the order of the layout's rules.
    """

    def __init__(self, message: str, problems: tuple = ()):
        super().__init__(message)
        self.problems = problems


def closest(name: str, known: Iterable[str]) -> str:
    """Returns " Did you mean `x` or `y`?" for the known names nearest to `name`, or "" where none is near."""
    near = difflib.get_close_matches(name, list(known), n=2, cutoff=0.6)
    return " Did you mean " + " or ".join(f"`{n}`" for n in near) + "?" if near else ""


def listed(names: Iterable[str]) -> str:
    """Returns names in backquotes, joined by commas; "none" where there are none."""
    return ", ".join(f"`{name}`" for name in names) or "none"


def some(names: Sequence[str], most: int = 8) -> str:
    """Returns the first of many names in backquotes, and how many more there are: "`a`, `b` and 80 more"."""
    return listed(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
