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

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ..engine.errors import shown
from ..engine.given import flag, function
from ..engine.run import donated
from .compiled import Compiled, compiled_from
from .exporting import exported, mesh_axes
from .meshes import check_plan
from .targets import CompilerError, Target, check_installed, device_order, folder_of_compilers, target

if TYPE_CHECKING:
    from ..engine.plan import Plan

# Seconds between two looks at the process.
_LOOK = 0.05
# How the TPU compiler and the GPU compiler call a topology's name in their options.
_NAMED = {"tpu": "topology_name", "cuda": "topology"}
# How much of a compiler's message is told.
_MOST = 1500


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


class Cancel(Protocol):
    """What can be asked to stop, such as a `threading.Event`."""

    def is_set(self) -> bool:
        """Whether to stop."""
        ...


@dataclasses.dataclass(frozen=True)
class Progress:
    """What a compilation is at.

    Attributes:
        stage: exporting, starting, lowering, compiling or reading.
        target: what is compiled for.
        seconds: since it began.
    """

    stage: str
    target: str
    seconds: float

    def __str__(self):
        return f"{self.stage} for {self.target}, {self.seconds:.0f} s"


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
    donate = _options(donate, timeout, progress, cancel)
    found = target(name, plan.mesh)
    check_installed(found.platform)
    watch = _Watch(found, timeout, progress, cancel)
    watch.stage("exporting")
    program = exported(plan, found.platform)
    with tempfile.TemporaryDirectory(prefix="meshlab-") as name_of_folder:
        folder = pathlib.Path(name_of_folder)
        request = {
            "platform": found.platform,
            "named": _NAMED[found.platform],
            "topology": found.topology,
            "options": dict(found.options),
            "axes": mesh_axes(plan),
            "order": device_order(found, plan.mesh),
            "donated": donated(plan) if donate else (),
        }
        (folder / "request.json").write_text(json.dumps(request))
        (folder / "program.bin").write_bytes(program)
        answer = _answer(folder, watch)
        text = (folder / "program.hlo").read_text()
    return compiled_from(plan, found, donate, answer, text)


def _options(donate: Any, timeout: Any, progress: Any, cancel: Any) -> bool:
    """Refuses options that are none; returns whether to donate."""
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0:
        raise CompilerError(f"timeout is a number of seconds above 0; compile_for was given {shown(timeout)}.")
    if progress is not None:
        function("compile_for's progress", progress, "progress=print", CompilerError)
    if cancel is not None and not hasattr(cancel, "is_set"):
        raise CompilerError(f"compile_for was given cancel={shown(cancel)}; it must be like a threading.Event.")
    return flag("compile_for", "donate", donate, CompilerError)


class _Watch:
    """The clock of one compilation: it tells of progress, and says when to stop."""

    def __init__(self, found: Target, timeout: float, progress: Callable | None, cancel: Cancel | None):
        self.target, self.timeout, self.progress, self.cancel = found, timeout, progress, cancel
        self.begun = time.monotonic()
        self.told: tuple[str, int] | None = None
        self.now = ""

    @property
    def seconds(self) -> float:
        """Since the compilation began."""
        return time.monotonic() - self.begun

    def stage(self, name: str) -> None:
        """Tells of a stage, if it is new or a second older."""
        self.now = name
        if self.progress is not None and self.told != (name, int(self.seconds)):
            self.told = name, int(self.seconds)
            self.progress(Progress(name, self.target.name, self.seconds))

    def check(self) -> None:
        """Raises where it is time to stop."""
        if self.cancel is not None and self.cancel.is_set():
            raise CompilerError(f"Compiling for {self.target} was cancelled after {self.seconds:.1f} s ({self.now}).")
        if self.seconds > self.timeout:
            raise CompilerError(
                f"Compiling for {self.target} was ended after {self.timeout:g} s, while {self.now}. Give it longer:"
                f" compile_for(plan, {self.target.name!r}, timeout={2 * self.timeout:g}), or compile a smaller program."
            )


def _answer(folder: pathlib.Path, watch: _Watch) -> dict[str, Any]:
    """Runs the compiler's process on a folder, and returns what it answers."""
    root = str(pathlib.Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, (root, folder_of_compilers(), os.environ.get("PYTHONPATH"))))
    # The flags of this process are for its own devices; one that a compiler does not know ends its process.
    inherited = {key: value for key, value in os.environ.items() if key != "XLA_FLAGS"}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "meshlab.cost.compiling", str(folder)],
            # A folder of its own: nothing that lies where the notebook runs is imported in place of a module.
            cwd=folder,
            env=inherited | _ENVIRONMENT | {"PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            # An interrupt from the keyboard reaches this process alone, which then ends that one.
            start_new_session=True,
        )
        try:
            while process.poll() is None:
                stage = folder / "stage"
                watch.stage(stage.read_text() if stage.exists() else "starting")
                watch.check()
                time.sleep(_LOOK)
        finally:
            process.kill()
            process.communicate()
    answer = folder / "answer.json"
    found = json.loads(answer.read_text()) if answer.exists() else {"error": _crash(folder, process.returncode)}
    if "error" in found:
        raise CompilerError(f"The compiler for {watch.target} refuses the plan: {_short(found['error'])}")
    return found


def _crash(folder: pathlib.Path, status: int | None) -> str:
    lines = (folder / "log").read_text(errors="replace").splitlines()
    return f"its process ended with status {status}; its last lines were:\n" + "\n".join(lines[-10:])


def _short(message: str) -> str:
    return message if len(message) <= _MOST else f"{message[:_MOST]} … ({len(message):,} characters)"
