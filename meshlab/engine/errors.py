"""Defines the errors that meshlab raises, and words their messages.

One base, so that `except meshlab.MeshlabError` catches everything that meshlab refuses; it is a `ValueError`, since
each of them says that an argument is invalid. A message says what was asked, what was found, where, and what to do;
`closest` finds the name that was probably meant. However long an argument is, a message stays readable: `brief`
shortens every one of them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Any

# The most characters of a name that are compared with known ones, and of an argument that are shown.
_COMPARED, _SHOWN = 200, 120
# No path, place or line of code is longer than the first of these, and no message with all its problems than the
# second, of which the beginning and the end are kept.
_LONG, _MESSAGE, _END = 300, 10_000, 1_000
# What stands in backquotes or quotes on one line, or without a space; an apostrophe is no quote, and neither is the
# beginning of a text that was shortened before.
_PIECE = re.compile(r"`[^`\n]*`|(?<!\w)'[^'\n…]*'(?!\w)|(?<!\w)\"[^\"\n…]*\"(?!\w)|[^\s`'\"]+")


class MeshlabError(ValueError):
    """Base of every error that meshlab raises on purpose."""

    def __init__(self, *args: Any):
        super().__init__(*(brief(text) if isinstance(text, str) else text for text in args))


class DimError(MeshlabError):
    """An invalid dim, or an invalid operation on named tensors."""


class MeshError(MeshlabError):
    """An invalid mesh, or an invalid number of devices."""


class TraceError(MeshlabError):
    """A function or arguments that cannot be traced into a program."""


class RunError(MeshlabError):
    """Arguments that do not fit the plan that is to run."""


class CompilerError(MeshlabError):
    """A compiler that is not there, or refuses, or ends its process, or takes too long."""


class LayoutError(MeshlabError):
    """A layout that is refused; `problems` holds every reason, each with its fix.

    Attributes:
        problems: the refusals, in the order of the layout's rules; of two layouts, the conflicts as texts; of a text,
            what cannot be read, with the character where it is.
    """

    def __init__(self, message: str, problems: tuple = ()):
        super().__init__(message)
        self.problems = problems

    @property
    def in_one_line(self) -> str:
        """The problems alone, for a line of another message."""
        return "; ".join(map(str, self.problems)) or str(self)


def brief(message: str) -> str:
    """Shortens a message: its long names and texts, and all of it where it is still too long.

    Example:
        >>> brief("There is no dim `" + "a" * 1_000 + "`.") == "There is no dim `" + "a" * 119 + " …`."
        True
    """
    if len(message) <= _LONG:
        return message
    short = _PIECE.sub(_brief_piece, message)
    if len(short) <= _MESSAGE:
        return short
    left = len(short) - _MESSAGE
    return f"{short[: _MESSAGE - _END]} … ({left:,} characters are left out here) … {short[-_END:]}"


def _brief_piece(match: re.Match[str]) -> str:
    piece = match[0]
    if len(piece) <= _LONG:
        return piece
    return f"{piece[:_SHOWN]} …" + (piece[0] if piece[0] in "`'\"" else "")


def closest(name: Any, known: Iterable[str]) -> str:
    """Returns " Did you mean `x` or `y`?" for the known names nearest to `name`, or "" where none is near."""
    text = name if isinstance(name, str) else ""
    near = difflib.get_close_matches(text, list(known), n=2, cutoff=0.6) if 0 < len(text) <= _COMPARED else []
    return " Did you mean " + " or ".join(f"`{n}`" for n in near) + "?" if near else ""


def aside(name: Any, known: Iterable[str]) -> str:
    """Returns what `closest` does in brackets, " (Did you mean `x`?)": for the middle or the end of a sentence."""
    near = closest(name, known).strip()
    return f" ({near})" if near else ""


def listed(names: Iterable[str]) -> str:
    """Returns names in backquotes, joined by commas; "none" where there are none."""
    return ", ".join(f"`{name}`" for name in names) or "none"


def some(names: Sequence[str], most: int = 8) -> str:
    """Returns the first of many names in backquotes, and how many more there are: "`a`, `b` and 80 more"."""
    return first_of([f"`{name}`" for name in names], most) or "none"


def first_of(texts: Sequence[str], most: int = 8) -> str:
    """Returns the first of many texts, and how many more there are: "a, b and 80 more"."""
    return ", ".join(texts[:most]) + (f" and {len(texts) - most} more" if len(texts) > most else "")


def shown(value: Any) -> str:
    """Returns a value for a message: short, in one line, and without the numbers of an array."""
    kind = type(value).__name__
    if isinstance(dims := getattr(value, "dims", None), tuple):
        return f"a tensor of [{', '.join(map(str, dims))}]"
    if hasattr(value, "shape") and hasattr(value, "dtype") and not isinstance(value, type):
        return f"an array of shape {tuple(value.shape)} and dtype {value.dtype}"
    try:
        text = " ".join(repr(value).split())
    except Exception:  # whatever it is, it is invalid here
        return f"a {kind}"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …" + ("" if isinstance(value, str) else f" (a {kind})")


def numbered(problems: Sequence[Any], most: int = 20) -> str:
    """Returns problems as the lines of a message, numbered: the first of many, and how many more there are."""
    lines = [f"  {i}. {problem}" for i, problem in enumerate(problems[:most], 1)]
    return "\n".join(lines + ([f"  … and {len(problems) - most:,} more"] if len(problems) > most else []))
