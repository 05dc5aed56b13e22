"""Reads the fields of a saved file's JSON: each of the kind that it must be, or an error that names it.

    Fields({"times": 3}).whole("times")             3
    Fields({"times": "3"}).whole("times")           ValueError: `times` is '3', which must be a whole number

A field that is not there is a `KeyError`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ..engine.errors import shown

# Whole numbers that a float holds, and more bytes than any machine has.
_MOST = 10**30
Read = TypeVar("Read")


class Fields:
    """The fields of one object of a file.

    Args:
        data: what the JSON says, which must be an object.
        where: where it stands in the file, for the errors; "" for the whole.
    """

    def __init__(self, data: Any, where: str = ""):
        self.data, self.where = _kind(data, Mapping, where or "it", "an object"), where

    def path(self, name: str | int) -> str:
        """Returns where a field stands."""
        return f"{self.where}/{name}" if self.where else str(name)

    def has(self, name: str) -> bool:
        """Says whether a field is there, and not null."""
        return self.data.get(name) is not None

    def fields(self, name: str) -> Fields:
        return Fields(self.data[name], self.path(name))

    def text(self, name: str) -> str:
        return _text(self.data[name], self.path(name))

    def whole(self, name: str) -> int:
        """Returns a whole number, from 0 on."""
        return _whole(self.data[name], self.path(name))

    def number(self, name: str) -> float:
        """Returns a finite number."""
        return _number(self.data[name], self.path(name))

    def truth(self, name: str) -> bool:
        return _kind(self.data[name], bool, self.path(name), "true or false")

    def texts(self, name: str) -> tuple[str, ...]:
        given = _kind(self.data[name], list, self.path(name), "a list")
        return tuple(_text(each, f"{self.path(name)}/{i}") for i, each in enumerate(given))

    def each(self, name: str) -> tuple[Fields, ...]:
        """Returns the fields of each object of a list."""
        given = _kind(self.data[name], list, self.path(name), "a list")
        return tuple(Fields(each, f"{self.path(name)}/{i}") for i, each in enumerate(given))

    def all(self, read: Callable[[Fields, str], Read]) -> dict[str, Read]:
        """Returns what is read of each field: `all(Fields.whole)`."""
        return {name: read(self, name) for name in self.data}


def _kind(value: Any, kind: Any, where: str, called: str) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"`{where}` is {shown(value)}, which must be {called}")
    return value


def _text(value: Any, where: str) -> str:
    return _kind(value, str, where, "a text")


def _whole(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= _MOST:
        raise ValueError(f"`{where}` is {shown(value)}, which must be a whole number")
    return value


def _number(value: Any, where: str) -> float:
    known = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _MOST
    if not known or not math.isfinite(value):
        raise ValueError(f"`{where}` is {shown(value)}, which must be a number")
    return float(value)
