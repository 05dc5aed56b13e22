"""The attached devices as a machine: reads the figures that `meshlab calibrate` measured and wrote.

A file for each kind of device lies in the user's configuration folder: `$MESHLAB_HOME`, else
`$XDG_CONFIG_HOME/meshlab`, else `~/.config/meshlab`.
"""

from __future__ import annotations

import os
import pathlib
import re

import jax

from ...engine.devices import LIMIT
from .hardware import Hardware, HardwareError, read

ATTACHED = "attached"


def folder() -> pathlib.Path:
    """Returns the folder of measured machines."""
    configuration = os.environ.get("XDG_CONFIG_HOME") or pathlib.Path.home() / ".config"
    return pathlib.Path(os.environ.get("MESHLAB_HOME") or pathlib.Path(configuration) / "meshlab")


def file_of(kind: str) -> pathlib.Path:
    """Returns the file of a kind of device, as JAX names it: "NVIDIA H200", "TPU v5 lite", "cpu"."""
    return folder() / f"{re.sub(r'[^a-z0-9]+', '-', kind.lower()).strip('-')}.toml"


def attached(devices: int | None = None) -> Hardware:
    """Returns the attached devices as they were measured; refuses devices that were not.

    Args:
        devices: how many are used; None for all that are attached. Simulated devices share one machine, so that the
            command in the error simulates as many.
    """
    attached_devices = jax.devices()
    kind = attached_devices[0].device_kind
    path = file_of(kind)
    if not path.exists():
        is_cpu = attached_devices[0].platform == "cpu"
        which = f" --simulate {min(devices or len(attached_devices), LIMIT)}" if is_cpu else ""
        raise HardwareError(
            f"The {'simulated' if is_cpu else 'attached'} devices ({kind}) have not been measured: there is no {path}."
            f" Run `meshlab calibrate{which}` in a terminal, about a minute."
        )
    return read(path)
