"""`meshlab models` lists the models that have names, with their parameters and dims."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from typing import Any

from ..engine.tables import text_rows
from ..opening.named_models import Named, named_models
from .exits import DONE

_MOST = 12


def add(verbs: Any):
    parser = verbs.add_parser(
        "models",
        help="list the models that `meshlab plan` knows by name",
        description="List the models that `meshlab plan` knows by name, with their parameters and dims.",
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="as JSON, with all dims")
    parser.set_defaults(run=run, parser=parser)


def run(options: argparse.Namespace, others: Sequence[str] = ()) -> int:
    """Lists the models; returns the exit status."""
    models = named_models().values()
    print(json.dumps([_data(model) for model in models], indent=2) if options.json else _text(models))
    return DONE


def _data(model: Named) -> dict[str, Any]:
    return {
        "name": model.name,
        "published": model.is_published,
        "parameters": model.parameters,
        "dims": model.dims,
        "options": [f"--{name}" for name in model.takes],
    }


def _text(models: Iterable[Named]) -> str:
    heads = {
        True: "At published sizes: a training step with AdamW, computed in bfloat16",
        False: "Small, for trying out: losses and training steps",
    }
    parts = []
    for is_published, head in heads.items():
        rows = [_row(model) for model in models if model.is_published == is_published]
        parts.append(f"{head}\n\n{text_rows([('name', 'parameters', 'dims'), *rows])}")
    return "\n\n".join([*parts, "meshlab plan llama3-8b --mesh data=8,model=4 --on v5p:4x4x2 --batch 32"])


def _row(model: Named) -> tuple[str, str, str]:
    dims = [f"{name}={size}" for name, size in model.dims.items()]
    more = f" and {len(dims) - _MOST} more" if len(dims) > _MOST else ""
    return model.name, f"{model.parameters:,}", " ".join(dims[:_MOST]) + more
