"""`meshlab models` lists what `meshlab plan` knows by name."""

import json
import os
import sys

import pytest

from meshlab.models.published import published
from meshlab.models.zoo import imported_models, models
from meshlab.opening import named_models
from tests.commands.small import called, process

pytestmark = pytest.mark.share(2, of="file")


def test_a_process_lists_them():
    done = process("models")
    assert (done.returncode, done.stderr) == (0, "")
    rows = {line.split()[0]: line.split()[1:] for line in done.stdout.splitlines() if line}
    assert rows["llama3-8b"][:3] == ["8,030,261,248", "batch=8", "seq=8192"]
    assert rows["gpt2_adamw"][:3] == ["7,872", "batch=8", "seq=16"]


def test_json_has_all_of_them(capsys):
    status, out, _ = called(capsys, "models", "--json")
    assert status == 0
    every = json.loads(out)
    names = [model["name"] for model in every]
    assert names == [*published(), *(model.name for model in (*models(), *imported_models()))]
    assert len(set(names)) == len(names)
    by_name = {model["name"]: model for model in every}
    assert by_name["mamba-2.8b"]["parameters"] == 2_768_345_600
    assert by_name["llama3-70b"]["options"] == ["--batch", "--seq"]
    assert by_name["linen_encoder"]["dims"]["heads"] == 4
    assert [model["published"] for model in every] == [name in published() for name in names]


def test_dims_are_those_of_the_program():
    known = named_models.named_models()
    for name in ("gpt2_adamw", "convnet", "equinox_decoder"):
        assert known[name].dims.items() <= known[name].trace().dims.items()


def test_options_that_are_none_are_refused(capsys):
    status, out, err = called(capsys, "models", "--jsn")
    assert (status, out) == (2, "")
    assert (
        err == "meshlab models does not know --jsn. Did you mean `--json`? `meshlab models --help` lists its options.\n"
    )


@pytest.mark.parametrize("words", [("models",), ("plan", "llama3-8b")])
def test_without_optax_they_say_what_is_missing(words, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "optax", None)
    status, out, err = called(capsys, *words)
    assert (status, out) == (2, "")
    assert err.startswith("The named models need optax, which this Python does not have. Install")


def test_without_flax_the_others_are_there():
    done = process(
        code="import sys; sys.modules['flax'] = None; from meshlab import cli; sys.exit(cli.main(['models']))"
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "llama3-8b" in done.stdout
    assert "linen_encoder" not in done.stdout


def test_whoever_reads_may_end_early():
    code = (
        "import os, sys; read, write = os.pipe(); os.close(read); os.dup2(write, 1);"
        " from meshlab import cli; sys.exit(cli.main(['models']))"
    )
    done = process(code=code)
    assert done.returncode == 1
    assert done.stderr == ""
    assert os.linesep not in done.stdout
