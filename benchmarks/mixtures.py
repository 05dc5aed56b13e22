"""Published steps of mixtures of experts, each with the factor that it needs: they are shown, not judged.

    python -m benchmarks.mixtures                    prints the table
    python -m benchmarks.mixtures docs/accuracy.md   writes it between the marks of that page

Steps are composed as those of dense pipelines (`benchmarks.pipelines`); `pipelines.toml` has the layouts. One layout
ran up to twice as fast in a later release, so no factor holds for all releases.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from benchmarks.pages import Section
from benchmarks.pipeline_cells import Layout, mixtures
from benchmarks.pipelines import predicted, where

SECTION = Section("mixtures")


def factors(layout: Layout) -> dict[str, float]:
    """Returns by release how much longer than predicted its steps took."""
    return {
        release: layout.measured(batch, rate) / predicted(layout, batch).total for release, batch, rate in layout.runs
    }


def table() -> str:
    """Returns measured and predicted steps as a table in Markdown, a row for each layout and release."""
    lines = [
        "| model | devices | layout | sequences | release | measured | predicted | factor |",
        "| --- | ---: | --- | ---: | --- | ---: | ---: | ---: |",
    ]
    return "\n".join([*lines, *(row for layout in mixtures() for row in _rows(layout))])


def _rows(layout: Layout) -> Iterator[str]:
    longer = factors(layout)
    for release, batch, rate in layout.runs:
        cells = [
            f"{layout.model}, {layout.precision}",
            f"{layout.devices:,} {layout.on}",
            where(layout),
            f"{batch:,}",
            release,
        ]
        cells += [f"{seconds:.3g} s" for seconds in (layout.measured(batch, rate), predicted(layout, batch).total)]
        yield f"| {' | '.join(cells)} | {longer[release]:.2f} |"


if __name__ == "__main__":
    SECTION.write_or_print(table(), sys.argv[1:])
