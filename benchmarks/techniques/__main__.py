"""`make techniques`: what each technique of the literature sends, as the tables of docs/techniques.md.

python -m benchmarks.techniques docs/techniques.md
"""

from __future__ import annotations

import argparse
import pathlib

from benchmarks.pages import Section

from .table import page

SECTION = Section("techniques")


def main():
    parser = argparse.ArgumentParser(prog="benchmarks.techniques", description=__doc__)
    parser.add_argument("page", type=pathlib.Path, help="the page whose section is written")
    SECTION.write(parser.parse_args().page, page())


if __name__ == "__main__":
    main()
