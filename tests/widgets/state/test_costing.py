"""What costs are kept: those on the board and those that were asked for last, fewer of a large program."""

from __future__ import annotations

from meshlab.engine.specs.layout import Layout
from meshlab.widgets.background.one_by_one import Background
from meshlab.widgets.documents.costing import LEAST, MOST, OPERATIONS, Costing
from meshlab.widgets.documents.document import Document
from meshlab.widgets.explorer import Explorer

LAYOUTS = [Document((("n", 8),), (("x", 2),), Layout.of(f"n:x,d{number}:x"), None) for number in range(2 * MOST)]


class Counted:
    """Costs that count how often each was computed, and what was dropped."""

    def __init__(self, operations: int, held: tuple[Document, ...] = ()):
        self.computed: list[Document] = []
        self.dropped: list[Document] = []
        self.costing = Costing(
            lambda document: None,
            lambda plan, document: self.computed.append(document),
            lambda: None,
            operations=operations,
            patience=0.0,
            background=Background(),
            held=lambda: held,
            drop=self.dropped.append,
        )

    def ask(self, *documents: Document) -> list[Document]:
        """Asks for costs, and returns those that had to be computed."""
        before = len(self.computed)
        for document in documents:
            self.costing.of(document)
        return self.computed[before:]


def test_costs_of_a_small_program_are_kept():
    small = Counted(operations=100)
    assert small.ask(*LAYOUTS[:MOST]) == LAYOUTS[:MOST]
    assert small.ask(*LAYOUTS[:MOST]) == [] == small.dropped
    assert small.ask(LAYOUTS[MOST]) == [LAYOUTS[MOST]]
    assert small.dropped == [LAYOUTS[0]]


def test_fewer_are_kept_of_a_large_program():
    large = Counted(operations=OPERATIONS)
    large.ask(*LAYOUTS[:LEAST])
    assert large.ask(*LAYOUTS[:LEAST]) == []
    large.ask(LAYOUTS[LEAST])
    assert large.dropped == [LAYOUTS[0]]
    assert large.ask(LAYOUTS[0]) == [LAYOUTS[0]]


def test_what_was_asked_for_last_is_kept():
    large = Counted(operations=OPERATIONS)
    large.ask(*LAYOUTS[:LEAST])
    assert large.costing.known(LAYOUTS[0]) is None  # these costs are None; asked for all the same
    large.ask(LAYOUTS[1])
    large.ask(LAYOUTS[LEAST], LAYOUTS[LEAST + 1])
    assert large.dropped == LAYOUTS[2:4]


def test_what_is_on_the_board_is_kept():
    large = Counted(operations=OPERATIONS, held=(LAYOUTS[0], LAYOUTS[1]))
    large.ask(*LAYOUTS[: LEAST + 2])
    assert large.dropped == LAYOUTS[2:4]
    assert large.ask(LAYOUTS[0], LAYOUTS[1]) == []


def test_all_layouts_on_a_placement_share_a_mesh(explorer: Explorer):
    explorer.on("v5e")
    before = explorer.plan.mesh
    explorer.remove("batch")
    assert explorer.plan.mesh is before
    explorer.on("h100")
    assert explorer.plan.mesh is not before
    explorer.undo()
    assert explorer.plan.mesh is before
