"""Goals: what a layout has to meet, and how far a plan meets it. In: a plan; out: a verdict, condition by condition."""
