"""Kernels that begin as copies of one process, in which meshlab is imported: the lessons import it once.

    kernels.copy()      whatever starts a kernel in this process, as MyST-NB does, gets a copy

Imports took a quarter of the site's time. Nothing has run in the process that is copied: JAX has no devices there, and
each lesson still simulates its own. Where processes cannot be copied, kernels start as ever.
"""

import gc
import multiprocessing
import os
from importlib.metadata import EntryPoint
from typing import Any

from jupyter_client.provisioning import KernelProvisionerFactory, LocalProvisioner

NAME = "copied"
# What is imported before the first copy is made; Sphinx, since a copy begins with its parent's main module.
IMPORTED = ["sphinx.cmd.build", "ipykernel.kernelapp", "boards", "meshlab.puzzles", "meshlab.widgets.explorer"]


class Copy:
    """A process, as `subprocess.Popen` has it."""

    stdin = stdout = stderr = None

    def __init__(self, process: Any):
        self.process, self.pid = process, process.pid
        self.kill, self.terminate = process.kill, process.terminate

    def poll(self) -> int | None:
        """Returns how it ended; None while it runs."""
        return self.process.exitcode

    def wait(self) -> int | None:
        """Waits for its end, and returns how it ended."""
        self.process.join()
        return self.process.exitcode

    def send_signal(self, signal: int) -> None:
        """Sends a signal to it."""
        os.kill(self.pid, signal)


class Copied(LocalProvisioner):
    """Starts kernels as copies."""

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> Any:
        """Starts a kernel with the arguments of a command: `python -m ipykernel_launcher -f file`."""
        arguments = cmd[cmd.index("ipykernel_launcher") + 1 :]
        process = multiprocessing.get_context("forkserver").Process(target=run, args=(arguments, kwargs.get("cwd")))
        process.start()
        self.process = Copy(process)
        self.pid = process.pid
        return self.connection_info


def run(arguments: list[str], folder: str | None) -> None:
    """Runs a kernel in this process until it is shut down, or its parent has ended."""
    from ipykernel.kernelapp import IPKernelApp  # noqa: PLC0415  imported before the copy was made

    os.chdir(folder or ".")
    gc.disable()  # a lesson has ended before collections pay
    IPKernelApp.launch_instance([*arguments, f"--IPKernelApp.parent_handle={os.getppid()}", "--log-level=ERROR"])


def copy() -> None:
    """Makes copies the default of this process, where processes can be copied."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return
    multiprocessing.get_context("forkserver").set_forkserver_preload(IMPORTED)
    factory = KernelProvisionerFactory.instance()
    factory.provisioners[NAME] = EntryPoint(NAME, f"{__name__}:{Copied.__name__}", factory.GROUP_NAME)
    factory.default_provisioner_name = NAME
