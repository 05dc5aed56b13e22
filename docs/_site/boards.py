"""Boards on the site's pages, which their readers drag without Python: each is written as one file.

On a page of text, the code of a board is executed when the site is built; on GitHub it is a block of code:

    ```{board} 690
    import meshlab as ml
    …
    explorer = ml.explore(program, mesh)
    ```

In a lesson, a hidden cell has the kernel write each board at the end of a cell (`drag_boards_of_cells`). A puzzle's
board asks for a prediction first, and has the columns of its answer, as `puzzle.share` writes it. A goal can be met
there: else the site is not built.
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
# With a column of stored arrays, which is for one drop: a file is to stay small.
OF_STORED = 13


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
            with contextlib.redirect_stderr(io.StringIO()):  # how far it is
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
        puzzle = next((each for each in puzzles.COURSE.values() if each.attempts.explorer is explorer), None)
        new = pathlib.Path(folder, f"new-{os.getpid()}.html")
        with contextlib.redirect_stderr(io.StringIO()):  # how far it is
            if puzzle is None:
                explorer.share(new, *_reach(explorer))
            else:
                puzzle.share(new, limit=LAYOUTS)
        file = new.replace(new.with_name(f"{_hash(new.read_text(encoding='utf-8'))}.html"))
        frame = _frame(file, to_root, explorer.height + ABOVE)
        display({"text/html": frame, "text/plain": repr(explorer)}, raw=True)

    shell: Any = get_ipython()
    shell.display_formatter.ipython_display_formatter.for_type(Explorer, show)


def _reach(explorer: Any) -> tuple[list[str], int]:
    """Returns the columns that a file has beside compute, one if a goal needs it, and how many layouts."""
    from meshlab.widgets.frozen.scope import scope_of  # noqa: PLC0415  as above
    from meshlab.widgets.frozen.walk import all_columns, name_of  # noqa: PLC0415

    stored = [name for name in map(name_of, all_columns(explorer)) if name and not name.startswith("@")]
    for columns, limit in (([], LAYOUTS), *(([name], OF_STORED) for name in stored)):
        scope = scope_of(explorer, columns, None, limit)
        drops = [each for each in scope.layouts if each in scope.dropped]
        if explorer.wanted is None or any(_is_met(explorer, each.layout) for each in drops):
            return columns, limit
    raise LookupError(f"No layout that drops on this board lead to meets its goal: {explorer.wanted!r}")


def _is_met(explorer: Any, layout: Any) -> bool:
    from meshlab import LayoutError  # noqa: PLC0415  as above

    try:
        return explorer.wanted.judge(explorer.program.plan(explorer.mesh, layout)).met
    except LayoutError:
        return False


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
