"""Docstrings as reStructuredText: ours are Google style, with code as Markdown has it, between backticks or indented.

    Returns `plan.time` of it:        Returns ``plan.time`` of it:

        plan.time                     .. code-block:: default

                                          plan.time

It runs before napoleon, which reads the sections (`Args:`, `Returns:`).
"""

import re
from collections.abc import Iterator
from typing import Any

CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)(\w?)")
SECTION = re.compile(r"(Args|Attributes|Example|Examples|Note|Raises|Returns|Yields):$")
EXAMPLE = re.compile(r"Examples?:$")


def restructured(lines: list[str]) -> list[str]:
    """Returns the lines of a docstring as reStructuredText."""
    out: list[str] = []
    for margin, block in _blocks(lines):
        out += CODE.sub(_literal, "\n".join(block)).split("\n") if margin is None else _directive(margin, block)
    return out


def _blocks(lines: list[str]) -> Iterator[tuple[int | None, list[str]]]:
    """Yields prose and code by turns, code with the margin of its directive.

    Code is indented behind a blank line, or is an example without a prompt.
    """
    block: list[str] = []
    margin: int | None = None
    inside, before, blank = 0, "", False
    for line in lines:
        text = line.strip()
        if text and margin is not None and _indent(line) < inside:
            yield margin, block
            block, margin = [], None
        if text and margin is None and before and _indent(line) >= _indent(before) + 4:
            inside = _indent(line)
            if EXAMPLE.match(before.strip()) and not text.startswith(">>>"):
                margin = inside
            elif blank and not SECTION.match(before.strip()):
                margin = _indent(before)
            if margin is not None:
                yield None, block
                block = []
        block.append(line)
        before, blank = (line, False) if text else (before, True)
    yield margin, block


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _directive(margin: int, block: list[str]) -> list[str]:
    """Returns a block of code under a directive."""
    own, by = min(_indent(line) for line in block if line.strip()), margin + 4
    code = ((" " * by + line[own:]).rstrip() for line in block)
    return ["", " " * margin + ".. code-block:: default", "", *code, ""]


def _literal(match: re.Match[str]) -> str:
    """Returns code between two backticks; what follows it at once, a plural's s, needs an escape."""
    code, behind = " ".join(match[1].split()), match[2]
    return f"``{code}``" + (f"\\ {behind}" if behind else "")


def _change(*event: Any) -> None:
    *_, lines = event  # app, what, name, object, options, lines
    lines[:] = restructured(lines)


def setup(app):
    """Enters the conversion, before napoleon's."""
    app.connect("autodoc-process-docstring", _change, priority=1)
    return {"parallel_read_safe": True}
