"""Parses compiled HLO text into computations, their instructions, and the shapes of their operands.

XLA prints a compiled program as named computations, each a list of instructions, one to a line:

    %body (p: (s32[], f32[8,8])) -> (s32[], f32[8,8]) {
      %x = f32[8,8]{1,0} get-tuple-element(%p), index=1
      %psum.1 = f32[8,8]{1,0} all-reduce(%x), channel_id=1, replica_groups={{0,1},{2,3}}, to_apply=%add
      ...
    }

Here `parse_module(text)["body"].instructions["psum.1"]` has the opcode `all-reduce`, the operands `("x",)` and the
rest of the line as attributes. There is only text: JAX's objects for a compiled program have neither shapes nor replica
groups, and no reader of XLA's own serialised form comes with JAX.

Operands are printed without shapes, so these are looked up where the operand is made. A line that cannot be read
is an error when it might be a collective; nothing that moves data is passed over in silence.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Mapping

from ..collectives.kinds import KINDS, OTHERS_IN_HLO, RAGGED_IN_HLO
from ..errors import RunError

# Opcodes that move data between devices; no plan of meshlab contains the others.
MOVING = (*KINDS, RAGGED_IN_HLO, *OTHERS_IN_HLO)

_BITS = {
    "pred": 8,
    "token": 0,
    "opaque": 0,
    "c64": 64,
    "c128": 128,
    "bf16": 16,
}
_NAMES = {"pred": "bool", "bf16": "bfloat16", "c64": "complex64", "c128": "complex128"}
_KINDS = {"f": "float", "s": "int", "u": "uint"}
_ARRAY = re.compile(r"([a-z][a-z0-9]*)\[([0-9<=,\s?]*)\]")
_HEADER = re.compile(r"^(ENTRY\s+)?%?([\w.\-]+)\s.*\{$")
# A computation of another processor of a TPU says so at its end.
_FOOTER = re.compile(r'^\}(, execution_thread="\w+")?$')
_START = re.compile(r"^(ROOT\s+)?%?([\w.\-]+)\s+=\s+")
_MAYBE_MOVES = re.compile(rf"\b({'|'.join(MOVING)})(-start)?\(")
_CALLED = re.compile(r"([\w\-]+)=(\{[^{}=]*\}|%?[\w.\-]+)")


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One line of a computation.

    Attributes:
        name: without the percent sign.
        type: of the result, as printed.
        opcode: as printed, such as `all-gather-start`.
        operands: what stands between the parentheses, one entry for each operand.
        attributes: what follows the parentheses, as printed.
    """

    name: str
    type: str
    opcode: str
    operands: tuple[str, ...]
    attributes: str

    @property
    def operand_names(self) -> tuple[str, ...]:
        """Names of the operands; older texts print a shape before each."""
        return tuple(operand.split(" ")[-1].removeprefix("%") for operand in self.operands)

    def attribute(self, key: str) -> str | None:
        """Returns the text of an attribute up to its end, brackets closed, or None where it does not stand."""
        match = re.search(rf"(?:^|[\s,]){re.escape(key)}=", self.attributes)
        if match is None:
            return None
        rest = self.attributes[match.end() :]
        text = _until(rest, ",")
        # Groups of a mesh whose devices are in another order go on behind a comma: mesh['a'=2], device_ids=(1,0) {'a'}.
        ordered = rest[len(text) :].startswith(", device_ids=")
        return f"{text},{_until(rest[len(text) + 1 :], ',')}" if ordered else text

    @property
    def op_name(self) -> str:
        """What JAX made it of, such as `jit(f)/shard_map/psum`; may be empty."""
        match = re.search(r'op_name="([^"]*)"', self.attributes)
        return match[1] if match else ""

    def mentions(self) -> tuple[tuple[str, str], ...]:
        """Returns (attribute, name) for every name that an attribute mentions: called computations and others."""
        plain = re.sub(r'"(\\.|[^"\\])*"', '""', self.attributes)
        return tuple(
            (key, name.removeprefix("%"))
            for key, names in _CALLED.findall(plain)
            for name in re.split(r",\s*", names.strip("{}"))
        )


@dataclasses.dataclass(frozen=True)
class Computation:
    """A named list of instructions.

    Attributes:
        name: without the percent sign.
        entry: whether the program starts here.
        instructions: by name, in the order of the text.
        root: the name of the instruction whose result is the computation's.
    """

    name: str
    entry: bool
    instructions: Mapping[str, Instruction]
    root: str

    def operand_types(self, instruction: Instruction) -> tuple[str, ...]:
        """Returns the printed types of an instruction's operands, from where these are made."""
        missing = [name for name in instruction.operand_names if name not in self.instructions]
        if missing:
            raise RunError(
                f"The compiled text uses `%{missing[0]}` in `%{instruction.name}`, but computation `%{self.name}` has"
                " no such value: the text is incomplete. Pass all of compiled.as_text()."
            )
        return tuple(self.instructions[name].type for name in instruction.operand_names)


def arrays(printed: str) -> tuple[tuple[str, int], ...]:
    """Returns (dtype, bytes) of each array in a printed type.

    Example:
        >>> arrays("(f32[8,16]{1,0}, bf16[4]{0})")
        (('float32', 512), ('bfloat16', 8))
    """
    return tuple((dtype_name(dtype), -(-_bits(dtype) * math.prod(shape) // 8)) for dtype, shape in _printed(printed))


def shapes(printed: str) -> tuple[tuple[int, ...], ...]:
    """Returns the shape of each array in a printed type.

    Example:
        >>> shapes("(f32[8,16]{1,0}, bf16[])")
        ((8, 16), ())
    """
    return tuple(shape for _, shape in _printed(printed))


def _printed(printed: str) -> list[tuple[str, tuple[int, ...]]]:
    # A layout, in braces, can hold more brackets, none of which are arrays of the type.
    matches = _ARRAY.findall(re.sub(r"\{[^{}]*\}", "", printed))
    return [(dtype, tuple(int(n.strip(" <=")) for n in shape.split(",") if n.strip())) for dtype, shape in matches]


def dtype_name(printed: str) -> str:
    """Returns JAX's name of a printed element type: `f32` is `float32`, `f8e4m3fn` is `float8_e4m3fn`."""
    if printed in _NAMES:
        return _NAMES[printed]
    match = re.fullmatch(r"([fsu])(\d+)(e\w+)?", printed)
    if match is None:
        return printed
    return _KINDS[match[1]] + match[2] + (f"_{match[3]}" if match[3] else "")


def _bits(printed: str) -> int:
    match = re.match(r"[fsu](\d+)", printed)
    if printed not in _BITS and match is None:
        raise RunError(f"The compiled text has the element type `{printed}`, whose size is unknown.")
    return _BITS[printed] if printed in _BITS else int(match[1])  # pyright: ignore[reportOptionalSubscript]


def _until(text: str, stops: str) -> str:
    """Returns the text before the first of `stops` that stands outside all brackets and quotes."""
    depth, quoted = 0, False
    for place, letter in enumerate(text):
        if letter == '"' and text[place - 1 : place] != "\\":
            quoted = not quoted
        elif quoted:
            continue
        elif depth == 0 and letter in stops:
            return text[:place]
        elif letter in "([{":
            depth += 1
        elif letter in ")]}":
            depth -= 1
    return text


def _split(text: str) -> tuple[str, ...]:
    """Splits at the commas that stand outside all brackets."""
    parts = []
    while text.strip():
        part = _until(text, ",")
        parts.append(part.strip())
        text = text[len(part) + 1 :]
    return tuple(parts)


def _instruction(line: str) -> tuple[Instruction, bool] | None:
    """Returns the instruction of a line and whether it is the root, or None where the line is not one."""
    match = _START.match(line)
    if match is None:
        return None
    rest = line[match.end() :]
    printed = _until(rest, " ")
    opening = re.match(r" ([a-z][\w\-]*)\(", rest[len(printed) :])
    if opening is None:
        return None
    rest = rest[len(printed) + opening.end() :]
    operands = _until(rest, ")")
    attributes = rest[len(operands) + 1 :].lstrip(", ")
    return Instruction(match[2], printed, opening[1], _split(operands), attributes), bool(match[1])


def _computation(header: re.Match, lines: list[str]) -> Computation:
    instructions, root = {}, ""
    for line in lines:
        read = _instruction(line)
        if read is None:
            if _MAYBE_MOVES.search(line):
                raise RunError(f"This line of the compiled text may be a collective, and cannot be read: {line[:200]}")
            continue
        instructions[read[0].name] = read[0]
        root = read[0].name if read[1] or not root else root
    return Computation(header[2], bool(header[1]), instructions, root)


@functools.lru_cache(maxsize=4)
def parse_module(text: str) -> Mapping[str, Computation]:
    """Parses compiled HLO text, as of `compiled.as_text()`, into its computations by name."""
    computations, header, lines = {}, None, []
    for raw in text.splitlines():
        line = re.sub(r"/\*.*?\*/", "", raw).strip()
        if header is None and " = " not in line:
            header, lines = _HEADER.match(line), []
        elif header is not None and _FOOTER.match(line):
            computations[header[2]] = _computation(header, lines)
            header = None
        elif header is not None:
            lines.append(line)
    if sum(computation.entry for computation in computations.values()) != 1:
        raise RunError(
            "Compiled HLO text was expected, with one computation marked ENTRY; found"
            f" {len(computations)} computations in a text that starts {text.strip()[:60]!r}. Pass compiled.as_text()."
        )
    return computations
