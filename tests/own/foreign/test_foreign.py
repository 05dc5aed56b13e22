"""Programs that nobody here thought of: what people ask in public of their own sharded programs, and the answers."""

from __future__ import annotations

import functools

import pytest

import meshlab as ml
from meshlab.engine.devices import compiler_options
from meshlab.engine.verifying.hlo import read_collectives, totals
from meshlab.own.explained import Explained
from meshlab.own.report import Report
from tests.own.foreign import libraries, plain
from tests.own.foreign.answers import ANSWERS, Answer
from tests.own.foreign.program import Program
from tests.own.test_report import sums

pytestmark = pytest.mark.share(3, of="file")

PROGRAMS: dict[str, Program] = plain.PROGRAMS | libraries.PROGRAMS
# What is sent with the lines, of programs that lines mend.
MENDED = {"resharded": 2560, "wrong constraint": 20672}
each = pytest.mark.parametrize("name", PROGRAMS)


@functools.cache
def explained(name: str) -> Report:
    program = PROGRAMS[name]
    jitted, arguments = program.make(program.mesh())
    return ml.explain(jitted, *arguments)


@each
def test_what_is_explained_is_their_program(name):
    program = PROGRAMS[name]
    jitted, arguments = program.make(program.mesh())
    lowered = jitted.lower(*arguments)
    lowered = getattr(lowered, "lowered", lowered)  # Equinox has its own around JAX's
    compiled = lowered.compile(compiler_options=compiler_options("cpu")).as_text()
    assert sums(explained(name)) == totals(read_collectives(compiled, program.axes, unknown_trips=1))


@each
def test_nearly_all_has_a_line_dims_and_a_cause(name):
    report = explained(name)
    known = [c for c in report.collectives if c.is_explained]
    assert len(known) >= 0.95 * len(report.collectives)
    assert sum(c.wire_bytes * c.times for c in known) >= 0.99 * report.wire_bytes


@each
def test_the_largest_are_explained_as_an_engineer_does(name):
    report = explained(name)
    assert bool(report.collectives) == bool(ANSWERS[name])
    left = list(report.collectives)
    for answer in ANSWERS[name]:
        found = [c for c in left if agrees(report, c, answer)]
        assert len(found) >= answer.count, answer
        left = [c for c in left if not any(c is one for one in found[: answer.count])]
    # None is larger than those that were answered.
    least = min((answer.payload for answer in ANSWERS[name]), default=0)
    assert all(c.payload_bytes * c.times <= least for c in left)


def agrees(report: Report, c: Explained, answer: Answer) -> bool:
    of_kind = (c.kind, c.axes, c.payload_bytes) == (answer.kind, (answer.axes,), answer.payload)
    at_line = c.source is not None and answer.line in c.source.code
    why = c.cause in answer.cause and dim(report, answer.dims) in c.dims
    return of_kind and at_line and why and answer.value in c.value


def dim(report: Report, axis: str) -> str:
    """What a report calls an axis: after the first argument that has it."""
    place, _, position = axis.rpartition(".")
    argument = report.subject.code.block.inputs[report.subject.jitted.arguments.index(place)]
    return report.subject.dims(argument)[int(position)] or ""


@pytest.mark.share(3)
@each
def test_lines_send_no_more(name):
    report = explained(name)
    assert report.lines.before.sent == report.wire_bytes
    assert report.lines.after.sent <= report.lines.before.sent
    assert bool(report.lines.lines) == (report.lines.after.sent < report.lines.before.sent)
    assert report.lines.after.sent <= MENDED.get(name, report.wire_bytes)
