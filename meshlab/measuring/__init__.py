"""Measures a plan's step: what each device ran and when, by JAX's profiler, and for which step, by scopes."""
