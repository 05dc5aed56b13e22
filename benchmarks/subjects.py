"""Programs of the zoo under layouts that people use, for compilers of absent hardware.

subjects()                 sizes that fill the tiles of a TPU, compiled in seconds: for collectives
subjects(large=True)       sizes of which a device holds gigabytes: for memory
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax

import meshlab as ml
from meshlab.api.stages import Program
from meshlab.engine.verifying.random_layouts import draw
from meshlab.models.basic import mlp
from meshlab.models.language import gpt2, llama, moe, transformer
from meshlab.models.parts import training
from meshlab.models.parts.initial import shapes
from meshlab.models.vision import convnet, vit

DRAWN = 2
EIGHT, TWO_FOUR, FOUR_TWO = ml.mesh(data=8), ml.mesh(data=2, model=4), ml.mesh(data=4, model=2)
Layout = dict[str, Any]


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
    def program(self) -> Program:
        """The traced step."""
        return ml.trace(self.step, *self.arguments())

    @functools.cached_property
    def cases(self) -> dict[str, tuple[ml.Mesh, Any]]:
        """The layouts, and some that are drawn for 8 devices."""
        eight = (pair for pair in draw(self.program, 0, 100) if pair[0].size == 8 and pair[1].rules)
        drawn = {f"drawn {i}": pair for i, pair in zip(range(1, DRAWN + 1), eight, strict=False)}
        return {**self.layouts, **drawn}


@dataclasses.dataclass(frozen=True)
class Sizes:
    """The sizes of the programs, by family.

    Attributes:
        text: of language models.
        experts: what differs where they have experts.
        patches: of vision transformers.
        images: of convolutional networks.
        block: of a feed-forward block.
    """

    text: dict[str, Any]
    experts: dict[str, Any]
    patches: dict[str, Any]
    images: dict[str, Any]
    block: dict[str, Any]


TILES = Sizes(
    text={"batch": 16, "seq": 128, "vocab": 1024, "embed": 256, "layers": 4, "heads": 8, "head": 32, "ffn": 1024},
    experts={"ffn": 512, "experts": 8},
    patches={
        **{"batch": 32, "rows": 8, "patch_rows": 4, "cols": 8, "patch_cols": 4},
        **{"embed": 256, "heads": 8, "head": 32, "ffn": 1024},
    },
    images={
        **{"batch": 64, "rows": 32, "cols": 32, "filters1": 32, "filters2": 64},
        **{"hidden1": 512, "hidden2": 512, "classes": 16},
    },
    block={"batch": 512, "embed": 512, "ffn": 2048},
)
GIGABYTES = Sizes(
    text={"batch": 32, "seq": 512, "vocab": 16384, "embed": 1024, "layers": 8, "heads": 16, "head": 64, "ffn": 4096},
    experts={"ffn": 1024, "experts": 8},
    patches={
        **{"batch": 256, "rows": 16, "patch_rows": 16, "cols": 16, "patch_cols": 16},
        **{"embed": 1024, "heads": 16, "head": 64, "ffn": 4096},
    },
    images={
        **{"batch": 1024, "rows": 64, "cols": 64, "filters1": 128, "filters2": 256},
        **{"hidden1": 2048, "hidden2": 2048, "classes": 1024},
    },
    block={"batch": 65536, "embed": 4096, "ffn": 16384},
)


@functools.cache
def subjects(large: bool = False) -> tuple[Subject, ...]:
    """The programs: in sizes that fill tiles, or those of which a device holds gigabytes."""
    sizes = GIGABYTES if large else TILES
    text: dict[str, Any] = dict(sizes.text)
    grouped: dict[str, Any] = text | {"group": 2}
    plain, meta, gpt = transformer.Config(**grouped), llama.Config(**grouped), gpt2.Config(**text)
    experts = moe.Config(**(grouped | sizes.experts))
    image, net, block = vit.Config(**sizes.patches), convnet.Config(**sizes.images), mlp.Block(**sizes.block)
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


def _trained(name: str, init: Any, config: Any, inputs: Any, loss: Any, layouts: Any) -> Subject:  # noqa: PLR0917
    def arguments():
        params = shapes(init, config)
        return params, jax.eval_shape(training.adamw().init, params), *inputs

    return Subject(name, training.adamw_step(loss, training.adamw()), arguments, layouts)


def _descended(name: str, init: Any, config: Any, inputs: Any, loss: Any, layouts: Any) -> Subject:  # noqa: PLR0917
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
