"""Imports between packages go down, never up and never round, annotations and lazy ones included."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import meshlab.engine.planning.staged as steps

ROOT = Path(__file__).parents[1]

# Lowest first: a package may import those before it in this list. A module of `meshlab` itself counts as a package.
_PACKAGES = """
version tested
engine engine.schedules engine.axes
engine.code engine.tensors engine.specs engine.collectives engine.ops engine.rules engine.passes
engine.programs engine.rolling engine.attention engine.dropless
engine.legality engine.planning engine.plans engine.running engine.exporting engine.inside engine.verifying
cost.machines cost.workload cost.step_time cost.peak_memory cost.compilers cost
training measuring api own.naming own whatif layouts
auto.request auto.additive auto.best_first auto.reasons auto
goals
widgets.background widgets.presets widgets.documents widgets.state
widgets.views.charts widgets.views.devices widgets.views.program widgets.views.asked
widgets.views.forms widgets.views
widgets.tables widgets.render widgets.render.print widgets.notebook widgets.frozen widgets
meshlab
models.parts models.basic models.language models.vision models.imported models
opening puzzles.play puzzles.course puzzles workbooks verify commands cli
"""
PACKAGES: list[str] = [*_PACKAGES.split()]
# Rules have a file for each kind of primitive.
MOST_FILES, MOST_LINES, MOST_FLOORS = 27, 400, 14
# How often a step may be asked of which kind it is, and in how many modules.
MOST_ASKED, MOST_ASKING = 30, 8


@functools.cache
def sources() -> dict[str, str]:
    """The text of every module, by its name; a package's `__init__` is the package."""
    paths = [path for path in (ROOT / "meshlab").rglob("*.py") if "node_modules" not in path.parts]
    names = [path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".") for path in paths]
    return {name.removesuffix(".__init__"): path.read_text() for name, path in zip(names, paths, strict=True)}


@functools.cache
def nodes(text: str) -> tuple[ast.AST, ...]:
    """All nodes of a module's syntax tree."""
    return tuple(ast.walk(ast.parse(text)))


def package_of(module: str, modules: Mapping[str, str]) -> str:
    """The package that a module is in."""
    is_package = any(name.startswith(f"{module}.") for name in modules)
    package = (module if is_package else module.rpartition(".")[0]).removeprefix("meshlab.")
    return module.removeprefix("meshlab.") if package == "meshlab" else package


def imported(module: str, modules: Mapping[str, str]) -> Iterator[str]:
    """Yields the modules of ours that a module imports, wherever the import stands in it."""
    is_package = any(name.startswith(f"{module}.") for name in modules)
    package = module.split(".") if is_package else module.split(".")[:-1]
    for node in nodes(modules[module]):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        if isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            for alias in node.names:
                name = f"{base}.{alias.name}"
                yield from [name] if name in modules else [base] if base in modules else []


def upward(modules: Mapping[str, str]) -> list[str]:
    """The imports that go up from one package to another."""
    wrong = []
    for module in modules:
        for other in imported(module, modules):
            package, target = package_of(module, modules), package_of(other, modules)
            if package != target and PACKAGES.index(target) > PACKAGES.index(package):
                wrong.append(f"{module} ({package}) imports {other} ({target})")
    return wrong


def test_every_package_is_in_the_list():
    packages = {package_of(module, sources()) for module in sources()}
    assert packages == set(PACKAGES)


def test_imports_go_down():
    assert not upward(sources())


@pytest.mark.share(3)
@pytest.mark.parametrize(
    "text",
    [
        "from ...api.stages import Program",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ...api.stages import Program",
        "def late():\n    from ...api import stages",
        "import meshlab.api.stages",
    ],
    ids=["plain", "annotation", "lazy", "absolute"],
)
def test_an_import_that_goes_up_is_seen(text):
    module = "meshlab.engine.code.source"
    planted = {**sources(), module: f"{sources()[module]}\n{text}\n"}
    assert upward(planted) == [f"{module} (engine.code) imports meshlab.api.stages (api)"]


def circle(modules: Mapping[str, str]) -> list[str]:
    """The modules of one circle of imports; none where there is none."""
    graph = {module: {o for o in imported(module, modules) if o != module} for module in modules}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_no_imports_go_round():
    assert not circle(sources())
    back = "from .outline import Repetition"
    assert circle(
        {**sources(), "meshlab.engine.programs.naming": f"{sources()['meshlab.engine.programs.naming']}\n{back}"}
    )


def test_packages_and_modules_are_small():
    counts: dict[str, int] = {}
    for module, text in sources().items():
        assert len(text.splitlines()) <= MOST_LINES, module
        package = package_of(module, sources())
        counts[package] = counts.get(package, 0) + 1
    assert {package: count for package, count in counts.items() if count > MOST_FILES} == {}


def test_the_engine_is_not_high():
    below: dict[str, set[str]] = {package: set() for package in PACKAGES if package.startswith("engine")}
    for module in sources():
        package = package_of(module, sources())
        if package in below:
            below[package] |= {package_of(o, sources()) for o in imported(module, sources())} - {package}
    floors: dict[str, int] = {}
    for package in TopologicalSorter(below).static_order():
        floors[package] = 1 + max((floors[other] for other in below[package]), default=0)
    assert max(floors.values()) <= MOST_FLOORS, floors


def test_every_package_says_what_comes_in_and_what_goes_out():
    for module, text in sources().items():
        if package_of(module, sources()) == module.removeprefix("meshlab.") and "." in module:
            assert ast.get_docstring(ast.parse(text)), module


def test_what_is_pointed_to_is_there():
    """Paths of modules, in the map and in docstrings; those of models may be of other repositories."""
    rooms = (ROOT / folder for folder in ("meshlab", "tests", "benchmarks"))
    files = [f"/{path.relative_to(ROOT).as_posix()}" for room in rooms for path in room.rglob("*.[jpt][sy]")]
    pages = {name: text for name, text in sources().items() if not name.startswith("meshlab.models.")}
    pages["the map"] = (ROOT / "docs" / "architecture.md").read_text()
    named = [(page, path) for page, text in pages.items() for path in re.findall(r"`([a-z_/]+\.(?:py|ts))`", text)]
    assert len(named) > 100
    assert [(page, path) for page, path in named if not any(each.endswith(f"/{path}") for each in files)] == []


def test_the_map_names_every_module():
    text = (ROOT / "docs" / "architecture.md").read_text()
    words = set(re.findall(r"\w+", text[text.index("## The map") : text.index("## One worked trace")]))
    assert {name for name in sources() if name.rpartition(".")[2] not in words} == set()


def test_kinds_of_steps_are_seldom_asked_for():
    """A step answers for itself, so that a new kind meets few cases."""
    kinds = {kind.__name__ for kind in steps.Step.__subclasses__()}
    found = {name: _asked(text, kinds) for name, text in sources().items()}
    asking = {name: count for name, count in found.items() if count}
    assert {"Compute", "Move", "Staged"} <= kinds
    assert 0 < sum(asking.values()) <= MOST_ASKED, asking
    assert len(asking) <= MOST_ASKING, asking


def _asked(text: str, names: set[str]) -> int:
    """How often `isinstance` asks for one of some classes."""
    calls = [node for node in nodes(text) if isinstance(node, ast.Call) and len(node.args) == 2]
    asked = [call.args[1] for call in calls if isinstance(call.func, ast.Name) and call.func.id == "isinstance"]
    return sum(any(isinstance(node, ast.Name) and node.id in names for node in ast.walk(each)) for each in asked)
