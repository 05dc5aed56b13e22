"""Verifying: a plan comes in; out goes what the compiler made of it, held against what was predicted."""
