"""Gradient accumulation: the batch in micro-batches, one after the other on each device.

    mesh = ml.mesh(data=4, micro=ml.serial(8))
    ml.layouts.fsdp(program, mesh) & ml.layouts.accumulate(program, mesh)       batch:data+micro, and what FSDP stores

It is data parallelism over a serial axis, and nothing else: what is a partial sum over the axis is added up from one
micro-batch to the next, and what reads the sum alone, the optimizer, runs behind the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..engine.programs.program import Program
from ..engine.specs.layout import Layout
from ..engine.specs.mesh import Mesh
from ..engine.tensors.dims import Dim
from .recognise import Recognised, batch_dim, made_of, recognised
from .request import Request


def accumulate(
    program: Program,
    mesh: Mesh,
    *,
    micro: str | None = None,
    batch: str | Dim | None = None,
    params: str | Sequence[str] | None = None,
    state: str | Sequence[str] | None = None,
) -> Layout:
    """Splits the batch into micro-batches, which each device runs one after the other.

    Only one micro-batch's activations are in memory; gradients are accumulated in 32 bits or wider, and reduced among
    devices once, after the loop, or in each iteration where they are stored sharded (`ml.serial(reduce=…)`).

    Args:
        program: made by `ml.trace`.
        mesh: made by `ml.mesh`, with a serial axis.
        micro: the serial axis; by default the mesh's only one.
        batch: the dim, as of `data_parallel`; dims that are made of it (groups of tokens, for experts) are on the axis
            as well.
        params: a glob over the parameters, or several.
        state: a glob over the optimizer's state.

    Returns:
        `{"batch": "micro"}`, say. With `&` it comes behind the axes of devices: `batch:data+micro`.
    """
    request = Request("accumulate", program, mesh)
    return request.layout(micro_batches(request, micro, recognised(request, params, state), batch))


def micro_batches(request: Request, given: Any, arguments: Recognised, batch: Any) -> dict[str, str]:
    """Returns rules for the batch, and all that is made of it, on a serial axis; notes a problem where one is missing.

    Args:
        request: of the preset.
        given: what its user gave for `micro`.
        arguments: those of the program by their use.
        batch: what its user gave for `batch`.
    """
    axis = request.of_kind("micro", given, request.mesh.in_time, ("serial axis", "serial axes"), "ml.serial(8)")
    dim = batch_dim(request, arguments, batch)
    return dict.fromkeys((dim, *made_of(request.program, dim)), axis) if axis and dim else {}
