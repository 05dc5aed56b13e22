"""Attention that is written with arrays: a program comes in; out goes one in which it is an operation."""
