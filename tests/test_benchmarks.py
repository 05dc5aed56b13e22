"""The benchmarks' own arithmetic."""

import pytest

from benchmarks.timing import Sample, table, timed


def test_percentiles_are_measured_times():
    sample = Sample("x", tuple(range(100, 0, -1)))
    assert [sample.percentile(share) for share in (0, 0.5, 0.95, 1)] == [1, 50, 95, 100]
    assert Sample("x", (3.0,)).percentile(0.95) == 3.0


@pytest.mark.parametrize(("promise", "says"), [(None, ""), (0.2, "200.0 ms kept"), (0.05, "50.0 ms BROKEN")])
def test_a_promise_is_marked_as_kept_or_broken(promise, says):
    sample = Sample("x", (0.1,), promise)
    assert sample.kept == (says != "50.0 ms BROKEN")
    assert table([sample]).splitlines()[1].endswith(says or "100.0 ms")


def test_each_action_is_timed_once():
    done = []
    sample = timed("x", [lambda: done.append(1), lambda: done.append(2)])
    assert done == [1, 2]
    assert len(sample.seconds) == 2
    assert all(seconds >= 0 for seconds in sample.seconds)
