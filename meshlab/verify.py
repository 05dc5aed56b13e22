"""The sweep: every program under many legal layouts, predicted = compiled and sharded = unsharded.

    python -m meshlab.verify --layouts 200 --journal sweep.jsonl
    python -m meshlab.verify --each 3 --checked 8 --seed 5     three layouts of each are planned, those of 8 checked
    python -m meshlab.verify --limit 60                        a case that takes longer than a minute fails

Layouts are drawn in turn on plain meshes, on meshes with an axis in time, on meshes whose axes divide few dims (these
plans pad), and on such with an axis in time, each with rules at places and in scopes; and with each form that a
program may have: rings, USP, tokens that are sent to experts, pipelines (`engine/verifying/forms.py`). The layouts of
a program are spread over its loss and its steps of training; with `--each`, every one of these has so many. Each case
is one line in the journal, so a sweep that was stopped goes on where it was. That is also how a case ends that takes
longer than the limit, such as a compilation that hangs, which nothing else can stop: the journal has it as failed,
and the process starts itself again. The table at the end says for each program, and for each form, how many layouts
were checked, how many were only planned, in how many the compiler merged collectives, and how many failed, with
commit and versions. The exit status is the number of failures, at most 125; a form of which there was no layout,
though several layouts began with it, is one.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import pathlib
import platform
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TextIO

import jax
import jaxlib.version

from .api.stages import Program
from .engine.devices import QUICK_COMPILES, simulate
from .engine.specs.layout import Layout
from .engine.specs.mesh import Mesh
from .engine.verifying.drawn_meshes import TURNS, Turn
from .engine.verifying.forms import FORMS, forms_of, shown
from .engine.verifying.random_layouts import draw_in_turn
from .models.loop_models import loops
from .models.operation_models import operations
from .models.zoo import Model, imported_models, models

Case = tuple[str, str, str, bool]
# Gives the block in which a case is checked.
Watch = Callable[[dict[str, Any]], contextlib.AbstractContextManager[Any]]

# Seconds for a case, which takes a few; on a busy machine a hundred.
LIMIT = 1200.0
# After so many beginnings with a form a layout should have it: rules that are drawn later may take it away again.
ENOUGH = 4


def main(arguments: list[str] | None = None) -> int:
    """Runs the sweep; returns the exit status.

    Args:
        arguments: of the command line; None for the process's own. Only then is there a limit, since a process of
            someone else's is not started again.
    """
    parser = argparse.ArgumentParser(
        prog="python -m meshlab.verify", description="Checks every model under many legal layouts."
    )
    parser.add_argument("--layouts", type=int, default=200, help="layouts for each program (default: 200)")
    parser.add_argument("--each", type=int, help="layouts for each model of a program, in place of --layouts")
    parser.add_argument("--checked", type=int, help="how many models to check; all others are only planned")
    parser.add_argument("--seed", type=int, default=0, help="the seed that selects layouts and models")
    parser.add_argument("--serial", action="store_true", help="draw only layouts on meshes with a serial axis")
    parser.add_argument("--models", nargs="*", help="names of models or programs (default: all)")
    parser.add_argument(
        "--journal", type=pathlib.Path, default=pathlib.Path("sweep.jsonl"), help="where to keep results"
    )
    parser.add_argument(
        "--limit", type=float, default=LIMIT, help=f"the most seconds for one layout (default: {LIMIT:.0f})"
    )
    options = parser.parse_args(arguments)
    if not options.limit > 0:
        parser.error(f"--limit was given {options.limit:g}; it must be a number of seconds above 0")
    os.environ.setdefault("XLA_FLAGS", QUICK_COMPILES)
    simulate(8)
    every = _every()
    known = {name for m in every for name in (m.name, m.program)}
    unknown = [n for n in options.models or () if n not in known]
    if unknown:
        parser.error(f"no model {', '.join(unknown)}; there are {', '.join(sorted(known))}")
    chosen = [m for m in every if not options.models or {m.name, m.program} & set(options.models)]
    few = len(chosen) if options.checked is None else min(options.checked, len(chosen))
    checked = random.Random(options.seed).sample(chosen, few)
    sharing = Counter(m.program for m in chosen)
    done, begun = _read(options.journal), Counter[str]()
    with options.journal.open("a") as journal:
        watch = functools.partial(within, options.limit, journal) if arguments is None else contextlib.nullcontext
        for model in chosen:
            count = options.each or -(-options.layouts // sharing[model.program])
            turns = [turn for turn in TURNS if turn[0][0].in_time or not options.serial]
            program = model.trace()
            forms = [form.name for form in forms_of(program)]
            begun.update(dict.fromkeys(forms, count // (len(turns) + len(forms))))
            check = model in checked
            for line in sweep(model, program, options.seed, count, done, check=check, turns=turns, watch=watch):
                journal.write(json.dumps(line) + "\n")
                journal.flush()
                done[_key(line)] = line
                print("." if line["ok"] else f"\nFAILED {line}\n", end="", flush=True)
    lines = [line for line in done.values() if line["model"] in {m.name for m in chosen}]
    missing = {form for form, times in begun.items() if times >= ENOUGH}.difference(*(line["forms"] for line in lines))
    print("\n" + table(lines))
    if missing:
        print(f"FAILED: no layout had a form that some model may have: {', '.join(sorted(missing))}")
    return min(125, sum(not line["ok"] for line in done.values()) + len(missing))


def _every() -> tuple[Model, ...]:
    """The zoo, the loops, the operations, and the imported models where Flax and Equinox are installed."""
    own = (*models(), *loops(), *operations())
    try:
        return (*own, *imported_models())
    except ModuleNotFoundError as error:
        print(f"Without the imported models: {error}. pip install 'meshlab[dev]' installs what they need.")
        return own


def sweep(
    model: Model,
    program: Program,
    seed: int,
    count: int,
    done: dict[Case, dict],
    *,
    check: bool = True,
    turns: Sequence[Turn] = TURNS,
    watch: Watch = contextlib.nullcontext,
) -> Iterator[dict[str, Any]]:
    """Checks a model under layouts drawn at random, but for those that are done; yields a line for each.

    Args:
        model: the model.
        program: its program.
        seed: which layouts are drawn.
        count: how many.
        done: what is done already.
        check: whether plans are compiled and run; else they are only made.
        turns: the kinds of meshes to draw from in turn, with whether plans pad.
        watch: gives the block in which a case is checked.
    """
    data = model.data(seed) if check else None
    for mesh, layout, pad in draw_in_turn(program, seed, count, turns, forms_of(program)):
        case = {"program": model.program, "model": model.name, "mesh": mesh.to_dict(), "layout": layout.to_dict()}
        case |= {"pad": True} if pad else {}
        if _key(case) not in done:
            with watch(case | {"checked": check}):
                result = check_case(program, mesh, layout, data, pad=pad)
            yield case | result
    jax.clear_caches()


@contextlib.contextmanager
def within(limit: float, journal: TextIO, case: dict[str, Any]) -> Iterator[None]:
    """Lets a block take no longer than the limit; else notes the case as failed, and starts this process again.

    XLA's compiler cannot be interrupted, and a thread cannot be stopped. The sweep that starts again goes on behind the
    case, as its journal has it.
    """

    def start_again() -> None:
        report = f"it took longer than the limit of {limit:g} s"
        line = case | {"ok": False, "report": report, "merged": [], "forms": [], "seconds": limit}
        journal.write(json.dumps(line) + "\n")
        journal.flush()
        print(f"\nFAILED {line}\n", end="", flush=True)
        os.execv(sys.executable, sys.orig_argv)

    timer = threading.Timer(limit, start_again)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def check_case(
    program: Program, mesh: Mesh, layout: Layout, data: tuple | None, *, pad: bool = False
) -> dict[str, Any]:
    """Checks one layout of a program, or only plans it where there is no data; an error is a failure, with its text."""
    start, forms = time.perf_counter(), []
    try:
        plan = program.plan(mesh, layout, pad=pad)
        forms = shown(program, plan)
        report = None if data is None else plan.check(*data)
        unlike = report is not None and not report.ok
        result = {"ok": not unlike, "report": str(report) if unlike else None}
        result["merged"] = [str(one) for one in report.merged] if report else []
    except Exception as error:
        result = {"ok": False, "report": f"{type(error).__name__}: {error}"}
    return result | {"forms": forms, "checked": data is not None, "seconds": round(time.perf_counter() - start, 3)}


def table(lines: list[dict[str, Any]]) -> str:
    """The results by program and by form, with the versions that gave them."""
    programs, forms = _grouped(lines, lambda line: [line["program"]]), _grouped(lines, lambda line: line["forms"])
    groups = [*programs.items(), *((name, forms[name]) for name in FORMS if name in forms), ("all", lines)]
    rows = [_row(name, each) for name, each in groups]
    commit = (f"commit {_commit()}", f"jax {jax.__version__}", f"jaxlib {jaxlib.version.__version__}")
    head = "".join(f"{name:>9}" for name in ("checked", "planned", "merged", "failed"))
    versions = " · ".join((*commit, f"Python {platform.python_version()}"))
    return "\n".join([f"{'program, form':24}{head}{'s a case':>12}", *rows, versions])


def _grouped(lines: list[dict], names: Callable[[dict], Sequence[str]]) -> dict[str, list[dict]]:
    groups: dict[str, list[dict]] = {}
    for line in lines:
        for name in names(line):
            groups.setdefault(name, []).append(line)
    return groups


def _row(name: str, lines: list[dict]) -> str:
    planned = sum(not line["checked"] for line in lines)
    counts = (len(lines) - planned, planned, sum(bool(line.get("merged")) for line in lines))
    numbers = "".join(f"{count:9,}" for count in (*counts, sum(not line["ok"] for line in lines)))
    return f"{name:24}{numbers}{sum(line['seconds'] for line in lines) / max(1, len(lines)):12.2f}"


def _commit() -> str:
    folder = pathlib.Path(__file__).parent
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=folder, capture_output=True, text=True, check=False
    )
    return described.stdout.strip() or "unknown"


def _read(journal: pathlib.Path) -> dict[Case, dict]:
    if not journal.exists():
        return {}
    lines = [json.loads(line) for line in journal.read_text().splitlines() if line.endswith("}")]
    return {_key(line): {"checked": True, "forms": [], **line} for line in lines}


def _key(line: dict[str, Any]) -> Case:
    return line["model"], json.dumps(line["mesh"]), json.dumps(line["layout"]), line.get("pad", False)


if __name__ == "__main__":
    sys.exit(main())
