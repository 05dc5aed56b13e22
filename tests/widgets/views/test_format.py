"""Numbers are written as on the board (js/src/format.js)."""

from __future__ import annotations

import pytest

from meshlab.widgets.views.format import count_bytes, percent, scaled


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.00 kB"), (1628116, "1.63 MB"), (-20480, "−20.5 kB")]
)
def test_bytes_are_written_as_on_the_board(count: int, text: str) -> None:
    assert count_bytes(count) == text


@pytest.mark.parametrize(("share", "text"), [(1, "100%"), (0.5, "50%"), (0.125, "12.5%"), (1 / 512, "0.195%")])
def test_shares_are_written_as_on_the_board(share: float, text: str) -> None:
    assert percent(share) == text


def test_quantities_are_written_with_their_unit() -> None:
    assert [scaled(value, "B") for value in (5, 1e3, 8.1e11)] == ["5 B", "1 kB", "810 GB"]
