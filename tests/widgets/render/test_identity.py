"""The looks of slices, by a table that the page's code is tested against as well."""

from __future__ import annotations

import json
import pathlib

import meshlab
from meshlab.widgets.render.identity import identity

TABLE = pathlib.Path(meshlab.__file__).parent / "widgets" / "js" / "test" / "identities.json"


def test_slices_look_as_on_the_page() -> None:
    rows = json.loads(TABLE.read_text())
    assert len(rows) > 15
    for parts, slice_, fill, pattern, label in rows:
        shown = identity(parts, slice_)
        assert (shown.fill, shown.pattern, shown.label) == (fill, pattern, label)
