"""The page's types of what Python sends are made of the views' own, and the page is held to them."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
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


def test_the_file_is_what_the_views_say():
    page_types = script()
    assert page_types.FILE.read_text() == page_types.text()
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
