"""Passes: code comes in, code goes out: flattened, folded, with common subexpressions shared, in normal form."""
