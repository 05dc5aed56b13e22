"""A pool of JSON-like values in which equal ones are kept once, at whatever depth they stand.

    pool = Pool()
    packed = pool.put({"dims": [...], "held": [...]}, "devices")     '{"@":17}', which stands for it
    pool.lines(packed)                                               all values, a line each, and this one last

Two layouts are drawn of mostly the same rows, sentences and slices. What is longer than a reference is a line of its
own, with references to its parts: the states of fifty layouts take a tenth of the bytes. What is short and referred to
once then stands in that place after all, for numbers of references hardly compress. Lines of one kind, such as the
sentences about causes, stand side by side, for gzip looks back no further than 32 kB. Whoever reads them parses a line
when it is asked for.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

# The key of an object that stands for a line. Keys of views are fields, dims and mesh axes, none of which is so called.
REF = "@"
# Texts that are shorter stand where they are; so do those that are referred to once, up to a length at which gzip gains
# more by having them beside their like.
SHORT, SHORT_ONCE = 24, 150
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
_REFS = re.compile(rf'\{{"{REF}":(\d+)\}}')


class Packed(str):
    """JSON that was put into a pool; within another value it stands as it is."""


class Pool:
    """Values by their JSON, each with its kind."""

    def __init__(self) -> None:
        self._at: dict[str, int] = {}
        self._kinds: list[str] = []

    def __len__(self) -> int:
        return len(self._kinds)

    def put(self, value: Any, kind: str) -> Packed:
        """Keeps a value, and returns its JSON: as it is where that is short, or else a reference to its line."""
        if isinstance(value, Packed):
            return value
        if isinstance(value, Mapping):
            parts = (f"{_encode(str(key))}:{self.put(each, f'{kind}.{key}')}" for key, each in value.items())
            text = f"{{{','.join(parts)}}}"
        elif isinstance(value, list | tuple) and not all(isinstance(each, int | float) for each in value):
            text = f"[{','.join(self.put(each, kind) for each in value)}]"
        else:
            text = _encode(value)
        return Packed(text) if len(text) < SHORT else Packed(f'{{"{REF}":{self._line(text, kind)}}}')

    def first(self, count: int) -> Pool:
        """Returns a pool with the values that were put first, to be gone on with."""
        pool = Pool()
        pool._at = dict(itertools.islice(self._at.items(), count))
        pool._kinds = self._kinds[:count]
        return pool

    def _line(self, text: str, kind: str) -> int:
        if text not in self._at:
            self._at[text] = len(self._kinds)
            self._kinds.append(kind)
        return self._at[text]

    def lines(self, root: Packed) -> list[str]:
        """Returns the values as lines, of one kind side by side and in order, and the root last."""
        texts = [*self._at]
        uses = Counter(int(ref) for text in (*texts, root) for ref in _REFS.findall(text))
        once = {number for number, text in enumerate(texts) if uses[number] == 1 and len(text) < SHORT_ONCE}

        def filled(text: str) -> str:
            return _REFS.sub(lambda ref: texts[int(ref[1])] if int(ref[1]) in once else ref[0], text)

        for number, text in enumerate(texts):  # parts of a value have lower numbers than the value
            texts[number] = filled(text)
        order = sorted({*range(len(texts))} - once, key=lambda i: (self._kinds[i], texts[i]))
        where = {number: place for place, number in enumerate(order)}

        def moved(text: str) -> str:
            return _REFS.sub(lambda ref: f'{{"{REF}":{where[int(ref[1])]}}}', text)

        return [moved(text) for text in (*(texts[i] for i in order), filled(root))]
