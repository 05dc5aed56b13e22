"""All models, in sizes of which one step takes milliseconds: what tests and sweeps over layouts run through.

    for model in models():
        program = ml.trace(model.step, *model.shapes, carry=model.carry)
        ...
        plan.run(*model.data(seed=0))

Sizes are small and divide by 2, 4 and 8 wherever a dim may be split; the steps are those of the subpackages. Of most
models both are there, the loss (`gpt2`) and a step of training (`gpt2_adamw`). `imported_models` lists those that other
libraries made; Flax and Equinox are no dependencies of meshlab, and are imported when a model is asked for.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

import meshlab as ml

from .basic import mesh_tf, mlp
from .imported.full_sizes import Config as ImportedConfig
from .language import decoding, gemma, gpt2, llama, moe, state_space, t5, transformer
from .parts import training
from .parts.initial import shapes
from .vision import convnet, diffusion, digits, resnet, unet3d, vit

if TYPE_CHECKING:
    import optax

Loss = training.Loss


@dataclasses.dataclass(frozen=True)
class Model:
    """A step, the shapes of its arguments, and numbers for them.

    Attributes:
        name: what tests call it.
        step: the function to trace.
        arguments: makes its arguments without data.
        data: seed -> its arguments.
        carry: which outputs are the next call's arguments, where that does not follow from their shapes.
        family: what it is the loss or a step of; nothing, where it stands alone.
    """

    name: str
    step: Callable[..., Any]
    arguments: Callable[[], tuple[Any, ...]]
    data: Callable[[int], tuple[Any, ...]]
    carry: Mapping[str, int] | None = None
    family: str = ""

    @property
    def program(self) -> str:
        """The program that it is the loss or a step of."""
        return self.family or self.name

    @functools.cached_property
    def shapes(self) -> tuple[Any, ...]:
        """Its arguments without data."""
        return self.arguments()

    def trace(self) -> ml.Program:
        return ml.trace(self.step, *self.shapes, carry=self.carry)


@dataclasses.dataclass(frozen=True)
class _Family:
    """A model: how its parameters are made, its inputs, and up to which number its integers go."""

    name: str
    init: Callable[[jax.Array, Any], Any]
    config: Any
    inputs: tuple[Any, ...]
    high: int = 2

    def loss(self, loss: Callable[..., Any], name: str = "") -> Model:
        """The loss alone, or any step of parameters and inputs."""

        def arguments():
            return shapes(self.init, self.config), *self.inputs

        return Model(name or self.name, loss, arguments, self.data, family=self.name)

    def data(self, seed: int) -> tuple[Any, ...]:
        return self.init(jax.random.key(seed), self.config), *draw(self.inputs, seed, self.high)

    def descent(self, loss: Loss, suffix: str = "sgd") -> Model:
        """A step of plain gradient descent."""
        return self.loss(training.sgd_step(loss), f"{self.name}_{suffix}")

    def trained(
        self, loss: Loss, suffix: str = "adamw", make: Callable[[], optax.GradientTransformation] = training.adamw
    ) -> Model:
        """A step of an optimizer of optax."""

        def arguments():
            params = shapes(self.init, self.config)
            return params, jax.eval_shape(make().init, params), *self.inputs

        def data(seed: int):
            params, *inputs = self.data(seed)
            return params, make().init(params), *inputs

        return Model(f"{self.name}_{suffix}", training.adamw_step(loss, make()), arguments, data, family=self.name)


def models() -> tuple[Model, ...]:
    """Returns every model, small."""
    return (*_first(), *_convolutional(), *_language(), *_other())


def _first() -> tuple[Model, ...]:
    """Nets of a few layers, and those of Mesh TensorFlow's examples."""
    two_layer, block, auto = mesh_tf.TwoLayer(), mesh_tf.Block(batch=8, length=8), mesh_tf.Autoencoder()
    image, digit, ffn = mlp.Config(16, 8, 8, 64, 8), digits.Config(16, 8, 8, 32, 10), mlp.Block(16, 16, 32)
    pair = (ml.f32[two_layer.dims("batch io")],) * 2
    block_input = (ml.f32[block.dims("batch length d_model")],)
    auto_input = (ml.f32[auto.dims("batch io")],)
    blocks = _Family("mlp", mlp.init_block, ffn, mlp.block_inputs(ffn))
    return (
        _Family("mlp", mlp.init, image, mlp.inputs(image), image.classes).loss(mlp.step),
        _Family("digits", digits.init, digit, digits.inputs(digit), digit.classes).loss(digits.step),
        blocks.descent(mlp.block_loss),
        blocks.trained(mlp.block_loss),
        _Family("two_layer", mesh_tf.init_two_layer, two_layer, pair).loss(mesh_tf.train(mesh_tf.two_layer_loss)),
        _Family("block", mesh_tf.init_block, block, block_input).loss(mesh_tf.train(mesh_tf.block_loss)),
        _Family("autoencoder", mesh_tf.init_autoencoder, auto, auto_input).loss(
            mesh_tf.train(mesh_tf.autoencoder_loss)
        ),
    )


def _convolutional() -> tuple[Model, ...]:
    net, residual = convnet.Config(), resnet.Config(blocks=(1, 1))
    volume, image = unet3d.Config(), diffusion.Config()
    nets = _Family("convnet", convnet.init, net, convnet.inputs(net), net.classes)
    residuals = _Family("resnet", resnet.init, residual, resnet.inputs(residual), residual.classes)
    volumes = _Family("unet3d", unet3d.init, volume, unet3d.inputs(volume), volume.classes)
    images = _Family("diffusion", diffusion.init, image, diffusion.inputs(image), diffusion.STEPS)
    return (
        nets.loss(convnet.loss),
        nets.descent(convnet.loss),
        residuals.loss(resnet.loss),
        residuals.trained(resnet.loss),
        volumes.loss(unet3d.loss),
        volumes.descent(unet3d.loss),
        images.loss(diffusion.loss),
        images.descent(diffusion.loss),
    )


def _language() -> tuple[Model, ...]:
    text = transformer.Config(batch=8, seq=8, vocab=32, embed=16, heads=4, group=2, head=8, ffn=32, layers=2)
    words = _Family("transformer", transformer.init, text, transformer.inputs(text), text.vocab)
    gpt2_sizes, llama_sizes, gemma_sizes, t5_sizes = gpt2.Config(), llama.Config(), gemma.Config(), t5.Config()
    gpt2s = _Family("gpt2", gpt2.init, gpt2_sizes, gpt2.inputs(gpt2_sizes), gpt2_sizes.vocab)
    llamas = _Family("llama", llama.init, llama_sizes, llama.inputs(llama_sizes), llama_sizes.vocab)
    unrolled_sizes = dataclasses.replace(llama_sizes, unrolled=True)
    unrolled = _Family("llama_unrolled", llama.init, unrolled_sizes, llama.inputs(unrolled_sizes), unrolled_sizes.vocab)
    gemmas = _Family("gemma", gemma.init, gemma_sizes, gemma.inputs(gemma_sizes), gemma_sizes.vocab)
    t5s = _Family("t5", t5.init, t5_sizes, t5.inputs(t5_sizes), t5_sizes.vocab)
    return (
        words.loss(transformer.loss),
        words.descent(transformer.loss),
        words.trained(transformer.loss),
        gpt2s.loss(gpt2.loss),
        gpt2s.trained(gpt2.loss),
        llamas.loss(llama.loss),
        llamas.trained(llama.loss),
        llamas.trained(training.mixed(llama.loss), "bfloat16"),
        unrolled.trained(llama.loss),
        gemmas.loss(gemma.loss),
        gemmas.descent(gemma.loss),
        t5s.loss(t5.loss),
        t5s.trained(t5.loss, "adafactor", training.adafactor),
    )


def _other() -> tuple[Model, ...]:
    """Images, experts, recurrences, and decoding with a cache."""
    image, experts, state = vit.Config(), moe.Config(), state_space.Config()
    images = _Family("vit", vit.init, image, vit.inputs(image), image.classes)
    mixtures = _Family("moe", moe.init, experts, moe.inputs(experts), experts.vocab)
    states = _Family("state_space", state_space.init, state, state_space.inputs(state), state.vocab)
    return (
        images.loss(vit.loss),
        images.trained(training.mixed(vit.loss), "bfloat16"),
        mixtures.loss(moe.loss),
        mixtures.descent(moe.loss),
        mixtures.descent(moe.switch_loss, "switch"),
        mixtures.descent(moe.dropless_loss, "dropless"),
        states.loss(state_space.loss),
        states.trained(state_space.loss),
        _decoding(),
    )


def _decoding() -> Model:
    """One step of decoding: a token for each sequence, and the cache that it is written to."""
    config, length = dataclasses.replace(llama.Config(), seq=1), 16

    def data(seed: int) -> tuple[Any, ...]:
        params = llama.init(jax.random.key(seed), config)
        _, cache, tokens, _ = decoding.inputs(config, length)
        return params, draw(cache, seed), draw(tokens, seed, config.vocab), np.int32(seed % length)

    return Model("decoding", decoding.step, lambda: decoding.inputs(config, length), data, {"cache": 1})


@functools.cache
def imported_models(config: ImportedConfig | None = None) -> tuple[Model, ...]:
    """Returns every imported model; the step of each takes its trees of arrays, tokens and targets.

    Args:
        config: the sizes of all of them; by default small ones.
    """
    sizes = config or ImportedConfig()
    return tuple(make(sizes) for make in (_plain_gpt, _linen_encoder, _nnx_mixer, _equinox_decoder))


def _plain_gpt(config: ImportedConfig) -> Model:
    from .imported import plain_gpt as source  # noqa: PLC0415 - needs optax, an extra

    return _model(source, source.training(config), config, source.optimizer().init)


def _linen_encoder(config: ImportedConfig) -> Model:
    from .imported import linen_encoder as source  # noqa: PLC0415 - needs Flax

    return _model(source, source.step, config)


def _nnx_mixer(config: ImportedConfig) -> Model:
    from .imported import nnx_mixer as source  # noqa: PLC0415 - needs Flax

    return _model(source, source.training(config), config)


def _equinox_decoder(config: ImportedConfig) -> Model:
    from .imported import equinox_decoder as source  # noqa: PLC0415 - needs Equinox

    return _model(source, source.training(config), config, source.optimizer().init)


def _model(
    source: ModuleType,
    step: Callable[..., Any],
    config: ImportedConfig,
    optimizer_state: Callable[[Any], Any] | None = None,
) -> Model:
    """A model whose step takes what `init` makes, then the optimizer's state where it is apart, then the batch."""

    def trees(key):
        first = source.init(key, config)
        return (first,) if optimizer_state is None else (first, optimizer_state(first))

    def arguments():
        first, *others = jax.eval_shape(trees, jax.random.key(0))
        tokens = ml.named(jax.ShapeDtypeStruct((config.batch, config.seq), np.int32), "batch seq")
        return ml.named(first, source.NAMES), *others, tokens, tokens

    def data(seed):
        shape = (2, config.batch, config.seq)
        batch = np.random.default_rng(seed).integers(0, config.vocab, shape, np.int32)
        return *jax.jit(trees)(jax.random.key(seed)), *batch

    return Model(source.__name__.rpartition(".")[2], step, arguments, data)


def draw(abstract: Any, seed: int, high: int = 2) -> Any:
    """Returns numbers for a tree of shapes: normal ones, and integers from 0 up to `high`."""
    random = np.random.default_rng(seed)

    def one(leaf):
        if np.issubdtype(leaf.dtype, np.integer):
            return random.integers(0, high, leaf.shape).astype(leaf.dtype)
        return random.normal(size=leaf.shape).astype(leaf.dtype)

    return jax.tree.map(one, abstract)
