"""Published peaks of pipelines beside those of the TPU compiler."""

from pathlib import Path

from benchmarks import staged
from benchmarks.compilers import read

PAGE = Path(__file__).parents[1] / "docs" / "accuracy.md"


def test_the_page_shows_the_peaks_of_pipelines_that_are_predicted_today():
    """If not: python -m benchmarks.staged docs/accuracy.md."""
    results = staged.peaks(read(staged.JOURNAL))
    assert len(results) == len(read(staged.JOURNAL))
    assert staged.SECTION.read(PAGE) == staged.page(results)
    assert max(abs(peak.error) for peak in results) <= staged.MOST
