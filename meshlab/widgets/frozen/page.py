"""The file of a board without Python: what it is, the board, and compressed what draws and what answers it.

    page(explorer, recorder.table(65), "65 layouts are recorded: …")        "<!doctype html>…"

The page's code is that of a notebook (`static/session.js`), unchanged; `static/replay.js` stands for its model.
Browsers unpack gzip themselves; its bytes are text, 13 bits in two letters of 91, a twelfth shorter than base64. What
users have named is written as text alone.
"""

from __future__ import annotations

import gzip
import html
import pathlib
from collections.abc import Sequence
from typing import Any

from ...cost.machines.meshes import slice_of
from ...cost.workload.options import USUAL
from ...version import __version__
from ..views.forms.literal import keywords
from ..views.forms.python import mesh_and_layout

STATIC = pathlib.Path(__file__).parents[1] / "static"
# What may stand in a script and in a text of JavaScript: of printable ASCII all but these.
LETTERS = "".join(letter for letter in map(chr, range(33, 127)) if letter not in '"<\\')
# Two letters are 13 bits; one that is left over at the end is 6.
PAIR, ONE = 13, 6
HTML = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ margin: 8px 12px; font: 14px/1.45 system-ui, sans-serif; background: Canvas; color: CanvasText; }}
header {{ display: flex; flex-wrap: wrap; align-items: baseline; gap: 0 16px; margin: 0 0 6px; }}
header h1 {{ margin: 0; font-size: 15px; }}
header p {{ flex-basis: 100%; margin: 0; }}
header details[open] {{ flex-basis: 100%; }}
.unseen {{ position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); }}
header summary {{ cursor: pointer; text-decoration: underline; }}
header pre {{ overflow: auto; margin: 4px 0; padding: 8px; border: 1px solid; border-radius: 4px; }}
</style>
<header>
<h1>{title}</h1>
<details><summary>Open it in a live notebook</summary><pre tabindex="0" aria-label="code">{code}</pre></details>
<p>A meshlab {version} board without Python. {said}</p>
</header>
<main>
<h2 class="unseen">The board</h2>
<h3 class="unseen">Its layout and views</h3>
<div id="board"><noscript>The board needs JavaScript.</noscript></div>
</main>
<script type="application/gzip" id="table">{table}</script>
<script type="application/gzip" id="style">{style}</script>
<script type="application/gzip" id="session">{session}</script>
<script type="application/gzip" id="replay">{replay}</script>
<script type="module">
const board = document.getElementById("board");
try {{
  const letters = "{letters}";
  const bytes = (text) => {{
    const out = new Uint8Array(((text.length >> 1) * {pair} + (text.length % 2) * {one}) >> 3);
    let [held, bits, end] = [0, 0, 0];
    for (let at = 0; at < text.length; at += 2) {{
      const [first, second] = [text[at], text[at + 1]].map((letter) => letters.indexOf(letter));
      held |= (second < 0 ? first : first * letters.length + second) << bits;
      bits += second < 0 ? {one} : {pair};
      for (; bits >= 8; bits -= 8, held >>= 8) out[end++] = held & 255;
    }}
    return out;
  }};
  const unpacked = async (id) => {{
    const packed = bytes(document.getElementById(id).textContent);
    return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  }};
  const load = (code) => import(URL.createObjectURL(new Blob([code], {{ type: "text/javascript" }})));
  const [table, style, session, replay] = await Promise.all(["table", "style", "session", "replay"].map(unpacked));
  document.head.appendChild(document.createElement("style")).textContent = style;
  const [{{ default: widget }}, {{ Replay, follow }}] = await Promise.all([session, replay].map(load));
  board.replaceChildren();
  window.replay = new Replay(table);
  widget.render({{ model: window.replay, el: board }});
  follow(window.replay, window);
}} catch (error) {{
  board.textContent = `This browser cannot open the board: ${{error}}. A browser of 2023 or later does.`;
}}
</script>
</html>
"""


def page(explorer: Any, table: Sequence[str], said: str) -> str:
    """Returns the text of the file.

    Args:
        explorer: whose board it is.
        table: what was recorded, a value a line.
        said: which layouts these are, in words.
    """
    task = explorer.task
    title = f"{explorer.source.name}: {explorer.mesh}" if task is None else task.heading
    return HTML.format(
        title=html.escape(title),
        version=__version__,
        said=html.escape(said),
        code=html.escape(live_code(explorer)),
        table=_packed("\n".join(table)),
        style=_packed_file("session.css"),
        session=_packed_file("session.js"),
        replay=_packed_file("replay.js"),
        letters=LETTERS,
        pair=PAIR,
        one=ONE,
    )


def live_code(explorer: Any) -> str:
    """Returns the Python that opens the board in a notebook; what no text can bring along it names."""
    document, source, task = explorer.document, explorer.source, explorer.task
    if task is not None and task.code:
        return task.code
    own = document.machine is not None and slice_of(document.machine.on)[0] in explorer.documents.machines
    lines = mesh_and_layout(document, own)
    if own:
        lines.insert(2, f"# Give ml.mesh your own machine, {explorer.mesh.on.hardware}, ahead of the axes:")
    if source.text == "program":
        lines += ["", f"# With the program of {source.name}:"]
    given = "".join(f", {each}" for each in (keywords(source.sizes),) if each)
    changed = document.pad or document.kept or document.resized or document.renamed or document.options != USUAL
    if not changed:
        return "\n".join([*lines, f"ml.explore({source.text}, mesh, layout{given})"])
    return "\n".join(
        [
            *lines[:3],
            *lines[4:],
            f"explorer = ml.explore({source.text}, mesh{given})",
            f"explorer.restore({document.to_json()!r})",
            "explorer",
        ]
    )


def _packed(text: str) -> str:
    """Compresses a text, the same way each time."""
    return as_text(gzip.compress(text.encode(), 9, mtime=0))


def as_text(data: bytes) -> str:
    """Returns bytes as letters, the lowest bits first."""
    letters, held, bits = [], 0, 0
    for byte in data:
        held |= byte << bits
        bits += 8
        if bits >= PAIR:
            letters += map(LETTERS.__getitem__, divmod(held & (1 << PAIR) - 1, len(LETTERS)))
            held >>= PAIR
            bits -= PAIR
    if bits:
        letters += map(LETTERS.__getitem__, (held,) if bits <= ONE else divmod(held, len(LETTERS)))
    return "".join(letters)


def _packed_file(name: str) -> str:
    return _packed((STATIC / name).read_text(encoding="utf-8"))
