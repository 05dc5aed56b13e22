"""How far predicted peaks of pipelines are from those of the TPU compiler: `python -m benchmarks.staged`.

    python -m benchmarks.staged                     compares with what was compiled, and shows it
    python -m benchmarks.staged docs/accuracy.md    writes it between the marks of that page
    python -m benchmarks.staged --compile           compiles what `staged.jsonl` does not have, each case in a minute

As in `benchmarks.peaks`, a device holds gigabytes, and programs are compiled for machines that are not there. All have
four stages, eight micro-batches, and two devices along `data`.

transformer_adamw        AdamW; an activation of a micro-batch takes 4 MB: most of a stage is optimizer state
transformer_sgd          SGD; 134 MB: most of a stage is what it holds of micro-batches, and one cell
llama_bfloat16_sgd       the same with matmuls in 16 bits: 67 MB
"""

from __future__ import annotations

import functools
import json
import pathlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import jax
import numpy as np

import meshlab as ml
from benchmarks.compilers import read
from benchmarks.pages import Section
from benchmarks.peaks import Peak, compile_case, predicted, short, table
from benchmarks.subjects import GIGABYTES, Subject
from meshlab.models.language import llama, transformer
from meshlab.models.parts import training
from meshlab.models.parts.initial import shapes

JOURNAL, SECTION = pathlib.Path(__file__).with_name("staged.jsonl"), Section("stages")
MACHINES = ("v5e:2x4",)
# What is promised of each.
MOST = 0.15
_SCHEDULES = {"1F1B": "1f1b", "paired": "paired"}
_SMALL: dict[str, Any] = GIGABYTES.text | {"heads": 8, "group": 2}
_LARGE: dict[str, Any] = _SMALL | {"batch": 128, "seq": 2048, "vocab": 32768, "embed": 2048, "head": 128, "ffn": 8192}


@functools.cache
def staged() -> tuple[Subject, ...]:
    """The programs, each under its schedules."""
    layouts = {
        name: (
            ml.mesh(data=2, pipe=ml.stages(4, schedule), micro=ml.serial(8)),
            {"batch": "data+micro", "layers": "pipe"},
        )
        for name, schedule in _SCHEDULES.items()
    }
    small, plain, meta = transformer.Config(**_SMALL), transformer.Config(**_LARGE), llama.Config(**_LARGE)
    adamw, descent = training.adamw(), training.sgd_step

    def with_state() -> tuple[Any, ...]:
        params = shapes(transformer.init, small)
        return params, jax.eval_shape(adamw.init, params), *transformer.inputs(small)

    return (
        Subject("transformer_adamw", training.adamw_step(transformer.loss, adamw), with_state, layouts),
        Subject(
            "transformer_sgd",
            descent(transformer.loss),
            lambda: (shapes(transformer.init, plain), *transformer.inputs(plain)),
            layouts,
        ),
        Subject(
            "llama_bfloat16_sgd",
            descent(training.mixed(llama.loss)),
            lambda: (shapes(llama.init, meta), *llama.inputs(meta)),
            layouts,
        ),
    )


def cases() -> Iterator[tuple[Subject, str, str]]:
    """Every program under its schedules, for each machine."""
    return ((subject, name, machine) for machine in MACHINES for subject in staged() for name in subject.layouts)


def peaks(lines: Iterable[dict[str, Any]]) -> list[Peak]:
    """What the journal's lines say, beside what is predicted today."""
    compiled = {_case(line): line["memory"]["peak_bytes"] for line in lines}
    return [
        Peak(subject.name, name, short(machine), compiled[case], predicted(subject, name, machine))
        for subject, name, machine in cases()
        if (case := (subject.name, name, machine)) in compiled
    ]


def _case(line: dict[str, Any]) -> tuple[str, str, str]:
    return line["program"], line["layout"], line["machine"]


def page(results: list[Peak]) -> str:
    """The section about pipelines."""
    worst = np.max(np.abs([peak.error for peak in results]))
    head = f"Pipelines compiled without the hardware: {len(results)}. The largest error is {worst:.1%}."
    return "\n".join([head, "", *table(results)])


def main() -> int:
    """Compiles what is left, if it is asked to, and shows the section or writes it into the page that is named."""
    lines, arguments = read(JOURNAL), [argument for argument in sys.argv[1:] if argument != "--compile"]
    done = set(map(_case, lines))
    for subject, name, machine in cases() if "--compile" in sys.argv else ():
        if (subject.name, name, machine) not in done:
            lines.append(compile_case(subject, name, machine))
            with JOURNAL.open("a") as journal:
                journal.write(json.dumps(lines[-1]) + "\n")
            print(subject.name, name, machine, flush=True)
    SECTION.write_or_print(page(peaks(lines)), arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
