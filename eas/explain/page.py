"""One page that needs nothing else: no server, no network, no script to be read."""

from __future__ import annotations

import html
import tempfile
import webbrowser
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from eas._version import __version__
from eas.explain.style import SCRIPT, STYLE
from eas.explain.svg import element, esc

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


class Explanation:
    """A page about a kernel or a tensor: `.html`, `.save(path)`, `.open()`; in a notebook it shows itself."""

    def __init__(self, title: str, text: str) -> None:
        self.title = title
        self.html = text

    def save(self, path: str | Path) -> Path:
        """Write the page to a file; gives its path."""
        target = Path(path)
        target.write_text(self.html, encoding="utf-8")
        return target

    def open(self) -> Path:
        """Show the page in a browser, from a temporary file; gives its path."""
        with tempfile.NamedTemporaryFile("w", prefix="eas-explain-", suffix=".html", delete=False, encoding="utf-8") as file:
            file.write(self.html)
        webbrowser.open(Path(file.name).as_uri())
        return Path(file.name)

    def _repr_html_(self) -> str:
        # A frame of its own: neither the notebook's style nor ours reaches the other.
        inside = html.escape(self.html, quote=True)
        return f'<iframe srcdoc="{inside}" title="{esc(self.title)}" sandbox="allow-scripts" style="width:100%;height:760px;border:1px solid #8884;border-radius:8px"></iframe>'

    def __repr__(self) -> str:
        return f"<explanation of {self.title}: {len(self.html) // 1024} KiB of HTML; .save(path), .open()>"


class Section(NamedTuple):
    """A part of the page with a heading."""

    id: str
    heading: str
    body: str


def page(title: str, heading: str, lead: str, sections: Sequence[Section], key_rules: str = "") -> Explanation:
    """The whole page; `heading`, `lead` and the bodies are markup, `title` is text."""
    links = "".join(element("a", esc(s.heading), href=f"#{s.id}") for s in sections)
    body = "".join(element("section", element("h2", esc(s.heading), id=s.id) + s.body) for s in sections)
    foot = element("footer", f"Written by eas {esc(__version__)}. This file is complete: it loads nothing.")
    parts = [
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">",
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(_POLICY)}">',
        '<meta name="viewport" content="width=device-width,initial-scale=1"><link rel="icon" href="data:,">',
        element("title", esc(title)),
        f"<style>{STYLE}</style><noscript><style>{key_rules}</style></noscript></head><body>",
        element("header", element("h1", heading) + lead + element("nav", links, class_="toc", aria_label="Sections"), class_="top"),
        element("main", body + foot),
        f"<script>{SCRIPT}</script></body></html>\n",
    ]
    return Explanation(title, "".join(parts))


def tiles(facts: Sequence[tuple[str, str]]) -> str:
    """Numbers that matter most, each with its name."""
    shown = (element("div", element("b", esc(value)) + element("span", esc(name)), class_="tile") for name, value in facts)
    return element("div", "".join(shown), class_="tiles")


def table(head: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int] = ()) -> str:
    """A table; cells are text, those of the columns `numbers` stand to the right."""
    top = element("tr", "".join(element("th", esc(name), scope="col", class_="n" if i in numbers else None) for i, name in enumerate(head)))
    body = "".join(element("tr", "".join(element("td", esc(cell), class_="n" if i in numbers else None) for i, cell in enumerate(row))) for row in rows)
    return element("div", element("table", element("thead", top) + element("tbody", body)), class_="wide")
