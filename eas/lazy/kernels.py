"""Kernels of programs: built once per structure, compiled and launched like any kernel."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from eas.base.dtypes import DType
from eas.base.loading import load
from eas.base.locks import new_lock
from eas.base.recent import Recent
from eas.compiler import CompiledKernel, may_be_known
from eas.frontend.reads.globals_read import Dependencies
from eas.interop.arg_view import ArgView
from eas.interop.private import PrivateView
from eas.kernel import Kernel
from eas.launch import warm_start
from eas.lazy.emit.blocks import Shape, shape_of
from eas.lazy.lower import Inst, Program

if TYPE_CHECKING:
    from eas.interop.devices import Device
    from eas.ir import IRModule, Loc

MAX_KERNELS = 4096
_PREFIX = {"map": "m", "rows": "r", "tile": "t", "scan": "s"}


class Spec(NamedTuple):
    """All that a kernel is compiled for; sizes, strides and numbers are its arguments."""

    template: str
    instructions: tuple[Inst, ...]
    outputs: tuple[Inst, ...]
    tags: tuple[str, ...]
    buffer_types: tuple[DType, ...]
    scalar_types: tuple[DType, ...]
    shape: Shape

    @property
    def words(self) -> list[str]:
        """What it computes, the last operation first."""
        named = [inst[1] if inst[0] in ("map", "reduce", "scan", "random") else inst[0] for inst in self.instructions if inst[0] not in ("load", "const", "number", "inside", "index")]
        return list(dict.fromkeys(reversed(named)))[:4] or ["copy"]


def spec_of(program: Program, is_metal: bool) -> Spec:
    """The structure of a program on a kind of device."""
    tags = tuple([a.tag for a in program.axes])
    types = tuple([b.dtype for b in program.buffers])
    return Spec(program.template, program.instructions, program.outputs, tags, types, program.scalar_types, shape_of(program, is_metal))


def grid_of(spec: Spec, sizes: Sequence[int]) -> tuple[int, int, int]:
    """Programs of a launch over axes of these sizes."""
    from eas.lazy.emit.map import map_grid
    from eas.lazy.emit.rows import rows_grid
    from eas.lazy.emit.tile import tile_grid

    if spec.template == "map":
        return map_grid(list(sizes), spec.shape.form, spec.shape.blocks)
    if spec.template == "tile":
        return tile_grid(sizes, spec.shape.blocks)
    return rows_grid(sizes, spec.tags, spec.shape.form, spec.shape.blocks)


class BuiltKernel(Kernel):
    """A kernel whose IR was built from a graph; it has one set of argument types."""

    def __init__(self, spec: Spec, places: tuple[Any, ...]) -> None:
        self.spec = spec
        self._places = places
        names = [f"out{i}" for i in range(len(spec.outputs))] + [f"in{i}" for i in range(len(spec.buffer_types))]
        names += [f"n{i}" for i in range(len(spec.scalar_types))]
        fn = _function("_".join([_PREFIX[spec.template], *spec.words]), names)
        self._one: CompiledKernel | None = None
        self._making = new_lock()
        super().__init__(fn)

    def _get_ready(self) -> None:
        """A plan may never run: its kernels load nothing until they do."""

    @property
    def compiled(self) -> CompiledKernel:
        """The only compiled kernel."""
        if self._one is None:
            with self._making:
                self._one = self._one or self._made()
        return self._one

    def _compile(self, values: list[Any]) -> CompiledKernel:
        return self.compiled

    def _made(self) -> CompiledKernel:
        identity = warm_start.identify_built(self.__name__, repr(self.spec), __file__) if may_be_known() else None
        known = warm_start.find(identity) if identity else None
        if known is not None:
            return CompiledKernel(known, Dependencies(), self.build, identity)
        load("eas.lowering")
        from eas import lowering

        module = self.build()
        return CompiledKernel(lowering.summarise(module), Dependencies(), lambda: module, identity)

    def build(self) -> IRModule:
        """The block IR."""
        load("eas.lazy.emit.scope", "eas.lazy.emit.map", "eas.lazy.emit.rows", "eas.lazy.emit.tile", "eas.lowering")
        from eas.ir import verify
        from eas.lazy.emit import map as emit_map
        from eas.lazy.emit import rows as emit_rows
        from eas.lazy.emit import scope as emit
        from eas.lazy.emit import tile as emit_tile

        builder = emit.PlacedBuilder(self.__name__)
        emitters = {"map": emit_map.emit_map, "tile": emit_tile.emit_tile}
        with builder.active():
            kernel = emit.Kernel(builder, _Placed(self.spec, self._places))
            emitters.get(self.spec.template, emit_rows.emit_rows)(kernel)
        return verify(builder.finish())


class _Placed:
    """A spec with the lines of its instructions."""

    def __init__(self, spec: Spec, places: tuple[Any, ...]) -> None:
        self._spec, self._places = spec, places

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spec, name)

    def loc(self, i: int) -> Loc | None:
        from eas.ir import Loc

        return Loc((self._places[i],)) if self._places[i] is not None else None


def _function(name: str, names: list[str]) -> Any:
    """A function of such parameters, which stands for the kernel where a signature is asked for."""

    def built() -> None: ...

    built.__name__ = built.__qualname__ = name
    built.__signature__ = inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in names])  # type: ignore[attr-defined]  # inspect reads it
    return built


class Placed:
    """Memory of a device as an argument of a kernel."""

    __slots__ = ("array", "device", "dtype")

    def __init__(self, array: Any, dtype: DType, device: Device) -> None:
        self.array, self.dtype, self.device = array, dtype, device

    def __eas_view__(self) -> ArgView:
        if self.device.copy is not None:
            return PrivateView("lazy", self.dtype, self.array, self.array, self.device)
        return ArgView("lazy", self.dtype, self.array, self.array, device=self.device.name)


_kernels: Recent[Spec, BuiltKernel] = Recent()
_lock = new_lock()


def kernel_of(spec: Spec, places: tuple[Any, ...]) -> BuiltKernel:
    """The kernel of a structure, the same object for the same one."""
    found = _kernels.get(spec)
    if found is None:
        with _lock:
            found = _kernels.get(spec)
            if found is None:
                found = BuiltKernel(spec, places)
                _kernels.add(spec, found, MAX_KERNELS)
    return found
