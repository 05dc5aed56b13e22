"""What is public stands in `__init__.pyi`, and is imported when it is first asked for."""

from __future__ import annotations

import ast
import functools
import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import assert_type

import jax
import jax.numpy as jnp
import pytest

import meshlab as ml
from tests.test_layers import ROOT

STUB = ROOT / "meshlab" / "__init__.pyi"
IMPORTS = [node for node in ast.parse(STUB.read_text()).body if isinstance(node, ast.ImportFrom)]
NAMES = [alias.name for node in IMPORTS for alias in node.names]
_SAID = "print(json.dumps([m for m in sys.modules if '.' not in m or m.startswith('meshlab')]))"
_PLANNED = """
import json, sys
import meshlab as ml
Batch, Hidden = ml.dims(batch=8, hidden=4)
program = ml.trace(lambda x: ml.exp(ml.dot(x, x, Hidden)) + x.mean(), ml.f32[Batch, Hidden])
program.plan(ml.mesh(data=2), "batch:data")
"""


def imported(code: str) -> set[str]:
    """The modules of a fresh process after some code."""
    run = subprocess.run([sys.executable, "-c", code + _SAID], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(json.loads(run.stdout))


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(ml, name) is getattr(ml, name)
    assert name in dir(ml)


def test_each_name_is_public_once() -> None:
    assert len(NAMES) == len(set(NAMES)) > 100
    assert set(vars(ml)["__all__"]) == set(NAMES)


def test_no_module_hides_a_public_name() -> None:
    """An imported module is an attribute of its package, `meshlab.named` for `ml.named`."""
    modules = {path.stem for path in (ROOT / "meshlab").iterdir()}
    assert modules & set(NAMES) == {"auto", "layouts", "puzzles", "tested"}


def documented() -> Iterator[tuple[str, object]]:
    """Each public function and class, and what a class gives its users, by name."""
    for name in NAMES:
        value = getattr(ml, name)
        if not str(getattr(value, "__module__", "")).startswith("meshlab."):
            continue
        yield name, value
        if isinstance(value, type):
            for base in value.__mro__:
                if base.__module__.startswith("meshlab."):
                    own = {n: v for n, v in vars(base).items() if not n.startswith("_")}
                    methods = (property, functools.cached_property, staticmethod, classmethod)
                    yield from (
                        (f"{name}.{n}", getattr(value, n))
                        for n, v in own.items()
                        if inspect.isfunction(v) or isinstance(v, methods)
                    )


def test_what_is_public_is_documented() -> None:
    assert len(dict(documented())) > 280
    assert [name for name, value in documented() if not inspect.getdoc(value)] == []


def twice(x: ml.Tensor) -> tuple[ml.Tensor, jax.Array]:
    return x * 2, x.sum()


def test_a_plan_runs_to_the_type_that_the_function_returns() -> None:
    """Pyright holds what `assert_type` says."""
    program = ml.trace(twice, ml.f32[ml.Dim("batch", 8)])
    ran = program.resize(batch=16).plan(ml.mesh(data=2), "batch:data").run(ml.tensor(jnp.ones(16), "batch"))
    assert_type(ran, tuple[ml.Tensor, jax.Array])
    assert isinstance(ran[0], ml.Tensor)
    assert isinstance(ran[1], jax.Array)


def test_who_imports_meshlab_waits_for_nothing_but_jax() -> None:
    ours = {name for name in imported("import json, sys, meshlab\n") if name.startswith("meshlab")}
    assert len(ours) <= 12, ours


def test_who_traces_and_plans_waits_for_no_widget_and_no_solver() -> None:
    modules = imported(_PLANNED)
    assert modules.isdisjoint({"anywidget", "ipywidgets", "IPython", "plotly", "pulp", "traitlets"})
    assert not {name for name in modules if name.startswith(("meshlab.auto", "meshlab.widgets", "meshlab.layouts"))}
