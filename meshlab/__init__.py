"""meshlab: lay a named model out on a mesh of devices, see what it costs and why, and run it."""

from .engine import absent_hardware as _absent_hardware
from .engine.gc_pause import no_collection as _no_collection

_absent_hardware.hide()  # before JAX is imported

with _no_collection():  # The import makes what stays: looking for garbage among it would be a quarter of the time.
    from . import auto as auto
    from . import layouts as layouts
    from . import tested as tested
    from .cost.compilers.compile_for import compile_for as compile_for
    from .cost.compilers.compiled import Compiled as Compiled
    from .cost.machines.hardware import Efficiency as Efficiency
    from .cost.machines.hardware import Figure as Figure
    from .cost.machines.hardware import Hardware as Hardware
    from .cost.machines.hardware import HardwareError as HardwareError
    from .cost.machines.hardware import InterNode as InterNode
    from .cost.machines.hardware import Switch as Switch
    from .cost.machines.hardware import Torus as Torus
    from .cost.machines.hardware import hardware as hardware
    from .cost.machines.matmul_kernels import MatmulKernels as MatmulKernels
    from .cost.machines.meshes import collective_time as collective_time
    from .cost.machines.meshes import lay as lay
    from .cost.machines.meshes import mesh as mesh
    from .cost.machines.protocols import Protocol as Protocol
    from .cost.machines.protocols import Protocols as Protocols
    from .cost.whatif.crossover import crossover as crossover
    from .cost.whatif.sweep import sweep as sweep
    from .engine.api.stages import Plan as Plan
    from .engine.api.stages import Program as Program
    from .engine.api.trace import trace as trace
    from .engine.devices import leave_absent_hardware_alone as _leave_absent_hardware_alone
    from .engine.devices import simulate as simulate
    from .engine.errors import CompilerError as CompilerError
    from .engine.errors import DimError as DimError
    from .engine.errors import LayoutError as LayoutError
    from .engine.errors import MeshError as MeshError
    from .engine.errors import MeshlabError as MeshlabError
    from .engine.errors import RunError as RunError
    from .engine.errors import TraceError as TraceError
    from .engine.errors import brief as _brief
    from .engine.errors import closest as _closest
    from .engine.ops.arrange import concat as concat
    from .engine.ops.arrange import shift as shift
    from .engine.ops.arrange import split as split
    from .engine.ops.arrange import stop_gradient as stop_gradient
    from .engine.ops.arrange import tag as tag
    from .engine.ops.conv import conv as conv
    from .engine.ops.conv import conv_transpose as conv_transpose
    from .engine.ops.dot import dot as dot
    from .engine.ops.elementwise import abs as abs
    from .engine.ops.elementwise import cos as cos
    from .engine.ops.elementwise import elu as elu
    from .engine.ops.elementwise import exp as exp
    from .engine.ops.elementwise import gelu as gelu
    from .engine.ops.elementwise import leaky_relu as leaky_relu
    from .engine.ops.elementwise import log as log
    from .engine.ops.elementwise import maximum as maximum
    from .engine.ops.elementwise import minimum as minimum
    from .engine.ops.elementwise import relu as relu
    from .engine.ops.elementwise import rsqrt as rsqrt
    from .engine.ops.elementwise import selu as selu
    from .engine.ops.elementwise import sigmoid as sigmoid
    from .engine.ops.elementwise import sign as sign
    from .engine.ops.elementwise import silu as silu
    from .engine.ops.elementwise import sin as sin
    from .engine.ops.elementwise import softplus as softplus
    from .engine.ops.elementwise import sqrt as sqrt
    from .engine.ops.elementwise import square as square
    from .engine.ops.elementwise import tanh as tanh
    from .engine.ops.elementwise import where as where
    from .engine.ops.index import arange as arange
    from .engine.ops.index import one_hot as one_hot
    from .engine.ops.index import take as take
    from .engine.ops.merge import merge as merge
    from .engine.ops.merge import unmerge as unmerge
    from .engine.ops.norm import moments as moments
    from .engine.ops.norm import normalize as normalize
    from .engine.ops.order import argmax as argmax
    from .engine.ops.order import cumsum as cumsum
    from .engine.ops.order import sort as sort
    from .engine.ops.order import top_k as top_k
    from .engine.ops.pool import max_pool as max_pool
    from .engine.ops.pool import mean_pool as mean_pool
    from .engine.ops.pool import upsample as upsample
    from .engine.ops.random import categorical as categorical
    from .engine.ops.random import dropout as dropout
    from .engine.ops.random import normal as normal
    from .engine.ops.random import uniform as uniform
    from .engine.ops.softmax import cross_entropy as cross_entropy
    from .engine.ops.softmax import log_softmax as log_softmax
    from .engine.ops.softmax import logsumexp as logsumexp
    from .engine.ops.softmax import softmax as softmax
    from .engine.ops.stack import pad as pad
    from .engine.ops.stack import slice as slice
    from .engine.ops.stack import stack as stack
    from .engine.ops.stack import unstack as unstack
    from .engine.plans.collectives import Collective as Collective
    from .engine.programs.values import Value as Value
    from .engine.specs.layout import Layout as Layout
    from .engine.specs.mesh import Mesh as Mesh
    from .engine.specs.serial import serial as serial
    from .engine.specs.spec import Spec as Spec
    from .engine.tensors.abstract import bf16 as bf16
    from .engine.tensors.abstract import bool_ as bool_
    from .engine.tensors.abstract import f16 as f16
    from .engine.tensors.abstract import f32 as f32
    from .engine.tensors.abstract import i8 as i8
    from .engine.tensors.abstract import i16 as i16
    from .engine.tensors.abstract import i32 as i32
    from .engine.tensors.abstract import u8 as u8
    from .engine.tensors.abstract import u16 as u16
    from .engine.tensors.abstract import u32 as u32
    from .engine.tensors.dims import Dim as Dim
    from .engine.tensors.dims import dims as dims
    from .engine.tensors.named_arrays import named as named
    from .engine.tensors.tensor import Tensor as Tensor
    from .engine.tensors.tensor import tensor as tensor
    from .engine.tensors.transforms import checkpoint as checkpoint
    from .engine.tensors.transforms import scan as scan
    from .engine.tensors.transforms import vmap as vmap
    from .widgets.explorer import Explorer as Explorer
    from .widgets.explorer import explore as explore
    from .widgets.state.training import Training as Training

_leave_absent_hardware_alone()

# Names of other libraries or spellings, and the names that they have here.
_ALIKE = {
    **{"float32": "f32", "float16": "f16", "bfloat16": "bf16", "int32": "i32", "int16": "i16", "int8": "i8"},
    **{"uint32": "u32", "uint16": "u16", "uint8": "u8", "bool": "bool_"},
    **{"float64": "f32", "f64": "f32", "int64": "i32", "i64": "i32", "uint64": "u32", "u64": "u32"},
    **{"layout": "Layout` or `auto.layout", "full": "tensor", "array": "tensor", "zeros": "tensor", "ones": "tensor"},
}
_EXAMPLES = {name: f' Write ml.tensor(jnp.{name}((2, 3)), "a", "b").' for name in ("zeros", "ones")}


def __getattr__(name: str):
    """Suggests the name that was probably meant."""
    meant = ""
    if not name.startswith("_"):
        public = sorted(known for known in globals() if not known.startswith("_"))
        alike = _ALIKE.get(name) or next((known for known in public if known.lower() == name.lower()), None)
        meant = (f" Did you mean `{alike}`?" if alike else _closest(name, public)) + _EXAMPLES.get(name, "")
    raise AttributeError(_brief(f"module 'meshlab' has no attribute {name!r}.{meant}"), name=name)


tested.warn()
