"""The attached devices as a machine: what `meshlab calibrate` measured of them, read back.

A file for each kind of device lies in the user's configuration folder: `$MESHLAB_HOME`, else
`$XDG_CONFIG_HOME/meshlab`, else `~/.config/meshlab`.
"""

from __future__ import annotations

import os
import pathlib
import re

import jax

from .hardware import Hardware, HardwareError, read

ATTACHED = "attached"


def folder() -> pathlib.Path:
    """Returns where measured machines are kept."""
    configuration = os.environ.get("XDG_CONFIG_HOME") or pathlib.Path.home() / ".config"
    return pathlib.Path(os.environ.get("MESHLAB_HOME") or pathlib.Path(configuration) / "meshlab")


def file_of(kind: str) -> pathlib.Path:
    """Returns the file of a kind of device, as JAX names it: "NVIDIA H200", "TPU v5 lite", "cpu"."""
    return folder() / f"{re.sub(r'[^a-z0-9]+', '-', kind.lower()).strip('-')}.toml"


def attached() -> Hardware:
    """Returns the attached devices as they were measured.

    Raises:
        HardwareError: they were not measured yet; the command is told.
    """
    kind = jax.devices()[0].device_kind
    path = file_of(kind)
    if not path.exists():
        raise HardwareError(
            f"The attached devices ({kind}) have not been measured: there is no {path}. Run `meshlab calibrate` in a"
            " terminal, about a minute."
        )
    return read(path)
