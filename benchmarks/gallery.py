"""`make gallery`: the models that have names, each under its published layouts, as the sections of docs/gallery.md.

    python -m benchmarks.gallery docs/gallery.md

`gallery.toml` has the layouts, and names runs of `published.toml`, whose sources measured a step. Each is a line of
Python that opens it on a board, and the figures of its plan.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

import meshlab as ml
from benchmarks import published
from benchmarks.pages import Section
from meshlab.commands.words import layout_of
from meshlab.cost.machines.units import bytes_text, count_text, seconds_text
from meshlab.layouts.by_name import together
from meshlab.models.published import published as published_models

DATA = pathlib.Path(__file__).with_suffix(".toml")
SECTION = Section("gallery")
HEAD = "| | a step, published | a step, predicted | peak of a device | a device sends | published by |"
_SERIAL, _IN_TIME = re.compile(r"serial\((\d+)\)"), r"ml.serial(\1)"
_URL = re.compile(r"https://\S+")


@dataclasses.dataclass(frozen=True)
class Entry:
    """A published layout of a model.

    Attributes:
        model: its name.
        on: the machine, with the slice where that was published or is chosen.
        mesh: the mesh axes, an axis in time as "serial(5)".
        sizes: of its dims.
        layout: rules, or presets, as text.
        source: who has published it.
        url: where.
        said: what is published, in words.
        ours: what is chosen here.
        seconds: of a step, as measured; None where that was not published.
    """

    model: str
    on: str
    mesh: Mapping[str, int | str]
    sizes: Mapping[str, int]
    layout: str
    source: str
    url: str
    said: str = ""
    ours: str = ""
    seconds: float | None = None

    @property
    def mesh_code(self) -> str:
        """The mesh, as Python."""
        axes = ", ".join(f"{name}={size}" for name, size in self.mesh.items())
        return f'ml.mesh("{self.on}", {_SERIAL.sub(_IN_TIME, axes)})'

    def code(self, layout: ml.Layout) -> str:
        """Returns the line of Python that opens it on a board, its layout written out."""
        sizes = "".join(f", {name}={size}" for name, size in self.sizes.items())
        return f'ml.explore("{self.model}", {self.mesh_code}, "{layout}"{sizes})'


@functools.cache
def entries() -> tuple[Entry, ...]:
    """Returns the gallery, in the order of its file."""
    data = tomllib.loads(DATA.read_text(encoding="utf-8"))
    runs = [_of_run(group["model"], *run) for group in data["runs"] for run in group["is"]]
    return (*runs, *(_of_layout(row, data["sources"]) for row in data["layouts"]))


def _of_run(model: str, group: str, name: str, devices: int) -> Entry:
    """Makes the entry of a run of `published.toml`."""
    known = [(run.group, run.model, run.devices) for run in published.runs()]
    run = published.runs()[known.index((group, name, devices))]
    url = _URL.findall(run.source)[0]
    sizes, layout = {"batch": run.batch, "seq": run.seq}, str(ml.Layout.of(published.layout(run)))
    return Entry(model, run.on, run.mesh, sizes, layout, group, url, seconds=run.seconds)


def _of_layout(row: Mapping[str, Any], sources: Mapping[str, Mapping[str, str]]) -> Entry:
    """Makes the entry of a layout of `gallery.toml`."""
    source = sources[row["source"]]
    return Entry(**{**row, "source": source["name"], "url": source["url"]})


@functools.cache
def program_of(model: str, sizes: tuple[tuple[str, int], ...]) -> ml.Program:
    return ml.named_models()[model].trace(**dict(sizes))


def plan_of(entry: Entry) -> ml.Plan:
    """Plans the model of an entry under its layout."""
    program = program_of(entry.model, tuple(entry.sizes.items()))
    mesh = eval(entry.mesh_code, {"ml": ml})
    layout = layout_of(entry.layout)
    return program.plan(mesh, together(layout, program, mesh) if isinstance(layout, list) else layout)


def without() -> list[str]:
    """Returns the models at published sizes of which no layout is here."""
    there = {entry.model for entry in entries()}
    return [name for name in published_models() if name not in there]


def figures(plan: ml.Plan) -> tuple[str, str, str]:
    """Returns the step, the peak and the bytes sent, as the page has them."""
    donated = plan.memory.donated
    fits = "" if donated.fits else ", does not fit"
    peak = f"{bytes_text(donated.peak_bytes)} of {bytes_text(donated.limit_bytes)}{fits}"
    return seconds_text(plan.time.estimate), peak, bytes_text(plan.wire_bytes)


def page() -> str:
    """Returns the sections of the page, a model each, and the models of which no layout is here."""
    names = dict.fromkeys(entry.model for entry in entries())
    parts = ["\n".join(_section(name)) for name in names]
    rest = ", ".join(f"`{name}`" for name in without())
    return "\n\n".join([*parts, "## Others", f"Of these models at published sizes no layout is here: {rest}."])


def _section(model: str) -> Iterator[str]:
    mine = [entry for entry in entries() if entry.model == model]
    plans = [plan_of(entry) for entry in mine]
    yield f"## {model}\n\n{count_text(ml.named_models()[model].parameters)} parameters.\n\n{HEAD}"
    yield "|---|---:|---:|---:|---:|---|"
    for number, (entry, plan) in enumerate(zip(mine, plans, strict=True), 1):
        step, peak, sent = figures(plan)
        measured = "" if entry.seconds is None else seconds_text(entry.seconds)
        yield f"| {number} | {measured} | {step} | {peak} | {sent} | [{entry.source}]({entry.url}) |"
    for number, entry in enumerate(mine, 1):
        said = f"{entry.said[:1].upper()}{entry.said[1:]}." if entry.said else ""
        ours = f" Chosen here: {entry.ours}." if entry.ours else ""
        if said:
            yield f"\n{number}. {said}{ours}" if len(mine) > 1 else f"\n{said}{ours}"
    code = [entry.code(plan.layout) for entry, plan in zip(mine, plans, strict=True)]
    yield "\n".join(("\n```python", *code, "```"))


if __name__ == "__main__":
    SECTION.write(pathlib.Path(sys.argv[1]), page())
