"""Steps with experts that others have measured, by transport: where the faster one is predicted to be."""

import pathlib

import pytest

from benchmarks import transports
from benchmarks.transports import MACHINES, MEASURED, right, rows

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "accuracy.md"


@pytest.mark.nightly
def test_the_page_shows_what_is_predicted_today():
    """If not: python -m benchmarks.transports docs/accuracy.md."""
    assert transports.SECTION.read(PAGE) == transports.table()


def test_gathered_tokens_are_faster_over_few_devices_and_not_over_many():
    """Measured to change sides between 8 and 16; predicted to on v5p, and one step before on the machine itself."""
    assert right(MACHINES["gb200"]) == [4, 16, 32]
    assert right(MACHINES["v5p"]) == [4, 8, 16, 32]


def test_all_to_alls_take_as_long_over_many_devices_and_gathering_does_not():
    """Measured: 12.1% to 12.3% of the peak, and 14.3% down to 9.5%."""
    dropless, gathered = zip(*(row.predicted for row in rows(MACHINES["gb200"])), strict=True)
    assert max(dropless) < 1.05 * min(dropless)
    assert list(gathered) == sorted(gathered)
    assert gathered[-1] > 3 * gathered[0]
    assert len(gathered) == len(MEASURED)
