"""`zigzag_p` stands where an array enters or leaves attention whose positions are in zig-zag order.

It is an array as it is, unless its axis is sharded: then devices exchange halves of their shards (`rules/attention`).
No function has it when it is traced; a layout with `zigzag(…)` puts it in (`programs/zigzagged`).
"""

from __future__ import annotations

from typing import Any

from ..own_primitives import linear_primitive


def _same(array: Any, *, axis: int, back: bool) -> Any:
    return array


zigzag_p = linear_primitive(
    "zigzag",
    _same,
    transpose=lambda params: params | {"back": not params["back"]},
    batch=lambda params, axis: params | {"axis": params["axis"] + (axis <= params["axis"])},
)
