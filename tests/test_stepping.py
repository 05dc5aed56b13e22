"""The arithmetic of the compiled steps' benchmark, and one model through it."""

import itertools
import math

import numpy as np
import pytest

import meshlab as ml
from benchmarks import stepping
from benchmarks.stepping import Race, geometric_mean, median_interval
from meshlab.models import zoo

pytestmark = pytest.mark.usefixtures("own_heap")

MODELS = {model.name: model for model in zoo.models()}


@pytest.mark.parametrize(("count", "low", "high"), [(5, 1, 5), (6, 1, 6), (9, 2, 8), (21, 6, 16), (100, 40, 61)])
def test_intervals_of_medians_are_those_of_the_sign_test(count, low, high):
    assert median_interval(range(count, 0, -1)) == (low, high)


def test_intervals_hold_the_median_as_often_as_they_say():
    draws = np.random.default_rng(0).exponential(size=(4000, 21))
    inside = [low <= math.log(2) <= high for low, high in map(median_interval, draws)]
    assert 0.95 <= np.mean(inside) <= 0.99


def test_a_ratio_is_of_medians():
    assert Race("x", (1.0, 2.0, 90.0), (4.0, 1.0, 8.0)).ratio == 0.5


def test_rounds_are_resampled_as_pairs():
    times = np.random.default_rng(0).exponential(size=21)
    ratios = Race("x", tuple(2 * times), tuple(times)).resampled(np.random.default_rng(0))
    np.testing.assert_allclose(ratios, 2.0)


def test_twice_as_fast_and_twice_as_slow_are_equal_on_the_mean():
    fast, slow = (Race("x", (ours,) * 5, (1.0,) * 5) for ours in (0.5, 2.0))
    mean, low, high = geometric_mean([fast, slow])
    assert mean == pytest.approx(1.0)
    assert (low, high) == pytest.approx((0.5, 2.0))
    assert geometric_mean([fast] * 9) == pytest.approx((0.5, 0.5, 0.5))


def test_layouts_are_those_that_are_legal():
    program = ml.trace(MODELS["transformer_adamw"].step, *MODELS["transformer_adamw"].shapes)
    work, stored = {"ffn": "model", "heads": "model", "vocab": "model"}, {"embed": "data"}
    assert {name: layout for name, _, layout in stepping.layouts(program)} == {
        "data": {"batch": "data"},
        "tensor": work,
        "data, tensor": {"batch": "data"} | work,
        "FSDP": {"batch": "data", "params/*": stored, "opt_state/*": stored},
    }
    space = dict((name, layout) for name, _, layout in stepping.layouts(MODELS["convnet_sgd"].trace()))["data, space"]
    assert space == {"batch": "data", "rows": "model"}
    four = ml.trace(lambda params: params, ml.f32[ml.dims(batch=4, hidden=8)])
    assert [name for name, _, _ in stepping.layouts(four)] == ["tensor", "data, tensor"]


def test_a_model_is_timed_and_told():
    races = stepping.measure([MODELS["mlp_sgd"]], steps=3)
    assert [race.what for race in races] == [f"mlp_sgd: {name}" for name in ("data", "tensor", "data, tensor", "FSDP")]
    for race in races:
        assert len(race.ours) == len(race.xla) == 3
        assert min(itertools.chain(race.ours, race.xla)) > 0
    head, *lines, mean = stepping.table(races).splitlines()
    assert head.split("  ")[0] == "a compiled step"
    assert len({len(line) for line in (head, *lines, mean)}) == 1
    for race, line in zip(races, lines, strict=True):
        assert line.startswith(race.what)
        assert f"{1000 * np.median(race.ours):.1f} ms" in line
        assert f" {race.ratio:.2f} " in line
    assert f" {geometric_mean(races)[0]:.2f} " in mean
