"""What lies where a plan stores it is passed on, unchecked; everything else is checked and placed, at any call."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding

import meshlab as ml
from benchmarks import dispatch as benchmark
from meshlab.engine.errors import RunError, TraceError
from meshlab.engine.running import run as running
from meshlab.engine.running.dispatch import placed
from tests.engine.small_programs import X4, A, B

W = np.arange(128, dtype=np.float32).reshape(8, 16)
V = np.ones(16, np.float32)


def step(params, x):
    return {"w": params["w"] * x, "b": params["b"] + 1.0}, x.sum()


PROGRAM = ml.trace(step, {"w": ml.f32[A, B], "b": ml.f32[A]}, ml.f32[B], carry={"params": 0})


@pytest.fixture
def plan():
    return PROGRAM.plan(X4, "a:x")


@pytest.fixture
def checked(monkeypatch):
    """The places of the arrays that are checked one by one."""
    places = []
    check = running._array

    def watched(leaf, program, argument, template):
        places.append(argument.place)
        return check(leaf, program, argument, template)

    monkeypatch.setattr(running, "_array", watched)
    return places


def steps(plan, count, x):
    """The parameters after some steps; the first begins with NumPy's."""
    params = {"w": W, "b": W[:, 0]}
    for _ in range(count):
        params, _ = plan.run(params, x)
    return params


def test_what_a_step_returned_is_neither_checked_nor_moved(plan, checked):
    x = ml.tensor(jax.device_put(V, plan.shardings[0][1]), B)
    params = steps(plan, 2, x)
    assert len(checked) == 6, "the tree of tensors is another one than that of arrays"
    executable = running._executable(plan, donate=False)
    assert executable.elsewhere(executable.known((params, x)) or [None]) == []
    after, _ = plan.run(params, x)
    assert len(checked) == 6
    np.testing.assert_array_equal(after["b"].array, W[:, 0] + 3)


def test_of_a_known_tree_only_what_lies_elsewhere_is_checked(plan, checked):
    params = steps(plan, 2, V)
    checked.clear()
    np.testing.assert_array_equal(plan.run(params, 2 * V)[0]["w"].array, 2 * W)
    assert checked == ["x"]


@pytest.mark.parametrize("donate", [False, True])
def test_what_does_not_fit_is_refused_at_any_call(plan, donate):
    params = steps(plan, 3, V)
    w, b = params["w"].array, params["b"].array
    for bad, message in (
        ({"w": ml.tensor(w.astype(jnp.int32), A, B), "b": b}, "`params/w` has dtype int32, where float32 was traced"),
        ({"w": w, "b": jnp.ones(4)}, r"`params/b` has shape \(4,\), where \(8,\) was traced"),
        ({"w": w, "b": "b"}, "`params/b` is 'b'"),
        ({"w": w.T, "b": b[:4]}, r"`params/b` has shape \(4,\).*; `params/w` has shape \(16, 8\)"),
        ({"w": ml.tensor(w, A, ml.Dim("c", 16)), "b": b}, "`params/w` has the dims a c, where a b were traced"),
        ({"w": w}, "is missing `params/b`"),
    ):
        for given in (bad, bad):
            with pytest.raises(RunError, match=message):
                plan.run(given, V, donate=donate)
        plan.run({"w": w, "b": b}, V)


def test_what_was_donated_is_refused_though_it_lies_right(plan):
    params = steps(plan, 2, V)
    plan.run(params, V, donate=True)
    after, _ = plan.run(steps(plan, 2, V), V, donate=True)
    plan.run(after, V, donate=True)
    with pytest.raises(RunError, match="`params/b` is deleted.*; `params/w` is deleted"):
        plan.run(after, V, donate=True)


def test_the_same_array_is_not_donated_twice_though_it_lies_right():
    two = ml.trace(lambda p, q: (p * 2, q * 3), ml.f32[A], ml.f32[A], carry={"p": 0, "q": 1}).plan(X4, "a:x")
    p, q = two.run(*two.run(V[:8], V[:8]), donate=True)
    p, q = two.run(p, q, donate=True)
    with pytest.raises(RunError, match="`p` and `q` are the same array, whose memory cannot be donated twice"):
        two.run(p, p, donate=True)
    np.testing.assert_array_equal(two.run(p, q, donate=True)[0].array, 16 * V[:8])


def test_a_plan_is_refused_under_jit_though_it_ran_before(plan):
    params = steps(plan, 3, V)
    with pytest.raises(RunError, match="called under jax.jit"):
        jax.jit(lambda given: plan.run(given, V)[0])(params)


def test_trees_without_order_or_end_are_refused_though_others_ran(plan):
    steps(plan, 3, V)
    endless: dict[str, object] = {"w": W}
    endless["b"] = endless
    with pytest.raises(TraceError, match="has no end"):
        plan.run(endless, V)
    with pytest.raises(TraceError, match="`params`"):
        plan.run({"w": W, 1: W[:, 0]}, V)


def test_an_equivalent_sharding_is_passed_on(plan):
    (wanted, _), _ = plan.shardings
    other = NamedSharding(wanted["w"].mesh, PartitionSpec("x"))
    assert other != wanted["w"]
    w = jax.device_put(W, other)
    assert placed(w, wanted["w"]) is w
    params = {"w": w, "b": jax.device_put(W[:, 0], wanted["b"])}
    x = jax.device_put(V, plan.shardings[0][1])
    np.testing.assert_array_equal(plan.run(params, x)[0]["w"].array, W)
    executable = running._executable(plan, donate=False)
    assert executable.elsewhere(executable.known((params, x)) or [None]) == []


@pytest.mark.parametrize("spec", [(), ("x",), (None, "x")])
@pytest.mark.parametrize("array", [W, jnp.asarray(W), jax.random.split(jax.random.key(0), (8, 16))])
def test_an_array_is_placed_shard_by_shard(plan, array, spec):
    sharding = NamedSharding(plan.shardings[0][1].mesh, PartitionSpec(*spec))
    there = placed(array, sharding)
    assert there.sharding.is_equivalent_to(sharding, 2)
    assert there.dtype == array.dtype
    for shard in there.addressable_shards:
        assert (shard.data == array[shard.index[:2]]).all()


def test_arrays_on_one_device_are_moved_at_any_call(plan):
    params = steps(plan, 3, V)
    alone = jax.tree.map(lambda array: jax.device_put(array, SingleDeviceSharding(jax.devices()[0])), params)
    for given in (params, alone, params):
        np.testing.assert_array_equal(plan.run(given, V)[0]["b"].array, W[:, 0] + 4)


def test_an_array_as_long_as_a_padded_one_is_refused():
    rows = np.arange(10, dtype=np.float32)
    padded = ml.trace(jnp.square, ml.named(rows, "rows")).plan(X4, "rows:x", pad=True)
    padded.run(rows)
    padded.run(rows)
    stored = running.stored(padded, "out", rows)
    assert stored.shape == (12,)
    with pytest.raises(RunError, match=r"has shape \(12,\), where \(10,\) was traced"):
        padded.run(stored)


def test_calls_are_timed_and_told():
    cases = benchmark.measure(counts=(1, 2), rounds=3)
    assert [(case.arrays, case.from_host) for case in cases] == [(2, False), (2, True), (3, False), (3, True)]
    assert all(case.plan > 0 and case.jit > 0 for case in cases)
    case = benchmark.Case(30, False, 350.0, 220.0)
    assert (case.beyond, case.promised, case.holds) == (130.0, 130.0, True)
    assert not benchmark.Case(30, False, 351.0, 220.0).holds
    assert benchmark.Case(30, True, 900.0, 220.0).holds
    head, *lines = benchmark.table([case, benchmark.Case(4, False, 300.0, 150.0)]).splitlines()
    assert head.split()[-3:] == ["more", "ratio", "promised"]
    assert [line.split() for line in lines] == [
        ["30", "350", "220", "130", "1.59", "130", "kept"],
        ["4", "300", "150", "150", "2.00", "100", "BROKEN"],
    ]
