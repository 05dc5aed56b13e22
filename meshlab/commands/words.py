"""Reads the words of options: meshes, sizes, layouts; every problem of one option is in its error.

mesh_of("data=8,model=4", "v5p:4x4x2")
simulate_as_asked(8)                       of `--simulate 8`
sizes_of(["batch=64,seq=128"])
layout_of("batch:data ffn:model")          or presets, "fsdp & tensor_parallel", or a JSON file: a layout, a saved plan
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..cost.machines.meshes import mesh
from ..engine.axes.axis import Axis
from ..engine.axes.axis_kinds import KINDS
from ..engine.devices import LIMIT, simulate
from ..engine.errors import closest, listed, shown
from ..engine.specs.layout import Layout
from ..engine.specs.mesh import Mesh
from ..layouts.by_name import Preset, presets_in
from .exits import UsageError
from .saved import FORMAT, saved_of

_AXIS = re.compile(r"(?P<kind>\w+)\((?P<inside>[^()]*)\)\Z")
_WHOLE = re.compile(r"-?[0-9]{1,18}\Z")
# Commas and spaces, but for those inside of parentheses.
_APART = re.compile(r"[,\s]+(?![^()]*\))")
# The first parameter of `ml.mesh`: an axis of this name could be written nowhere.
_NO_AXIS = "on"


def mesh_of(text: str, on: str | None) -> Mesh:
    """Reads a mesh.

    Args:
        text: `data=8,model=4`; a size may be `serial(8)`, `serial(8,reduce=once,gather=each)` or
            `stages(4,schedule=1f1b)` or `stages(4,layers=3+4+4+3)`; "" is one device.
        on: the machine, as `ml.mesh` takes it; None: none.
    """
    what = "whole number, serial(8,reduce=once) or stages(4,schedule=1f1b)"
    axes = _pairs("--mesh", [text], _axis_size, "data=8,model=4", what)
    if _NO_AXIS in axes:
        raise UsageError(f"--mesh was given an axis `{_NO_AXIS}`, which cannot be the name of an axis; choose another.")
    return mesh(on, **axes)


def count_problems(option: str, count: int | None) -> list[str]:
    """Returns why an option's number of devices or processes cannot be; none where the option was not given."""
    fits = count is None or 1 <= count <= LIMIT
    return [] if fits else [f"{option} was given {count}; it takes 1 to {LIMIT}"]


def simulate_as_asked(count: int | None):
    """Simulates the devices of `--simulate`; none where it was not given."""
    if problems := count_problems("--simulate", count):
        raise UsageError(f"{problems[0]} devices.")
    if count is not None:
        simulate(count)


def sizes_of(texts: Sequence[str]) -> dict[str, int]:
    """Reads sizes of dims.

    Args:
        texts: one for each time that the option was given: `batch=64,seq=128`.
    """
    return _pairs("--size", texts, _whole, "batch=64,seq=128")


def layout_of(given: str) -> Layout | list[Preset]:
    """Reads a layout: from a text, from JSON, or from a JSON file.

    Args:
        given: `batch:data ffn:model`, or presets, `fsdp & tensor_parallel`, or JSON as `plan.layout.to_dict()` has it,
            or the name of a file that holds that, or a plan that was saved.

    Returns:
        The layout, or the presets that make it of a program and a mesh.
    """
    if given.lstrip().startswith("{"):
        return Layout.of(_json("--layout", given))
    if not given.endswith(".json"):
        return presets_in(given) or Layout.of(given)
    read = read_json(Path(given), "--layout")
    if isinstance(read, dict) and read.get("format") == FORMAT:
        read = saved_of(read, given).costs.layout
    return Layout.of(read)


def read_text(path: Path, option: str) -> str:
    """Returns a file's text; the error for a missing file suggests the closest name.

    Args:
        path: the file.
        option: for which word of the command line, for the error.
    """
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise UsageError(f"{option}: there is no file `{path}`.{_closest_file(path)}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{option}: `{path}` cannot be read: {getattr(error, 'strerror', None) or error}.") from None


def read_json(path: Path, option: str) -> Any:
    """Returns what a JSON file says; see `read_text`."""
    return _json(f"{option}: `{path}`", read_text(path, option))


def _closest_file(path: Path) -> str:
    try:
        return closest(path.name, [each.name for each in path.parent.iterdir()])
    except OSError:
        return f" There is no folder `{path.parent}` either."


def _json(where: str, text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_each_once)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where} is not valid JSON: {error}.") from None


def _each_once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Returns a JSON object, in which no name appears twice."""
    names = [name for name, _ in pairs]
    if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
        raise ValueError(f"{listed(twice)} {'appears' if len(twice) == 1 else 'appear'} twice in an object")
    return dict(pairs)


def _pairs(
    option: str, texts: Sequence[str], read: Callable[[str], Any], example: str, called: str = "whole number"
) -> dict[str, Any]:
    """Reads `name=value` pairs with commas or spaces between them."""
    pairs: dict[str, Any] = {}
    problems = []
    for word in (word for text in texts for word in _APART.split(text) if word):
        name, equals, value = word.partition("=")
        size = read(value)
        if not (name and equals):
            problems.append(f"`{word}` is not a NAME=SIZE")
        elif size is None:
            problems.append(f"`{name}` has the size {shown(value)}, which is not a {called}")
        elif name in pairs:
            problems.append(f"`{name}` appears twice")
        else:
            pairs[name] = size
    if problems:
        raise UsageError(f"{option} cannot be read: {'; '.join(problems)}. Write {option} {example}.")
    return pairs


def _whole(text: str) -> int | None:
    return int(text) if _WHOLE.match(text) else None


def _option(text: str) -> int | str | tuple[int, ...]:
    """Reads an option of an axis: a number, numbers with `+` between them, or a word."""
    numbers = [number for part in text.split("+") if (number := _whole(part)) is not None]
    if len(numbers) <= text.count("+"):
        return text.strip('"')
    return numbers[0] if len(numbers) == 1 else tuple(numbers)


def _axis_size(text: str) -> int | Axis | None:
    """Reads a number, or `serial(8)` with its options, as `serial(8,reduce=once,gather=each)`."""
    found = _AXIS.match(text)
    if not found:
        return _whole(text)
    kind = KINDS.get(found["kind"])
    size, *options = (word.strip() for word in found["inside"].split(","))
    words = (option.partition("=") for option in options)
    given = {name: _option(value) for name, _, value in words}
    count = _whole(size)
    if kind is None or count is None or len(given) < len(options) or not given.keys() <= {*kind.option_names()}:
        return None
    return kind(count, **given)
