"""`meshlab plan`: what it prints is what the plan says, and its exit status says whether that fits."""

import json
import signal
import sys

import pytest

import meshlab as ml
from meshlab.commands import searching
from meshlab.commands.saved import record
from meshlab.cost.machines.units import bytes_text, seconds_text
from tests.commands.small import Terminal, called, process, written

pytestmark = pytest.mark.share(3, of="file")

LAYOUT = "batch:data ffn:model"
ON = ("--mesh", "data=2,model=2", "--on", "v5e:2x2")


@pytest.fixture
def file(tmp_path):
    return written(tmp_path)


def planned(file, mesh, layout=None, **sizes):
    names = {}
    with open(file, encoding="utf-8") as source:
        exec(compile(source.read(), file, "exec"), names)
    program = names["program"].resize(**sizes) if sizes else names["program"]
    return program.plan(mesh, layout)


def test_a_process_prints_the_plan(file):
    done = process("plan", file, *ON, "--layout", LAYOUT)
    assert done.returncode == 0
    plan = planned(file, ml.mesh("v5e:2x2", data=2, model=2), LAYOUT)
    lines = done.stdout.splitlines()
    rows = {line.partition("  ")[0]: line.partition("  ")[2].strip() for line in lines[:30] if line[:1].strip()}
    assert rows["program"] == "step.py:program"
    assert rows["mesh"] == "data=2 × model=2, 4 devices"
    assert rows["layout"] == LAYOUT
    assert rows["machine"] == "Google TPU v5e, 2x2"
    assert rows["estimated step time"].startswith(seconds_text(plan.time.estimate))
    donated = plan.memory.donated
    assert rows["peak memory per device"] == f"{bytes_text(donated.peak_bytes)} of {bytes_text(16e9)}: it fits"
    assert rows["sent per device"] == f"{bytes_text(plan.wire_bytes)} a step"
    times = sum(c.times for c in plan.collectives)
    assert rows["collectives"] == f"{times} all-reduces"
    largest = max(plan.collectives, key=lambda c: c.wire_bytes * c.times)
    (line,) = [line for line in lines if line.endswith(str(largest.source)) and largest.value in line]
    assert line.split("  ")[-1] == f"step.py:{largest.source.line}"
    assert f"because {largest.because}" in " ".join(done.stdout.split())
    assert "printed by the file" in done.stderr
    assert "printed by the file" not in done.stdout


@pytest.mark.parametrize("given", ["fsdp", "fsdp & tensor_parallel", "tensor_parallel&fsdp"])
def test_presets_are_taken_by_their_names(file, capsys, given):
    status, out, _ = called(capsys, "plan", file, *ON, "--layout", given, "--json")
    assert status == 0
    mesh, program = ml.mesh("v5e:2x2", data=2, model=2), planned(file, ml.mesh()).program
    layout = ml.layouts.fsdp(program, mesh)
    if "tensor" in given:
        layout &= ml.layouts.tensor_parallel(program, mesh)
    assert json.loads(out)["plan"]["layout"] == planned(file, mesh, layout).layout.to_dict()


def test_a_preset_that_makes_nothing_of_a_program_says_why(file, capsys):
    status, _, err = called(capsys, "plan", file, *ON, "--layout", "expert_parallel")
    assert status == 2
    assert "expert_parallel() of `step`" in err


def test_json_is_all_of_stdout_and_what_is_saved(file, tmp_path, capsys):
    status, out, err = called(capsys, "plan", file, *ON, "--layout", LAYOUT, "--json", "--save", tmp_path / "a.json")
    assert status == 0
    assert err == "printed by the file\n"
    data = json.loads(out)
    assert data == json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    plan = planned(file, ml.mesh("v5e:2x2", data=2, model=2), LAYOUT)
    assert data == json.loads(json.dumps(record("step.py:program", plan)))
    assert data["plan"]["time"]["estimate"] == plan.time.estimate
    assert data["plan"]["time"]["because"] == plan.time.because
    assert data["donated"]["peak_bytes"] == plan.memory.donated.peak_bytes
    assert data["donated"]["because"] == plan.memory.donated.because
    assert sum(data["wire_bytes_by_axes"].values()) == plan.wire_bytes
    assert data["program"]["dims"] == dict(plan.program.dims)
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".json"] == ["a.json"]


def test_a_saved_plan_is_a_layout_too(file, tmp_path, capsys):
    layout = {"batch": "data", "params/*": {"ffn": "model"}}
    (tmp_path / "layout.json").write_text(json.dumps(layout), encoding="utf-8")
    texts = []
    texts_of_it = (json.dumps(layout), str(ml.Layout.of(layout)))
    for given in (*texts_of_it, tmp_path / "layout.json", tmp_path / "saved.json"):
        save = () if given == tmp_path / "saved.json" else ("--save", tmp_path / "saved.json")
        status, out, _ = called(capsys, "plan", file, *ON, "--layout", given, *save)
        assert status == 0
        texts.append(out)
    assert "batch:data · params/*: ffn:model" in texts[0]
    assert len(set(texts)) == 1


def test_without_a_machine_there_is_no_time_and_nothing_that_does_not_fit(file, capsys):
    status, out, _ = called(capsys, "plan", file, "--mesh", "data=2", "--json")
    data = json.loads(out)
    assert status == 0
    assert (data["machine"], data["plan"]["layout"], "time" in data["plan"]) == (None, {}, False)
    assert "fits" not in data["donated"]
    status, out, _ = called(capsys, "plan", file)
    assert status == 0
    assert "1 device\n" in out
    assert "none, so no step time is predicted; add --on v5e:1x1, say" in out
    assert "nothing is sharded" in out


def test_a_plan_that_does_not_fit_is_1(capsys):
    words = ("plan", "gpt2-xl", "--mesh", "data=4", "--on", "v5e:2x2", "--layout", "batch:data")
    status, out, _ = called(capsys, *words)
    assert status == 1
    assert "of 16.0 GB: it does not fit" in out


def test_sizes_are_those_of_the_options(file, capsys):
    status, out, _ = called(capsys, "plan", file, "--size", "batch=8,embed=16", "--size", "ffn=4", "--json")
    assert status == 0
    assert json.loads(out)["program"]["dims"] == {"ffn": 4, "embed": 16, "batch": 8}
    status, out, _ = called(capsys, "plan", "llama3-8b", "--batch", "2", "--seq", "128", "--json")
    dims = json.loads(out)["program"]["dims"]
    assert (status, dims["batch"], dims["seq"], dims["embed"]) == (0, 2, 128, 4096)
    status, out, _ = called(capsys, "plan", "gpt2_adamw", "--size", "seq=32", "--json")
    assert (status, json.loads(out)["program"]["dims"]["seq"]) == (0, 32)


def test_the_step_is_written_as_a_trace(capsys, tmp_path):
    words = ("plan", "mlp", "--mesh", "data=4", "--on", "v5e", "--layout", "batch:data")
    assert called(capsys, *words, "--trace", str(tmp_path / "step.json"))[0] == 0
    assert json.loads((tmp_path / "step.json").read_text())["otherData"]["layout"] == "batch:data"


def test_the_program_of_each_device_is_written(file, capsys, tmp_path):
    words = ("plan", file, "--mesh", "data=2,model=2", "--layout", LAYOUT)
    assert called(capsys, *words, "--code", str(tmp_path / "device.py"))[0] == 0
    assert (tmp_path / "device.py").read_text() == planned(file, ml.mesh(data=2, model=2), LAYOUT).code()
    status, _, err = called(capsys, *words, "--code", "none/device.py")
    assert (status, "--code: there is no folder `none`" in err) == (2, True)


def test_an_axis_that_is_to_be_silent_and_is_not_is_1(capsys):
    words = ("plan", "mlp", "--mesh", "data=2,model=2", "--layout", "batch:data", "--silent")
    status, out, err = called(capsys, *words, "model")
    assert (status, err) == (0, "")
    assert "all-reduce" in out
    status, _, err = called(capsys, *words, "model,data")
    assert status == 1
    assert "over `data` in a step, which must stay silent:\n  1. " in err
    assert called(capsys, *words, "modle")[0] == 2


def test_what_does_not_divide_can_be_padded(file, capsys):
    words = ("plan", file, "--mesh", "data=4", "--layout", "batch:data", "--size", "batch=7")
    status, _, err = called(capsys, *words)
    assert status == 2
    assert "`batch` has size 7, which 4 (`data`) does not divide" in err
    status, out, _ = called(capsys, *words, "--pad")
    assert status == 0
    assert "padded: batch 7 → 8" in out


def test_micro_batches_are_an_axis_in_time(file, capsys):
    words = ("--mesh", "data=2,micro=serial(4)", "--layout", "batch:data+micro", "--json")
    status, out, _ = called(capsys, "plan", file, *words)
    data = json.loads(out)
    assert (status, data["devices"], data["plan"]["mesh"]) == (0, 2, {"data": 2, "micro": {"serial": 4}})


def test_an_axis_in_time_has_its_options(file, capsys):
    words = ("--mesh", "data=2, micro=serial(4, reduce=each)", "--layout", "batch:data+micro", "--json")
    _, out, _ = called(capsys, "plan", file, *words)
    plan = json.loads(out)["plan"]
    assert plan["mesh"] == {"data": 2, "micro": {"serial": 4, "reduce": "each"}}
    assert {c["times"] for c in plan["collectives"] if c["value"].startswith("gradient")} == {4}


def test_auto_finds_the_fastest_with_its_proof(file, capsys):
    words = ("plan", file, *ON, "--size", "batch=65536,embed=1024,ffn=4096", "--auto", "time")
    status, out, err = called(capsys, *words, "--json")
    assert status == 0
    assert err == "printed by the file\n"
    data = json.loads(out)
    assert data["proof"]["objective"] == "time"
    assert data["proof"]["gap"] <= 0.01
    mesh = ml.mesh("v5e:2x2", data=2, model=2)
    plan = planned(file, mesh, data["plan"]["layout"], batch=65536, embed=1024, ffn=4096)
    assert data["proof"]["value"] == data["plan"]["time"]["estimate"] == plan.time.estimate
    status, out, _ = called(capsys, *words, "--memory", "0.5", "--seconds", "60")
    assert status == 0
    assert "proof: A device takes" in out


@pytest.mark.parametrize("memory", ["1%", "160 MB"])
def test_memory_is_a_share_or_bytes(capsys, memory):
    words = ("plan", "gpt2-xl", "--mesh", "data=4", "--on", "v5e:2x2", "--auto", "time", "--memory", memory)
    status, _, err = called(capsys, *words)
    assert (status, "found no layout that fits 160 MB of a device's memory" in err) == (1, True)


@pytest.mark.parametrize("objective", ["memory", "traffic", "live"])
def test_auto_takes_every_objective(file, capsys, objective):
    status, out, _ = called(capsys, "plan", file, "--mesh", "data=2", "--auto", objective, "--json")
    assert status == 0
    assert json.loads(out)["proof"]["objective"] == objective


def test_where_nothing_fits_is_1(capsys):
    words = ("plan", "gpt2-xl", "--mesh", "data=4", "--on", "v5e:2x2", "--auto", "time", "--memory", "0.01", "--json")
    status, out, err = called(capsys, *words)
    assert status == 1
    assert out == ""
    assert err.startswith("ml.auto.layout() found no layout that fits 160 MB of a device's memory. The least peak")


WRONG = {
    "no model": (("llama-8b",), "There is no model `llama-8b`. Did you mean `llama3-8b` or `llama3-70b`?"),
    "no size of it": (("gpt2-small", "--seq", "8"), "`gpt2-small` takes no --seq; of --batch and --seq it takes"),
    "no size and none of it": (
        ("gpt2-small", "--batch", "-1", "--seq", "0"),
        "`head`. --batch was given -1 and --seq was given 0; a size is at least 1.",
    ),
    "no size": (("llama3-8b", "--batch", "0"), "--batch was given 0; a size is at least 1."),
    "no dim": (("gpt2", "--size", "sec=8"), "`sec` is not a dim of this program. Did you mean `seq`?"),
    "no mesh": (
        ("gpt2", "--mesh", "data=2,data=4,8,model=x"),
        "--mesh cannot be read: `data` appears twice; `8` is not a NAME=SIZE; `model` has the size 'x', which is not a"
        " whole number, serial(8,reduce=once) or stages(4,schedule=1f1b). Write --mesh data=8,model=4.\n",
    ),
    "no axis": (("gpt2", "--mesh", "on=2"), "--mesh was given an axis `on`, which cannot be the name of an axis"),
    "no options in time": (
        ("gpt2", "--mesh", "micro=serial(2,reduce=once,reduce=each),data=serial(2,fold=once),x=serial(a)"),
        "`micro` has the size 'serial(2,reduce=once,reduce=each)', which is not a whole number,"
        " serial(8,reduce=once) or stages(4,schedule=1f1b); `data` has the size 'serial(2,fold=once)', which",
    ),
    "no time to reduce": (("gpt2", "--mesh", "micro=serial(2,reduce=never)"), "given reduce='never', which must be"),
    "no devices": (("gpt2", "--mesh", "data=0"), "axis `data` was given the size 0; it must be an integer of at least"),
    "no machine": (
        ("gpt2", "--mesh", "data=4", "--on", "v5z"),
        "There is no machine `v5z`. Did you mean `v5p` or `v5e`",
    ),
    "no slice": (("gpt2", "--mesh", "data=4", "--on", "v5e:2x4"), "Take `v5e:2x2`"),
    "no layout": (("gpt2", "--layout", "batch ffn"), "    batch ffn\n    ^     ^\n  1. character 1: `batch` is not a"),
    "no preset": (
        ("gpt2", "--layout", "fsbp"),
        "`fsbp` is neither a preset nor a rule such as batch:data. Did you mean `fsdp`",
    ),
    "a preset for it": (("gpt2", "--layout", "fsdp & data_paralel"), "`data_paralel` is neither a preset"),
    "no rule": (("gpt2", "--mesh", "data=2", "--layout", "batch:dat"), "has no axis `dat`. Did you mean `data`?"),
    "no JSON": (("gpt2", "--layout", "{batch"), "--layout is not valid JSON: "),
    "a dim twice": (("gpt2", "--layout", '{"batch": "data", "batch": "model"}'), "`batch` appears twice in an object."),
    "a place's dim twice": (
        ("gpt2", "--layout", '{"p/*": {"seq": "x", "seq": "y"}, "a": null}'),
        "`seq` appears twice in an object.",
    ),
    "no layout's file": (("gpt2", "--layout", "none.json"), "--layout: there is no file `none.json`."),
    "no folder": (("gpt2", "--layout", "none/a.json"), "There is no folder `none` either."),
    "no objective": (
        ("gpt2", "--auto", "tim"),
        "the objectives are `time`, `memory`, `traffic`, `live`. Did you mean `time`?",
    ),
    "no time": (
        ("gpt2", "--mesh", "data=2", "--auto", "time"),
        'was given the objective "time", which needs a mesh on a machine',
    ),
    "no share": (
        ("gpt2", *ON, "--auto", "time", "--memory", "2"),
        "cannot search: memory=2.0 is not a share of a device's",
    ),
    "no search": (
        ("gpt2", "--memory", "0.5", "--seconds", "3"),
        "meshlab plan was given --memory and --seconds without a search: add --auto time, for example.",
    ),
    "no padding": (("gpt2", "--auto", "traffic", "--pad"), "--pad with a search, which does not pad"),
    "no option": (("gpt2", "--mish=2"), "meshlab plan does not know --mish=2. Did you mean `--mesh`?"),
    "no folder to save in": (("gpt2", "--save", "none/a.json"), "--save: there is no folder `none`; create it"),
    "a trace without a machine": (("gpt2", "--trace", "a.json"), "--trace without a machine, so there are no times"),
    "a folder to save in": (
        ("gpt2", "--save", "."),
        "--save: `.` is a folder; give the name of a file: --save plan.json",
    ),
    "a folder to write code in": (
        ("gpt2", "--code", "."),
        "--code: `.` is a folder; give the name of a file: --code step.py",
    ),
}


@pytest.mark.parametrize(("words", "text"), WRONG.values(), ids=WRONG)
def test_invalid_arguments_are_2(words, text, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    status, out, err = called(capsys, "plan", *words)
    assert text in err
    assert (status, out) == (2, "")
    assert "Traceback" not in err


@pytest.mark.parametrize("option", ["--layout", "--mesh", "--batch"])
def test_options_stand_once(option, capsys):
    value = {"--layout": "batch:data", "--mesh": "data=2", "--batch": "8"}[option]
    with pytest.raises(SystemExit, match="2"):
        called(capsys, "plan", "gpt2", option, value, f"{option}={value}")
    assert f"argument {option}: it appears twice; give it once" in capsys.readouterr().err


def test_more_bytes_than_64_bits_count_do_not_fit(capsys):
    words = ("--batch", 10**12, "--mesh", "data=2", "--layout", "batch:data")
    status, out, _ = called(capsys, "plan", "gpt2-small", *words, "--on", "v5e:2x1", "--json")
    donated = json.loads(out)["donated"]
    assert (status, donated["fits"]) == (1, False)
    assert donated["peak_bytes"] > 2**63


def test_layout_and_auto_exclude_each_other(capsys):
    with pytest.raises(SystemExit, match="2"):
        called(capsys, "plan", "gpt2", "--layout", "batch:data", "--auto", "traffic")
    assert "not allowed with argument" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_2(file, tmp_path, capsys):
    path = tmp_path / ("x" * 300)
    status, out, err = called(capsys, "plan", file, "--save", path)
    assert (status, out) == (2, "")
    assert "cannot be written: File name too long." in err


def test_progress_is_shown_on_a_terminal_and_cleared(file, capsys, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    status, _, _ = called(capsys, "plan", file, *ON, "--auto", "time")
    assert status == 0
    assert ", gap " in terminal.getvalue()
    assert terminal.getvalue().endswith(searching._CLEAR)


def test_ctrl_c_stops_a_search(capsys, monkeypatch):
    terminal = Terminal(at=lambda: signal.raise_signal(signal.SIGINT))
    monkeypatch.setattr(sys, "stderr", terminal)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        status, out, _ = called(capsys, "plan", "gpt2_adamw", *ON, "--auto", "memory")
        assert signal.signal(signal.SIGINT, before) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert (status, out) == (130, "")
    assert "Stopped. The best layout so far has " in terminal.getvalue()


def test_ctrl_c_elsewhere_is_130(tmp_path):
    file = written(tmp_path, "import signal\nsignal.raise_signal(signal.SIGINT)\n")
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler);"
        " from meshlab import cli; sys.exit(cli.main(sys.argv[1:]))"
    )
    done = process("plan", file, code=code)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Stopped.\n")


def test_ctrl_c_before_anything_fits_says_so(capsys, monkeypatch):
    terminal = Terminal(at=lambda: signal.raise_signal(signal.SIGINT))
    monkeypatch.setattr(sys, "stderr", terminal)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        status, _, _ = called(capsys, "plan", "gpt2_adamw", *ON, "--auto", "time", "--memory", "1e-9")
    finally:
        signal.signal(signal.SIGINT, before)
    assert status == 130
    assert "nothing fits yet; " in terminal.getvalue()
    assert "Stopped. The search found no layout that fits." in terminal.getvalue()
