"""Programs whose peak depends on what a compiler makes of loops: for `benchmarks.peaks`.

decode_loop                  a loop that writes tokens into a cache of keys and values, which comes back
decoding, decoding_tpu       the zoo's step of decoding, whose layers are a loop that carries the cache, in the order of
                             dims for GPUs and in that for TPUs
sgd_scan, adam_scan          several steps of training in one jit, a batch for each
sgd_fori                     several steps on one batch
scan_weights                 a forward pass whose layers are a scan, which returns their weights besides
unrolled_sgd                 one step of a net whose layers are written out
llama_scan, _unrolled        one step of a transformer, its layers a scan or written out,
    _kept                    and keeping what the backward pass needs: without `jax.checkpoint`
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import optax

import meshlab as ml
from benchmarks.subjects import EIGHT, GIGABYTES, Subject
from meshlab.models.language import decoding, llama
from meshlab.models.parts import training
from meshlab.models.parts.initial import shapes
from meshlab.models.parts.tasks import next_token_loss

BATCH, EMBED, FFN, STEPS = 4096, 4096, 8192, 4
_PARALLEL = {"data parallel": (EIGHT, {"batch": "data"})}


@functools.cache
def looped() -> tuple[Subject, ...]:
    """The programs, in sizes of which a device holds gigabytes."""
    sizes = GIGABYTES.text | {"group": 2, "layers": 4}
    of_cache: dict[str, Any] = dict(sizes, batch=64, seq=1, embed=2048, heads=8, head=128, ffn=2048)
    cache = llama.Config(**of_cache)
    return (
        Subject("decode_loop", _decode, _cached, _PARALLEL),
        Subject("decoding", decoding.step, lambda: decoding.inputs(cache, 4096), _PARALLEL),
        Subject("decoding_tpu", decoding.step, lambda: decoding.inputs(cache, 4096, decoding.TPU_ORDER), _PARALLEL),
        Subject("sgd_scan", _each_batch(_descend), lambda: (_weights(2), *_batches(STEPS)), _PARALLEL),
        Subject("sgd_fori", _one_batch, lambda: (_weights(2), *_batches()), _PARALLEL),
        Subject("adam_scan", _each_batch(_adam), _adam_arguments, _PARALLEL),
        Subject("scan_weights", _returning, lambda: (_stacked(4), _batches()[0]), _PARALLEL),
        Subject("unrolled_sgd", _descend, lambda: (_weights(6), *_batches()), _PARALLEL | _sharded("weights")),
        *(_llama(sizes, unrolled, kept) for unrolled in (False, True) for kept in (False, True)),
    )


def _sharded(parameter: str) -> dict[str, Any]:
    return {"FSDP": (EIGHT, {"batch": "data", f"{parameter}/*": {"embed": "data"}})}


def _llama(sizes: dict[str, Any], unrolled: bool, kept: bool) -> Subject:
    config = llama.Config(**sizes, unrolled=unrolled)
    loss = next_token_loss(functools.partial(llama.predict, saved=("all",))) if kept else llama.loss
    name = f"llama_{'unrolled' if unrolled else 'scan'}{'_kept' if kept else ''}"
    layouts = _PARALLEL | _sharded("params")
    return Subject(name, training.sgd_step(loss), lambda: (shapes(llama.init, config), *llama.inputs(config)), layouts)


def _f32(names: str, *shape: int) -> Any:
    return ml.named(jax.ShapeDtypeStruct(shape, jnp.float32), names)


def _weights(pairs: int) -> list[Any]:
    return [_f32("embed ffn", EMBED, FFN), _f32("ffn embed", FFN, EMBED)] * pairs


def _stacked(layers: int) -> list[Any]:
    return [_f32("layers embed ffn", layers, EMBED, FFN), _f32("layers ffn embed", layers, FFN, EMBED)]


def _batches(*steps: int) -> tuple[Any, Any]:
    names = "steps batch embed" if steps else "batch embed"
    return (_f32(names, *steps, BATCH, EMBED),) * 2


def _loss(weights: list[Any], x: Any, targets: Any) -> Any:
    for weight in weights:
        x = jnp.tanh(x @ weight)
    return jnp.square(x - targets).mean()


def _returning(weights: list[Any], x: Any) -> tuple[Any, list[Any]]:
    def layer(x, weights):
        first, second = weights
        return jnp.tanh(jnp.tanh(x @ first) @ second), weights

    return jax.lax.scan(layer, x, weights)


def _descend(weights: Any, x: Any, targets: Any) -> tuple[Any, Any]:
    value, grads = jax.value_and_grad(_loss)(weights, x, targets)
    return jax.tree.map(lambda w, g: w - 1e-3 * g, weights, grads), value


def _adam(state: Any, x: Any, targets: Any) -> tuple[Any, Any]:
    weights, moments = state
    value, grads = jax.value_and_grad(_loss)(weights, x, targets)
    updates, moments = optax.adam(1e-3).update(grads, moments, weights)
    return (optax.apply_updates(weights, updates), moments), value


def _adam_arguments() -> tuple[Any, ...]:
    return (_weights(2), jax.eval_shape(optax.adam(1e-3).init, _weights(2))), *_batches(STEPS)


def _each_batch(step: Any) -> Any:
    def steps(state, xs, targets):
        return jax.lax.scan(lambda state, batch: step(state, *batch), state, (xs, targets))

    return steps


def _one_batch(weights: Any, x: Any, targets: Any) -> tuple[Any, Any]:
    start = (weights, jnp.zeros(()))
    return jax.lax.fori_loop(0, STEPS, lambda _, carry: _descend(carry[0], x, targets), start)


def _cached() -> tuple[Any, ...]:
    cache = {name: _f32("batch time head", 64, 16384, 1024) for name in ("key", "value")}
    weights = {name: _f32("embed head", 1024, 1024) for name in ("query", "key", "value")}
    return cache, weights, _f32("steps batch embed", STEPS, 64, 1024)


def _decode(cache: Any, weights: Any, tokens: Any) -> tuple[Any, Any]:
    def write(carry, x):
        cache, position = carry
        cache = {
            name: jax.lax.dynamic_update_slice(cache[name], (x @ weights[name])[:, None], (0, position, 0))
            for name in cache
        }
        scores = jax.nn.softmax(jnp.einsum("bth,bh->bt", cache["key"], x @ weights["query"]))
        return (cache, position + 1), jnp.einsum("bth,bt->bh", cache["value"], scores)

    (cache, _), out = jax.lax.scan(write, (cache, 0), tokens)
    return cache, out
