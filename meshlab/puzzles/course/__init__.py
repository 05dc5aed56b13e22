"""The puzzles of the course, one module for each of its lessons, over the programs that they are about."""
