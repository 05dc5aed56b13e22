"""Compilers: a plan comes in; out goes what a compiler for absent hardware made of it, and how that differs."""
