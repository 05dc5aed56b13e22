"""Reads the user's named scopes in the text of JAX's name stacks, without what transformations write around them.

    transpose(jvp(encoder))/layer_0/core        encoder, layer_0, core
    jvp(block/core)/tanh                        block, core, tanh

So a scope may be called a path, of several names.
"""

from __future__ import annotations

import functools
import re

# What `jax.checkpoint` computes again is in this scope.
RECOMPUTED = "rematted_computation"
# Scopes that `jax.checkpoint` opens itself.
_CHECKPOINTS = ("checkpoint", RECOMPUTED)
# A transformation around a scope.
_TRANSFORMED = re.compile(r"^[a-z_]+\((?P<inside>.*)\)$")


@functools.lru_cache(maxsize=4096)
def scopes_in(stack: str) -> tuple[str, ...]:
    """Returns the names of the scopes in a name stack, outermost first.

    Example:
        >>> scopes_in("transpose(jvp(block/core))/checkpoint/tanh")
        ('block', 'core', 'tanh')
    """
    names = (name for part in _parts(stack) for name in _without_transformations(part).split("/"))
    return _once(tuple(name for name in names if name and name not in _CHECKPOINTS))


def _parts(stack: str) -> list[str]:
    """Returns what slashes part in a name stack, but for those inside of parentheses."""
    parts = [""]
    for piece in stack.split("/"):
        if parts[-1].count("(") > parts[-1].count(")"):
            parts[-1] += f"/{piece}"
        else:
            parts.append(piece)
    return parts


def _once(path: tuple[str, ...]) -> tuple[str, ...]:
    """Returns a path without its repetition: what `jax.checkpoint` recomputes has `transpose(jvp(a))/b/jvp(a)/b`."""
    for count in range(len(path) // 2, 0, -1):
        if path[-count:] == path[-2 * count : -count]:
            return _once(path[:-count])
    return path


def _without_transformations(scope: str) -> str:
    transformed = _TRANSFORMED.match(scope)
    return scope if transformed is None else _without_transformations(transformed["inside"])
