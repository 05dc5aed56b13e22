"""Views: the state of an Explorer comes in; out goes what each panel shows, as plain data."""
