"""Predicts how long a plan takes on the machine of its mesh.

    plan = program.plan(ml.mesh("v5e:4x4", data=16), "batch:data")
    plan.time               lower 3.1 ms, estimate 3.4 ms, upper 4.0 ms: bound by compute
    plan.time.exposed       seconds of exposed communication, which no computation hides
    plan.time.pieces        its kernels and collectives, the largest first, each with what bounds it and `because`
    plan.time.because       which of them takes most of the step, and why
    plan.time.expected      the estimate, times what published steps took longer on this machine
    plan.time.bubble        the share of the step in which a pipeline's stage waits for the others
    plan.time.free_running  the time if stages ran by themselves, and not in lockstep
    plan.time.mfu           model FLOPs utilisation; hfu, hardware FLOPs utilisation

There are three figures, since the overlap of communication and computation is not known beforehand. In the lower bound
everything overlaps: the kernels, and the collectives of each link, whichever takes longest. In the upper bound nothing
does. In the estimate each collective overlaps with the steps that do not wait for it (`schedule`). The lower bound is
at least half of the upper one where there is one link (How to Scale Your Model, "All About Rooflines").
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ...engine.attention.scores import attentions
from ...engine.gc_pause import no_collection
from ...engine.tables import html_rows, text_rows
from ...engine.tensors.dims import Dim
from ..machines.accuracy import TIME, TimeFactor, accuracy, time_factor
from ..machines.hardware import Hardware
from ..machines.units import scaled_text, seconds_text, share_text
from ..machines.xla_substitutes import substituted
from ..workload.attention import CAUSAL, DEFAULT, STORED
from ..workload.expert_loads import Busiest, busiest
from ..workload.linear import AS_WRITTEN, CAST, linear_matmuls
from ..workload.scenario import Numbers, Scenario
from ..workload.token_load import BALANCED
from .pieces import Piece, pieces_of, summary
from .schedule import spend
from .spent import Spent
from .utilisation import (
    TOKENS,
    balance,
    expected_text,
    items,
    of_a_device,
    over,
    seconds_again,
    seconds_at_peak,
    seconds_executed,
)

# What would have to change for each of `Time.ceilings`.
HIDDEN, ONCE = "all communication hidden", "no rematerialisation"
# What a time and a sweep consist of.
FIGURES = (
    *("lower", "estimate", "upper", "expected", "compute", "compute_bound", "memory_bound", "exposed"),
    *("flops", "memory_bytes", "mfu", "bubble"),
)


@dataclasses.dataclass(frozen=True, eq=False)
class Time:
    """Predicted seconds of one run of a plan; arrays where a plan was costed at many points.

    Attributes:
        lower: if everything overlaps that can.
        estimate: if collectives overlap with the steps that do not wait for them.
        upper: if nothing overlaps.
        compute: of all kernels on one device: `compute_bound` + `memory_bound`.
        compute_bound: of the compute-bound kernels, which wait for the matrix units.
        memory_bound: of the memory-bound kernels, which wait for memory, or for their launch.
        communication: of all collectives, by their mesh axes (`"data"`, `"data+model"`).
        exposed: exposed communication: of the estimate, without `compute` and `idle`.
        flops: operations of matmuls on one device.
        memory_bytes: read from and written to memory, on one device.
        scenario: the sizes and the machine.
        spent: the cost, step by step.
    """

    lower: Numbers
    estimate: Numbers
    upper: Numbers
    compute: Numbers
    compute_bound: Numbers
    memory_bound: Numbers
    communication: Mapping[str, Numbers]
    exposed: Numbers
    flops: Numbers
    memory_bytes: Numbers
    scenario: Scenario = dataclasses.field(repr=False)
    spent: Spent = dataclasses.field(repr=False)

    @property
    def idle(self) -> Numbers:
        """What the busiest stage of a pipeline waits for the others; 0 without stages."""
        return self.spent.idle

    @property
    def bubble(self) -> Numbers:
        """The share of `estimate` in which the busiest stage of a pipeline waits for the others; 0 without stages."""
        return over(self.idle, self.estimate)

    @functools.cached_property
    def free_running(self) -> Time:
        """The time if each stage of a pipeline ran by itself, and not in lockstep as the plan does; else the same."""
        return self if self.scenario.options.free_running else self.given(free_running=True)

    @property
    def hardware(self) -> Hardware:
        """The machine."""
        return self.scenario.placements[0].hardware

    @property
    def limited_by(self) -> str:
        """The part that takes longest: "compute", "memory", or "communication over" mesh axes."""
        parts = {"compute": self.compute_bound, "memory": self.memory_bound}
        parts |= {f"communication over {axes}": seconds for axes, seconds in self.communication.items()}
        return max(parts, key=lambda name: float(parts[name]))

    @property
    def expected(self) -> Numbers | None:
        """Seconds as published steps took: the estimate times the machine's factor; None where none is published.

        It is known by no more than `factor.spread`, and where the assumptions about the run are those of the published
        steps: weights are gathered ahead (`given(prefetch=True)`), and attention is computed piece by piece. Of many
        points it is an array, nan where no steps are published.
        """
        factors = self.scenario.of_machine(
            lambda p: getattr(time_factor(p.hardware, self._precision), "factor", math.nan)
        )
        return self.estimate * factors if self.scenario.many or not math.isnan(factors) else None

    @property
    def factor(self) -> TimeFactor | None:
        """The factor between `estimate` and `expected`, with its spread; None where no steps are published."""
        return time_factor(self.hardware, self._precision)

    @property
    def _precision(self) -> str:
        """In which linear matmuls are computed, as of published steps; "" as the program has it."""
        linear = self.scenario.options.linear
        return "" if linear == AS_WRITTEN else linear.upper()

    @functools.cached_property
    def model_flops(self) -> Numbers:
        """A device's share of the model FLOPs: of all matmuls, without those that run a second time, and padding."""
        return of_a_device(self.scenario)

    @functools.cached_property
    def mfu(self) -> Numbers:
        """Model FLOPs utilisation: model FLOPs over those that a device at its peak does in `estimate`."""
        return over(seconds_at_peak(self.scenario), self.estimate)

    @functools.cached_property
    def hfu(self) -> Numbers:
        """Hardware FLOPs utilisation: as `mfu`, of all FLOPs that a device executes, replicated ones too."""
        return over(seconds_executed(self.scenario, self.spent), self.estimate)

    @property
    def flops_per_second(self) -> Numbers:
        """Model FLOP/s of a device, in `estimate`."""
        return over(self.model_flops, self.estimate)

    def per_second(self, *dims: str | Dim) -> Numbers:
        """Returns items per second and device, in `estimate`: tokens are `per_second("batch", "seq")`.

        Args:
            dims: the dims whose sizes multiply to the number of items of a step.

        Raises:
            DimError: no dim is given, one is given twice, or one is no dim of the program.
        """
        return over(items(self.scenario, dims), self.estimate)

    @property
    def executes_more(self) -> bool:
        """Whether devices execute more than the model FLOPs, by more than a thousandth."""
        return bool(self.hfu > self.mfu * (1 + 1e-3))

    @functools.cached_property
    def ceilings(self) -> Mapping[str, Numbers]:
        """What `estimate` would be if all communication were hidden, and if no kernel ran again for the backward pass.

        Each changes one thing: what is sent for kernels that run again is still sent.
        """
        again = seconds_again(self.scenario, self.spent)
        return MappingProxyType({HIDDEN: self.estimate - self.exposed, ONCE: self.estimate - again})

    @functools.cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """The kernels of each line and the collectives, those first that add most to the step; none of many points."""
        return () if self.scenario.many else pieces_of(self.scenario, self.spent)

    @property
    def because(self) -> str:
        """Which piece adds most to the step, and why; "" of many points."""
        return summary(self.pieces, float(self.estimate)) if self.pieces else ""

    @functools.cached_property
    def experts(self) -> tuple[Busiest, ...]:
        """The device that has most rows of each kind of experts, for which all wait; none of many points."""
        return () if self.scenario.many else busiest(self.scenario)

    def given(self, **options: Any) -> Time:
        """Returns the time under other assumptions; see `Options`: `plan.time.given(attention="flash", prefetch=True)`.

        Raises:
            HardwareError: there is no such option, or its value is invalid.
        """
        changed = self.scenario.options.given(**options)
        return time_of(dataclasses.replace(self.scenario, options=changed, _known={}))

    @property
    def recalled(self) -> tuple[str, ...]:
        """The names of the machine's figures that were recalled, not verified."""
        return self.hardware.recalled

    @property
    def substituted(self) -> Mapping[str, int]:
        """The collectives that the compiler substitutes by all-reduces, with counts: see `xla_substitutes`."""
        if self.scenario.many or self.scenario.options.book or not self.scenario.has_plan_sizes:
            return {}
        return substituted(self.scenario.plan, self.scenario.placements[0])

    def rows(self) -> list[tuple[str, str]]:
        """Returns the predictions as names and texts; of the parts those that take any time, or all where none does."""
        if self.scenario.many:
            return [("machines", ", ".join(map(str, self.scenario.placements))), ("points", f"{np.size(self.upper):,}")]
        sent = [(f"communication over {axes}", seconds) for axes, seconds in self.communication.items()]
        parts = [("compute-bound kernels", self.compute_bound), ("memory-bound kernels", self.memory_bound), *sent]
        rows = [
            ("machine", str(self.scenario.placements[0])),
            (
                "estimated step time",
                f"{seconds_text(self.estimate)} ({seconds_text(self.lower)} to {seconds_text(self.upper)})",
            ),
            ("expected step time", expected_text(self.expected, self.factor, str(self.hardware), self._precision)),
            ("bound by", self.limited_by),
            *((name, seconds_text(seconds)) for name, seconds in [part for part in parts if part[1]] or parts),
        ]
        if any(seconds for _, seconds in sent):
            rows.append(("exposed communication", seconds_text(self.exposed)))
        rows += self._rows_of_stages()
        rows += self._rows_of_use()
        if summed := self.substituted:
            rows.append(("replaced by all-reduces", ", ".join(f"{times:,} × {what}" for what, times in summed.items())))
        rows += [("attention", text) for text in [self._attention()] if text]
        rows += [("linear matmuls", text) for text in [self._linear()] if text]
        rows += [("experts", str(each)) for each in self.experts]
        if not self.experts and self.scenario.options.load != BALANCED:
            rows.append(("experts", "this program sends no rows with `ml.dispatch`: `load` has no effect"))
        if self.recalled:
            rows.append(("unverified figures", ", ".join(self.recalled)))
        rows.append(("accuracy", accuracy(TIME, self.hardware, self._precision)["text"]))
        return rows

    def _rows_of_stages(self) -> list[tuple[str, str]]:
        """How long the stages of a pipeline wait, in lockstep and by themselves."""
        schedule, free = self.scenario.plan.schedule, self.free_running
        if schedule is None:
            return []
        rows = [("waiting for other stages", f"{seconds_text(self.idle)}, a bubble of {share_text(self.bubble)}")]
        if free is not self:
            said = f"{seconds_text(free.estimate)} a step, a bubble of {share_text(free.bubble)}"
            rows.append(("if stages ran by themselves", said))
        return rows

    def _attention(self) -> str:
        """How attention is taken to be run; "" where there is none."""
        asked, run = self.scenario.options.attention, self.scenario.attention
        if not attentions(self.scenario.plan.program):
            return "" if asked in (DEFAULT, STORED) else f"none in this program: `{asked}` has no effect"
        if run != CAUSAL:
            return {STORED: "scores are stored"}.get(run, "in a fused kernel, which stores no scores")
        spread = ", balanced over the devices" if self.scenario.options.balanced else ""
        return f"in a fused kernel, which skips what its causal mask hides{spread}"

    def _linear(self) -> str:
        """In which numbers linear matmuls are computed, where that is not as the program has it."""
        if not self._precision:
            return ""
        count = len(linear_matmuls(self.scenario.plan.program))
        if not count:
            return "none in this program: `fp8` has no effect"
        seconds = sum(float(cost.seconds * times) for _, times, cost in self.spent.kernels if cost.name == CAST)
        return f"{count:,} in 8-bit floats, with casts of {seconds_text(seconds)}"

    def _rows_of_use(self) -> list[tuple[str, str]]:
        """How well a step with matmuls uses its devices."""
        rows = []
        if self.model_flops:
            better = [(name, s) for name, s in self.ceilings.items() if 0 < s < self.estimate]
            mfus = [f"{share_text(self.mfu * self.estimate / s)} with {name}" for name, s in better]
            intensity = f"{over(self.flops, self.memory_bytes):,.0f} FLOP/B"
            executed = [("hardware FLOPs utilisation", share_text(self.hfu))] if self.executes_more else []
            rows = [
                ("model FLOPs utilisation", "; ".join([share_text(self.mfu), ", ".join(mfus)][: 1 + bool(mfus)])),
                *executed,
                ("model FLOP/s per device", scaled_text(self.flops_per_second, "FLOP/s")),
                ("arithmetic intensity", f"{intensity} (ridge {balance(self.scenario):,.0f})"),
            ]
        if self.estimate and all(dim in self.scenario.plan.program.dims for dim in TOKENS):
            rows.append(("tokens/s per device", f"{self.per_second(*TOKENS):,.0f}"))
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Returns the figures as JSON-like data, seconds by name, with the machine."""
        return {
            "machine": str(self.scenario.placements[0]),
            **{name: getattr(self, name) for name in FIGURES},
            "factor": None if self.factor is None else dataclasses.asdict(self.factor),
            **self._stages_to_dict(),
            "ceilings": dict(self.ceilings),
            "communication": dict(self.communication),
            "limited_by": self.limited_by,
            "because": self.because,
            "pieces": [dataclasses.asdict(piece) for piece in self.pieces],
            "substituted": dict(self.substituted),
            "recalled": list(self.recalled),
        }

    def _stages_to_dict(self) -> dict[str, Any]:
        """How long the stages of a pipeline wait; nothing without stages."""
        if self.scenario.plan.schedule is None:
            return {}
        free = self.free_running
        by_themselves = {"estimate": free.estimate, "idle": free.idle, "bubble": free.bubble}
        return {"idle": self.idle, "free_running": by_themselves}

    def _repr_html_(self) -> str:
        return html_rows(self.rows())

    def __str__(self):
        return "\n".join(filter(None, (text_rows(self.rows()), self.because)))

    __repr__ = __str__


def time_of(scenario: Scenario) -> Time:
    with no_collection():
        spent = spend(scenario)
    later, earlier = (np.maximum, np.minimum) if scenario.many else (max, min)
    busiest = functools.reduce(later, spent.busy.values(), 0.0)
    # The three are sums of the same seconds in other orders: rounding must not swap them.
    upper = spent.compute + sum(spent.sent.values()) + spent.idle
    estimate = earlier(spent.elapsed, upper)
    return Time(
        lower=earlier(later(spent.compute + spent.idle, busiest), estimate),
        estimate=estimate,
        upper=upper,
        compute=spent.compute,
        compute_bound=spent.compute_bound,
        memory_bound=spent.memory_bound,
        communication=MappingProxyType({"+".join(axes): seconds for axes, seconds in spent.sent.items()}),
        exposed=later(estimate - spent.compute - spent.idle, 0.0),
        flops=spent.flops,
        memory_bytes=spent.nbytes,
        scenario=scenario,
        spent=spent,
    )
