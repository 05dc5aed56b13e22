"""Where another compiler is installed than the one whose passes peaks follow, every place that shows a peak says so."""

import json
from pathlib import Path

import jaxlib.version
import numpy as np
import pytest

import meshlab as ml
from benchmarks.accuracy import FILE
from meshlab.cost.machines import accuracy
from meshlab.cost.machines.installed_compilers import version_of
from meshlab.cost.peak_memory.memory import memory_of
from meshlab.widgets.explorer import Explorer
from meshlab.widgets.render.snapshot_machine import peak_memory_html
from meshlab.widgets.views.peak_memory import peak_memory_view

ROOT = Path(__file__).parents[2]
COMPILERS_FILE = ROOT / "scripts" / "compilers.txt"
MODELLED = json.loads(FILE.read_text(encoding="utf-8"))["modelled"]


def test_the_compilers_that_are_followed_are_those_that_tests_install() -> None:
    """Peaks of other compilers would be held against a model of these: measure them (docs/accuracy.md) on a change."""
    lines = [*(ROOT / "constraints.txt").read_text().splitlines(), *COMPILERS_FILE.read_text().splitlines()]
    installed = {name: version for name, _, version in (line.partition("==") for line in lines)}
    assert {name: installed[name] for name in ("jaxlib", "libtpu")} == MODELLED


@pytest.mark.parametrize(
    ("machine", "compiler", "note"),
    [
        ("v5e", "0.0.1", f"the passes of libtpu {MODELLED['libtpu']}, for which their error was measured; 0.0.1 is"),
        ("h100", "0.0.1", f"the passes of jaxlib {MODELLED['jaxlib']}, for which their error was measured; 0.0.1 is"),
        ("v5e", MODELLED["libtpu"], ""),
        ("h100", MODELLED["jaxlib"], ""),
    ],
)
def test_another_compiler_is_told_wherever_a_peak_is(
    explorer: Explorer, machine: str, compiler: str, note: str
) -> None:
    explorer.on(machine)
    memory = memory_of(explorer.plan, compiler=compiler)
    view = peak_memory_view(explorer.plan, memory, memory.peak_bytes)
    for text in (memory.other_compiler, str(memory), view["note"], peak_memory_html({"peak_memory": view})):
        assert (note in text) if note else ("follow the passes" not in text)
    assert memory.donated.other_compiler == memory.other_compiler
    assert sum("follow the passes" in line for line in str(memory).splitlines()) == bool(note)


def test_attention_and_another_compiler_are_told_beside_each_other(explorer: Explorer) -> None:
    explorer.on("v5e")
    memory = memory_of(explorer.plan, compiler="0.0.1").given(attention="flash")
    assert peak_memory_view(explorer.plan, memory, memory.peak_bytes)["note"].startswith("Without attention scores")
    assert memory.other_compiler in peak_memory_view(explorer.plan, memory, memory.peak_bytes)["note"]


def test_without_a_machine_it_is_the_compiler_for_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = ml.trace(lambda x: x * 2, np.ones(8, np.float32)).plan(ml.mesh(x=2), {})
    jaxlib = MODELLED["jaxlib"]
    assert f"compiler         Peaks follow the passes of jaxlib {jaxlib}" in str(memory_of(plan, compiler="0.0.1"))
    assert "jaxlib" not in str(memory_of(plan, compiler=jaxlib))
    monkeypatch.setattr(accuracy, "version_of", lambda package: f"another {package}")
    assert "another jaxlib is installed" in memory_of(plan).other_compiler


def test_a_compiler_that_is_not_installed_is_no_other() -> None:
    assert version_of("no-such-compiler") is None
    assert version_of("jaxlib") == jaxlib.version.__version__
