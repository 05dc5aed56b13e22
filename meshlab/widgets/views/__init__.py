"""Views: the state of an Explorer comes in; out goes plain data for each panel of the board."""
