"""Explains the user's own compiled program: why each collective is in it, and the lines that mend it."""
