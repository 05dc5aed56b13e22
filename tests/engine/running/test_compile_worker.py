"""XLA's own partitioner in a process of its own: what is handed over and read there, and how it ends."""

import re
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import NamedSharding, PartitionSpec

import meshlab as ml
from meshlab.engine.errors import CompilerError
from meshlab.engine.running import kept_processes
from meshlab.engine.verifying import xla_partitioner
from tests.engine.small_programs import X2Y2, X4, A, B, C, inserted_here, product
from tests.processes import children

pytestmark = pytest.mark.share(2, of="file")


@pytest.fixture(autouse=True)
def none_waits():
    kept_processes.end_all()
    yield
    kept_processes.end_all()


def test_what_is_read_there_is_what_is_compiled_here():
    """Keys, marks of our own (`shift`), constants of a megabyte and library calls on the way to the other process."""
    table = np.random.default_rng(0).normal(size=(512, 512)).astype(np.float32)

    def step(key, x):
        shifted = ml.shift(x, A, 1).array + jax.random.normal(key, x.array.shape)
        whole = jnp.linalg.cholesky(jnp.eye(16) * (1 + shifted.sum() ** 2))
        return ml.tensor(shifted, A, B), (jnp.asarray(table) @ table).sum() * whole[0, 0], lax.top_k(x.array, 3)

    plan = ml.trace(step, jax.random.key(0), ml.f32[A, B]).plan(X2Y2, "a:x b:y")
    for constraints in ("all", "stored"):
        report = plan.xla(constraints)
        assert report.inserted
        assert report.inserted == inserted_here(report)


def test_numbers_of_64_bits_stay_so():
    with jax.enable_x64(True):
        x = ml.named(jax.ShapeDtypeStruct((8, 16), jnp.float64), "a b")
        report = ml.trace(lambda x: x.sum(1), x).plan(X4, "b:x").xla()
    assert report.inserted == {("all-reduce", ("x",)): 8 * 8}


def handing_over(monkeypatch, fn):
    """A plan for which XLA's partitioner is handed a function instead, of an array and of a function that constrains.

    Which programs that partitioner fails on hangs on the layout of every value. So that no better plan takes the test
    its meaning, that is said here; all else is real.
    """

    def instead(plan, mesh, constraints):
        split = NamedSharding(mesh, PartitionSpec(("x", "y")))
        whole = NamedSharding(mesh, PartitionSpec(None))
        function = jax.jit(
            lambda e: fn(e, lambda array, cut: lax.with_sharding_constraint(array, split if cut else whole))
        )
        return function, [jax.ShapeDtypeStruct((8,), jnp.float32, sharding=split)]

    monkeypatch.setattr(xla_partitioner, "_function", instead)
    return ml.trace(lambda x: x * 2.0, ml.f32[A]).plan(ml.mesh(x=4, y=2), "a:x+y")


def test_a_partitioner_that_ends_its_process_is_told(monkeypatch):
    """A slice that is wanted whole and a running sum that is wanted split: jaxlib 0.10.2 and 0.12 abort."""
    plan = handing_over(monkeypatch, lambda e, lies: (lies(e[:1], False), lies(jnp.cumsum(e), True)))
    with pytest.raises(CompilerError) as caught:
        plan.xla("all")
    assert re.fullmatch(
        r"plan\.xla\(\"all\"\) passes the program to XLA's own partitioner, which fails: its process ended by"
        r" signal 6 \(Aborted\); spmd_partitioner\.cc:\d+\] Check failed: .*\n.* plan\.check\(\) compares it"
        r' with .* try plan\.xla\("stored"\), or another layout\.',
        str(caught.value),
    )
    assert plan.check().ok
    monkeypatch.undo()
    assert plan.xla().equal


def test_what_the_partitioner_refuses_is_told_in_its_words(monkeypatch):
    plan = handing_over(monkeypatch, lambda e, lies: (lies(e, False) * 2, lies(e[:1], False)))
    with pytest.raises(CompilerError, match="which fails: JaxRuntimeError: INTERNAL: .*shape equal to f32") as caught:
        plan.xla("stored")
    assert 'try plan.xla("all")' in str(caught.value)
    assert "partitioner.py" not in str(caught.value)


def simple():
    return ml.trace(product, ml.f32[A, B], ml.f32[B, C]).plan(X4, "b:x")


def test_progress_is_told():
    reports = []
    simple().xla(progress=reports.append)
    stages = list(dict.fromkeys(p.stage for p in reports))
    assert stages[:2] == ["exporting", "starting"]
    assert set(stages[2:]) <= {"lowering", "compiling"}
    assert str(reports[0]) == "exporting for 4 simulated CPU devices, 0 s"


def test_xla_is_ended_when_it_takes_too_long_or_is_cancelled():
    message = "Compiling for 4 simulated CPU devices was"
    with pytest.raises(CompilerError, match=rf"{message} ended after 1e-09 s, while .* plan\.xla\(timeout=2e-09\), or"):
        simple().xla(timeout=1e-9)
    assert not children("compile_worker.py")
    cancel = threading.Event()

    def stop(progress):
        if progress.stage == "starting":
            assert children("compile_worker.py")
            cancel.set()

    with pytest.raises(CompilerError, match=rf"{message} cancelled after \d+\.\d s \(starting\)"):
        simple().xla(progress=stop, cancel=cancel)
    assert not children("compile_worker.py")


def test_the_process_waits_for_the_next_program():
    simple().xla()
    (first,) = children("compile_worker.py")
    number = next(iter(kept_processes.waiting())).running.pid
    simple().xla("stored")
    assert children("compile_worker.py") == [first]
    assert [started.running.pid for started in kept_processes.waiting()] == [number]


def test_a_process_that_ended_while_it_waited_is_replaced():
    simple().xla()
    (started,) = kept_processes.waiting()
    started.running.kill()
    started.running.wait()
    assert simple().xla().equal


def test_a_process_does_not_wait_for_ever(monkeypatch):
    monkeypatch.setattr(kept_processes, "WAITS", 0.01)
    simple().xla()
    ended = threading.Event()
    while children("compile_worker.py"):
        ended.wait(0.01)
    assert not kept_processes.waiting()


def test_an_interrupt_ends_xla():
    def interrupt(progress):
        if progress.stage == "starting":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        simple().xla(progress=interrupt)
    assert not children("compile_worker.py")


def test_what_is_no_limit_is_refused():
    plan = simple()
    with pytest.raises(CompilerError, match=r"timeout must be a number of seconds above 0; plan\.xla was given True"):
        plan.xla(timeout=True)
    with pytest.raises(CompilerError, match=r"plan\.xla's progress"):
        plan.xla(progress="print")  # pyright: ignore[reportArgumentType]
    with pytest.raises(CompilerError, match=r"plan\.xla was given cancel=3; it must be a threading\.Event or similar"):
        plan.xla(cancel=3)  # pyright: ignore[reportArgumentType]


def test_calls_back_into_python_are_refused():
    def fn(x):
        return jax.pure_callback(lambda a: a, jax.ShapeDtypeStruct(x.shape, x.dtype), x.array)

    plan = ml.trace(fn, ml.f32[A, B]).plan(X4, "b:x")
    with pytest.raises(CompilerError, match=r"plan\.xla\(\) compiles .* `pure_callback` at test_compile_worker.py"):
        plan.xla()
