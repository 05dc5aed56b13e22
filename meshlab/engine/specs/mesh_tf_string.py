"""A layout as Mesh TensorFlow writes it, and all that this form cannot say.

    Layout.of("batch:data hidden:model").to_string()        "batch:data;hidden:model"
    said(Layout.of("batch:data vocab:data+model"))          ("batch:data", ("`vocab` is on `data` and `model`: ...",))

Mesh TensorFlow has pairs of one dim and one mesh axis, for all tensors alike, between spaces, commas, full stops or
semicolons. It knows no rules at places or in scopes, no dim on several axes and no axis in time, and leaves out
whatever rule the program has no dim for. What comes out is read back by `Layout.of`, as the same layout.
"""

from __future__ import annotations

import re

from .dialects import Rules, in_space, not_said, refuse_lost

_SEPARATORS = re.compile(r"[\s,.;:]")


def said(layout: Rules) -> tuple[str, tuple[str, ...]]:
    """Returns what the form can say of a layout, and a text for each thing that it cannot.

    A dim that is optional is written like the others, so that the same program is laid out in the same way.
    """
    pairs, lost = [], []
    for dim, axes in in_space(layout):
        name = dim.removesuffix("?")
        if len(axes) != 1:
            lost.append(f"`{dim}` is on {' and '.join(f'`{axis}`' for axis in axes)}: a dim has one mesh axis there")
        elif _SEPARATORS.search(name):
            lost.append(f"`{dim}` is on `{axes[0]}`: a name cannot contain a character that separates rules")
        else:
            pairs.append(f"{name}:{axes[0]}")
    return ";".join(pairs), (*lost, *not_said(layout))


def mesh_tf_string(layout: Rules) -> str:
    text, lost = said(layout)
    refuse_lost("layout.to_string()", "Mesh TensorFlow's form", lost)
    return text
