"""Models by name, and the doors that take a name where a program may stand.

In: the name of a model, `"llama3-8b"`, and sizes of its dims. Out: its program, or the Explorer of it.
"""
