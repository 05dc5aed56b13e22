"""Expressions of Python as text, laid out in lines as formatters lay them out (Black, `ruff format`).

call("lax.psum", name("logits"), text('"model"'))      lax.psum(logits, "model")
infix("*", infix("+", a, b), c)                        (a + b) * c
laid_out("x = ", expression, "", indent=4)             one line; or, where that is too long, one for its arguments
"""

from __future__ import annotations

import dataclasses

WIDE = 88
# How long a line of comment may be, which no formatter breaks.
WIDE_COMMENT = 110
# How strongly operators bind; what is no operator binds most.
_BINDS = {
    **dict.fromkeys(("<", "<=", ">", ">=", "==", "!="), 1),
    "|": 2,
    "^": 3,
    "&": 4,
    **dict.fromkeys(("+", "-"), 5),
    **dict.fromkeys(("*", "/"), 6),
}
_UNARY, _ATOM = 7, 8


@dataclasses.dataclass(frozen=True)
class Expression:
    """An expression.

    Attributes:
        text: in one line.
        binds: how strongly its outermost operator binds.
        opening: of a call or a tuple: the text up to its bracket.
        items: what stands between the brackets.
        closing: the bracket that closes it.
        typed: of a number: the text that says its dtype too, for functions that do not convert it.
    """

    text: str
    binds: int = _ATOM
    opening: str = ""
    items: tuple[Expression, ...] = ()
    closing: str = ""
    typed: str | None = None


def text(words: str, typed: str | None = None) -> Expression:
    """Returns a name, or a value that is written: negative numbers bind like the operator that they begin with."""
    return Expression(words, _UNARY if words.startswith("-") else _ATOM, typed=typed)


def call(function: str, *items: Expression) -> Expression:
    items = tuple(text(item.typed) if item.typed is not None else item for item in items)
    return _bracketed(f"{function}(", items, ")", "")


def sequence(*items: Expression) -> Expression:
    """Returns a tuple."""
    items = tuple(text(item.typed) if item.typed is not None else item for item in items)
    return _bracketed("(", items, ")", "," if len(items) == 1 else "")


def keyword(name: str, value: Expression) -> Expression:
    value = text(value.typed) if value.typed is not None else value
    return Expression(f"{name}={value.text}", 0, f"{name}={value.opening}", value.items, value.closing)


def infix(sign: str, left: Expression, right: Expression) -> Expression:
    binds = _BINDS[sign]
    first = left.text if left.binds > binds or (left.binds == binds > 1) else f"({left.text})"
    second = right.text if right.binds > binds else f"({right.text})"
    return Expression(f"{first} {sign} {second}", binds)


def prefix(sign: str, operand: Expression) -> Expression:
    return Expression(f"{sign}{operand.text if operand.binds > _UNARY else f'({operand.text})'}", _UNARY)


def _bracketed(opening: str, items: tuple[Expression, ...], closing: str, comma: str) -> Expression:
    inside = ", ".join(item.text for item in items)
    return Expression(f"{opening}{inside}{comma}{closing}", _ATOM, opening, items, closing)


def laid_out(before: str, expression: Expression, after: str, indent: int) -> list[str]:
    """Returns the lines of a statement: one, or as many as its brackets need.

    Args:
        before: what stands before the expression in its line.
        expression: it.
        after: what stands behind it.
        indent: how many spaces every line begins with.
    """
    margin = " " * indent
    line = f"{margin}{before}{expression.text}{after}"
    if len(line) > WIDE and not expression.items and expression.binds < _UNARY and before.endswith("= "):
        return [f"{margin}{before}(", f"{margin}    {expression.text}", f"{margin}){after}"]
    if len(line) <= WIDE or not expression.items:
        return [line]
    first, last = f"{margin}{before}{expression.opening}", f"{margin}{expression.closing}{after}"
    inside = ", ".join(item.text for item in expression.items)
    is_tuple_of_one = expression.text.endswith(",)")
    if indent + 4 + len(inside) <= WIDE and not is_tuple_of_one:
        return [first, f"{margin}    {inside}", last]
    rows = [line for item in expression.items for line in laid_out("", item, ",", indent + 4)]
    return [first, *rows, last]
