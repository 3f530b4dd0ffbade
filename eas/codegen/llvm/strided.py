"""Elements at equal distances as LLVM text: shuffled out of whole registers where they are near or backwards, else one by one.

Addresses are one base and multiples of one step, so that no vector of pointers is made; the processors that we
know do not gather faster than they load.
"""

from __future__ import annotations

from collections.abc import Sequence

from eas.codegen.llvm.opaque_mask import is_on
from eas.codegen.llvm.text import Reg, Text, bits_of, vector
from eas.schedule.target import NEAR_STEPS

_REGISTER_NBYTES = 32


def load(t: Text, element: str, pointer: Reg, step: Reg, lanes: int, align: int) -> Reg:
    """Lane l holds pointer[l * step]."""
    if lanes == 1:
        return t.let(f"load {element}, {pointer}, align {align}", element, 1)
    if step.text == "-1":
        run = t.let(f"load {vector(element, lanes)}, {_at(t, element, pointer, 1 - lanes)}, align {align}", element, lanes)
        return t.shuffle(run, run, list(range(lanes))[::-1])
    wide = _wide(element, lanes)
    if step.text.isdigit() and int(step.text) in NEAR_STEPS and wide >= 4:
        parts = [_near(t, element, _at(t, element, pointer, i * int(step.text)), int(step.text), wide, i + wide == lanes, align) for i in range(0, lanes, wide)]
        return t.join(parts)
    value = Reg("poison", element, lanes)
    for i, at in enumerate(_addresses(t, element, pointer, step, lanes)):
        value = t.insert(value, t.let(f"load {element}, {at}, align {align}", element, 1), i)
    return value


def store(t: Text, value: Reg, pointer: Reg, step: Reg, align: int) -> None:
    """pointer[l * step] becomes what lane l holds; of equal places the last lane's."""
    if step.text == "-1" and value.lanes > 1:
        run = t.shuffle(value, value, list(range(value.lanes))[::-1])
        t.line(f"store {run}, {_at(t, value.element, pointer, 1 - value.lanes)}, align {align}")
        return
    for i, at in enumerate(_addresses(t, value.element, pointer, step, value.lanes)):
        t.line(f"store {t.extract(value, i)}, {at}, align {align}")


def can_load_some(element: str, step: Reg, lanes: int) -> bool:
    """Whether `load_some` knows elements at these distances."""
    return step.text.isdigit() and int(step.text) in NEAR_STEPS and bits_of(element) == 32 and lanes % _wide(element, lanes) == 0


def load_some(t: Text, pointer: Reg, step: int, mask: Reg, other: Reg, align: int, middle: tuple[int, int] = (0, 0)) -> Reg:
    """Lane l holds pointer[l * step] where the mask is on, and surely in the middle; `other` elsewhere. Nothing else is read."""
    element, lanes, parts = other.element, other.lanes, list[Reg]()
    wide = _wide(element, lanes)
    for first in range(0, lanes, wide):
        at = _at(t, element, pointer, first * step)
        if middle[0] <= first and first + wide <= middle[1]:
            parts.append(_near(t, element, at, step, wide, True, align))
        else:
            some = t.shuffle(mask, mask, range(first, first + wide))
            parts.append(_near_some(t, at, step, some, element, align))
    value = t.join(parts)
    return value if other.text == "zeroinitializer" else t.select(is_on(t, mask), value, other)


def _near_some(t: Text, pointer: Reg, step: int, mask: Reg, element: str, align: int) -> Reg:
    wide = mask.lanes
    off, nothing = Reg("zeroinitializer", mask.element, wide), Reg("zeroinitializer", element, wide)
    starts = [k * wide for k in range(step)]
    registers = []
    for start in starts:
        places = range(start, start + wide)
        spread = t.shuffle(mask, off, [p // step if p % step == 0 else wide for p in places])
        registers.append(t.masked_load(_at(t, element, pointer, start), align, is_on(t, spread), nothing))
    return _picked(t, registers, starts)


def _wide(element: str, lanes: int) -> int:
    return min(lanes, _REGISTER_NBYTES * 8 // bits_of(element))


def _near(t: Text, element: str, pointer: Reg, step: int, wide: int, is_last: bool, align: int) -> Reg:
    """`wide` elements out of `step` registers; the last of all ends with the last element that is asked for."""
    starts = [k * wide for k in range(step)]
    if is_last:
        starts[-1] -= step - 1
    registers = [t.let(f"load {vector(element, wide)}, {_at(t, element, pointer, at)}, align {align}", element, wide) for at in starts]
    return _picked(t, registers, starts)


def _picked(t: Text, registers: Sequence[Reg], starts: Sequence[int]) -> Reg:
    """Every element at a multiple of the number of registers, each of which starts somewhere."""
    step, wide = len(registers), registers[0].lanes
    where = [max(k for k in range(step) if starts[k] <= i * step) for i in range(wide)]
    places = [i * step - starts[k] for i, k in enumerate(where)]
    if len(set(places)) == wide:  # nothing is in the way of anything: blend, and then permute once
        order = sorted(range(wide), key=lambda i: places[i])
        found = registers[0]
        for k in range(1, step):
            found = t.shuffle(found, registers[k], [p + wide * (where[order[p]] == k) for p in range(wide)])
        return t.shuffle(found, found, places)
    found, held = registers[0], [places[i] if k == 0 else 0 for i, k in enumerate(where)]
    for k in range(1, step):
        found = t.shuffle(found, registers[k], [wide + places[i] if where[i] == k else held[i] for i in range(wide)])
        held = list(range(wide))
    return found


def _at(t: Text, element: str, pointer: Reg, offset: int) -> Reg:
    return t.let(f"getelementptr {element}, {pointer}, i64 {offset}", "ptr", 1) if offset else pointer


def _addresses(t: Text, element: str, pointer: Reg, step: Reg, lanes: int) -> list[Reg]:
    """Each some steps from one of few bases, whose multiples the processor adds itself."""
    found: list[Reg] = []
    for i in range(lanes):
        base, rest = (found[i - 4], 4) if i >= 4 else (pointer, i)
        offset = step if rest == 1 else t.op("mul", step, t.like(rest, step))
        found.append(t.let(f"getelementptr {element}, {base}, {offset}", "ptr", 1) if rest else pointer)
    return found
