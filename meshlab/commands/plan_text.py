"""Sets a plan for a terminal: what it costs, and its largest collectives with their causes.

program                 llama3-8b
mesh                    data=8 × model=4, 32 devices
layout                  batch:data ffn:model
work per device         3.12% of the FLOPs
estimated step time     …
peak memory per device  20.1 GB of 95.0 GB: it fits
sent per device         1.2 GB a step
  over data             …
collectives             66 all-gathers, …

the largest of 12 collectives, by bytes sent per device and step:

  1.61 GB  all-gather over data of params/layers/up, 64 times  transformer.py:12
           because …
"""

from __future__ import annotations

import dataclasses
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..api.stages import Plan
from ..auto.proof import Proof
from ..cost.machines.meshes import machines_for
from ..cost.machines.units import bytes_text
from ..engine.errors import MeshlabError
from ..engine.plans.collective import Collective
from ..engine.tables import named, text_rows

_LARGEST, _WIDTH = 8, 110


def plan_text(known: Mapping[str, Any], plan: Plan, proof: Proof | None = None) -> str:
    """Returns the text of a plan.

    Args:
        known: what `saved.record` has of it.
        plan: the plan.
        proof: of its layout, where that was searched for.
    """
    parts = [text_rows([("program", known["program"]["name"]), *_rows(plan, known)]), *_collectives(plan.collectives)]
    parts += ["\n".join(known["warnings"])]
    parts += [] if proof is None else [f"proof: {proof}"]
    return "\n\n".join(filter(None, parts))


def _rows(plan: Plan, known: Mapping[str, Any]) -> list[tuple[str, str]]:
    devices = f"{plan.mesh.size:,} device{'s' * (plan.mesh.size != 1)}"
    mesh = str(dataclasses.replace(plan.mesh, on=None))
    rows = [
        ("mesh", devices if not plan.mesh.shape else f"{mesh}, {devices}"),
        ("layout", str(plan.layout) or "nothing is sharded"),
        ("work per device", str(plan.work)),
        *_time(plan),
        ("peak memory per device", _peak(known["donated"])),
        ("sent per device", f"{bytes_text(plan.wire_bytes)} a step"),
        *((f"  over {axes}", bytes_text(count)) for axes, count in known["wire_bytes_by_axes"].items()),
        ("collectives", _counts(plan.collectives)),
    ]
    return rows


def _time(plan: Plan) -> list[tuple[str, str]]:
    if plan.mesh.on is None:
        instead = [f"; add --on {name}, say" for name in machines_for(plan.mesh)[:1]]
        return [("machine", f"none, so no step time is predicted{''.join(instead)}")]
    try:
        return plan.time.rows()
    except MeshlabError as error:  # the machine lacks a figure; all else is known without it
        return [("machine", str(plan.mesh.on)), ("estimated step time", f"not predicted: {error}")]


def _peak(donated: dict[str, Any]) -> str:
    peak = f"{bytes_text(donated['peak_bytes'])}, predicted, with carried arguments donated"
    if "fits" not in donated:
        return peak
    verdict = "it fits" if donated["fits"] else "it does not fit"
    return f"{bytes_text(donated['peak_bytes'])} of {bytes_text(donated['limit_bytes'])}: {verdict}"


def _counts(collectives: Iterable[Any]) -> str:
    """How often each kind of collective runs in a step: "64 all-gathers, 1 all-reduce"."""
    times: Counter[str] = Counter()
    for each in collectives:
        times[each.kind] += each.times
    return ", ".join(f"{count:,} {kind}{'s' * (count != 1)}" for kind, count in times.most_common()) or "none"


def _collectives(collectives: Sequence[Collective]) -> list[str]:
    """The largest collectives, those of the same line and size as one."""
    alike: dict[Any, list[Collective]] = {}
    for each in collectives:
        alike.setdefault((each.kind, each.axes, each.payload_bytes, each.source, each.dims), []).append(each)
    if not alike:
        return []
    largest = sorted(alike.values(), key=_sent, reverse=True)
    head = f"the largest of {len(collectives):,} collectives" if len(largest) > _LARGEST else "collectives"
    lines = [f"{head}, by bytes sent per device and step:"]
    for group in largest[:_LARGEST]:
        lines += _lines(group)
    return ["\n".join(lines)]


def _sent(group: Sequence[Collective]) -> float:
    return sum(each.wire_bytes * each.times for each in group)


def _lines(group: Sequence[Collective]) -> list[str]:
    first, times = group[0], sum(each.times for each in group)
    more = f" and {len(group) - 1} more" if len(group) > 1 else ""
    often = f", {times:,} times" if times > 1 else ""
    head = f"{bytes_text(_sent(group)):>9}  {named(first.kind, first.axes)} of {first.value}{more}{often}"
    because = textwrap.wrap(f"because {first.because}", _WIDTH)
    source = f"  {first.source}" if first.source else ""
    return [f"  {head}{source}", *(f"             {line}" for line in because)]
