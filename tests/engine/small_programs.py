"""What several tests of the engine share: small dims and programs, checked plans, collectives as numbers."""

from __future__ import annotations

from collections import Counter

import meshlab as ml
from meshlab.engine.verifying.hlo import read_collectives, totals

A, B, C, D = ml.dims(a=8, b=16, c=8, d=16)
X4 = ml.mesh(x=4)
X2Y2 = ml.mesh(x=2, y=2)


def product(x, w):
    """Of x[a, b] and w[b, c]."""
    return ml.dot(x, w, B)


def checked(fn, args, layout, mesh=X4, data=(), **options):
    """Plans, compiles and runs a function: the plan, where compiled program and results are as predicted."""
    plan = ml.trace(fn, *args, **options).plan(mesh, layout)
    report = plan.check(*data)
    assert report.ok, f"{layout} on {mesh}:\n{report}\n{plan.explain()}"
    return plan


def temporary_bytes(plan):
    """The bytes that XLA sets aside for what is neither argument nor output, on one device."""
    analysis = plan.compile().memory_analysis()
    assert analysis is not None
    return analysis.temp_size_in_bytes


def moved(plan):
    """(kind, axes, payload bytes, times) of each collective, in order."""
    return [(c.kind, c.axes, c.payload_bytes, c.times) for c in plan.collectives]


def sent(plan, what="wire_bytes"):
    """Bytes by kind, over a whole step."""
    result = Counter()
    for c in plan.collectives:
        result[c.kind] += getattr(c, what) * c.times
    return dict(result)


def inserted_here(report):
    """The collectives of a program that XLA partitioned, as they are read in this process, by (kind, axes)."""
    result = totals(read_collectives(report.compiled.as_text(), report.plan.mesh.axes, unknown_trips=1))
    return {(kind, axes or ("?",)): count for (kind, axes), count in result.items()}
