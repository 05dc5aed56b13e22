"""What docs/clusters.md prints runs as printed, in processes of this machine; and what it says of JAX's detection."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from meshlab.engine.running.launch import launch

pytestmark = pytest.mark.share(2, of="several processes")

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "clusters.md").read_text(encoding="utf-8")
TRAIN, BY_HAND = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
PATH = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])


def in_processes(code: str, folder: Path, *each: dict[str, str]) -> list[tuple[int, str, str]]:
    """Runs code in a process for each set of variables; returns how each ends, and what it prints."""
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("SLURM", "OMPI", "XLA_FLAGS"))}
    clean |= {"JAX_PLATFORMS": "cpu", "JAX_NUM_CPU_DEVICES": "2", "PYTHONPATH": PATH}
    file = folder / "train.py"
    file.write_text(code)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "cwd": folder}
    started = [subprocess.Popen([sys.executable, str(file)], env=clean | own, **pipes) for own in each]
    ends = [process.communicate() for process in started]
    return [(process.returncode, *end) for process, end in zip(started, ends, strict=True)]


def slurm(number: int, count: int, local: int) -> dict[str, str]:
    """The variables that JAX reads under SLURM."""
    own = {"JOB_ID": os.getpid(), "STEP_NODELIST": "localhost", "NTASKS": count, "PROCID": number, "LOCALID": local}
    return {f"SLURM_{key}": str(value) for key, value in own.items()}


def test_the_file_trains_in_two_processes_and_goes_on_in_one(tmp_path, monkeypatch, capfd):
    pytest.importorskip("orbax.checkpoint")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", PATH)
    (tmp_path / "train.py").write_text(TRAIN.replace("steps=40", "steps=20"))
    assert launch(["train.py"], 2, 4) is None
    printed = capfd.readouterr().out
    assert "This is process 0 of 2; it has 4 of the devices." in printed
    (first,) = re.findall(r"^step 20, loss (.*)$", printed, re.MULTILINE)
    ((status, out, err),) = in_processes(TRAIN, tmp_path, {})
    assert status == 0, err
    (last,) = re.findall(r"^step 40, loss (.*)$", out, re.MULTILINE)
    assert float(last) < float(first)
    assert sorted(int(path.name) for path in (tmp_path / "runs" / "first").iterdir()) == [20, 30, 40]


def test_a_process_that_leaves_the_loop_early_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", PATH)
    less = TRAIN.replace("steps=40", "steps=40 - jax.process_index()").replace(
        ', checkpoint="runs/first", every=10', ""
    )
    (tmp_path / "train.py").write_text(less)
    fault = launch([str(tmp_path / "train.py")], 2, 4)
    assert fault is not None
    (line,) = re.findall(r"^    (Process 1 of 2 .*)$", PAGE, re.MULTILINE)
    assert str(fault).startswith(line)


def test_processes_that_are_named_by_hand_find_each_other(tmp_path):
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        port = tried.getsockname()[1]
    given = {"FIRST": f"127.0.0.1:{port}", "COUNT": "2", "KUBERNETES_SERVICE_HOST": "10.0.0.1", "HTTP_PROXY": "x"}
    code = f"{BY_HAND}\nimport meshlab as ml\nml.distributed()\nprint(ml.devices())"
    for number, (status, out, err) in enumerate(
        in_processes(code, tmp_path, *({**given, "NUMBER": str(i)} for i in range(2)))
    ):
        assert status == 0, err
        assert f"This is process {number} of 2; it has 2 of the devices." in out
        # What the page says that one sees.
        assert "JAX detected proxy variable(s) in the environment" in err
        assert "Kubernetes environment detected, but the `kubernetes` package is not installed" in " ".join(err.split())


def test_under_slurm_a_process_takes_one_gpu_or_those_that_are_listed(tmp_path):
    (listed,) = re.findall(r"^export (JAX_LOCAL_DEVICE_IDS)=(.*)$", PAGE, re.MULTILINE)
    code = "import logging\nlogging.basicConfig(level=logging.INFO)\nimport meshlab as ml\nml.distributed()"
    for own, gpus in (({}, "3"), (dict([listed]), listed[1])):
        ((status, _, err),) = in_processes(code, tmp_path, slurm(0, 1, 3) | own)
        assert status == 0, err
        assert f"initialized with visible devices: {gpus}\n" in err


def test_a_process_that_jax_does_not_recognise_runs_alone(tmp_path):
    ((status, out, err),) = in_processes("import meshlab as ml\nml.distributed()\nprint(ml.devices())", tmp_path, {})
    assert status == 0, err
    assert out.startswith("JAX has 2 CPU devices")
    assert "This is process" not in out


def test_scripts_and_manifests_agree_with_themselves():
    script, _ = re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL)
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
    options = dict(re.findall(r"^#SBATCH --([\w-]+)=(\d+)$", script, re.MULTILINE))
    assert options["ntasks-per-node"] == options["gpus-per-node"]
    ((service, job),) = (list(yaml.safe_load_all(text)) for text in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL))
    pod = job["spec"]["template"]["spec"]
    assert pod["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    assert service["spec"]["clusterIP"] == "None"
    assert job["spec"]["completionMode"] == "Indexed"
    assert job["spec"]["completions"] == job["spec"]["parallelism"]
