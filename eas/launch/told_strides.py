"""Strides that a caller passes as plain numbers: a copy without gaps would apply them twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from eas.base.errors import ArgumentError
from eas.base.loading import load
from eas.interop.arguments import ArgView

if TYPE_CHECKING:
    from eas.analysis.indexing import Affine
    from eas.compiler import CompiledKernel


def steps_of(seen: ArgView) -> set[int]:
    """The distances, other than 1, of neighbours along the axes of an array."""
    return {step for size, step in zip(seen.shape, seen.strides, strict=True) if size > 1 and step != 1}


def refuse_told_strides(compiled: CompiledKernel, seen: ArgView, given: Mapping[str, Any]) -> None:
    """Raise if a kernel that would get a copy of a strided array addresses it by the strides of the array itself."""
    steps = steps_of(seen)
    gaps = steps - {prod(seen.shape[axis + 1 :]) for axis in range(len(seen.shape))}
    numbers = {name: value for name, value in given.items() if type(value) is int}
    if not any(value and gap % value == 0 for value in numbers.values() for gap in gaps):
        return  # the usual case, without a look at the kernel
    found = {sum(factor * prod(numbers[n] for n in names) for factor, names in each): each for each in _multiples(compiled, seen.name)}
    if not steps <= found.keys():
        return
    gap = min(gaps)
    name = " + ".join("*".join(([str(factor)] if factor != 1 or not names else []) + list(names)) for factor, names in found[gap])
    raise ArgumentError(
        f"argument {seen.name!r} has shape {seen.shape} and strides {seen.strides}, so the kernel would see a copy of it without gaps; "
        f"but it steps through {seen.name!r} by `{name}` = {gap}, the stride of the array itself",
        hint=f"ask the array in the kernel, {seen.name}.stride(0), or give the parameter a name with `stride` in it: then it runs on the memory itself; or pass a contiguous copy and its own stride",
    )


Product = tuple[int, tuple[str, ...]]
"""A number times arguments of the kernel."""
_known: WeakKeyDictionary[CompiledKernel, dict[str, list[list[Product]]]] = WeakKeyDictionary()


def _multiples(compiled: CompiledKernel, buffer: str) -> list[list[Product]]:
    """What positions (lanes, program ids, counters) are multiplied by where the kernel addresses a buffer: sums of products."""
    known = _known.setdefault(compiled, {})
    if buffer not in known:
        load("eas.analysis.indexing")
        scalars = {a.name for a in compiled.args if not a.is_buffer}
        forms = [a.form for a in compiled.index_analysis.accesses if a.name == buffer and a.form is not None]
        known[buffer] = [sums for form in forms for sums in _by_position(form, scalars)]
    return known[buffer]


def _by_position(form: Affine, scalars: set[str]) -> Iterator[list[Product]]:
    found: dict[tuple[Any, ...], list[Product]] = {}
    parts = [((), form.offset), *(((term.key,), term.stride) for term in form.terms)]
    for lanes, linear in parts:
        for monomial, factor in linear.items():
            arguments = tuple(s.name for s in monomial if s.kind == "value" and s.name in scalars)
            position = (lanes, tuple(s for s in monomial if s.name not in arguments))
            found.setdefault(position, []).append((factor, arguments))
    return (sums for position, sums in found.items() if position != ((), ()))
