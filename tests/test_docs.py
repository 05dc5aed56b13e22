"""The documentation is executed: what it prints is what runs."""

import ast
import doctest
import inspect
import pathlib
import re
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import pytest

import meshlab as ml
from benchmarks.techniques.table import ROWS

ROOT = pathlib.Path(__file__).parent.parent


@pytest.mark.share(6)
@pytest.mark.parametrize(
    "page",
    [
        *("architecture.md", "auto.md", "ci.md", "dialects.md", "fit.md", "from-other-systems.md", "goals.md"),
        "long-sequences.md",
        "schedules.md",
        "experts.md",
        *("own-jit.md", "puzzles.md", "scopes.md", "serial.md", "techniques.md"),
        *("cases/mesh-tensorflow.md", "cases/zero.md", "cases/megatron.md", "cases/decoding.md"),
    ],
)
def test_pages_run_as_printed(page):
    path = str(ROOT / "docs" / page)
    results = doctest.testfile(path, module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE)
    assert results.attempted > 5
    assert results.failed == 0


def code(page, language="python"):
    """The blocks of code of a page, as they stand."""
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


def test_layouts_of_techniques_are_those_that_are_planned():
    """`tests/layouts/test_techniques.py` plans, compiles and runs each of them."""
    blocks = [" ".join(block.split()) for block in code("docs/techniques.md")]
    assert [ast.dump(ast.parse(block)) for block in blocks] == [ast.dump(ast.parse(row.written)) for row in ROWS]


OTHERS = "docs/from-other-systems.md"


def test_rules_of_other_systems_are_those_that_are_read_here():
    """Mesh TensorFlow's strings for mesh and layout, and T5X's list: the page has each twice."""
    there = "\n".join(code(OTHERS, "py"))
    (mesh,) = re.findall(r'convert_to_shape\("(.*?)"\)', there)
    (layout,) = re.findall(r'convert_to_layout_rules\("(.*?)"\)', there)
    (rules,) = re.findall(r"logical_axis_rules = (\[.*?\])\n", there, re.DOTALL)
    examples = doctest.DocTestParser().get_examples((ROOT / OTHERS).read_text(encoding="utf-8"))
    nodes = (node for example in examples for node in ast.walk(ast.parse(example.source)))
    here = {ast.unparse(node) for node in nodes if isinstance(node, ast.expr)}
    assert f"ml.mesh({mesh.replace(':', '=').replace(';', ', ')})" in here
    assert repr(layout) in here
    assert ast.unparse(ast.parse(rules)) in here


def test_layers_of_t5x_are_flaxs():
    """T5X is not installed; its layers are in Flax, which is: the page's lines run in a module of it."""
    (block,) = (block for block in code(OTHERS, "py") if "param_with_axes" in block)

    class Layer(nn.Module):
        @nn.compact
        def __call__(self, x):
            names = {"init": nn.initializers.lecun_normal(), "embed": 16, "mlp": 32, "x": x, "jnp": jnp}
            exec(block, names)
            return names["x"] @ names["up"]

    made: Any = Layer().init(jax.random.key(0), jnp.ones((2, 3, 16)))
    assert made["params"]["up"].shape == (16, 32)
    assert tuple(made["params_axes"]["up_axes"].names) == ("embed", "mlp")


def test_the_reference_lists_every_name_once():
    listed = []
    for page in sorted((ROOT / "docs/reference").glob("*.rst")):
        module = ""
        for word, name in re.findall(r"^\.\. (\w+):: (\S+)", page.read_text(encoding="utf-8"), re.MULTILINE):
            if word == "currentmodule":
                module = name
            elif word in ("autofunction", "autoclass", "autodata", "autoexception"):
                listed.append(f"{module}.{name}")
    assert sorted(listed) == sorted(set(listed))
    modules = {"auto", "layouts", "puzzles", "tested"}
    assert {f"meshlab.{name}" for name in vars(ml)["__all__"] if name not in modules} <= {*listed}
    own = {name for name, one in vars(ml.layouts).items() if inspect.isfunction(one) and not name.startswith("_")}
    assert {f"meshlab.layouts.{name}" for name in own} <= {*listed}
