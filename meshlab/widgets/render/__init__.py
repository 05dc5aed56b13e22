"""Rendering: views come in; out go HTML, Plotly charts and snapshots."""
