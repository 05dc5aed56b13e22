"""What docs/own-jit.md counts and lists is what there is."""

from __future__ import annotations

import re
from pathlib import Path

from meshlab.own import causes
from tests.own.foreign.test_foreign import PROGRAMS

PAGE = Path(__file__).parents[2] / "docs" / "own-jit.md"
WORDS = ["nine", "ten", "eleven", "twelve", "thirteen"]


def test_the_page_lists_all_causes():
    _, _, table = PAGE.read_text().partition("| cause | what it says |")
    listed = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)))
    assert sorted(listed) == sorted(re.findall(r"^    (\w+)  +\w", causes.__doc__ or "", re.MULTILINE))


def test_the_page_says_how_many_programs_of_others_there_are():
    (word,) = re.findall(r"uses (\w+) programs,\s+modelled on public questions", PAGE.read_text())
    assert WORDS.index(word) + 9 == len(PROGRAMS)
