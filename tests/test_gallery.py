"""The gallery: each line of its page opens a board, whose plan has the figures of its row; each layout is published."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import meshlab as ml
from benchmarks import gallery, published
from meshlab.commands.words import layout_of
from meshlab.models.published import published as published_models

PAGE = Path(__file__).parents[1] / "docs" / "gallery.md"
SECTIONS = re.compile(r"^## (\S+)\n(.*?)^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
ROW = re.compile(r"^\| (\d+) \| (.*?) \| (.*?) \| (.*?) \| (.*?) \| \[(.*?)\]\((https://\S+)\) \|$", re.MULTILINE)


def lines() -> dict[str, tuple[str, tuple[str, ...]]]:
    """The lines of code of the page, by model and number, each with the cells of its row."""
    found = {}
    for model, text, code in SECTIONS.findall(gallery.SECTION.read(PAGE)):
        rows, written = ROW.findall(text), code.splitlines()
        assert [int(row[0]) for row in rows] == list(range(1, len(written) + 1)), model
        found |= {f"{model}-{row[0]}": (line, row[1:]) for row, line in zip(rows, written, strict=True)}
    return found


LINES = lines()


@pytest.mark.share(6)
@pytest.mark.parametrize("name", LINES)
def test_a_line_opens_a_board_whose_plan_has_the_figures_of_its_row(name: str) -> None:
    code, (_, *figures, _, _) = LINES[name]
    explorer = eval(code, {"ml": ml})
    assert gallery.figures(explorer.plan) == tuple(figures)


def test_the_page_has_every_entry_with_its_publication() -> None:
    assert len(LINES) == len(gallery.entries())
    for entry, (code, (measured, *_, source, url)) in zip(gallery.entries(), LINES.values(), strict=True):
        assert code.startswith(f'ml.explore("{entry.model}", {entry.mesh_code}, "')
        assert (source, url) == (entry.source, entry.url)
        assert bool(measured) == (entry.seconds is not None)
        assert entry.model in published_models()


def test_every_model_at_a_published_size_is_named() -> None:
    page = gallery.SECTION.read(PAGE)
    assert [name for name in published_models() if f"`{name}`" not in page and f"## {name}\n" not in page] == []
    assert gallery.without()


def test_layouts_of_measured_runs_are_those_that_accuracy_predicts() -> None:
    runs = [entry for entry in gallery.entries() if entry.source in {run.group for run in published.runs()}]
    assert len(runs) > 8
    laid = {(run.group, run.seconds): ml.Layout.of(published.layout(run)) for run in published.runs()}
    for entry in runs:
        assert layout_of(entry.layout) == laid[entry.source, entry.seconds or 0.0]
