"""Keeps compilers of absent hardware out of a process: JAX would try them, and log that there is no such device.

    hide()                  # before JAX is imported: as if libtpu and the CUDA plugin were not installed
    only_absent()           # True: all that is installed beside JAX is for hardware that is not there

`pip install 'meshlab[gpu-compiler]'` puts XLA's compiler for GPUs beside JAX, where it is one of JAX's plugins. JAX
tries them all at its first use, in every process, and prints a traceback for CUDA without a driver and libtpu's
warnings; importing JAX alone prints what the plugin's libraries log. What is hidden here could not have started: JAX
looks for the same devices. The process that compiles (`meshlab.cost.compilers.worker`) imports JAX first, and hides
nothing.

This module imports nothing of JAX.
"""

from __future__ import annotations

import importlib.machinery
import os
import pathlib
import pkgutil
import sys
import types
from collections.abc import Iterable
from importlib import metadata

# JAX's plugins for NVIDIA GPUs by CUDA's version, and the package that each reads its libraries from.
_CUDA = {f"jax_plugins.xla_cuda{version}": f"jax_cuda{version}_plugin" for version in (12, 13)}
_LIBTPU = "libtpu"
# The files by which JAX knows that there is an NVIDIA GPU: in Linux, in containers, in Windows' subsystem.
_GPU_FILES = ("/dev/nvidia0", "/dev/nvidiactl", "/dev/dxg")
_PCI = pathlib.Path("/sys/bus/pci/devices")
# Google's number as a maker of PCI devices; its disks and network cards are of these classes, its TPUs of others.
_GOOGLE, _NO_TPU = "0x1ae0", ("0x01", "0x02")


def is_installed(module: str) -> bool:
    """Says whether a module is where Python imports from, hidden or not; `module` may have packages in its name."""
    return _spec(module) is not None


def hide() -> None:
    """Hides the compilers of absent hardware, unless JAX was imported before or its user asks for that hardware."""
    if "jax" in sys.modules:
        return
    for plugin, package in _CUDA.items():
        if is_installed(plugin) and not _asked_for("cuda", "gpu") and not has_gpu():
            sys.modules[package] = None  # type: ignore[assignment]  # Python's word for "is not to be imported"
            sys.modules[plugin] = _idle(plugin)
    if is_installed(_LIBTPU) and not _asked_for("tpu") and not has_tpu():
        sys.modules[_LIBTPU] = None  # type: ignore[assignment]


def only_absent() -> bool:
    """Says whether there are compilers of absent hardware beside JAX, and no other plugin."""
    compilers = {*_CUDA, _LIBTPU}
    return any(map(is_installed, compilers)) and compilers.issuperset(_plugins()) and not (has_gpu() or has_tpu())


def has_gpu() -> bool:
    """Says whether an NVIDIA GPU is there, as JAX finds out before it starts CUDA."""
    return any(map(os.path.exists, _GPU_FILES))


def has_tpu() -> bool:
    """Says whether a TPU is there, or JAX was told to look for one whatever is there."""
    return "JAX_FORCE_TPU_INIT" in os.environ or any(map(_is_tpu, _PCI.glob("*")))


def _is_tpu(device: pathlib.Path) -> bool:
    try:
        maker, kind = ((device / name).read_text().strip() for name in ("vendor", "class"))
    except OSError:  # the device has gone, or may not be read
        return False
    return maker == _GOOGLE and not kind.startswith(_NO_TPU)


def _asked_for(*platforms: str) -> bool:
    return not set(platforms).isdisjoint(os.environ.get("JAX_PLATFORMS", "").split(","))


def _plugins() -> Iterable[str]:
    """Yields the names of JAX's plugins, in both ways in which it finds them."""
    yield from (point.value for point in metadata.entry_points(group="jax_plugins"))
    package = _spec("jax_plugins")
    if package is not None:
        folders = package.submodule_search_locations
        yield from (found.name for found in pkgutil.iter_modules(folders, "jax_plugins."))


def _spec(module: str) -> importlib.machinery.ModuleSpec | None:
    """Returns where a module is found on Python's path, whatever `sys.modules` says of it."""
    found, folders, name = None, None, ""
    for part in module.split("."):
        name = f"{name}.{part}" if name else part
        found = importlib.machinery.PathFinder.find_spec(name, folders)
        if found is None:
            return None
        folders = found.submodule_search_locations
    return found


def _idle(plugin: str) -> types.ModuleType:
    """Returns a plugin that has nothing to enter."""
    module = types.ModuleType(plugin, "Hidden by meshlab: this hardware is absent.")
    module.initialize = lambda: None  # type: ignore[attr-defined]
    return module
