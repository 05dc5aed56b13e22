"""Legality: a program, a mesh and a layout come in; out go the rules as they apply, or why the layout is refused."""
