"""The glossary, of the one source that there is: the terms of the board's page, and each collective's sentence.

Directive `meshlab-terms` writes them as a glossary, in the order of the alphabet.
"""

import pathlib
import re

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.util.nodes import nested_parse_with_titles

from meshlab.engine.collectives.kinds import KINDS

PAGE = pathlib.Path(__file__).parents[2] / "meshlab" / "widgets" / "js" / "src" / "terms.ts"
TABLE = re.compile(r"TERMS: Record<string, string> = \{(.*?)\n\};", re.DOTALL)
ENTRY = re.compile(r'^  (?:"([^"]+)"|(\w+)):\s+"((?:[^"\\]|\\.)*)",$', re.MULTILINE)


def terms() -> dict[str, str]:
    """Returns each term with its sentence."""
    table = TABLE.search(PAGE.read_text(encoding="utf-8"))
    if table is None:
        raise LookupError(f"{PAGE} has no table of terms: `TERMS: Record<string, string> = {{…}};`.")
    page = {quoted or bare: said for quoted, bare, said in ENTRY.findall(table[1])}
    if len(page) != table[1].count('",'):
        raise LookupError(f'{PAGE} has entries that are not read as `term: "A sentence.",`.')
    known = page | {kind.name: kind.meaning for kind in KINDS.values()}
    return {term: known[term] for term in sorted(known, key=str.lower)}


class Terms(Directive):
    """Writes the glossary."""

    def run(self) -> list[nodes.Node]:
        """Returns the glossary as nodes."""
        text = [".. glossary::", ""]
        for term, said in terms().items():
            text += [f"   {term}", "      " + re.sub(r"`([^`]+)`", r"``\1``", said), ""]
        holder = nodes.container()
        nested_parse_with_titles(self.state, StringList(text, source=str(PAGE)), holder)
        return holder.children


def setup(app):
    """Enters the directive."""
    app.add_directive("meshlab-terms", Terms)
    return {"parallel_read_safe": True}
