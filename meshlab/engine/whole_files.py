"""Writes a file whole or not at all: who reads it meanwhile, or after a failure, finds what was there before."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def write_whole(path: Path, content: str | bytes) -> None:
    """Writes text or bytes to a file, replacing it; an error, or Ctrl-C, leaves it as it was, nothing beside it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_bytes(content.encode() if isinstance(content, str) else content)
        draft.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise
