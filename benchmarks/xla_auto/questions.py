"""What XLA's auto-sharding and Auto are both asked: three steps of training, on two meshes, under two caps on memory.

    step, arguments = PROGRAMS["perceptron"]()
    ml.trace(step, *arguments)                         what Auto is asked
    jax.jit(step, in_shardings=AUTO(mesh), …)          what XLA is asked: the same function of the same named tensors

The mesh is eight chips of v5e, along two axes and along one. A cap is either said, the same for both; or it is XLA's
own default, 1.1 times what its layouts take at least, which is then Auto's cap as well.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import jax

import meshlab as ml
from meshlab.models.language import gpt2, moe
from meshlab.models.parts import training
from meshlab.models.parts.initial import shapes

MACHINE = "v5e:2x4"
MESHES: dict[str, dict[str, int]] = {"x=2 y=4": {"x": 2, "y": 4}, "x=8": {"x": 8}}
GIBIBYTES = 14
# The name of a cap, and the GiB that XLA is told; None tells it nothing.
CAPS: dict[str, int | None] = {f"{GIBIBYTES} GiB": GIBIBYTES, "XLA's own": None}
# What is compared with a compiler that stores the scores of attention has them too.
OPTIONS = {"attention": "stored"}

Asked = tuple[Callable[..., Any], tuple[Any, ...]]


@dataclasses.dataclass(frozen=True)
class Question:
    """One search, of XLA and of Auto.

    Attributes:
        program: its name among `PROGRAMS`.
        mesh: its name among `MESHES`.
        cap: its name among `CAPS`.
    """

    program: str
    mesh: str
    cap: str

    @property
    def axes(self) -> dict[str, int]:
        """The sizes of the mesh axes."""
        return MESHES[self.mesh]

    @property
    def own(self) -> bool:
        """Whether the cap is XLA's own."""
        return CAPS[self.cap] is None

    @property
    def placed(self) -> ml.Mesh:
        """The mesh on the machine."""
        return ml.mesh(MACHINE, **self.axes)

    def traced(self) -> ml.Program:
        """Traces the program anew, so that no search remembers another."""
        step, arguments = PROGRAMS[self.program]()
        return ml.trace(step, *arguments)


def questions() -> Iterator[Question]:
    """Yields all of them, what takes XLA longest last."""
    for program in PROGRAMS:
        for cap in CAPS:
            for mesh in reversed(MESHES):
                yield Question(program, mesh, cap)


def perceptron() -> Asked:
    """A perceptron of two layers, mean squared error, and gradient descent; it returns the parameters alone."""
    Batch, Embed, Ffn, Out = ml.dims(batch=4096, embed=1024, ffn=4096, out=1024)

    def loss(params, x, y):
        return ml.square(ml.dot(ml.relu(ml.dot(x, params["w1"], Embed)), params["w2"], Ffn) - y).mean()

    def step(params, x, y):
        return jax.tree.map(lambda w, g: w - 1e-3 * g, params, jax.grad(loss)(params, x, y))

    return step, ({"w1": ml.f32[Embed, Ffn], "w2": ml.f32[Ffn, Out]}, ml.f32[Batch, Embed], ml.f32[Batch, Out])


def experts() -> Asked:
    """One layer of a mixture of experts, with what precedes and follows it, and gradient descent."""
    config = moe.Config(16, 512, 4096, 1024, heads=8, group=2, head=64, ffn=2048, experts=8, layers=1, unrolled=True)
    loss = functools.partial(moe.loss, saved=("all",))
    return training.sgd_step(loss), (shapes(moe.init, config), *moe.inputs(config))


def transformer() -> Asked:
    """One layer of GPT-2 with a vocabulary of 32,000, and gradient descent."""
    config = gpt2.Config(16, 1024, 32_000, 1024, heads=16, head=64, ffn=4096, layers=1, unrolled=True)
    loss = functools.partial(gpt2.loss, saved=("all",))
    return training.sgd_step(loss), (shapes(gpt2.init, config), *gpt2.inputs(config))


PROGRAMS: dict[str, Callable[[], Asked]] = {
    "perceptron": perceptron,
    "mixture of experts": experts,
    "transformer": transformer,
}
