"""Machines as data: FLOP/s, bytes and bandwidths of a device, each figure with its source.

    v5e = hardware("v5e")
    v5e.flops_per_second("bfloat16")        # 1.97e14
    v5e.memory_bytes                        # 1.6e10
    v5e.figures["memory.bandwidth"]         # 810e9 bytes/s (How to Scale Your Model, …)

The known machines are TOML files (`data/`). A machine of one's own takes a few lines:

    mine = Hardware.of("mine", flops={"bf16": 4e14}, memory=64e9, bandwidth=2e12, network=Switch.of(8, 2e11))

A figure that was recalled and not looked up again says so wherever it is shown. There are no defaults: asking for a
figure that the machine lacks is an error.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import tomllib
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from ...engine.errors import closest, listed, shown
from .figures import KINDS, Figure, HardwareError, dtype_name, figure, kind_of, no_counts, no_figures, no_rates, refuse
from .matmul_kernels import MatmulKernels, read_kernels
from .networks import InterNode, Switch, Torus
from .protocols import read_protocols

_FOLDER = pathlib.Path(__file__).parent / "data"
# By dtype, the dtypes whose figure stands in where a machine has none of its own.
_ALIKE = {"f16": ("bf16",), "bf16": ("f16",), "fp8": ("bf16",), "fp6": ("fp8", "bf16"), "fp4": ("fp8", "bf16")}
_ALIKE |= {"int4": ("int8",)}
_PLATFORMS = ("tpu", "gpu", "cpu")
# The keys of a machine's file.
_NUMBERS = ("tile", "devices_per_chip", "chips_per_host", "errors")
_FLAGS = ("reduce_scatter_as_all_reduce", "all_gather_as_all_reduce")
_WRITTEN = (
    *"title platform also sources flops memory torus switch protocols matmuls inter_node host efficiency".split(),
    *_NUMBERS,
)


@dataclasses.dataclass(frozen=True)
class Efficiency:
    """The shares of its figures that a machine reaches, the same for all programs and layouts.

    Attributes:
        matmul: of its FLOP/s, in large matmuls whose dims fill the compute units; where its matmul kernels are known,
            their figures count instead.
        memory: of the bandwidth of its memory, in large reads and writes.
        network: of the bandwidth between devices of a node or a slice, in large transfers; within a node whose
            protocols are known, their bandwidths count instead.
        launch: seconds to launch a kernel.
        overlap: by what part of its time a kernel takes longer while a collective runs beside it; None: not known, and
            taken to be none.
        attention: the share of its FLOP/s that fused attention reaches, in one kernel with exponentials between its
            matmuls; None: that of matmuls.
    """

    matmul: Figure
    memory: Figure
    network: Figure
    launch: Figure
    overlap: Figure | None = None
    attention: Figure | None = None

    def __post_init__(self):
        shares = ["matmul", "memory", "network", *(["attention"] if self.attention is not None else [])]
        above = [(n, share) for n in shares if (share := getattr(getattr(self, n), "value", 0)) > 1]
        too_large = [f"`{n}` must be a share of the figures, 0 < {n} ≤ 1, not {share:g}" for n, share in above]
        refuse(
            "efficiency",
            [*no_figures(self, shares, ["launch", *(["overlap"] if self.overlap is not None else [])]), *too_large],
        )

    @classmethod
    def of(
        cls,
        matmul: float = 1.0,
        memory: float = 1.0,
        network: float = 1.0,
        launch: float = 0.0,
        *,
        overlap: float | None = None,
        attention: float | None = None,
    ) -> Efficiency:
        """Makes it from plain numbers; without any, all of the figures."""
        given = {"matmul": matmul, "memory": memory, "network": network, "launch": launch}
        given |= {"overlap": overlap, "attention": attention}
        return cls(**{name: figure(value) for name, value in given.items() if value is not None})


@dataclasses.dataclass(frozen=True)
class Hardware:
    """A machine.

    Attributes:
        name: as in `ml.mesh(on=name)`.
        title: its full name.
        platform: "tpu", "gpu" or "cpu".
        flops: FLOP/s of one chip for dense matmuls, by dtype: `bf16`, `f16`, `f32`, `fp8`, `int8`, …
        memory: bytes of one chip.
        bandwidth: bytes/s between its memory and its compute units.
        network: between the devices of a node or a slice.
        efficiency: the shares of all this that it reaches.
        matmuls: what its matmul kernels reach, if that is known.
        inter_node: the inter-node network, between nodes or slices (DCN), if it is known.
        host: bytes/s between a device and its host, if they are known.
        tile: the least size of a matmul's dim that fills the compute units.
        devices_per_chip: the number of devices that JAX lists for one chip.
        chips_per_host: the number of chips of one host.
        errors: of a measured machine, the median relative error of its predictions, by kind.
    """

    name: str
    title: str
    platform: str
    flops: Mapping[str, Figure]
    memory: Figure
    bandwidth: Figure
    network: Torus | Switch
    efficiency: Efficiency = dataclasses.field(default_factory=Efficiency.of)
    matmuls: MatmulKernels | None = None
    inter_node: InterNode | None = None
    host: Figure | None = None
    tile: int = 128
    devices_per_chip: int = 1
    chips_per_host: int = 8
    errors: Mapping[str, float] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        problems = [
            f"`{name}` must be a name, not {shown(getattr(self, name))}"
            for name in ("name", "title")
            if not isinstance(getattr(self, name), str) or not getattr(self, name)
        ]
        if isinstance(self.name, str) and ":" in self.name:
            problems.append("`name` must not have a `:`, behind which a mesh has the shape of its slice")
        if not isinstance(self.platform, str) or self.platform not in _PLATFORMS:
            near = closest(str(self.platform).lower(), _PLATFORMS)
            problems.append(f"`platform` is {self.platform!r}.{near} There are {listed(_PLATFORMS)}")
        problems += no_rates(self.flops)
        problems += no_figures(self, ["memory", "bandwidth", *(["host"] if self.host is not None else [])])
        if not isinstance(self.network, Torus | Switch):
            problems.append(f"`network` must be an ml.Torus or an ml.Switch, not {shown(self.network)}")
        if not isinstance(self.efficiency, Efficiency):
            problems.append(f"`efficiency` must be an ml.Efficiency, not {shown(self.efficiency)}")
        if not isinstance(self.matmuls, MatmulKernels | None):
            problems.append(f"`matmuls` must be an ml.MatmulKernels, not {shown(self.matmuls)}")
        if not isinstance(self.inter_node, InterNode | None):
            problems.append(f"`inter_node` must be an ml.InterNode, not {shown(self.inter_node)}")
        if not isinstance(self.errors, Mapping) or not all(isinstance(e, int | float) for e in self.errors.values()):
            problems.append(f'`errors` must give relative errors by kind, {{"time": 0.1}}, not {shown(self.errors)}')
        problems += no_counts(self, "tile", "devices_per_chip", "chips_per_host")
        refuse(f"machine {self.name!r}", problems)

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
        """Makes your own machine from plain numbers.

        Args:
            name: its name.
            flops: FLOP/s of one device by dtype: `{"bf16": 4e14}`.
            memory: bytes of one device.
            bandwidth: bytes/s of its memory.
            network: `Torus.of(...)` or `Switch.of(...)`.
            more: further attributes.
        """
        known = [field.name for field in dataclasses.fields(cls)]
        unknown = [key for key in more if key not in known]
        if unknown:
            raise HardwareError(
                f"A machine has no {listed(unknown)}.{closest(unknown[0], known)} It has {listed(known)}."
            )
        is_given = isinstance(flops, Mapping)
        rates: Any = {kind_of(kind): figure(rate) for kind, rate in flops.items()} if is_given else flops
        given = {"title": name, "platform": "gpu", "network": network} | more
        return cls(name, flops=rates, memory=figure(memory), bandwidth=figure(bandwidth), **given)

    @property
    def memory_bytes(self) -> float:
        """Bytes of one device's memory."""
        return self.memory.value / self.devices_per_chip

    @property
    def bytes_per_second(self) -> float:
        """Bytes/s between one device's memory and its compute units."""
        return self.bandwidth.value / self.devices_per_chip

    def rate(self, dtype: Any) -> Figure:
        """Returns the FLOP/s of one chip for dense matmuls in a dtype.

        TPUs compute matmuls of 32-bit floats in one pass of 16 bits, JAX's default precision; CPUs compute matmuls of
        16 bits in 32.

        Raises:
            HardwareError: there is no figure for the dtype.
        """
        kind = kind_of(dtype)
        alike = ("bf16",) if kind == "f32" and self.platform == "tpu" else (kind, *_ALIKE.get(kind, ()))
        alike += ("f32",) if kind in ("bf16", "f16") and self.platform == "cpu" else ()
        for candidate in alike:
            if candidate in self.flops:
                return self.flops[candidate]
        give = f'Give one: dataclasses.replace(machine, flops={{**machine.flops, "{alike[0]}": ml.Figure(...)}})'
        none = f"Machines have figures for {listed(KINDS)} alone"
        raise HardwareError(
            f"{self.title} has no figure for matmuls in {dtype_name(dtype)}; it has {listed(self.flops)}."
            f"{'' if kind in KINDS else closest(dtype, KINDS)} {give if kind in KINDS else none}."
        )

    def flops_per_second(self, dtype: Any) -> float:
        """Returns the FLOP/s of one device for dense matmuls in a dtype; see `rate`."""
        return self.rate(dtype).value / self.devices_per_chip

    def kernels(self, dtype: Any) -> MatmulKernels | None:
        """Returns what its matmul kernels reach in a dtype, if that is known."""
        return None if self.matmuls is None else self.matmuls.of_kind(kind_of(dtype))

    def matmul_share(self, dtype: Any) -> Figure:
        """Returns the share of its FLOP/s that large matmuls reach in a dtype."""
        kernels = self.kernels(dtype)
        return self.efficiency.matmul if kernels is None else kernels.share

    @property
    def ideal(self) -> Hardware:
        """The same machine as textbooks have it: it reaches all of its figures, and there are no latencies.

        No collective is substituted by a compiler.
        """
        none, network = Figure(0.0), self.network
        if isinstance(network, Torus):
            network = dataclasses.replace(network, hop_latency=none, **dict.fromkeys(_FLAGS, False))
        else:
            network = dataclasses.replace(network, base=none, step=none, protocols=None)
        inter_node = self.inter_node and dataclasses.replace(self.inter_node, latency=none)
        return dataclasses.replace(
            self, network=network, inter_node=inter_node, efficiency=Efficiency.of(), matmuls=None
        )

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
        elif isinstance(value, Mapping):
            for key, each in value.items():
                if isinstance(each, Figure):
                    yield f"{name}.{key}", each
                elif dataclasses.is_dataclass(each):
                    yield from _figures(f"{name}.{key}.", each)
        elif dataclasses.is_dataclass(value):
            yield from _figures(f"{name}.", value)


# Reading


@functools.cache
def known() -> Mapping[str, Hardware]:
    return MappingProxyType({path.stem: read(path) for path in sorted(_FOLDER.glob("*.toml"))})


def hardware(name: str | Hardware) -> Hardware:
    """Returns a machine by its name; a machine is returned as it is.

    Raises:
        HardwareError: there is no such machine; the nearest names are listed.
    """
    if isinstance(name, Hardware):
        return name
    machines = known()
    known_name = _spellings().get(str(name).lower())
    if known_name is None:
        raise HardwareError(
            f"There is no machine `{name}`.{closest(str(name).lower(), (*_spellings(), 'attached'))} There are"
            f" {listed(machines)}; `attached` means the attached devices, and ml.Hardware.of(...) describes your own"
            " machine."
        )
    return machines[known_name]


@functools.cache
def _spellings() -> Mapping[str, str]:
    files = {path.stem: tomllib.loads(path.read_text()) for path in _FOLDER.glob("*.toml")}
    return {spelling: name for name, data in files.items() for spelling in (name, *data.get("also", ()))}


def read(path: pathlib.Path) -> Hardware:
    """Reads a machine from TOML; each figure is written `[value, source]`, or `[value, source, "recalled"]`."""
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # no file, no text, no TOML
        raise HardwareError(f"The machine in {path} cannot be read: {error}.") from None
    try:
        return _machine(path.stem, data)
    except (HardwareError, TypeError, AttributeError) as error:  # a table in place of a number, and the like
        raise HardwareError(f"The machine in {path} cannot be used: {error}") from None
    except KeyError as error:
        raise HardwareError(
            f"The machine in {path} lacks {error}. Compare it with a file that `meshlab calibrate` writes, or with"
            " the files in meshlab/cost/machines/data."
        ) from None


def _machine(name: str, data: dict[str, Any]) -> Hardware:
    unknown = [key for key in data if key not in _WRITTEN]
    if unknown:
        raise HardwareError(
            f"There is no key {listed(unknown)}.{closest(unknown[0], _WRITTEN)} There are {listed(_WRITTEN)}."
        )
    sources = data["sources"]

    def figure(entry: Any) -> Figure:
        if not isinstance(entry, list) or not 2 <= len(entry) <= 3 or entry[2:] not in ([], ["recalled"]):
            raise HardwareError(f'A figure must be [value, "source"] or [value, "source", "recalled"], not {entry}.')
        return Figure(entry[0], sources[entry[1]], not entry[2:])

    if "torus" in data:
        torus = data["torus"]
        chip, specified = (figure(torus[name]) if name in torus else None for name in ("chip", "specified"))
        link, latency = figure(torus["link"]), figure(torus["hop_latency"])
        flags = {name: torus[name] for name in _FLAGS if name in torus}
        slices = tuple(map(tuple, torus.get("slices", ())))
        limits = tuple(torus["limits"])
        network = Torus(limits, torus["wraps"], link, latency, chip, specified, slices=slices, **flags)
    else:
        switch = data["switch"]
        figures = (figure(switch[name]) for name in ("egress", "base", "step"))
        ways = read_protocols(data["protocols"], figure) if "protocols" in data else None
        network = Switch(switch["domain"], *figures, protocols=ways)
    inter_node, efficiency, matmuls = data.get("inter_node"), data["efficiency"], data.get("matmuls")
    return Hardware(
        name,
        data["title"],
        data["platform"],
        {kind: figure(entry) for kind, entry in data["flops"].items()},
        figure(data["memory"]["bytes"]),
        figure(data["memory"]["bandwidth"]),
        network,
        Efficiency(**{name: figure(entry) for name, entry in efficiency.items()}),
        read_kernels(matmuls, figure) if matmuls else None,
        InterNode(figure(inter_node["link"]), figure(inter_node["latency"])) if inter_node else None,
        figure(data["host"]["link"]) if "host" in data else None,
        **{key: data[key] for key in _NUMBERS if key in data},
    )
