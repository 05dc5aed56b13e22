"""`make presets`: what each preset of `ml.layouts` makes of each model, as the tables of docs/presets.md.

    python -m benchmarks.presets docs/presets.md

A loss alone and a step of decoding do not say what their parameters are: they are given `params="params/*"`. A cell
has the dims that the layout shards, or what the program has not got.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import sys
from collections.abc import Callable

import meshlab as ml
from benchmarks.pages import Section
from meshlab.models.zoo import Model, imported_models, models

SECTION = Section("presets")
MESH = ml.mesh(data=4, model=4)
DATA = ("data_parallel", "zero1", "zero2", "zero3", "fsdp")
PRESETS = (*DATA, "tensor_parallel", "sequence_parallel", "expert_parallel", "context_parallel", "ulysses")
# What an error says is missing, in a word.
MISSING = {
    "and no optimizer state": "state",
    "It computes no gradient": "gradients",
    "No value is tagged `residual`": "`residual`",
    "tagged `residual` have no dim": "sequence",
    "No dim is called `experts`": "experts",
    "No dim called `seq`": "sequence",
    "No operation is in a scope `@core`": "`@core`",
}


@dataclasses.dataclass(frozen=True)
class Row:
    """What the presets make of a model.

    Attributes:
        model: the model.
        program: its program.
        params: the glob that names its parameters, where the program does not tell.
        layouts: by preset, the layout or the error.
    """

    model: Model
    program: ml.Program
    params: str | None
    layouts: dict[str, ml.Layout | ml.LayoutError]


def preset(name: str) -> Callable[..., ml.Layout]:
    """Returns a preset by its name; `ulysses` is a kind of context parallelism."""
    if name == "ulysses":
        return functools.partial(ml.layouts.context_parallel, kind="ulysses")
    return getattr(ml.layouts, name)


@functools.cache
def rows() -> tuple[Row, ...]:
    """Returns a row for every model."""
    return tuple(map(row_of, (*models(), *imported_models())))


def row_of(model: Model) -> Row:
    """Returns the row of a model."""
    program = model.trace()
    params = None if tells(program) else "params/*"

    def attempt(name: str) -> ml.Layout | ml.LayoutError:
        try:
            return preset(name)(program, MESH, **({"params": params} if name in DATA and params else {}))
        except ml.LayoutError as error:
            return error

    return Row(model, program, params, {name: attempt(name) for name in PRESETS})


def tells(program: ml.Program) -> bool:
    """Says whether a program tells what its parameters are."""
    try:
        ml.layouts.data_parallel(program, MESH)
    except ml.LayoutError as error:
        return "parameters are unknown" not in str(error)
    return True


def cell(result: ml.Layout | ml.LayoutError) -> str:
    """Returns the dims of a layout, those at places in brackets, those in a scope behind it; or what is missing."""
    if isinstance(result, ml.LayoutError):
        reasons = [word for text, word in MISSING.items() if text in str(result)]
        return f"no {' and no '.join(reasons)}" if reasons else str(result)
    stored = sorted({dim for rules in result.places.values() for dim in rules})
    inside = [f"{at}: {' '.join(dim for dim, axes in rules.items() if axes)}" for at, rules in result.scopes.items()]
    return " ".join([*sorted(result.rules), *([f"[{' '.join(stored)}]"] if stored else []), *inside])


def table() -> str:
    """Returns the tables of the page."""
    computed = ("data_parallel", "tensor_parallel", "sequence_parallel", "expert_parallel")
    parts = []
    for names in (computed, ("zero1", "zero2", "fsdp"), ("context_parallel", "ulysses")):
        lines = [f"| model | {' | '.join(names)} |", "| --- |" + " --- |" * len(names)]
        for row in rows():
            mark = " \\*" if row.params else ""
            lines.append(f"| {row.model.name}{mark} | {' | '.join(cell(row.layouts[name]) for name in names)} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


if __name__ == "__main__":
    SECTION.write(pathlib.Path(sys.argv[1]), table())
