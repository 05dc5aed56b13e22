"""What JAX's profiler says of runs is read, run by run; where it says nothing, that is an error."""

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml
from meshlab.measuring.recorded import recorded

ml.simulate(8)


def add_one(x):
    return jnp.sin(x) + 1


def test_each_run_has_its_events():
    compiled, x = jax.jit(add_one).lower(jnp.ones(8)).compile(), jnp.ones(8)
    jax.block_until_ready(compiled(x))
    runs = recorded(lambda: compiled(x), "jit_add_one", 3)
    assert len(runs) == 3
    ops = [[event.op for event in run] for run in runs]
    assert ops[0] == ops[1] == ops[2]
    text = compiled.as_text()
    assert text is not None
    assert all(f"%{op} = " in text for op in ops[0])
    for run, after in zip(runs, [*runs[1:], None], strict=True):
        assert all(event.begin <= event.end and event.device == 0 for event in run)
        assert after is None or run[-1].end <= after[0].begin


def test_a_program_that_is_not_in_the_profile():
    with pytest.raises(ml.RunError, match="recorded 0 of 2 runs: its profile names no instructions of the others"):
        recorded(lambda: jnp.ones(8) + 1, "jit_another", 2)


def test_one_profile_at_a_time(tmp_path):
    with jax.profiler.trace(str(tmp_path)), pytest.raises(ml.RunError, match="JAX's profiler does not start: "):
        recorded(lambda: jnp.ones(8) + 1, "jit_another", 2)


def test_an_error_of_the_program_is_its_own():
    def call():
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="^mine$"):
        recorded(call, "jit_another", 2)
