"""Instructions that touch memory, have several results, or are statements of their own."""

from __future__ import annotations

from collections.abc import Callable

from eas.analysis import mask_of
from eas.base.errors import Unsupported
from eas.codegen.msl import atomics as msl_atomics
from eas.codegen.msl import log as msl_log
from eas.codegen.msl import vectors as msl_vectors
from eas.codegen.msl.emitter import MslEmitter
from eas.codegen.msl.fragments import FRAGMENTS
from eas.codegen.msl.text import call, choose, named, with_guard
from eas.codegen.msl.types import literal, type_name
from eas.codegen.msl.vectors import AXES
from eas.ir import Inst, Value


def _load(m: MslEmitter, inst: Inst) -> None:
    """Masked-off lanes touch nothing: the choice stands around the access."""
    pointer, mask = inst.operands[0], mask_of(inst)
    element = msl_vectors.element(m, pointer, mask)
    if mask is None or mask in m.held:
        m.define(inst, element)
        return
    condition = m.use(mask)
    other = m.use(inst.operands[2]) if len(inst.operands) > 2 else literal(0, inst.out.dtype)
    m.define(inst, with_guard(choose(condition, element, other), mask, element))


def _store(m: MslEmitter, inst: Inst) -> None:
    pointer, value, *rest = inst.operands
    mask = rest[0] if rest else None
    element, what = msl_vectors.element(m, pointer, mask), m.use(value).under(mask)
    said = f"{element.text} = {what.text};"
    m.lines.add(said if mask is None or mask in m.held else f"if ({m.use(mask).text}) {said}")


def _alloc(m: MslEmitter, inst: Inst) -> None:
    name, dtype, size = m.scope.claim(inst.out.hint or inst["name"]), inst["dtype"], inst["size"]
    # Atomics on narrow elements work on the word around them: the array is whole words, and no other variable is in the last one.
    word = 4 if dtype.bits < 32 and m.has_atomics(inst.out) else 0
    padded = -(-size * dtype.nbytes // word) * word // dtype.nbytes if word else size
    nbytes = max(word, inst["align"] or 0)
    align = f"alignas({nbytes}) " if nbytes else ""
    m.lines.add(f"{align}threadgroup {type_name(dtype)} {name}[{padded}];")
    for k in range(size, padded):
        m.lines.add(f"if ({m.builtin('tid')} == 0) {name}[{k}] = {literal(0, dtype).text};")
    m.exprs[inst.out] = named(name)


# --- several results ------------------------------------------------------------------------------


def _philox(m: MslEmitter, inst: Inst) -> None:
    """Four words of random bits; of vectors lane by lane."""
    xs = [m.use(v) for v in inst.operands]
    lanes = max(x.lanes for x in xs)
    if lanes > 1:
        raise Unsupported("philox of vectors has no spelling in Metal", loc=inst.loc)
    ours = m.library.text("philox")
    counter, key = call("uint4", *xs[:4]), call("uint2", *xs[4:])
    name = m.scope.claim(next((v.hint for v in inst.outs if v.hint), "random"))
    m.lines.add(f"uint4 {name} = {ours}({counter.text}, {key.text});")
    for out, axis in zip(inst.outs, AXES, strict=True):
        m.exprs[out] = named(f"{name}.{axis}")


# --- simdgroup matrices ---------------------------------------------------------------------------


def _mma_zero(m: MslEmitter, inst: Inst) -> None:
    t = type_name(inst.out.dtype)
    name = m.scope.claim(inst.out.hint or "acc")
    m.lines.add(f"{m.type_of(inst.out)} {name} = make_filled_simdgroup_matrix<{t}, 8, 8>({literal(0, inst.out.dtype).text});")
    m.exprs[inst.out] = named(name)
    m.owned.add(inst.out)


def _mma(m: MslEmitter, inst: Inst) -> None:
    a, a_stride, b, b_stride, acc = inst.operands[:5]
    names = []
    for wish, pointer, stride in (("a", a, a_stride), ("b", b, b_stride)):
        names.append(m.scope.claim(f"{wish}_tile"))
        m.lines.add(f"simdgroup_{type_name(pointer.dtype)}8x8 {names[-1]};")
        m.lines.add(f"simdgroup_load({names[-1]}, {m.address(pointer).text}, {_stride(m, stride)});")
    total = m.use(acc)
    if m.is_last_use(acc, inst):
        m.exprs[inst.out] = result = total
        m.owned.add(inst.out)
    else:
        result = named(m.scope.claim(inst.out.hint or "acc"))
        m.lines.add(f"{m.type_of(inst.out)} {result.text};")
        m.exprs[inst.out] = result
        m.owned.add(inst.out)
    m.lines.add(f"simdgroup_multiply_accumulate({result.text}, {names[0]}, {names[1]}, {total.text});")


def _stride(m: MslEmitter, stride: Value) -> str:
    expr = m.use(stride)
    return expr.text if m.range_of(stride).is_single else call("ulong", expr).text


def _mma_store(m: MslEmitter, inst: Inst) -> None:
    pointer, stride, fragment = inst.operands[:3]
    tile = m.use(fragment).text
    if pointer.dtype is not fragment.dtype:  # both kinds of matrix spread their elements alike
        t = type_name(pointer.dtype)
        rounded = m.scope.claim("rounded")
        m.lines.add(f"simdgroup_{t}8x8 {rounded};")
        for i in (0, 1):
            m.lines.add(f"{rounded}.thread_elements()[{i}] = {t}({tile}.thread_elements()[{i}]);")
        tile = rounded
    m.lines.add(f"simdgroup_store({tile}, {m.address(pointer).text}, {_stride(m, stride)});")


MEMORY: dict[str, Callable[[MslEmitter, Inst], None]] = {
    "load": _load, "store": _store, "alloc_tg": _alloc, "scratch": msl_vectors.scratch,
    "lane": msl_vectors.lane, "vload": msl_vectors.vload, "vstore": msl_vectors.vstore, "hreduce": msl_vectors.hreduce, "vextract": msl_vectors.vextract, "vgather": msl_vectors.vgather,
    "philox": _philox, "mma_zero": _mma_zero, "mma": _mma, "mma_store": _mma_store,
    "device_assert": msl_log.device_assert, "device_print": msl_log.device_print, "write_log": msl_log.write_log,
    **FRAGMENTS,
    **{f"atomic_{kind}": msl_atomics.atomic for kind in ("add", "max", "min", "and", "or", "xor", "xchg", "cas", "poll")},
}  # fmt: skip
