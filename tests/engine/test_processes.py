"""Processes that have joined share one list of devices; one alone joins nobody."""

import subprocess
import sys
from pathlib import Path

import pytest

from meshlab.engine.running.launch import launch

pytestmark = pytest.mark.share(2, of="several processes")

ROOT = Path(__file__).parents[2]
SHARED = """
import jax, jax.numpy as jnp, numpy as np, pytest
import meshlab as ml
from jax.sharding import NamedSharding, PartitionSpec
from meshlab.engine.devices import devices
from meshlab.engine.processes import whole
from meshlab.engine.running.dispatch import placed
from meshlab.widgets.documents.document import ExplorerError

assert [d.process_index for d in devices(8)] == [0, 0, 0, 0, 1, 1, 1, 1]
assert [d.process_index for d in devices(4)] == [0, 0, 1, 1], "a part of each process"
with pytest.raises(ml.MeshError, match="has 3 devices, which 2 processes cannot share equally. .* of 2 devices"):
    devices(3)
with pytest.raises(ml.MeshError, match="16 devices, and 2 processes have 8 together. .*--processes 2 --simulate 16"):
    devices(16)
before = jax.devices()
ml.simulate(8)
assert jax.devices() == before
with pytest.raises(ml.MeshError, match="ml.simulate asks for 9 devices, and 2 proc.* have 8 .*JAX_NUM_CPU_DEVICES=5"):
    ml.simulate(9)
assert jax.devices() == before

mesh = jax.sharding.Mesh(np.array(devices(8)), ("x",))
rows = np.arange(16.0, dtype=np.float32)
for spec in (PartitionSpec("x"), PartitionSpec()):
    for given in (rows, jnp.asarray(rows), jax.random.split(jax.random.key(1), 16)):
        there = placed(given, NamedSharding(mesh, spec))
        assert placed(there, NamedSharding(mesh, spec)) is there
        assert len(there.addressable_shards) == 4
        for array in (there, placed(there, NamedSharding(mesh, PartitionSpec()))):
            assert (whole(array) == given).all()
            assert whole(array).dtype == given.dtype

Rows = ml.Dim("rows", 10)
padded = ml.trace(lambda x: x * 2.0, ml.f32[Rows]).plan(ml.mesh(x=8), "rows:x", pad=True)
assert padded.check(rows[:10]).ok
assert (whole(padded.run(padded.run(rows[:10])).array) == 4 * rows[:10]).all()
seen = []
plan = ml.trace(lambda x: x.sum(), ml.f32[ml.Dim("rows", 16)]).plan(ml.mesh(x=8), "rows:x")
assert plan.check(placed(rows, plan.shardings[0][0]), progress=seen.append).ok
assert bool(seen) == (jax.process_index() == 0)
part = jax.make_array_from_process_local_data(plan.shardings[0][0], rows[8 * jax.process_index() :][:8])
assert float(plan.run(part)) == rows.sum()
if jax.process_index():
    with pytest.raises(ExplorerError, match="ml.explore.. was called in process 1, but only process 0 can open"):
        ml.explore()
"""


def test_processes_share_devices_arrays_and_checks(tmp_path):
    file = tmp_path / "shared.py"
    file.write_text(SHARED)
    assert launch([str(file)], 2, 4) is None


def alone(code):
    """Runs code in a process of its own; returns what it prints, and its status."""
    command = [sys.executable, "-c", f"import jax\nimport meshlab as ml\n{code}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr, done.returncode


def test_a_process_alone_joins_nobody():
    code = "ml.distributed(); ml.distributed(); print(jax.distributed.is_initialized(), jax.process_count())"
    assert alone(code) == ("False 1\n", 0)


def test_joining_comes_before_the_first_use_of_jax():
    said, status = alone("jax.devices(); ml.distributed()")
    assert status == 1
    assert "RunError: ml.distributed() was called after JAX was first used" in said


def test_processes_that_do_not_come_are_told():
    """In JAX's words, where it raises: mostly it ends the process, with a log."""
    code = """
from meshlab.engine import processes
def join(**given):
    raise RuntimeError("DEADLINE_EXCEEDED")
processes.join = join
ml.distributed()
"""
    said, status = alone(code)
    assert status == 1
    assert "RunError: ml.distributed() could not join the other processes: DEADLINE_EXCEEDED" in said
