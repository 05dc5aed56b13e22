"""Searches for costs that add up over small sets of dims, each on one axis: tables, an integer program, a proof."""
