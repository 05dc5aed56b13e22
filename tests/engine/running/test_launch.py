"""Several processes compute what one does, and end together, whatever ends one of them."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from meshlab import cli
from meshlab.engine.running.launch import Fault, Notes, _without_noise, _Worker, launch
from tests.engine.running import many_processes
from tests.engine.running.many_processes import CASES, results

pytestmark = pytest.mark.share(3, of="file")

ROOT = Path(__file__).parents[3]
QUICK = ("FSDP", "ulysses", "pipeline")
# Others wait here for one that never comes.
WAITS = """
import os, signal, sys
import meshlab as ml
ml.distributed()
import jax
from jax.experimental import multihost_utils
print("process", jax.process_index(), "says so", flush=True)
multihost_utils.sync_global_devices("all are there")
if jax.process_index() == int(sys.argv[1]):
    {fault}
multihost_utils.sync_global_devices("nobody comes")
"""


@pytest.fixture(autouse=True)
def finds_tests(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))


def written(folder, text):
    path = folder / "train.py"
    path.write_text(text)
    return str(path)


def equal_to_one_process(folder, processes, names):
    out = folder / "out.npz"
    fault = launch([many_processes.__file__, str(out), *names], processes, 8 // processes)
    assert fault is None, fault
    with np.load(out) as found:
        assert {key.split("/")[0] for key in found} == set(names)
        for name in names:
            for i, expected in enumerate(results(name)):
                scale = np.sqrt(np.mean(np.square(expected, dtype=np.float64))) or 1.0
                np.testing.assert_allclose(found[f"{name}/{i}"], expected, rtol=0, atol=1e-5 * scale)


def test_two_processes_compute_what_one_does(tmp_path, capfd):
    equal_to_one_process(tmp_path, 2, QUICK)
    assert re.findall(r"^\d processes.*", capfd.readouterr().out, re.M) == ["2 processes, 8 devices, 4 here"]


@pytest.mark.nightly
@pytest.mark.parametrize("processes", [2, 4])
def test_all_kinds_of_collectives_are_the_same_in_many_processes(tmp_path, processes):
    equal_to_one_process(tmp_path, processes, list(CASES))


FAULTS = {
    "os.kill(os.getpid(), signal.SIGKILL)": "was killed by SIGKILL",
    "os.kill(os.getpid(), signal.SIGSTOP)": "was stopped by SIGSTOP",
    "os.abort()": "was killed by SIGABRT",
    "raise RuntimeError('the data loader broke')": "ended with status 1",
    "sys.exit(3)": "ended with status 3",
    "sys.exit('no data')": "ended with status 1",
    "os._exit(4)": "ended with status 4",
    "sys.exit(0)": "finished the file while others waited for it",
}


@pytest.mark.share(6)
@pytest.mark.parametrize("process", [0, 1])
@pytest.mark.parametrize("fault", FAULTS)
def test_the_process_that_fails_is_named_and_all_are_ended(tmp_path, capfd, fault, process):
    file = written(tmp_path, WAITS.format(fault=fault))
    told = launch([file, str(process)], 2, 1)
    assert told is not None
    assert (told.process, told.processes, told.how) == (process, 2, FAULTS[fault]), told
    lines = list(told.lines or capfd.readouterr().out.splitlines())
    assert f"process {process} says so" in lines
    if process and "RuntimeError" in fault:
        assert lines[-1] == "RuntimeError: the data loader broke"
        assert f'  File "{file}", line 10, in <module>' in lines
        assert not any("runpy" in line for line in lines)
    if process and "no data" in fault:
        assert lines[-1] == "no data"


# One process starts a second step, or does not, and finishes the file; then the other comes to that step, or ends too.
LATE = """
import os, pathlib, sys, time
import jax, numpy as np
import meshlab as ml
early, has_started, ends = int(sys.argv[1]), "started" in sys.argv, "ends" in sys.argv
batch = ml.Dim("batch", 8)
plan = ml.trace(lambda x: x.sum(), ml.f32[batch]).plan(ml.mesh(data=8), "batch:data")
print(plan.run(np.ones(8, np.float32)))
if jax.process_index() != early:
    while not pathlib.Path(os.environ["MESHLAB_RUN_FOLDER"], f"finished-{early}").exists():
        time.sleep(0.01)
    if not ends:
        print("in all", plan.run(np.ones(8, np.float32)))
elif has_started:
    plan.run(np.ones(8, np.float32))
"""


def test_what_a_process_has_started_is_computed_when_it_finishes_before_the_others(tmp_path, capfd):
    assert launch([written(tmp_path, LATE), "1", "started"], 2, 4) is None
    assert "in all 8.0\n" in capfd.readouterr().out


def test_what_a_process_has_started_alone_and_nobody_asks_for_keeps_nobody(tmp_path):
    assert launch([written(tmp_path, LATE), "1", "started", "ends"], 2, 4) is None


@pytest.mark.parametrize("process", [0, 1])
def test_devices_that_wait_for_one_that_waits_for_a_process_that_left_fail_too(tmp_path, capfd, process):
    fault = launch([written(tmp_path, LATE), str(process), "idle"], 2, 4)
    assert fault is not None
    assert (fault.process, fault.how) == (process, "finished the file while others waited for it")
    assert fault.lines == (("8.0",) if process else None)


# One process finishes the file before the two have computed anything together; the other goes on.
FIRST = """
import sys
import jax, jax.numpy as jnp, numpy as np
import meshlab as ml
from meshlab.engine import processes
batch, ones = ml.Dim("batch", 8), np.ones(8, np.float32)
sums = ml.trace(lambda x: x.sum(), ml.f32[batch]).plan(ml.mesh(data=8), "batch:data")
alone = ml.trace(lambda x: x + 1, ml.f32[batch]).plan(ml.mesh(data=8), "batch:data")
here = ml.trace(lambda x: x.sum(), ml.f32[batch]).plan(ml.mesh(process=2, own=4), "batch:own")
if jax.process_index() != int(sys.argv[1]):
    print("goes on", flush=True)
    {then}
"""


@pytest.mark.parametrize("then", ["print(sums.run(ones))", "processes.all_agree(True)"])
def test_a_process_that_finishes_before_they_met_is_waited_for_no_half_minute(tmp_path, capfd, then):
    fault = launch([written(tmp_path, FIRST.format(then=then)), "1"], 2, 4)
    assert fault is not None
    assert (fault.process, fault.how) == (1, "finished the file while others waited for it")
    assert "waits in vain for process 1, which has finished the file." in capfd.readouterr().err


def test_a_process_that_has_finished_keeps_nobody_from_what_it_is_not_needed_for(tmp_path, capfd):
    wait = "import time; start = time.monotonic()\n    while time.monotonic() < start + 4: "
    then = wait + "jax.block_until_ready([alone.run(ones), here.run(ones)])\n    print('done')"
    assert launch([written(tmp_path, FIRST.format(then=then)), "1"], 2, 4) is None
    assert "\ndone\n" in capfd.readouterr().out


# A thread of JAX's back end never ends: it is in a collective to which no device comes. And nothing can be printed any
# more, which must not send the process on its usual way out.
BUSY = """
import sys, threading
import jax, numpy as np
from jax.sharding import AxisType, PartitionSpec as P
is_inside = threading.Event()
def never(x):
    is_inside.set()
    threading.Event().wait()
def sent(x):
    return jax.lax.psum(jax.pure_callback(never, jax.ShapeDtypeStruct((1,), np.float32), x), "x")
mesh = jax.make_mesh((2,), ("x",), axis_types=(AxisType.Auto,))
jax.jit(jax.shard_map(sent, mesh=mesh, in_specs=P("x"), out_specs=P(), check_vma=False))(np.ones(2, np.float32))
is_inside.wait()
print("finished", flush=True)
sys.stdout.close()
"""


def test_a_process_that_has_finished_waits_for_no_thread_of_the_back_end(tmp_path):
    command = [sys.executable, "-m", "meshlab.cli", "run", written(tmp_path, BUSY), "--processes", "1"]
    # It has ended long before; taking the back end apart takes for ever.
    command += ["--simulate", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout.splitlines()[-1:]) == (0, ["finished"]), done.stderr


@pytest.mark.parametrize("end", ["", "sys.exit(3)", "raise RuntimeError"])
def test_what_a_process_has_written_to_an_open_file_is_there_however_it_ends(tmp_path, end):
    file = written(
        tmp_path,
        "import pathlib, sys\nfolder = pathlib.Path(sys.argv[1])\n"
        'log, raw, closed = (folder / "log").open("w"), (folder / "raw").open("w+b"), (folder / "closed").open("w")\n'
        f'log.write("loss 0.5\\n"), raw.write(b"bytes"), closed.close()\ndef uses(): return log, raw\n{end}',
    )
    assert (launch([file, str(tmp_path)], 1, 1) is None) == (not end)
    assert ((tmp_path / "log").read_text(), (tmp_path / "raw").read_bytes()) == ("loss 0.5\n", b"bytes")


def test_a_fault_is_told_in_words():
    one = Fault(2, 4, "was killed by SIGKILL", ("step 1", "step 2"))
    assert (
        str(one) == "Process 2 of 4 was killed by SIGKILL, and the others were ended. Its last lines:\nstep 1\nstep 2"
    )
    assert str(Fault(1, 2, "ended with status 3", ())).endswith("were ended. It wrote nothing.")
    assert (
        str(Fault(0, 1, "ended with status 3", None)) == "Process 0 of 1 ended with status 3. What it wrote is above."
    )


def test_an_abort_by_jax_comes_of_another_process_and_any_other_abort_does_not(tmp_path):
    process: Any = None
    log = tmp_path / "log"
    worker = _Worker(1, process, log, Notes.of(tmp_path, 1), how="was killed by SIGABRT", seen=2.0)
    log.write_text("loss 0.5\ncorrupted double-linked list\n")
    assert worker.rank == (2, 2.0)
    log.write_text("loss 0.5\nF1129 12:18:52.419828   16436 client.h:80] Terminating process because\n")
    assert worker.rank == (4, 2.0)


def test_what_gloo_says_is_left_out_however_its_threads_tear_it():
    said = "{} is connected to 7 peer ranks. Expected number of connected peer ranks is : 7"
    whole, torn = f"[Gloo] Rank {said.format(3)}", f"[Gloo] Rank [Gloo] Rank 4{said.format(5)}"
    text = f"step 1\n{whole}\n{torn} is connected to 7\n8 of 9\nloss {whole}\n"
    assert _without_noise(text) == ["step 1", "8 of 9", "loss "]


def test_what_one_process_raises_alone_is_a_status_and_arguments_are_passed_on(tmp_path, capfd):
    file = written(tmp_path, "import sys; print(sys.argv[1:], sys.path[0]); sys.exit(5)")
    assert cli.main(["run", file, "--steps", "3", "--processes", "1"]) == 1
    out, err = capfd.readouterr()
    assert f"['--steps', '3'] {tmp_path}" in out
    assert "Process 0 of 1 ended with status 5. What it wrote is above." in err


def test_a_file_that_joins_nobody_is_joined(tmp_path, capfd):
    file = written(tmp_path, "import jax; print(jax.process_count(), jax.device_count(), flush=True)")
    assert cli.main(["run", file, "--processes", "2", "--simulate", "6"]) == 0
    assert "2 6\n" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--processes", "0"], "--processes was given 0; it takes 1 to 64."),
        (["--processes", "3", "--simulate", "8"], "3 processes cannot share 8 devices equally; give --simulate 6."),
        (["--processes", "99", "--simulate", "0"], "--processes was given 99.*; --simulate was given 0; it takes 1"),
    ],
)
def test_numbers_that_do_not_fit_are_refused(words, message, tmp_path, capsys):
    assert cli.main(["run", written(tmp_path, ""), *words]) == 2
    assert re.search(message, capsys.readouterr().err)


def test_a_file_that_is_not_there_is_named(tmp_path, capsys):
    written(tmp_path, "")
    assert cli.main(["run", str(tmp_path / "trian.py")]) == 2
    assert re.search("there is no file .*trian.py.*Did you mean .*train.py", capsys.readouterr().err)


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_all_end_with_the_supervisor(tmp_path, sent, status):
    """Each process holds a pipe open: it is read to its end when the last of them has ended."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    file = written(
        tmp_path,
        f"import os, threading\nos.write(os.open({str(pipe)!r}, os.O_WRONLY), b'.')\n" + "threading.Event().wait()",
    )
    # A shell's background job ignores SIGINT, and hands this on to these tests and to what they start.
    listening = "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler);"
    command = [sys.executable, "-c", f"{listening} runpy.run_module('meshlab.cli', run_name='__main__')"]
    command += ["run", file, "--processes", "2"]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE) as supervisor, pipe.open("rb") as read:
        assert read.read(2) == b".."
        supervisor.send_signal(sent)
        assert read.read() == b""
        assert supervisor.wait() == status
        assert supervisor.stderr is not None
        assert ("Stopped." in supervisor.stderr.read().decode()) == (sent == signal.SIGINT)


CLUSTERS = {
    "SLURM": {"JOB_ID": "{job}", "STEP_NODELIST": "localhost", "NTASKS": "2", "PROCID": "{i}", "LOCALID": "{i}"},
    "OMPI": {
        "MCA_orte_hnp_uri": "{job}.0;tcp://127.0.0.1:34911",
        "COMM_WORLD_SIZE": "2",
        "COMM_WORLD_RANK": "{i}",
        "COMM_WORLD_LOCAL_RANK": "{i}",
    },
}
JOINS = """
import meshlab as ml
ml.distributed()
ml.distributed()
import jax
from meshlab.models import zoo
program = next(model for model in zoo.models() if model.name == "mlp").trace()
plan = program.plan(ml.mesh(data=2, model=2), "batch:data hidden:model")
assert plan.check().ok
print(jax.process_index(), jax.process_count(), jax.device_count(), len(jax.local_devices()), flush=True)
{then}
"""


def together(cluster, then):
    """Runs JOINS in two processes under a launcher's variables; returns what each prints, and how it ends."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM", "OMPI", "XLA_FLAGS"))}
    clean |= {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "2"}
    started = []
    for i in range(2):
        own = {f"{cluster}_{key}": value.format(i=i, job=os.getpid()) for key, value in CLUSTERS[cluster].items()}
        command = [sys.executable, "-W", "ignore", "-c", JOINS.format(then=then)]
        started.append(
            subprocess.Popen(command, env=clean | own, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        )
    ends = [(*(text.decode() for text in each.communicate()), each.returncode) for each in started]
    return ends


@pytest.mark.share(2)
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_processes_of_a_cluster_find_each_other(cluster):
    for i, (out, err, status) in enumerate(together(cluster, "")):
        assert status == 0, err
        assert f"{i} 2 4 2" in out.splitlines()


def test_a_process_that_raises_does_not_wait_for_others():
    then = 'if jax.process_index(): raise RuntimeError("no data")\nfrom jax.experimental import multihost_utils\n'
    (_, _, first), (_, err, second) = together("SLURM", then + 'multihost_utils.sync_global_devices("x")')
    assert first != 0
    assert second == 1
    assert err.rstrip().endswith("RuntimeError: no data")
