"""What the lessons import is installed by `make lab`, `make docs` and `make test`."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions

from tests.test_notebooks import FOLDER, NEEDS, SOURCES


def brought(extra: str, *, extras: dict[str, list[str]]) -> set[str]:
    """Returns the libraries that an extra of meshlab installs, with those of the extras that it names."""
    found = set()
    for requirement in extras[extra]:
        name, inner = re.match(r"([\w-]+)(?:\[([^]]*)\])?", requirement).groups()  # pyright: ignore[reportOptionalMemberAccess]
        found |= {name} if name != "meshlab" else set().union(*(brought(e, extras=extras) for e in inner.split(",")))
    return found


def test_the_lessons_need_nothing_but_what_make_lab_and_make_docs_install():
    project = tomllib.loads((FOLDER.parent / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    makefile = (FOLDER.parent / "Makefile").read_text()
    assert re.search(r"^lab: \$\(VENV\)/\.notebook", makefile, re.MULTILINE)
    assert re.search(r"^\$\(VENV\)/\.notebook:.*\n.*\n.*'\.\[lessons\]'", makefile, re.MULTILINE)
    core = {re.split(r"[\[>=<]", each)[0] for each in project["dependencies"]}
    owners = packages_distributions()
    for source in SOURCES:
        nodes = list(ast.walk(ast.parse(source.read_text())))
        imports = [each.name for node in nodes if isinstance(node, ast.Import) for each in node.names]
        imports += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
        roots = {name.partition(".")[0] for name in imports} - sys.stdlib_module_names - {"meshlab"}
        needed = {each.replace(".", "-") for each in NEEDS.get(source.stem, ())}
        for extra in ("lessons", "docs", "dev"):
            here = core | brought(extra, extras=extras)
            assert needed <= here
            assert all(here & {*owners.get(root, (root,))} for root in roots), (source, extra)
