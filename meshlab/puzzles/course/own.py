"""Bring your own model: names from outside, and what XLA makes of shardings of your own."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import meshlab as ml

from ..play.puzzle import Puzzle
from ..play.question import Question
from . import programs


def _of_a_transpose() -> float:
    """Bytes that a device sends where rows lie on an axis, and the rows of the transposed array lie on it, too."""
    ml.simulate(8)
    mesh = jax.make_mesh((4, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
    rows = NamedSharding(mesh, PartitionSpec("data"))
    function = jax.jit(lambda x: jnp.tanh(x).T, out_shardings=rows)
    return ml.explain(function, jax.ShapeDtypeStruct((16, 64), jnp.float32, sharding=rows)).wire_bytes


def _dims_of_a_block() -> int:
    program = programs.foreign_attention()
    return len({*program.dims, *program.made_up})


PUZZLES: tuple[Puzzle, ...] = ()
QUESTIONS = (
    Question(
        "9a",
        "The inputs of a transformer's block have the dims batch, seq, embed, heads, head and ffn. How many dims do all"
        " its arrays have",
        _dims_of_a_block,
        because="In the scores the sequence meets itself, as queries and as keys. These are two axes of one array, so"
        " the second gets a made-up name, `~seq`.",
    ),
    Question(
        "9b",
        "An array of 16 × 64 floats is split by rows over 4 devices, and so is its transpose: how many bytes does a"
        " device send",
        _of_a_transpose,
        because="An all-to-all: a device has 1,024 bytes, keeps a quarter, and sends the rest.",
    ),
)
