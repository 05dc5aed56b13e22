"""`meshlab doctor` tries the attached devices, and prints one report, to be pasted where somebody asks for help.

Each part stands by itself: one that fails is in the report with its error, and the others follow.
"""

from __future__ import annotations

import argparse
import dataclasses
import platform
import statistics
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from typing import Any

import jax

from ..api.stages import Plan, Program
from ..api.trace import trace
from ..cost.machines import calibration
from ..cost.machines.hardware import Hardware
from ..cost.machines.meshes import mesh as make_mesh
from ..cost.machines.units import seconds_text
from ..engine import attached_devices
from ..engine.devices import devices
from ..engine.ops.dot import dot
from ..engine.ops.elementwise import relu, square
from ..engine.programs.random_arguments import drawn_arguments
from ..engine.specs.mesh import Mesh
from ..engine.tables import mark
from ..engine.tensors.abstract import f32
from ..engine.tensors.dims import dims
from ..version import __version__
from .exits import DONE, WORSE
from .words import simulate_as_asked

# Of the network that is planned: batch, embed and ffn, on simulated devices and on others.
_SIZES = {True: (256, 256, 1024), False: (4096, 4096, 16384)}
_LAYOUT = "batch:data ffn:model"
_STEPS = 21


def add(verbs: Any):
    parser = verbs.add_parser(
        "doctor",
        help="try the attached devices, and print a report",
        description="Try the attached devices for a minute or two, and print one report: what is attached, in which"
        " order, how fast its links are, a plan checked, and its step predicted beside measured. Nothing is written.",
        allow_abbrev=False,
    )
    parser.add_argument("--simulate", type=int, metavar="N", help="try N simulated CPU devices instead")
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace, others: Sequence[str] = ()) -> int:
    """Prints the report; returns the exit status."""
    simulate_as_asked(options.simulate)
    tried = _Tried()
    good = True
    for name, part in (
        ("versions", _versions),
        ("devices", tried.devices),
        ("order", tried.order),
        ("measured", tried.measured),
        ("checked", tried.checked),
        ("step", tried.step),
    ):
        print(f"== {name}", flush=True)
        good = _shown(part) and good
    print(f"== {'all parts are well' if good else 'something is wrong: see above'}")
    return DONE if good else WORSE


def _shown(part: Callable[[], Iterator[str]]) -> bool:
    """Prints a part of the report; returns whether it is well. An error is told with where it was raised."""
    good = True
    try:
        for text in part():
            print(text, flush=True)
            good = good and not text.startswith(mark(False))
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        print(f"{mark(False)} {type(error).__name__}: {error} ({where.filename}:{where.lineno})")
        return False
    return good


def _versions() -> Iterator[str]:
    installed = ", ".join(f"{name} {version(name)}" for name in ("jax", "jaxlib", "numpy"))
    yield f"meshlab {__version__}, {installed}, Python {platform.python_version()}, {platform.platform()}"


@dataclasses.dataclass
class _Tried:
    """What the parts of a report share: the machine as it was measured, and the plan that is checked."""

    machine: Hardware | None = None
    plan: Plan | None = None

    def devices(self) -> Iterator[str]:
        yield str(attached_devices.devices())

    def order(self) -> Iterator[str]:
        mesh = _mesh()
        yield f"The mesh {mesh} takes, in this order:"
        for device in devices(mesh.size, mesh.order):
            at = f" at {tuple(device.coords)}" if hasattr(device, "coords") else ""
            yield f"  device {device.id} of process {device.process_index}{at}"

    def measured(self) -> Iterator[str]:
        found = calibration.calibrate(devices(_mesh().size), largest=calibration.QUICK)
        self.machine = found.machine
        yield str(found)

    def checked(self) -> Iterator[str]:
        self.plan = _program().plan(_mesh(self.machine), _LAYOUT)
        yield f"A step of two matmuls, {_LAYOUT} on {self.plan.mesh}:"
        yield str(self.plan.check())

    def step(self) -> Iterator[str]:
        if self.plan is None or self.machine is None:
            yield "No step was timed: a part above has failed."
            return
        predicted, measured = float(self.plan.time.estimate), _seconds(self.plan)
        ratio = f"{predicted / measured:.2f}"
        yield f"predicted {seconds_text(predicted)}, measured {seconds_text(measured)}: a ratio of {ratio}"
        if jax.default_backend() == "cpu":
            yield "Simulated devices share this machine's cores: their times say nothing about accelerators."


def _mesh(machine: Hardware | None = None) -> Mesh:
    """Returns a mesh of the largest power of two of devices, up to eight."""
    count = 1 << (min(len(jax.devices()), 8).bit_length() - 1)
    model = 2 if count > 1 else 1
    return make_mesh(machine, data=count // model, model=model)


def _program() -> Program:
    """A step of training of two matmuls, as large as the devices are quick."""
    sizes = _SIZES[jax.default_backend() == "cpu"]
    batch, embed, ffn = dims(**dict(zip(("batch", "embed", "ffn"), sizes, strict=True)))

    def loss(params: Any, x: Any) -> Any:
        hidden = relu(dot(x, params["up"], "embed"))
        return square(dot(hidden, params["down"], "ffn") - x).mean()

    def step(params: Any, x: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(params, x)
        return value, jax.tree.map(lambda w, g: w - 1e-3 * g, params, grads)

    return trace(step, {"up": f32[embed, ffn], "down": f32[ffn, embed]}, f32[batch, embed], carry={"params": 1})


def _seconds(plan: Plan) -> float:
    """Returns the median seconds of a step that goes on from the one before, without the first two."""
    params, x = drawn_arguments(plan.program)
    x = jax.device_put(x, plan.shardings[0][1])
    times = []
    for _ in range(_STEPS + 2):
        begin = time.perf_counter()
        _, params = jax.block_until_ready(plan.run(params, x, donate=True))
        times.append(time.perf_counter() - begin)
    return statistics.median(times[2:])
