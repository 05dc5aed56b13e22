"""Documents: what is on a board, as frozen data; out goes the document after an intent, its plan and what it costs."""
