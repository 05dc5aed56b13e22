"""Kinds of mesh axes: a size as a person or JSON gives it comes in; out goes what an axis of that size is."""
