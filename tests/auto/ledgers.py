"""Ledgers for tests: small ones from a line of text each, and the graphs that Mesh TensorFlow builds.

`mesh_tf.json` holds those of its README model, of two fully connected layers, and of a transformer block of
`multihead_attention` and `dense_relu_dense` (the latter with a residual), as Mesh TensorFlow 0.1.19 builds them: every
operation with its name (ties are settled by names), its operands, and its results with their dims. `train` are the
graphs with gradients, and for the README model with the update as well.
"""

from __future__ import annotations

import json
from pathlib import Path

from meshlab.auto.additive.mesh_tf_liveness import Entry, Ledger, Line

_GRAPHS = Path(__file__).with_name("mesh_tf.json")


def mesh_tf(name: str) -> Ledger:
    """Returns one of Mesh TensorFlow's graphs."""
    graph = json.loads(_GRAPHS.read_text(encoding="utf-8"))[name]
    lines = []
    for operation, inputs, outputs, *whole in graph["operations"]:
        entries = (_entry(tensor, dims, graph["sizes"]) for tensor, dims in outputs.items())
        lines.append(Line(operation, tuple(inputs), tuple(entries), frozenset(*whole)))
    return Ledger(tuple(lines), frozenset(graph["final"]))


def ledger(*lines: str, final: str = "", whole: dict[str, str] | None = None) -> Ledger:
    """Makes a ledger of lines such as "z: a=10 c=20 from x y", of four bytes an element."""
    operations = []
    for line in lines:
        given, _, inputs = line.partition(" from ")
        name, dims = given.split(":")
        sizes = tuple((d, int(n)) for d, n in (pair.split("=") for pair in dims.split()))
        own = frozenset((whole or {}).get(name, "").split())
        operations.append(Line(name, tuple(inputs.split()), (Entry(name, sizes, 4),), own))
    return Ledger(tuple(operations), frozenset(final.split()))


def _entry(name: str, text: str, sizes: dict[str, int]) -> Entry:
    dims, _, nbytes = text.partition(" (")
    return Entry(name, tuple((d, sizes[d]) for d in dims.split()), int(nbytes.removesuffix(" B)") or 4))
