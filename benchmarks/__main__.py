"""`make bench`: all benchmarks, as three tables: what waits for a user, calls of plans, and compiled steps.

Calls of plans stand beside those by `jax.jit`, compiled steps beside those of XLA's own partitioner.

`--no-browser` leaves out what needs Chromium, `--no-steps` the compiled steps, which take minutes.

What is promised (re-planning within 50 ms; a drop drawn with all its costs within 100 ms for the small net and 250 ms
for Llama; while a chip is held the 10 nearest zones priced within 400 ms and 30 within 1 s; a view on the screen within
100 ms of the press on its tab; a step of 405B costed within 1 s, a small program's best layout found within 1 s, for 95
of 100; a new layout priced within 25 ms, with its peak 65 ms, for half of them; a good layout of Llama 3 on two axes
found within 0.5 s, and proved the fastest to 1 % within 5 s, its front and regrets 2 s later, for half of them; a try
at a puzzle judged within 5 ms, and its conditions drawn within 120 ms of a drop; a drop beside Auto's layout as fast as
without; a call of a plan within 100 µs of one by `jax.jit`, and 3 µs more for each array above 20) is marked as kept or
broken, and a broken promise is this command's exit status. Other machines differ: the numbers are printed, not asserted
in the tests.
"""

from __future__ import annotations

import argparse
import os
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")

from benchmarks import beside, costing, dispatch, finding, planning, pricing, searching, solving, stepping
from benchmarks.timing import table


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--no-browser", action="store_true", help="leave out what needs Chromium")
    parser.add_argument("--no-steps", action="store_true", help="leave out the compiled steps")
    options = parser.parse_args()
    parts = planning, costing, pricing, searching, finding, solving, beside
    samples = [sample for part in parts for sample in part.measure()]
    if not options.no_browser:
        from benchmarks import boards, dropping, holding, showing

        with boards.boards() as shown:
            samples += dropping.measure(shown) + holding.measure(shown) + showing.measure(shown)
    print(table(samples))
    calls = dispatch.measure()
    print("\n" + dispatch.table(calls))
    if not options.no_steps:
        print("\n" + stepping.table(stepping.measure()))
    return 0 if all(each.holds for each in (*samples, *calls)) else 1


if __name__ == "__main__":
    sys.exit(main())
