"""Calibration makes a machine's figures from measurements of it, and tests predictions from them on the others.

    $ meshlab calibrate --simulate 8
    cpu, 8 devices
      matmul of 128 x 128 in float32: 124 µs
      …
    38.3 GFLOP/s in f32
    9.47 GB/s of memory, beyond caches
    0.61 µs to launch a kernel
    2.8 GB/s sent by a device, after 240 µs
    Predictions are off by (median): copy 5%, all-reduce 13%, all-gather 3%, …
    Written to ~/.config/meshlab/cpu.toml.

Plans on ml.mesh("attached", …) use what was written.

Figures are fitted to every other size of matmuls and all-gathers, and to the largest copies (`training_samples`): the
best rate of the matmuls; the memory bandwidth of the largest copies; latency and bandwidth of collectives, by least
squares from the all-gathers. All other measurements are held out: the model that plans use predicts them, and the
median error of each kind is written down with the figures. Where repetitions disagree too much for that, as on a
machine that does other work, there is no error: the report, and the sources of the figures, say that the machine was
busy.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import pathlib
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...engine.collectives.kinds import ALL_GATHER
from ...engine.specs.mesh import Mesh
from .attached import file_of
from .collective_time import KINDS, seconds
from .hardware import Efficiency, Figure, Hardware, HardwareError, Switch, hardware
from .measure import COPY, LAUNCH, MATMUL, Sample, collectives, copies, launches, matmuls
from .placed import Placement
from .placement import place_mesh
from .toml import to_toml
from .units import scaled_text, seconds_text

# Sizes of square matmuls; bytes that copies read and write; bytes of the full arrays of collectives.
MATMULS = (128, 256, 512, 1024, 2048, 4096, 8192)
COPIES = tuple(2**power for power in range(18, 31, 2))
COLLECTIVES = tuple(2**power for power in range(12, 29, 2))
# The largest relative spread, of the middle half of the repetitions, at which an error means anything: for simulated
# devices it was 0.1 to 0.4 on an idle machine with two cores, and up to 3 beside three busy loops.
MOST_SPREAD = 0.5
QUICK = {"matmuls": 256, "copies": 2**22, "collectives": 2**18}
# The largest sizes that CPU devices, which share one memory, finish within a second.
_LARGEST_ON_CPU = {"matmuls": 1024, "copies": 2**26, "collectives": 2**24}


@dataclasses.dataclass(frozen=True)
class Calibration:
    """A measured machine, with its measurements.

    Attributes:
        machine: its figures.
        samples: all measurements, those that figures are fitted to and those that are held out.
        errors: by kind, the median of |predicted - measured| / measured over the held-out samples; without those kinds
            whose repetitions disagree (`disturbed`).
    """

    machine: Hardware
    samples: tuple[Sample, ...]
    errors: dict[str, float]

    def __str__(self):
        machine = self.machine
        lines = [f"{scaled_text(rate.value, 'FLOP/s')} in {kind}" for kind, rate in machine.flops.items()]
        lines.append(f"{scaled_text(machine.bytes_per_second, 'B/s')} of memory, beyond caches")
        lines.append(f"{seconds_text(machine.efficiency.launch.value)} to launch a kernel")
        if any(sample.kind == ALL_GATHER.name for sample in self.samples):
            assert isinstance(machine.network, Switch)
            sent, begin = scaled_text(machine.network.egress.value, "B/s"), seconds_text(machine.network.base.value)
            lines.append(f"{sent} sent by a device, after {begin}")
        if self.errors:
            off = ", ".join(f"{kind} {_off(error)}" for kind, error in self.errors.items())
            lines.append(f"Predictions are off by (median): {off}.")
        if kinds := disturbed(self.samples):
            lines.append(
                f"The machine was busy: repeated measurements of {', '.join(kinds)} disagree by more than"
                f" {MOST_SPREAD:.0%}: their error is unknown. Repeat `meshlab calibrate` when nothing else runs."
            )
        return "\n".join(lines)


def _off(error: float) -> str:
    """A relative error as text: a percentage, or how many times longer the prediction is."""
    return f"{error:.0%}" if error < 1 else f"{1 + error:.1f} times what was measured"


def disturbed(samples: Iterable[Sample]) -> tuple[str, ...]:
    """Returns the kinds whose repetitions disagree: in the median of their sizes by more than `MOST_SPREAD`."""
    spreads: dict[str, list[float]] = {}
    for sample in samples:
        if sample.kind != LAUNCH:  # the least interruption is longer than hundreds of them
            spreads.setdefault(sample.kind, []).append(sample.spread)
    return tuple(kind for kind, each in spreads.items() if statistics.median(each) > MOST_SPREAD)


def destination(kind: str, path: pathlib.Path | None = None) -> pathlib.Path:
    """Returns where a measured machine is written, after a trial: measuring is in vain if nothing can be written.

    Args:
        kind: of the devices, as JAX names it.
        path: another file than the one that `ml.mesh("attached", …)` reads.
    """
    where = path or file_of(kind)
    try:
        if where.exists() and not where.is_file():
            raise HardwareError(
                f"The figures cannot be written to {where}, which is {'a folder' if where.is_dir() else 'not a file'}."
                f" Give the name of a file: --output {where / 'machine.toml' if where.is_dir() else 'machine.toml'}."
            )
        where.parent.mkdir(parents=True, exist_ok=True)
        partial = _partial(where)
        partial.touch()
        partial.unlink()
    except OSError as error:
        raise _unwritten(where, error) from None
    return where


def _partial(where: pathlib.Path) -> pathlib.Path:
    """The file that is written first and then renamed, so that nobody reads half a machine."""
    return where.with_name(f"{where.name}.part")


def _unwritten(where: pathlib.Path, error: OSError) -> HardwareError:
    return HardwareError(
        f"The figures cannot be written to {where} ({error}). Give a file that you may write: --output machine.toml."
    )


def save(calibration: Calibration, kind: str, path: pathlib.Path | None = None) -> pathlib.Path:
    """Writes a measured machine where `ml.mesh("attached", …)` looks for it, and returns that place.

    Args:
        calibration: the measured machine.
        kind: of the devices, as JAX names it.
        path: another place to write to.
    """
    where = destination(kind, path)
    partial = _partial(where)
    try:
        partial.write_text(
            to_toml(dataclasses.replace(calibration.machine, errors=calibration.errors)), encoding="utf-8"
        )
        partial.replace(where)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise _unwritten(where, error) from None
    return where


def calibrate(
    devices: Sequence[Any] | None = None,
    *,
    largest: dict[str, int] | None = None,
    progress: Callable[[Sample], Any] = lambda sample: None,
) -> Calibration:
    """Measures devices and returns them as a machine.

    Args:
        devices: as JAX lists them; None for all that are attached.
        largest: the largest sizes: `matmuls` (rows of a square matmul), `copies` and `collectives` (bytes).
        progress: called with each measurement.
    """
    chosen = list(jax.devices() if devices is None else devices)
    if not chosen:
        raise HardwareError("There are no devices to measure.")
    is_cpu = chosen[0].platform == "cpu"
    limits = {"matmuls": 8192, "copies": 2**30, "collectives": 2**28} | (_LARGEST_ON_CPU if is_cpu else {})
    limits |= largest or {}
    dtypes = (jnp.float32,) if is_cpu else (jnp.bfloat16, jnp.float32)
    runs: Iterable[Sample] = itertools.chain(
        matmuls(chosen, dtypes, [size for size in MATMULS if size <= limits["matmuls"]]),
        copies(chosen, [size for size in COPIES if size <= limits["copies"]]),
        launches(chosen),
        collectives(chosen, [size for size in COLLECTIVES if size <= limits["collectives"]]) if len(chosen) > 1 else (),
    )
    samples = []
    for sample in runs:
        samples.append(sample)
        progress(sample)
    machine = fitted(chosen, samples)
    return Calibration(machine, tuple(samples), errors(machine, len(chosen), samples))


def training_samples(samples: Sequence[Sample]) -> tuple[Sample, ...]:
    """Returns the samples that figures are fitted to; all others are held out.

    Of each kind and dtype every other size, the largest included; of copies the largest alone, in which the launch
    counts least; and all launches, of which nothing is predicted.
    """
    groups: dict[tuple[str, str], list[Sample]] = {}
    for sample in sorted(samples, key=lambda sample: -sample.size):
        groups.setdefault((sample.kind, sample.dtype), []).append(sample)
    taken = {MATMUL: slice(None, None, 2), ALL_GATHER.name: slice(None, None, 2), COPY: slice(1), LAUNCH: slice(None)}
    return tuple(sample for (kind, _), group in groups.items() for sample in group[taken.get(kind, slice(0))])


def fitted(devices: Sequence[Any], samples: Sequence[Sample]) -> Hardware:
    """Returns the machine whose figures fit the training samples best."""
    device, plural = devices[0], "s" * (len(devices) != 1)
    source, busy = f"measured with jax {jax.__version__} on {len(devices)} device{plural}", disturbed(samples)

    def figure(value: float, kind: str = "") -> Figure:
        return Figure(value, source + (", while the machine was busy" if kind in busy else ""))

    training = training_samples(samples)
    rates: dict[str, float] = {}
    for sample in training:
        if sample.kind == MATMUL:
            kind = {"bfloat16": "bf16", "float32": "f32"}[sample.dtype]
            rates[kind] = max(rates.get(kind, 0.0), 2 * sample.size**3 / sample.seconds)
    moved = max((sample.size / sample.seconds for sample in training if sample.kind == COPY), default=1.0)
    launch = min((sample.seconds for sample in training if sample.kind == LAUNCH), default=0.0)
    begin, sent = _line([sample for sample in training if sample.kind == ALL_GATHER.name], len(devices))
    like = _like(device)
    return Hardware(
        name="attached",
        title=f"{device.device_kind}, as measured",
        platform=device.platform,
        flops={kind: figure(rate, MATMUL) for kind, rate in rates.items()},
        memory=figure(_memory(device, len(devices))),
        bandwidth=figure(moved, COPY),
        network=Switch(
            max(len(devices), 1), figure(sent, ALL_GATHER.name), figure(begin, ALL_GATHER.name), figure(0.0)
        ),
        efficiency=Efficiency(figure(1.0), figure(1.0), figure(1.0), figure(launch)),
        inter_node=like.inter_node if like else None,
        tile=like.tile if like else 1,
    )


def _line(gathers: Sequence[Sample], n: int) -> tuple[float, float]:
    """Latency in seconds and bandwidth in bytes/s of one device, fitted to all-gathers.

    Weighted least squares, in relative errors: short ones count as much as long ones.
    """
    if not gathers:
        return 0.0, 1.0
    received = np.array([sample.size * (n - 1) / n for sample in gathers])
    measured = np.array([sample.seconds for sample in gathers])
    columns = np.stack([1 / measured, received / measured], axis=1)
    begin, each = np.linalg.lstsq(columns, np.ones(len(gathers)), rcond=None)[0]
    return max(float(begin), 0.0), 1 / max(float(each), 1e-15)


def _memory(device: Any, count: int) -> float:
    """Bytes of one device, as JAX reports them; simulated devices share the machine's in equal parts."""
    stats = device.memory_stats() or {}
    if "bytes_limit" in stats:
        return float(stats["bytes_limit"])
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) / count


def _like(device: Any) -> Hardware | None:
    """The known machine that a device's name contains, for the figures that nothing here measures."""
    for name in reversed(device.device_kind.lower().replace("lite", "e").split()):
        try:
            return hardware(name)
        except HardwareError:
            continue
    return None


def errors(machine: Hardware, n: int, samples: Sequence[Sample]) -> dict[str, float]:
    """Returns the median error, by kind, of what the machine predicts for the held-out samples.

    Kinds whose repetitions disagree (`disturbed`) are left out: their true seconds are unknown.
    """
    placed = place_mesh(machine, None, Mesh((("device", n),)))
    without = (LAUNCH, *disturbed(samples))
    training = training_samples(samples)
    by_kind: dict[str, list[float]] = {kind: [] for kind in (MATMUL, COPY, *KINDS)}
    for sample in samples:
        if sample.kind not in without and sample not in training:
            predicted = _predicted(machine, placed, sample)
            by_kind[sample.kind].append(abs(predicted - sample.seconds) / sample.seconds)
    return {kind: statistics.median(each) for kind, each in by_kind.items() if each}


def _predicted(machine: Hardware, placed: Placement, sample: Sample) -> float:
    """The seconds that the model predicts for a measured operation."""
    if sample.kind not in (MATMUL, COPY):
        return seconds(sample.kind, sample.size, placed, ("device",))
    if sample.kind == MATMUL:
        busy = 2 * sample.size**3 / machine.flops_per_second(sample.dtype)
    else:
        busy = sample.size / machine.bytes_per_second
    return max(busy, machine.efficiency.launch.value)
