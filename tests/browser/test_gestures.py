"""The literature's layouts by hand, without presets: by mouse, by a finger and by keyboard alone, in a few gestures.

A gesture is one chip lifted and dropped. What a hand makes sends what the preset sends, collective by collective.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

import meshlab as ml
from meshlab.models import zoo
from meshlab.opening.open_explorer import explore
from meshlab.widgets.explorer import Explorer
from tests.browser.blank import BlankBoard
from tests.browser.board import TRAY, name

MOST = 8
STORED = [("embed", "data", "params/*"), ("embed", "data", "opt_state/*")]
TENSOR = [("heads", "model", ""), ("ffn", "model", ""), ("vocab", "model", "")]


def _fsdp_and_tensor(program: ml.Program, mesh: Any) -> Any:
    return ml.layouts.fsdp(program, mesh) & ml.layouts.tensor_parallel(program, mesh)


def _expert(program: ml.Program, mesh: Any) -> Any:
    return ml.layouts.data_parallel(program, mesh, beside=ml.layouts.expert_parallel(program, mesh))


def _ulysses(program: ml.Program, mesh: Any) -> Any:
    sequence = ml.layouts.context_parallel(program, mesh, kind="ulysses", context="model")
    return ml.layouts.data_parallel(program, mesh) & sequence


@dataclasses.dataclass(frozen=True)
class Case:
    """A layout of the literature.

    Attributes:
        preset: what `ml.layouts` has for it.
        drops: the gestures: a dim, a mesh axis, a place.
        kinds: collectives that the literature has for it.
        hands: what it is made with; each has one that is stored elsewhere, and one of a scope.
        model: the name of a model of the zoo.
        scope: the scope whose column is opened first.
    """

    preset: Callable[[ml.Program, Any], Any]
    drops: list[tuple[str, str, str]]
    kinds: set[tuple[str, str]]
    hands: tuple[str, ...] = ("mouse",)
    model: str = "transformer_adamw"
    scope: str = ""


ALL = ("mouse", "touch", "keyboard")
GATHERED = {("all-gather", "data"), ("reduce-scatter", "data")}
CASES = {
    "fsdp": Case(ml.layouts.fsdp, [("batch", "data", ""), *STORED], GATHERED, ALL),
    "zero1": Case(ml.layouts.zero1, [("batch", "data", ""), STORED[1]], GATHERED),
    "fsdp-tensor": Case(
        _fsdp_and_tensor,
        [("batch", "data", ""), *STORED, *TENSOR],
        GATHERED | {("all-reduce", "model")},
        ("keyboard",),
    ),
    "sequence": Case(
        ml.layouts.sequence_parallel,
        [*TENSOR, ("seq", "model", "residual")],
        {("all-gather", "model"), ("reduce-scatter", "model")},
        ("touch",),
    ),
    "expert": Case(
        _expert, [("batch", "data", ""), ("experts", "data", "")], {("all-to-all", "data")}, model="moe_switch"
    ),
    # In the core the sequence gives way to the heads: one drop.
    "ulysses": Case(
        _ulysses,
        [("batch", "data", ""), ("seq", "model", ""), ("heads", "model", "@core")],
        {("all-to-all", "model")},
        ALL,
        scope="@core",
    ),
}


@pytest.fixture(scope="module")
def programs() -> dict[str, ml.Program]:
    wanted = {case.model for case in CASES.values()}
    return {model.name: model.trace() for model in zoo.models() if model.name in wanted}


@pytest.fixture
def explorer(programs: dict[str, ml.Program], case: str) -> Explorer:
    return explore(programs[CASES[case].model], ml.mesh(data=4, model=2))


def sent(plan: Any) -> dict[tuple[str, str], float]:
    """Returns the bytes of one step by kind and mesh axes."""
    totals: dict[tuple[str, str], float] = collections.defaultdict(float)
    for each in plan.collectives:
        totals[each.kind, "+".join(each.axes)] += each.wire_bytes * each.times
    return dict(totals)


def focused(board: BlankBoard) -> list[str | None]:
    return board.blank.view.evaluate("[document.activeElement.dataset.dim, document.activeElement.dataset.zone]")


def walk(board: BlankBoard, dim: str, axis: str, at: str) -> None:
    """Lifts a chip of the tray and drops it with nothing but keys: nothing is focused by the test itself."""
    for _ in range(60):
        if focused(board)[0]:
            break
        board.keyboard.press("Tab")
    for _ in range(60):
        if focused(board) == [dim, TRAY]:
            break
        board.keyboard.press("ArrowRight")
    board.keyboard.press("Enter")
    for _ in range(60):
        if board.zone(axis, at).get_attribute("data-aim") is not None:
            break
        board.keyboard.press("ArrowRight")
    board.keyboard.press("Enter")


def by(board: BlankBoard, hand: str) -> Callable[[str, str, str], None]:
    if hand == "keyboard":
        return lambda dim, axis, at: walk(board, dim, axis, at)
    move = board.drag if hand == "mouse" else board.swipe
    return lambda dim, axis, at: move(dim, axis, at, zone=TRAY)


@pytest.mark.parametrize(("case", "hand"), [(name, hand) for name, case in CASES.items() for hand in case.hands])
def test_a_layout_of_the_literature_by_hand(open_board, explorer: Explorer, case: str, hand: str) -> None:
    board = open_board(touch=hand == "touch")
    gesture = by(board, hand)
    gestures = 0
    if CASES[case].scope:
        board.blank.view.locator(".mlb-scopes").select_option(CASES[case].scope)
    for dim, axis, at in CASES[case].drops:
        with board.next_revision():
            gesture(dim, axis, at)
            gestures += 1
        expect(board.zone(axis, at).locator(f'[data-dim="{dim}"][data-zone="{name(axis, at)}"]')).to_be_visible()
    assert explorer.revision == gestures <= MOST
    # One intent a gesture, and none of them a preset; a chip that is lifted is selected as well.
    intents = board.blank.view.evaluate("sent.filter(each => each.kind === 'intent').map(each => each.op)")
    assert [each for each in intents if each != "select"] == ["place"] * gestures
    wanted = explorer.program.plan(explorer.mesh, CASES[case].preset(explorer.program, explorer.mesh))
    assert sent(explorer.plan) == sent(wanted)
    assert explorer.plan.wire_bytes == wanted.wire_bytes
    assert CASES[case].kinds <= sent(explorer.plan).keys()
