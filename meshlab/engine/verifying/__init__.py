"""Verifying: a plan comes in; out goes what the compiler made of it, compared with what was predicted."""
