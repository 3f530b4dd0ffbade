"""Strides that a caller passes as plain numbers: a copy without gaps would apply them twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from math import gcd, prod
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from eas.base.errors import ArgumentError, EasError
from eas.base.loading import load
from eas.base.types import Shape
from eas.interop.arguments import ArgView

if TYPE_CHECKING:
    from eas.analysis.indexing import Affine, Box
    from eas.analysis.indexing.forms import Forms
    from eas.analysis.indexing.linear import Linear, Monomial, Symbol
    from eas.compiler import CompiledKernel
    from eas.ir import Value


def steps_of(seen: ArgView) -> set[int]:
    """The distances, other than 1, of neighbours along the axes of an array."""
    return {step for size, step in zip(seen.shape, seen.strides, strict=True) if size > 1 and step != 1}


Retrace = Callable[[str, int], "CompiledKernel"]
"""The same kernel for another number of one meta-parameter."""


def refuse_told_strides(compiled: CompiledKernel, seen: ArgView, given: Mapping[str, Any], metas: Mapping[str, Any], retrace: Retrace) -> None:
    """Raise if a kernel that would get a copy of a strided array addresses it by the strides of the array itself.

    They may be arguments, sums of their products, or meta-parameters. Of the latter only the number is left in the kernel: one is a
    stride if addresses change with it, but for the length of blocks and threadgroups, which steps from tile to tile.
    """
    steps = steps_of(seen)
    gaps = steps - {prod(seen.shape[axis + 1 :]) for axis in range(len(seen.shape))}
    if not gaps:
        return
    numbers = {name: value for name, value in given.items() if type(value) is int}
    found: dict[int, str] = {}
    for each in _multiples(compiled, seen.name):
        step = sum(factor * prod(numbers[n] for n in names) for factor, names in each)
        if any(names for _, names in each):
            found[step] = " + ".join("*".join(([str(factor)] if factor != 1 or not names else []) + list(names)) for factor, names in each)
        else:
            found.setdefault(step, next((name for name, value in metas.items() if type(value) is int and value == step), ""))
    if len(seen.shape) > 1:  # a row of a matrix may be all that is read; of a vector, a number of elements is a place
        found |= {prod(numbers[n] for n in names): "*".join(names) for names in _places(compiled, seen.name) if names and prod(numbers[n] for n in names) in gaps}
    found |= {step: name for name, step in metas.items() if type(step) is int and step in gaps and not found.get(step) and _moves_with(compiled, seen, name, step, retrace)}
    told = [gap for gap in gaps if found.get(gap) or (gap in found and len(seen.shape) > 1)]  # every second element of a vector may be meant
    if not told:
        return
    gap = min(told)
    raise ArgumentError(
        f"argument {seen.name!r} has shape {seen.shape} and strides {seen.strides}, so the kernel would see a copy of it without gaps; "
        f"but it steps through {seen.name!r} by {f'`{found[gap]}` = ' if found[gap] else ''}{gap}, the stride of the array itself",
        hint=f"ask the array in the kernel, {seen.name}.stride(0), or give the parameter a name with `stride` in it: then it runs on the memory itself; or pass a contiguous copy and its own stride",
    )


def _moves_with(compiled: CompiledKernel, seen: ArgView, name: str, value: int, retrace: Retrace) -> bool:
    """Whether a meta-parameter moves addresses without being the length of anything: traced with another number, the kernel says so."""
    try:
        other = retrace(name, 2 * value)  # which what wants a power of two, or a multiple, takes too
    except EasError:
        return False
    is_vector = len(seen.shape) == 1
    forms, others = ([form for form, _, _ in _forms(k, seen.name)] for k in (compiled, other))
    lengths, other_lengths = ([shape for _, shape, _ in _forms(k, seen.name)] for k in (compiled, other))
    return lengths == other_lengths and other.tptg == compiled.tptg and (
        [f.terms for f in forms] != [f.terms for f in others] or [_moving(f, is_vector) for f in forms] != [_moving(f, is_vector) for f in others]
    )


def _moving(form: Affine, is_vector: bool) -> list[Any]:
    """The uniform part of an address, of which a vector has a place that means no stride."""
    return [(str(m), c) for m, c in form.offset.items() if m or not is_vector]


Product = tuple[int, tuple[str, ...]]
"""A number times arguments of the kernel."""
_known: WeakKeyDictionary[CompiledKernel, dict[str, list[list[Product]]]] = WeakKeyDictionary()


def _multiples(compiled: CompiledKernel, buffer: str) -> list[list[Product]]:
    """What positions (lanes, program ids, counters) are multiplied by where the kernel addresses a buffer: sums of products."""
    known = _known.setdefault(compiled, {})
    if buffer not in known:
        load("eas.analysis.indexing")
        from eas.analysis.indexing.forms import Forms

        moves, scalars = _moves(Forms(compiled.ir)), _scalars(compiled)
        tilings = {prod(compiled.tptg)} if compiled.launch_mode == "thread" else set()
        forms = _forms(compiled, buffer)
        known[buffer] = [sums for form, shape, box in forms for sums in _by_position(form, scalars, tilings | _row_lengths(form, shape, box, scalars), moves)]
        known[buffer] += _unrolled([form for form, _, _ in forms], scalars)
    return known[buffer]


def _scalars(compiled: CompiledKernel) -> set[str]:
    return {a.name for a in compiled.args if not a.is_buffer}


def _forms(compiled: CompiledKernel, buffer: str) -> list[tuple[Affine, Shape, Box]]:
    """(address, shape, mask) of every access of a buffer whose address has a formula."""
    return [(a.form, a.pointer.shape, a.box) for a in compiled.index_analysis.accesses if a.name == buffer and a.form is not None]


def _places(compiled: CompiledKernel, buffer: str) -> list[tuple[str, ...]]:
    """The products of arguments that are added to addresses of a buffer once."""
    scalars = _scalars(compiled)
    split = [_split(monomial, scalars) for form, _, _ in _forms(compiled, buffer) for monomial, _ in form.offset.terms]
    return [names for names, others in split if not others]


def _unrolled(accesses: list[Affine], scalars: set[str]) -> list[list[Product]]:
    """What accesses are several multiples of apart, as those of an unrolled loop are."""
    multiples: dict[tuple[str, ...], set[int]] = {}
    for form in accesses:
        for monomial, factor in form.offset.terms:
            arguments, others = _split(monomial, scalars)
            if not others:
                multiples.setdefault(arguments, set()).add(factor)
    return [[(gcd(*factors), names)] for names, factors in multiples.items() if len(factors) > 1]


def _moves(forms: Forms) -> dict[Value, Linear]:
    """By how much counters, and numbers that loops carry, grow with each iteration."""
    from eas.ir import walk  # loaded with the index analysis

    found: dict[Value, Linear] = {}
    for loop in walk(forms.module.body):
        if loop.op.name not in ("for", "while"):
            continue
        body, carried = loop.regions[-1], loop.regions[-1].params
        grown = [(carried[0], loop.operands[2])] if loop.op.name == "for" else []
        carried = carried[1:] if loop.op.name == "for" else carried
        for before, after in zip(carried, body.yields, strict=True):
            made = forms.origin.get(after)
            if made is not None and made.op.name == "add" and before in made.operands:
                grown.append((before, next((v for v in made.operands if v is not before), before)))
        for value, step in grown:
            form = forms.of(step)
            if form is not None and form.is_uniform:
                found[value] = form.offset
    return found


def _row_lengths(form: Affine, shape: Shape, box: Box, scalars: set[str]) -> set[int]:
    """How far the lanes of an access reach along each axis: what follows them without a gap is a tiling, not a stride.

    Lanes whose bound is the same in every program are columns of rows, which leave a gap.
    """
    bounded = {b.axis for b in box.bounds if b.is_upper and all(not others for _, others in (_split(m, scalars) for m, _ in b.limit.terms))}
    return {term.stride.const * shape[term.axis] for term in form.terms if not term.stride.terms and term.axis not in bounded}


def _by_position(form: Affine, scalars: set[str], tilings: set[int], moves: Mapping[Value, Linear]) -> Iterator[list[Product]]:
    found: dict[tuple[Any, ...], list[Product]] = {}
    parts = [((), form.offset), *(((term.key,), term.stride) for term in form.terms)]
    for lanes, linear in parts:
        for monomial, factor in linear.items():
            arguments, others = _split(monomial, scalars)
            found.setdefault((lanes, others), []).append((factor, arguments))
            for moving in others:
                growth = moves.get(moving.value) if moving.kind == "value" else None
                for per_step, multiple in growth.items() if growth is not None else ():
                    more, unknown = _split(per_step, scalars)
                    if not unknown:
                        found.setdefault((lanes, others, moving), []).append((factor * multiple, arguments + more))
    plain = (sums for position, sums in found.items() if position != ((), ()))
    return (sums for sums in plain if any(names for _, names in sums) or sum(factor for factor, _ in sums) not in tilings)


def _split(monomial: Monomial, scalars: set[str]) -> tuple[tuple[str, ...], tuple[Symbol, ...]]:
    """The arguments of a product, and what else it has."""
    arguments = tuple(s.name for s in monomial if s.kind == "value" and s.name in scalars)
    return arguments, tuple(s for s in monomial if s.name not in arguments)
