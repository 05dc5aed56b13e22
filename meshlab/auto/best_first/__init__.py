"""Searches over everything that a layout can say, best first: the fastest layout that fits, or the least peak."""
