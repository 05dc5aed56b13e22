"""What the trainings of the tests train on: digits, and a small Llama on Python's own library, its bytes as tokens."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np

import meshlab as ml
from meshlab.models.language import llama
from meshlab.models.parts.initial import shapes
from meshlab.models.parts.training import adamw, adamw_step
from meshlab.models.vision import digits

LLAMA = llama.Config(batch=8, seq=32, vocab=256, embed=32, ffn=64)
_OPTIMIZER = adamw(peak=1e-2, warmup=5, steps=100)


def digits_program() -> ml.Program:
    config = digits.Config()
    return ml.trace(digits.step, shapes(digits.init, config), *digits.inputs(config))


def digits_start() -> dict[str, Any]:
    return {"params": digits.init(jax.random.key(0), digits.Config())}


def digits_batches() -> Iterator[dict[str, Any]]:
    for images, labels in digits.batches(digits.load(), digits.Config(), epochs=50):
        yield {"images": images, "labels": labels}


def llama_program() -> ml.Program:
    params = shapes(llama.init, LLAMA)
    step = adamw_step(llama.loss, _OPTIMIZER)
    return ml.trace(step, params, jax.eval_shape(_OPTIMIZER.init, params), *llama.inputs(LLAMA))


def llama_start() -> dict[str, Any]:
    params = llama.init(jax.random.key(0), LLAMA)
    return {"params": params, "opt_state": _OPTIMIZER.init(params)}


def llama_batches() -> Iterator[dict[str, Any]]:
    """Yields windows of the library's text, each target the byte that follows."""
    folder = pathlib.Path(os.__file__).parent
    text = b"".join((folder / f"{name}.py").read_bytes() for name in ("ast", "argparse", "enum", "typing"))
    tokens, draw = np.frombuffer(text, np.uint8).astype(np.int32), np.random.default_rng(0)
    while True:
        begins = draw.integers(0, len(tokens) - LLAMA.seq - 1, LLAMA.batch)
        windows = np.stack([tokens[at : at + LLAMA.seq + 1] for at in begins])
        yield {"inputs": windows[:, :-1], "targets": windows[:, 1:]}
