"""An axis of stages is one of devices with a schedule, which is saved, read and written with it."""

import json
from typing import Any

import pytest

import meshlab as ml
from meshlab.commands.words import mesh_of
from meshlab.engine.axes.stages import Stages

ORDER: Any = [[[("F", 0)], [("B", 0)]], [[("F", 0)], [("B", 0)]]]
OWN = ml.Schedule("mine", ORDER)
SIZES = [
    ml.stages(4),
    ml.stages(4, "gpipe"),
    ml.stages(4, schedule="interleaved", chunks=3),
    ml.stages(4, ml.Schedule.of("zb-v", stages=4, micro=8)),
    ml.stages(2, OWN),
    ml.stages(4, layers=(3, 4, 4, 3)),
    ml.stages(4, "1f1b", layers=(1, 2, 2, 1)),
]


def test_its_stages_are_devices():
    mesh = ml.mesh("v5e:2x4", data=2, pipe=ml.stages(4), micro=ml.serial(8))
    assert mesh.size == 8
    assert mesh.devices.axes == {"data": 2, "pipe": 4}
    assert [*mesh.in_time] == ["micro"]
    assert str(mesh.devices) == "data=2 × pipe=stages(4) on Google TPU v5e, 2x4"


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_a_mesh_is_made_again_of_its_data(size):
    mesh = ml.mesh(data=2, pipe=size, micro=ml.serial(8))
    assert ml.mesh(**json.loads(json.dumps(mesh.to_dict()))) == mesh
    assert mesh != ml.mesh(data=2, pipe=size.size, micro=ml.serial(8))


def test_it_is_written_as_in_python():
    assert [str(size) for size in SIZES[:3]] == [
        "stages(4)",
        'stages(4, schedule="gpipe")',
        'stages(4, schedule="interleaved", chunks=3)',
    ]
    mesh = ml.mesh(data=2, pipe=SIZES[2], micro=ml.serial(8))
    assert mesh.sources == 'data=2, pipe=ml.stages(4, schedule="interleaved", chunks=3), micro=ml.serial(8)'
    assert mesh_of("data=2,pipe=stages(4,schedule=interleaved,chunks=3),micro=serial(8)", None) == mesh
    assert str(SIZES[5]) == "stages(4, layers=(3, 4, 4, 3))"
    mesh = ml.mesh(pipe=SIZES[6], micro=ml.serial(8))
    assert mesh_of("pipe=stages(4,schedule=1f1b,layers=1+2+2+1),micro=serial(8)", None) == mesh


def test_it_says_how_many_layers_its_stages_have():
    uneven = SIZES[5]
    assert uneven.in_words.endswith("from stage to stage. These have 3, 4, 4 and 3 layers.")
    for even in (ml.stages(4), ml.stages(4, layers=(2, 2, 2, 2))):
        assert (even.in_words, even.counts, even.uneven) == (Stages.meaning, "", ())
    assert uneven.resized(4) == uneven
    assert uneven.resized(2) == ml.stages(2)


def test_its_schedule_is_made_for_a_number_of_micro_batches():
    assert ml.stages(4).order(8) == ml.Schedule.of("paired", stages=4, micro=8)
    assert ml.stages(4, "interleaved", 3).order(8) == ml.Schedule.of("interleaved", 4, 8, chunks=3)
    assert Stages(2, OWN).order(1) is OWN
    with pytest.raises(ml.MeshError, match="mine has 1 micro-batches, and there are 8"):
        Stages(2, OWN).order(8)
    with pytest.raises(ml.MeshError, match="interleaved was given micro=6, which must be a multiple of its 4 stages"):
        ml.stages(4, "interleaved").order(6)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((0,), r"ml.stages\(\) was given the size 0, which must be an integer of at least 1. Write ml.stages\(8\)"),
        ((4, "1f1bb"), r"schedule='1f1bb', which must be one of `paired`, .*, or an ml.Schedule \(.*`1f1b`"),
        ((4, 7), "schedule=7, which must be one of"),
        ((4, "1f1b", 2), "chunks=2, where 1f1b has 1 for each stage"),
        ((4, "interleaved", 0), "chunks=0, which must be an integer of at least 1"),
        ((4, OWN), "a schedule of 2 stages, which must have 4"),
        ((2, OWN, 2), "chunks=2, where the schedule has 1"),
        ((0, "gpip"), "the size 0, .* and schedule='gpip'"),
        ((4, None, None, (3, 4, 3)), r"layers=\(3, 4, 3\), which has 3 numbers for 4 stages"),
        ((2, None, None, (3, 0)), r"layers=\(3, 0\), which must have an integer of at least 1 for each stage"),
        ((2, None, None, 3), "layers=3, which must have an integer of at least 1 for each stage"),
        ((0, "gpip", None, (1, "2")), r"the size 0, .* and schedule='gpip'.* and layers=\(1, '2'\), which must"),
        (
            (2, "interleaved", None, (3, 4)),
            r"layers=\(3, 4\) and 2 chunks for each stage, which must all have the same number of layers",
        ),
    ],
)
def test_what_is_no_axis_of_stages_is_refused(given, message):
    with pytest.raises(ml.MeshError, match=message):
        ml.stages(*given)


@pytest.mark.parametrize(
    "size", [{"stages": 0}, {"stages": 4, "schedule": {"name": "x", "csv": "F"}}, {"stages": 4, "x": 1}]
)
def test_data_of_no_axis_of_stages_are_refused(size):
    told = r'an axis of stages has \{"stages": 8\}, and "schedule" and "chunks" and "layers"'
    with pytest.raises(ml.MeshError, match=told):
        ml.mesh(pipe=size)
