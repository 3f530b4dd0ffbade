"""A directed graph as a picture: nodes in layers from sources to results, few crossings, edges around what is between."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from eas.explain.svg import element, number, rect, svg, text, title

_CHAR, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 7.0, 26.0, 16.0, 26.0, 14.0
_SWEEPS = 6


class Box(NamedTuple):
    """A node: its words, what the pointer tells of it, its class of style, the keys of lines that it belongs to, or another place of the page."""

    words: str
    about: str
    kind: str = ""
    key: str = ""
    href: str = ""


class Edge(NamedTuple):
    """From one node to another, by their numbers; `mark` stands on it."""

    source: int
    dest: int
    about: str = ""
    mark: str = ""


@dataclass(eq=False)
class _Cell:
    """A place in a layer: a node, or where a long edge passes."""

    layer: int
    width: float
    place: float = 0.0
    x: float = 0.0
    above: list[_Cell] = field(default_factory=list)
    below: list[_Cell] = field(default_factory=list)


def draw(boxes: Sequence[Box], edges: Sequence[Edge], label: str) -> str:
    """The picture; edges lead from lower numbers to higher ones."""
    cells = [_Cell(layer, len(box.words) * _CHAR + 24) for box, layer in zip(boxes, _layers(len(boxes), edges), strict=True)]
    routes = [_route(cells, edge) for edge in edges]
    layers = _arranged(cells, routes)
    width = max((cell.x + cell.width / 2 for row in layers for cell in row), default=0) + _MARGIN
    height = len(layers) * (_HEIGHT + _GAP_Y) - _GAP_Y + 2 * _MARGIN
    lines = "".join(_edge(edge, route) for edge, route in zip(edges, routes, strict=True))
    shown = "".join(_box(box, cell) for box, cell in zip(boxes, cells, strict=True))
    return element("div", svg((width, height), label, lines, shown, is_fixed=True), class_="scroll graph", tabindex="-1")


def _layers(count: int, edges: Sequence[Edge]) -> list[int]:
    """How far each node is from the sources; a source stands right above its first reader."""
    depth = [0] * count
    for edge in sorted(edges, key=lambda e: e.dest):
        depth[edge.dest] = max(depth[edge.dest], depth[edge.source] + 1)
    has_source = {e.dest for e in edges}
    for node in range(count):
        readers = [depth[e.dest] for e in edges if e.source == node]
        if node not in has_source and readers:
            depth[node] = min(readers) - 1
    return depth


def _route(cells: list[_Cell], edge: Edge) -> list[_Cell]:
    """The places that an edge passes, both ends included."""
    first, last = cells[edge.source], cells[edge.dest]
    route = [first, *(_Cell(layer, 6.0) for layer in range(first.layer + 1, last.layer)), last]
    for upper, lower in itertools.pairwise(route):
        upper.below.append(lower)
        lower.above.append(upper)
    return route


def _arranged(cells: list[_Cell], routes: list[list[_Cell]]) -> list[list[_Cell]]:
    """Layers from left to right, each cell near the middle of what it is bound to (barycentres, some sweeps)."""
    every = list(dict.fromkeys([*cells, *(cell for route in routes for cell in route)]))
    layers: list[list[_Cell]] = [[] for _ in range(max((c.layer for c in every), default=-1) + 1)]
    for cell in every:
        cell.place = float(len(layers[cell.layer]))
        layers[cell.layer].append(cell)
    for sweep in range(_SWEEPS):
        is_down = sweep % 2 == 0
        for row in layers if is_down else layers[::-1]:
            for cell in row:
                near = cell.above if is_down else cell.below
                if near:
                    cell.place = sum(c.place for c in near) / len(near)
            row.sort(key=lambda c: c.place)
            for i, cell in enumerate(row):
                cell.place = float(i)
    _spread(layers)
    return layers


def _spread(layers: list[list[_Cell]]) -> None:
    """Horizontal places: each layer around the middle, then pulled towards neighbours as far as order and gaps allow."""
    for row in layers:
        _place(row, [0.0] * len(row))
    for sweep in range(2 * _SWEEPS):
        for row in layers if sweep % 2 else layers[::-1]:
            _place(row, [_middle(cell) for cell in row])
    start = min((cell.x - cell.width / 2 for row in layers for cell in row), default=0) - _MARGIN
    for row in layers:
        for cell in row:
            cell.x -= start


def _place(row: list[_Cell], wanted: list[float]) -> None:
    """Cells of a layer near where they want to be, in order; what some are pushed aside, all give back."""
    left = -1e9
    for cell, x in zip(row, wanted, strict=True):
        cell.x = max(x, left + cell.width / 2)
        left = cell.x + cell.width / 2 + _GAP_X
    pushed = sum(cell.x - x for cell, x in zip(row, wanted, strict=True)) / max(len(row), 1)
    for cell in row:
        cell.x -= pushed


def _middle(cell: _Cell) -> float:
    near = [*cell.above, *cell.below]
    return sum(c.x for c in near) / len(near) if near else cell.x


def _top(cell: _Cell) -> float:
    return _MARGIN + cell.layer * (_HEIGHT + _GAP_Y)


def _edge(edge: Edge, route: list[_Cell]) -> str:
    start = (route[0].x, _top(route[0]) + _HEIGHT)
    parts = [f"M{number(start[0])} {number(start[1])}"]
    x, y = start
    for cell in route[1:]:
        end = _top(cell)
        bend = (end - y) / 2
        parts.append(f"C{number(x)} {number(y + bend)} {number(cell.x)} {number(end - bend)} {number(cell.x)} {number(end)}")
        x, y = cell.x, end
        if cell is not route[-1]:
            y += _HEIGHT
            parts.append(f"L{number(x)} {number(y)}")
    told = title(edge.about) if edge.about else ""
    line = element("path", told, d="".join(parts), class_="edge cut" if edge.mark else "edge")
    if not edge.mark:
        return line
    at_x, at_y = (start[0] + route[1].x) / 2, (start[1] + _top(route[1])) / 2
    return line + element("circle", told, cx=at_x, cy=at_y, r=9, class_="mark") + text(at_x, at_y + 4, edge.mark, text_anchor="middle", class_="ink")


def _box(box: Box, cell: _Cell) -> str:
    left, top = cell.x - cell.width / 2, _top(cell)
    inside = title(box.about) + rect(left, top, cell.width, _HEIGHT, rx=6) + text(cell.x, top + 17.5, box.words, text_anchor="middle", class_="ink")
    target = box.href or box.key.split(" ")[0]
    if not target:
        return element("g", inside, class_=f"node {box.kind}")
    return element("a", inside, class_=f"node {box.kind}", href=f"#{target}", data_k=box.key or None)
