"""ViT: an image is a sequence of patches, and the patches stay where they are: rows and columns of them.

    config = Config.b16()                              # 86,567,656 parameters
    loss(params, images, labels)                       # [batch, rows, patch_rows, cols, patch_cols, channels], [batch]

An image is given in patches, [rows, patch_rows] and [cols, patch_cols], so that the first layer is a matmul and no
image is ever reshaped. Nor are rows and columns made into one sequence: attention goes over both, so `rows` on an axis
of the mesh is spatial parallelism, which a sequence of 197 does not divide for.

The class token is a stream of its own, [batch, embed], beside the patches, [batch, rows, cols, embed]. Both read both
under one softmax (`layers.mix`); nothing is concatenated.

Sizes and formula: Dosovitskiy et al. 2021, "An Image is Worth 16x16 Words", table 1, with a head of 1,000 classes.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

import meshlab as ml

from ..parts.layers import feed_forward, layer_norm, mix, projected, repeated, size
from ..parts.sizes import Sizes
from ..parts.tasks import class_loss, image_inputs
from ..parts.weights import Params, biased, draw, scale_and_bias, unstack, zeros

EPSILON = 1e-6
Streams = tuple[ml.Tensor, ml.Tensor]


@dataclasses.dataclass(frozen=True)
class Config(Sizes):
    """Sizes of ViT.

    Attributes:
        rows: of patches; an image is `rows * patch_rows` pixels high.
        cols: of patches; an image is `cols * patch_cols` pixels wide.
        unrolled: whether the layers are a Python loop over a list of weights, not a scan.
    """

    batch: int = 8
    rows: int = 4
    patch_rows: int = 2
    cols: int = 4
    patch_cols: int = 2
    channels: int = 3
    embed: int = 16
    heads: int = 4
    head: int = 4
    ffn: int = 32
    classes: int = 8
    layers: int = 2
    unrolled: bool = False

    @classmethod
    def b16(cls, batch: int = 8) -> Config:
        """ViT-B/16 for images of 224 x 224: 86,567,656 parameters."""
        return cls(batch, 14, 16, 14, 16, embed=768, heads=12, head=64, ffn=3072, classes=1000, layers=12)

    @classmethod
    def l16(cls, batch: int = 8) -> Config:
        """ViT-L/16 for images of 224 x 224: 304,326,632 parameters."""
        return cls(batch, 14, 16, 14, 16, embed=1024, heads=16, head=64, ffn=4096, classes=1000, layers=24)


def init(key: jax.Array, config: Config) -> Params:
    """Draws the parameters: the patches' projection, token and positions, the `layers`, `norm` and the classes."""
    outer_key, layers_key = jax.random.split(key)
    layers = biased(layers_key, config)
    return _outer(outer_key, config) | {"layers": unstack(layers) if config.unrolled else layers}


def _outer(key: jax.Array, config: Config) -> Params:
    """Draws the parameters before and after the layers."""
    table = {
        "patch": ("patch_rows patch_cols channels embed", ("patch_rows", "patch_cols", "channels")),
        "positions": ("rows cols embed", ()),
        "token": ("embed", ()),
        "token_position": ("embed", ()),
        "head": ("embed classes", ("embed",)),
    }
    biases = {"patch_bias": zeros(config.dims("embed")), "head_bias": zeros(config.dims("classes"))}
    return draw(key, config, table) | biases | {"norm": scale_and_bias(config.dims("embed"))}


inputs = image_inputs("batch rows patch_rows cols patch_cols channels")


def classify(params: Params, images: ml.Tensor) -> ml.Tensor:
    """Returns the logits of the classes.

    Args:
        params: as `init` makes them.
        images: [batch, rows, patch_rows, cols, patch_cols, channels].

    Returns:
        [batch, classes].
    """
    patches = ml.dot(images, params["patch"], "patch_rows", "patch_cols", "channels") + params["patch_bias"]
    token = _for_each(images.dims[0], params["token"] + params["token_position"])
    x = ml.tag((patches + params["positions"], token), "residual")

    def layer(x, weights):
        x = ml.tag(_added(x, attention(_normed(x, weights["attention_norm"]), weights)), "residual")
        patches, token = _normed(x, weights["ffn_norm"])
        return ml.tag(_added(x, (feed_forward(patches, weights), feed_forward(token, weights))), "residual")

    _, token = repeated(layer, x, params["layers"])
    return ml.dot(layer_norm(token, *params["norm"], epsilon=EPSILON), params["head"], "embed") + params["head_bias"]


loss = class_loss(classify)


@jax.named_scope("attention")
def attention(x: Streams, weights: Params) -> Streams:
    """Lets patches and class token read from all patches and the class token.

    Args:
        x: the streams [batch, rows, cols, embed] and [batch, embed], normalised.
        weights: query, key and value: [embed, heads, head], their biases: [heads, head], output: [heads, head, embed],
            its bias: [embed].

    Returns:
        The dims of `x`.
    """
    patches, token = (projected(y, weights) for y in x)
    key, value = (y.rename(rows="kv_rows", cols="kv_cols") for y in patches[1:])
    scale = size(key, "head") ** -0.5

    def read(query):
        with jax.named_scope("core"):
            far, near = (ml.dot(query, y, "head") * scale for y in (key, token[1]))
            mixture = mix((far, value, ("kv_rows", "kv_cols")), (near, token[2], ()))
        return ml.dot(mixture, weights["output"], "heads", "head") + weights["output_bias"]

    return read(patches[0]), read(token[0])


def _normed(x: Streams, scales: Streams) -> Streams:
    patches, token = (layer_norm(y, *scales, epsilon=EPSILON) for y in x)
    return patches, token


def _added(x: Streams, changes: Streams) -> Streams:
    return x[0] + changes[0], x[1] + changes[1]


def _for_each(dim: ml.Dim, x: ml.Tensor) -> ml.Tensor:
    """Returns the tensor once for each element of a dim, which comes first."""
    return ml.tensor(jnp.broadcast_to(x.array, (dim.size, *x.shape)), dim, *x.dims)
