"""The report as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any

from eas.verify import plots
from eas.verify.events import Check, Fact, Point
from eas.verify.report import Report
from eas.verify.runner import Outcome

CSS = """
:root { color-scheme: light dark; --page: #fff; --card: #f6f7f9; --text: #1c2128; --faint: #66707c; --line: #d9dee4; --good: #2d8a4e; --bad: #c93a3a; --off: #9aa3ad; }
@media (prefers-color-scheme: dark) { :root { --page: #14171b; --card: #1d2126; --text: #e3e7ec; --faint: #98a2ad; --line: #343a42; --good: #4db873; --bad: #ef6b6b; --off: #6b7480; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 1120px; padding: 28px 24px 80px; background: var(--page); color: var(--text); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; }
h1 { font-size: 26px; margin: 0 0 2px; } h2 { font-size: 18px; margin: 36px 0 10px; }
p { margin: 4px 0; } .faint { color: var(--faint); }
.verdict { display: inline-block; padding: 2px 12px; border-radius: 14px; color: #fff; font-size: 16px; vertical-align: 3px; margin-left: 8px; }
.verdict.passed { background: var(--good); } .verdict.failed { background: var(--bad); } .verdict.incomplete { background: var(--off); }
table { border-collapse: collapse; width: 100%; } th { text-align: left; font-weight: 600; color: var(--faint); font-size: 13px; }
td, th { padding: 5px 10px 5px 0; border-bottom: 1px solid var(--line); vertical-align: top; } td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.mark { font-weight: 600; } .mark.passed { color: var(--good); } .mark.failed { color: var(--bad); } .mark.skipped { color: var(--off); }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(150px, 1fr)); gap: 10px; margin: 18px 0; }
.card { background: var(--card); border-radius: 8px; padding: 10px 14px; } .card b { display: block; font-size: 22px; font-variant-numeric: tabular-nums; }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(430px, 1fr)); gap: 16px; }
figure { margin: 0; background: var(--card); border-radius: 8px; padding: 8px; }
svg { width: 100%; height: auto; display: block; } svg text { fill: var(--text); font: 11px system-ui, sans-serif; } svg .title { font-size: 13px; font-weight: 600; } svg .tick { fill: var(--faint); }
svg .grid { stroke: var(--line); } .timeline rect.passed { fill: var(--good); } .timeline rect.failed { fill: var(--bad); } .timeline rect.skipped { fill: var(--off); }
details { margin: 4px 0; } summary { cursor: pointer; } pre { background: var(--card); border-radius: 6px; padding: 10px; overflow-x: auto; font: 12px/1.45 ui-monospace, Menlo, Consolas, monospace; white-space: pre-wrap; max-height: 26em; }
.surprising td { background: color-mix(in srgb, var(--bad) 12%, transparent); } .wide { overflow-x: auto; }
"""
MOST_CHECKS = 400  # of one stage that are listed by name


def render(report: Report) -> str:
    """The whole page."""
    points = [p for o in report.outcomes for p in o.points]
    body = [
        f'<h1>eas verify <span class="verdict {report.verdict}">{report.verdict}</span></h1>',
        f'<p class="faint">{escape(str(report.machine.get("gpu", "")))} · {escape(str(report.machine.get("platform", "")))} · {report.mode} run · {escape(str(report.machine.get("date", "")))}</p>',
        _cards(report), _problems(report), _section("Stages", _stages(report.outcomes)),
        _section("Time", plots.timeline([(o.title, o.seconds, o.status) for o in report.outcomes if o.seconds])),
        _section("Measurements", _plots(points) and _remark(report) + _plots(points)), _section("Facts of this machine", _facts(report)),
        _section("Machine", _pairs(report.machine)), _section("Every check", "".join(map(_checks, report.outcomes))),
    ]  # fmt: skip
    return f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>eas verify: {report.verdict}</title><style>{CSS}</style></head>\n<body>{"".join(body)}</body></html>\n'


def _section(title: str, content: str) -> str:
    return f"<h2>{title}</h2>\n<div class=wide>{content}</div>\n" if content else ""


def _cards(report: Report) -> str:
    counts = {s: sum(o.count(s) for o in report.outcomes) for s in ("passed", "failed", "skipped")}
    cards = {
        "stages": f"{len(report.outcomes)} of {report.planned}", "checks passed": counts["passed"], "checks failed": counts["failed"],
        "checks skipped": counts["skipped"], "facts": len(report.facts()), "seconds": round(sum(o.seconds for o in report.outcomes)),
    }  # fmt: skip
    return '<div class="cards">' + "".join(f'<div class="card"><b>{value}</b>{name}</div>' for name, value in cards.items()) + "</div>"


def _problems(report: Report) -> str:
    """What is wrong, first of all."""
    parts = []
    for o in report.outcomes:
        if o.status != "failed":
            continue
        reasons: dict[str, list[str]] = {}
        for c in o.checks:
            if c.status == "failed":
                reasons.setdefault(c.detail, []).append(c.name)
        said = "".join(
            f"<details{' open' if n < 3 else ''}><summary>{escape(', '.join(names))}</summary><pre>{escape(detail)}</pre></details>"
            for n, (detail, names) in enumerate(list(reasons.items())[:40])
        )
        last = f"<p>The last lines of its process:</p><pre>{escape(chr(10).join(o.last_lines))}</pre>" if o.last_lines else ""
        parts.append(f'<p><span class="mark failed">{escape(o.title)}</span>: {escape(o.why)}</p>{said}{last}')
    return _section("What is wrong", "".join(parts))


def _stages(outcomes: Iterable[Outcome]) -> str:
    rows = []
    for o in outcomes:
        counts = f'{o.count("passed")}' + (f', {o.count("failed")} failed' if o.count("failed") else "") + (f', {o.count("skipped")} skipped' if o.count("skipped") else "")
        rows.append(f'<tr><td>{escape(o.title)}</td><td class="mark {o.status}">{o.status}</td><td>{counts}</td><td class="number">{o.seconds:.1f} s</td><td class="faint">{escape(o.why)}</td></tr>')
    return f"<table><tr><th>stage</th><th>result</th><th>checks</th><th>time</th><th></th></tr>{''.join(rows)}</table>"


def _plots(points: list[Point]) -> str:
    titles = dict.fromkeys(p.plot for p in points)
    figures = [f"<figure>{plots.plot(title, [p for p in points if p.plot == title])}</figure>" for title in titles]
    return f'<div class="plots">{"".join(figures)}</div>' if figures else ""


def _remark(report: Report) -> str:
    """Whose times they are not."""
    is_software = "software" in str(report.machine.get("gpu", ""))
    return "<p class=faint>This Metal is a software one: its times say nothing of a GPU.</p>" if is_software else ""


def _facts(report: Report) -> str:
    rows = []
    for fact in report.facts().values():
        css = ' class="surprising"' if fact.expected is not None and fact.value != fact.expected else ""
        expected = "" if fact.expected is None else escape(str(fact.expected))
        rows.append(f"<tr{css}><td>{escape(fact.name)}</td><td>{escape(_shown(fact))}</td><td>{expected}</td></tr>")
    return f"<table><tr><th>fact</th><th>found</th><th>expected</th></tr>{''.join(rows)}</table>" if rows else ""


def _shown(fact: Fact) -> str:
    if fact.unit == "bytes" and isinstance(fact.value, int) and fact.value >= 1 << 20:
        return f"{fact.value / 2**20:,.0f} MiB"
    return f"{fact.value}{' ' + fact.unit if fact.unit else ''}"


def _pairs(table: dict[str, Any]) -> str:
    return "<table>" + "".join(f"<tr><td>{escape(k)}</td><td>{escape(str(v))}</td></tr>" for k, v in table.items()) + "</table>"


def _checks(outcome: Outcome) -> str:
    def line(c: Check) -> str:
        return f'<tr><td>{escape(c.name)}</td><td class="mark {c.status}">{c.status}</td><td class="faint">{escape(c.detail[:300])}</td></tr>'

    if not outcome.checks:
        return ""
    shown = outcome.checks[:MOST_CHECKS]
    more = f"<p class=faint>and {len(outcome.checks) - len(shown)} more in report.json</p>" if len(outcome.checks) > len(shown) else ""
    return f"<details><summary>{escape(outcome.title)}: {len(outcome.checks)} checks</summary><table>{''.join(map(line, shown))}</table>{more}</details>"
