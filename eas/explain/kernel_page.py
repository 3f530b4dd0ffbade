"""The page of one launch of a kernel: its lines, what became of them, and how fast that is."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from eas.base.backends import runs_metal
from eas.explain.linked import Listing, ir_listing, metal_listings, native_listings, source_blocks
from eas.explain.machine import Roof, roof_of
from eas.explain.page import Explanation, Section, page, table, tiles
from eas.explain.panes import Keys, panes
from eas.explain.roofline import Measured, chart, shares, verdict
from eas.explain.svg import element, esc, nbytes, si
from eas.interop.devices import device_of
from eas.interop.views import is_scalar
from eas.ir import walk

if TYPE_CHECKING:
    from eas.compiler import CompiledKernel, Variant
    from eas.launch.prepared import Explained, Launch

_MEASURE_SECONDS = 0.1
_MOST_REPEATS = 50
_LONG_SECONDS = 1.0  # a launch that is not repeated


def explain_launch(explained: Explained, *, measure: bool = True) -> Explanation:
    """The page of a launch; what the kernel would write is written to copies only."""
    fn, shown, math_mode, compiled, launch = explained
    seconds, why_not = measured_seconds(launch, compiled.writes) if measure else ([], "Nobody asked for a measurement.")
    listings, more = texts_of(launch.variant, launch.runtime.name)
    keys = Keys("k", [*listings, *more])
    sources = source_blocks([fn.__code__], [*listings, *more])
    sections = [
        Section("speed", "Speed", _speed(launch, seconds, why_not)),
        Section("code", "Code", panes(keys, sources, listings, more)),
        Section("launch", "Launch", _launch(math_mode, compiled, launch, shown)),
    ]
    place = f"{sources[0].shown_name}:{sources[0].first}" if sources else "no file"
    lead = element("p", esc(f"{launch.runtime.name} · grid {_extents(launch.grid)} · {place}"), class_="sub") + _summary(launch, seconds)
    signature = f"{fn.__name__}({', '.join(shown)})"
    return page(f"kernel {fn.__name__}", element("code", esc(signature)), lead, sections, keys.rules())


def texts_of(variant: Variant, backend: str, with_others: bool = True) -> tuple[list[Listing], list[Listing]]:
    """The texts of a variant: those that the backend runs, then the others, if anybody wants them."""
    ir, is_metal = ir_listing("IR", variant.module), runs_metal(backend)
    native = native_listings(variant) if with_others or not is_metal else []
    metal = metal_listings(variant) if with_others or is_metal else []
    if is_metal:
        return [ir, *metal], native
    return [ir, *native[:1]], [*(native[1:] if with_others else []), *metal]


# --- measuring ------------------------------------------------------------------------------------


def measured_seconds(launch: Launch, writes: Sequence[str]) -> tuple[list[float], str]:
    """Seconds of some launches on copies of what is written, or why there are none."""
    names = [a.name for a in launch.variant.module.args]
    if any(inst.op.name == "device_print" for inst in walk(launch.variant.module.body)):
        return [], "The kernel prints, so it was not run again and again to be measured."
    if any(not (isinstance(a, np.ndarray) or is_scalar(a)) for a in launch.args):
        return [], "The arguments live in memory of another library, which is not copied to be measured."
    args = _copies(launch, dict(zip(names, launch.args, strict=True)), writes)
    if args is None:
        return [], "Arguments overlap, and one of them is written: there is no faithful copy to measure on."
    runtime, given = launch.runtime, [args[name] for name in names]
    runtime.prepare(launch.variant)
    begin = time.perf_counter()
    runtime.run(launch.variant, given, launch.grid)
    runtime.wait()
    once = time.perf_counter() - begin
    if once > _LONG_SECONDS:
        return [once], ""
    repeats = int(min(max(_MEASURE_SECONDS / max(once, 1e-6), 3), _MOST_REPEATS))
    return runtime.benchmark(launch.variant, given, launch.grid, warmup=1, repeat=repeats), ""


def _copies(launch: Launch, args: dict[str, Any], writes: Sequence[str]) -> dict[str, Any] | None:
    """The arguments with copies of written arrays, one per memory: arguments that are one array stay so."""
    made: dict[tuple[int, int], Any] = {}
    device = device_of("mps" if launch.runtime.name == "mps" else "cpu")
    given = {name: a for name, a in args.items() if isinstance(a, np.ndarray)}
    for name in writes:
        array = given[name]
        spot = _span(array)
        for other in given.values():
            begin, end = _span(other)
            if (begin, end) != spot and begin < spot[1] and spot[0] < end:
                return None
        if spot not in made:
            copy = np.ndarray(array.shape, array.dtype, device.allocate(array.nbytes))
            copy[...] = array
            made[spot] = copy
    return {name: made.get(_span(a), a) if isinstance(a, np.ndarray) else a for name, a in args.items()}


def _span(array: Any) -> tuple[int, int]:
    begin = int(array.__array_interface__["data"][0])
    return begin, begin + int(array.nbytes)


def _work(launch: Launch) -> tuple[int | None, int | None]:
    programs = math.prod(launch.grid)
    moved, computed = launch.runtime.work(launch.variant, launch.args)
    return (None if moved is None else moved * programs), (None if computed is None else computed * programs)


# --- sections -------------------------------------------------------------------------------------


def _extents(grid: Sequence[int]) -> str:
    return " x ".join(map(str, grid))


def _summary(launch: Launch, seconds: Sequence[float]) -> str:
    moved, computed = _work(launch)
    facts = [("programs", f"{math.prod(launch.grid):,}")]
    if seconds:
        facts.insert(0, ("median time", si(statistics.median(seconds), "s")))
    facts.append(("bytes read and written", "unknown" if moved is None else nbytes(moved)))
    facts.append(("float operations", "unknown" if computed is None else si(computed)))
    if seconds and moved:
        facts.append(("memory", si(moved / statistics.median(seconds), "B/s")))
    if seconds and computed:
        facts.append(("arithmetic", si(computed / statistics.median(seconds), "FLOP/s")))
    return tiles(facts)


def _speed(launch: Launch, seconds: Sequence[float], why_not: str) -> str:
    if not seconds:
        return element("p", esc(why_not), class_="soft")
    moved, computed = _work(launch)
    measured = Measured(launch.variant.name, statistics.median(seconds), moved, computed)
    roof = roof_of(launch.runtime, measured.rate)
    rows = [[what, si(rate, what), f"{share:.1%}", _limit(roof, what)] for what, rate, share in shares(roof, measured)]
    spread = f"{len(seconds)} launches on copies of what is written: {si(min(seconds), 's')} at best, {si(statistics.median(seconds), 's')} median, {si(max(seconds), 's')} at worst."
    words = element("p", esc(verdict(roof, measured))) + table(("rate", "measured", "share", "this machine"), rows, (1, 2, 3))
    words += element("p", esc(spread), class_="soft")
    words += element("p", esc(f"The roof was measured with a copy and with fused multiply-adds ({roof.about}). Bytes and operations are those of the IR: every lane counts, masked off or not."), class_="soft")
    picture = element("div", chart(roof, [measured]), class_="card")
    return element("div", picture + element("div", words, class_="card"), class_="cards")


def _limit(roof: Roof, what: str) -> str:
    return si(roof.bytes_per_second if what == "B/s" else roof.flops_per_second, what)


def _launch(math_mode: str, compiled: CompiledKernel, launch: Launch, shown: Mapping[str, Any]) -> str:
    variant = launch.variant
    facts = [
        ("backend", launch.runtime.name),
        ("launch mode", compiled.launch_mode),
        ("grid", _extents(launch.grid)),
        ("block", str(compiled.block_size or ", ".join(map(str, compiled.grid_info.block_sizes)) or "none")),
        ("threads per threadgroup", str(compiled.tptg[0])),
        ("math mode", math_mode),
        ("variant relies on", ", ".join(sorted(map(str, variant.facts))) or "nothing"),
        ("it may ask for", ", ".join(sorted(map(str, compiled.facts))) or "nothing"),
        ("optimised", "no (EAS_NOOPT=1)" if variant.settings.noopt else "yes"),
    ]
    types = {a.name: str(a.type) for a in compiled.args}
    rows = [[name, types.get(name, "trace-time"), described(value), _role(name, compiled)] for name, value in shown.items()]
    rows += [[a.name, str(a.type), "a stride that the kernel asks for", "read"] for a in compiled.args if a.name not in shown]
    left = element("div", table(("fact", "of this launch"), facts), class_="card")
    right = element("div", table(("parameter", "type", "argument", "memory"), rows), class_="card")
    return element("div", left + right, class_="cards")


def _role(name: str, compiled: CompiledKernel) -> str:
    words = [word for word, names in (("read", compiled.reads), ("written", compiled.writes)) if name in names]
    return " and ".join(words)


def described(value: Any) -> str:
    """An argument in a few words; nobody's `repr` runs but those of plain values."""
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is not None and dtype is not None and not is_scalar(value):
        device = getattr(value, "device", "")
        return f"{type(value).__name__} {dtype}{list(shape)}{f' on {device}' if device else ''}"
    shown = repr(value) if value is None or isinstance(value, int | float | str | bool | np.generic) else type(value).__name__
    return shown if len(shown) <= 80 else f"{shown[:79]}…"
