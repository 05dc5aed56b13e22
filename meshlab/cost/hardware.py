"""Machines as data: what a device computes, holds and sends, each figure with its source.

    v5e = hardware("v5e")
    v5e.flops_per_second("bfloat16")        # 1.97e14
    v5e.memory_bytes                        # 1.6e10
    v5e.figures["memory.bandwidth"]         # 810e9 bytes/s (How to Scale Your Model, …)

The machines that are known lie beside this as TOML, one file each (`machines/`). One's own takes a few lines:

    mine = Hardware.of("mine", flops={"bf16": 4e14}, memory=64e9, bandwidth=2e12, network=Switch.of(8, 2e11))

A figure that was recalled and not looked up again says so wherever it is shown. A figure that nobody gave is missing,
and asking for it is an error: there are no defaults.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import pathlib
import tomllib
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from ..engine.errors import MeshlabError, closest, listed

_FOLDER = pathlib.Path(__file__).parent / "machines"
# How machines call the dtypes whose products they compute; narrow floats are one kind.
_KINDS = {"bfloat16": "bf16", "float16": "f16", "float32": "f32", "float64": "f64", "int8": "int8", "uint8": "int8"}
# Where a machine has no figure of its own for a dtype, that of another that it computes alike.
_ALIKE = {"f16": ("bf16",), "bf16": ("f16",), "f32": (), "f64": (), "int8": (), "fp8": ("bf16",), "int4": ("int8",)}


# Which axes of a slice are rings; see `Torus`.
WRAPS = ("whole", "cubes", "all", "none")


class HardwareError(MeshlabError):
    """A machine, a slice of one, or a figure that there is not."""


@dataclasses.dataclass(frozen=True)
class Figure:
    """A number about a machine.

    Attributes:
        value: in bytes, bytes/s, FLOP/s or seconds.
        source: where it is published.
        verified: whether it was looked up there; otherwise it is recalled.
    """

    value: float
    source: str = "given by the user"
    verified: bool = True

    def __str__(self):
        return f"{self.value:g} ({self.source}{'' if self.verified else '; recalled, not verified'})"


@dataclasses.dataclass(frozen=True)
class Torus:
    """A torus or a grid: each device has two links along each axis.

    Attributes:
        limits: the longest that a slice can be, by axis.
        wraps: which axes of a slice are rings: "whole", those as long as the limit; "cubes", all, if each is a multiple
            of 4; "all"; or "none".
        link: bytes/s of one link, one way.
        hop: seconds from one device to the next.
        chip: bytes/s between two devices of one chip, one way, where a chip has several.
        specified: bytes/s of one link as the maker has it, of which programs see `link`.
    """

    limits: tuple[int, ...]
    wraps: str
    link: Figure
    hop: Figure
    chip: Figure | None = None
    specified: Figure | None = None

    def __post_init__(self):
        if self.wraps not in WRAPS:
            raise HardwareError(
                f"There is no torus that wraps {self.wraps!r}.{closest(str(self.wraps), WRAPS)} There are"
                f" {listed(WRAPS)}: see Torus."
            )

    @classmethod
    def of(cls, *limits: int, link: float, hop: float = 1e-6, wraps: str = "all") -> Torus:
        """Makes a torus from plain numbers."""
        return cls(limits, wraps, Figure(link), Figure(hop))

    @property
    def largest(self) -> int:
        """The number of chips of the largest slice."""
        return math.prod(self.limits)

    def rings(self, shape: tuple[int, ...]) -> tuple[bool, ...]:
        """Which axes of a slice wrap around."""
        if self.wraps == "cubes":
            cubes = all(size % 4 == 0 for size in shape)
            return tuple(cubes and size > 2 for size in shape)
        if self.wraps == "whole":
            return tuple(size == limit for size, limit in zip(shape, self.limits, strict=True))
        return tuple(self.wraps == "all" and size > 2 for size in shape)


@dataclasses.dataclass(frozen=True)
class Switch:
    """Devices behind one switch: a node.

    Attributes:
        domain: how many devices are behind one.
        egress: bytes/s that one device sends.
        base: seconds to begin a collective.
        step: seconds for each step of a ring.
        reduces: whether the switch can add up what passes it; no time counts on that.
    """

    domain: int
    egress: Figure
    base: Figure
    step: Figure
    reduces: bool = False

    @classmethod
    def of(cls, domain: int, egress: float, base: float = 0.0, step: float = 0.0) -> Switch:
        """Makes a switch from plain numbers."""
        return cls(domain, Figure(egress), Figure(base), Figure(step))


@dataclasses.dataclass(frozen=True)
class Outside:
    """The network between nodes or slices.

    Attributes:
        link: bytes/s of one device, one way.
        latency: seconds.
    """

    link: Figure
    latency: Figure


@dataclasses.dataclass(frozen=True)
class Efficiency:
    """What of its figures a machine reaches: one number for each, for all programs and layouts.

    Attributes:
        products: of its FLOP/s, in large products whose dims fill the compute units.
        memory: of the bandwidth of its memory, reading and writing much.
        network: of the bandwidth between devices of a node or a slice, sending much.
        launch: seconds that each kernel takes to begin.
    """

    products: Figure
    memory: Figure
    network: Figure
    launch: Figure

    @classmethod
    def of(cls, products: float = 1.0, memory: float = 1.0, network: float = 1.0, launch: float = 0.0) -> Efficiency:
        """Makes it from plain numbers; without any, all that the figures promise."""
        return cls(Figure(products), Figure(memory), Figure(network), Figure(launch))


@dataclasses.dataclass(frozen=True)
class Hardware:
    """A machine.

    Attributes:
        name: as in `ml.mesh(on=name)`.
        title: its full name.
        platform: "tpu", "gpu" or "cpu".
        flops: FLOP/s of one chip for dense products, by dtype: `bf16`, `f16`, `f32`, `fp8`, `int8`.
        memory: bytes that one chip holds.
        bandwidth: bytes/s between its memory and its compute units.
        network: of the devices of a node or a slice.
        efficiency: what of all this it reaches.
        outside: between nodes or slices, if it is known.
        host: bytes/s between a device and its host, if they are known.
        tile: the least size of a product's dim that fills the compute units.
        devices_per_chip: what JAX lists for one chip.
        chips_per_host: how many chips one host has.
        errors: of a measured machine, how far its predictions were off: the median relative error by kind.
    """

    name: str
    title: str
    platform: str
    flops: Mapping[str, Figure]
    memory: Figure
    bandwidth: Figure
    network: Torus | Switch
    efficiency: Efficiency = dataclasses.field(default_factory=Efficiency.of)
    outside: Outside | None = None
    host: Figure | None = None
    tile: int = 128
    devices_per_chip: int = 1
    chips_per_host: int = 8
    errors: Mapping[str, float] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(
        cls,
        name: str,
        *,
        flops: Mapping[str, float],
        memory: float,
        bandwidth: float,
        network: Torus | Switch,
        **more: Any,
    ) -> Hardware:
        """Makes a machine of one's own from plain numbers.

        Args:
            name: what it is called.
            flops: FLOP/s of one device by dtype: `{"bf16": 4e14}`.
            memory: bytes of one device.
            bandwidth: bytes/s of its memory.
            network: `Torus.of(...)` or `Switch.of(...)`.
            more: further attributes.
        """
        rates = {kind: Figure(rate) for kind, rate in flops.items()}
        made = cls(name, name, "gpu", rates, Figure(memory), Figure(bandwidth), network)
        return dataclasses.replace(made, **more)

    @property
    def memory_bytes(self) -> float:
        """Bytes that one device holds."""
        return self.memory.value / self.devices_per_chip

    @property
    def bytes_per_second(self) -> float:
        """Bytes/s between one device's memory and its compute units."""
        return self.bandwidth.value / self.devices_per_chip

    def rate(self, dtype: Any) -> Figure:
        """Returns the FLOP/s of one chip for dense products in a dtype.

        On TPUs a product of 32-bit floats is computed in one pass of 16 bits, JAX's default precision.

        Raises:
            HardwareError: there is no figure for the dtype.
        """
        kind = _KINDS.get(str(dtype), "fp8" if "float8" in str(dtype) else str(dtype))
        alike = ("bf16",) if kind == "f32" and self.platform == "tpu" else (kind, *_ALIKE.get(kind, ()))
        for candidate in alike:
            if candidate in self.flops:
                return self.flops[candidate]
        raise HardwareError(
            f"{self.title} has no figure for products in {dtype}; it has {listed(self.flops)}. Give one:"
            f' dataclasses.replace(machine, flops={{**machine.flops, "{kind}": Figure(...)}}).'
        )

    def flops_per_second(self, dtype: Any) -> float:
        """Returns the FLOP/s of one device for dense products in a dtype; see `rate`."""
        return self.rate(dtype).value / self.devices_per_chip

    @property
    def ideal(self) -> Hardware:
        """The same machine as the books count it: it reaches all of its figures, and nothing takes time to begin."""
        none, network = Figure(0.0), self.network
        if isinstance(network, Torus):
            network = dataclasses.replace(network, hop=none)
        else:
            network = dataclasses.replace(network, base=none, step=none)
        outside = self.outside and dataclasses.replace(self.outside, latency=none)
        return dataclasses.replace(self, network=network, outside=outside, efficiency=Efficiency.of())

    @property
    def figures(self) -> Mapping[str, Figure]:
        """Every figure by name, with its source."""
        return MappingProxyType(dict(_figures("", self)))

    @property
    def recalled(self) -> tuple[str, ...]:
        """The names of figures that were recalled, not verified."""
        return tuple(name for name, figure in self.figures.items() if not figure.verified)

    def __str__(self):
        return self.title


def _figures(prefix: str, node: Any) -> Iterator[tuple[str, Figure]]:
    for field in dataclasses.fields(node):
        value, name = getattr(node, field.name), f"{prefix}{field.name}"
        if isinstance(value, Figure):
            yield name, value
        elif isinstance(value, Mapping) and field.name == "flops":
            yield from ((f"{name}.{key}", figure) for key, figure in value.items())
        elif dataclasses.is_dataclass(value):
            yield from _figures(f"{name}.", value)


# Reading


@functools.cache
def known() -> Mapping[str, Hardware]:
    """Returns the machines that are known, by name."""
    return MappingProxyType({path.stem: read(path) for path in sorted(_FOLDER.glob("*.toml"))})


def hardware(name: str | Hardware) -> Hardware:
    """Returns a machine by its name; one that is given is returned.

    Raises:
        HardwareError: there is no such machine; the nearest names are told.
    """
    if isinstance(name, Hardware):
        return name
    machines = known()
    found = _spellings().get(str(name).lower())
    if found is None:
        raise HardwareError(
            f"There is no machine `{name}`.{closest(str(name).lower(), _spellings())} There are {listed(machines)};"
            " one's own is made by ml.Hardware.of(...)."
        )
    return machines[found]


@functools.cache
def _spellings() -> Mapping[str, str]:
    files = {path.stem: tomllib.loads(path.read_text()) for path in _FOLDER.glob("*.toml")}
    return {spelling: name for name, data in files.items() for spelling in (name, *data["also"])}


def read(path: pathlib.Path) -> Hardware:
    """Reads a machine from TOML; each figure is written `[value, source]`, or `[value, source, "recalled"]`.

    Raises:
        HardwareError: there is no such file, it is no TOML, or what it says is missing or not as it is written.
    """
    try:
        return _machine(path.stem, tomllib.loads(path.read_text()))
    except (OSError, AttributeError, TypeError, ValueError) as error:
        raise HardwareError(f"The machine in {path} cannot be read: {error}.") from None
    except KeyError as error:
        raise HardwareError(
            f"The machine in {path} lacks {error}. Compare it with what `meshlab calibrate` writes, or with those of"
            " meshlab/cost/machines."
        ) from None


def _machine(name: str, data: dict[str, Any]) -> Hardware:
    sources = data["sources"]

    def figure(entry: list[Any]) -> Figure:
        value, source, *recalled = entry
        return Figure(float(value), sources[source], not recalled)

    if "torus" in data:
        torus = data["torus"]
        chip, specified = (figure(torus[name]) if name in torus else None for name in ("chip", "specified"))
        link, hop = figure(torus["link"]), figure(torus["hop"])
        network = Torus(tuple(torus["limits"]), torus["wraps"], link, hop, chip, specified)
    else:
        switch = data["switch"]
        figures = (figure(switch[name]) for name in ("egress", "base", "step"))
        network = Switch(switch["domain"], *figures, reduces=switch["reduces"])
    outside, more = data.get("outside"), ("tile", "devices_per_chip", "chips_per_host", "errors")
    reached = data["efficiency"]
    return Hardware(
        name,
        data["title"],
        data["platform"],
        {kind: figure(entry) for kind, entry in data["flops"].items()},
        figure(data["memory"]["bytes"]),
        figure(data["memory"]["bandwidth"]),
        network,
        Efficiency(*(figure(reached[field.name]) for field in dataclasses.fields(Efficiency))),
        Outside(figure(outside["link"]), figure(outside["latency"])) if outside else None,
        figure(data["host"]["link"]) if "host" in data else None,
        **{key: data[key] for key in more if key in data},
    )
