"""Finds the program that `meshlab plan` is given: that of a file, or of a model that has a name.

find("step.py:program", Sizes(dims={"batch": 64}))
find("llama3-8b", Sizes(batch=64))
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path

from ..api.stages import Program
from ..engine.errors import closest, listed
from ..engine.programs.resize import resized
from ..opening.named_models import Named, named_models
from ..widgets.background.models import Model
from .exits import UsageError
from .user_file import program_of


@dataclasses.dataclass(frozen=True)
class Sizes:
    """The sizes that a program is to have.

    Attributes:
        batch: of a model that has a name and takes it; None: its own.
        seq: as `batch`.
        dims: of any dims of arguments, by name; see `Program.resize`.
    """

    batch: int | None = None
    seq: int | None = None
    dims: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @property
    def of_model(self) -> dict[str, int]:
        """Those that a model with a name takes itself."""
        return {name: size for name in ("batch", "seq") if (size := getattr(self, name)) is not None}


@dataclasses.dataclass(frozen=True)
class Found:
    """A program that was found.

    Attributes:
        name: as it is told.
        program: at the sizes that were asked for.
        model: that it is, with the sizes that it was given; None for a program of a file.
    """

    name: str
    program: Program
    model: Model | None = None


def find(word: str, sizes: Sizes) -> Found:
    """Finds a program, and resizes it.

    Args:
        word: `FILE.py`, `FILE.py:name`, or the name of a model.
        sizes: that it is to have.
    """
    file, colon, name = word.rpartition(":") if word.rpartition(":")[0].endswith(".py") else (word, "", "")
    if not file.endswith(".py"):
        model = Model(word, tuple({**sizes.of_model, **sizes.dims}.items()))
        return Found(word, _resized(_traced(_model(word), sizes), sizes.dims), model)
    if sizes.of_model:
        written = ",".join(f"{dim}={size}" for dim, size in sizes.of_model.items())
        given = [f"--{dim}" for dim in sizes.of_model]
        raise UsageError(
            f"`{word}` is a file, and {' and '.join(given)} {'is' if len(given) == 1 else 'are'} only for the models of"
            f" `meshlab models`; write --size {written}."
        )
    if colon and not name:
        raise UsageError(f"`{word}` ends with a colon and names no program; write {file}, or {file}:program.")
    path = Path(file)
    shown, program = program_of(path, name or None)
    return Found(shown, _resized(program, sizes.dims))


def _model(name: str) -> Named:
    models = named_models()
    if name in models:
        return models[name]
    file = f" To plan the file `{name}`, call it `{name}.py`." if os.path.isfile(name) else ""
    raise UsageError(
        f"There is no model `{name}`.{closest(name.lower(), models)}{file} `meshlab models` lists them; a program"
        " of your own is FILE.py, or FILE.py:name."
    )


def _traced(model: Named, sizes: Sizes) -> Program:
    given, problems = sizes.of_model, []
    none = [name for name in given if name not in model.takes]
    if none:
        there = f"; of --batch and --seq it takes {listed(f'--{name}' for name in model.takes)}"
        written = ",".join(f"{name}={max(1, given[name])}" for name in none)
        problems.append(
            f"`{model.name}` takes no {' and no '.join(f'--{name}' for name in none)}{there}. Other sizes are written"
            f" --size {written}, by the names of its dims: {listed(model.dims)}."
        )
    wrong = [f"--{name} was given {size}" for name, size in given.items() if size < 1]
    if wrong:
        problems.append(f"{' and '.join(wrong)}; a size is at least 1.")
    if problems:
        raise UsageError(" ".join(problems))
    return model.trace(**given)


def _resized(program: Program, dims: Mapping[str, int]) -> Program:
    return resized(program, dims) if dims else program
