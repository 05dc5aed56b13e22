"""Charts that people zoom and read off, as Plotly's plain data: in come predictions and runs, out go `Chart`s."""
