"""Compute rules by scope: which operations a glob over scopes means, and what their rules are.

    with jax.named_scope("core"):                        {"seq": "model", "@core": {"heads": "model", "seq": None}}
        scores = ml.dot(query, key, Head)                the heads are split there, and everywhere else the sequence

A scope is a path of names: `encoder/layer_0/core`. A glob matches any run of whole names in it, `*` crosses `/` as in
places, and its rules count for whatever is inside: `@core`, `@layer_*/core` and `@encoder` all match that path. They
replace the compute rules for the dims that they name; of several globs with a rule for a dim the last one counts.

A sum of cotangents is in no scope (`code.operations`), and follows its operands.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from .. import globs
from ..code.operations import Scope
from .spec import Axes, AxesByDim


@functools.lru_cache(maxsize=65536)
def matches(glob: str, scope: Scope) -> bool:
    """Says whether a glob (`@core`) matches a run of names of a scope.

    Example:
        >>> matches("@layer_*/core", ("encoder", "layer_0", "core", "softmax")), matches("@core", ("score",))
        (True, False)
    """
    pattern = glob.removeprefix("@").strip("/")
    ends = range(1, len(scope) + 1)
    return any(globs.matches("/".join(scope[start:end]), pattern) for end in ends for start in range(end))


def rules_in(scope: Scope, compute: AxesByDim, scoped: Iterable[tuple[str, AxesByDim]]) -> dict[str, Axes]:
    """Returns the compute rules in a scope, empty axes where a dim is whole there.

    Args:
        scope: the names, outermost first.
        compute: the rules where no glob matches.
        scoped: (glob, rules) pairs, in order.
    """
    rules = dict(compute)
    for glob, own in scoped:
        if matches(glob, scope):
            rules |= own
    return rules


def path(scope: Scope) -> str:
    """Returns a scope as text: `encoder/layer_0/core`."""
    return "/".join(scope)
