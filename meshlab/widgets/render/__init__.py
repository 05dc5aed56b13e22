"""Rendering: the views' data come in; out go Plotly charts, and snapshots as HTML."""
