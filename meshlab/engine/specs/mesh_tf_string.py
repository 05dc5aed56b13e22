"""A layout as Mesh TensorFlow writes it, and all that this form cannot say.

    Layout.of("batch:data hidden:model").to_string()        "batch:data;hidden:model"
    said((("batch", ("data",)), ("vocab", ("data", "model"))), ())
                                                            ("batch:data", ("`vocab` is on `data` and `model`: ...",))

Mesh TensorFlow has pairs of one dim and one mesh axis, for all tensors alike, between spaces, commas, full stops or
semicolons. It knows no rules at places or in scopes and no dim on several axes, and leaves out whatever rule the
program has no dim for. What comes out is read back by `Layout.of`, as the same layout.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..errors import LayoutError, numbered
from .spec import Axes

_SEPARATORS = re.compile(r"[\s,.;:]")


DimRules = Sequence[tuple[str, Axes]]
PlaceRules = Sequence[tuple[str, DimRules]]


def said(dim_rules: DimRules, place_rules: PlaceRules, scope_rules: PlaceRules = ()) -> tuple[str, tuple[str, ...]]:
    """Returns what the form can say of a layout's rules, and a text for each thing that it cannot.

    A dim that is optional is written like the others, so that the same program is laid out in the same way.
    """
    pairs, lost = [], []
    for dim, axes in dim_rules:
        name = dim.removesuffix("?")
        if len(axes) != 1:
            lost.append(f"`{dim}` is on {' and '.join(f'`{axis}`' for axis in axes)}: a dim has one mesh axis there")
        elif _SEPARATORS.search(name):
            lost.append(f"`{dim}` is on `{axes[0]}`: a name cannot have a character there that stands between rules")
        else:
            pairs.append(f"{name}:{axes[0]}")
            if name != dim:
                lost.append(f"`{dim}` is optional: every rule is there, and none for itself")
    for glob, rules in place_rules:
        stored = ", ".join(f"{dim}:{'+'.join(axes) or 'whole'}" for dim, axes in rules) or "nothing"
        lost.append(f"at `{glob}` is stored {stored}: there are no rules for places there")
    for glob, rules in scope_rules:
        computed = ", ".join(f"{dim}:{'+'.join(axes) or 'whole'}" for dim, axes in rules) or "nothing"
        lost.append(f"in `{glob}` is computed {computed}: there are no rules for scopes there")
    return ";".join(pairs), tuple(lost)


def mesh_tf_string(dim_rules: DimRules, place_rules: PlaceRules, scope_rules: PlaceRules = ()) -> str:
    """Returns a layout as Mesh TensorFlow's string; see `Layout.to_string`.

    Raises:
        LayoutError: it says something that this form cannot; all of it is listed.
    """
    text, lost = said(dim_rules, place_rules, scope_rules)
    if lost:
        raise LayoutError(
            f"layout.to_string() writes Mesh TensorFlow's form, which cannot say all of this layout:\n{numbered(lost)}"
            "\nTake layout.to_dict(), which has everything; or leave these rules out.",
            lost,
        )
    return text
