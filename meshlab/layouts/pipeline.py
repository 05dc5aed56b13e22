"""Pipeline parallelism: the layers on an axis of stages, and the batch in micro-batches that pass from stage to stage.

    mesh = ml.mesh(data=2, pipe=ml.stages(4), micro=ml.serial(8))
    ml.layouts.fsdp(program, mesh) & ml.layouts.pipeline_parallel(program, mesh)      batch:data+micro layers:pipe, …

Both axes are found by their kind, and the dim by the scan that steps through it; no name matters. The schedule is the
axis's own, `ml.stages(4, "1f1b")`.

Source: Huang et al. 2018 (https://arxiv.org/abs/1811.06965).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..api.stages import make_plan
from ..engine.errors import LayoutError, listed, shown
from ..engine.legality.stage_legality import are_two_stacks
from ..engine.legality.unrolled import REMEDY, SCAN, unrolled
from ..engine.programs.axis_conflicts import scanned_dims
from ..engine.programs.program import Program
from ..engine.specs.layout import Layout
from ..engine.specs.mesh import Mesh
from ..engine.tensors.dims import Dim
from .accumulation import micro_batches
from .recognise import Recognised, recognised
from .request import Request


def pipeline_parallel(
    program: Program,
    mesh: Mesh,
    *,
    pipe: str | None = None,
    micro: str | None = None,
    layers: str | Dim | None = None,
    batch: str | Dim | None = None,
    params: str | Sequence[str] | None = None,
    state: str | Sequence[str] | None = None,
) -> Layout:
    """Puts the layers on an axis of stages, and splits the batch into micro-batches that pass from stage to stage.

    Each stage stores and updates its own layers; activations and their gradients are sent from stage to stage. The
    schedule is that of the axis. Source: https://arxiv.org/abs/1811.06965.

    Args:
        program: made by `ml.trace`: a whole training step, its layers in one scan, or in two, of encoder and decoder.
        mesh: made by `ml.mesh`, with an axis of stages and a serial axis.
        pipe: the axis of stages; by default the mesh's only one.
        micro: the serial axis; by default the mesh's only one.
        layers: the dim of the layers; by default the only one of the weights' that a scan steps through, or the two of
            encoder and decoder.
        batch: the batch dim, as of `data_parallel`.
        params: a glob over the parameters, or several.
        state: a glob over the optimizer's state.

    Returns:
        `{"batch": "micro", "layers": "pipe"}`, say. With `&` the batch is on the axes of devices too:
        `batch:data+micro`.

    Raises:
        LayoutError: an axis is missing, no scan steps through layers, or the step cannot be cut into stages.
    """
    request = Request("pipeline_parallel", program, mesh)
    stages = request.of_kind("pipe", pipe, mesh.stages, ("axis of stages", "axes of stages"), "ml.stages(4)")
    arguments = recognised(request, params, state)
    split = micro_batches(request, micro, arguments, batch)
    dims = _layers(request, arguments, layers)
    rules = {**split, **(dict.fromkeys(dims, stages) if stages else {})}
    layout = request.layout(rules)
    _cut(request, layout)
    return layout


def _layers(request: Request, arguments: Recognised, given: Any) -> Sequence[str]:
    """Returns the dim of the layers: the one given, or the only one of the weights' that a scan steps through.

    There are two where these are the layers of two stacks.
    """
    program = request.program
    scanned = scanned_dims(program)
    if given is not None:
        names = request.names("layers", given)
        for name in names:
            if name not in scanned:
                text = f"layers={shown(given)}: no scan steps through `{name}`."
                request.refuse("pipeline", text, f"Scans step through {listed(scanned)}." if scanned else SCAN)
        if len(names) > 1:
            request.refuse("pipeline", f"layers={shown(given)} names several dims.", "It must be one.")
        return names[:1] if len(names) == 1 else ()
    weights = {dim for a in arguments.weights or program.arguments for dim in program.dims_of(a.value)}
    found = [dim for dim in scanned if dim in weights]
    if len(found) == 1 or (len(found) == 2 and are_two_stacks(program, found)):
        return found
    if found:
        sizes = ", ".join(f"`{dim}` ({program.dims[dim]:,})" for dim in found)
        text = f"Scans step through several dims of its weights: {sizes}."
        request.refuse("pipeline", text, f'Choose one of them, as in layers="{found[0]}".')
    else:
        loop = unrolled(program)
        text = f"No scan steps through a named dim of its weights. {loop}".rstrip()
        request.refuse("pipeline", text, REMEDY if loop else SCAN)
    return ()


def _cut(request: Request, layout: Layout):
    """Refuses a step that cannot be cut into stages, which its plan tells."""
    try:
        make_plan(request.program, request.mesh, layout)  # pyright: ignore[reportArgumentType]
    except LayoutError as error:
        request.problems += error.problems
        request.layout({})
