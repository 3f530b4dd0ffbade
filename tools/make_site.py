"""The documentation as a web site: `python tools/make_site.py` writes HTML into site/, and needs nothing but Python."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tools.markdown import to_html  # noqa: E402

# Reading order; pages that are not named come behind.
FIRST = ("README.md", "docs/cheat-sheet.md", "docs/coming-from.md", "docs/language.md", "docs/launching.md", "docs/tensors-and-torch.md", "docs/gallery.md", "docs/library.md", "docs/ops.md", "docs/benchmarks.md")
STYLE = """
body { margin: 0; font: 16px/1.55 system-ui, sans-serif; color: #1f2937; display: flex; }
nav { flex: 0 0 15rem; height: 100vh; overflow: auto; position: sticky; top: 0; background: #f3f4f6; padding: 1rem; box-sizing: border-box; font-size: 14px; }
nav a { display: block; padding: .15rem 0; } nav b { display: block; margin-top: 1rem; }
main { max-width: 56rem; padding: 1rem 2rem; min-width: 0; }
a { color: #2563eb; text-decoration: none; } a:hover { text-decoration: underline; }
pre { background: #f8fafc; border: 1px solid #e5e7eb; border-radius: 6px; padding: .7rem; overflow: auto; font-size: 13px; }
code { font-family: ui-monospace, monospace; font-size: .9em; background: #f3f4f6; border-radius: 3px; padding: 0 .2em; } pre code { background: none; padding: 0; }
table { border-collapse: collapse; display: block; overflow: auto; font-size: 14px; } td, th { border: 1px solid #e5e7eb; padding: .25rem .5rem; text-align: left; vertical-align: top; }
img { max-width: 100%; }
"""


def pages() -> list[Path]:
    """All pages of the site, in reading order."""
    found = [ROOT / "README.md", ROOT / "README.zh-CN.md", *sorted((ROOT / "docs").rglob("*.md")), ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", ROOT / "CHANGELOG.md"]
    first = [ROOT / name for name in FIRST]
    return first + [page for page in found if page not in first]


def title_of(page: Path) -> str:
    """The first heading."""
    found = re.search(r"^# (.*)$", page.read_text(encoding="utf-8"), re.M)
    return found[1].replace("`", "") if found else page.stem


def target_of(page: Path) -> str:
    """Where a page is in the site."""
    name = str(page.relative_to(ROOT)).removesuffix(".md")
    return {"README": "index.html", "README.zh-CN": "index.zh-CN.html"}.get(name, f"{name}.html")


def build(out: Path) -> list[Path]:
    """Write the site; the files that were written."""
    known = {page: target_of(page) for page in pages()}
    written = []
    for page, target in known.items():
        path = out / target
        path.parent.mkdir(parents=True, exist_ok=True)
        linked: set[Path] = set()
        path.write_text(_page(page, known, linked), encoding="utf-8")
        written.append(path)
        for file in linked:  # pictures, and sources as they are
            copy = out / file.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copy)
    return written


def _page(page: Path, known: dict[Path, str], linked: set[Path]) -> str:
    """The HTML of a page; files that it links to and that are no pages are added to `linked`."""
    here = Path(known[page]).parent

    def link(to: str) -> str:
        path, sharp, anchor = to.partition("#")
        if "://" in path or not path:
            return to
        found = (page.parent / path).resolve()
        if found not in known:
            linked.add(found)
        return os.path.relpath(known.get(found) or found.relative_to(ROOT), here) + sharp + anchor

    entries = [(target, title_of(each)) for each, target in known.items()]
    nav = "".join(f'<a href="{escape(os.path.relpath(target, here))}">{escape(title)}</a>' for target, title in entries)
    body = to_html(page.read_text(encoding="utf-8"), link)
    return f'<!doctype html><html><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title_of(page))}</title><style>{STYLE}</style></head><body><nav>{nav}</nav><main>{body}</main></body></html>\n'


def main(argv: Sequence[str] | None = None) -> int:
    """Build into a folder, by default site/."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", nargs="?", type=Path, default=ROOT / "site")
    out = parser.parse_args(argv).out
    print(f"wrote {len(build(out))} pages to {out}: open {out / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
