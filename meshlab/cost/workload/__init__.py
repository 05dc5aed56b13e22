"""Workload: a plan comes in; out go the values that its steps read and write, at given sizes on a given machine."""
