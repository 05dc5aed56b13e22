"""Print: the views' data come in; out go figures for papers, as SVG in millimetres, PDF and PNG."""
