"""A board on a page, which its reader drags without Python.

    ```{board} 640
    import meshlab as ml
    …
    explorer = ml.explore(program, mesh)
    ```

The code is executed when the site is built, and `explorer` is written as one file (`explorer.share`). The page shows
the board, in the height that is given, and below it the code. On GitHub it is a block of code.
"""

import hashlib
import pathlib

from docutils import nodes
from docutils.parsers.rst import Directive
from executed import fingerprint

FOLDER = "boards"
FRAME = '<iframe class="meshlab-board" src="{to_root}boards/{name}" height="{height}" title="A board to drag"></iframe>'


class Board(Directive):
    """Shows a board, and the code that made it."""

    has_content = True
    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Returns the frame and the code; records the board if neither its code nor meshlab is as it was."""
        code, config = "\n".join(self.content), self.state.document.settings.env.config
        version = fingerprint(pathlib.Path(config.meshlab_package))
        name = hashlib.sha256(f"{version}\n{code}".encode()).hexdigest()[:16] + ".html"
        file = pathlib.Path(config.html_extra_path[0], FOLDER, name)
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            names: dict[str, object] = {}
            exec(compile(code, f"{self.state.document.current_source}, board", "exec"), names)
            names["explorer"].share(file)  # pyright: ignore[reportAttributeAccessIssue]
        to_root = "../" * self.state.document.settings.env.docname.count("/")
        frame = FRAME.format(to_root=to_root, name=name, height=int(self.arguments[0]))
        return [nodes.raw("", frame, format="html"), nodes.literal_block(code, code, language="python")]


def setup(app):
    """Enters the directive, and where the package is."""
    app.add_config_value("meshlab_package", "", "env")
    app.add_directive("board", Board)
    return {"parallel_read_safe": True}
