"""Writes the page's types of what Python sends, and says whether they were others.

    class ChipView(TypedDict):          export type Chip = {
        name: str                         name: string;
        axes: Sequence[str]               axes: string[];

Each `TypedDict` of `meshlab/widgets/views` and of the protocol is a type of the page, without "View" behind its name,
and so is each name that they give another type (`EdgeView = tuple[int, int, float]`). So are `View`, all parts of the
board together, and `ReadData`, what the page asks for while a panel shows it. The exit status
is 1 where the file was not so.
"""

from __future__ import annotations

import collections.abc
import importlib
import inspect
import pathlib
import pkgutil
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from meshlab.widgets import views
from meshlab.widgets.documents.intents import Refused
from meshlab.widgets.notebook import files, protocol
from meshlab.widgets.views.board import PARTS
from meshlab.widgets.views.panels import PANELS
from meshlab.widgets.views.reads import READS

PAGE = pathlib.Path(__file__).parents[1] / "meshlab" / "widgets" / "js" / "src"
HEAD = """/**
 * The data that Python sends, as the `TypedDict`s of meshlab/widgets/views and notebook/protocol.py have it. Written by
 * scripts/page_types.py (`make types`): change them there.
 */
"""
PANELS_HEAD = """/**
 * The panels of the stage, as `PANELS` of meshlab/widgets/views/panels.py has them. Written by scripts/page_types.py
 * (`make types`): change them there.
 */
"""
WIDTH = 120  # of a line, as biome.json has it
SIMPLE = {
    str: "string",
    int: "number",
    float: "number",
    bool: "boolean",
    type(None): "null",
    Any: "any",
    object: "unknown",
}
LISTS = (list, collections.abc.Sequence, collections.abc.Iterable)
RECORDS = (dict, collections.abc.Mapping)


def page_type(python: Any) -> str:
    """Returns a Python annotation as a type of the page; refuses one that JSON has no like of."""
    origin, inner = get_origin(python), get_args(python)
    if python in SIMPLE:
        return SIMPLE[python]
    if is_typeddict(python):
        return python.__name__.removesuffix("View")
    if origin in (Union, types.UnionType):
        return " | ".join(dict.fromkeys(map(page_type, inner)))
    if origin is Literal:
        return " | ".join(f'"{each}"' if isinstance(each, str) else str(each).lower() for each in inner)
    if origin is tuple:
        return f"{page_type(inner[0])}[]" if inner[1:] == (...,) else f"[{', '.join(map(page_type, inner))}]"
    if origin in LISTS:
        several = get_origin(inner[0]) in (Union, types.UnionType, Literal) and len(get_args(inner[0])) > 1
        return f"({page_type(inner[0])})[]" if several else f"{page_type(inner[0])}[]"
    if origin in RECORDS:
        return f"Record<{page_type(inner[0])}, {page_type(inner[1])}>"
    raise TypeError(f"the page has no type for {python!r}")


def page_object(name: str, view: Any) -> str:
    """Returns a `TypedDict` as a declaration, with the fields of those that it extends: Python 3.11 forgets which."""
    lines = []
    for field, hint in get_type_hints(view, include_extras=True).items():
        optional = get_origin(hint) is NotRequired or field in view.__optional_keys__
        bare = get_args(hint)[0] if get_origin(hint) is NotRequired else hint
        lines.append(f"  {field}{'?' if optional else ''}: {page_type(bare)};\n")
    said = inspect.cleandoc(view.__doc__ or "").split("\n")[0] if "__doc__" in vars(view) and view.__doc__ else ""
    comment = f"/** {said} */\n" if said and not said.startswith("dict(") else ""
    return f"{comment}export type {name} = {{\n{''.join(lines)}}};\n"


def modules() -> Iterator[Any]:
    yield from (
        importlib.import_module(each.name) for each in pkgutil.walk_packages(views.__path__, f"{views.__name__}.")
    )
    yield from (files, protocol)


def page_alias(name: str, python: Any) -> str:
    """Returns what another type is called as a declaration."""
    return f"export type {name} = {page_type(python)};\n"


def declared() -> dict[str, str]:
    """Returns the declarations of all modules' views, by their names in the page."""
    found: dict[str, tuple[Any, str]] = {}
    for module in modules():
        for called, view in vars(module).items():
            # Of a name for another type it cannot be told where it is from: it is found wherever it is imported.
            named = called.endswith("View") and get_origin(view)
            own = view.__module__ == module.__name__ if is_typeddict(view) else named
            if not own or called.startswith("_"):
                continue
            first, where = found.setdefault(called.removesuffix("View"), (view, module.__name__))
            if first != view:
                raise TypeError(f"{module.__name__} and {where} both have a {called}")
    return {name: (page_object if is_typeddict(view) else page_alias)(name, view) for name, (view, _) in found.items()}


def returned(function: Any) -> str:
    """Returns what comes as the answer of a function; a refusal comes as another answer."""
    hint = get_type_hints(function)["return"]
    parts = [part for part in get_args(hint) if part is not Refused] if get_origin(hint) is types.UnionType else [hint]
    return " | ".join(dict.fromkeys(map(page_type, parts)))


def page_list(before: str, texts: Iterable[str], after: str) -> str:
    """Returns a list of texts, in one line where that is short."""
    quoted = [f'"{text}"' for text in texts]
    line, indent = f"{before}[{', '.join(quoted)}]{after}", " " * (len(before) - len(before.lstrip()))
    if len(line) <= WIDTH:
        return f"{line}\n"
    return "\n".join((f"{before}[", *(f"{indent}  {text}," for text in quoted), f"{indent}]{after}\n"))


def types_text() -> str:
    """Returns `types.ts`."""
    drawn = {name: part for name, part in PARTS.items() if part.drawn}
    parts = " &\n  ".join(returned(part.describe) for part in drawn.values())
    reads = "".join(f"  {name}: {returned(read)};\n" for name, read in {**READS, **files.FILES}.items())
    ends = page_list("/** The parts of the board. */\nexport const PARTS = ", drawn, " as const;")
    ends += f"\n/** The whole board: its parts together. */\nexport type View = {parts};\n\n"
    ends += f"/** What a panel asks for, by its name. */\nexport type ReadData = {{\n{reads}}};\n"
    return HEAD + "\n" + "\n".join(declared().values()) + "\n" + ends


def panels_text() -> str:
    """Returns `panel_list.ts`."""
    modules = [(f"./{panel.module or name}.ts", f"import {{ panel as {name} }}") for name, panel in PANELS.items()]
    modules.append(("./stage.ts", "import type { Panel }"))
    imports = "".join(f'{what} from "{module}";\n' for module, what in sorted(modules))
    panels = ""
    for name, panel in PANELS.items():
        reads = page_list("    reads: ", (*panel.parts, *panel.reads), ",")
        panels += f'  {{\n    name: "{name}",\n    title: "{panel.title}",\n{reads}    ...{name},\n  }},\n'
    return f"{PANELS_HEAD}{imports}\nexport const PANELS: Panel[] = [\n{panels}];\n"


FILES = {PAGE / "types.ts": types_text, PAGE / "panel_list.ts": panels_text}


def main() -> int:
    others = [(file, text()) for file, text in FILES.items() if not file.exists() or file.read_text() != text()]
    for file, text in others:
        file.write_text(text)
        print(f"js/src/{file.name} was not what Python's views are. It has been written anew: commit it.")
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main())
