"""Schedules of pipelines as values: what each stage computes in which order, how long it takes; CSV and figures."""
