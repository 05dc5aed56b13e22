"""`make techniques`: what each technique of the literature sends, as the tables of docs/techniques.md.

python -m benchmarks.techniques docs/techniques.md
python -m benchmarks.techniques --compile docs/techniques.md        # and asks the compilers for TPUs and GPUs
"""

from __future__ import annotations

import argparse
import pathlib

from benchmarks.pages import Section

from .compiled import compile_all
from .table import ROWS, page

SECTION = Section("techniques")


def main():
    parser = argparse.ArgumentParser(prog="benchmarks.techniques", description=__doc__)
    parser.add_argument("page", type=pathlib.Path, help="the page whose section is written")
    parser.add_argument("--compile", action="store_true", help="for TPUs and GPUs, what was not compiled yet")
    options = parser.parse_args()
    if options.compile:
        compile_all(ROWS)
    SECTION.write(options.page, page())


if __name__ == "__main__":
    main()
