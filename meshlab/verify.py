"""The sweep: every model under many legal layouts, predicted = compiled and sharded = unsharded.

    python -m meshlab.verify --layouts 200 --journal sweep.jsonl

Each case is one line in the journal, so a sweep that was stopped goes on where it was. The table at the end says for
each model how many layouts were checked and how many failed, with commit and versions; the exit status is the number
of failures, at most 125.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import jax
import jaxlib.version

from .engine.devices import simulate
from .engine.layout import Layout
from .engine.mesh import Mesh
from .engine.program import Program
from .engine.sampling import draw
from .engine.trace import trace
from .models.zoo import Model, models

Case = tuple[str, str, str]


def main(arguments: list[str] | None = None) -> int:
    """Runs the sweep from the command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m meshlab.verify", description="Checks every model under many legal layouts."
    )
    parser.add_argument("--layouts", type=int, default=200, help="layouts for each model (default: 200)")
    parser.add_argument("--seed", type=int, default=0, help="which layouts are drawn (default: 0)")
    parser.add_argument("--models", nargs="*", help="names of models (default: all)")
    parser.add_argument(
        "--journal", type=pathlib.Path, default=pathlib.Path("sweep.jsonl"), help="where results are kept"
    )
    options = parser.parse_args(arguments)
    # Machine code that is compiled without optimization is compiled three times as fast; the collectives are the same.
    os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")
    simulate(8)
    known = {m.name: m for m in models()}
    unknown = [n for n in options.models or () if n not in known]
    if unknown:
        parser.error(f"no model {', '.join(unknown)}; there are {', '.join(known)}")
    chosen = [known[n] for n in options.models or known]
    done = _read(options.journal)
    with options.journal.open("a") as journal:
        for model in chosen:
            for line in sweep(model, options.seed, options.layouts, done):
                journal.write(json.dumps(line) + "\n")
                journal.flush()
                done[_key(line)] = line
                print("." if line["ok"] else f"\nFAILED {line}\n", end="", flush=True)
    print("\n" + table([line for line in done.values() if line["model"] in {m.name for m in chosen}]))
    return min(125, sum(not line["ok"] for line in done.values()))


def sweep(model: Model, seed: int, count: int, done: dict[Case, dict]) -> Iterator[dict[str, Any]]:
    """Checks a model under layouts drawn at random, but for those that are done; yields a line for each."""
    program = trace(model.step, *model.shapes)
    data = model.data(seed)
    for mesh, layout in draw(program, seed, count):
        case = {"model": model.name, "mesh": dict(mesh.shape), "layout": layout.to_dict()}
        if _key(case) not in done:
            yield case | check_case(program, mesh, layout, data)
    jax.clear_caches()


def check_case(program: Program, mesh: Mesh, layout: Layout, data: tuple) -> dict[str, Any]:
    """Checks one layout of a program; an error is a failure as well, and is told."""
    start = time.perf_counter()
    try:
        report = program.plan(mesh, layout).check(*data)
        found = {"ok": report.ok, "report": None if report.ok else str(report)}
    except Exception as error:
        found = {"ok": False, "report": f"{type(error).__name__}: {error}"}
    return found | {"seconds": round(time.perf_counter() - start, 3)}


def table(lines: list[dict[str, Any]]) -> str:
    """The results by model, with what they were found with."""
    checked, failed = (
        Counter(line["model"] for line in lines),
        Counter(line["model"] for line in lines if not line["ok"]),
    )
    seconds = Counter()
    for line in lines:
        seconds[line["model"]] += line["seconds"]
    rows = [f"{name:24}{n:9,}{failed[name]:9,}{seconds[name] / n:12.2f}" for name, n in checked.items()]
    total = f"{'all':24}{sum(checked.values()):9,}{sum(failed.values()):9,}"
    found = (f"commit {_commit()}", f"jax {jax.__version__}", f"jaxlib {jaxlib.version.__version__}")
    versions = " · ".join((*found, f"Python {platform.python_version()}"))
    return "\n".join([f"{'model':24}{'layouts':>9}{'failed':>9}{'s a case':>12}", *rows, total, versions])


def _commit() -> str:
    folder = pathlib.Path(__file__).parent
    found = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=folder, capture_output=True, text=True, check=False
    )
    return found.stdout.strip() or "unknown"


def _read(journal: pathlib.Path) -> dict[Case, dict]:
    if not journal.exists():
        return {}
    lines = [json.loads(line) for line in journal.read_text().splitlines() if line.endswith("}")]
    return {_key(line): line for line in lines}


def _key(line: dict[str, Any]) -> Case:
    return line["model"], json.dumps(line["mesh"]), json.dumps(line["layout"])


if __name__ == "__main__":
    sys.exit(main())
