"""Notebook: an Explorer comes in; out goes the widget in the page, and the page's messages as intents."""
