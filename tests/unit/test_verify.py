"""`python -m eas verify`: its plan, its processes, its report, and that what it looks at is everything."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from eas import lib
from eas.base import dtypes
from eas.ir import walk
from eas.ops import TABLE, Trait
from eas.runtime import get_runtime
from eas.runtime.gpu import facts as gpu_facts
from eas.schedule.gpu.target import APPLE7, APPLE8, APPLE9
from eas.verify import command, corpus, kept_facts, machine, page, plots, raw_metal, runner
from eas.verify import stage_table as stages
from eas.verify.events import Check, Events, Fact, Point, Recorder
from eas.verify.report import Report, read, table, write
from eas.verify.runner import Outcome, run_job
from eas.verify.stage_table import Job, Stage, plan
from eas.verify.stages import examples, facts, library, ops
from eas.verify.stages.refused_texts import REFUSED, TAKEN, whole
from tools import make_corpus

POPEN = subprocess.Popen
NO_SIM = get_runtime("sim").why_unavailable()


def stage(body: str, tmp_path, monkeypatch, *, seconds: int = 30) -> Outcome:
    """What comes of a stage with that body."""
    lines = "\n    ".join(body.splitlines())
    (tmp_path / "stage_for_test.py").write_text(f"import os, sys, time\ndef run(record, backend):\n    {lines}\n")
    monkeypatch.setattr(runner, "_environment", lambda job: {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.getcwd()}"})
    script = (
        "import sys; from eas.verify import stage_table as stages, stage_process; import stage_for_test\n"
        "sys.modules['eas.verify.stages.stage_for_test'] = stage_for_test\n"
        "stages.STAGES = stage_process.STAGES = (stages.Stage('test', 'a test', 'stage_for_test:run', 'once', 30),)\n"
        "sys.exit(stage_process.main(sys.argv[1:]))"
    )
    (tmp_path / "process_for_test.py").write_text(script)

    def popen(argv, **options):
        return POPEN([sys.executable, str(tmp_path / "process_for_test.py"), *argv[3:]], **options)

    monkeypatch.setattr(runner.subprocess, "Popen", popen)
    return run_job(Job(Stage("test", "a test", "stage_for_test:run", "once", seconds), ""), is_short=False, is_full=False)


def test_a_stage_is_as_good_as_its_checks(tmp_path, monkeypatch):
    made = stage("record.passed('one')\nrecord.fact('width', 32, 'threads', 32)\nrecord.point('p', 's', 1, 2.5)", tmp_path, monkeypatch)
    assert (made.status, made.why) == ("passed", "")
    assert made.facts == [Fact("width", 32, "threads", 32)]
    assert made.points == [Point("p", "s", 1, 2.5)]
    made = stage("with record.checking('two'):\n    raise ValueError('no')\nrecord.passed('three')", tmp_path, monkeypatch)
    assert (made.status, made.why) == ("failed", "1 of 2 checks: two")
    assert made.checks[0] == Check("two", "failed", "ValueError: no")
    made = stage("record.skipped('four', 'there is no GPU')", tmp_path, monkeypatch)
    assert (made.status, made.why) == ("skipped", "there is no GPU")


@pytest.mark.parametrize(
    ("body", "why", "last"),
    [
        ("record.passed('one')\nprint('so far', flush=True)\nos.kill(os.getpid(), 9)", "killed by SIGKILL", "so far"),
        ("record.passed('one')\nraise SystemExit(0)", "ended with status 0", None),
        ("record.passed('one')\nraise RuntimeError('broken')", "ended with status 1", "RuntimeError: broken"),
        ("record.passed('one')\nprint('waiting', flush=True)\ntime.sleep(100)", "took longer than 1 s", "waiting"),
    ],
    ids=["signal", "early exit", "exception", "hang"],
)
def test_a_stage_whose_process_dies_has_failed_and_keeps_what_it_said(tmp_path, monkeypatch, body, why, last):
    made = stage(body, tmp_path, monkeypatch, seconds=1 if "sleep" in body else 30)
    assert made.status == "failed"
    assert why in made.why
    assert [c.name for c in made.checks] == ["one"]
    assert last is None or last in made.last_lines


def test_a_line_that_was_cut_off_is_no_event():
    events = Events()
    events.add('["check", {"name": "a", "status": "pas')
    events.add('["check", {"name": "b", "status": "passed"}]')
    assert events.checks == [Check("b", "passed")]


def test_the_plan_follows_the_backends():
    mac = plan({"cpu": None, "mps": None, "sim": "no compiler"})
    assert {j.backend for j in mac if j.stage.where == "metal"} == {"mps"}
    assert [j.backend for j in mac if j.stage.name == "ops"] == ["cpu", "mps"]
    linux = plan({"cpu": None, "mps": "needs macOS", "sim": None})
    assert {j.backend for j in linux if j.stage.where == "metal"} == {"sim"}
    assert {j.backend for j in linux if j.stage.where == "primary"} == {"cpu"}
    assert [j.backend for j in plan({"cpu": None, "mps": None}, is_short=True) if j.stage.name in ("ops", "lib")] == ["cpu", "mps", "mps"]
    bare = plan({"cpu": None, "mps": "needs macOS", "sim": "no compiler"}, frozenset({"facts"}))
    assert [(j.backend, j.why_not) for j in bare] == [("", "mps: needs macOS; sim: no compiler")]
    assert run_job(bare[0], is_short=True, is_full=False).status == "skipped"


@pytest.mark.parametrize(("metal", "names"), [("native", ["cpu", "mps"]), ("software", ["cpu", "mps", "sim"])])
def test_the_software_metal_is_left_out_where_there_is_a_gpu(monkeypatch, metal, names):
    monkeypatch.setenv("EAS_METAL", metal)
    monkeypatch.setattr(machine, "get_runtime", lambda name: argparse.Namespace(why_unavailable=lambda: None))
    assert list(machine.backends()) == names
    assert list(machine.backends(("sim",))) == ["sim"]


def test_every_stage_exists():
    for row in stages.STAGES:
        module, _, function = row.run.partition(":")
        assert callable(getattr(__import__(f"eas.verify.stages.{module}", fromlist=[function]), function))
    validation = Job(next(s for s in stages.STAGES if s.name == "validation"), "mps")
    assert validation.env["MTL_DEBUG_LAYER"] == validation.env["MTL_SHADER_VALIDATION"] == "1"


# --- what is looked at is everything --------------------------------------------------------------


@pytest.fixture(scope="module")
def all_cases():
    return ops.cases("cpu")


def test_the_cases_name_every_op_in_every_dtype(all_cases):
    named = {(op, case.dtype.name) for case in all_cases for op in case.ops}
    rows = [row for row in TABLE.values() if not row.has(Trait.SCHEDULED)]
    missing = {(row.name, d.name) for row in rows for d in row.dtypes if row.name not in ("load", "store")} - named  # every case has those
    assert not missing, sorted(missing)
    assert {row.name for row in rows} - {op for op, _ in named} == {"mma_select", "int_to_ptr", "ptr_to_int"}  # only a pass makes the first; Metal refuses the others


def test_the_cases_are_made_of_the_ops_that_they_name(all_cases, monkeypatch):
    monkeypatch.setenv("EAS_BACKEND", "interp")
    for case in all_cases[::7]:
        traced = case.kernel.compile(*case.args, **case.meta).traced
        used = {inst.op.name for inst in walk(traced.body)}
        assert set(case.ops) - {"const"} <= used | {"cast", "bitcast"}, case.name


def test_metal_is_not_asked_for_f64():
    assert not any(case.dtype is dtypes.f64 or any(d is dtypes.f64 for d, _ in case.outs.values()) for case in ops.cases("mps"))


def test_every_function_of_the_library_and_every_example_is_run():
    assert set(library.CASES) == set(lib.__all__)
    assert {"add", "softmax", "matmul", "gpt"} <= set(examples.names())


def test_a_wrong_result_is_found(tmp_path, monkeypatch):
    case = next(c for c in ops.cases("cpu") if c.ops[0] == "add" and c.dtype is dtypes.f32)
    launch = ops.launch

    def off_by_one(case, backend):
        made = launch(case, "interp")
        return {k: np.nextafter(v, np.float32(np.inf)) if backend == "cpu" and v.dtype == np.float32 else v for k, v in made.items()}

    monkeypatch.setattr(ops, "launch", off_by_one)
    record = Recorder(tmp_path / "events", 10)
    ops.check(record, case, "cpu")
    assert '"failed"' in (tmp_path / "events").read_text()
    assert "the interpreter says" in (tmp_path / "events").read_text()


# --- facts ----------------------------------------------------------------------------------------


@pytest.mark.skipif(NO_SIM is not None, reason=str(NO_SIM))
def test_a_strange_fragment_map_is_found_and_used(tmp_path, monkeypatch):
    class Shuffled(raw_metal.Library):
        def kernel(self, name):
            found = super().kernel(name)
            return lambda *args, **options: found(*args, fragment_map=1, **options)

    def run(backend, source, arrays, groups, threads, **options):
        Shuffled(source).kernel("k")(*arrays, grid=groups, threads=threads)

    events = Events()
    for name, runs in (("usual", raw_metal.run), ("strange", run)):
        monkeypatch.setattr(raw_metal, "run", runs)
        record = Recorder(tmp_path / name, 60)
        facts._fragment_maps(record, "sim")
        for line in (tmp_path / name).read_text().splitlines():
            events.add(line)
    found = [f.value for f in events.facts if f.name == "fragment_map"]
    assert found == ["standard", "unknown"]
    assert gpu_facts.refined(APPLE8, {"fragment_map": found[1]}) == replace(APPLE8, fragment_map=None)


def test_facts_are_kept_per_gpu_and_make_the_target(monkeypatch, tmp_path):
    monkeypatch.setenv("EAS_CACHE_DIR", str(tmp_path))
    assert [gpu_facts.target_of("Apple M7", family) for family in (7, 8, 9, 10)] == [APPLE7, APPLE8, APPLE9, APPLE9]
    outcome = Outcome("facts-mps", "facts", "mps", "", "passed", facts=[Fact("max_threads", 512), Fact("fragment_map", "unknown"), Fact("fragment_map.float", "other")])
    report = Report({}, "normal", [Outcome("build", "build", "", "", "passed", facts=[Fact("device.name", "Apple M7")]), outcome])
    kept_facts.keep(report)
    assert report.machine["facts kept in"] == str(tmp_path / "gpu" / "Apple-M7.json")
    assert gpu_facts.target_of("Apple M7", 8) == replace(APPLE8, max_threads=512, fragment_map=None)
    assert gpu_facts.target_of("Apple M8", 8) == APPLE8
    gpu_facts.path_of("Apple M7").write_text('{"max_threads": "many", "simd_width": true}')
    assert gpu_facts.target_of("Apple M7", 8) == APPLE8
    gpu_facts.path_of("Apple M7").write_text("[")
    assert gpu_facts.target_of("Apple M7", 8) == APPLE8
    gpu_facts.path_of("Apple M7").write_text('{"max_threads": 700, "simd_width": 7, "usual_threads": 4096, "elements_per_thread": 0}')
    assert gpu_facts.target_of("Apple M7", 8) == APPLE8
    gpu_facts.path_of("Apple M7").write_text('{"max_threads": 512}')
    assert gpu_facts.target_of("Apple M7", 8) == replace(APPLE8, max_threads=512)
    gpu_facts.path_of("Apple M7").chmod(0o666)  # others may have written it
    assert gpu_facts.target_of("Apple M7", 8) == APPLE8
    monkeypatch.setenv("EAS_CACHE", "0")
    assert gpu_facts.write("Apple M7", {}) is None


def test_facts_of_a_failed_stage_are_not_kept(monkeypatch, tmp_path):
    monkeypatch.setenv("EAS_CACHE_DIR", str(tmp_path))
    failed = Outcome("facts-mps", "facts", "mps", "", "failed", facts=[Fact("device.name", "Apple M7"), Fact("max_threads", 32)])
    kept_facts.keep(Report({}, "normal", [failed]))
    assert gpu_facts.read("Apple M7") == {}


def test_the_level_of_the_language_follows_the_system(monkeypatch):
    monkeypatch.setattr(raw_metal, "is_software", lambda backend: False)
    monkeypatch.setattr(raw_metal.platform, "mac_ver", lambda: ("15.4", ("", "", ""), "arm64"))
    answers = {x: raw_metal.why_no_language(x, "mps") for x in raw_metal.LANGUAGES}
    assert answers == {"3.1": None, "3.2": None, "4.0": "Metal 4.0 needs macOS 26, this is 15"}


# --- the report -----------------------------------------------------------------------------------


@pytest.fixture
def report():
    points = [Point("rate", "mps", 1 << k, 2.0**k) for k in range(12)] + [Point("rows", s, r, 1.5) for s in ("eas", "torch") for r in ("add", "sum <b>")]
    good = Outcome("ops-mps", "ops", "mps", "ops (mps)", "passed", 1.5, "", [Check("add", "passed")], [Fact("width", 32, "", 64)], points)
    bad = Outcome("lib-mps", "lib", "mps", "lib (mps)", "failed", 2.0, "1 of 2 checks: sum", [Check("sum", "failed", "<wrong> & more")], last_lines=["the end"])
    return Report({"gpu": "Apple M7", "eas": "1"}, "normal", [good, bad], 3)


def test_the_report_survives_its_file(tmp_path, report):
    write(tmp_path / "report.json", json.dumps(report.as_json()))
    assert read(tmp_path / "report.json") == report
    assert report.verdict == "failed"
    assert read(tmp_path / "nothing") is None
    (tmp_path / "report.json").write_text('{"format": 99}')
    assert read(tmp_path / "report.json") is None


def test_the_table_tells_what_is_wrong(report):
    text = table(report)
    assert re.search(r"lib \(mps\) +failed +0 \+1 wrong +2\.0s", text)
    assert "  sum: <wrong> & more" in text
    assert "  | the end" in text
    assert "fact width: 32, expected 64" in text


class Tags(HTMLParser):
    """Counts what is open, and every address that a page asks for."""

    VOID = frozenset({"meta", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.addresses += [value for name, value in attrs if name in ("src", "href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_needs_nothing_else(report):
    text = page.render(report)
    tags = Tags()
    tags.feed(text)
    assert tags.open == []
    assert tags.addresses == []
    assert "http" not in text
    assert "@import" not in text
    assert "url(" not in text
    assert "&lt;wrong&gt; &amp; more" in text
    assert "software one" not in text
    assert "its times say nothing of a GPU" in page.render(replace(report, machine={"gpu": "eas software Metal"}))
    figures = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(figures) == 3
    for figure in figures:
        ElementTree.fromstring(figure)


@pytest.mark.parametrize("ys", [[0.0], [1.0, 1.0], [0.001, 5000.0], [3.0, -0.0]])
def test_plots_take_any_numbers(ys):
    figure = plots.plot("title", [Point("title", "series", k, y) for k, y in enumerate(ys)])
    places = [float(x) for x in re.findall(r'c[xy]="([^"]+)"', figure)]
    assert len(places) == 2 * len(ys)
    assert all(0 <= x <= plots.WIDTH for x in places)


def test_an_interrupted_run_goes_on_where_it_was(tmp_path, report, monkeypatch):
    options = argparse.Namespace(short=False, full=False, output=tmp_path, resume=True)
    write(tmp_path / "report.json", json.dumps(report.as_json()))
    found = command.Survey({"gpu": "Apple M7", "eas": "1"}, {"cpu": None})
    assert [o.key for o in command._started(options, found, 3).outcomes] == ["ops-mps"]  # what failed is run again
    other = command.Survey({"gpu": "Apple M8", "eas": "1"}, {"cpu": None})
    assert command._started(options, other, 3).outcomes == []


def test_a_machine_that_cannot_be_asked_is_a_failure(tmp_path, monkeypatch):
    options = argparse.Namespace(short=True, full=False, output=tmp_path, resume=False)
    dead = command.Survey({}, {"cpu": None, "mps": "asking for it ended the process with status -11"}, ("Abort",))
    report = command._started(options, dead, 0)
    assert report.verdict == "failed"
    assert "Abort" in table(report)


def test_wrong_options_are_told(capsys, tmp_path):
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    assert command.run(parser.parse_args(["--only", "opps", "--output", str(tmp_path)])) == 2
    assert "there is no stage opps; there are build, probe, refused" in capsys.readouterr().err
    assert command.run(parser.parse_args(["--backend", "cpu,gpu", "--output", str(tmp_path)])) == 2
    assert "there is no backend gpu; there are cpu, mps, sim" in capsys.readouterr().err
    assert command.run(parser.parse_args(["--list"])) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == [s.name for s in stages.STAGES]


def test_an_interrupt_leaves_what_was_found(tmp_path, monkeypatch, capsys):
    def interrupted(job, **options):
        if job.stage.name == "probe":
            raise KeyboardInterrupt
        return Outcome(job.key, job.stage.name, "", job.title, "passed", checks=[Check("one", "passed")])

    monkeypatch.setattr(command, "survey", lambda asked: command.Survey({"eas": "1"}, {"cpu": None}))
    monkeypatch.setattr(command, "run_job", interrupted)
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    assert command.run(parser.parse_args(["--only", "build,probe", "--output", str(tmp_path)])) == 130
    assert "--resume goes on" in capsys.readouterr().err
    report = read(tmp_path / "report.json")
    assert report is not None
    assert (report.verdict, [o.key for o in report.outcomes]) == ("incomplete", ["build"])


# --- the corpus -----------------------------------------------------------------------------------


def test_the_corpus_is_small_distinct_and_like_what_is_generated_today():
    texts = corpus.read()
    assert corpus.PATH.stat().st_size < 1 << 20
    assert len(texts) > 1000
    assert len({t.source for t in texts}) == len(texts)
    assert {t.language for t in texts} == {"3.1"}
    assert {"safe", "fast"} <= {t.math_mode for t in texts}
    assert all(re.search(rf"\bkernel void {re.escape(t.kernel)}\(", t.source) for t in texts)
    for construct in ("simdgroup_multiply_accumulate", "atomic_fetch_add_explicit", "threadgroup_barrier", "bfloat", "simd_shuffle"):
        assert any(construct in t.source for t in texts), construct


def test_the_pairs_of_refused_and_valid_texts_are_those_of_the_tests():
    pairs = corpus.read_twins()
    assert len(pairs) > 400
    assert all(p.refused != p.taken for p in pairs)
    assert len({p.name for p in pairs}) == len(pairs)
    pytest.importorskip("tests.unit.refused_texts")
    assert pairs == make_corpus.twins(), "run python tools/make_corpus.py --twins"


@pytest.mark.skipif(NO_SIM is not None, reason=str(NO_SIM))
def test_the_software_metal_agrees_with_the_clear_cases():
    with ThreadPoolExecutor(2) as pool:
        refused = dict(zip(REFUSED, pool.map(lambda text: raw_metal.compiled("sim", whole(text)).is_taken, REFUSED.values()), strict=True))
        taken = dict(zip(TAKEN, pool.map(lambda text: raw_metal.compiled("sim", whole(text)), TAKEN.values()), strict=True))
    assert [name for name, is_taken in refused.items() if is_taken] == []
    assert {name: said.text for name, said in taken.items() if not said.is_taken} == {}


def test_texts_that_differ_in_names_alone_are_one():
    text = "kernel void {k}(device float* {x} [[buffer(0)]], uint i [[thread_position_in_grid]]) {{\n    {x}[i] = {f}({x}[i]); // {k}\n}}"
    first = make_corpus.names_apart(text.format(k="add", x="a", f="exp"), "add")
    assert first == make_corpus.names_apart(text.format(k="sub", x="values", f="exp"), "sub")
    assert first != make_corpus.names_apart(text.format(k="sub", x="values", f="log"), "sub")
    assert first != make_corpus.names_apart(text.format(k="add", x="i", f="exp"), "add")


# --- the whole ------------------------------------------------------------------------------------


def test_the_short_form_runs_everywhere_and_leaves_its_report(tmp_path):
    """As in CI: on every backend of this machine, the fake Metal among them where it is built."""
    env = {**os.environ, "EAS_CACHE_DIR": str(tmp_path / "cache")}
    if importlib.util.find_spec("eas._metal") is not None and sys.platform == "linux":
        env["EAS_METAL"] = "software"
    argv = [sys.executable, "-m", "eas", "verify", "--short", "--output", str(tmp_path / "out")]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    report = read(tmp_path / "out" / "report.json")
    assert report is not None
    assert report.verdict == "passed"
    assert {o.stage for o in report.outcomes} == {s.name for s in stages.STAGES}
    assert {o.backend for o in report.outcomes if o.stage == "ops"} == {b for b in ("cpu", "mps", "sim") if b != "mps" or "EAS_METAL" in env} - ({"sim"} if NO_SIM else set())
    assert "verdict: passed" in done.stdout
    assert f"{len(report.outcomes)} of {len(report.outcomes)}" in (tmp_path / "out" / "report.html").read_text()
    if "EAS_METAL" in env:
        assert any((tmp_path / "cache" / "gpu").iterdir())  # later processes use what was measured
