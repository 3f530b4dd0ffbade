"""The command line of `python -m eas verify`: options, progress, the files it leaves, its exit status."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from eas.base.backends import BACKENDS
from eas.verify import kept_facts, page
from eas.verify.machine import Survey, survey
from eas.verify.report import Report, read, table, write
from eas.verify.runner import Outcome, run_job
from eas.verify.stage_table import STAGES, Job, plan

BAR = 24


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    names = ", ".join(s.name for s in STAGES)
    parser.add_argument("--short", action="store_true", help="a small part of every stage: for CI, half a minute")
    parser.add_argument("--full", action="store_true", help="all that there is, however long it takes")
    parser.add_argument("--backend", default="", help="comma list; default: every available one of cpu, mps, sim")
    parser.add_argument("--only", default="", metavar="STAGES", help=f"comma list of {names}")
    parser.add_argument("--output", type=Path, default=Path("eas-verify"), help="folder of report.json and report.html; default ./eas-verify")
    parser.add_argument("--resume", action="store_true", help="go on with the run whose report is in the folder: what passed there is not run again")
    parser.add_argument("--list", action="store_true", help="the stages, and nothing else")


def run(options: argparse.Namespace) -> int:
    """Run the stages; 0 if nothing is wrong, 1 if something is, 2 if the options are."""
    if options.list:
        print("\n".join(f"{s.name:<12} {s.title} (at most {s.seconds} s on {s.where})" for s in STAGES))
        return 0
    only, asked = (tuple(filter(None, text.split(","))) for text in (options.only, options.backend))
    problem = _unknown("stage", only, [s.name for s in STAGES]) or _unknown("backend", asked, [row.name for row in BACKENDS if row.target])
    if problem:
        print(f"eas verify: {problem}", file=sys.stderr)
        return 2
    found = survey(asked)
    jobs = plan(found.backends, frozenset(only), is_short=options.short)
    report = _started(options, found, len(jobs))
    options.output.mkdir(parents=True, exist_ok=True)
    try:
        _verify(report, jobs, options)
    except KeyboardInterrupt:
        print(f"\neas verify: interrupted; --resume goes on, what was found is in {options.output}", file=sys.stderr)
        return 130
    print(f"\n{table(report)}\n\nverdict: {report.verdict}; {options.output / 'report.html'} and report.json can be sent to us")
    return 1 if report.has_failed else 0


def _unknown(kind: str, given: Sequence[str], known: Sequence[str]) -> str:
    """A sentence about the first name that does not exist, or nothing."""
    strange = [name for name in given if name not in known]
    return f"there is no {kind} {strange[0]}; there are {', '.join(known)}" if strange else ""


def _started(options: argparse.Namespace, found: Survey, n_jobs: int) -> Report:
    """A new report, or that of the run to go on with."""
    mode = "short" if options.short else "full" if options.full else "normal"
    report = Report(found.machine, mode, planned=n_jobs + bool(found.last_lines))
    old = read(options.output / "report.json") if options.resume else None
    if old is not None and old.mode == mode and _same_machine(old, report):
        report.outcomes = [o for o in old.outcomes if o.status == "passed"]
    if found.last_lines:
        report.add(Outcome("survey", "survey", "", "look at the machine", "failed", why=str(found.backends["mps"]), last_lines=list(found.last_lines)))
    return report


def _same_machine(old: Report, new: Report) -> bool:
    return {**old.machine, "date": ""} == {**new.machine, "date": ""}


def _verify(report: Report, jobs: list[Job], options: argparse.Namespace) -> None:
    done = {o.key for o in report.outcomes}
    weights = [j.stage.limit(options.short, options.full) for j in jobs]
    for n, job in enumerate(jobs):
        if job.key in done:
            continue
        progress = _Progress(job, sum(weights[:n]) / sum(weights), weights[n] / sum(weights))
        outcome = run_job(job, is_short=options.short, is_full=options.full, tell=progress.tell)
        progress.finish(outcome)
        report.add(outcome)
        _write(report, options.output)
    kept_facts.keep(report)
    _write(report, options.output)


def _write(report: Report, folder: Path) -> None:
    write(folder / "report.json", json.dumps(report.as_json(), indent=1))
    write(folder / "report.html", page.render(report))


class _Progress:
    """A bar on a terminal; elsewhere one line per job."""

    def __init__(self, job: Job, before: float, share: float) -> None:
        self._job, self._before, self._share = job, before, share
        self._start = time.monotonic()
        self._is_terminal = sys.stderr.isatty()

    def tell(self, done: float) -> None:
        """Show how far the job is."""
        if not self._is_terminal:
            return
        whole = self._before + self._share * done
        filled = round(BAR * whole)
        seconds = time.monotonic() - self._start
        text = f"[{'#' * filled}{'.' * (BAR - filled)}] {whole:4.0%}  {self._job.title}  {done:.0%}  {seconds:.0f}s"
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)

    def finish(self, outcome: Outcome) -> None:
        """Say what came of it."""
        if self._is_terminal:
            print("\r\033[K", end="", file=sys.stderr)
        why = f": {outcome.why}" if outcome.why else ""
        print(f"{outcome.status:<8} {outcome.title}  {outcome.seconds:.1f}s{why}", file=sys.stderr, flush=True)
