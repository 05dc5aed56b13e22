"""Why a layout is the best: what each choice is worth, what lies between yours and it, what binds it."""
