"""`make prose`: plain English in what users read. Lists each place that breaks a rule, and fails if there is one.

    python scripts/prose.py [FILE ...]        without files: all pages, notebooks, messages and public docstrings

It reads the prose of Markdown pages and of notebooks' Markdown cells, the strings of the package (errors, help, texts
of the board), and the docstrings of the public API. It skips code, and the parts of pages that commands write.

Each rule is here because its phrase made readers stop; `tests/test_prose.py` tries its two examples.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "meshlab"
MOST_WORDS = 45


class Rule(NamedTuple):
    """A phrase, why it stops a reader, what to write instead, an example, and a text that it must leave alone."""

    pattern: str
    why: str
    instead: str
    bad: str
    good: str


WHY = {
    "noun": "the reader has to guess the noun",
    "order": "subject, verb, object is easier to read",
    "old": "few engineers say it today",
    "who": "it hides who does it",
}
# IS is any of is, are, was, were.
TABLE = r"""
those of                                ~ noun  ~ the noun again          ~ bytes are those of a step ~ those offers
what IS (?:(?!what\b|\n\n)[^.,;:!?()|]){1,60}? IS ~ noun ~ the noun first ~ what is sent is small     ~ see what is sent
what \w+(?: \w+){0,4} makes? of         ~ noun  ~ how it compiles it      ~ what XLA makes of it      ~ it is made of x
(?:what|all that) there IS              ~ noun  ~ its name                ~ refuse what there is not  ~ there is a list
than IS \w+                             ~ noun  ~ the noun after than     ~ more than is sent         ~ more than it is
there alone                             ~ noun  ~ only there              ~ rules there alone         ~ alone there
who(?:m)?ever                           ~ noun  ~ if you, anyone who      ~ whoever adds a part       ~ however large
IS no (?!longer|more\b|less\b|one\b|worse)\w+ ~ order ~ is not a          ~ `x` is no dim             ~ there is no dim
IS to be                                ~ order ~ must be                 ~ names are to be given     ~ it has to be 2
(?:Read|Lost|Not \w+|Left out) IS the   ~ order ~ the subject first       ~ Read are the shardings    ~ Read the page
of (?:yours|ours|theirs)                ~ order ~ your, our               ~ a model of yours          ~ of your own
at (?:most|least) so (?:many|much|large|long|few) ~ order ~ at most this many ~ at most so many bytes ~ so many bytes
told                                    ~ who   ~ reported, shown         ~ bounds are told first     ~ it tells it
IS said                                 ~ who   ~ it lists, it says       ~ all problems are said     ~ it says so
hears? (?:of|how)                       ~ who   ~ is called with, learns  ~ it hears of each result   ~ it hears
cannot say                              ~ who   ~ cannot express          ~ a form cannot say it      ~ it can say it
not got                                 ~ old   ~ does not have           ~ the mesh has not got it   ~ you got it
but for                                 ~ old   ~ except                  ~ all but for the last      ~ but forever
stands? (?:in|at|beside|behind|above|below|on|twice|alone) ~ old ~ is in  ~ it stands in a file       ~ it stands for x
otherwise than                          ~ old   ~ differently from        ~ stored otherwise than x   ~ otherwise, more
(?:none|nothing) but                    ~ old   ~ only                    ~ nothing but slices        ~ nothing, but it
(?:each|per|every|one) turn of          ~ old   ~ iteration               ~ each turn of a loop       ~ turn it off
anew                                    ~ old   ~ again                   ~ compile it anew           ~ a new mesh
mend(?:s|ed|ing)?                       ~ old   ~ fix                     ~ a line that mends it      ~ an amended plan
(?:lies?|laid) (?:on|over|along)        ~ old   ~ is on, is sharded over  ~ `x` lies on `y`           ~ lay it out
as (?:it|they) stands?                  ~ old   ~ unchanged               ~ run as it stands          ~ as it is
IS (?:held|hold) (?:against|to)         ~ old   ~ compared with           ~ held: x is held against y ~ it holds two
one's own                               ~ old   ~ your own                ~ a model of one's own      ~ everyone's owner
"""
RULES = [Rule(*map(str.strip, line.split("~"))) for line in TABLE.strip().splitlines()]
_ALL = [rf"(?<!there )\b(?:{rule.pattern})(?!\w)".replace("IS", "(?:is|are|was|were)") for rule in RULES]
_RULES = [(re.compile(pattern, re.IGNORECASE), rule) for pattern, rule in zip(_ALL, RULES, strict=True)]
_ANY = re.compile("|".join(_ALL), re.IGNORECASE)
# Generated parts, blocks of code, and comments.
_SKIPPED = (
    re.compile(r"^<!-- \w+: begin -->.*?^<!-- \w+: end -->|^```.*?^```|<!--.*?-->", re.DOTALL | re.MULTILINE),
    re.compile(r"^ {4,}(?! *(?:[-*]|\d+\.) ).*$", re.MULTILINE),
)


def _blank(match: re.Match) -> str:
    """Keeps the lines of what is left out, and so the numbers of the lines after it."""
    return "\n" * match[0].count("\n")


def prose(text: str) -> str:
    """Returns Markdown without code, generated parts and targets of links, line for line."""
    for pattern in _SKIPPED:
        text = pattern.sub(_blank, text)
    text = re.sub(r"`[^`]+`", lambda match: "`x`" + _blank(match), text)
    return re.sub(r"\]\([^)\s]*\)", "]", text)


def cells(text: str) -> str:
    """Returns the Markdown cells of a jupytext source, line for line."""
    markdown, lines = False, []
    for line in text.split("\n"):
        marks = line.startswith("# %%")
        markdown = "[markdown]" in line if marks else markdown
        lines.append(line.removeprefix("#").removeprefix(" ") if markdown and not marks else "")
    return "\n".join(lines)


def _docstring(node: ast.AST) -> ast.Constant | None:
    """Returns the docstring of a module, class or function."""
    body = node.body if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) else []
    value = body[0].value if body and isinstance(body[0], ast.Expr) else None
    return value if isinstance(value, ast.Constant) and isinstance(value.value, str) else None


def messages(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yields the line and text of each string that is not a docstring; a value in an f-string reads `x`."""
    skipped: set[ast.AST | None] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            skipped.update(node.values)
            yield node.lineno, "".join(str(v.value) if isinstance(v, ast.Constant) else "`x`" for v in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in skipped:
            yield node.lineno, node.value
        else:
            skipped.add(_docstring(node))


def documented(tree: ast.Module, names: set[str]) -> Iterator[tuple[int, str]]:
    """Yields the docstrings of the named classes and functions of a module, and of their public methods."""
    tops = (top for top in tree.body if getattr(top, "name", None) in names)
    for node in (node for top in tops for node in ast.walk(top)):
        if not (getattr(node, "name", None) or "_").startswith("_") and (found := _docstring(node)):
            yield found.lineno, str(found.value)


def exported(listing: Path) -> dict[Path, set[str]]:
    """Returns the names that a package exports, by module."""
    names: dict[Path, set[str]] = {}
    for node in ast.parse(listing.read_text()).body:
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
            module = listing.parent / f"{node.module.replace('.', '/')}.py"
            names[module] = names.get(module, set()) | {alias.name for alias in node.names}
    return names


def read(path: Path, public: dict[Path, set[str]]) -> Iterator[tuple[int, str]]:
    """Yields the line and text of everything in a file that users read."""
    text = path.read_text()
    if path.suffix == ".md":
        yield 1, prose(text)
    elif path.parent.name == "notebooks":
        yield 1, prose(cells(text))
    else:
        tree = ast.parse(text)
        for line, each in (*messages(tree), *documented(tree, public.get(path, set()))):
            if " " in each:  # a single word is a name
                yield line, re.sub(r"`[^`\n]+`", "`x`", each)


def _long(text: str) -> Iterator[tuple[int, str]]:
    """Yields the place of each sentence that is too long; headings, rows of tables and list items end one, too."""
    text = re.sub(r"^\s*(?:\||#).*$", lambda match: " " * len(match[0]), text, flags=re.MULTILINE)
    begin = 0
    for end in re.finditer(r"[.!?:;](?=\s)|\n\s*\n|\n\s*(?=[-*] |\d+\. )|\Z", text):
        if (words := len(text[begin : end.start()].split())) > MOST_WORDS:
            yield begin + len(re.match(r"\s*", text[begin:])[0]), f"a sentence of {words} words: split it"  # pyright: ignore
        begin = end.end()


def problems(text: str, page: bool = True) -> list[tuple[int, str]]:
    """Returns each problem of a text, with the number of lines before it."""
    found = [
        (match.start(), f"'{' '.join(match[0].split())}': write {rule.instead}; {WHY[rule.why]}")
        for pattern, rule in (_RULES if _ANY.search(text) else ())
        for match in pattern.finditer(text)
    ]
    return [(text.count("\n", 0, at), problem) for at, problem in sorted([*found, *(_long(text) if page else ())])]


def checked(paths: list[Path]) -> list[Path]:
    """Returns the files to read: all of them, where none are given."""
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    package = [path for path in PACKAGE.glob("**/*.py") if "node_modules" not in path.parts]
    return sorted(path.resolve() for path in paths) or sorted([*pages, *ROOT.glob("notebooks/*.py"), *package])


def main(arguments: list[str]) -> int:
    lists = (PACKAGE / "__init__.pyi", *(PACKAGE / name / "__init__.py" for name in ("auto", "layouts", "puzzles")))
    public = {module: names for listing in lists for module, names in exported(listing).items()}
    found = [
        f"{os.path.relpath(path)}:{line + before}: {problem}"
        for path in checked([Path(name) for name in arguments])
        for line, text in read(path, public)
        for before, problem in problems(text, page=path.suffix == ".md" or path.parent.name == "notebooks")
    ]
    print(*found, sep="\n", end="\n" * bool(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
