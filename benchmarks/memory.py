"""How far predicted memory is from XLA's own account: `python -m benchmarks.memory --write docs/accuracy.md`.

    python -m benchmarks.memory --journal memory.jsonl --held-out held_out.jsonl --write docs/accuracy.md

Every program of the zoo is compiled under 20 layouts that are drawn, on up to 8 simulated devices, and the bytes that
XLA for CPUs gives (arguments + outputs + temporaries - aliases) are held against `plan.memory`. What was compiled is a
line of the journal, so that what was stopped goes on where it was, and a change of the prediction compiles nothing. The
compiling takes about half an hour on two cores, the predicting four minutes.

The model was made by looking at those layouts. With `--held-out`, others are compiled, which another seed draws and
which are not among them, and the page tells their errors, too.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import os
import pathlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import numpy as np

import meshlab as ml
from benchmarks.pages import Section
from meshlab.api.stages import Plan, Program
from meshlab.engine.specs.layout import Layout
from meshlab.engine.specs.mesh import Mesh
from meshlab.engine.verifying.random_layouts import draw
from meshlab.models.zoo import Model, models

SEED, LAYOUTS, DEVICES = 4, 20, 8
# The layouts that are held out; none is among those of the seeds by looking at which the model was made.
HELD_OUT_SEED, HELD_OUT, LOOKED_AT = 12, 8, (SEED, 11)
SECTION = Section("memory")
# What is promised: the median, nine of ten cases, and the most that a peak may be predicted too low.
MEDIAN, NINE_OF_TEN, TOO_LOW = 0.05, 0.15, 0.10
# The errors of each program's plans.
Rows = dict[str, Sequence[float]]


def drawn(program: Program, seed: int = SEED) -> Iterator[tuple[Mesh, Layout]]:
    """Yields the layouts that are compared: those of `SEED`, or others, none of which the model was made by."""
    if seed == SEED:
        yield from draw(program, SEED, LAYOUTS)
        return
    looked_at = LOOKED_AT[: LOOKED_AT.index(seed)] if seed in LOOKED_AT else LOOKED_AT
    seen = {(mesh, str(layout)) for known in looked_at for mesh, layout in draw(program, known, LAYOUTS)}
    others = (one for one in draw(program, seed, 2 * LAYOUTS) if (one[0], str(one[1])) not in seen)
    yield from itertools.islice(others, HELD_OUT)


def plans(program: Program, chosen: Iterable[int] = range(LAYOUTS), seed: int = SEED) -> Iterator[tuple[int, Plan]]:
    """Yields the plans of a program that are compared, by number."""
    numbers = set(chosen)
    for number, (mesh, layout) in enumerate(drawn(program, seed)):
        if number in numbers:
            yield number, program.plan(mesh, layout)


def compiled(plan: Plan) -> dict[str, int]:
    """The bytes of one device that XLA gives."""
    analysis = plan.compile().memory_analysis()
    names = ("argument", "output", "temp", "alias")
    return {name: int(getattr(analysis, f"{name}_size_in_bytes")) for name in names}


def total(sizes: dict[str, int]) -> int:
    """All bytes of one device."""
    return sizes["argument"] + sizes["output"] + sizes["temp"] - sizes["alias"]


def table_bytes(plan: Plan) -> int:
    """What XLA for CPUs counts as output beside the outputs: a table of one pointer for each, if there are several."""
    count = len(plan.program.outputs)
    return 8 * count if count > 1 else 0


def error(plan: Plan, sizes: dict[str, int]) -> float:
    """How much too high the predicted peak is, as a share of XLA's; negative where it is too low.

    Raises:
        ValueError: arguments or outputs are not exact.
    """
    exact = plan.stored.argument_bytes, plan.stored.output_bytes
    if exact[0] != sizes["argument"] or sizes["output"] not in (exact[1], exact[1] + table_bytes(plan)):
        raise ValueError(f"arguments and outputs are {exact} bytes, and compiled {sizes}: {plan.layout} on {plan.mesh}")
    return plan.memory.peak_bytes / total(sizes) - 1


def compile_all(journal: pathlib.Path, seed: int = SEED) -> dict[str, dict[int, dict[str, int]]]:
    """Compiles what the journal does not have; returns all that it has of a seed, by program and number."""
    cases: dict[str, dict[int, dict[str, int]]] = {}
    for line in journal.read_text().splitlines() if journal.exists() else []:
        one = json.loads(line)
        if one.pop("seed", SEED) == seed:
            cases.setdefault(one.pop("program"), {})[one.pop("case")] = one
    count = LAYOUTS if seed == SEED else HELD_OUT
    with journal.open("a") as file:
        for model in models():
            missing = set(range(count)) - set(cases.get(model.name, ()))
            for number, plan in plans(model.trace(), missing, seed) if missing else ():
                one = compiled(plan)
                cases.setdefault(model.name, {})[number] = one
                file.write(json.dumps({"program": model.name, "case": number, "seed": seed, **one}) + "\n")
                file.flush()
            jax.clear_caches()
            gc.collect()
    return cases


def errors(model: Model, cases: dict[int, dict[str, int]], seed: int = SEED) -> list[float]:
    """The errors of a program's cases."""
    return [error(plan, cases[number]) for number, plan in plans(model.trace(), cases, seed)]


def page(rows: Rows, held_out: Rows | None = None) -> str:
    """The section about memory on CPUs.

    Args:
        rows: errors by program.
        held_out: errors by program of the layouts that are held out.
    """
    every = _all(rows)
    table = [
        "|program|cases|median|9 of 10 within|most too low|most too high|",
        "|---|--:|--:|--:|--:|--:|",
    ]
    table += [_row(name, np.array(row)) for name, row in rows.items()]
    summary = (
        f"**cpu**: in {len(every)} compiled plans of {len(rows)} programs"
        f" (jaxlib {metadata.version('jaxlib')}): {_summary(every)}. Arguments and outputs are exact in all of them."
    )
    others = [] if held_out is None else ["", _held_out(held_out)]
    return "\n".join([summary, *others, "", *table, _row("**all**", every)])


def _held_out(rows: Rows) -> str:
    """The paragraph about layouts by which the model was not made."""
    every = _all(rows)
    return (
        f"In {len(every)} other plans of {len(rows)} programs, under layouts that were held out (drawn with seed"
        f" {HELD_OUT_SEED}, none among those by looking at which the model was made): {_summary(every)}; from"
        f" {every.min():.1%} to {every.max():+.1%}."
    )


def _summary(every: np.ndarray) -> str:
    size, low = np.abs(every), int((every < -TOO_LOW).sum())
    return (
        f"the median error is {np.median(size):.1%}, nine of ten are within {np.quantile(size, 0.9):.1%},"
        f" {np.mean(size <= NINE_OF_TEN):.1%} are within 15%, and {low} are more than 10% too low"
    )


def _all(rows: Rows) -> np.ndarray:
    return np.concatenate([np.array(row) for row in rows.values()])


def _row(name: str, row: np.ndarray) -> str:
    size = np.abs(row)
    low, high = min(0.0, row.min()), max(0.0, row.max())
    return f"|{name}|{len(row)}|{np.median(size):.1%}|{np.quantile(size, 0.9):.1%}|{low:.1%}|{high:.1%}|"


def _all_errors(journal: pathlib.Path, seed: int) -> Rows:
    """The errors of all programs, each printed as soon as it is known."""
    cases, rows = compile_all(journal, seed), {}
    for model in models():
        rows[model.name] = errors(model, cases[model.name], seed)
        print(_row(model.name, np.array(rows[model.name])), flush=True)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.memory", description=__doc__)
    parser.add_argument("--journal", type=pathlib.Path, default=pathlib.Path("memory.jsonl"))
    parser.add_argument("--held-out", type=pathlib.Path, help="the journal of the layouts that are held out")
    parser.add_argument("--write", type=pathlib.Path, help="the page whose section is written")
    options = parser.parse_args()
    ml.simulate(DEVICES)
    rows = _all_errors(options.journal, SEED)
    held_out = _all_errors(options.held_out, HELD_OUT_SEED) if options.held_out else None
    text = page(rows, held_out)
    print(text)
    if options.write:
        SECTION.write(options.write, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
