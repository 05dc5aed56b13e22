"""Collectives in a node of GPUs, held against nccl-tests on A100, H100 and H200 (benchmarks/nccl.py has the source)."""

import itertools
import statistics
from pathlib import Path

import pytest

from benchmarks.nccl import BANDS, KINDS, RINGS, SECTION, errors, falling, figure, measured, medians, table
from meshlab.cost.machines.collective_time import rate, seconds
from meshlab.cost.machines.hardware import Switch, hardware
from meshlab.cost.machines.meshes import mesh
from meshlab.cost.machines.placement import place_mesh
from meshlab.engine.collectives.kinds import ALL_REDUCE

# The largest median error of a band; of one kind, machine and number of GPUs it may be twice as large.
MOST = {"from 1 MiB": 0.10, "64 KiB to 1 MiB": 0.20, "below 64 KiB": 0.30}
MACHINES = ("a100", "a100_40g", "h100", "h200", "b200", "gb200")


def test_collectives_of_all_sizes_are_predicted_as_they_were_measured():
    off = errors()
    assert len(off) == 756
    assert {row.machine for row in off} == {"a100", "h100", "h200"}
    assert MOST.keys() == BANDS.keys()
    assert {band: error for (band,), error in medians(off, "band").items() if error > MOST[band]} == {}
    groups = medians(off, "band", "machine", "kind", "gpus")
    assert len(groups) == 3 * 3 * 4 * 3
    assert {key: error for key, error in groups.items() if error > 2 * MOST[key[0]]} == {}


def test_measurements_that_fall_with_the_bytes_are_noise():
    """In a tenth of the cases twice as many bytes take shorter, mostly by less than a twentieth."""
    rows = {(row.machine, row.kind, row.gpus, row.nbytes): row.seconds for row in measured()}
    found = falling()
    falls = [1 - row.seconds / rows[row.machine, row.kind, row.gpus, row.nbytes // 2] for row in found]
    assert all(fall > 0 for fall in falls)
    assert statistics.median(falls) < 0.05
    assert len(found) < 0.12 * len(rows)


@pytest.mark.parametrize("name", MACHINES)
@pytest.mark.parametrize("n", [2, 4, 8])
def test_more_bytes_take_longer_and_a_gather_and_a_scatter_are_no_faster_than_an_all_reduce(name: str, n: int):
    placed = place_mesh(hardware(name), None, mesh(x=n))
    sizes = [2**i for i in range(8, 34)]
    taken = {kind: [seconds(kind, size, placed, ("x",)) for size in sizes] for kind in KINDS.values()}
    for times in taken.values():
        assert all(before < after for before, after in itertools.pairwise(times))
    both = zip(taken["all-gather"], taken["reduce-scatter"], taken["all-reduce"], strict=True)
    assert all(gather + scatter >= whole for gather, scatter, whole in both)


def test_an_all_reduce_takes_the_fastest_of_its_ways():
    """Few bytes go in the protocol that begins first, many are summed in the switch; each way is once the fastest."""
    placed = place_mesh(hardware("h100"), None, mesh(x=8))
    ways = rate(ALL_REDUCE, placed, ("x",))
    sizes = [2.0**i for i in range(8, 34)]
    each = (ways, *ways.others)
    fastest = [min(each, key=lambda way: way.latency + size * way.seconds_per_byte) for size in sizes]
    assert [ways.seconds(size) for size in sizes] == [
        way.latency + size * way.seconds_per_byte for way, size in zip(fastest, sizes, strict=True)
    ]
    assert len(set(map(id, fastest))) == len(RINGS) + 1
    assert fastest[-1].seconds_per_byte == pytest.approx(1 / 260e9)
    without = place_mesh(hardware("a100"), None, mesh(x=8))
    assert len(rate(ALL_REDUCE, without, ("x",)).others) == len(RINGS) - 1


def test_between_nodes_and_in_textbooks_bandwidth_alone_counts_as_before():
    machine = hardware("h100")
    assert isinstance(machine.ideal.network, Switch)
    assert machine.ideal.network.protocols is None
    placed = place_mesh(machine, None, mesh(x=16))
    assert rate(ALL_REDUCE, placed, ("x",)).others == ()
    node = place_mesh(machine, None, mesh(x=8))
    assert rate(ALL_REDUCE, node, ("x",), book=True).others == ()


@pytest.mark.nightly
def test_the_page_shows_what_is_predicted_today():
    """If not: python -m benchmarks.nccl docs/accuracy.md."""
    page, off = Path(__file__).parents[2] / "docs" / "accuracy.md", errors()
    assert SECTION.read(page) == table(off)
    assert SECTION.figure(page).read_text() == figure(off)
