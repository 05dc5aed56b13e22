"""Matches globs, in which `*` is any run of characters, `/` too, `?` is one character, and all else is itself.

Brackets are no classes of characters: names have them, `blocks[0]/w`.
"""

from __future__ import annotations

import functools
import re

_WILD = {"*": ".*", "?": "."}


def matches(text: str, glob: str) -> bool:
    """Says whether a glob matches all of a text.

    Example:
        >>> matches("p/w[0]", "p/*"), matches("p/w[0]", "p/w[0]"), matches("p/e", "p/[e]")
        (True, True, False)
    """
    return _compiled(glob).fullmatch(text) is not None


@functools.lru_cache(maxsize=4096)
def _compiled(glob: str) -> re.Pattern[str]:
    return re.compile("".join(_WILD.get(character) or re.escape(character) for character in glob), re.DOTALL)
