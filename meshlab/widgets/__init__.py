"""The Explorer: one board on which dims are dragged onto mesh axes, and what that costs is seen at once.

`explorer` holds the state and every gesture as a method, with no Jupyter in it; `view` turns a plan into plain data;
`protocol` is the conversation with a page; `session` puts it into a notebook. Imports of the notebook packages are
made when a widget is first shown, so that a script can explore without them.
"""
