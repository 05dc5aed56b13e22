"""Readers' copies of the notebooks: renewed while unread, never overwritten once edited."""

import json

import nbformat
import pytest

from meshlab import workbooks

FIRST = "# %% [markdown]\n# # One\n\n# %%\n1 + 1\n"
SECOND = "# %% [markdown]\n# # Two\n\n# %%\n2 + 2\n"


@pytest.fixture
def project(tmp_path, monkeypatch):
    source = tmp_path / "project" / "00_first.py"
    source.parent.mkdir()
    source.write_text(FIRST)
    monkeypatch.setattr(workbooks, "sources", lambda: {"00_first": source})
    return source


@pytest.fixture
def copy(tmp_path):
    return tmp_path / "mine" / "00_first.ipynb"


def edit(copy, text):
    notebook = json.loads(copy.read_text())
    notebook["cells"][1]["source"] = text
    copy.write_text(json.dumps(notebook))


def test_the_projects_notebooks_are_found_and_convert_to_valid_notebooks():
    assert "00_start" in workbooks.sources()
    for source in workbooks.sources().values():
        nbformat.validate(nbformat.from_dict(workbooks.convert(source)))


def test_a_copy_is_written_once(project, copy):
    assert workbooks.refresh(copy.parent) == [f"{copy}: new"]
    before = copy.read_bytes()
    assert workbooks.refresh(copy.parent) == []
    assert copy.read_bytes() == before


def test_running_does_not_make_a_copy_the_readers_own(project, copy):
    workbooks.refresh(copy.parent)
    notebook = json.loads(copy.read_text())
    notebook["cells"][1]["execution_count"] = 1
    notebook["cells"][1]["outputs"] = [{"output_type": "stream", "name": "stdout", "text": ["2"]}]
    copy.write_text(json.dumps(notebook))
    assert workbooks.refresh(copy.parent) == []
    project.write_text(SECOND)
    assert workbooks.refresh(copy.parent) == [
        f"{copy}: updated, since the project's notebook has changed and yours had not"
    ]
    assert "2 + 2" in copy.read_text()


def test_an_edited_copy_is_kept_whatever_happens(project, copy):
    workbooks.refresh(copy.parent)
    edit(copy, "mine")
    edited = copy.read_bytes()
    assert workbooks.refresh(copy.parent) == [f"{copy}: yours, with your changes"]
    project.write_text(SECOND)
    assert "rename or delete yours to get the new one" in workbooks.refresh(copy.parent)[0]
    assert copy.read_bytes() == edited


def test_jupyterlabs_way_of_saving_is_not_an_edit(project, copy):
    workbooks.refresh(copy.parent)
    notebook = json.loads(copy.read_text())
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"]).splitlines(keepends=True)
    copy.write_text(json.dumps(notebook, indent=1))
    assert workbooks.refresh(copy.parent) == []


@pytest.mark.parametrize("text", ["", "{}", '{"cells": [1]}', "\N{PILE OF POO}"])
def test_a_copy_that_cannot_be_read_is_said_and_kept(project, copy, text):
    copy.parent.mkdir()
    copy.write_text(text, encoding="utf-8")
    with pytest.raises(workbooks.WorkbookError, match="not a notebook that can be read .*Rename or delete it"):
        workbooks.refresh(copy.parent)
    assert copy.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("name", ["00_first", "00_first.ipynb", "notebooks/00_first.py"])
def test_pick_takes_a_name_with_or_without_its_ending(project, name):
    assert workbooks.pick(name) == "00_first"


def test_pick_suggests_the_name_that_was_meant(project):
    with pytest.raises(workbooks.WorkbookError, match="no notebook `first`. Did you mean `00_first`"):
        workbooks.pick("first")


def test_an_install_without_notebooks_says_where_it_looked(monkeypatch, tmp_path):
    monkeypatch.setattr(workbooks, "_PACKAGE", tmp_path / "meshlab")
    with pytest.raises(workbooks.WorkbookError, match=r"No notebooks were found .*\(a wheel\).*\(a clone\)"):
        workbooks.sources()


def test_a_wheels_notebooks_come_first(monkeypatch, tmp_path):
    inside = tmp_path / "meshlab" / "notebooks"
    beside = tmp_path / "notebooks"
    for folder in (inside, beside):
        folder.mkdir(parents=True)
        (folder / "00_start.py").write_text(FIRST)
    monkeypatch.setattr(workbooks, "_PACKAGE", tmp_path / "meshlab")
    assert workbooks.sources() == {"00_start": inside / "00_start.py"}
