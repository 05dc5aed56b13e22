"""Steps of training that others have measured: predicted within 15% and in the right order.

One number for each machine says what it reaches of what is predicted; none is fitted to a model or a layout. The runs,
with their sources, are in benchmarks/published.toml, and docs/accuracy.md shows them.
"""

import itertools
import math
import pathlib

import jax
import pytest

from benchmarks import published
from meshlab.engine.specs.mesh import Mesh
from meshlab.models.parts.initial import shapes

pytestmark = pytest.mark.share(2, of="file")

RUNS = published.runs()
JUDGED = [run for run in RUNS if not run.aside]
PAGE = pathlib.Path(__file__).parents[2] / "docs" / "accuracy.md"


def name(run):
    return f"{run.model} on {run.devices} {run.machine}, {'+'.join(run.saved) or 'nothing'} kept"


def test_there_are_many_runs_on_several_machines():
    assert len(JUDGED) >= 80
    assert len({run.machine for run in JUDGED}) >= 9
    unsaid = [run for run in RUNS if run.aside and ("data" in run.mesh or run.balanced)]
    assert len([run for run in RUNS if run.aside]) <= len(unsaid) + 2


def test_each_run_fills_its_slice_and_has_a_source():
    for run in RUNS:
        placed = published.placement(run)
        chips = placed.count * math.prod(placed.shape)
        assert run.devices == chips * placed.hardware.devices_per_chip, name(run)
        assert "https://" in run.source, name(run)


@pytest.mark.share(4)
@pytest.mark.parametrize("model", published.models())
def test_models_have_the_published_number_of_parameters(model):
    """Those that are called after a round number have about as many."""
    sizes = {key: size for key, size in published.models()[model].items() if key not in ("family", "parameters")}
    family = published.FAMILIES[published.models()[model]["family"]]
    config = family.Config(batch=1, seq=2048, **sizes)
    parameters = sum(math.prod(leaf.shape) for leaf in jax.tree.leaves(shapes(family.init, config)))
    said = published.models()[model]["parameters"]
    assert parameters == said if isinstance(said, int) else parameters == pytest.approx(said, rel=0.04)


@pytest.mark.slow
@pytest.mark.share(4)
@pytest.mark.parametrize("machine", sorted({run.machine for run in JUDGED}))
def test_steps_take_as_long_as_was_measured(machine):
    errors = published.errors([run for run in JUDGED if run.machine == machine])
    assert errors
    assert {name(run): error for run, error in errors.items() if abs(error) > 0.15} == {}


@pytest.mark.nightly
def test_steps_are_ranked_right():
    """Of two runs on one machine the one that took longer is predicted to, wherever it took 11% longer or more.

    Of all pairs, however close, it is so for 96%.
    """
    errors, wrong, pairs = published.errors(RUNS), [], 0
    for one, other in itertools.permutations(JUDGED, 2):
        if one.machine == other.machine and one.seconds > other.seconds:
            predicted = [run.seconds * (1 + errors[run]) for run in (one, other)]
            pairs += 1
            wrong += [one.seconds / other.seconds] if predicted[0] <= predicted[1] else []
    assert pairs > 600
    assert max(wrong) < 1.11
    assert len(wrong) < 0.04 * pairs


@pytest.mark.nightly
def test_the_page_shows_what_is_predicted_today():
    """If not: python -m benchmarks.published docs/accuracy.md."""
    assert published.SECTION.read(PAGE) == published.table(RUNS).strip("\n")
    assert published.SECTION.figure(PAGE).read_text() == published.figure(RUNS)


@pytest.mark.share(3)
@pytest.mark.slow
@pytest.mark.parametrize(("model", "devices"), [("llama3_405b", 512), ("maxtext_1024b", 2048), ("mpt_13b", 8)])
def test_a_run_is_predicted_as_a_plan_of_its_own(model, devices):
    """Runs that are alike but for their sizes share a plan."""
    run = next(run for run in RUNS if run.model == model and run.devices == devices)
    placed = published.placement(run)
    plan = published.program(run).plan(Mesh(tuple(run.mesh.items()), placed), published.layout(run))
    own = plan.time.given(attention="causal", prefetch=True)
    assert published.predicted(run).estimate == pytest.approx(own.estimate, rel=1e-4)


@pytest.mark.slow
def test_asynchronous_runs_are_as_much_faster_as_predicted():
    """They are the same as others but for collectives that run piece by piece beside matmuls."""
    runs = [run for run in RUNS if run.beside]
    assert [run.model for run in runs] == ["llama3_8b", "llama3_70b"]
    factor = 1 / published.efficiencies(RUNS)["h100 of 500 W"]
    for run in runs:
        same = ("model", "machine", "mesh", "batch", "saved")
        (other,) = (one for one in JUDGED if not one.beside and all(getattr(one, n) == getattr(run, n) for n in same))
        assert run.seconds < 0.92 * other.seconds
        time = published.predicted(run)
        assert time.given(beside=False).estimate == published.predicted(other).estimate
        assert time.given(beside=False).estimate * factor > 1.1 * run.seconds
        assert time.estimate * factor == pytest.approx(run.seconds, rel=0.07)


def test_figures_become_seconds_by_the_units_of_their_sources():
    """LLM Foundry: 1,007 tokens/s of each of 512 devices, 4,096 sequences of 2,048. MaxText: 156 TFLOP/s of a chip."""
    foundry = next(run for run in RUNS if run.model == "mpt_70b" and run.devices == 512)
    assert foundry.seconds == pytest.approx(4096 * 2048 / 512 / 1007)
    maxtext = next(run for run in RUNS if run.model == "maxtext_22b")
    # 16 sequences of 2,048 a chip: 6 for each of 22e9 parameters, and 3 % more for attention.
    assert maxtext.seconds * 156e12 == pytest.approx(16 * 2048 * 6 * 22e9 * 1.03, rel=0.02)


@pytest.mark.slow
def test_the_last_chip_of_long_sequences_computes_nearly_twice_the_mean():
    """Context parallelism that gathers keys and values, with which causal scores are not balanced."""
    runs = [run for run in JUDGED if "context" in run.mesh]
    assert [run.seq for run in runs] == [65_536, 131_072, 262_144]
    for run in runs:
        time = published.predicted(run)
        balanced = time.given(balanced=True)
        scores = time.flops - balanced.flops
        assert time.flops - time.given(attention="flash").flops == pytest.approx(-scores / 63, rel=1e-6)
