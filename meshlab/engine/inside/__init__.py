"""Looks inside a plan's step while it runs: values as further outputs, the first NaN, the first difference."""
