"""What is handed in wrong is refused at the border, with the thing, what was found, and what to write instead."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from meshlab.engine import argument_checks
from meshlab.engine.errors import brief, numbered, shown
from tests.given import ARRAY, MESH, PARAMS, PROGRAM, Batch, Embed, X, gone, ml, refused, step

OTHER = ml.trace(lambda y: y * 2, ml.f32[ml.Dim("heads", 4)])
PLAN = PROGRAM.plan(MESH, "batch:data")
REAL = {"w1": np.ones((16, 32), np.float32), "w2": np.ones((32, 16), np.float32)}


class Unprintable:
    def __repr__(self):
        raise RuntimeError("no text")


# Running


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: PLAN.run(REAL, "hello"), r"`x` is 'hello' \(str\), where an array of float32 and shape \(8, 16\)"),
        (lambda: PLAN.check(REAL, "hello"), r"`x` is 'hello' \(str\), where an array of float32"),
        (lambda: PLAN.run({"w1": "a", "w2": object()}, ARRAY), r"`params/w1` is 'a'.*; `params/w2` is <object"),
        (lambda: PLAN.run(REAL, Unprintable()), r"`x` is a Unprintable \(Unprintable\), where an array of float32"),
        (
            lambda: PLAN.run(REAL, gone()),
            r"`x` is deleted: an earlier call took its memory .*Pass the array that it returned",
        ),
        (lambda: PLAN.check(REAL, gone()), r"`x` is deleted: an earlier call took its memory"),
        (lambda: PLAN.run(REAL, ARRAY.tolist()), r"does not know `x/0/0`.* `x` came as lists: give arrays, np.asarray"),
        (lambda: PLAN.run(REAL | {"w3": ARRAY}, ARRAY), r"^The plan does not know `params/w3`\. Give run\(\) the same"),
        (lambda: PLAN.run({"w1": REAL["w1"], "v2": ARRAY}, ARRAY), "is missing `params/w2`.* Did you mean `params/w2`"),
        (lambda: PLAN.run(REAL, ml.tensor(ARRAY, "x", "y")), r"`x` has the dims x y, where batch embed were traced"),
        (
            lambda: PLAN.run(REAL, ml.named(ARRAY, "embed b")),
            r"`x` has the dims embed b, where batch embed were traced",
        ),
        (lambda: PLAN.run(REAL, np.ma.masked_array(ARRAY)), r"`x` is a masked array, .*: give array.filled\(value\)"),
        (lambda: PLAN.run(REAL, ARRAY, donate="yes"), r"run\(\) was given donate='yes'; it must be True or False"),
        (lambda: PLAN.run(REAL, np.full((8, 16), "a")), r"`x` has dtype <U1, where float32 was traced"),
        (lambda: jax.jit(PLAN.run)(REAL, ARRAY), r"under jax.jit.*`x` are traced.*call it outside"),
        (lambda: jax.grad(lambda x: PLAN.run(REAL, x)[0])(ARRAY), r"under jax.jit, jax.grad .* `x` is traced"),
        (lambda: jax.jit(PLAN.check)(REAL, ARRAY), r"`params/w1`, `params/w2`, `x` are traced"),
    ],
)
def test_arguments_of_a_run_that_are_none(call, message):
    refused(call, ml.RunError, message)


def test_what_may_run_runs():
    PLAN.run(REAL, ml.tensor(ARRAY, Batch, Embed), donate=np.bool_(False))
    PLAN.run(REAL, ml.named(ARRAY, "batch _"))
    renamed = PROGRAM.rename({Batch: ml.Dim("rows", 8)}).plan(MESH, "rows:data")
    assert renamed.check(REAL, ml.tensor(ARRAY, Batch, Embed)).ok
    assert renamed.check(REAL, ml.tensor(ARRAY, "rows", Embed)).ok


# Layouts


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        ({"bacth": None}, "`bacth` is not a dim of this program. Did you mean `batch`"),
        ({"bacth": ()}, "`bacth` is not a dim of this program. Did you mean `batch`"),
        ({"bacth": None, "emebd": []}, "2 problems(.|\n)*Did you mean `batch`(.|\n)*Did you mean `embed`"),
        ({"x": None}, r'`x` is not a dim of this program. It is a place, whose rules are a dict: \{"x": '),
        ({"parms": None}, r"`parms` is not a dim of this program. Did you mean `params/\*`"),
        ({"parms/*": None}, r"`parms/\*` is a place, whose rules are a dict"),
        ("params/*:data", r"`params/\*` is a place or a scope; write its rules after a colon and a space: "),
        ({"parms/*": {"embed": None}}, r"`parms/\*` matches no place of this program. Did you mean `params/\*`"),
        ({"params/*": {"emebd": None}}, r"At `params/\*`: `emebd` is not a dim of this program. Did you mean `embed`"),
        ({"params/*": {"embed": "data", Embed: "model"}}, r"at `params/\*`, `embed` appears twice"),
        ({"params/*": {"embed": "data", "embed?": "model"}}, r"at `params/\*`, `embed\?` appears twice"),
        ({ml.Dim("batch", 99): "data"}, "`batch` has size 8 in this program, and was given as a dim of size 99"),
        ({ml.Dim("batch", 99): None}, "`batch` has size 8 in this program, and was given as a dim of size 99"),
        ({"x": {ml.Dim("batch", 99): "data"}}, "At `x`: `batch` has size 8 in this program"),
        ({"batch": "data model"}, "`batch` is given 'data model', .* write several as"),
        ({"batch": " data"}, "`batch` is given ' data', which names no mesh axis"),
        ("data:batch", "`data:batch` has the mesh axis in front. Write `batch:data`: the dim first"),
        ("?:data", r"'\?' is neither a dim nor a place"),
        ({"batch??": "data"}, r"'batch\?\?' is neither a dim nor a place"),
        (" ".join(["batch:data"] * 3), "`batch` appears twice; write a dim on several axes as"),
        (ARRAY, r"A layout was given as ndarray: an array of shape \(8, 16\)"),
        (PLAN, "A layout was given as Plan: mesh"),
        (' {"batch": "data"}', r"The layout ' \{\"batch\": \"data\"\}' is JSON, .*: give json.loads\(text\)"),
    ],
)
def test_layouts_that_name_what_is_not_there(layout, message):
    refused(lambda: PROGRAM.plan(MESH, layout), ml.LayoutError, message)
    refused(lambda: PROGRAM.refusals(MESH, layout), ml.LayoutError, message)


def test_what_is_taken_off_may_be_named_and_optional():
    layout = ml.Layout.of({"batch": None, "bacth?": None, Embed: (), "params/*": {"embed": None}})
    assert layout == ml.Layout.of({"params/*": {"embed": None}})
    assert not PROGRAM.plan(MESH, layout).collectives
    assert ml.Layout.of({"batch": None}).with_rule("batch", "data") == ml.Layout.of("batch:data")
    assert ml.Layout.of({Batch: "data"}).with_rule("batch", None).sizes == ()


def test_long_layouts_are_read_in_linear_time():
    """Read in quadratic time it would be a minute."""
    count = 20_000
    layout = ml.Layout.of(" ".join(f"d{i}:data" for i in range(count)))
    assert len(layout.dim_rules) == count
    with pytest.raises(
        ml.LayoutError, match=r"has 20,000 problems:\n  1\. `d0` is not a dim(.|\n)*… and 19,980 more"
    ) as caught:
        PROGRAM.plan(MESH, layout)
    assert len(caught.value.problems) == count
    refused(lambda: ml.Layout.of(" ".join(["a"] * 50)), ml.LayoutError, r"not a `dim:axis` pair\n(.|\n)* and 30 more")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ml.Layout(dim_rules={"batch": "data"}), r"Make layouts with ml.Layout.of\(\{\"batch\": \"data\"\}\)"),
        (lambda: ml.Layout((("batch", "data"),)), "Layout was given dim_rules="),
        (lambda: ml.Layout((), (("params/*", {"embed": "data"}),)), "place_rules="),
        (lambda: ml.Layout(whole=3), r"given whole=3 and sizes=\(\); they are names of dims.* ml.Layout.of"),
        (lambda: ml.Layout(whole="batch"), "given whole='batch' and"),
        (lambda: ml.Layout(sizes=((3, "batch", 8),)), r"sizes=\(\(3, 'batch', 8\),\); they are names"),
        (lambda: ml.Layout((("a", ("x",)), ("a?", ("y",)))), r"`a` appears twice; .* `a:data\+model`"),
        (lambda: ml.Layout((), (("x", (("a", ()), ("a", ("x",)))),)), "at `x`, `a` appears twice"),
        (lambda: ml.Layout().with_rule(3, ("data",)), "3 is neither a dim nor a place"),
        (lambda: ml.Layout().with_rule("batch", 3), "`batch` is given 3, which is not an axis name"),
        (lambda: ml.Layout().with_rule("params/*", {"a": "b"}), r"with_rule\(\) was given 'params/\*' on"),
    ],
)
def test_layouts_that_are_made_wrong(call, message):
    refused(call, ml.LayoutError, message)


# Programs and plans


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: PROGRAM.plan("batch:data", MESH),
            r"plan\(\) was given 'batch:data' for its mesh; .* The mesh comes first",
        ),
        (
            lambda: PROGRAM.refusals(None),
            r"refusals\(\) was given None for its mesh; write program.refusals\(ml.mesh\(",
        ),
        (lambda: PROGRAM.plan(MESH, pad="yes"), r"plan\(\) was given pad='yes'; it must be True or False"),
        (lambda: PROGRAM.rename({"batch": 3}), r"rename\(\) was given 3 for a name; write program.rename\(\{"),
        (lambda: PROGRAM.rename(["batch"]), r"rename\(\) was given names=\['batch'\]; it must be a dict"),
        (lambda: PROGRAM.rename({"batch": "größe"}), "`größe`: a name is ASCII letters, digits and `_`"),
        (
            lambda: PROGRAM.rename({ml.Dim("batch", 9): "rows"}),
            r"rename\(\) keeps sizes: batch=9 was given, and `batch` has size 8",
        ),
        (lambda: PROGRAM.place(3), "There is no value at 3. Its places are `params/w1`"),
        (lambda: PROGRAM.value("x"), r"There is no value 'x': values are numbered 0 to .*program.place\('out/0'\)"),
        (lambda: PROGRAM.value(10**6), "There is no value 1000000: values are numbered 0 to"),
        *((lambda n=n: PROGRAM.dims_of(n), f"There is no value {n!r}: ") for n in ("x", 10**6, -1, None, True)),
        (lambda: PROGRAM.matching(None), r"None is not a glob over places; write program.matching\('params/\*'\)"),
        (lambda: PLAN.spec(3), "3 is not a value of this program: give a place, such as `params/w1`"),
        (lambda: PLAN.spec(OTHER.values[0]), "`y` of shape .* is a value of another program"),
        (lambda: PLAN.shard("x", "0"), "The mesh was given the device '0'; it must be an integer"),
        (lambda: PLAN.shard("x", 1.5), "The mesh was given the device 1.5; it must be an integer"),
        (lambda: PLAN.xla(["all"]), r"given the constraints \['all'\]; there are \"all\""),
        (
            lambda: ml.trace(step, PARAMS, X, carry={"params": "1"}),
            "`params` must come from the number of an output, not '1'",
        ),
        (
            lambda: ml.trace(step, PARAMS, X, carry=["params"]),
            r"carry=\['params'\]; it must be a dict: carry=\{\"params\": 1\}",
        ),
        (lambda: ml.trace(step, PARAMS, Batch), r"`x` is Dim.*; write a shape as ml.f32\[Batch, Embed\]"),
        (lambda: ml.trace(lambda a: a, {1: X, "b": X}), "`a` has a dict whose keys have no order .* texts alone"),
        (lambda: PLAN.run({1: X, "b": X}, X), "`params` has a dict whose keys have no order"),
        (lambda: ml.trace(lambda a: a, {"a/b": X, "a": {"b": X}}), r"two arrays at `a/a/b` \(a key that holds `/`\)"),
        (lambda: ml.auto.layout(PROGRAM, MESH, pin={"bacth": []}), "pin: `bacth` is not a dim of this program"),
        (
            lambda: ml.auto.layout(PROGRAM, MESH, pin={ml.Dim("batch", 9): "data"}),
            "pin: `batch` has size 8 in this program",
        ),
        (
            lambda: ml.auto.layout(PROGRAM, MESH, forbid={"batch": None}),
            "forbid: `batch` needs an axis: name the axis",
        ),
    ],
)
def test_what_programs_and_plans_refuse(call, message):
    refused(call, ml.MeshlabError, message)


# The helpers


def test_whole_numbers_are_no_truths_and_no_floats():
    assert [argument_checks.is_whole(value) for value in (3, np.int8(3), True, np.True_, 3.0, "3", None)] == [
        True,
        True,
    ] + 5 * [False]
    assert argument_checks.whole_number("f", "n", np.int64(3)) == 3
    refused(
        lambda: argument_checks.number("f", "x", float("nan")),
        ml.DimError,
        "f was given the x nan; it must be a number",
    )


def test_what_was_given_is_told_in_one_short_line():
    assert shown(3) == "3"
    assert shown("a\nb") == r"'a\nb'"
    assert shown("a" * 999) == f"'{'a' * 119} …"
    assert shown(list(range(999))).endswith("… (a list)")
    assert shown(ARRAY) == "an array of shape (8, 16) and dtype float32"
    assert shown(X) == "a tensor of [batch=8, embed=16]"
    assert shown(Unprintable()) == "a Unprintable"
    assert numbered(["a", "b", "c"], 2) == "  1. a\n  2. b\n  … and 1 more"


LONG, SPACED = "z" * 100_000, "a b" * 50_000


@pytest.mark.share(4)
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ml.mesh(LONG, data=2), r"no machine `z{119} …`\."),
        (lambda: ml.mesh("v5e:" + "4x" * 50_000, data=2), r"in `v5e:[4x]+ …` is an invalid shape"),
        (lambda: ml.mesh(**{SPACED: 3}), r"named 'a ba.* Write `a_ba.* …`"),
        (lambda: ml.Dim(SPACED, 3), r"Write `a_ba.* …`"),
        (lambda: ml.hardware(list(range(100_000))), r"no machine `\[0, 1, .* …`"),
        (lambda: PROGRAM.find(SPACED), r"no value at `a ba.* …`\. Its places"),
        (lambda: PROGRAM.rename({LONG: SPACED}), r"`z{119} …` is not a name .* `a ba.* …`: a name is ASCII"),
        (lambda: PROGRAM.plan(MESH, {LONG: {SPACED: "data"}}), r"At `z{119} …`: `a ba"),
        (lambda: PROGRAM.plan(MESH, {"batch": LONG}), r"no axis `z{119} …`"),
        (lambda: ml.trace(step, PARAMS, X, carry={SPACED: 0}), r"`a ba.* …` is not an argument"),
        (lambda: ml.dot(X, LONG), r"dim `z{119} …` of \[batch=8, embed=16\]"),
        (lambda: ml.named(ARRAY, {LONG: "a b"}), r"`z{119} …` matches no path"),
        (lambda: ml.mesh(**{f"k{i}": 0 for i in range(50_000)}), r"characters are left out here.*`k49999` was given"),
    ],
)
def test_what_is_long_is_told_shortly(call, message):
    with pytest.raises(ml.MeshlabError, match=f"(?s){message}") as caught:
        call()
    assert len(str(caught.value)) < 10_100


def test_what_is_shortened_is_names_alone():
    path = "/home/" + "folder/" * 30 + "file.toml"
    good = f"There's no {path}: `{'x' * 298}` isn't it. {'Prose goes on, and so does it. ' * 30}\n| a | b |\n'c'" * 3
    assert brief(good) == good
    assert brief(brief(f"`{LONG}`, '{SPACED}'")) == brief(f"`{LONG}`, '{SPACED}'")
    assert brief(f'"{LONG}') == f'"{"z" * 120} …'
    assert ml.MeshlabError().args == ()
    refused(lambda: getattr(X, LONG), AttributeError, "no attribute `z{119} …`; its array")


# What was taken in silence, and what was told in words that were of no help


def shape_of(x):
    return ml.f32[Batch]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: ml.trace(shape_of, X),
            ml.TraceError,
            r"`shape_of` .* returns f32\[batch=8\] .*return arrays alone, with",
        ),
        (
            lambda: ml.trace(lambda x: x, X, k=3),
            ml.TraceError,
            "was given k=3; its arguments are positional: bind others",
        ),
        (lambda: ml.trace(lambda x: x, X, cary={}), ml.TraceError, "Did you mean `carry`?"),
        (lambda: ml.trace(lambda x: float(x.sum()), X), ml.TraceError, "Values are unknown while .*: return them"),
        (lambda: ml.trace(lambda x: int(x.sum()), X), ml.TraceError, "Values are unknown while .*: return them"),
        (lambda: ml.trace(lambda x: f"{x.sum():.1f}", X), ml.TraceError, "read or print them outside the step"),
        (lambda: ml.trace(lambda x: jax.lax.psum(x.array, "data"), X), ml.TraceError, "Remove the collective"),
        (lambda: ml.trace(lambda x, *, k: x * k, X), ml.TraceError, "Arguments to ml.trace are positional"),
        (lambda: ml.where(X, X, X), ml.DimError, "where was given a tensor of .*; the condition must be bool"),
        (lambda: ml.tag(X, "out/0"), ml.DimError, "tag was given the name 'out/0'; `out/` is for outputs"),
        (lambda: ml.normalize(X, epsilon=-1), ml.DimError, "normalize was given the epsilon -1; it must be 0 or more"),
        (lambda: ml.mesh(data=10**30), ml.MeshError, "it would have more than 2,147,483,647 devices"),
        (lambda: ml.f32(Batch), ml.DimError, r"write dims in brackets: ml.f32\[Batch\]"),
        (lambda: ml.dropout(X, jax.random.key(0), 0.1), ml.DimError, "for a key; the first argument is a key"),
        (lambda: ml.categorical(X, jax.random.key(0), Embed), ml.DimError, "for a key; the first argument is a key"),
        (
            lambda: ml.scan(lambda c: c, 0.0, X, "batch"),
            ml.DimError,
            r"a function of \(c\), and calls it with 2 arguments",
        ),
        (lambda: ml.vmap(lambda a, b: a, "batch")(X), ml.DimError, r"of \(a, b\), and calls it with 1 argument: what"),
        (
            lambda: ml.scan(lambda c, x: (c.astype(ml.bf16), None), X.sum("batch"), X, "batch"),
            ml.DimError,
            "carry of float32 and returned bfloat16; the dtype of a carry must stay the same",
        ),
        (lambda: ml.checkpoint(lambda x: "a")(X), ml.DimError, "checkpoint's result was given 'a'"),
        (lambda: X.rename({"a": "b"}), ml.DimError, r"rename was given {'a': 'b'}; write x.rename\(seq="),
        (lambda: PROGRAM.rename(a="b"), ml.DimError, r'was given a=\'b\'; .*program.rename\({"a": "b"}\)'),
        (lambda: X.sum("batch embed"), ml.DimError, "Dims are given one by one: 'batch', 'embed'"),
        (lambda: X.sum(["batch", "embed"]), ml.DimError, "dims are given one by one, by name"),
        (lambda: ml.named(np.ones((4, 4)), "a a"), ml.DimError, 'for a square weight, leave one axis unnamed: "a _"'),
        (lambda: PROGRAM.plan(MESH, {"params": {"w1": {"a": "b"}}}), ml.LayoutError, 'in one text: "params/w1"'),
        (
            lambda: PROGRAM.plan(MESH, "batch:data?"),
            ml.LayoutError,
            "put the `[?]` after the optional dim",
        ),
        (lambda: PROGRAM.plan(MESH, "batch\uff1adata"), ml.LayoutError, "write an ASCII `:`"),
        (lambda: PROGRAM.plan(MESH, "batch:data", pad=None), ml.MeshlabError, "pad=None; it must be True or False"),
        (lambda: PLAN.run(REAL, ARRAY.astype(np.int32)), ml.RunError, "`x` has dtype int32, where float32 was traced"),
        (lambda: float(X), ml.DimError, "is not a single number. Sum its dims away"),
        (lambda: len(X), ml.DimError, "has no length; ask a dim for its size: Batch.size"),
        (lambda: X.reshape(3), ml.DimError, "not positions: `.reshape` is written ml.merge"),
        (lambda: X.T, AttributeError, "not positions: `.T` is not needed"),
        (
            lambda: X.nothing,
            AttributeError,
            "A tensor has no attribute `nothing`; its array, without names, is `.array`",
        ),
        (lambda: ml.float32, AttributeError, "no attribute 'float32'. Did you mean `f32`?"),
        (lambda: ml.sweeep, AttributeError, "no attribute 'sweeep'. Did you mean `sweep`?"),
        (lambda: ml.F32, AttributeError, r"no attribute 'F32'. Did you mean `f32`\?$"),
        (lambda: ml.layout, AttributeError, "Did you mean `Layout` or `auto.layout`?"),
        (lambda: ml.zeros, AttributeError, r"Write ml.tensor\(jnp.zeros\(\(2, 3\)\), \"a\", \"b\"\)"),
    ],
)
def test_what_is_wrong_is_told_with_the_fix(call, error, message):
    refused(call, error, message)


def test_a_name_that_meets_another_is_told_with_all_places_where_it_was_given():
    square = np.ones((8, 8), np.float32)
    one, other = ml.named(square, "batch hidden"), ml.named(square, "hidden batch")
    message = r"`batch` \(named at argument `a` and argument `b`\).*with ml.named, write `_` for the axis without"
    refused(lambda: ml.trace(lambda a, b: a + b, one, other), ml.TraceError, message)


def test_integers_come_as_they_are_or_not_at_all():
    plan = ml.trace(lambda x: x + 1, ml.i32[Batch]).plan(MESH, "batch:data")
    assert plan.run(np.arange(8)).array.tolist() == list(range(1, 9))
    refused(lambda: plan.run(np.full(8, 2**40)), ml.RunError, "`x` holds 1,099,511,627,776, which int32 cannot hold")
    refused(lambda: plan.run(np.full(8, -(2**40))), ml.RunError, "`x` holds -1,099,511,627,776, which int32")


def test_a_carry_that_began_as_a_number_takes_the_dtype_of_what_is_added():
    assert ml.scan(lambda c, x: (c + x.sum(), None), 0.0, X.astype(ml.bf16), "batch")[0].dtype == jnp.bfloat16


def test_what_is_padded_is_said():
    plan = ml.trace(lambda x: x * 2, ml.f32[Batch]).plan(ml.mesh(data=3), "batch:data", pad=True)
    message = "padded: batch 8 → 9, wherever sharded; results are exact."
    assert plan.explain().warnings == (message,)
    assert message in repr(plan)
    assert json.loads(plan.to_json())["padded"] == {"batch": 9}
    assert json.loads(PLAN.to_json())["padded"] == {}


@pytest.mark.parametrize("devices", [3, 8])
def test_a_merged_axis_that_is_not_padded_says_so(devices):
    program = ml.trace(lambda a: jnp.sum(a, 1), ml.named(np.ones((8, 12), np.float32), "batch (heads=4 head)"))
    (message,) = program.plan(ml.mesh(model=devices), "heads:model", pad=True).explain().warnings
    assert message.startswith("⚠ The axis `heads*head` of `a` is not sharded over all of `model`: the devices")
    assert program.plan(ml.mesh(model=2), "heads:model", pad=True).explain().warnings == ()


def test_what_a_function_says_of_where_values_lie_is_not_followed_and_said():
    here = jax.sharding.SingleDeviceSharding(jax.devices()[0])

    def placed(x):
        y = jax.lax.with_sharding_constraint(x * 2, here)
        return jax.jit(lambda z: z + 1, in_shardings=here)(y)

    (message,) = ml.trace(placed, np.ones(8, np.float32)).plan(MESH).explain().warnings
    assert message.startswith("⚠ A plan follows its layout, and ignores shardings in the function: `sharding_con")
    assert "`jit` at test_argument_checks.py:" in message


def test_a_made_up_name_of_one_or_none_is_nobodys():
    assert [ml.trace(lambda a: a @ a.T, ml.named(np.ones((n, 3)), "seq b")).made_up for n in (0, 1)] == [{}, {}]
