"""The presets of `ml.layouts` on the board: what each makes, how they combine, and the name of what is on the board."""
