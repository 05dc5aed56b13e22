"""`meshlab diff`: its exit status says whether the second plan is worse, and its lines say in what."""

import json

import pytest

from meshlab.commands.plan_diff import CHANGED, GONE, NEW, changes
from meshlab.commands.saved import Sent, saved_of
from meshlab.cost.machines.units import bytes_text
from tests.commands.small import called, process, written

pytestmark = pytest.mark.share(2, of="file")

ON = ("--mesh", "data=4", "--on", "v5e:2x2")
SHARDED = '{"batch": "data", "params/*": {"ffn": "data"}}'
BIG = ("--size", "batch=4096,embed=1024,ffn=4096")


@pytest.fixture
def plans(tmp_path, capsys):
    """Saves plans of one program, by the words of each; returns the files."""
    file = written(tmp_path)

    def saved(*words, program=file):
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
        called(capsys, "plan", program, *words, "--save", path)
        return path

    return saved


def test_a_plan_is_no_worse_than_itself(plans, capsys):
    path = plans(*ON, "--layout", "batch:data")
    status, out, err = called(capsys, "diff", path, path)
    assert (status, err) == (0, "")
    assert "All collectives are the same." in out
    assert out.endswith("B is no worse than A, to within 1%.\n")


def test_a_serial_axis_is_written_as_in_a_command(plans, capsys):
    path = plans("--mesh", "data=4,micro=serial(2)", "--layout", "batch:data+micro")
    _, out, _ = called(capsys, "diff", path, path)
    assert "on data=4 × micro=serial(2): batch:data+micro\n" in out


def test_a_process_finds_a_rule_that_was_dropped(plans):
    """Parameters are stored whole again: nothing is gathered any more, and each device holds all of them."""
    before, after = plans(*ON, *BIG, "--layout", SHARDED), plans(*ON, *BIG, "--layout", "batch:data")
    done = process("diff", before, after)
    assert (done.returncode, done.stderr) == (1, "")
    old, new = (json.loads(path.read_text(encoding="utf-8")) for path in (before, after))
    assert new["donated"]["peak_bytes"] > 1.01 * old["donated"]["peak_bytes"]
    assert "\n  peak memory per device: 58.7 MB → 83.9 MB (+42.9%)\n" in done.stdout.partition("B is worse than A:")[2]
    assert bytes_text(old["donated"]["peak_bytes"]) == "58.7 MB"
    gathered = [c for c in old["plan"]["collectives"] if c["kind"] == "all-gather"]
    assert {c["value"] for c in gathered} == {"params/up", "params/down"}
    assert "gone     all-gather of " in done.stdout
    assert "changed  reduce-scatter of " in done.stdout


def test_a_new_all_gather_is_told_with_its_bytes_and_line(plans, capsys):
    before, after = plans(*ON, *BIG, "--layout", "batch:data"), plans(*ON, *BIG, "--layout", SHARDED)
    status, out, _ = called(capsys, "diff", before, after)
    assert "  new      all-gather of 12.6 MB over data for params/down (step.py:11)" in out
    collectives = json.loads(after.read_text(encoding="utf-8"))["plan"]["collectives"]
    (down,) = [c for c in collectives if (c["kind"], c["value"]) == ("all-gather", "params/down")]
    assert down["wire_bytes"] == 3 / 4 * 1024 * 4096 * 4 == 12_582_912
    assert down["source"] == "step.py:11"
    assert status == 0
    assert out.count("B is no worse than A") == 1


def test_bytes_that_grow_are_worse_up_to_the_tolerance(plans, capsys):
    before, after = plans("--mesh", "data=4", *BIG), plans("--mesh", "data=4", *BIG, "--layout", SHARDED)
    status, out, _ = called(capsys, "diff", before, after)
    assert status == 1
    assert "  sent per device: 0 B → " in out
    assert "estimated step time not known not known" in " ".join(out.split())
    status, _, _ = called(capsys, "diff", after, before, "--tolerance", "100")
    assert status == 0


def test_a_plan_that_does_not_fit_is_worse(tmp_path, capsys):
    small, large = tmp_path / "small.json", tmp_path / "large.json"
    common = ("plan", "gpt2-xl", "--batch", "4", "--mesh", "data=4")
    assert called(capsys, *common, "--on", "h100:1x4", "--save", small)[0] == 0
    assert called(capsys, *common, "--on", "v5e:2x2", "--save", large)[0] == 1
    status, out, _ = called(capsys, "diff", small, large, "--tolerance", "1000")
    assert status == 1
    assert "B is worse than A:\n  the peak of " in out
    assert "does not fit a device, which holds 16.0 GB" in out
    assert called(capsys, "diff", large, small, "--tolerance", "1000")[0] == 0


def test_json_has_all_that_differs(plans, capsys):
    before, after = plans(*ON, *BIG, "--layout", SHARDED), plans(*ON, *BIG, "--layout", "batch:data")
    status, out, err = called(capsys, "diff", before, after, "--json")
    data = json.loads(out)
    assert (status, err) == (1, "")
    plan = json.loads(after.read_text(encoding="utf-8"))
    assert data["figures"]["estimated step time"]["after"] == plan["plan"]["time"]["estimate"]
    assert data["figures"]["over data"]["after"] == plan["plan"]["wire_bytes"]
    assert {change["what"] for change in data["changes"]} == {"changed", "gone"}
    assert data["fits"] is True
    assert [text.partition(":")[0] for text in data["regressions"]] == ["estimated step time", "peak memory per device"]


def test_plans_of_other_programs_dims_or_times_are_not_compared(plans, tmp_path, capsys):
    here = plans(*ON)
    other = plans("--mesh", "data=2", "--size", "seq=32", program="gpt2")
    status, out, err = called(capsys, "diff", here, other)
    assert (status, out) == (2, "")
    assert "they are of different programs: `step.py:program` and `gpt2`; their dims differ: " in err
    assert "`ffn` is 128 and 64" in err
    assert "`vocab` is not there and 64" in err
    assert "the second has no time (it was planned on no machine: give --on). Plan both alike" in err
    status, _, err = called(capsys, "diff", plans("--mesh", "data=2"), here)
    assert status == 2
    assert "the first has no time (it was planned on no machine" in err


def _damaged(data):
    del data["plan"]["collectives"]


def _renamed(data):
    data["format"] = "something else"


def _newer(data):
    data["version"] = 2


def _bent(data):
    data["program"]["dims"] = {"batch": "many"}


def _put(*path, value):
    """Returns a function that puts a value in a saved plan's place."""

    def put(data):
        *way, last = path
        for name in way:
            data = data[name]
        assert last in data if isinstance(data, dict) else len(data) > last
        data[last] = value

    return put


FIRST = ("plan", "collectives", 0)
BENT = {
    "dims": (_put(*FIRST, "dims", value=[[]]), "Expected `str`, got `array` - at `$.plan.collectives[0].dims[0]`"),
    "axis": (_put(*FIRST, "axes", value=[3]), "Expected `str`, got `int` - at `$.plan.collectives[0].axes[0]`"),
    "axes": (_put(*FIRST, "axes", value="data"), "Expected `array`, got `str` - at `$.plan.collectives[0].axes`"),
    "times": (
        _put(*FIRST, "times", value=float("inf")),
        "got `float` - at `$.plan.collectives[0].times`",
    ),
    "no collective": (_put(*FIRST, value=None), "Expected `object`, got `null` - at `$.plan.collectives[0]`"),
    "mesh": (_put("plan", "mesh", value={"data": {}}), "`data` of its mesh is {}, which is not a size"),
    "fits": (_put("donated", "fits", value="x"), "Expected `bool | null`, got `str` - at `$.donated.fits`"),
    "peak": (_put("donated", "peak_bytes", value=True), "Expected `int`, got `bool` - at `$.donated.peak_bytes`"),
    "huge": (
        _put("donated", "peak_bytes", value=10**400),
        "<= 9223372036854775807 - at `$.donated.peak_bytes`",
    ),
    "seconds": (_put("plan", "time", "estimate", value=10**400), "Number out of range - at `$.plan.time.estimate`"),
    "no number": (
        _put("plan", "wire_bytes", value=float("nan")),
        ">= -1e+30 - at `$.plan.wire_bytes`",
    ),
    "no plan": (_put("plan", value=[]), "Expected `object`, got `array` - at `$.plan`"),
    "no layout": (
        lambda data: data["plan"].pop("layout"),
        "missing required field `layout` - at `$.plan`.",
    ),
    "true": (_put("version", value=True), "was saved as version True"),
    "99": (_put("version", value=99), "was saved as version 99, by meshlab"),
    "none": (lambda data: data.pop("version"), "was saved as version None, by meshlab"),
}


@pytest.mark.parametrize(("change", "text"), BENT.values(), ids=BENT)
def test_a_plan_that_is_bent_is_2_where_it_is_compared_and_where_it_is_a_layout(change, text, plans, capsys):
    path, bent = plans(*ON, "--layout", "batch:data"), plans(*ON, "--layout", "batch:data")
    data = json.loads(bent.read_text(encoding="utf-8"))
    change(data)
    bent.write_text(json.dumps(data), encoding="utf-8")
    for words in (("diff", path, bent), ("plan", "mlp_adamw", *ON, "--layout", bent)):
        status, out, err = called(capsys, *words)
        assert (status, out) == (2, "")
        assert text in err


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            _damaged,
            "missing required field `collectives` - at `$.plan`. Save it again: meshlab plan",
        ),
        (_bent, "is damaged: Expected `int`, got `str` - at `$.program.dims[...]`"),
        (_renamed, "is not a saved plan, but a dict with 'format', 'version', 'meshlab', 'program', 'machine'"),
        (_newer, "was saved as version 2, by meshlab 0.1.0; this one reads version 1."),
    ],
    ids=["damaged", "bent", "renamed", "newer"],
)
def test_files_that_cannot_be_used_are_2(change, text, plans, capsys):
    path = plans(*ON)
    data = json.loads(path.read_text(encoding="utf-8"))
    change(data)
    path.write_text(json.dumps(data), encoding="utf-8")
    status, out, err = called(capsys, "diff", path, path)
    assert (status, out) == (2, "")
    assert text in err


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"{", "is not valid JSON: "),
        (b"[1]", "is not a saved plan, but a list; "),
        (b"\xff\xfe", "cannot be read: 'utf-8' codec can't decode"),
        (None, "there is no file `"),
    ],
    ids=["no JSON", "a list", "no text", "nothing"],
)
def test_files_that_are_no_plan_are_2(content, text, plans, tmp_path, capsys):
    path, none = plans(*ON), tmp_path / "b.json"
    if content is not None:
        none.write_bytes(content)
    status, out, err = called(capsys, "diff", path, none)
    assert (status, out) == (2, "")
    assert text in err


@pytest.mark.parametrize("tolerance", ["nan", "-1", "inf"])
def test_all_problems_are_told_at_once(tolerance, tmp_path, capsys):
    status, _, err = called(capsys, "diff", tmp_path / "a", tmp_path / "b", f"--tolerance={tolerance}")
    assert status == 2
    assert f"1. --tolerance was given {float(tolerance)}, which is not a share: give 0.01, say" in err
    assert "2. meshlab diff: there is no file" in err
    assert "3. meshlab diff: there is no file" in err


def _sent(*, kind="all-reduce", axes="data", value="w", source="f.py:1", payload=8, times=1):
    return Sent(kind, tuple(axes.split("+")), value, ("a",), source, payload, 2.0 * payload, times)


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        ([_sent()], [_sent()], []),
        ([_sent()], [_sent(source="f.py:9")], []),
        ([_sent()], [], [GONE]),
        ([], [_sent()], [NEW]),
        ([_sent()], [_sent(times=2)], [CHANGED]),
        ([_sent()], [_sent(payload=9)], [CHANGED]),
        ([_sent()], [_sent(axes="model")], [CHANGED]),
        ([_sent()], [_sent(kind="reduce-scatter")], [CHANGED]),
        ([_sent()], [_sent(value="v")], [CHANGED]),
        ([_sent()], [_sent(value="v", source="f.py:9")], [GONE, NEW]),
        ([_sent()], [_sent(kind="reduce-scatter"), _sent(kind="all-gather", payload=4)], [CHANGED, NEW]),
        ([_sent(), _sent(payload=4)], [_sent(payload=12)], [CHANGED]),
        ([_sent(), _sent()], [_sent(times=2)], []),
    ],
)
def test_collectives_are_known_again(before, after, what):
    found = changes(before, after)
    assert [change.what for change in found] == what
    assert changes(after, before)[: len(what)] or not what
    assert [c.size for c in found] == sorted((c.size for c in found), reverse=True)


def test_what_is_read_is_what_was_saved(plans):
    path = plans(*ON, "--layout", SHARDED)
    data = json.loads(path.read_text(encoding="utf-8"))
    saved = saved_of(data, str(path))
    assert saved.seconds == data["plan"]["time"]["estimate"]
    assert (saved.machine, saved.costs.mesh) == ("Google TPU v5e, 2x2", {"data": 4})
    assert saved.costs.wire_bytes == sum(each.wire_bytes * each.times for each in saved.costs.collectives)
    assert (saved.peak.fits, saved.peak.limit_bytes) == (True, 16_000_000_000)
