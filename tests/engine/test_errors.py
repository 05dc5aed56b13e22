"""Suggestions in messages: a sentence of its own, or in brackets inside one."""

import ast
import pathlib
from collections.abc import Iterator

import pytest

import meshlab
from meshlab.engine.errors import aside, closest

PACKAGE = pathlib.Path(meshlab.__file__).parent


def test_a_suggestion_is_a_sentence_or_in_brackets():
    assert closest("hiden", ["hidden", "out"]) == " Did you mean `hidden`?"
    assert aside("hiden", ["hidden", "out"]) == " (Did you mean `hidden`?)"
    assert closest("zzz", ["hidden"]) == aside("zzz", ["hidden"]) == aside(3, ["hidden"]) == ""


def misplaced(tree: ast.AST) -> Iterator[str]:
    """Yields the messages in which a sentence of `closest` begins or ends in the middle of another one."""
    for text in (node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)):
        words = [str(part.value) if isinstance(part, ast.Constant) else "" for part in text.values]
        for before, part, after in zip(["", *words], text.values, [*words[1:], ""], strict=False):
            calls = [ast.unparse(node.func) for node in ast.walk(part) if isinstance(node, ast.Call)]
            if "closest" in calls and not (before.endswith(".") and after[:1] in ("", " ")):
                yield ast.unparse(text)


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ('f"no `{x}`.{closest(x, y)} There are"', 0),
        ('f"no `{x}`{closest(x, y)}"', 1),
        ('f"no `{x}`.{closest(x, y)}."', 1),
    ],
)
def test_a_misplaced_suggestion_is_found(source: str, count: int) -> None:
    assert len(list(misplaced(ast.parse(source)))) == count


def test_no_message_has_a_suggestion_in_the_middle_of_a_sentence():
    found = {str(path): list(misplaced(ast.parse(path.read_text()))) for path in PACKAGE.rglob("*.py")}
    assert {path: texts for path, texts in found.items() if texts} == {}
