"""The benchmarks' own arithmetic."""

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks import attached, compilers, matmuls, nccl, own, pages, peaks, published, subjects
from benchmarks.beside import measure as drops_beside
from benchmarks.looped import looped
from benchmarks.planning import subjects as subjects_of_planning
from benchmarks.timing import Sample, table, timed
from meshlab.engine.running import run as running

pytestmark = pytest.mark.usefixtures("own_heap")

PAGE = Path(__file__).parents[1] / "docs" / "accuracy.md"


def test_percentiles_are_measured_times():
    sample = Sample("x", tuple(range(100, 0, -1)))
    assert [sample.percentile(share) for share in (0, 0.5, 0.95, 1)] == [1, 50, 95, 100]
    assert Sample("x", (3.0,)).percentile(0.95) == 3.0


@pytest.mark.parametrize(("promise", "says"), [(None, ""), (0.2, "200.0 ms kept"), (0.05, "50.0 ms BROKEN")])
def test_a_promise_is_marked_as_kept_or_broken(promise, says):
    sample = Sample("x", (0.1,), promise)
    assert sample.holds == (says != "50.0 ms BROKEN")
    assert table([sample]).splitlines()[1].endswith(says or "100.0 ms")


def test_each_action_is_timed_once():
    done = []
    sample = timed("x", [lambda: done.append(1), lambda: done.append(2)])
    assert done == [1, 2]
    assert len(sample.seconds) == 2
    assert all(seconds >= 0 for seconds in sample.seconds)


def line(layout, machine, differences=(), ok=True):
    mesh, rules = compilers.subjects()[0].cases[layout]
    case = {"program": "mlp_adamw", "layout": layout, "machine": machine, "mesh": dict(mesh.shape)}
    return case | {"rules": dict(rules), "equal": ok and not differences, "ok": ok, "differences": list(differences)}


def test_the_page_about_compilers_tells_what_is_equal_and_what_explains_the_rest():
    refused = {k: v for k, v in line("ZeRO-1", "h100").items() if k not in ("equal", "ok", "differences")}
    lines = [
        line("FSDP", "v5e", [["summed whole", 2, 64, 64], ["narrowed", 3, 96, 48]]),
        line("data parallel", "v5e") | {"versions": {"libtpu": "0.0.42.1"}},
        line("data parallel", "h100", ok=False),
        refused | {"error": "no"},
    ]
    text = compilers.page(lines)
    assert "1 programs were compiled by the real compilers (libtpu 0.0.42.1)" in text
    assert "| v5e | 2 | 1 | 1 | 0 | 0 |\n| h100 | 1 | 0 | 0 | 1 | 1 |" in text
    assert "- **a** *narrowed*: " in text
    assert "3 arrays in 1 programs, 96 B predicted and 48 B compiled." in text
    assert text.splitlines()[-3:] == [
        "| mlp_adamw | data parallel | data=8 | = | ✗ |",
        "| mlp_adamw | ZeRO-1 | data=8 |  | ! |",
        "| mlp_adamw | FSDP | data=8 | ab |  |",
    ]


def of_own(model, pattern, **changes):
    known = own.Row(model, pattern, True, 10, 9, 100.0, 99.0, 10, 1, 1, 1.0, 3.0, 4, 3, True, 0.5, 1000, 900, 0.2)
    return dataclasses.replace(known, **changes)


def test_the_page_about_own_programs_tells_what_is_explained():
    rows = [
        of_own("mlp", "FSDP"),
        of_own("mlp", "drawn", gone=0, same_cause=4, priced=False, kernels=1.0, predicted=500),
        of_own("block", "FSDP", tried=0, gone=0, priced=None, kernels=None, predicted=None),
    ]
    text = own.table(rows, 37)
    assert "| FSDP | 2 | 2 | 20 | 90.0% | 99.0% | 100.0% | 1 of 1 | 6 of 8 | 1 of 1 |" in text
    assert "| all | 3 | 3 | 30 | 90.0% | 99.0% | 100.0% | 1 of 2 | 10 of 12 | 1 of 2 |" in text
    assert "The table has 2 of the 37 models of the zoo." in text
    assert "`ml.explain` takes 2.0 s longer than the plain compilation (median)." in text
    assert "in 1 of them (within 2%); XLA's take 0.50 to 1.00 times" in text
    assert "In 2 programs that were measured, the predicted peak for CPUs is 30.0% (median) from what XLA" in text
    assert "It is within 20% in 1 of them" in text
    assert "longer" not in own.table([of_own("mlp", "FSDP", load=1.5)], 37)


def test_a_parameter_is_taken_away_with_its_optimizer_state():
    every = ("params/up", "params/layers/up", "state/mu/layers/up", "x", "out/1/up", "out/1/layers/up", "out/0")
    assert own._together({"state/mu/layers/up"}, every) == {"params/layers/up", "state/mu/layers/up", "out/1/layers/up"}
    assert own._together({"params/up", "x"}, every) == {"params/up", "out/1/up", "x"}


def test_only_the_marked_section_of_a_page_is_written(tmp_path):
    path, section = tmp_path / "page.md", pages.Section("one")
    path.write_text(f"before\n{section.begin}\n{section.end}\nafter\n")
    for text in ("first", "second\n\n| a table |"):
        section.write(path, text)
        assert path.read_text() == f"before\n{section.begin}\n{text}\n{section.end}\nafter\n"
        assert section.read(path) == text
    path.write_text(f"{section.begin} only")
    for use in (section.read, lambda path: section.write(path, "text")):
        with pytest.raises(
            ValueError, match=r"page.md has no lines <!-- one: begin --> and <!-- one: end -->, between"
        ):
            use(path)
    assert path.read_text() == f"{section.begin} only"


def test_a_sections_figure_is_beside_the_page_and_the_page_shows_it(tmp_path):
    section = pages.Section("one")
    section.draw(tmp_path / "page.md", "<svg/>")
    assert (tmp_path / "images" / "page-one.svg").read_text() == "<svg/>"
    for part in (published, nccl, matmuls, peaks):
        assert f"](images/{part.SECTION.figure(PAGE).name})" in PAGE.read_text()


@pytest.mark.nightly
def test_the_page_shows_the_peaks_that_are_predicted_today():
    """If not: python -m benchmarks.peaks --write docs/accuracy.md, then python -m benchmarks.accuracy."""
    results = peaks.peaks(compilers.read(peaks.JOURNAL))
    assert peaks.SECTION.read(PAGE) == peaks.page(results)
    assert peaks.SECTION.figure(PAGE).read_text() == peaks.figure(results)


@pytest.mark.nightly
def test_the_page_shows_measured_steps_beside_what_is_predicted_today():
    """If not: python -m benchmarks.attached --write docs/accuracy.md."""
    assert attached.SECTION.read(PAGE) == attached.page()


def test_a_step_goes_on_from_what_the_one_before_returned(monkeypatch):
    name, seen = "mlp_adamw", []
    program = attached.named_model(name).trace()

    def watched(plan, donate):
        executable = running.compiled(plan, donate)

        def run(*arrays):
            seen.append([array.copy() for array in arrays])
            return executable(*arrays)

        monkeypatch.setattr(run, "memory_analysis", executable.memory_analysis, raising=False)
        return run

    monkeypatch.setattr(attached, "compiled", watched)
    line = attached.measured("cpu", name, {})
    assert line["seconds"] > 0
    assert line["peak_bytes"] > sum(array.nbytes for array in seen[0]) // 2
    # The learning rate warms up from 0: parameters change from the second step on.
    changed = [not np.array_equal(*pair) for pair in zip(seen[0], seen[2], strict=True)]
    carried = {each.parameter for each in program.carries}
    assert {a.parameter for a, new in zip(program.arguments, changed, strict=True) if new} == carried
    with pytest.raises(SystemExit, match="a TPU v9; steps are measured on h100, h200"):
        attached.machine_of("TPU v9")


@pytest.mark.share(4)
@pytest.mark.parametrize("machine", ["v5e", "v5p", "v6e", peaks.DONATED[0]])
def test_peaks_on_tpus_are_near_those_of_their_compiler(machine):
    """Six programs in four layouts are promised."""
    loops = {subject.name for subject in looped()}
    lines = [
        line
        for line in compilers.read(peaks.JOURNAL)
        if line["program"] not in loops and peaks.short(line["machine"]) == machine
    ]
    here = peaks.peaks(lines)
    assert len(here) >= 24
    assert len({peak.program for peak in here}) >= 6
    assert np.median([abs(peak.error) for peak in here]) <= peaks.MEDIAN


def test_peaks_are_told_by_machine_and_plan():
    text = peaks.page([peaks.Peak("mlp", "FSDP", "v5e", 2_000_000_000, 2_100_000_000)])
    assert "**v5e**: in 1 plans compiled without the hardware: the median error is 5.0%" in text
    assert "the one most too low is off by 0%, the one most too high by +5%." in text
    assert "| mlp | FSDP | 2.00 GB, +5% |" in text
    assert "summed whole" not in text
    more = [peaks.Peak("mlp", "FSDP", name, 1_000_000_000, 900_000_000) for name in ("v5e", "v5e:4x4")]
    text = peaks.page(more)
    assert "On slices where gradients are summed whole the median errors are: v5e:4x4 10.0%." in text
    assert text.count("| mlp | FSDP | 1.00 GB, -10% |") == 2
    text = peaks.page([*more[:1], dataclasses.replace(more[0], machine=peaks.DONATED[0])])
    assert "Where arguments are donated the median errors are: v5e:2x4, donated 10.0%." in text


def test_every_program_has_layouts_of_8_devices_and_some_that_are_drawn():
    for subject in compilers.subjects()[:1]:
        assert {mesh.size for mesh, _ in subject.cases.values()} == {8}
        assert sum(name.startswith("drawn") for name in subject.cases) == subjects.DRAWN


def test_the_published_page_has_no_difference_that_is_not_explained():
    section = compilers.SECTION.read(PAGE)
    counts = re.findall(r"^\| (\w+):[\w]+ \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| \d+ \|$", section, re.M)
    assert {machine for machine, *_ in counts} == {"v5e", "v5p", "v6e", "v7x", "h100"}
    for machine, compiled, equal, explained, wrong in counts:
        # Six programs in four layouts are promised for all but the newest.
        assert int(compiled) == int(equal) + int(explained) >= (8 if machine == "v7x" else 24)
        assert int(wrong) == 0


def test_a_drop_beside_autos_layout_promises_to_take_no_longer():
    """On the small net, for how it is measured: each drop once on both boards."""
    without, beside, more = drops_beside(subjects_of_planning()[0], 3)
    assert len(without.seconds) == len(beside.seconds) == 3
    assert more.seconds[0] == beside.percentile(0.5) - without.percentile(0.5)
    assert more.promise == 0.1 * without.percentile(0.5)
