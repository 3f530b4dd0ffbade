"""Pages of `explain` in a real browser: no complaint, no request, links by pointer, click, key and address, with and without scripts."""

from __future__ import annotations

import numpy as np
import pytest

import eas
from eas import mk
from eas.explain.plan_page import explain_plan
from tests.unit.headless_browser import CHROMIUM, Browser
from tests.unit.plan_pages import small_plan

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (Debian: apt-get install chromium)")


def half(v):
    return v * 0.5


@eas.kernel
def halve_kernel(x, out, N, BLOCK: eas.constexpr):
    i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
    v = mk.load(x, i, i < N)
    mk.store(out, i, half(v), i < N)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    x = np.ones(1000, np.float32)
    return halve_kernel.explain(x, np.zeros_like(x), 1000, BLOCK=64).save(tmp_path_factory.mktemp("page") / "page.html")


@pytest.fixture(scope="module")
def browser():
    opened = Browser()
    yield opened
    opened.close()


def key_of(browser, text):
    """The key of the user's line with this text."""
    return browser.ask(f"[...document.querySelectorAll('a.l[id]')].find(e => e.textContent.includes({text!r})).id")


def marked(browser, name):
    return browser.ask(f"[...document.querySelectorAll('.l.{name}')].map(e => e.textContent.trim())")


def test_page_loads_without_complaints_or_requests(browser, page):
    browser.load(page)
    assert browser.ask("document.documentElement.dataset.ready") == "yes"
    assert browser.complaints() == []
    assert browser.requests() == []
    assert browser.ask("document.querySelectorAll('svg circle').length") == 1
    assert browser.ask("document.documentElement.scrollWidth <= innerWidth")  # nothing sticks out


def test_pointer_marks_what_belongs_together(browser, page):
    browser.load(page)
    key = key_of(browser, "mk.load(x, i")
    browser.point_at(f"#{key}")
    near = marked(browser, "near")
    assert near[0] == "v = mk.load(x, i, i < N)"
    assert any(" = load " in text for text in near)
    assert any("load <" in text or "masked.load" in text for text in near)
    assert not any("store" in text for text in near)


def test_click_keeps_a_line_and_escape_lets_go(browser, page):
    browser.load(page)
    key = key_of(browser, "return v * 0.5")
    browser.click(f"a.l[href='#{key}']:not([id])")  # a line of the IR
    assert browser.ask("location.hash") == f"#{key}"
    on = marked(browser, "on")
    assert "return v * 0.5" in on
    assert any(" mul " in text for text in on)
    assert any("fmul" in text for text in on)
    browser.press("Escape")
    assert marked(browser, "on") == []
    assert browser.ask("document.documentElement.dataset.pinned") == ""


def test_keys_walk_along_the_lines(browser, page):
    browser.load(page)
    browser.click(f"#{key_of(browser, 'mk.program_id(0)')}")
    browser.press("ArrowDown")
    assert "v = mk.load(x, i, i < N)" in marked(browser, "on")
    browser.press("ArrowUp")
    assert "v = mk.load(x, i, i < N)" not in marked(browser, "on")


def test_address_remembers_the_line(browser, page):
    browser.load(page)
    key = key_of(browser, "mk.store(out")
    browser.load(page, key)
    on = marked(browser, "on")
    assert "mk.store(out, i, half(v), i < N)" in on
    assert any(text.startswith("store ") for text in on)
    assert browser.ask("[...document.querySelectorAll('.scroll')].slice(0, 3).every(p => { const l = p.querySelector('.l.on'), a = l.getBoundingClientRect(), b = p.getBoundingClientRect(); return a.top >= b.top && a.bottom <= b.bottom; })")


def test_style_alone_links_lines_without_scripts(browser, page):
    browser.load(page)
    key = key_of(browser, "mk.store(out")
    browser.send("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.load(page, key)
        browser.send("Emulation.setScriptExecutionDisabled", value=False)  # to ask; the page has not run its own
        assert browser.ask("document.documentElement.dataset.ready") is None
        lit = browser.ask(f"new Set([...document.querySelectorAll('.{key}')].map(e => getComputedStyle(e).backgroundColor)).size")
        other = browser.ask("getComputedStyle(document.querySelector('pre .l:not([class*=\" \"])')).backgroundColor")
        one = browser.ask(f"getComputedStyle(document.querySelector('.{key}')).backgroundColor")
        assert lit == 1
        assert one != other
    finally:
        browser.send("Emulation.setScriptExecutionDisabled", value=False)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_schemes_have_readable_text(browser, page, scheme):
    browser.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    browser.load(page)
    ink, ground = browser.ask("[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]")
    light = [sum(int(v) for v in c[4:-1].split(",")) / 765 for c in (ink, ground)]
    assert abs(light[0] - light[1]) > 0.6
    assert (light[1] > 0.5) == (scheme == "light")


def test_notebook_frame_works_too(browser, page, tmp_path):
    x = np.ones(8, np.float32)
    shown = halve_kernel.explain(x, np.zeros_like(x), 8, BLOCK=8)._repr_html_()
    frame = tmp_path / "notebook.html"
    frame.write_text(f"<!DOCTYPE html><html><head><link rel='icon' href='data:,'></head><body>{shown}</body></html>", encoding="utf-8")
    browser.load(frame)
    assert browser.complaints() == []
    x, y = browser.ask("(r => [r.left + r.width / 2, r.top + 300])(document.querySelector('iframe').getBoundingClientRect())")
    browser.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    assert browser.complaints() == []


def test_nodes_of_a_graph_are_linked_to_lines(browser, tmp_path):
    path = explain_plan(small_plan(), eas.runtime.get_runtime("cpu")).save(tmp_path / "plan.html")
    browser.load(path)
    assert browser.complaints() == []
    key = key_of(browser, 'node("sum"')
    browser.point_at(f"#{key}")
    assert browser.ask("[...document.querySelectorAll('.node.near text')].map(e => e.textContent)") == ["sum f32[8]"]
    browser.click(f"#{key}")
    assert browser.ask("getComputedStyle(document.querySelector('.node.on rect')).fill") != browser.ask("getComputedStyle(document.querySelector('.node:not(.on) rect')).fill")
    browser.click("a.node[href='#kernel-2'] rect")
    assert browser.ask("location.hash") == "#kernel-2"
