"""Boards on the site's pages, which their readers drag without Python: each is written as one file.

On a page of text, the code of a board is executed when the site is built; on GitHub it is a block of code:

    ```{board} 690
    import meshlab as ml
    …
    explorer = ml.explore(program, mesh)
    ```

In a lesson, a hidden cell has the kernel write each board at the end of a cell (`drag_boards_of_cells`). A puzzle's
board asks for a prediction first, and has the columns of its answer, as `puzzle.share` writes it.
"""

import contextlib
import hashlib
import io
import os
import pathlib
from typing import Any

from docutils import nodes
from docutils.parsers.rst import Directive
from IPython.core.getipython import get_ipython
from IPython.display import display

FRAME = """
<iframe class="meshlab-board" src="{source}" height="{height}" loading="lazy" title="A board to drag"></iframe>
<p class="meshlab-board"><a href="{source}">This board alone</a>, {kilobytes:.0f} kB</p>
"""
# What a file says above its board takes this many pixels.
ABOVE = 90
# Where drops lead to more layouts, a lesson's file has those that one drop leads to, for a page is not to wait.
LAYOUTS = 100


class Board(Directive):
    """Shows a board, and the code that made it."""

    has_content = True
    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Returns the frame and the code; records the board if its code is not as it was."""
        code, environment = "\n".join(self.content), self.state.document.settings.env
        file = pathlib.Path(environment.config.meshlab_boards, f"{_hash(code)}.html")
        if not file.exists():
            names: dict[str, object] = {}
            exec(compile(code, f"{self.state.document.current_source}, board", "exec"), names)
            names["explorer"].share(file)  # pyright: ignore[reportAttributeAccessIssue]
        frame = _frame(file, "../" * environment.docname.count("/"), int(self.arguments[0]))
        return [nodes.raw("", frame, format="html"), nodes.literal_block(code, code, language="python")]


def drag_boards_of_cells(folder: str, to_root: str) -> None:
    """Shows each Explorer at the end of a cell of this kernel's notebook as a frame with its file.

    Args:
        folder: where the files are written.
        to_root: the way from the notebook's page to the root of the site.
    """
    from meshlab import puzzles  # noqa: PLC0415  Sphinx imports this module as well, without need of them
    from meshlab.widgets.explorer import Explorer  # noqa: PLC0415

    def show(explorer: Explorer) -> None:
        shown = (puzzle for puzzle in puzzles.COURSE.values() if puzzle.attempts.explorer is explorer)
        new = pathlib.Path(folder, f"new-{os.getpid()}.html")
        with contextlib.redirect_stderr(io.StringIO()):  # how far it is
            next(shown, explorer).share(new, limit=LAYOUTS)
        file = new.replace(new.with_name(f"{_hash(new.read_text(encoding='utf-8'))}.html"))
        frame = _frame(file, to_root, explorer.height + ABOVE)
        display({"text/html": frame, "text/plain": repr(explorer)}, raw=True)

    shell: Any = get_ipython()
    shell.display_formatter.ipython_display_formatter.for_type(Explorer, show)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _frame(file: pathlib.Path, to_root: str, height: int) -> str:
    source = f"{to_root}{file.parent.name}/{file.name}"
    return FRAME.format(source=source, height=height, kilobytes=file.stat().st_size / 1000)


def setup(app):
    """Enters the directive, and the folder of the files."""
    app.add_config_value("meshlab_boards", "", "env")
    app.add_directive("board", Board)
    return {"parallel_read_safe": True}
