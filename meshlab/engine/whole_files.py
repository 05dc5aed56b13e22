"""Writes a file whole or not at all: who reads it meanwhile, or after a failure, finds what was there before."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Writes a text to a file, which is replaced; an error, or Ctrl-C, leaves it as it was, and nothing beside it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
