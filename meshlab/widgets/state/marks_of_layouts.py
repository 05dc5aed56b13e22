"""Which labels and notes a layout that was tried can have: those of a person, and those of a file.

label_problem("#7", [])         "'#7' is no label: layouts are numbered so."
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...engine.errors import shown
from .tried import TriedLayout

# Characters of a label, which stands in a line of its own, and of a note.
LABEL, NOTE = 60, 1000


def label_problem(text: str, others: Iterable[TriedLayout]) -> str:
    """Returns why a layout cannot have a label; "" where it can.

    Args:
        text: the label.
        others: the other layouts.
    """
    if len(text) > LABEL:
        return f"A label has at most {LABEL} characters; this has {len(text):,}. Write the rest as a note."
    if re.fullmatch(r"#\d+", text):
        return f"{shown(text)} is not a label: layouts are numbered so."
    taken = next((each for each in others if text and text == each.label), None)
    return "" if taken is None else f"{shown(text)} is the label of {taken.sign} already."


def note_problem(note: str) -> str:
    """Returns why a note is refused; "" where it is not."""
    return f"A note has at most {NOTE:,} characters; this has {len(note):,}." if len(note) > NOTE else ""
