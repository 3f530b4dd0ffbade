"""The page of a lazy tensor: the graph as written and as it runs, its kernels, its memory, and why edges were cut."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from eas.compiler import Variant
from eas.explain.graph import Box, Edge, draw
from eas.explain.kernel_page import texts_of
from eas.explain.linked import Listing, Spot, TextLine, joined, source_blocks, spots_of
from eas.explain.machine import roof_of
from eas.explain.page import Explanation, Section, page, table, tiles
from eas.explain.panes import HELP, Keys, framed, listing_panes, source_pane
from eas.explain.roofline import Measured, chart
from eas.explain.svg import element, esc, nbytes, si
from eas.explain.timeline import Span, live_nbytes, timeline
from eas.ir import IRModule
from eas.lowering import compile_module
from eas.runtime import Runtime, keys

_MOST_NODES = 240
_MOST_TEXTS = 40  # kernels whose texts are shown
_MOST_FOLDED = 8  # of these, kernels that have the texts of other targets, too
_REPEATS = 5


class Step(Protocol):
    """A kernel of a plan; its nodes have `op.name`, `shape`, `dtype`, `src`, `memory` and `loc`."""

    @property
    def name(self) -> str: ...
    @property
    def template(self) -> str: ...
    @property
    def nodes(self) -> Sequence[Any]: ...
    @property
    def bytes(self) -> int: ...
    @property
    def flops(self) -> int: ...
    @property
    def seconds(self) -> float | None: ...
    @property
    def module(self) -> IRModule | None: ...


class Plan(Protocol):
    """What will run for a tensor, as `eas.lazy.plan` has it."""

    @property
    def nodes(self) -> Sequence[Any]: ...
    @property
    def kernels(self) -> Sequence[Step]: ...
    @property
    def cuts(self) -> Sequence[Any]: ...
    @property
    def buffers(self) -> Sequence[Any]: ...


def explain_plan(plan: Plan, runtime: Runtime, run: Callable[[], object] | None = None, note: str = "") -> Explanation:
    """The page of a plan; `run` runs all of it once and leaves each kernel's seconds."""
    times = _times(plan, run)
    texts = [_texts(step, runtime.name, i < _MOST_FOLDED) for i, step in enumerate(plan.kernels[:_MOST_TEXTS])]
    listings = [listing for first, more in texts for listing in (*first, *more)]
    nodes = Listing("", [TextLine("", spots_of(node.loc)) for node in plan.nodes])
    found = Keys("n", [nodes, *listings])
    sources = joined(source_blocks([], [nodes, *listings]))
    sections = [
        Section("graph", "The graph, as it was written and as it runs", _graph(plan, found, source_pane(found, sources))),
        Section("kernels", "Kernels", _kernels(plan, times)),
    ]
    if plan.cuts:
        sections.append(Section("cuts", "Why it is not one kernel", _cuts(plan)))
    if plan.buffers:
        sections.append(Section("memory", "Memory", _memory(plan)))
    if any(times):
        sections.append(Section("speed", "Speed", _speed(plan, times, runtime)))
    left_out = len(plan.kernels) - _MOST_TEXTS
    if left_out > 0:
        sections[1] = sections[1]._replace(body=sections[1].body + element("p", f"The texts of {left_out:,} more kernels are left out.", class_="soft"))
    sections += [_text_section(i, step, found, *texts[i]) for i, step in enumerate(plan.kernels[:_MOST_TEXTS])]
    result = plan.nodes[-1] if plan.nodes else None
    title = f"tensor {_label(result)}" if result is not None else "tensor"
    return page(title, element("code", esc(_label(result) if result is not None else "")), _lead(plan, times, runtime, note), sections, found.rules())


def _times(plan: Plan, run: Callable[[], object] | None) -> list[float | None]:
    """Seconds of each kernel: the median of some runs."""
    if run is None or not plan.kernels:
        return [None] * len(plan.kernels)
    run()  # compiles
    taken: list[list[float | None]] = []
    for _ in range(_REPEATS):
        run()
        taken.append([step.seconds for step in plan.kernels])
    columns = [[t for t in column if t is not None] for column in zip(*taken, strict=True)]
    return [statistics.median(column) if column else None for column in columns]


def _lead(plan: Plan, times: Sequence[float | None], runtime: Runtime, note: str) -> str:
    operations = sum(node.memory is None for node in plan.nodes)
    facts = [("operations", f"{operations:,}"), ("kernels", f"{len(plan.kernels):,}"), ("edges through memory", f"{len(plan.cuts):,}")]
    facts.append(("memory of the plan", nbytes(max(live_nbytes(_spans(plan), len(plan.kernels)), default=0))))
    known = [t for t in times if t is not None]
    if known:
        facts.append(("time of all kernels", si(sum(known), "s")))
    if not plan.kernels:
        note = note or "It is in memory already: nothing will run."
    shown = element("p", esc(note), class_="sub") if note else ""
    return element("p", esc(f"lazy tensor on {runtime.name}"), class_="sub") + shown + tiles(facts)


# --- graphs ---------------------------------------------------------------------------------------


def _label(node: Any) -> str:
    extents = ",".join(map(str, node.shape))
    return f"{node.op.name} {node.dtype}[{extents}]" if node.shape else f"{node.op.name} {node.dtype}"


def _where(node: Any) -> str:
    spots: tuple[Spot, ...] = spots_of(node.loc)
    return f"line {spots[0][1]}" if spots else "no line"


def _about(node: Any) -> str:
    numbers = [repr(s) for s in node.src if isinstance(s, bool | int | float)]
    state = "in memory" if node.memory is not None else _where(node)
    return f"{_label(node)}, {state}" + (f", with {', '.join(numbers)}" if numbers else "")


def _graph(plan: Plan, found: Keys, sources: str) -> str:
    left = element("div", sources + _fused(plan), class_="stack")
    if len(plan.nodes) > _MOST_NODES:
        return element("p", esc(f"The graph has {len(plan.nodes):,} nodes, too many for a picture; this is what runs."), class_="soft") + left
    place = {id(node): i for i, node in enumerate(plan.nodes)}
    cut = _cut_numbers(plan)
    kernel = {id(node): i for i, step in enumerate(plan.kernels) for node in step.nodes}
    boxes = [Box(_label(n), _about(n) + _in_kernel(kernel, n), _kind(kernel, n), found.of(spots_of(n.loc)[:1])) for n in plan.nodes]
    edges = []
    for node in plan.nodes:
        for source in node.src:
            if id(source) in place:
                mark, reason = cut.get((id(source), id(node)), ("", ""))
                edges.append(Edge(place[id(source)], place[id(node)], reason, mark))
    words = "Boxes of one colour become one kernel. Dashed edges with a number go through memory; the list below says why. Dashed boxes are in memory already."
    picture = framed("As it was written", draw(boxes, edges, "The graph as it was written"), f"{len(boxes)} nodes")
    return element("p", f"{HELP} {words}", class_="keys") + element("div", left + picture, class_="panes")


def _kind(kernel: dict[int, int], node: Any) -> str:
    return "leaf" if node.memory is not None else f"g{kernel[id(node)] % 8}" if id(node) in kernel else ""


def _in_kernel(kernel: dict[int, int], node: Any) -> str:
    return f", in kernel {kernel[id(node)] + 1}" if id(node) in kernel else ""


def _cut_numbers(plan: Plan) -> dict[tuple[int, int], tuple[str, str]]:
    return {(id(c.producer), id(c.consumer)): (str(i), c.reason) for i, c in enumerate(plan.cuts, 1)}


def _fused(plan: Plan) -> str:
    """Kernels and the memory between them."""
    if not plan.kernels or len(plan.kernels) > _MOST_NODES:
        return ""
    owner = {id(node): i for i, step in enumerate(plan.kernels) for node in step.nodes}
    leaves = [n for n in plan.nodes if n.memory is not None]
    boxes = [Box(_label(n), _about(n), "leaf") for n in leaves]
    boxes += [Box(f"{i + 1}  {step.name}", f"{step.template} kernel of {len(step.nodes)} operations", f"kernel g{i % 8}", href=f"kernel-{i + 1}" if i < _MOST_TEXTS else "") for i, step in enumerate(plan.kernels)]
    place = {id(n): i for i, n in enumerate(leaves)} | {key: len(leaves) + i for key, i in owner.items()}
    cut = _cut_numbers(plan)
    seen: dict[tuple[int, int], Edge] = {}
    for step in plan.kernels:
        for node in step.nodes:
            for source in node.src:
                ends = (place.get(id(source), -1), place[id(node)])
                if ends[0] >= 0 and ends[0] != ends[1] and ends[0] < ends[1]:
                    mark, reason = cut.get((id(source), id(node)), ("", ""))
                    if ends not in seen or mark:
                        seen[ends] = Edge(*ends, reason or nbytes(source.dtype.nbytes * _size(source)), mark)
    return framed("As it runs", draw(boxes, list(seen.values()), "The graph as it runs"), f"{len(plan.kernels)} kernel{'s' * (len(plan.kernels) != 1)}")


def _size(node: Any) -> int:
    count = 1
    for extent in node.shape:
        count *= extent
    return count


# --- tables ---------------------------------------------------------------------------------------


def _kernels(plan: Plan, times: Sequence[float | None]) -> str:
    rows = []
    for i, (step, seconds) in enumerate(zip(plan.kernels, times, strict=True), 1):
        rate = [si(step.bytes / seconds, "B/s"), si(step.flops / seconds, "FLOP/s")] if seconds else ["", ""]
        rows.append([str(i), step.name, step.template, str(len(step.nodes)), nbytes(step.bytes), si(step.flops), si(seconds, "s") if seconds else "", *rate])
    head = ("", "kernel", "template", "operations", "bytes", "float operations", "time", "memory", "arithmetic")
    return element("div", table(head, rows, (3, 4, 5, 6, 7, 8)), class_="card") if rows else ""


def _cuts(plan: Plan) -> str:
    items = []
    for cut in plan.cuts:
        reader = "the result" if cut.consumer is None else f"{_label(cut.consumer)} ({_where(cut.consumer)})"
        words = element("code", esc(f"{_label(cut.producer)} ({_where(cut.producer)})")) + " → " + element("code", esc(reader))
        items.append(element("li", f"{words}: {element('b', esc(cut.reason))}"))
    return element("p", "These edges go through memory, each for a reason:") + element("ol", "".join(items), class_="cuts")


def _spans(plan: Plan) -> list[Span]:
    return [Span(b.id, _label(b.node), b.nbytes, b.first, b.last, b.reused_from) for b in plan.buffers]


def _memory(plan: Plan) -> str:
    words = element("p", "Results of kernels from the one that writes them to their last reader; what lies in one row shares memory. The bars above say how much is alive.", class_="soft")
    return words + element("div", timeline(_spans(plan), [step.name for step in plan.kernels]), class_="card")


def _speed(plan: Plan, times: Sequence[float | None], runtime: Runtime) -> str:
    measured = [Measured(f"{i} {step.name}", t, step.bytes, step.flops, str(i)) for i, (step, t) in enumerate(zip(plan.kernels, times, strict=True), 1) if t]
    roof = roof_of(runtime, max((m.rate for m in measured), default=0.0))
    words = element("p", esc(f"Kernels by their numbers under the roof of this machine ({roof.about}); times are medians of {_REPEATS} runs, with allocation and launch."), class_="soft")
    return words + element("div", chart(roof, measured), class_="card")


# --- texts ----------------------------------------------------------------------------------------


def _texts(step: Step, backend: str, with_others: bool) -> tuple[list[Listing], list[Listing]]:
    """The IR and the text of the kernel for arguments of which nothing more is known."""
    module = step.module
    if module is None:
        return [Listing("IR", note="A function of eas.lib computes this, with kernels of its own: their `explain` shows them.")], []
    settings = keys.settings_now()
    variant = Variant(step.name, compile_module(module, frozenset(), settings.noopt), settings=settings)
    return texts_of(variant, backend, with_others)


def _text_section(i: int, step: Step, found: Keys, first: list[Listing], more: list[Listing]) -> Section:
    lead = element("p", esc(f"{step.template} kernel of {len(step.nodes)} operations: {', '.join(n.op.name for n in step.nodes[:24])}"), class_="soft")
    return Section(f"kernel-{i + 1}", f"Kernel {i + 1}: {step.name}", lead + listing_panes(found, first, more))
