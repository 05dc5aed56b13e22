"""Compilers of absent hardware that are installed beside JAX say nothing in the processes of others."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

from meshlab.cost.machines.installed_compilers import folder_of_compilers
from meshlab.engine import absent_hardware

pytestmark = pytest.mark.share(2, of="file")

PLAN = ["-m", "meshlab.cli", "plan", "digits", "--mesh", "data=4", "--layout", "batch:data"]
# As in a notebook, whose first cell imports JAX before meshlab.
NOTEBOOK = """
import jax, meshlab as ml
Batch, Embed = ml.dims(batch=8, embed=4)
ml.trace(lambda x: ml.relu(x).sum(Embed), ml.f32[Batch, Embed]).plan(ml.mesh(data=4), "batch:data").check()
print(jax.default_backend(), sorted(jax.extend.backend.backends()))
"""
COMPILE = """
import meshlab as ml
Batch, Embed = ml.dims(batch=8, embed=4)
plan = ml.trace(lambda x, w: ml.dot(x, w, Embed), ml.f32[Batch, Embed], ml.f32[Embed]).plan(ml.mesh(x=4), "batch:x")
print([ml.compile_for(plan, slice).equal for slice in ("v5e:2x2", "h100:1x1x4")])
"""


@pytest.fixture
def compilers():
    """The folder of compilers, which stands here for the place where JAX itself is installed."""
    folder = folder_of_compilers()
    if folder is None:
        pytest.skip("no compilers are installed here (`make test` does so on Linux)")
    if absent_hardware.has_gpu() or absent_hardware.has_tpu():
        pytest.skip("an accelerator is attached, whose plugin is to be used")
    return folder


def python(folder, *arguments, **environment):
    """Runs Python where the compilers lie beside JAX; returns what it prints, and what it says on stderr."""
    dropped = ("JAX_PLATFORMS", "JAX_NUM_CPU_DEVICES", "XLA_FLAGS", "MESHLAB_COMPILERS")
    clean = {name: value for name, value in os.environ.items() if name not in dropped}
    path = os.pathsep.join([str(pathlib.Path(__file__).parents[2]), folder])
    done = subprocess.run(
        [sys.executable, *arguments],
        env=clean | {"PYTHONPATH": path} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def alone(folder, code, **environment):
    """Runs code with the module as `m`, without the rest of meshlab; returns what it prints."""
    start = f"import runpy, sys; m = runpy.run_path({absent_hardware.__file__!r}); "
    return python(folder, "-c", start + code, **environment)[0]


@pytest.mark.parametrize("platforms", [{}, {"JAX_PLATFORMS": "cpu"}], ids=["unset", "cpu"])
def test_a_command_prints_what_it_has_to_say_and_nothing_else(compilers, platforms):
    printed, said = python(compilers, *PLAN, **platforms)
    assert re.match(r"program +digits\n", printed)
    assert said == ""


def test_the_compilers_are_loud_where_nobody_keeps_them_out(compilers):
    """What the other tests would see: else they could not fail."""
    _, said = python(compilers, "-c", "import jax; jax.devices()")
    assert "Jax plugin configuration error" in said
    assert "libtpu" in said


def test_where_jax_was_imported_first_its_plugins_stay_and_are_not_tried(compilers):
    """The lines of the plugin's libraries come with JAX's own import, before meshlab is there."""
    printed, said = python(compilers, "-c", NOTEBOOK)
    assert printed == "cpu ['cpu']\n"
    own = ("Could not find cuda drivers", "All log messages before absl::InitializeLog()")
    (line,) = [line for line in said.splitlines() if not any(words in line for words in own)]
    assert line.startswith("No 4 accelerators are attached")
    asked = NOTEBOOK.replace("import jax, meshlab as ml", "import jax, meshlab as ml; ml.simulate(4)")
    assert "accelerators" not in python(compilers, "-c", asked)[1]


def test_a_hidden_compiler_still_compiles(compilers):
    assert python(compilers, "-c", COMPILE) == ("[True, True]\n", "")


def test_what_is_asked_for_is_not_hidden(compilers):
    code = "m['hide'](); print([name for name in ('libtpu', 'jax_cuda12_plugin') if sys.modules.get(name, 0) is None])"
    assert alone(compilers, code) == "['libtpu', 'jax_cuda12_plugin']\n"
    assert alone(compilers, code, JAX_PLATFORMS="cuda,cpu") == "['libtpu']\n"
    assert alone(compilers, code, JAX_PLATFORMS="tpu,cpu") == "['jax_cuda12_plugin']\n"


def test_other_plugins_are_left_to_jax(compilers, tmp_path):
    (tmp_path / "jax_plugins" / "other").mkdir(parents=True)
    (tmp_path / "jax_plugins" / "other" / "__init__.py").touch()
    code = "print(m['only_absent']())"
    assert alone(compilers, code) == "True\n"
    assert alone(os.pathsep.join([compilers, str(tmp_path)]), code) == "False\n"


@pytest.mark.parametrize(
    ("maker", "kind", "there"),
    [
        ("0x1ae0", "0x120000", True),
        ("0x1ae0", "0x020000", False),  # a network card of Google's
        ("0x1ae0", "0x010802", False),  # a disk of Google's
        ("0x10de", "0x030200", False),
    ],
)
def test_a_tpu_is_known_by_its_maker_and_its_class(maker, kind, there, tmp_path, monkeypatch):
    (tmp_path / "0000:00:04.0").mkdir()
    (tmp_path / "0000:00:04.0" / "vendor").write_text(f"{maker}\n")
    (tmp_path / "0000:00:04.0" / "class").write_text(f"{kind}\n")
    monkeypatch.setattr(absent_hardware, "_PCI", tmp_path)
    monkeypatch.delenv("JAX_FORCE_TPU_INIT", raising=False)
    assert absent_hardware.has_tpu() is there
    monkeypatch.setenv("JAX_FORCE_TPU_INIT", "1")
    assert absent_hardware.has_tpu()
