"""Rendering: the views' plain data come in; out go Plotly charts, and snapshots as HTML."""
