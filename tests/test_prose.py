"""The rules of `make prose`: each finds its example, and leaves alone what is like it."""

import ast
import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
import prose  # pyright: ignore[reportMissingImports]


@pytest.mark.parametrize("rule", prose.RULES, ids=lambda rule: rule.instead)
def test_a_rule_finds_its_example_and_leaves_its_like_alone(rule):
    (found,) = prose.problems(f"First.\n{rule.bad}.")
    assert found[0] == 1
    assert found[1].endswith(f": write {rule.instead}; {prose.WHY[rule.why]}")
    assert prose.problems(rule.good) == []


def test_a_long_sentence_of_a_page_is_found_where_it_begins():
    long = "One. " + " ".join(["word"] * (prose.MOST_WORDS + 1))
    assert prose.problems(f"# Head\n\n{long}.") == [(2, f"a sentence of {prose.MOST_WORDS + 1} words: split it")]
    assert prose.problems(f"{long}.", page=False) == []
    items = "\n".join(f"- {'word ' * 30}" for _ in range(3))
    assert prose.problems(items) == []


def test_code_and_generated_parts_of_a_page_are_not_read():
    page = "\n".join(
        [
            "`told` [those](of.md) x",
            "```python",
            "told",
            "```",
            "    told",
            "<!-- own: begin -->",
            "told",
            "<!-- own: end -->",
            "told",
        ]
    )
    ((line, problem),) = prose.problems(prose.prose(page))
    assert (line, problem[:6]) == (8, "'told'")


def test_a_notebook_is_read_in_its_markdown_cells():
    source = "# %% [markdown]\n# # Head\n#\n# It is told.\n\n# %%\n# told\ntold = 1\n"
    ((line, _),) = prose.problems(prose.prose(prose.cells(source)))
    assert line == 3


def test_messages_are_read_and_docstrings_are_not():
    tree = ast.parse(
        '"""Told."""\n\ndef f(x):\n    """Told."""\n    raise ValueError(f"{x} is told {x}", "told too")\n'
    )
    assert list(prose.messages(tree)) == [(5, "`x` is told `x`"), (5, "told too")]
    assert list(prose.documented(tree, {"f"})) == [(4, "Told.")]
    assert list(prose.documented(tree, {"g"})) == []


def test_the_docstrings_of_public_methods_are_read():
    tree = ast.parse(
        'class A:\n    """One."""\n    def b(self):\n        """Two."""\n    def _c(self):\n        """Three."""\n'
    )
    assert [text for _, text in prose.documented(tree, {"A"})] == ["One.", "Two."]


def test_the_public_names_are_those_of_the_package():
    names = prose.exported(prose.PACKAGE / "__init__.pyi")
    assert "Plan" in names[prose.PACKAGE / "api" / "stages.py"]


def test_problems_fail_with_their_place(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("Fine.\n\nThis is told.\n")
    assert prose.main([str(page)]) == 1
    assert capsys.readouterr().out == f"{os.path.relpath(page)}:3: 'told': write reported, shown; {prose.WHY['who']}\n"
    page.write_text("Fine.\n")
    assert prose.main([str(page)]) == 0
