"""The compilers that are installed: whether each is there, and in which version.

    folder_of_compilers()       the variable MESHLAB_COMPILERS
    version_of("jaxlib")        "0.10.2"
    check_installed("tpu")      CompilerError: The TPU compiler is not installed here …

A compiler for absent hardware is a package beside JAX, or in a folder of its own that only the compiling process sees.
"""

from __future__ import annotations

import functools
import os
import pathlib
import sys
from importlib import metadata

from ...engine.absent_hardware import is_installed
from ...engine.errors import CompilerError

# By platform: the compiler's name, the extra that installs it, and the module by which it is known to be there.
_COMPILERS = {
    "tpu": ("The TPU compiler", "tpu-compiler", "libtpu"),
    "cuda": ("XLA's compiler for NVIDIA GPUs", "gpu-compiler", "jax_plugins.xla_cuda12"),
}


def folder_of_compilers() -> str | None:
    """Returns the folder of compilers that only the compiling process looks into: the variable MESHLAB_COMPILERS.

    JAX tries every plugin installed beside it at its first use in each process, and logs errors where there is no such
    device; in processes that import meshlab first, meshlab keeps it from that (`absent_hardware.py`).
    `pip install --target FOLDER libtpu` keeps the compiler away from there.
    """
    folder = os.environ.get("MESHLAB_COMPILERS")
    return os.path.abspath(folder) if folder else None


def check_installed(platform: str) -> None:
    """Refuses a platform whose compiler is not installed, with the command that installs it."""
    compiler, extra, module = _COMPILERS[platform]
    if not _is_installed(module):
        raise CompilerError(
            f"{compiler} is not installed here (`{module}` cannot be imported). It needs neither the hardware nor a"
            f" driver, and runs on Linux: pip install 'meshlab[{extra}]'"
        )


def _is_installed(module: str) -> bool:
    folder = folder_of_compilers()
    if folder and pathlib.Path(folder, *module.split(".")).exists():
        return True
    return is_installed(module)


@functools.cache
def version_of(package: str) -> str | None:
    """Returns the version of an installed package, here or in the folder of compilers; None where there is none."""
    path = [*filter(None, [folder_of_compilers()]), *sys.path]
    return next((each.version for each in metadata.distributions(name=package, path=path)), None)
