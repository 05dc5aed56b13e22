"""A board without Python: one HTML file with the page's code and a table of recorded states.

    explorer.share("board.html")

In: an Explorer. Out: a file in which a reader drags among the layouts that were recorded, and is told at the edge what
was not. `walk` finds the layouts, `record` keeps what is shown of each, `pool` packs that, `page` writes the file;
`js/src/replay.ts` answers the page's messages from it, as `notebook/protocol.py` does from an Explorer.
"""
