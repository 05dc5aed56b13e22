"""No private module of a dependency is used: the next version may have another, or none."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("meshlab", "tests", "benchmarks", "notebooks", "scripts")
FILES = [
    path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py")) if "node_modules" not in path.parts
]
OURS = ("meshlab", "tests", "benchmarks")


def private(text: str) -> Iterator[str]:
    """Yields the names by which a source reaches into private modules or names of packages that are not its own.

    Imports, attributes of what was imported as a module, and modules that are imported by a name in a string.
    """
    tree = ast.parse(text)
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            modules |= {alias.asname or alias.name.split(".")[0]: alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            modules |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and _called(node.func) in ("import_module", "__import__", "importorskip"):
            names = [arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        yield from (name for name in names if _foreign(name) and any(map(_hidden, name.split("."))))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(root := _root(node), ast.Name):
            name = f"{modules.get(root.id, '')}.{node.attr}"
            if root.id in modules and _foreign(name) and _hidden(node.attr) and _is_module(node.value, modules):
                yield ast.unparse(node)


def _is_module(node: ast.expr, modules: dict[str, str]) -> bool:
    """Whether an expression is a module as far as one can see: `jax`, `jax.numpy`, but no object in it."""
    name = ast.unparse(node)
    first, *rest = name.split(".")
    return ".".join((modules[first], *rest)) in sys.modules or not rest


def _called(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _root(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node


def _foreign(name: str) -> bool:
    """Whether a name is of a dependency: not of ours, and not of Python's own library, which says what is private."""
    package = name.split(".", maxsplit=1)[0]
    return package not in OURS and package not in sys.stdlib_module_names


def _hidden(part: str) -> bool:
    return part.startswith("_") and not (part.startswith("__") and part.endswith("__"))


@pytest.mark.parametrize(
    "text",
    [
        "import jax._src.core",
        "from jax._src import core",
        "from jax import _src",
        "import jax\njax._src.core.Jaxpr",
        "import numpy as np\nnp._core.multiarray",
        "import importlib\nimportlib.import_module('jax._src.config')",
    ],
)
def test_what_is_private_is_seen(text: str) -> None:
    assert list(private(text))


@pytest.mark.parametrize(
    "text",
    [
        "from __future__ import annotations",
        "import jax\njax.__version__",
        "from ._own import x",
        "import os\nos._exit(1)",
    ],
)
def test_what_is_public_or_ours_is_not(text: str) -> None:
    assert not list(private(text))


def test_no_private_module_is_used() -> None:
    assert len(FILES) > 300
    problems = [
        f"{path.relative_to(ROOT)}: {name}" for path in FILES for name in private(path.read_text(encoding="utf-8"))
    ]
    assert not problems, "\n".join(problems)
