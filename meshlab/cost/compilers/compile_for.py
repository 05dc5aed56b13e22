"""Compiles a plan with the real TPU or GPU compiler, without the hardware, to compare it with the prediction.

    compiled = ml.compile_for(plan, "v5e:4x4", progress=print)
    compiled.collectives     read from the compiled program
    compiled.peak_bytes      of one device, as the compiler allocates them
    compiled                 a table: predicted and compiled, and the rules that explain differences

XLA compiles for a TPU by libtpu, for an NVIDIA GPU by its CUDA plugin, and needs neither the device nor a driver.
The plan is lowered here (`export.py`) and compiled in a process of its own (`worker.py`), which is ended when it takes
too long, when it is cancelled, and when this process ends.

If the plan's mesh is placed on the slice that is compiled for, its devices are those of its placement; else they are in
the order of the topology's list, which is that of `jax.devices()` there. Collectives and their bytes are the same for
both.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

from ...engine.argument_checks import flag
from ...engine.errors import CompilerError
from ...engine.plans.plan_data import Plan
from ...engine.running.compiler_process import Cancel, Process, Progress, Watch, inherited, refuse_callbacks
from ...engine.running.run import donated, mesh_axes
from ..machines.installed_compilers import check_installed, folder_of_compilers
from ..machines.meshes import check_plan
from .compiled import Compiled, compiled_from
from .export import exported
from .targets import device_order, target
from .worker import COMMAND

# The option that names a topology, for each platform.
_NAMED = {"tpu": "topology_name", "cuda": "topology"}
# Environment variables of the compiler's process.
_ENVIRONMENT = {
    # The worker asks for compilers by name; its own backend is the CPU.
    "JAX_PLATFORMS": "cpu",
    # libtpu would query the cloud's metadata, look for the lock of another process, and log to files.
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-8",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_LOG_DIR": "disabled",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}


def compile_for(
    plan: Plan,
    name: str | None = None,
    *,
    donate: bool = False,
    timeout: float = 600,
    progress: Callable[[Progress], Any] | None = None,
    cancel: Cancel | None = None,
) -> Compiled:
    """Compiles a plan for a machine that is not attached.

    Args:
        plan: the plan.
        name: the target: a machine and a shape, such as "v5e:4x4" (chips by axis of the torus) or "h100:1x1x8" (slices
            x hosts x GPUs of a host); a machine alone for its evenest slice; None for the slice of the plan's mesh.
        donate: whether carried arguments may be overwritten, as in `plan.run`.
        timeout: seconds after which the compiler is ended.
        progress: called with a `Progress` at each stage, and each second in between, such as `print`.
        cancel: polled several times a second; once it is set, the compiler is ended.

    Returns:
        The compiled program beside the prediction.

    Raises:
        HardwareError: `plan` is not a plan, there is no such machine or slice, or the mesh has a different size.
        CompilerError: the compiler is not installed, refuses the program (too large for the device, say), takes too
            long, or was cancelled.
        RunError: the compiled program holds a collective that cannot be read.
    """
    check_plan(plan, "ml.compile_for")
    donate = flag("compile_for", "donate", donate, CompilerError)
    chosen = target(name, plan.mesh)
    watch = Watch(str(chosen), f"compile_for(plan, {chosen.name!r}, timeout={{:g}})", timeout, progress, cancel)
    check_installed(chosen.platform)
    refuse_callbacks(plan.program.code, "ml.compile_for")
    request = {
        "platform": chosen.platform,
        "named": _NAMED[chosen.platform],
        "topology": chosen.topology,
        "options": dict(chosen.options),
        "axes": mesh_axes(plan.mesh),
        "order": device_order(chosen, plan.mesh),
        "donated": donated(plan) if donate else (),
    }
    with Process(("-c", COMMAND), _environment()) as process:
        watch.stage("exporting")
        answer = process.answer(exported(plan, chosen.platform), request, watch)
    if isinstance(answer, str):
        raise CompilerError(f"The compiler for {chosen} rejects the plan: {answer}")
    facts, text = answer
    return compiled_from(plan, chosen, donate, facts, text)


def _environment() -> dict[str, str]:
    variables = inherited(str(pathlib.Path(__file__).parents[3]), folder_of_compilers())
    # The XLA flags of this process are for its own devices; a compiler aborts on flags that it does not know.
    variables.pop("XLA_FLAGS", None)
    return variables | _ENVIRONMENT
