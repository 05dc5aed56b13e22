"""Calibration: a machine's figures from what was measured of it, and how far predictions from them are off.

    $ meshlab calibrate --simulate 8
    cpu, 8 devices
      product of 128 x 128 in float32: 124.0 µs
      …
    3.83e+10 FLOP/s in f32
    9.47e+09 bytes/s of memory, beyond caches
    6.1e-07 s for a kernel to begin
    2.8e+09 bytes/s sent by a device, after 0.00024 s
    Predictions are off by (median): copy 5%, all-reduce 13%, all-gather 3%, …
    Written to ~/.config/meshlab/cpu.toml.

Plans on ml.mesh("attached", …) use what was written.

Figures are made of every other size of products and all-gathers, and of the largest additions (`made_of`): the best
that products reached; of memory what the largest additions did; what a collective takes to begin, and what it sends a
second, fitted to the all-gathers. No other measurement has a part in them. All others are then predicted by the model
that plans use, and held against what was measured: the median error of each kind is written down with the figures.
Where repetitions disagree too much for that, as on a machine that does other work, no error is told: that the machine
was busy is said instead, in the report and in the sources of the figures.
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

from ...engine.specs.mesh import Mesh
from .attached import file_of
from .collective_time import KINDS, seconds
from .hardware import Efficiency, Figure, Hardware, HardwareError, Switch, hardware
from .measure import COPY, LAUNCH, PRODUCT, Sample, collectives, copies, launches, products
from .placement import Placement, place
from .toml import to_toml

# Sizes of square products; bytes that are read and written; bytes of the full arrays of collectives.
PRODUCTS = (128, 256, 512, 1024, 2048, 4096, 8192)
COPIES = tuple(2**power for power in range(18, 31, 2))
COLLECTIVES = tuple(2**power for power in range(12, 29, 2))
# Where the middle half of the repetitions lies further apart than this part of the figure, it says nothing in per cent:
# of simulated devices it was 0.1 to 0.4 on an idle machine with two cores, and up to 3 beside three busy loops.
MOST_SPREAD = 0.5
QUICK = {"products": 256, "copies": 2**22, "collectives": 2**18}
# Sizes that CPU devices, which share one memory, can still do in a second.
_LARGEST_ON_CPU = {"products": 1024, "copies": 2**26, "collectives": 2**24}


@dataclasses.dataclass(frozen=True)
class Calibration:
    """What was measured, and the machine that it makes.

    Attributes:
        machine: the figures.
        samples: what they were made of, and what they were held against.
        errors: by kind, the median of |predicted - measured| / measured over what was held out; without those kinds
            whose repetitions disagree (`disturbed`).
    """

    machine: Hardware
    samples: tuple[Sample, ...]
    errors: dict[str, float]

    def __str__(self):
        machine = self.machine
        found = [f"{rate.value:.3g} FLOP/s in {kind}" for kind, rate in machine.flops.items()]
        found.append(f"{machine.bytes_per_second:.3g} bytes/s of memory, beyond caches")
        found.append(f"{machine.efficiency.launch.value:.2g} s for a kernel to begin")
        if any(sample.kind == "all-gather" for sample in self.samples):
            assert isinstance(machine.network, Switch)
            sent, begin = machine.network.egress.value, machine.network.base.value
            found.append(f"{sent:.3g} bytes/s sent by a device, after {begin:.2g} s")
        if self.errors:
            off = ", ".join(f"{kind} {_off(error)}" for kind, error in self.errors.items())
            found.append(f"Predictions are off by (median): {off}.")
        if kinds := disturbed(self.samples):
            found.append(
                f"The machine was busy: repeated measurements of {', '.join(kinds)} disagree by more than"
                f" {MOST_SPREAD:.0%}, so that no error can be told. Repeat `meshlab calibrate` when nothing else runs."
            )
        return "\n".join(found)


def _off(error: float) -> str:
    """A relative error in words; beyond 100% what was predicted is longer, and by how much tells more."""
    return f"{error:.0%}" if error < 1 else f"{1 + error:.1f} times what was measured"


def disturbed(samples: Iterable[Sample]) -> tuple[str, ...]:
    """The kinds whose repetitions disagree: in the median of their sizes by more than `MOST_SPREAD`."""
    spreads: dict[str, list[float]] = {}
    for sample in samples:
        if sample.kind != LAUNCH:  # the least interruption is longer than hundreds of them
            spreads.setdefault(sample.kind, []).append(sample.spread)
    return tuple(kind for kind, found in spreads.items() if statistics.median(found) > MOST_SPREAD)


def destination(kind: str, path: pathlib.Path | None = None) -> pathlib.Path:
    """Returns where a measured machine is written, after an attempt: what cannot be written need not be measured.

    Args:
        kind: of the devices, as JAX names it.
        path: another place than that where `ml.mesh("attached", …)` looks for it.

    Raises:
        HardwareError: there is something else than a file, or none can be written there.
    """
    where = path or file_of(kind)
    try:
        if where.exists() and not where.is_file():
            raise HardwareError(
                f"The figures cannot be written to {where}, which is {'a folder' if where.is_dir() else 'no file'}."
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
    """Where a file is written first: whole or not at all, since half a machine would be read as one without figures."""
    return where.with_name(f"{where.name}.part")


def _unwritten(where: pathlib.Path, error: OSError) -> HardwareError:
    return HardwareError(
        f"The figures cannot be written to {where} ({error}). Give a file that you may write: --output machine.toml."
    )


def save(calibration: Calibration, kind: str, path: pathlib.Path | None = None) -> pathlib.Path:
    """Writes a measured machine where `ml.mesh("attached", …)` looks for it.

    Args:
        calibration: what was measured.
        kind: of the devices, as JAX names it.
        path: another place to write to.

    Returns:
        Where it was written.

    Raises:
        HardwareError: nothing can be written there.
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
    """Measures devices and makes a machine of them.

    Args:
        devices: as JAX lists them; None for all that are attached.
        largest: the largest sizes: `products` (rows of a square product), `copies` and `collectives` (bytes).
        progress: is called with every measurement.

    Returns:
        The `Calibration`.

    Raises:
        HardwareError: there are no devices.
    """
    found = list(jax.devices() if devices is None else devices)
    if not found:
        raise HardwareError("There are no devices to measure.")
    is_cpu = found[0].platform == "cpu"
    limits = {"products": 8192, "copies": 2**30, "collectives": 2**28} | (_LARGEST_ON_CPU if is_cpu else {})
    limits |= largest or {}
    dtypes = (jnp.float32,) if is_cpu else (jnp.bfloat16, jnp.float32)
    runs: Iterable[Sample] = itertools.chain(
        products(found, dtypes, [size for size in PRODUCTS if size <= limits["products"]]),
        copies(found, [size for size in COPIES if size <= limits["copies"]]),
        launches(found),
        collectives(found, [size for size in COLLECTIVES if size <= limits["collectives"]]) if len(found) > 1 else (),
    )
    samples = []
    for sample in runs:
        samples.append(sample)
        progress(sample)
    machine = fitted(found, samples)
    return Calibration(machine, tuple(samples), errors(machine, len(found), samples))


def made_of(samples: Sequence[Sample]) -> tuple[Sample, ...]:
    """The samples that figures are made of; all others are held against them.

    Of each kind and dtype every other size, the largest among them; of copies the largest alone, in which what it takes
    to begin counts least; and all launches, of which nothing is predicted.
    """
    groups: dict[tuple[str, str], list[Sample]] = {}
    for sample in sorted(samples, key=lambda sample: -sample.size):
        groups.setdefault((sample.kind, sample.dtype), []).append(sample)
    taken = {PRODUCT: slice(None, None, 2), "all-gather": slice(None, None, 2), COPY: slice(1), LAUNCH: slice(None)}
    return tuple(sample for (kind, _), group in groups.items() for sample in group[taken.get(kind, slice(0))])


def fitted(devices: Sequence[Any], samples: Sequence[Sample]) -> Hardware:
    """Returns the machine whose figures fit best what they are made of."""
    device, plural = devices[0], "s" * (len(devices) != 1)
    source, busy = f"measured with jax {jax.__version__} on {len(devices)} device{plural}", disturbed(samples)

    def figure(value: float, kind: str = "") -> Figure:
        return Figure(value, source + (", while the machine was busy" if kind in busy else ""))

    used = made_of(samples)
    rates: dict[str, float] = {}
    for sample in used:
        if sample.kind == PRODUCT:
            kind = {"bfloat16": "bf16", "float32": "f32"}[sample.dtype]
            rates[kind] = max(rates.get(kind, 0.0), 2 * sample.size**3 / sample.seconds)
    moved = max((sample.size / sample.seconds for sample in used if sample.kind == COPY), default=1.0)
    launch = min((sample.seconds for sample in used if sample.kind == LAUNCH), default=0.0)
    begin, sent = _line([sample for sample in used if sample.kind == "all-gather"], len(devices))
    like = _like(device)
    made = Hardware(
        name="attached",
        title=f"{device.device_kind}, as measured",
        platform=device.platform,
        flops={kind: figure(rate, PRODUCT) for kind, rate in rates.items()},
        memory=figure(_memory(device, len(devices))),
        bandwidth=figure(moved, COPY),
        network=Switch(max(len(devices), 1), figure(sent, "all-gather"), figure(begin, "all-gather"), figure(0.0)),
        efficiency=Efficiency(figure(1.0), figure(1.0), figure(1.0), figure(launch)),
        outside=like.outside if like else None,
        tile=like.tile if like else 1,
    )
    return made


def _line(gathers: Sequence[Sample], n: int) -> tuple[float, float]:
    """Seconds to begin and bytes/s of one device, from all-gathers.

    Weighted least squares, in relative errors: what is short counts as much as what is long.
    """
    if not gathers:
        return 0.0, 1.0
    taken = np.array([sample.size * (n - 1) / n for sample in gathers])
    measured = np.array([sample.seconds for sample in gathers])
    columns = np.stack([1 / measured, taken / measured], axis=1)
    begin, each = np.linalg.lstsq(columns, np.ones(len(gathers)), rcond=None)[0]
    return max(float(begin), 0.0), 1 / max(float(each), 1e-15)


def _memory(device: Any, count: int) -> float:
    """Bytes of one device, as it tells them; simulated devices have the machine's, in equal parts."""
    stats = device.memory_stats() or {}
    if "bytes_limit" in stats:
        return float(stats["bytes_limit"])
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) / count


def _like(device: Any) -> Hardware | None:
    """The known machine that a device is called after, for what cannot be measured here."""
    for name in reversed(device.device_kind.lower().replace("lite", "e").split()):
        try:
            return hardware(name)
        except HardwareError:
            continue
    return None


def errors(machine: Hardware, n: int, samples: Sequence[Sample]) -> dict[str, float]:
    """By kind, the median error of what the machine predicts for the samples that its figures are not made of.

    Kinds whose repetitions disagree (`disturbed`) are left out: what is there to be held against is not known.
    """
    placed = place(machine, None, Mesh((("device", n),)))
    without = (LAUNCH, *disturbed(samples))
    used = made_of(samples)
    found: dict[str, list[float]] = {kind: [] for kind in (PRODUCT, COPY, *KINDS)}
    for sample in samples:
        if sample.kind not in without and sample not in used:
            predicted = _predicted(machine, placed, sample)
            found[sample.kind].append(abs(predicted - sample.seconds) / sample.seconds)
    return {kind: statistics.median(each) for kind, each in found.items() if each}


def _predicted(machine: Hardware, placed: Placement, sample: Sample) -> float:
    """Seconds that a machine is predicted to take for what was measured."""
    if sample.kind not in (PRODUCT, COPY):
        return seconds(sample.kind, sample.size, placed, ("device",))
    if sample.kind == PRODUCT:
        busy = 2 * sample.size**3 / machine.flops_per_second(sample.dtype)
    else:
        busy = sample.size / machine.bytes_per_second
    return max(busy, machine.efficiency.launch.value)
