"""Pages of `kernel.explain`: true texts with true places, memory left alone, hostile text harmless, limits kept on disk."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest

import eas
from eas import mk
from eas.explain import kernel_page, linked, machine
from eas.explain.machine import Roof, roof_of
from eas.explain.page import Explanation
from eas.explain.roofline import Measured, chart, verdict
from eas.explain.svg import esc, nbytes, si
from eas.ir.text import print_module

ROOF = Roof(20e9, 200e9, "a machine")


@pytest.fixture(autouse=True)
def _known_roof(monkeypatch):
    """Limits that cost no time; one test measures."""
    monkeypatch.setattr(kernel_page, "roof_of", lambda runtime, seen=0.0: ROOF)


def square(v):
    return v * v


@eas.kernel
def norm_kernel(x, out, n, BLOCK: eas.constexpr):
    row = mk.program_id(0)
    total = mk.zeros([BLOCK])
    for start in range(0, n, BLOCK):
        c = start + mk.arange(0, BLOCK)
        total += square(mk.load(x, row * n + c, c < n))
    mk.store(out, row, mk.sqrt(mk.sum(total)))


X = np.arange(12 * 100, dtype=np.float32).reshape(12, 100)


def explained(**options):
    return norm_kernel.explain(X, np.zeros(12, np.float32), 100, BLOCK=64, _grid=12, **options)


def line_of(text):
    """The number of a line of this file."""
    return next(i for i, line in enumerate(open(__file__, encoding="utf-8"), 1) if line.strip() == text)


class Tags(HTMLParser):
    """Checks that every element is closed in order; keeps what was opened."""

    VOID = ("meta", "link", "br")

    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.words = [], [], []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def test_page_is_whole_and_loads_nothing():
    page = explained()
    tags = Tags(page.html)
    assert not [a for tag, a in tags.seen if tag in ("img", "object", "embed", "video", "base") or "src" in a]
    assert all(a["href"].startswith(("#", "data:,")) for _, a in tags.seen if "href" in a)
    assert not re.search(r"url\(|@import|https?://(?!www\.w3\.org)", page.html)
    assert "default-src 'none'" in next(a["content"] for t, a in tags.seen if a.get("http-equiv"))
    ids = [a["id"] for _, a in tags.seen if "id" in a]
    assert len(ids) == len(set(ids))
    assert {a["href"][1:] for _, a in tags.seen if a.get("href", "").startswith("#")} <= set(ids)


def test_object_saves_shows_and_names_itself(tmp_path, monkeypatch):
    page = explained()
    assert isinstance(page, Explanation)
    assert page.save(tmp_path / "page.html").read_text(encoding="utf-8") == page.html
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    path = page.open()
    assert opened == [path.as_uri()]
    assert path.read_text(encoding="utf-8") == page.html
    path.unlink()
    (tag, attrs), *_ = Tags(page._repr_html_()).seen
    assert tag == "iframe"
    assert attrs["srcdoc"] == page.html
    assert repr(page).startswith("<explanation of kernel norm_kernel")
    assert eas.explain(norm_kernel, X, np.zeros(12, np.float32), 100, BLOCK=64, _grid=12).title == page.title


def test_texts_are_those_of_the_variant_and_know_their_lines():
    compiled = norm_kernel.compile(X, np.zeros(12, np.float32), 100, BLOCK=64)
    variant = compiled.variant()
    (llvm, scheduled), (msl,) = linked.native_listings(variant), linked.metal_listings(variant)
    ir = linked.ir_listing("IR", variant.module)
    for listing, text in ((llvm, variant.llvm), (msl, variant.msl), (ir, print_module(variant.module))):
        assert "\n".join(line.text for line in listing.lines) == text.rstrip("\n")
    inner, call = line_of("return v * v"), line_of("total += square(mk.load(x, row * n + c, c < n))")
    assert [inner, call] in [[n for _, n in line.spots] for line in ir.lines if " mul " in line.text]
    for listing, word in ((llvm, "fmul"), (msl, "x_value * x_value"), (scheduled, " mul ")):
        assert any(n == call for line in listing.lines if word in line.text for _, n in line.spots), listing.name
    root = line_of("mk.store(out, row, mk.sqrt(mk.sum(total)))")
    assert all([n for _, n in line.spots] == [root] for line in ir.lines if "sqrt" in line.text)


def test_sources_are_the_kernel_and_its_helpers():
    compiled = norm_kernel.compile(X, np.zeros(12, np.float32), 100, BLOCK=64)
    blocks = linked.source_blocks([norm_kernel.fn.__code__], [linked.ir_listing("IR", compiled.variant().module)])
    assert [b.lines[0].strip() for b in blocks] == ["@eas.kernel", "def square(v):"]
    assert blocks[0].lines[-1].strip() == "mk.store(out, row, mk.sqrt(mk.sum(total)))"
    assert blocks[1].first == line_of("def square(v):")


def test_arguments_are_left_alone_and_results_are_not_summed_up_twice():
    @eas.kernel
    def add_to(x, total, N, BLOCK: eas.constexpr):
        i = mk.program_id(0) * BLOCK + mk.arange(0, BLOCK)
        mk.store(total, i, mk.load(total, i, i < N) + mk.load(x, i, i < N), i < N)

    x, total = np.ones(100, np.float32), np.full(100, 5, np.float32)
    page = add_to.explain(x, total, 100, BLOCK=32)
    assert (total == 5).all()
    assert "median time" in page.html
    page = add_to.explain(total, total, 100, BLOCK=32)  # in place
    assert (total == 5).all()
    assert "median time" in page.html
    shared = np.zeros(200, np.float32)
    page = add_to.explain(shared[:100], shared[50:150], 100, BLOCK=32)
    assert "Arguments overlap" in page.html
    assert "median time" not in page.html


def test_copies_keep_arrays_that_are_one():
    a, b = np.ones(8, np.float32), np.ones(8, np.float32)
    launch = type("Launch", (), {"runtime": eas.runtime.get_runtime("cpu")})()
    made = kernel_page._copies(launch, {"x": a, "y": a, "z": b, "n": 3}, ["y"])
    assert made["x"] is made["y"] is not a
    assert made["z"] is b
    assert made["n"] == 3


def test_launch_section_tells_parameters_and_variant():
    words = " ".join(Tags(explained().html).words)
    for expected in ("ndarray float32[12, 100]", "trace-time", "variant relies on", "12 x 1 x 1", "spmd"):
        assert expected in words


@pytest.mark.parametrize("backend_name", ["interp", "sim"])
def test_other_backends_have_pages(monkeypatch, backend_name):
    if not eas.runtime.get_runtime(backend_name).is_available():
        pytest.skip(f"needs the {backend_name} backend")
    monkeypatch.setenv("EAS_BACKEND", backend_name)
    words = Tags(explained().html).words
    assert "median time" in words
    panes = [w for w in words if w in ("IR", "LLVM", "MSL")]
    assert panes[:2] == (["IR", "MSL"] if backend_name == "sim" else ["IR", "LLVM"])


def test_nothing_to_launch_is_refused():
    with pytest.raises(eas.LaunchError, match="has no programs"):
        norm_kernel.explain(X, np.zeros(12, np.float32), 100, BLOCK=64, _grid=0)
    with pytest.raises(eas.ArgumentError, match="missing `n`"):
        norm_kernel.explain(X, np.zeros(12, np.float32), BLOCK=64)


# --- hostile text ---------------------------------------------------------------------------------

EVIL = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(2)>\x00\u202e"


def test_hostile_names_and_arguments_stay_text():
    def fn(x, note, BLOCK):
        i = mk.arange(0, BLOCK)
        mk.store(x, i, mk.load(x, i))

    fn.__annotations__ = {"note": eas.constexpr, "BLOCK": eas.constexpr}
    fn.__name__ = fn.__qualname__ = EVIL
    page = eas.Kernel(fn).explain(np.zeros(4, np.float32), note=EVIL, BLOCK=4, _grid=1)
    tags = Tags(page.html)
    assert [t for t, _ in tags.seen].count("script") == 1
    assert not [t for t, a in tags.seen if t == "img" or any(name.startswith("on") for name in a)]
    assert "\x00" not in page.html
    assert "\u202e" not in page.html


def test_esc_leaves_nothing_that_ends_a_place():
    shown = esc(EVIL + "\ud800\u2028&")
    assert not set('<>"\'\x00\u202e\ud800\u2028') & set(shown)
    shown.encode("utf-8")


# --- limits ---------------------------------------------------------------------------------------


def test_roof_is_measured_once_and_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("EAS_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(machine, "_known", {})
    monkeypatch.setattr(machine, "_LONG_ENOUGH", 0.0)
    runtime = eas.runtime.get_runtime("cpu")
    first = roof_of(runtime)
    assert first.bytes_per_second > 0
    assert first.flops_per_second > 0
    monkeypatch.setattr(machine, "_known", {})
    monkeypatch.setattr(machine, "_seconds", lambda *_: pytest.fail("measured again"))
    assert roof_of(runtime) == first


def test_roof_that_is_passed_is_measured_again(monkeypatch, tmp_path):
    monkeypatch.setenv("EAS_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(machine, "_known", {})
    seconds = iter([4.0, 8.0, 2.0, 1.0])  # a copy and a peak on a busy machine, and again
    monkeypatch.setattr(machine, "_seconds", lambda *_: next(seconds))
    runtime = eas.runtime.get_runtime("cpu")
    first = roof_of(runtime)
    assert roof_of(runtime, first.flops_per_second) == first
    second = roof_of(runtime, first.flops_per_second * 2)
    assert second.bytes_per_second == 2 * first.bytes_per_second
    assert second.flops_per_second == 8 * first.flops_per_second


@pytest.mark.parametrize(
    ("seconds", "moved", "computed", "words"),
    [
        (1.0, 10**10, 10**9, "its limit is memory; it reaches 50% of the roof"),
        (1.0, 10**9, 10**11, "its limit is arithmetic; it reaches 50% of the roof"),
        (0.1, 10**10, 10**9, "stayed in the caches"),
        (1.0, 10**10, 0, "It computes no floats: memory is its limit, and it moves 50%"),
        (1.0, 10**10, None, "does not tell how many float operations"),
        (1.0, None, 10**9, "does not tell how many bytes"),
    ],
)
def test_verdict_names_the_limit(seconds, moved, computed, words):
    assert words in verdict(ROOF, Measured("k", seconds, moved, computed))


@pytest.mark.parametrize("work", [(1, 1), (10**12, 1), (1, 10**15), (10**9, 10**9), (None, 5), (5, 0)])
def test_chart_holds_every_dot(work):
    picture = chart(ROOF, [Measured("<k>", 1e-3, *work)])
    tags = Tags(picture)
    circles = [a for t, a in tags.seen if t == "circle"]
    assert len(circles) == bool(work[0] and work[1])
    for a in circles:
        assert 60 <= float(a["cx"]) <= 640
        assert 0 <= float(a["cy"]) <= 300


def test_numbers_are_short():
    assert [si(v, "B/s") for v in (0, 1234, 21.5e9, 0.00032)] == ["0 B/s", "1.23 kB/s", "21.5 GB/s", "320 µB/s"]
    assert [nbytes(v) for v in (7, 2048, 16 << 20, 1000 << 20)] == ["7 B", "2 KiB", "16 MiB", "1000 MiB"]


def test_kernel_that_prints_is_not_run(capsys):
    @eas.kernel
    def shout(x, BLOCK: eas.constexpr):
        i = mk.arange(0, BLOCK)
        mk.device_print("value", mk.load(x, i))
        mk.store(x, i, mk.load(x, i) + 1.0)

    page = shout.explain(np.zeros(4, np.float32), BLOCK=4, _grid=1)
    assert "The kernel prints" in page.html
    assert capsys.readouterr().out == ""


def test_tuned_kernel_shows_the_chosen_config():
    tuned = eas.autotune(configs=[eas.Config({"BLOCK": 32}), eas.Config({"BLOCK": 64})], key=["n"])(norm_kernel.fn)
    words = " ".join(Tags(tuned.explain(X, np.zeros(12, np.float32), 100, _grid=12).html).words)
    assert "trace-time 32" in " ".join(words.split())
