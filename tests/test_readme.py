"""What README.md prints works as printed, and what it points to is there."""

import re
from collections import Counter
from pathlib import Path

import pytest

from meshlab.models.basic import mlp
from meshlab.models.zoo import draw

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


@pytest.fixture(scope="module")
def after_the_program():
    names = {}
    exec(compile(BLOCKS[0], "README.md", "exec"), names)
    return names


def test_the_model_works_as_printed(after_the_program):
    sent = Counter()
    for each in after_the_program["plan"].collectives:
        sent[each.kind, each.axes] += each.payload_bytes * each.times
    assert sent == {("all-reduce", ("model",)): 2_000, ("all-reduce", ("data",)): 1_626_112 + 4}
    assert "README.md:6" in str(after_the_program["plan"].explain())


def test_what_follows_them_works_too(after_the_program):
    images, labels = draw(mlp.inputs(mlp.Config()), seed=0)
    real_params = draw(after_the_program["params"], seed=1)
    names = {**after_the_program, "real_params": real_params, "images": images, "labels": labels}
    for line in BLOCKS[1].splitlines():
        exec(compile(line, "README.md", "exec"), names)
    assert set(names["params"]) == {"w1", "w2"}


def test_it_is_short():
    """What it is, two commands, fifteen lines of code, where to go next; all else is a page."""
    assert len(TEXT.splitlines()) <= 150
    assert len([line for line in BLOCKS[0].splitlines() if line.strip()]) <= 15


def test_local_links_lead_somewhere():
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", TEXT)
    assert links
    for link in links:
        assert (ROOT / link).exists(), link
