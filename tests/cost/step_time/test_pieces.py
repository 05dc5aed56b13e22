"""The pieces of a step: they add up, and what is said to bound each is what makes it shorter."""

import dataclasses
from collections.abc import Mapping

import numpy as np
import pytest

import meshlab as ml
from meshlab.cost.machines.hardware import hardware
from meshlab.cost.machines.scaled import with_network
from meshlab.cost.step_time.kernel_groups import COMPUTE, LAUNCH, MEMORY
from meshlab.cost.step_time.schedule import spend
from meshlab.cost.step_time.time import time_of
from meshlab.cost.workload.scenario import together
from meshlab.engine.errors import LayoutError
from meshlab.engine.planning.shared_steps import written_out
from meshlab.models import zoo

pytestmark = pytest.mark.share(2, of="file")

MODELS = ("mlp_sgd", "transformer_adamw", "moe_sgd")


def traced(name):
    return next(model for model in zoo.models() if model.name == name).trace()


def scaled(machine, **times):
    """The machine with figures multiplied: `bandwidth`, or all `flops`."""
    changed = {name: _times(getattr(machine, name), factor) for name, factor in times.items()}
    return dataclasses.replace(machine, **changed)


def _times(figure, factor):
    if isinstance(figure, Mapping):
        return {name: _times(one, factor) for name, one in figure.items()}
    return dataclasses.replace(figure, value=figure.value * factor)


@pytest.mark.parametrize("name", MODELS)
def test_pieces_add_up_to_the_step(name):
    time = traced(name).plan(ml.mesh("v5e", data=4), "batch:data").time
    kernels = [piece for piece in time.pieces if not piece.bound.startswith("communication")]
    assert sum(piece.seconds for piece in kernels) == pytest.approx(time.compute, rel=1e-9)
    sent = [piece for piece in time.pieces if piece not in kernels]
    assert sum(piece.seconds for piece in sent) == pytest.approx(time.communication["data"], rel=1e-9)
    assert sum(piece.exposed for piece in sent) == pytest.approx(time.exposed, rel=1e-6)
    assert [p.exposed for p in time.pieces] == sorted((p.exposed for p in time.pieces), reverse=True)


@pytest.mark.parametrize("machine", ["v5e", "h100"])
@pytest.mark.parametrize("name", MODELS)
def test_kernels_are_faster_where_what_they_wait_for_is(name, machine):
    known = hardware(machine)
    program = traced(name)
    times = {
        what: program.plan(ml.mesh(scaled(known, **{what: 2.0}), data=2), "batch:data").time
        for what in ("bandwidth", "flops")
    }
    time = program.plan(ml.mesh(known, data=2), "batch:data").time
    faster = {what: {(p.name, p.source): p.seconds for p in each.pieces} for what, each in times.items()}
    bounds = set()
    for piece in time.pieces:
        bounds.add(piece.bound)
        by_bandwidth, by_flops = (faster[what][piece.name, piece.source] for what in ("bandwidth", "flops"))
        if piece.bound == MEMORY:
            assert by_bandwidth < piece.seconds * (1 - 1e-6), piece
        if piece.bound == COMPUTE:
            assert by_flops < piece.seconds * (1 - 1e-6), piece
            assert by_bandwidth == pytest.approx(piece.seconds), piece
        if piece.bound == LAUNCH:  # of matmuls on GPUs launches are half and more
            assert min(by_bandwidth, by_flops) >= piece.seconds * 0.5, piece
        assert ("above the ridge" in piece.because) <= (piece.bound == COMPUTE)
        assert ("below the ridge" in piece.because) <= (piece.bound == MEMORY)
    assert bounds & {MEMORY, LAUNCH}


@pytest.mark.parametrize("name", MODELS)
def test_kernels_that_devices_repeat_are_shorter_where_one_of_their_dims_is_on_the_axis(name):
    program, mesh, seen = traced(name), ml.mesh("v5e", data=2), 0
    time = program.plan(mesh).time
    repeated = [piece for piece in time.pieces if piece.repeated][:6]
    assert repeated
    for dim in program.dims:
        try:
            then = program.plan(mesh, {dim: "data"}).time
        except LayoutError:
            continue
        after = {(piece.name, piece.source): piece for piece in then.pieces}
        for piece in repeated:
            said = "Devices along `data` repeat it: no dim there is on it." in piece.because
            assert said == (piece.bound != LAUNCH)
            now = after.get((piece.name, piece.source))
            if now is not None and not now.repeated and piece.bound != LAUNCH:
                seen += now.seconds < piece.seconds
                assert now.seconds <= piece.seconds * (1 + 1e-9), (dim, piece, now)
    assert seen >= 3


@pytest.mark.parametrize("name", MODELS)
def test_a_step_is_shorter_without_a_collective_that_no_kernel_hides(name):
    plan = traced(name).plan(ml.mesh("h100", data=4), "batch:data")
    time, place = plan.time, {id(e.step): e.position for e in written_out(plan.planned.steps, plan.steps)}
    exposed = [piece for piece in time.pieces if piece.bound == "communication over data" and piece.exposed > 0]
    assert exposed
    quicker = plan.program.plan(ml.mesh(with_network(hardware("h100"), 8.0), data=4), "batch:data").time
    assert quicker.estimate < time.estimate
    for piece in exposed[:3]:
        assert any(text in piece.because for text in ("No kernel runs meanwhile.", "No kernel runs during "))
        rows = [at for at, those in enumerate(plan.collectives_by_step) if any(_is(piece, c) for c in those)]
        spent = spend(time.scenario, lambda move, rows=rows: place[id(move)] in rows)
        assert spent.elapsed < time.estimate
        assert any(c.because in piece.because for at in rows for c in plan.collectives_by_step[at])


def _is(piece, collective):
    return piece.name == f"{collective.kind} of {collective.value}" and piece.source == str(collective.source or "")


def test_collectives_inside_kernels_are_pieces_too():
    """A convolution asks its neighbours for the rows beside its own."""
    time = traced("convnet").plan(ml.mesh("v5e", data=2), "rows:data").time
    sent = [piece for piece in time.pieces if piece.bound == "communication over data"]
    assert any(piece.name.startswith("collective-permute") for piece in sent)
    assert sum(piece.seconds for piece in sent) == pytest.approx(time.communication["data"], rel=1e-9)


def test_the_summary_is_of_the_piece_that_adds_most():
    time = traced("transformer_adamw").plan(ml.mesh("v5e", data=4), "batch:data").time
    first = time.pieces[0]
    assert first.because in time.because
    assert f"{first.name} at {first.source}" in time.because
    assert time.because.startswith("Most of it: ") == (first.exposed > time.estimate / 2)
    assert str(time).endswith(time.because)


def test_many_points_have_no_pieces():
    plan = traced("mlp_sgd").plan(ml.mesh("v5e", data=2), "batch:data")
    assert plan.time.pieces
    sizes = together(plan.program, {"batch": np.array([16.0, 32.0])})
    time = time_of(dataclasses.replace(plan.time.scenario, dims=sizes, _known={}))
    assert len(time.estimate) == 2
    assert (time.pieces, time.because) == ((), "")
