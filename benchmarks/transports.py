"""Published steps with experts, whose tokens are gathered or sent by all-to-alls, held against what is predicted.

    python -m benchmarks.transports                    prints the table
    python -m benchmarks.transports docs/accuracy.md   writes it between the marks of that page

Marin ran one model on 32 GPUs of one GB200 domain with experts over 4 to 32 of them, by both transports
(https://github.com/marin-community/marin/issues/7012). What differs between their rows is how tokens reach experts; so
one layer of experts is planned, forward and backward with everything computed again, under both: which transport is
faster, and from how many devices on? Each device has as many sequences as in the runs on eight GPUs of that thread.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from typing import Any

import jax

import meshlab as ml
from benchmarks.pages import Section
from meshlab.cost.machines.units import seconds_text

SECTION = Section("transports")
DEVICES, SEQUENCES = 32, 16
DROPLESS, GATHERED = TRANSPORTS = "dropless", "gathered"
# Percent of the peak FLOP/s that steps reached, by how many devices experts are split over: dropless, gathered.
MEASURED = {4: (12.1, 14.3), 8: (12.2, 13.5), 16: (12.3, 11.8), 32: (12.3, 9.5)}
# The machine that was measured, and one of another kind.
MACHINES = {"gb200": "gb200:1x1x32", "v5p": "v5p:2x4x4"}


@dataclasses.dataclass(frozen=True)
class Row:
    """Both transports, with experts over so many devices.

    Attributes:
        experts: how many devices experts are split over.
        measured: percent of the peak FLOP/s, by transport.
        predicted: seconds of one layer of experts, by transport.
    """

    experts: int
    measured: tuple[float, float]
    predicted: tuple[float, float]

    @property
    def faster(self) -> tuple[str, str]:
        """The transport that was measured to be faster, and the one that is predicted to be."""
        dropless, gathered = self.measured
        one, other = self.predicted
        return TRANSPORTS[gathered > dropless], TRANSPORTS[other < one]


@functools.cache
def layer() -> ml.Program:
    """Returns a layer of 64 experts, of which each token chooses 4, with its gradients."""
    batch, seq, embed, ffn = ml.dims(batch=DEVICES * SEQUENCES, seq=4096, embed=2560, ffn=1280)
    routes, experts, k = ml.dims(routes=64, experts=64, k=4)

    @ml.checkpoint
    def forward(params: Any, x: Any) -> Any:
        shares = ml.softmax(ml.dot(x, params["router"], embed), routes)
        weights, choice = ml.top_k(shares, routes, k)
        with jax.named_scope("experts"):
            rows, sent = ml.dispatch(x, choice, experts, factor=1)
            inside = [ml.ragged_dot(rows, params[name], sent, embed) for name in ("gate", "up")]
            return ml.combine(ml.ragged_dot(ml.silu(inside[0]) * inside[1], params["down"], sent, ffn), sent, weights)

    def step(params: Any, x: Any, cotangent: Any) -> Any:
        out, back = jax.vjp(forward, params, x)
        return out, back(cotangent)

    params = {"router": ml.bf16[embed, routes], "down": ml.bf16[experts, ffn, embed]}
    params |= dict.fromkeys(("gate", "up"), ml.bf16[experts, embed, ffn])
    tokens = ml.bf16[batch, seq, embed]
    return ml.trace(step, params, tokens, tokens)


def predicted(machine: str, experts: int, transport: str) -> float:
    """Returns the seconds of a layer of experts."""
    program = layer()
    mesh = ml.mesh(machine, data=DEVICES // experts, expert=experts)
    beside = "batch:data+expert"
    layout = ml.layouts.expert_parallel(program, mesh, expert="expert", beside=beside, transport=transport)
    return float(program.plan(mesh, layout).time.estimate)


@functools.cache
def rows(machine: str) -> tuple[Row, ...]:
    """Returns all published rows, with what is predicted on a machine."""
    return tuple(
        Row(experts, measured, (predicted(machine, experts, DROPLESS), predicted(machine, experts, GATHERED)))
        for experts, measured in MEASURED.items()
    )


def right(machine: str) -> list[int]:
    """Returns over how many devices experts are where the transport that was faster is predicted to be."""
    return [row.experts for row in rows(machine) if len(set(row.faster)) == 1]


def table() -> str:
    """Returns the section: on which rows the order is right, and the rows."""
    names = ", ".join(f"{len(right(machine))} of {len(MEASURED)} rows on {name}" for name, machine in MACHINES.items())
    columns = [f"{who}, {kind}" for who in ("measured", *MACHINES) for kind in ("all-to-all", "gathered")]
    lines = [
        f"The transport that was faster on GB200 is predicted to be faster in {names}.",
        "",
        f"| experts over | {' | '.join(columns)} |",
        f"| ---: |{' ---: |' * len(columns)}",
    ]
    for every in zip(*(rows(machine) for machine in MACHINES.values()), strict=True):
        shares = [f"{share:.1f}%" for share in every[0].measured]
        seconds = [seconds_text(each) for row in every for each in row.predicted]
        lines.append(f"| {' | '.join([str(every[0].experts), *shares, *seconds])} |")
    return "\n".join(lines)


if __name__ == "__main__":
    SECTION.write_or_print(table(), sys.argv[1:])
