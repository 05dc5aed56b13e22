"""The colours of a snapshot: those of the palette, light, unless the page says that it is dark.

    INK             "var(--mlb-s-ink, #171b22)"
    DARK_STYLE      what a page with style sheets has for it: in a dark JupyterLab or VS Code the snapshot is dark

A snapshot has all its styles in its elements, since sites that show notebooks take style sheets out; there it is light,
on a ground of its own. A saved notebook keeps the style sheet beside it.
"""

from __future__ import annotations

from . import palette

# The dark set of the board (js/src/colours.css).
DARK = {"card": "#1b1f26", "ink": "#e9ecf1", "soft": "#b3bbc7", "edge": "#343b47", "quiet": "#272c35"}
DARK |= {"used": "#70747e", "bad": "#ff9d96"}
_SOLID = ("#bfc9f2", "#dfa737", "#13ceb0", "#a994ef", "#f3727a", "#deef69")
_TINT = ("#1c2b47", "#3f2a1a", "#163732", "#32264a", "#432338", "#31371a")
DARK |= {f"solid-{n}": colour for n, colour in enumerate(_SOLID)} | {f"tint-{n}": c for n, c in enumerate(_TINT)}


def _themed(name: str, light: str) -> str:
    return f"var(--mlb-s-{name}, {light})"


GROUND, INK, SOFT = _themed("card", "#ffffff"), _themed("ink", palette.INK), _themed("soft", palette.SOFT)
EDGE, QUIET, NEUTRAL = _themed("edge", palette.EDGE), _themed("quiet", palette.QUIET), _themed("used", palette.NEUTRAL)
BAD = _themed("bad", palette.VARIABLES["bad"])
# The last is that of sets of axes for which no colour is left.
SOLID = (*(_themed(f"solid-{n}", colour) for n, colour in enumerate(palette.SOLID[:-1])), SOFT)
TINT = (*(_themed(f"tint-{n}", colour) for n, colour in enumerate(palette.TINT[:-1])), QUIET)
# What is a snapshot, to its style sheet.
SNAPSHOT = "data-mlb-snapshot"
_SURROUNDINGS = ('body[data-jp-theme-light="false"]', "body.vscode-dark", "body.vscode-high-contrast")
DARK_STYLE = (
    f"{', '.join(f'{each} [{SNAPSHOT}]' for each in _SURROUNDINGS)} "
    f"{{ {' '.join(f'--mlb-s-{name}: {colour};' for name, colour in DARK.items())} }}"
)
