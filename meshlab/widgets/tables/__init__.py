"""Tables: the state of an Explorer and its views come in; out go rows of raw numbers, as CSV and JSON."""
