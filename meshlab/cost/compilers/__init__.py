"""Compilers: a plan comes in; out goes a `Compiled`, by a compiler for absent hardware, with its differences."""
