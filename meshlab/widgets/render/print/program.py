"""The program with its collectives: the user's lines, the loops and scopes that they are in, and what is sent at each.

Of a long program the branches that send something are drawn, as many rows as the page has room for, and a note says
what is left out.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ....cost.machines.units import bytes_text
from ...state.explorer_state import ExplorerState
from ...views.program.nodes import COLLECTIVE, LINE, LOOP, PHASE, SLICE, STEP, ProgramDataView
from ...views.program.steps import steps_view
from ..palette import INK, SOFT
from .costs import marked, spaced
from .letters import LINE as LEAD
from .letters import SMALL, UP, shortened, width_of, wrapped
from .page import Page

# So many rows are drawn of a program in which all is drawn; points for each level.
_ALL, _INDENT, _MARK, _APART = 48, 7.0, 6.0, 8.0


class Node(NamedTuple):
    """A node of the program, and how deep it is among those that are drawn."""

    at: int
    depth: int


def draw_program(page: Page, explorer: ExplorerState, view: dict[str, Any]) -> None:
    """Draws the program as its lines, with what is sent at each."""
    program = steps_view(explorer.plan)
    page.title("The program, and what each device sends")
    nodes, whole = drawn_nodes(program)
    drawn = next(
        (n for n, node in enumerate(nodes) if not page.fits(lambda node=node: _draw(page, view, program, node))),
        len(nodes),
    )
    page.y += 3
    left_out = [] if whole else ["lines at which nothing is sent"]
    left_out += [f"the last {len(nodes) - drawn:,} of {len(nodes):,} rows"] if drawn < len(nodes) else []
    page.note(f"Left out: {' and '.join(left_out)}." if left_out else "")


def drawn_nodes(program: ProgramDataView) -> tuple[list[Node], bool]:
    """Returns the nodes that are to be drawn, in order, and whether these are all."""
    nodes = program["nodes"]
    count = len(nodes["parent"])
    sends = [False] * count
    for at in reversed(range(count)):
        sends[at] |= nodes["collective"][at] >= 0
        if sends[at] and nodes["parent"][at] >= 0:
            sends[nodes["parent"][at]] = True
    said = [nodes["kind"][at] != STEP or bool(nodes["label"][at]) or sends[at] for at in range(count)]
    whole = sum(said) <= _ALL
    depths: list[int] = []
    drawn: list[Node] = []
    for at in range(count):
        parent = nodes["parent"][at]
        depth = 0 if parent < 0 else depths[parent]
        is_drawn = said[at] if whole else sends[at]
        depths.append(depth + is_drawn)
        drawn += [Node(at, depth)] * is_drawn
    return drawn, whole


def _draw(page: Page, view: dict[str, Any], program: ProgramDataView, node: Node) -> None:
    """Draws one row."""
    nodes, strings = program["nodes"], program["strings"]
    label, name, source = (strings[nodes[column][node.at]] for column in ("label", "name", "source"))
    kind, times, x = nodes["kind"][node.at], nodes["times"][node.at], node.depth * _INDENT
    often = f" × {times:,}" if times > 1 else ""
    if nodes["collective"][node.at] >= 0 and kind == COLLECTIVE:
        _draw_sent(page, view, program["collectives"][nodes["collective"][node.at]], x)
    elif kind in (LINE, STEP, LOOP) and label:
        _draw_code(page, label, f"{source}{often}", type_text(program, nodes["makes"][node.at]), x)
    elif kind == SLICE:
        page.write(f"slice over {strings[nodes['uses'][node.at]]}: sends nothing", SMALL, SOFT, indent=x)
    else:
        page.write(f"{label or name}{often}", SMALL, INK if kind == PHASE else SOFT, bold=kind == PHASE, indent=x)


def type_text(program: ProgramDataView, made: int) -> str:
    """Says what a device makes: each dim with its size there, and the mesh axes that it is sharded over."""
    if made < 0:
        return ""
    strings = program["strings"]
    _, dims, partial = program["types"][made]
    said = [
        f"{strings[name]} {local:,}{f' / {spaced(strings[axes])}' if axes else ''}" for name, _, local, axes in dims
    ]
    return (", ".join(said) or "a scalar") + (f"; partial over {spaced(strings[partial])}" if strings[partial] else "")


def _draw_code(page: Page, code: str, where: str, made: str, x: float) -> None:
    """Writes a line of code, where it is, and behind or below it what it makes."""
    top, end = page.y + UP * SMALL, page.width - width_of(where, SMALL) - _APART
    page.sheet.text(page.width, top, where, SMALL, "end", fill=SOFT)
    long = width_of(made, SMALL) + _APART if made else 0.0
    # Where half a line is enough for the code, both share it.
    beside = x + min(width_of(code, SMALL, code=True), 0.5 * page.width) + long <= end
    text = shortened(code, end - x - long * beside, SMALL, code=True)
    page.sheet.text(x, top, text, SMALL, code=True)
    if made and beside:
        page.sheet.text(end, top, made, SMALL, "end", fill=SOFT)
    page.y += LEAD * SMALL
    for line in wrapped(made, page.width - x - 12, SMALL) if not beside else []:
        page.line([(x + 12, line)], SMALL, SOFT)


def _draw_sent(page: Page, view: dict[str, Any], sent: Any, x: float) -> None:
    """Draws a collective: its kind, what it sends over which axes, and how much."""
    often = f" × {sent['times']:,}" if sent["times"] > 1 else ""
    amount = f"{bytes_text(sent['wire'])}{often}"
    top, end = page.y + UP * SMALL, page.width - width_of(amount, SMALL, bold=True) - 6
    page.sheet.rect(x, page.y + 0.5, _MARK, _MARK - 1, marked(view, sent["key"]))
    page.sheet.text(page.width, top, amount, SMALL, "end", bold=True)
    dims = f" [{' '.join(sent['dims'])}]" if sent["dims"] else ""
    what = f"{sent['kind']} over {spaced(sent['key'])}: {sent['value']}{dims}"
    for line in wrapped(what, end - x - _MARK - 4, SMALL):
        page.line([(x + _MARK + 4, line)], SMALL)
