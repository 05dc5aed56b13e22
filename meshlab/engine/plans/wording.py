"""Puts the facts of a collective's cause into words: names, places, how dims are sharded, and in which scope.

quoted(("data", "model"))                               "`data` and `model`"
sharded((("batch", ("data",)), ("vocab", ("model",))))  "split: `batch` over `data`, `vocab` over `model`"
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..code.operations import Operation
from ..collectives.kinds import Of
from ..legality.legal_rules import LegalRules
from ..programs.becoming import changed
from ..rules import PER_SHARD
from ..specs.spec import Axes
from .partial_sums import Split


def quoted(names: Iterable[str]) -> str:
    """Returns names in backquotes, joined by "and"."""
    return " and ".join(f"`{n}`" for n in names)


def joined(places: Sequence[str]) -> str:
    """Returns the glob of several places: `params/layers/*/query`."""
    if len({place.count("/") for place in places}) > 1:
        return places[0]
    parts = zip(*(place.split("/") for place in places), strict=True)
    return "/".join(part[0] if len(set(part)) == 1 else "*" for part in parts)


def sharded(pairs: Sequence[Split]) -> str:
    """Says how dims are sharded: "split over `model`", or "split: `batch` over `data`, `vocab` over `model`"."""
    if len(pairs) == 1:
        return f"split over {quoted(pairs[0][1])}"
    return "split: " + ", ".join(f"`{dim}` over {quoted(axes)}" for dim, axes in pairs)


def in_scope(rules: LegalRules, operation: Operation | None, *dims: str) -> str:
    """Returns " in `@core`" for an operation whose rule for one of some dims comes of that glob; "" for others."""
    if operation is None or operation.scope not in rules.scopes:
        return ""
    globs = dict.fromkeys(filter(None, (rules.glob(operation.scope, dim) for dim in dims)))
    return f" in {quoted(globs)}" if globs else ""


def reader(operation: Operation | None, where: str) -> str:
    """Names the operation that needs a value otherwise, with where it stands.

    A rename is said by its dims and its line: it computes nothing, and a line with `ml.attention` has no such word.
    """
    if operation is None or operation.name != "rename":
        return f"`{operation.name if operation else 'an operation'}`{where}"
    at = f" at {operation.source}" if operation.source else ""
    return f"{changed(operation) or 'The value changes names'}{at}{where}: this"


def inside(operation: Operation, of: Of, pairs: Sequence[Split], axes: Axes) -> str:
    """Says why an operation sends something inside it: by what is sent, or else by what happens to the split dims."""
    dims, several = quoted(dim for dim, _ in pairs), len(pairs) > 1
    if of.why:
        return of.why.format(dims=dims, are="are" if several else "is", axes=quoted(axes))
    text = PER_SHARD[operation.name].said(dims, several)
    return f"{text} while {'they are' if several else 'it is'} {sharded(pairs)}."
