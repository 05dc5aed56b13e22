"""meshlab: lay a named model out on a mesh of devices, see what it costs and why, and run it.

The public names stand in `__init__.pyi`, which editors read. Each is imported on first use, so tracing and planning
load no notebook widgets and no solver.
"""

import ast as _ast
import importlib as _importlib
import pathlib as _pathlib

from .engine import absent_hardware as _absent_hardware
from .engine.gc_pause import no_collection as _no_collection

_absent_hardware.hide()  # before JAX is imported

from . import tested  # noqa: E402
from .engine.devices import leave_absent_hardware_alone as _leave_absent_hardware_alone  # noqa: E402
from .engine.errors import brief as _brief  # noqa: E402
from .engine.errors import closest as _closest  # noqa: E402

_leave_absent_hardware_alone()

_STUB = _pathlib.Path(__file__).with_suffix(".pyi")
# By public name the module that has it; None for those that are modules themselves.
_WHERE = {
    alias.name: node.module
    for node in _ast.parse(_STUB.read_text(encoding="utf-8")).body
    if isinstance(node, _ast.ImportFrom)
    for alias in node.names
}

__all__ = sorted(_WHERE)  # noqa: PLE0605  # pyright: ignore[reportUnsupportedDunderAll]

# Names of other libraries or spellings, and the names that they have here.
_ALIKE = {
    **{"float32": "f32", "float16": "f16", "bfloat16": "bf16", "int32": "i32", "int16": "i16", "int8": "i8"},
    **{"uint32": "u32", "uint16": "u16", "uint8": "u8", "bool": "bool_"},
    **{"float64": "f32", "f64": "f32", "int64": "i32", "i64": "i32", "uint64": "u32", "u64": "u32"},
    **{"layout": "Layout` or `auto.layout", "full": "tensor", "array": "tensor", "zeros": "tensor", "ones": "tensor"},
}
_EXAMPLES = {name: f' Write ml.tensor(jnp.{name}((2, 3)), "a", "b").' for name in ("zeros", "ones")}


def __getattr__(name: str):
    """Imports a public name when it is first asked for; suggests another for a name that there is not."""
    if name not in _WHERE:
        raise AttributeError(_brief(f"module 'meshlab' has no attribute {name!r}.{_meant(name)}"), name=name)
    module = _WHERE[name]
    with _no_collection():  # What an import makes stays: looking for garbage among it would be a quarter of the time.
        found = _importlib.import_module(f".{module or name}", __name__)
    globals()[name] = value = getattr(found, name) if module else found
    return value


def __dir__():
    return sorted({*globals(), *_WHERE})


def _meant(name: str) -> str:
    if name.startswith("_"):
        return ""
    alike = _ALIKE.get(name) or next((known for known in _WHERE if known.lower() == name.lower()), None)
    return (f" Did you mean `{alike}`?" if alike else _closest(name, sorted(_WHERE))) + _EXAMPLES.get(name, "")


tested.warn()
