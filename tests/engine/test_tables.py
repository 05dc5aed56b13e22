"""Predicted numbers stand beside those of a compiled program in aligned columns."""

from meshlab.engine import tables

GATHER = "all-gather", ("data",)


def test_the_table_of_the_documentation_is_set():
    rows = tables.collective_rows({GATHER: 813_056}, {GATHER: 813_056}, lambda _: "=")
    assert "\n".join(tables.comparison(("", "plan", "XLA"), rows)) in str(tables.__doc__)


def test_a_collective_that_one_side_lacks_is_zero_there():
    rows = tables.collective_rows({GATHER: 8}, {("all-reduce", ("?",)): 4}, lambda key: tables.mark(key == GATHER))
    assert rows == [("✓ all-gather over data", 8, 0), ("✗ all-reduce over ?", 0, 4)]


def test_short_rows_and_empty_cells_leave_no_spaces_behind():
    lines = tables.comparison(("", "predicted", "compiled"), [("peak", None, 1_000, "+8%"), ("none",)])
    assert lines == ["        predicted  compiled", "  peak                1,000  +8%", "  none"]
    assert tables.note_lines(["one"]) == ["  · one"]
