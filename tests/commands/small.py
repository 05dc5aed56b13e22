"""What the tests of the commands have in common: a file with a program, and a way to run the command line."""

import io
import os
import subprocess
import sys
from pathlib import Path

from meshlab import cli

ROOT = Path(__file__).parents[2]

SOURCE = """\
import jax

import meshlab as ml

print("printed by the file")
Batch, Embed, Ffn = ml.dims(batch=64, embed=32, ffn=128)


def loss(params, x):
    hidden = ml.relu(ml.dot(x, params["up"], "embed"))
    return ml.square(ml.dot(hidden, params["down"], "ffn") - x).mean()


def step(params, x):
    value, grads = jax.value_and_grad(loss)(params, x)
    return value, jax.tree.map(lambda w, g: w - 1e-3 * g, params, grads)


program = ml.trace(step, {"up": ml.f32[Embed, Ffn], "down": ml.f32[Ffn, Embed]}, ml.f32[Batch, Embed])


def make():
    return program
"""

# A function of the user's own `jax.jit`, for `meshlab explain`.
TRAIN = """\
import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

import meshlab as ml

print("printed by the file")
ml.simulate(8)
mesh = Mesh(np.array(jax.devices()[:8]).reshape(4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)


def given(*shape):
    return jax.ShapeDtypeStruct(shape, np.float32, sharding=NamedSharding(mesh, PartitionSpec("data")))


@jax.jit
def forward(x, up, down):
    hidden = jax.nn.relu(x @ up)
    return hidden @ down


def compiled():
    return forward, given(32, 64), given(64, 256), given(256, 64)


def explained():
    return ml.explain(*compiled())


def failing():
    return 1 / 0
"""


def written(folder, text=SOURCE, name="step.py"):
    """Writes a file; returns its path as a word of a command line."""
    path = Path(folder) / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def called(capsys, *words):
    """Runs the command line in this process; returns its exit status, and what it wrote to stdout and stderr."""
    capsys.readouterr()
    status = cli.main([str(word) for word in words])
    out, err = capsys.readouterr()
    return status, out, err


def process(*words, code=None):
    """Runs the command line in a process of its own, or code in its place."""
    start = ["-m", "meshlab.cli"] if code is None else ["-c", code]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, *start, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)


class Terminal(io.StringIO):
    """A stderr that is a terminal; `at` is called when progress is shown."""

    def __init__(self, at=lambda: None):
        super().__init__()
        self.at = at

    def isatty(self):
        return True

    def write(self, text):
        if "plans" in text:
            self.at()
        return super().write(text)
