"""Views: the state of an Explorer comes in; out goes JSON-like data for each panel of the board."""
