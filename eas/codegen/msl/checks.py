"""What a Metal target cannot run, refused before any text is made."""

from __future__ import annotations

from collections.abc import Iterator

from eas.base import dtypes
from eas.base.errors import Unsupported
from eas.ir import Arg, Inst, IRModule, Loc, Value, walk
from eas.schedule.gpu.target import MetalTarget

_GRANULE = 16  # bytes: threadgroup variables start at multiples of this


def check(module: IRModule, target: MetalTarget) -> None:
    """Raise `Unsupported` for a dtype or a limit of the target that the kernel passes."""
    _check_dtypes(module)
    _check_threads(module, target)
    _check_memory(module, target)
    _check_buffers(module, target)


def _check_dtypes(module: IRModule) -> None:
    for arg in module.args:
        if arg.type.dtype is dtypes.f64:
            raise Unsupported(f"Metal has no f64, the dtype of argument {arg.name}", hint=f"pass {arg.name} as float32", loc=_first_use(module, arg))
    for inst in walk(module.body):
        if any(v.dtype is dtypes.f64 for v in _values(inst)):
            raise Unsupported(f"Metal has no f64, which {inst.op.name} needs here", hint="compute in mk.f32", loc=inst.loc)


def _first_use(module: IRModule, arg: Arg) -> Loc | None:
    """The kernel line that an argument is first used in."""
    uses = (inst.loc for inst in walk(module.body) if arg.value in inst.operands and inst.loc is not None)
    return next(uses, module.loc)


def _values(inst: Inst) -> Iterator[Value]:
    yield from inst.outs
    yield from inst.operands


def _check_threads(module: IRModule, target: MetalTarget) -> None:
    threads = module.attr("threads", 1)
    if threads > target.max_threads:
        raise Unsupported(
            f"kernel {module.name} asks for {threads} threads per threadgroup, {target.name} has {target.max_threads}",
            hint="use a smaller mk.tid range or num_warps",
            loc=module.loc,
        )


def threadgroup_nbytes(module: IRModule) -> int:
    """Threadgroup memory of all allocations together."""
    return sum(_nbytes(inst) for inst in walk(module.body) if inst.op.name == "alloc_tg")


def _nbytes(inst: Inst) -> int:
    nbytes: int = inst["size"] * inst["dtype"].nbytes
    return -(-nbytes // _GRANULE) * _GRANULE


def _check_memory(module: IRModule, target: MetalTarget) -> None:
    total = threadgroup_nbytes(module)
    if total <= target.threadgroup_nbytes:
        return
    largest = max((i for i in walk(module.body) if i.op.name == "alloc_tg"), key=_nbytes)
    block = largest["block"]  # of a program: what the user knows is its shape
    what = f"block {_named(largest)}of shape {list(block)}" if block else f"allocation is {_named(largest).strip()}"
    raise Unsupported(
        f"kernel {module.name} needs {total} bytes of threadgroup memory, {target.name} has {target.threadgroup_nbytes}; "
        f"the largest {what}: {largest['size']} x {largest['dtype']} = {_nbytes(largest)} bytes",
        hint="use smaller blocks, a narrower dtype, or more programs" if block else "use smaller blocks or a narrower dtype",
        loc=largest.loc,
    )


def _named(inst: Inst) -> str:
    name = inst.out.hint or inst["name"]
    return "" if name == "shared" else f"{name} "


def _check_buffers(module: IRModule, target: MetalTarget) -> None:
    count = sum(arg.is_buffer for arg in module.args)
    count += any(not arg.is_buffer for arg in module.args)
    count += any(inst.op.name in ("device_assert", "device_print", "write_log") for inst in walk(module.body))
    if count > target.max_buffers:
        raise Unsupported(
            f"kernel {module.name} binds {count} buffers, {target.name} has {target.max_buffers} places for them",
            hint="pack some arguments into one buffer",
            loc=_first_use(module, [arg for arg in module.args if arg.is_buffer][-1]),
        )
