"""Planning: a program, a mesh and a layout come in; out go the steps that each device runs, or a `LayoutError`."""
