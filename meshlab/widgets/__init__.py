"""Widgets: a program and a mesh come in; out goes the Explorer, a board on which dims are dragged onto mesh axes.

`state` has every gesture as a method, `views` turns the state into JSON-like data, `tables` into rows of raw numbers,
`render` draws that data where no script runs, `notebook` puts it into a page, and `explorer` is the class that users
have. Imports go from the right to the left: state <- views <- tables <- render <- notebook <- explorer.
"""
