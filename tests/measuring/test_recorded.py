"""What JAX's profiler says of runs is read, run by run; where it says nothing, that is an error."""

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml
from meshlab.measuring.recorded import _read, recorded

ml.simulate(8)

# As profiles of accelerators are: each has a plane, whose events say no device. By number the names of its stats.
STATS = {1: "hlo_op", 2: "hlo_module"}
PROFILE = (
    """
planes {
  name: "/host:CPU"
  lines { name: "python" timestamp_ns: 1000 events { metadata_id: 1 offset_ps: 0 duration_ps: 9000000 } }
  event_metadata { key: 1 value { id: 1 name: "meshlab run 0" } }
}
planes {
  name: "/device:GPU:1"
  lines {
    name: "Stream #14(Compute)"
    timestamp_ns: 1000
    events {
      metadata_id: 1 offset_ps: 2000000 duration_ps: 3000000
      stats { metadata_id: 1 str_value: "fusion.1" } stats { metadata_id: 2 str_value: "jit_profiled" }
    }
    events {
      metadata_id: 1 offset_ps: 6000000 duration_ps: 1000000
      stats { metadata_id: 1 str_value: "fusion.1" } stats { metadata_id: 2 str_value: "jit_another" }
    }
    events { metadata_id: 1 offset_ps: 8000000 duration_ps: 1000000 }
  }
  event_metadata { key: 1 value { id: 1 name: "loop_fusion" } }
"""
    + "".join(f'stat_metadata {{ key: {n} value {{ id: {n} name: "{name}" }} }}\n' for n, name in STATS.items())
    + "}"
)


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


def test_events_of_an_accelerator_are_those_of_its_plane():
    marks, events = _read(jax.profiler.ProfileData.from_text_proto(PROFILE), "jit_profiled")
    assert marks == {0: pytest.approx(1e-6)}
    assert [(event.op, event.device) for event in events] == [("fusion.1", 1)]
    assert (events[0].begin, events[0].end) == (pytest.approx(3e-6), pytest.approx(6e-6))


def test_a_program_that_is_not_in_the_profile():
    with pytest.raises(ml.RunError, match="recorded 0 of 2 runs: its profile names no instructions of the others"):
        recorded(lambda: jnp.ones(8) + 1, "jit_another", 2)


def test_one_profile_at_a_time(tmp_path):
    with jax.profiler.trace(str(tmp_path)), pytest.raises(ml.RunError, match="JAX's profiler did not start: "):
        recorded(lambda: jnp.ones(8) + 1, "jit_another", 2)


def test_an_error_of_the_program_is_its_own():
    def call():
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="^mine$"):
        recorded(call, "jit_another", 2)
