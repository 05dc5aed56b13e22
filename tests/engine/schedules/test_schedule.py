"""Schedules as values: the papers' bubbles and memory, PyTorch's CSV both ways, what cannot run."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

import meshlab as ml
from meshlab.engine.schedules.cells import Cell, Costs, in_a_v
from meshlab.engine.schedules.orders import NAMED

SIZES = [(2, 4), (4, 8), (4, 16), (8, 32)]
# As in practice and in the papers, W takes no longer than F; else ZB-H1 waits longer than its formula says.
COSTS = [Costs(), Costs(1.0, 1.2, 0.8), Costs(1.0, 1.0, 1.0).scaled(0.25), Costs(0.9, 1.4, 0.7)]


def mine(order: Any) -> ml.Schedule:
    return ml.Schedule("mine", order)


def waits(name: str, p: int, c: Costs, v: int = 1) -> float:
    """The papers' formulas: what the busiest stage waits."""
    forward, backward = c.forward, c.inputs + c.weights
    whole = (p - 1) * (forward + backward)
    return {
        "gpipe": whole,  # Huang et al., section 2.3
        "1f1b": whole,  # Narayanan et al., arXiv:2104.04473, section 2.2.1
        "paired": whole,
        "interleaved": whole / v,  # the same, section 2.2.2
        "zb-h1": (p - 1) * (forward + c.inputs - c.weights),  # Qi et al., table 1
        # DeepSeek's table counts a forward and a backward chunk that run beside each other as their sum here.
        "dualpipe-v": (p - 1) * (forward + 2 * backward - 3 * c.weights) / 2,
    }[name]


@pytest.mark.parametrize("costs", COSTS, ids=str)
@pytest.mark.parametrize(("stages", "micro"), SIZES)
def test_bubbles_are_those_of_the_papers(stages, micro, costs):
    work = micro * sum(costs)
    for name in ("gpipe", "1f1b", "paired", "zb-h1", "dualpipe-v"):
        schedule = ml.Schedule.of(name, stages, micro)
        assert schedule.bubble(costs) * work == pytest.approx(waits(name, stages, costs), abs=1e-9), name
    for chunks in (1, 2, 4):
        schedule = ml.Schedule.of("interleaved", stages, micro, chunks)
        assert schedule.bubble(costs) * work == pytest.approx(waits("interleaved", stages, costs, chunks), abs=1e-9)


@pytest.mark.parametrize(("stages", "micro"), SIZES)
def test_zero_bubble_has_none_where_stages_go_on_by_themselves(stages, micro):
    unequal = Costs(1.0, 1.2, 0.8)
    for name in ("zb-h2", "zb-v"):
        schedule = ml.Schedule.of(name, stages, micro)
        assert schedule.bubble(synchronous=False) == pytest.approx(0, abs=1e-12)
        assert schedule.bubble() > 0
        assert schedule.bubble(unequal, synchronous=False) > 0
    work, h2 = micro * sum(unequal), ml.Schedule.of("zb-h2", stages, micro)
    alone = (stages - 1) * (unequal.forward + unequal.inputs - 2 * unequal.weights)  # Qi et al., table 1
    assert h2.bubble(unequal, synchronous=False) * work == pytest.approx(alone, abs=1e-9)


@pytest.mark.parametrize(("stages", "micro"), SIZES)
def test_micro_batches_in_flight_are_those_of_the_papers(stages, micro):
    def held(name, chunks=None):
        return ml.Schedule.of(name, stages, micro, chunks).in_flight

    assert held("gpipe") == (micro,) * stages
    assert held("1f1b") == tuple(stages - stage for stage in range(stages))
    assert held("paired") == tuple(min(micro, 2 * (stages - stage) - 1) for stage in range(stages))
    assert held("zb-h1") == held("zb-v") == (stages,) * stages
    assert held("zb-h2") == (min(micro, 2 * stages - 1),) * stages
    assert held("dualpipe-v") == (stages + 0.5,) * stages
    for chunks in (2, 4):
        # Korthikanti et al., arXiv:2205.05198, section 4.2.3: as 1 + (p − 1)/(p v) of 1F1B's.
        assert held("interleaved", chunks)[0] == pytest.approx(stages * (1 + (stages - 1) / (stages * chunks)))


@pytest.mark.parametrize("costs", COSTS, ids=str)
@pytest.mark.parametrize(("stages", "micro"), SIZES)
def test_paired_wastes_nothing_in_lockstep(stages, micro, costs):
    paired, usual = (ml.Schedule.of(name, stages, micro) for name in ("paired", "1f1b"))
    assert paired.bubble(costs, lockstep=True) == pytest.approx((stages - 1) / micro, abs=1e-9)
    assert paired.ticks == micro + 2 * (stages - 1) < usual.ticks == 2 * (micro + stages - 1)
    assert usual.bubble(costs, lockstep=True) > paired.bubble(costs, lockstep=True)


@given(st.sampled_from(sorted(NAMED)), st.integers(1, 6), st.integers(1, 5), st.integers(1, 3))
def test_any_numbers_give_a_schedule_that_csv_keeps(tmp_path_factory, name, stages, groups, chunks):
    chunks = chunks if NAMED[name].chunks is None else None
    schedule = ml.Schedule.of(name, stages, groups * stages * (2 if name == "dualpipe-v" else 1), chunks)
    assert schedule.micro == groups * stages * (2 if name == "dualpipe-v" else 1)
    file = tmp_path_factory.mktemp("csv") / f"{name}.csv"
    file.write_text(schedule.csv())
    read = ml.Schedule.read(file)
    assert (read.order, read.parts, read.name) == (schedule.order, schedule.parts, name)
    assert schedule.bubble(lockstep=True) >= schedule.bubble() - 1e-9 >= -2e-9


@given(
    st.integers(1, 4), st.integers(1, 4), st.sampled_from([Costs(), Costs(1, 2, 0), Costs(1, 1.5, 0.5)]), st.randoms()
)
def test_cells_run_after_what_they_need_and_one_at_a_time(stages, groups, costs, draw):
    name = draw.choice(sorted(NAMED))
    schedule = ml.Schedule.of(name, stages, 2 * groups * stages)
    hop, lockstep = draw.choice([0.0, 0.25]), draw.random() < 0.5
    ran = schedule.clock(costs, lockstep=lockstep, hop=hop)
    together = {(stage, cell): step for stage, steps in enumerate(schedule.order) for step in steps for cell in step}
    for at in ran.begins:
        for need in schedule.needs.of_cell(*at):
            inside = need[0] == at[0] and need[1] in together[at]
            sent = 0 if inside or (need[0] == at[0] and not lockstep) else hop
            assert ran.begins[at] >= ran.ends[need] + sent - 1e-9, (name, at, need)
    for stage in range(stages):
        spans = sorted((ran.begins[at], ran.ends[at]) for at in ran.begins if at[0] == stage)
        assert all(begin >= end - 1e-9 for (_, end), (begin, _) in itertools.pairwise(spans))


def test_costs_of_single_parts_say_who_waits():
    schedule = ml.Schedule.of("1f1b", 4, 8)
    heavy = [Costs(), Costs(), Costs(), Costs(2, 2, 2)]  # A head on the last stage.
    assert schedule.bubble([Costs()] * 4) == schedule.bubble() == 0.375
    # The others wait for the last stage: it works 8 × 6, after three forward cells and before three backward ones.
    assert schedule.bubble(heavy) == pytest.approx(3 * 3 / 48)


def test_pytorch_reads_what_is_written():
    # As torch.distributed.pipelining writes its own 1F1B of two stages and three micro-batches.
    assert ml.Schedule.of("1f1b", 2, 3).csv() == "0F0,0F1,,0B0,0F2,0B1,,0B2\n,1F0,1B0,1F1,1B1,1F2,1B2,\n"


def test_what_pytorch_adds_of_communication_is_left_out(tmp_path):
    file = tmp_path / "with-sends.csv"
    file.write_text("0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD\n1RECV_F0,1F0,1B0,1SEND_B0\n")
    assert ml.Schedule.read(file).order == ml.Schedule.of("1f1b", 2, 1).order


def test_a_v_is_read_from_the_parts_that_rows_name(tmp_path):
    file = tmp_path / "v.csv"
    file.write_text("0F0,,,3F0,3B0,,,0B0\n,1F0,2F0,,,2B0,1B0\n")
    assert ml.Schedule.read(file).parts == in_a_v(2)


def planted(schedule: ml.Schedule, draw: random.Random) -> tuple[list[list[tuple[Cell, ...]]], str]:
    """A schedule with one fault, and what its error has to say."""
    order = [[*steps] for steps in schedule.order]
    stage = draw.randrange(len(order))
    place = draw.randrange(len(order[stage]))
    step = order[stage][place]
    cell = draw.choice(step)
    part = schedule.parts[stage][cell.chunk]
    kind = draw.choice(["missing", "twice", "early"])
    if kind == "missing":
        order[stage][place] = tuple(each for each in step if each != cell)
        order[stage] = [each for each in order[stage] if each]
        return order, "missing"
    if kind == "twice":
        order[stage].insert(draw.randrange(len(order[stage]) + 1), (cell,))
        return order, f"{part}{cell.phase}{cell.micro} runs 2 times"
    # The backward pass of a micro-batch before its own forward pass.
    first = min((c for s in order[stage] for c in s if c.phase in "BI"), key=lambda c: c.micro)
    order[stage] = [tuple(c for c in s if c != first) for s in order[stage]]
    order[stage] = [(first,), *(s for s in order[stage] if s)]
    return order, f"waits at {schedule.parts[stage][first.chunk]}{first.phase}{first.micro}"


@pytest.mark.parametrize("seed", range(8))
def test_every_planted_fault_is_found(seed):
    draw = random.Random(seed)
    for _ in range(25):
        schedule = ml.Schedule.of(draw.choice(sorted(NAMED)), draw.choice([2, 3, 4]), 12)
        order, said = planted(schedule, draw)
        with pytest.raises(ml.MeshError, match="cannot run") as caught:
            ml.Schedule("mine", tuple(map(tuple, order)), schedule.parts)
        assert said in str(caught.value)


def test_all_problems_are_said_at_once():
    with pytest.raises(ml.MeshError) as caught:
        mine([[[("F", 0)], [("B", 0)], [("F", 1)]], [[(at[0], int(at[1]))] for at in ("F0", "F0", "B0", "F1", "B1")]])
    assert str(caught.value) == (
        "The schedule 'mine' cannot run: 0B1 is missing, the backward pass of micro-batch 1 in part 0, on stage 0; "
        "1F0 runs 2 times, on stage 1."
    )


def test_stages_that_wait_for_each_other_are_named():
    with pytest.raises(ml.MeshError) as caught:
        mine([[[("B", 0)], [("F", 0)]], [[("F", 0)], [("B", 0)]]])
    assert str(caught.value) == (
        "The schedule 'mine' cannot run: it hangs: stage 0 waits at 0B0 for 0F0 on stage 0; it hangs: stage 0 waits at "
        "0B0 for 1B0 on stage 1; it hangs: stage 1 waits at 1F0 for 0F0 on stage 0."
    )


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ml.Schedule.of("1f2b", 4, 8), "There is no schedule '1f2b'. Did you mean `1f1b`?"),
        (lambda: ml.Schedule.of("1f1b", 0, cast("int", 2.5)), "given stages=0 and micro=2.5"),
        (lambda: ml.Schedule.of("interleaved", 4, 6), "micro=6, which must be a multiple of its 4 stages"),
        (lambda: ml.Schedule.of("dualpipe-v", 4, 7), "micro=7; over 4 stages it needs at least 8"),
        (lambda: ml.Schedule.of("zb-v", 4, 8, 3), "chunks=3; it has 2 for each stage"),
        (
            lambda: ml.Schedule.of("1f1b", 4, 8).bubble((1, 2)),
            "each at least 0, or one such triple for each of the 4 parts",
        ),
        (lambda: ml.Schedule.of("1f1b", 4, 8).bubble(hop=-1), "hop=-1 is not a time"),
        (lambda: ml.Schedule.by(lambda s, c: c.micro, 4, 8, in_flight=0), "in_flight=0, which must be at least 1"),
        (lambda: ml.Schedule.by(lambda s, c: c.micro, 2, 2, parts=((0,), (2,))), "each part must be on one stage"),
        (lambda: mine([[["F"]]]), "is not a cell of a schedule"),
        (lambda: mine([]), "it has no cell"),
    ],
    ids=lambda value: value[:20] if isinstance(value, str) else "",
)
def test_bad_input_is_one_error(make, said):
    with pytest.raises(ml.MeshError) as caught:
        make()
    assert said in str(caught.value)


def test_a_file_that_is_no_schedule_says_where(tmp_path):
    file = tmp_path / "no.csv"
    file.write_text("0F0,hello,0B0\n1F0,1X3\n")
    with pytest.raises(ml.MeshError, match=r"row 1, column 2 is 'hello'; row 2, column 2 is '1X3'"):
        ml.Schedule.read(file)
    with pytest.raises(ml.MeshError, match="No such file"):
        ml.Schedule.read(tmp_path / "there-is-none.csv")


def test_a_comparator_makes_a_schedule_with_a_limit_of_memory():
    def backward_first(stage, cell):
        return "IBFW".index(cell.phase), cell.micro

    limited = ml.Schedule.by(backward_first, 4, 8, in_flight=4, weights_apart=True)
    assert max(limited.in_flight) <= 4
    assert limited.bubble() <= ml.Schedule.of("1f1b", 4, 8).bubble()
    with pytest.raises(ml.MeshError, match="it hangs: stage 0 waits at"):
        # A V needs room for a micro-batch that comes back: its second chunk is the last of the model.
        ml.Schedule.by(lambda stage, cell: -cell.micro, 2, 4, parts=((0, 3), (1, 2)), in_flight=1)


def test_the_trace_has_a_lane_for_each_stage(tmp_path):
    schedule, file = ml.Schedule.of("1f1b", 2, 2), tmp_path / "trace.json"
    schedule.write_trace(file, (1, 1, 1))
    events = json.loads(file.read_text())["traceEvents"]
    cells = [event for event in events if event["ph"] == "X"]
    assert [(e["name"], e["tid"], e["ts"], e["dur"]) for e in cells] == [
        *[("0F0", 0, 0, 1), ("0F1", 0, 1, 1), ("0B0", 0, 4, 2), ("0B1", 0, 7, 2)],
        *[("1F0", 1, 1, 1), ("1B0", 1, 2, 2), ("1F1", 1, 4, 1), ("1B1", 1, 5, 2)],
    ]
    with pytest.raises(ml.MeshError, match="write a path"):
        schedule.write_trace(3)  # pyright: ignore[reportArgumentType]


def test_the_figure_draws_every_cell_where_it_runs():
    schedule = ml.Schedule.of("zb-v", 3, 6)
    drawn = schedule.figure((1, 1.2, 0.8))
    ran = schedule.clock((1, 1.2, 0.8))
    bars = [(y, base, length) for bar in drawn.data for y, base, length in zip(bar.y, bar.base, bar.x, strict=True)]
    assert drawn.layout.title.text.startswith("zb-v: 3 stages, 6 micro-batches, 2 chunks a stage: bubble ")
    assert f"bubble {schedule.bubble((1, 1.2, 0.8)):.1%}" in drawn.layout.title.text
    assert sorted(bars) == sorted(
        (f"stage {at[0]}", ran.begins[at], ran.ends[at] - ran.begins[at]) for at in ran.begins
    )
