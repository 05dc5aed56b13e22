"""The answers to one question, each a line of the journal: XLA's, Auto's, and XLA's in meshlab's words.

    xla(question, 300)                  its pass: seconds, stages, the specs of arguments and outputs
    auto(question, line)                Auto under the same cap: seconds, layout
    said(question, line)                layouts that store all as XLA does, computed in the fastest way there is

XLA tells where arguments and outputs are, and not where it computes. So its layout is given the benefit of the doubt:
of all ways to compute that Auto knows, the fastest that stores everything so. What it stores is told twice. `once` is
what it answers. It may return parameters otherwise than it takes them, which a loop cannot; so `repeated` takes them as
it returns them, or returns them as it takes them, whichever is faster.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import time
from collections.abc import Mapping
from typing import Any

from jax.sharding import PartitionSpec

import meshlab as ml
from benchmarks.xla_auto.environment import ask
from benchmarks.xla_auto.questions import CAPS, OPTIONS, Question
from benchmarks.xla_auto.solver_log import read
from meshlab.layouts.given_globs import source

Line = dict[str, Any]
Specs = Mapping[str, Any]
# An answer is good that costs at most so many times what the last one costs.
GOOD = 1.01


def xla(question: Question, seconds: float) -> Line:
    """Asks XLA."""
    cap = CAPS[question.cap]
    answer = ask(["shard", question.program, question.mesh, "" if cap is None else str(cap)], seconds)
    log = read(answer.log)
    stages = [dataclasses.asdict(stage) for stage in log.stages]
    return {
        "seconds": answer.seconds,
        "ended": log.ended,
        "budget": log.budget,
        "stages": stages,
        **(answer.value or {}),
    }


def auto(question: Question, line: Line) -> Line:
    """Asks Auto, under the cap of XLA's line, and the compiler about its answer."""
    program, mesh, met = question.traced(), question.placed, []
    started = time.process_time()
    try:
        choice = ml.auto.layout(
            program,
            mesh,
            memory=line["budget"] / _capacity(mesh),
            options=OPTIONS,
            progress=lambda found: met.append((time.process_time() - started, found.value)),
        )
    except ml.auto.NothingFits as error:
        return {"seconds": round(time.process_time() - started, 2), "refused": str(error)}
    seconds, rules = time.process_time() - started, choice.layout.to_dict()
    found = next((when for when, value in met if value <= GOOD * choice.proof.value), seconds)
    account = ask(["compile", question.program, question.mesh, json.dumps(rules)], 600).value
    told = {
        "found": round(found, 2),
        "seconds": round(seconds, 2),
        "plans": choice.proof.plans,
        "gap": choice.proof.gap,
    }
    return {"rules": rules, **told, **account}


def said(question: Question, line: Line) -> Line:
    """Says XLA's answer as layouts."""
    if "inputs" not in line:
        return {"unsaid": "XLA's pass was ended"}
    program, mesh = question.traced(), question.placed
    inputs, outputs = line["inputs"], line["outputs"]
    if lost := [place for place, entries in {**inputs, **outputs}.items() if entries is None]:
        return {"unsaid": f"of {', '.join(lost)} there is no PartitionSpec"}
    carried = {place: source(program, place) for place in outputs if source(program, place)}
    returned = {argument: outputs[place] for place, argument in carried.items()}
    taken = {place: inputs[argument] for place, argument in carried.items()}
    try:
        once = fastest(program, mesh, inputs, outputs)
        repeated = [fastest(program, mesh, inputs, outputs | taken), fastest(program, mesh, inputs | returned, outputs)]
    except ml.LayoutError as error:
        return {"unsaid": str(error)}
    return {
        "once": once.to_dict(),
        "repeated": min(repeated, key=lambda each: seconds_of(program, mesh, each)).to_dict(),
    }


def fastest(program: ml.Program, mesh: ml.Mesh, inputs: Specs, outputs: Specs) -> ml.Layout:
    """Finds the fastest layout that stores arguments and outputs as `PartitionSpec`s say.

    Raises:
        LayoutError: no layout stores them so.
    """
    specs = [{place: _spec(entries) for place, entries in each.items()} for each in (inputs, outputs)]
    ml.layouts.from_partition_specs(specs[0], program, mesh, outputs=specs[1])  # it tells all that no layout can say
    pins = {place: _stored(program, place, entries) for place, entries in {**inputs, **outputs}.items()}
    return ml.auto.layout(program, mesh, memory=None, options=OPTIONS, pin=pins).layout


def seconds_of(program: ml.Program, mesh: ml.Mesh, layout: Any) -> float:
    """The predicted seconds of a layout, with the scores that the compiler stores."""
    return float(program.plan(mesh, layout).time.given(**OPTIONS).estimate)


def _spec(entries: Any) -> PartitionSpec:
    return PartitionSpec(*(tuple(entry) if isinstance(entry, list) else entry for entry in entries))


def _stored(program: ml.Program, place: str, entries: Any) -> dict[str, Any]:
    """The rules of a place, one for each of its dims."""
    names = map(program.dim_of, program.names[program.places_values[place]])
    axes = [tuple(entry) if isinstance(entry, list) else entry for entry in entries]
    return {dim: own for dim, own in itertools.zip_longest(names, axes) if dim is not None}


def _capacity(mesh: ml.Mesh) -> float:
    assert mesh.on is not None, "it is made on a machine"
    return mesh.on.hardware.memory_bytes
