"""Pages of lazy tensors: the graph before and after fusion, reasons of cuts, memory over time, kernels under the roof."""

from __future__ import annotations

import itertools
import random
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

import eas
from eas.explain import plan_page
from eas.explain.graph import Box, Edge, _arranged, _Cell, _layers, _route, _top, draw
from eas.explain.linked import SourceBlock, joined
from eas.explain.machine import Roof
from eas.explain.plan_page import explain_plan
from eas.explain.timeline import Span, lanes, live_nbytes, timeline
from tests.unit.plan_pages import node, small_plan
from tests.unit.test_explain import EVIL, Tags

CPU = eas.runtime.get_runtime("cpu")


@pytest.fixture(autouse=True)
def _known_roof(monkeypatch):
    monkeypatch.setattr(plan_page, "roof_of", lambda runtime, seen=0.0: Roof(20e9, 200e9, "a machine"))


def words_of(page):
    return " ".join(" ".join(Tags(page.html).words).split())


def test_page_shows_both_graphs_cuts_memory_and_kernels():
    runs = []
    page = explain_plan(small_plan(), CPU, lambda: runs.append(1))
    assert len(runs) == 6  # one to compile, five to measure
    tags, words = Tags(page.html), words_of(page)
    for expected in (
        "mul f32[8,16]", "sum f32[8]", "2 t_8_16_16_dot", "a kernel has one matrix product", "a matrix product reads its operands many times",
        "at most 1 KiB alive at once", "Kernel 3: r_8_16_div_sum", "while t_8_16_16_dot runs: 1 KiB", "in the memory of buffer 2", "mul f32[8,16], line", "with 2",
    ):  # fmt: skip
        assert expected in words, expected
    assert len([a for t, a in tags.seen if t == "circle" and a["class"] == "dot"]) == 3
    assert len([a for t, a in tags.seen if t == "path" and a.get("class") == "edge cut"]) == 4  # two in each graph
    ids = [a["id"] for _, a in tags.seen if "id" in a]
    assert len(ids) == len(set(ids))
    assert {a["href"][1:] for _, a in tags.seen if a.get("href", "").startswith("#")} <= set(ids)


def test_nodes_and_lines_share_keys():
    tags = Tags(explain_plan(small_plan(), CPU).html)
    lines = {a["id"] for t, a in tags.seen if t == "a" and "id" in a}
    nodes = [a["data-k"] for t, a in tags.seen if t == "a" and "node" in a.get("class", "") and "data-k" in a]
    assert len(nodes) == 5
    assert set(nodes) <= lines
    assert any(a.get("data-k") in lines for t, a in tags.seen if t == "a" and a.get("class", "").startswith("l ") and "id" not in a)


def test_without_a_run_there_are_no_times():
    assert "time of all kernels" not in words_of(explain_plan(small_plan(), CPU))


def test_realised_tensor_has_a_page_too():
    leaf = node("buffer", memory=1)
    page = explain_plan(SimpleNamespace(nodes=[leaf], kernels=[], cuts=[], buffers=[]), CPU)
    assert "nothing will run" in words_of(page)


def test_hostile_names_stay_text():
    tags = Tags(explain_plan(small_plan(EVIL), CPU).html)
    assert [t for t, _ in tags.seen].count("script") == 1
    assert not [t for t, a in tags.seen if t == "img" or any(name.startswith("on") for name in a)]


def test_large_graphs_have_no_picture_but_a_page():
    chain = [node("buffer", memory=1)]
    for _ in range(20_000):
        chain.append(node("add", (chain[-1], 1)))
    plan = small_plan()
    plan.nodes = chain
    assert "20,001 nodes, too many for a picture" in words_of(explain_plan(plan, CPU))


# --- graphs ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(8))
def test_boxes_stand_apart_and_edges_lead_down(seed):
    rng = random.Random(seed)
    count = rng.randrange(1, 40)
    edges = [Edge(rng.randrange(i), i) for i in range(1, count) for _ in range(rng.randrange(3))]
    cells = [_Cell(layer, 60.0 + 10 * rng.randrange(10)) for layer in _layers(count, edges)]
    rows = _arranged(cells, [_route(cells, e) for e in edges])
    assert all(_top(cells[e.source]) < _top(cells[e.dest]) for e in edges)
    for row in rows:
        for left, right in itertools.pairwise(row):
            assert left.x + left.width / 2 <= right.x - right.width / 2 + 1e-6
        assert all(cell.x - cell.width / 2 >= 0 for cell in row)


def test_picture_is_as_wide_as_its_boxes():
    picture = draw([Box("a" * 30, "about"), Box("b", "about", key="n1")], [Edge(0, 1, "why", "1")], "label")
    width = float(re.search(r'viewBox="0 0 ([\d.]+) ', picture)[1])
    rights = [float(x) + float(w) for x, w in re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', picture)]
    assert max(rights) <= width
    assert "why" in picture


# --- memory ---------------------------------------------------------------------------------------

SPANS = [Span(5, "a", 100, 0, 1), Span(6, "b", 50, 1, 3), Span(7, "c", 100, 2, 4, 5), Span(8, "d", 10, 4, 4, 6)]


def test_memory_is_what_lives():
    assert live_nbytes(SPANS, 5) == [100, 150, 150, 150, 110]
    assert lanes(SPANS) == {5: 0, 6: 1, 7: 0, 8: 1}


def test_timeline_draws_every_buffer():
    tags = Tags(timeline(SPANS, ["k"] * 5))
    assert len([a for t, a in tags.seen if t == "rect" and a["class"].startswith("buffer")]) == 4
    assert len([a for t, a in tags.seen if t == "rect" and "live" in a["class"]]) == 5


def test_near_blocks_of_one_file_are_one(tmp_path):
    here, other = str(tmp_path / "here.py"), str(tmp_path / "other.py")
    Path(here).write_text("".join(f"line {n}\n" for n in range(1, 20)))
    blocks = [SourceBlock(other, 1, ["z"]), SourceBlock(here, 12, ["x", "y"]), SourceBlock(here, 3, ["a", "b"]), SourceBlock(here, 6, ["c"])]
    made = joined(blocks)
    assert [(b.filename, b.first) for b in made] == [(here, 3), (here, 12), (other, 1)]
    assert [b.lines for b in made] == [["a", "b", "line 5", "c"], ["x", "y"], ["z"]]


def test_long_plans_show_some_texts_and_say_so():
    plan = small_plan()
    plan.kernels = [plan.kernels[0]] * 50
    plan.cuts, plan.buffers = [], []
    page = explain_plan(plan, CPU)
    words = words_of(page)
    assert "The texts of 10 more kernels are left out" in words
    assert "Kernel 40: m_128_mul" in words
    assert "Kernel 41: m_128_mul" not in words
    assert page.html.count("<details") == 8 * 2  # scheduled IR and MSL, of the first ones
