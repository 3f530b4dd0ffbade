"""The documentation is true: generated pages are current, links resolve, snippets run, commands exist."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

import eas.__main__ as cli
from eas.base import config
from tools import doc_blocks, make_docs, make_pictures, make_site, markdown

ROOT = make_docs.ROOT
READMES = [ROOT / "README.md", ROOT / "README.zh-CN.md"]
PAGES = [*READMES, *sorted((ROOT / "docs").rglob("*.md")), ROOT / "CONTRIBUTING.md"]
WITH_SNIPPETS = [
    page
    for page in doc_blocks.runnable_pages()
    if any(b.is_run for b in doc_blocks.blocks(page.read_text(encoding="utf-8")))
]


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch):
    for setting in config.SETTINGS:
        monkeypatch.delenv(setting.name, raising=False)


@pytest.fixture(scope="module")
def stale():
    return {_name(path): diff for path, _, diff in make_docs.differences()}


@pytest.mark.parametrize("name", ["ops.md", "accuracy.md", "environment.md", "dtypes.md", "gallery.md"])
def test_reference_page_is_current(stale, name):
    assert stale.get(f"docs/{name}", "") == "", "run python tools/make_docs.py"


def test_printed_outputs_are_current(stale):
    assert "\n".join(stale.values()) == "", "run python tools/make_docs.py"


@pytest.mark.parametrize("page", WITH_SNIPPETS, ids=_name)
def test_snippets_run(page):
    assert doc_blocks.outputs(page)


def test_check_shows_a_diff_and_fails(monkeypatch, capsys):
    page = make_docs.ROOT / "docs" / "environment.md"
    monkeypatch.setattr(make_docs, "pages", lambda: [(page, page.read_text() + "new\n")])
    assert make_docs.main(["--check"]) == 1
    assert "+new" in capsys.readouterr().out
    monkeypatch.setattr(make_docs, "pages", lambda: [(page, page.read_text())])
    assert make_docs.main(["--check"]) == 0


# --- links and commands -------------------------------------------------------------------------

_LINK = re.compile(r"\[[^]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ +(.*)$", re.MULTILINE)


def _prose(page: Path) -> str:
    """The page without its fenced blocks and inline code."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "", text)


def _anchors(page: Path) -> set[str]:
    """The anchors that GitHub gives to headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    plain = [re.sub(r"[^\w\- ]", "", title.lower()) for title in _HEADING.findall(text)]
    return {title.strip().replace(" ", "-") for title in plain}


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_relative_links_resolve(page):
    broken = []
    for link in _LINK.findall(_prose(page)):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in _anchors(target)):
            broken.append(link)
    assert broken == []


def test_readmes_link_to_every_page_of_docs():
    for readme in READMES:
        linked = {(readme.parent / link.partition("#")[0]).resolve() for link in _LINK.findall(_prose(readme))}
        missing = [_name(p) for p in (ROOT / "docs").glob("*.md") if p not in linked]
        assert missing == [], readme.name


@pytest.mark.parametrize("page", READMES, ids=_name)
def test_commands_of_the_readme_exist(page):
    text = page.read_text(encoding="utf-8")
    modules = set(re.findall(r"python3? -m ([\w.]+)", text))
    assert {"venv", "examples.add", "pytest", "unittest", "eas"} <= modules
    assert [m for m in sorted(modules) if importlib.util.find_spec(m) is None] == []
    scripts = set(re.findall(r"python3? ([\w./]+\.py)", text))
    assert [s for s in sorted(scripts) if not (ROOT / s).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_subcommands_of_eas_exist(page, capsys):
    for command in sorted(set(re.findall(r"python3? -m eas ([a-z]+)", page.read_text(encoding="utf-8")))):
        with pytest.raises(SystemExit) as stop:
            cli.main([command, "--help"])
        assert stop.value.code == 0, command


def test_environment_variables_of_the_docs_exist():
    known = {s.name for s in config.SETTINGS}
    for page in PAGES:
        named = set(re.findall(r"\bEAS_[A-Z_]+\b", page.read_text(encoding="utf-8")))
        assert named <= known, page


TRANSLATED = [(READMES[0], READMES[1]), *((ROOT / "docs" / page.name, page) for page in sorted((ROOT / "docs" / "zh").glob("*.md")))]


@pytest.mark.parametrize(("original", "translation"), TRANSLATED, ids=lambda page: page.name)
def test_translations_have_the_same_code_and_headings(original, translation):
    first, second = (list(doc_blocks.blocks(p.read_text(encoding="utf-8"))) for p in (original, translation))
    assert [(b.language, b.text) for b in first] == [(b.language, b.text) for b in second]
    assert _levels(original) == _levels(translation)


def test_what_a_beginner_reads_is_translated():
    assert {page.name for _, page in TRANSLATED} == {"README.zh-CN.md", "language.md", "launching.md", "tensors-and-torch.md"}


def _levels(page: Path) -> list[str]:
    """The levels of the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"^(#+) ", text, re.MULTILINE)


def test_both_readmes_have_the_same_pictures():
    shown = [re.findall(r"!\[[^]]*\]\(([^)]+)\)", page.read_text(encoding="utf-8")) for page in READMES]
    assert shown[0] == shown[1] == ["docs/images/walk.svg", "docs/images/speed.svg"]


def test_the_pictures_are_current():
    for path, text in make_pictures.pictures().items():
        assert path.read_text(encoding="utf-8") == text, "run python tools/make_pictures.py"


# --- the convention itself ----------------------------------------------------------------------

PAGE = """# Title

```python
x = 1
print(x + 1)
```

<!-- prints -->
```text
old
```

<!-- not run: needs a Mac -->
```python
raise SystemExit
```
"""


def test_blocks_know_whether_they_run():
    found = [(b.language, b.line, b.is_run, b.is_output) for b in doc_blocks.blocks(PAGE)]
    assert found == [("python", 4, True, False), ("text", 10, False, True), ("python", 15, False, False)]


def test_refreshed_page_holds_what_was_printed(monkeypatch, tmp_path):
    monkeypatch.setattr(doc_blocks, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    assert doc_blocks.refreshed(page) == PAGE.replace("old\n", "2\n")


def test_failing_block_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(doc_blocks, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(PAGE.replace("x + 1", "y"))
    with pytest.raises(NameError) as failure:
        doc_blocks.outputs(page)
    assert failure.value.__notes__ == ["in the block at page.md:4"]


# --- the site -----------------------------------------------------------------------------------


def test_the_site_builds_and_its_links_resolve(tmp_path):
    written = make_site.build(tmp_path)
    assert {p.name for p in (ROOT / "docs").glob("*.md")} <= {p.with_suffix(".md").name for p in written}
    ids = {path: set(re.findall(r'id="([^"]*)"', path.read_text(encoding="utf-8"))) for path in written}
    for path in written:
        for link in re.findall(r'(?:href|src)="([^"]+)"', path.read_text(encoding="utf-8")):
            if "://" in link:
                continue
            name, _, anchor = link.partition("#")
            target = (path.parent / name).resolve() if name else path
            assert target.exists(), (path.name, link)
            assert not anchor or anchor in ids[target], (path.name, link)


def test_markdown_becomes_html():
    source = "# A `b`\n\ntext *soft* **bold** `x < 1`\nnext ![p](i.svg)\n\n| a | b |\n|---|---|\n| `1 \\| 2` | [l](m.md#c) |\n\n- one\n  two\n- three\n\n```python\nx < 1\n```\n"
    assert markdown.to_html(source, lambda to: f"/{to}").splitlines() == [
        '<h1 id="a-b">A <code>b</code></h1>',
        '<p>text <i>soft</i> <b>bold</b> <code>x &lt; 1</code> next <img alt="p" src="/i.svg"></p>',
        '<table><tr><th>a</th><th>b</th></tr><tr><td><code>1 | 2</code></td><td><a href="/m.md#c">l</a></td></tr></table>',
        "<ul><li>one two</li><li>three</li></ul>",
        '<pre class="python"><code>x &lt; 1</code></pre>',
    ]
