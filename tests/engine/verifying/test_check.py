"""A check says so when anything is not as predicted."""

import dataclasses
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import meshlab as ml
from meshlab.engine.collectives.kinds import SLICE
from meshlab.engine.collectives.reshard import ReshardStep
from meshlab.engine.planning.steps import Move
from meshlab.engine.programs.random_arguments import drawn_arguments, index_bounds
from meshlab.engine.verifying import check
from meshlab.engine.verifying.results import compare
from tests.engine.small_programs import X4, A, B, C


def fn(x, y):
    return ml.relu(ml.dot(x, y, "b"))


PROGRAM = ml.trace(fn, ml.f32[A, B], ml.f32[B, C])


def tampered(plan, change):
    """The plan with each move replaced by what `change` makes of it; None takes it out."""
    steps = [change(step) if isinstance(step, Move) else step for step in plan.steps]
    planned = dataclasses.replace(plan.planned, steps=tuple(s for s in steps if s is not None))
    return dataclasses.replace(plan, planned=planned)


def test_a_good_plan_is_ok():
    report = PROGRAM.plan(X4, "b:x").check()
    assert report.ok
    assert str(report).startswith("✓ checked")
    assert str(report).splitlines()[1:5] == [
        "  bytes per device     predicted  compiled",
        "  ✓ all-reduce over x        256       256",
        "  ✓ arguments                256       256",
        "  ✓ outputs                  256       256",
    ]
    assert "✓ no collectives" in str(PROGRAM.plan(X4).check())


def test_a_collective_that_is_not_run_is_found():
    plan = PROGRAM.plan(X4, "b:x")
    # The step is planned as a slice of nothing: counted as nothing, while the results stay partial.
    skipped = tampered(plan, lambda m: dataclasses.replace(m, via=ReshardStep(SLICE, (), 0, -1, m.via.result)))
    report = skipped.check()
    assert not report.ok
    assert report.bytes_equal
    assert not report.results_equal
    assert "✗ results: largest error" in str(report)


def test_a_collective_that_is_not_predicted_is_found():
    plan = PROGRAM.plan(X4, "b:x")
    quiet = dataclasses.replace(plan)
    object.__setattr__(quiet, "collectives", ())
    report = quiet.check()
    assert not report.ok
    assert report.results_equal
    assert not report.bytes_equal
    assert re.search(r"✗ all-reduce over x +0 +256\n", str(report))


def test_a_collective_that_the_compiler_drops_is_found():
    plan = PROGRAM.plan(X4, "b:x")
    (collective,) = plan.collectives
    louder = dataclasses.replace(plan)
    object.__setattr__(louder, "collectives", (collective, dataclasses.replace(collective, kind="all-gather")))
    assert re.search(r"✗ all-gather over x +256 +0\n", str(louder.check()))


def test_wrong_memory_is_found():
    plan = PROGRAM.plan(X4, "b:x")
    wrong = dataclasses.replace(plan)
    object.__setattr__(wrong, "argument_sizes", (1,))
    report = wrong.check()
    assert not report.ok
    assert re.search(r"✗ arguments +1 +256\n", str(report))


def errors(*pairs):
    program = dataclasses.replace(PROGRAM, outputs=tuple(f"out/{i}" for i in range(len(pairs))))
    return compare(program, [a for a, _ in pairs], [b for _, b in pairs])


def test_errors_are_shares_of_the_root_mean_square():
    x = np.array([3.0, 4.0, 0.0, 0.0], np.float32)
    ((place, error, tolerance),) = errors((x, x + np.float32(0.5)))
    assert place == "out/0"
    assert error == pytest.approx(0.5 / 2.5)
    assert tolerance == 2e-4
    assert errors((x, x))[0][1] == 0


def test_integers_nans_and_infinities_must_be_the_same():
    whole = np.array([1, 2])
    assert errors((whole, whole), (whole, whole + 1)) == (("out/0", 0.0, 0.0), ("out/1", np.inf, 0.0))
    nan = np.array([np.nan, 1.0], np.float32)
    assert errors((nan, nan))[0][1] == 0
    assert errors((nan, np.array([0.0, 1.0], np.float32)))[0][1] == np.inf
    up, down = np.array([np.inf], np.float32), np.array([-np.inf], np.float32)
    assert errors((up, up))[0][1] == 0
    assert errors((up, down))[0][1] == np.inf


def test_nothing_is_compared_with_something_small():
    zero = np.zeros(3, np.float32)
    assert errors((zero, zero))[0][1] == 0
    assert errors((zero, zero + np.float32(1e-3)))[0][1] > 2e-4


def test_integers_are_drawn_within_what_they_index():
    def fn(table, ids, labels):
        logits = ml.take(table, ids + 0, "b")
        return ml.cross_entropy(logits, labels, "c").mean()

    program = ml.trace(fn, ml.f32[B, C], ml.i32[A], ml.i32[A])
    numbers = {a.place: a.value for a in program.arguments}
    assert index_bounds(program) == {numbers["ids"]: 16, numbers["labels"]: 8}
    for seed in range(5):
        _, ids, labels = drawn_arguments(program, seed)
        assert 0 <= ids.array.min() <= ids.array.max() < 16
        assert 0 <= labels.array.min() <= labels.array.max() < 8


def test_floats_are_drawn_around_zero_unless_that_makes_no_numbers():
    x, _ = drawn_arguments(PROGRAM)
    assert x.array.min() < 0 < x.array.max()
    x, _ = drawn_arguments(PROGRAM, positive=True)
    assert x.array.min() > 0
    root = ml.trace(ml.sqrt, ml.f32[A])
    report = root.plan(X4, "a:x").check()
    assert report.ok
    assert report.errors[0][1] == 0


def test_other_arguments_are_drawn_too():
    program = ml.trace(lambda k, b, s: (k, b, s), jax.random.key(0), ml.bool_[A], jax.ShapeDtypeStruct((), jnp.float32))
    key, truth, _ = drawn_arguments(program)
    assert jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    assert truth.array.dtype == bool


@pytest.mark.share(4)
@pytest.mark.parametrize("generator", ["threefry2x32", "rbg"])
@pytest.mark.parametrize(
    ("mesh", "layout"),
    [
        (ml.mesh(), None),
        (X4, "chain:x"),
        (ml.mesh(x=2, micro=ml.serial(2)), "chain:x+micro"),
        (ml.mesh(x=3), "chain:x"),
    ],
    ids=["one device", "split", "serial", "padded"],
)
def test_arrays_of_keys_are_drawn_of_their_generator(generator, mesh, layout):
    keys = jax.random.split(jax.random.key(0, impl=generator), 8)
    program = ml.trace(
        lambda keys: (jax.vmap(lambda key: jax.random.normal(key, (3,)))(keys), keys), ml.named(keys, "chain")
    )
    (drawn,) = drawn_arguments(program)
    assert drawn.dtype == keys.dtype
    assert len(jnp.unique(jax.random.key_data(drawn), axis=0)) == 8
    plan = program.plan(mesh, layout, pad=True)
    report = plan.check()
    assert report.ok, report
    assert plan.check(keys).ok


def test_data_may_be_given():
    data = np.ones((8, 16), np.float32), np.ones((16, 8), np.float32)
    assert PROGRAM.plan(X4, "b:x").check(*data).ok


def test_bfloat16_is_counted_as_it_is_executed():
    program = ml.trace(fn, ml.bf16[A, B], ml.bf16[B, C])
    report = program.plan(X4, "b:x").check()
    assert report.ok
    assert report.predicted == {("all-reduce", ("x",)): 2 * 8 * 8 * 2}
    assert "widens bfloat16" in str(report)


def test_what_is_too_large_to_run_is_compiled_all_the_same(monkeypatch):
    monkeypatch.setattr(check, "MOST_DRAWN", 16)
    report = PROGRAM.plan(ml.mesh(x=2), None).check()
    assert report.ok
    assert report.errors == ()
    assert "Bytes checked, numbers not: the arguments are" in str(report)


def test_narrow_floats_inside_allow_for_themselves():
    Batch, Embed = ml.dims(batch=16, embed=64)

    def narrow(x, w):
        return ml.dot(x.astype(ml.bf16), w.astype(ml.bf16), Embed).astype(ml.f32)

    program = ml.trace(narrow, ml.f32[Batch, Embed], ml.f32[Embed])
    report = program.plan(ml.mesh(x=4), "embed:x").check()
    assert report.ok
    assert [tolerance for _, _, tolerance in report.errors] == [5e-2]
