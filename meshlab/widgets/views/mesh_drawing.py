"""The drawing of a mesh on its machine, as plain shapes.

    picture_of(mesh)      {"width": 420, "height": 260, "shapes": [{"is": "rect", "as": "chip", …}, …], "left_out": ""}

A slice of a torus is a grid of chips, in layers where it has three axes; a link has the mark of the mesh axis whose
neighbours it joins, and where an axis wraps around, a hook at either end says so. Behind switches nodes are boxes of
devices. At most 256 devices are drawn, and `left_out` says of how many.
"""

from __future__ import annotations

from ...cost.machines.hardware import Switch
from ...cost.machines.placement import Placement
from ...engine.specs.mesh import Mesh
from .mesh_drawing_nodes import nodes_picture
from .mesh_drawing_torus import torus_picture


def picture_of(mesh: Mesh) -> dict:
    """Draws a mesh on its machine.

    Args:
        mesh: a mesh that is placed on a machine.

    Returns:
        JSON-like data: `width` and `height` in pixels, `shapes`, and what is `left_out`, in words.
    """
    placement: Placement = mesh.on
    if isinstance(placement.hardware.network, Switch):
        return nodes_picture(placement, mesh)
    return torus_picture(placement)
