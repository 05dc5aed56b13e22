"""Notebook: an Explorer and a page's messages come in; out go the widget, its shared state and the answers."""
