"""Puts text into the next cell of a notebook: `explorer.next_cell("jit")`.

IPython asks the front end for it in the reply to the cell that runs (a payload, `set_next_input`), which JupyterLab and
Notebook 7 carry out. A message of the page is no cell, and has no such reply: what was put there by a button would wait
for whatever cell is run next. So the page's button copies, and says what to run.
"""

from __future__ import annotations

from ..documents.document import ExplorerError


def put_into_next_cell(text: str) -> None:
    """Puts text into a new cell below the one that runs.

    Raises:
        ExplorerError: no notebook's cell runs.
    """
    try:
        from IPython import get_ipython  # noqa: PLC0415  scripts go without
    except ImportError:
        shell = None
    else:
        shell = get_ipython()
    if shell is None:
        raise ExplorerError(
            "next_cell() writes code into the next cell of a Jupyter notebook, and there is none here;"
            ' use print(explorer.form("jit")).'
        )
    shell.set_next_input(text, replace=False)
