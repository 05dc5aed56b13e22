"""Writes a machine as the TOML that `hardware.read` reads."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

from .hardware import Figure, Hardware, Torus
from .protocols import Protocol, Protocols


def to_toml(machine: Hardware) -> str:
    """Returns a machine as TOML; `hardware.read` gives an equal one, named after its file."""
    sources = dict.fromkeys(figure.source for figure in machine.figures.values())
    names = {source: f"source{i}" for i, source in enumerate(sources)}

    def written(figure: Figure) -> str:
        recalled = "" if figure.verified else ', "recalled"'
        return f'[{figure.value!r}, "{names[figure.source]}"{recalled}]'

    tables: dict[str, dict[str, Any]] = {
        "": {
            "title": machine.title,
            "platform": machine.platform,
            "also": [],
            "tile": machine.tile,
            "devices_per_chip": machine.devices_per_chip,
            "chips_per_host": machine.chips_per_host,
        },
        "sources": {name: source for source, name in names.items()},
        "flops": dict(machine.flops),
        "memory": {"bytes": machine.memory, "bandwidth": machine.bandwidth},
        "torus" if isinstance(machine.network, Torus) else "switch": _fields(machine.network),
        "efficiency": _fields(machine.efficiency),
    }
    protocols = getattr(machine.network, "protocols", None)
    if protocols is not None:
        del tables["switch"]["protocols"]
        tables["protocols"] = {"copy": protocols.copy}
        tables |= {f"protocols.{name}": _fields(way) for name, way in _named(protocols)}
    if machine.matmuls is not None:
        tables["matmuls"] = _fields(machine.matmuls)
        narrow = tables["matmuls"].pop("narrow")
        tables |= {f"matmuls.{kind}": _fields(each) for kind, each in narrow.items()}
    if machine.inter_node is not None:
        tables["inter_node"] = _fields(machine.inter_node)
    if machine.host is not None:
        tables["host"] = {"link": machine.host}
    if machine.errors:
        tables["errors"] = dict(machine.errors)
    lines = []
    for name, table in tables.items():
        lines += [f"\n[{name}]"] if name else []
        for key, value in table.items():
            # JSON's strings, numbers, booleans and lists are TOML's.
            text = written(value) if isinstance(value, Figure) else json.dumps(value, ensure_ascii=False)
            lines.append(f"{json.dumps(key)} = {text}" if not key.replace("_", "").isalnum() else f"{key} = {text}")
    return "\n".join(lines) + "\n"


def _named(protocols: Protocols) -> Iterator[tuple[str, Protocol]]:
    """Yields each protocol with its name in a file."""
    for kind, ways in (("rings", protocols.rings), ("exchanges", protocols.exchanges)):
        yield from ((f"{kind}.{json.dumps(name)}", way) for name, way in ways.items())
    if protocols.in_switch is not None:
        yield "in_switch", protocols.in_switch


def _fields(node: Any) -> dict[str, Any]:
    values = ((field.name, getattr(node, field.name)) for field in dataclasses.fields(node))
    return {name: value for name, value in values if value is not None}
