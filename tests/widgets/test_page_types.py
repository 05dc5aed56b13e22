"""The page's types of what Python sends are made of the views' own, and the page is held to them."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from typing import Any, Literal, NotRequired, TypedDict

import pytest

from tests.test_layers import ROOT

PAGE = ROOT / "meshlab" / "widgets" / "js"
TSC = PAGE / "node_modules" / ".bin" / "tsc"


def script() -> Any:
    spec = importlib.util.spec_from_file_location("page_types", ROOT / "scripts" / "page_types.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class DotView(TypedDict):
    """A dot."""

    at: tuple[float, int]
    kind: Literal["a", "b"] | None
    names: NotRequired[list[str | None]]
    sums: dict[str, list[int]]


def test_a_view_is_written_as_a_type_of_the_page():
    assert script().page_object("Dot", DotView) == (
        "/** A dot. */\nexport type Dot = {\n"
        '  at: [number, number];\n  kind: "a" | "b" | null;\n  names?: (string | null)[];\n'
        "  sums: Record<string, number[]>;\n};\n"
    )


def test_what_json_has_no_like_of_is_refused():
    with pytest.raises(TypeError, match="the page has no type for .*complex"):
        script().page_type(complex)


def test_the_files_are_what_the_views_say():
    page_types = script()
    assert [file.name for file, text in page_types.FILES.items() if file.read_text() != text()] == []
    assert len(page_types.declared()) > 80


@pytest.mark.skipif(not TSC.exists(), reason="npm is not installed here")
def test_a_misspelt_field_is_found(tmp_path):
    page = tmp_path / "js"
    shutil.copytree(PAGE, page, ignore=shutil.ignore_patterns("node_modules", "test"))
    (page / "node_modules").symlink_to(PAGE / "node_modules")

    def checked() -> str:
        return subprocess.run([str(TSC), "-p", str(page)], capture_output=True, text=True, check=False).stdout

    assert checked() == ""
    file = page / "src" / "remedies.ts"
    file.write_text(file.read_text().replace("price.bytes", "price.byets"))
    assert "Property 'byets' does not exist on type 'Price'" in checked()


TOY = {
    "meshlab/widgets/views/toy.py": """
from typing import TypedDict

from ..state.explorer_state import ExplorerState


class ToyView(TypedDict):
    devices: int


def toy_view(explorer: ExplorerState) -> ToyView:
    return {"devices": explorer.mesh.size}
""",
    "meshlab/widgets/js/src/toy.ts": """
import { h } from "./dom.ts";
import type { Drawing } from "./stage.ts";

export const panel: Drawing = { draw: (board) => [h("p", {}, String(board.reads.of("toy").data?.devices))] };
""",
}
ENTRY = """    "toy": Panel("Toy", ("board",), {"toy": toy.toy_view}),\n    "run":"""
SHOWN = """
import meshlab as ml
from meshlab.widgets.notebook.protocol import answer
from tests.widgets import small

explorer = ml.explore(small.program(), small.mesh())
print(explorer.views.toy, answer(explorer, {"v": 2, "kind": "read", "id": 1, "what": "toy"})["data"])
"""


@pytest.mark.skipif(not TSC.exists(), reason="npm is not installed here")
def test_a_panel_is_its_view_its_module_and_one_entry(tmp_path):
    """Three source files; the page's list of panels and its types are written of them."""
    shutil.copytree(ROOT / "meshlab", tmp_path / "meshlab", ignore=shutil.ignore_patterns("node_modules", "test"))
    shutil.copytree(ROOT / "tests" / "widgets", tmp_path / "tests" / "widgets")
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "page_types.py", tmp_path / "scripts")
    for path, text in TOY.items():
        (tmp_path / path).write_text(text)
    panels = tmp_path / "meshlab/widgets/views/panels.py"
    imported = panels.read_text().replace("from .devices.heat", "from . import toy\nfrom .devices.heat", 1)
    panels.write_text(imported.replace('    "run":', ENTRY))
    (tmp_path / "meshlab/widgets/js/node_modules").symlink_to(PAGE / "node_modules")

    def run(*command: str) -> str:
        environment = os.environ | {"PYTHONPATH": str(tmp_path)}
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment)
        return done.stdout + done.stderr

    assert "panel_list.ts was not what" in run(sys.executable, "scripts/page_types.py")
    assert run(str(TSC), "-p", "meshlab/widgets/js") == ""
    shown = run(sys.executable, "-c", SHOWN)
    assert shown.startswith("View(toy of Explorer(")
    assert shown.endswith("{'devices': 8}\n")
