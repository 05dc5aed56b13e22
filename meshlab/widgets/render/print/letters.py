"""How much room a text takes, without the font: an estimate that no common sans-serif exceeds.

    width_of("12.5 kB", 7)              31.5 points at a size of 7
    wrapped("a long sentence", 40, 7)   its lines
    shortened("a/very/long/name", 40, 7)    "a/very/…"

A figure is drawn in a kernel that has no fonts, and read where the fonts are others: Helvetica, Arial, Liberation,
DejaVu. The widths are those of DejaVu Sans, the widest of them, rounded up: texts that do not meet here meet nowhere.
"""

from __future__ import annotations

# In points: titles, texts, and the smallest, which is read in print.
TITLE, TEXT, SMALL = 8.0, 7.0, 6.0
# Above and below the base line, and from line to line, as shares of the size.
UP, DOWN, LINE = 0.76, 0.24, 1.3
# Bold letters are wider by so much; in a font of one width each has so much.
_BOLD, _CODE = 1.14, 0.61
_WIDTHS = {
    0.35: "IJijl,./:;|\\·'’ ",
    0.45: "()-[]ft!r",
    0.55: '"*_`–?csz“”',
    0.6: "kvxy",
    0.65: "$0123456789abdeghnopqu{}µFL",
    0.7: "EPSTY",
    0.75: "ABCKRVXZNU",
    0.85: "&DGHOQ#+<=>^w~×→↑↓−✓✕≤≥▼▲",
    1.0: "%@WmM…⚠",
}
_WIDTH = {letter: width for width, letters in _WIDTHS.items() for letter in letters}
# Of other scripts, among which are wide ones.
_OTHER = 1.0


def width_of(text: str, size: float, bold: bool = False, code: bool = False) -> float:
    """Returns how wide a text is at most, in the unit of its size."""
    if code:
        return size * sum(_CODE if ord(letter) < 0x2E80 else _OTHER for letter in text)
    return size * (_BOLD if bold else 1.0) * sum(_WIDTH.get(letter, _OTHER) for letter in text)


def wrapped(text: str, width: float, size: float, bold: bool = False) -> list[str]:
    """Returns the lines of a text; a word that is too long for a line is broken."""
    lines, line = [], ""
    for word in text.split():
        longer = f"{line} {word}".lstrip()
        if width_of(longer, size, bold) <= width:
            line = longer
            continue
        lines += [line] * bool(line)
        line = word
        while width_of(line, size, bold) > width and len(line) > 1:
            at = next(n for n in range(len(line) - 1, 0, -1) if n == 1 or width_of(line[:n], size, bold) <= width)
            lines.append(line[:at])
            line = line[at:]
    return [*lines, *[line] * bool(line)]


def without_middle(text: str, most: int) -> str:
    """Returns a text of at most so many letters, an ellipsis in place of the words in its middle."""
    words, fits = text.split(" "), ""
    if len(text) <= most:
        return text
    # The beginning and the end by turns: a layout ends with the rules of what is stored.
    begin = end = 0
    while True:
        longer = (begin + 1, end) if begin <= end else (begin, end + 1)
        shown = " ".join([*words[: longer[0]], "…", *words[len(words) - longer[1] :]])
        if len(shown) > most or sum(longer) >= len(words):
            return fits or f"{text[: most - 1]}…"
        fits, (begin, end) = shown, longer


def shortened(text: str, width: float, size: float, bold: bool = False, code: bool = False) -> str:
    """Returns a text that is no wider; what is left out is an ellipsis. For names, never for numbers."""
    if width_of(text, size, bold, code) <= width:
        return text
    for n in range(len(text) - 1, 0, -1):
        if width_of(f"{text[:n].rstrip()}…", size, bold, code) <= width:
            return f"{text[:n].rstrip()}…"
    return ""
