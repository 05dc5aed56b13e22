"""Runs a notebook's text source in a kernel, as a reader would from the first cell to the last.

done = run(Path("notebooks/00_start.py"))
done.value("losses")                    # what a name holds at the end, in the kernel
done.text(7)                            # what the seventh cell printed
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
SECONDS = 300


@dataclass(frozen=True)
class Executed:
    """A notebook after its last cell, its kernel still there to be asked."""

    client: NotebookClient

    @property
    def cells(self) -> list[Any]:
        """The cells, with their outputs."""
        return self.client.nb.cells

    def value(self, expression: str) -> Any:
        """Returns what an expression is in the kernel; it must be a Python literal."""
        cell = nbformat.v4.new_code_cell(expression)
        self.cells.append(cell)
        self.client.execute_cell(cell, len(self.cells) - 1, store_history=False)
        return ast.literal_eval(self.cells.pop().outputs[0]["data"]["text/plain"])

    def text(self) -> str:
        """Returns all that the notebook printed or showed as text."""
        outputs = [output for cell in self.cells for output in cell.get("outputs", [])]
        texts = (output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs)
        return "".join(text if text.endswith("\n") else f"{text}\n" for text in texts)


@contextmanager
def run(source: Path) -> Iterator[Executed]:
    """Executes a notebook; the first cell that raises is an error here, with its traceback."""
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu"}
    # One line may come in two messages, where a flush falls between its words.
    options = {"timeout": SECONDS, "kernel_name": "python3", "coalesce_streams": True}
    client = NotebookClient(jupytext.read(source), **options)
    with client.setup_kernel(env=environment, cwd=str(source.parent)):
        for number, cell in enumerate(client.nb.cells):
            client.execute_cell(cell, number)
        yield Executed(client)
