"""The models at the sizes that were published, by name: `llama3-8b`, `mixtral-8x7b`, `gpt2-xl`, `mamba-2.8b`.

    published()["llama3-8b"].trace(batch=64)

Each is a step of training as such models are trained: parameters and AdamW's state in 32 bits, computed in bfloat16.
The names are made of the `Config`s' own constructors, so that what a model learns to be is here as well. No memory is
taken: parameters are shapes.

`diffusion.Config.cifar10` is not among them: the gradients of its loss do not get names.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType, ModuleType
from typing import Any

import jax

import meshlab as ml

from .language import gemma, gpt2, llama, moe, state_space, t5
from .parts import training
from .parts.initial import shapes
from .vision import convnet, resnet, unet3d, vit

# What stands in front of the name of a size, where that does not say whose it is.
_MODULES: Mapping[ModuleType, str] = {
    **{llama: "", moe: "", gemma: "", state_space: "", gpt2: "gpt2-", t5: "t5-"},
    **{vit: "vit-", resnet: "", unet3d: "unet3d-", convnet: "convnet-"},
}
# Sizes that are spelled otherwise than Python can.
_SPELLED = {"mamba_2_8b": "mamba-2.8b", "eleven_b": "11b"}
_RESIZED = ("batch", "seq")


@dataclasses.dataclass(frozen=True)
class Published:
    """A model at a published size.

    Attributes:
        name: what users call it.
        module: has `init`, `inputs` and `loss`.
        size: makes its `Config`.
    """

    name: str
    module: ModuleType
    size: Callable[..., Any]

    @functools.cached_property
    def takes(self) -> tuple[str, ...]:
        """Which of `batch` and `seq` can be chosen."""
        return tuple(name for name in _RESIZED if name in inspect.signature(self.size).parameters)

    def shapes(self, **sizes: int) -> tuple[Any, ...]:
        """Returns its parameters and inputs, as shapes."""
        config = self.size(**sizes)
        return shapes(self.module.init, config), *self.module.inputs(config)

    def trace(self, **sizes: int) -> ml.Program:
        """Traces a step of training."""
        optimizer = training.adamw()
        params, *inputs = self.shapes(**sizes)
        step = training.adamw_step(training.mixed(self.module.loss), optimizer)
        return ml.trace(step, params, jax.eval_shape(optimizer.init, params), *inputs)


@functools.cache
def published() -> Mapping[str, Published]:
    """Returns every model at every published size, by name."""
    every = (_sizes_of(module, before) for module, before in _MODULES.items())
    return MappingProxyType({each.name: each for group in every for each in group})


def _sizes_of(module: ModuleType, before: str) -> list[Published]:
    made = [name for name, value in vars(module.Config).items() if isinstance(value, classmethod)]
    return [
        Published(before + (_SPELLED.get(name) or name.replace("_", "-")), module, getattr(module.Config, name))
        for name in made
    ]
