"""What the TPU and GPU compilers make of plans, beside what was predicted: `python -m benchmarks.compilers`.

    python -m benchmarks.compilers --journal compilers.jsonl --write docs/accuracy.md

Programs of the zoo in sizes of which a step takes milliseconds, each under layouts that people use and some that are
drawn, are compiled for TPUs and GPUs that are not there. A case is one line in the journal, so that what was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import gzip
import json
import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax

import meshlab as ml
from meshlab.cost.compilers import compile_for
from meshlab.engine.sampling import draw
from meshlab.models import convnet, gpt2, llama, mlp, moe, training, transformer, vit
from meshlab.models.initial import shapes

MACHINES = ("v5e:2x4", "v5p:2x2x2", "v6e:2x4", "h100:1x1x8")
DRAWN = 2
EIGHT, TWO_FOUR, FOUR_TWO = ml.mesh(data=8), ml.mesh(data=2, model=4), ml.mesh(data=4, model=2)
Layout = dict[str, Any]
FIRST = ("data parallel", "FSDP", "tensor parallel", "FSDP and tensor parallel", "sequence parallel") + (
    "expert parallel",
    "split images",
    "split filters",
)


@dataclasses.dataclass(frozen=True)
class Subject:
    """A program, and the layouts that suit it.

    Attributes:
        name: as in the zoo.
        step: the function to trace.
        arguments: makes its arguments without data.
        layouts: a mesh and a layout by name.
    """

    name: str
    step: Callable[..., Any]
    arguments: Callable[[], tuple[Any, ...]]
    layouts: dict[str, tuple[ml.Mesh, Layout]]

    @functools.cached_property
    def program(self) -> Any:
        return ml.trace(self.step, *self.arguments())

    def cases(self) -> dict[str, tuple[ml.Mesh, Any]]:
        """The layouts, and some that are drawn for 8 devices."""
        eight = (pair for pair in draw(self.program, 0, 100) if pair[0].size == 8 and pair[1].rules)
        drawn = {f"drawn {i}": pair for i, pair in zip(range(1, DRAWN + 1), eight, strict=False)}
        return {**self.layouts, **drawn}


def subjects() -> tuple[Subject, ...]:
    text: dict[str, Any] = {"batch": 16, "seq": 128, "vocab": 1024, "embed": 256, "layers": 4}
    plain = transformer.Config(**text, heads=8, group=2, head=32, ffn=1024)
    meta = llama.Config(**text, heads=8, group=2, head=32, ffn=1024)
    gpt = gpt2.Config(**text, heads=8, head=32, ffn=1024)
    experts = moe.Config(**text, heads=8, group=2, head=32, ffn=512, experts=8)
    image = vit.Config(batch=32, rows=8, patch_rows=4, cols=8, patch_cols=4, embed=256, heads=8, head=32, ffn=1024)
    net = convnet.Config(batch=64, rows=32, cols=32, filters1=32, filters2=64, hidden1=512, hidden2=512, classes=16)
    block = mlp.Block(batch=512, embed=512, ffn=2048)
    named = dict(zip(("batch", "embed", "ffn"), block.dims, strict=True))
    return (
        _trained("mlp_adamw", mlp.init_block, block, mlp.block_inputs(block), mlp.block_loss, _simple("ffn")),
        _trained("transformer_adamw", transformer.init, plain, transformer.inputs(plain), transformer.loss, _text()),
        _trained("gpt2_adamw", gpt2.init, gpt, gpt2.inputs(gpt), gpt2.loss, _text()),
        _trained("llama_adamw", llama.init, meta, llama.inputs(meta), llama.loss, _text()),
        _trained("llama_bfloat16", llama.init, meta, llama.inputs(meta), training.mixed(llama.loss), _text()),
        _descended("moe_sgd", moe.init, experts, moe.inputs(experts), moe.loss, _experts()),
        _descended("convnet_sgd", convnet.init, net, convnet.inputs(net), convnet.loss, _images()),
        _trained("vit_bfloat16", vit.init, image, vit.inputs(image), training.mixed(vit.loss), _simple("heads", "ffn")),
    )


def _trained(name, init, config, inputs, loss, layouts) -> Subject:
    def arguments():
        params = shapes(init, config)
        return params, jax.eval_shape(training.adamw().init, params), *inputs

    return Subject(name, training.adamw_step(loss, training.adamw()), arguments, layouts)


def _descended(name, init, config, inputs, loss, layouts) -> Subject:
    return Subject(name, training.sgd_step(loss), lambda: (shapes(init, config), *inputs), layouts)


def _simple(*split: str) -> dict[str, tuple[ml.Mesh, Layout]]:
    stored = {"params/*": {"embed": "data"}, "opt_state/*": {"embed": "data"}}
    model = dict.fromkeys(split, "model")
    return {
        "data parallel": (EIGHT, {"batch": "data"}),
        "ZeRO-1": (EIGHT, {"batch": "data", "opt_state/*": {"embed": "data"}}),
        "FSDP": (EIGHT, {"batch": "data", **stored}),
        "tensor parallel": (ml.mesh(model=8), model),
        "data and tensor parallel": (TWO_FOUR, {"batch": "data", **model}),
        "FSDP and tensor parallel": (FOUR_TWO, {"batch": "data", **model, **stored}),
    }


def _text() -> dict[str, tuple[ml.Mesh, Layout]]:
    return _simple("heads", "ffn", "vocab") | {
        "sequence parallel": (
            TWO_FOUR,
            {"batch": "data", "heads": "model", "ffn": "model", "vocab": "model", "residual": {"seq": "model"}},
        ),
        "context parallel": (TWO_FOUR, {"batch": "data", "seq": "model"}),
    }


def _experts() -> dict[str, tuple[ml.Mesh, Layout]]:
    return {
        "data parallel": (EIGHT, {"batch": "data"}),
        "FSDP": (EIGHT, {"batch": "data", "params/*": {"embed": "data"}}),
        "tensor parallel": (ml.mesh(model=8), {"heads": "model", "ffn": "model", "vocab": "model"}),
        "expert parallel": (TWO_FOUR, {"batch": "data", "experts": "model"}),
        "experts over the batch's devices": (EIGHT, {"batch": "data", "experts": "data"}),
    }


def _images() -> dict[str, tuple[ml.Mesh, Layout]]:
    return {
        "data parallel": (EIGHT, {"batch": "data"}),
        "FSDP": (EIGHT, {"batch": "data", "params/*": {"hidden1": "data", "filters2": "data"}}),
        "split images": (TWO_FOUR, {"batch": "data", "rows": "model"}),
        "split filters": (FOUR_TWO, {"batch": "data", "filters1": "model", "hidden1": "model"}),
        "tensor parallel": (ml.mesh(model=8), {"filters2": "model", "hidden1": "model"}),
    }


def cases(machines: tuple[str, ...]) -> Iterator[tuple[Subject, str, str]]:
    """Every program under each of its layouts for each machine: what most people use first, what is drawn last."""
    every = subjects()
    for rank in range(3):
        for machine in machines:
            for subject in every:
                for name in subject.cases():
                    if rank == (0 if name in FIRST else 2 if name.startswith("drawn") else 1):
                        yield subject, name, machine


def compile_case(subject: Subject, name: str, machine: str, folder: pathlib.Path) -> dict[str, Any]:
    """Compiles a case; returns its line of the journal, and keeps the compiled text beside it."""
    mesh, layout = subject.cases()[name]
    plan = subject.program.plan(mesh, layout)
    line = {"program": subject.name, "layout": name, "machine": machine, "mesh": dict(mesh.shape)}
    line["rules"] = plan.layout.to_dict()
    try:
        found = compile_for(plan, machine)
    except Exception as error:
        return line | {"error": f"{type(error).__name__}: {error}"}
    text = folder / f"{subject.name}-{name}-{machine}.hlo.gz".replace(" ", "_").replace(":", "_")
    text.write_bytes(gzip.compress(found.hlo.encode(), 1))
    return line | found.answer | {"hlo": text.name}


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.compilers", description=__doc__)
    parser.add_argument("--journal", type=pathlib.Path, default=pathlib.Path("benchmarks/results/compilers.jsonl"))
    parser.add_argument("--machines", nargs="*", default=MACHINES)
    options = parser.parse_args()
    options.journal.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.loads(line) for line in options.journal.read_text().splitlines()] if options.journal.exists() else []
    done = {(line["program"], line["layout"], line["machine"]) for line in lines}
    with options.journal.open("a") as journal:
        for subject, name, machine in cases(tuple(options.machines)):
            if (subject.name, name, machine) not in done:
                line = compile_case(subject, name, machine, options.journal.parent)
                journal.write(json.dumps(line) + "\n")
                journal.flush()
                print(subject.name, name, machine, line.get("error", "")[:200], flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
