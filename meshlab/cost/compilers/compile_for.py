"""The real compilers, without the hardware: what they make of a plan, beside what was predicted.

    found = ml.compile_for(plan, "v5e:4x4", progress=print)
    found.collectives     as read from the compiled program
    found.peak_bytes      of one device, as the compiler allots them
    found                 a table: predicted and compiled, and what explains a difference

XLA compiles for a TPU by libtpu, for an NVIDIA GPU by its CUDA plugin, and needs neither the device nor a driver.
The plan is lowered here (`exporting.py`) and compiled in a process of its own (`compiling.py`), which is ended when it
takes too long, when it is cancelled, and when this process ends.

Where the plan's mesh lies on the slice that is compiled for, its devices are those of its placement; else the mesh
takes them in the order in which the topology lists them, which is that of `jax.devices()` there. Collectives and their
bytes are the same for both.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

from ...engine.argument_checks import flag
from ...engine.errors import CompilerError
from ...engine.plans.data import Plan
from ...engine.running.compiler_process import Cancel, Process, Progress, Watch, inherited, refuse_callbacks
from ...engine.running.run import donated, mesh_axes
from ..machines.installed_compilers import check_installed, folder_of_compilers
from ..machines.meshes import check_plan
from .compiled import Compiled, compiled_from
from .export import exported
from .targets import device_order, target

# How the TPU compiler and the GPU compiler call a topology's name in their options.
_NAMED = {"tpu": "topology_name", "cuda": "topology"}
# Under which the compiler's process runs.
_ENVIRONMENT = {
    # The compilers are asked for by name; the arrays of this process, of which there are none, would be on the CPU.
    "JAX_PLATFORMS": "cpu",
    # libtpu asks the cloud what machine it is on, looks for a lock of another process, and logs to files.
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
        plan: what to compile.
        name: for what: a machine and a shape, such as "v5e:4x4" (chips by axis of the torus) or "h100:1x1x8" (slices x
            hosts x GPUs of a host); a machine alone for its evenest slice; nothing for the slice on which the plan's
            mesh lies.
        donate: whether the arguments that the next call gets anew may be overwritten, as in `plan.run`.
        timeout: seconds after which the compiler is ended.
        progress: called with a `Progress` at each stage, and each second in between; `print` will do.
        cancel: asked several times a second; once it is set, the compiler is ended.

    Returns:
        What the compiler made of the plan, beside what was predicted.

    Raises:
        HardwareError: what is given is no plan, there is no such machine or slice, or the mesh has another number of
            devices.
        CompilerError: the compiler is not installed, refuses the program (too large for the device, say), takes too
            long, or was cancelled.
        RunError: the compiled program holds a collective that cannot be read.
    """
    check_plan(plan, "ml.compile_for")
    donate = flag("compile_for", "donate", donate, CompilerError)
    found = target(name, plan.mesh)
    watch = Watch(str(found), f"compile_for(plan, {found.name!r}, timeout={{:g}})", timeout, progress, cancel)
    check_installed(found.platform)
    refuse_callbacks(plan.program.code, "ml.compile_for")
    request = {
        "platform": found.platform,
        "named": _NAMED[found.platform],
        "topology": found.topology,
        "options": dict(found.options),
        "axes": mesh_axes(plan),
        "order": device_order(found, plan.mesh),
        "donated": donated(plan) if donate else (),
    }
    with Process(("-m", "meshlab.cost.compilers.worker"), _environment()) as process:
        watch.stage("exporting")
        answer = process.answer(exported(plan, found.platform), request, watch)
    if isinstance(answer, str):
        raise CompilerError(f"The compiler for {found} refuses the plan: {answer}")
    told, text = answer
    return compiled_from(plan, found, donate, told, text)


def _environment() -> dict[str, str]:
    """The variables under which the compiler's process runs."""
    variables = inherited(str(pathlib.Path(__file__).parents[3]), folder_of_compilers())
    # The flags of this process are for its own devices; one that a compiler does not know ends its process.
    variables.pop("XLA_FLAGS", None)
    return variables | _ENVIRONMENT
