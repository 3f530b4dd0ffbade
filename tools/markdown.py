"""The Markdown of docs/ as HTML: headings with GitHub's anchors, fenced code, tables, lists, quotes, links, pictures."""

from __future__ import annotations

import re
from collections.abc import Callable
from html import escape

Link = Callable[[str], str]
_FENCE = re.compile(r"^```(\w*)")
_ITEM = re.compile(r"^(\s*)([-*]|\d+\.) +(.*)")


def anchor(title: str) -> str:
    """The id that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", title).lower()).strip().replace(" ", "-")


def inline(text: str, link: Link) -> str:
    """Code, bold, emphasis, pictures and links of one paragraph."""
    kept: list[str] = []

    def keep(html: str) -> str:
        kept.append(html)
        return f"\0{len(kept) - 1}\0"

    text = re.sub(r"`([^`]+)`", lambda m: keep(f"<code>{escape(m[1])}</code>"), text)
    text = escape(text, quote=False)
    text = re.sub(r"!\[([^]]*)\]\(([^)\s]+)\)", lambda m: keep(f'<img alt="{escape(m[1])}" src="{escape(link(m[2]))}">'), text)
    text = re.sub(r"\[([^]]*)\]\(([^)\s]+)\)", lambda m: keep(f'<a href="{escape(link(m[2]))}">') + m[1] + keep("</a>"), text)
    text = re.sub(r"\*\*(.+?)\*\*", r"<b>\1</b>", text)
    text = re.sub(r"(?<![\w*])\*([^*\s][^*]*?)\*(?![\w*])", r"<i>\1</i>", text)
    while "\0" in text:
        text = re.sub(r"\0(\d+)\0", lambda m: kept[int(m[1])], text)
    return text


def to_html(source: str, link: Link) -> str:
    """A whole page."""
    lines = re.sub(r"<!--.*?-->\n?", "", source, flags=re.S).split("\n")
    made: list[str] = []
    i = 0
    while i < len(lines):
        line = lines[i]
        if _FENCE.match(line):
            i = _code(lines, i, made)
        elif heading := re.match(r"^(#+) +(.*)", line):
            level = len(heading[1])
            made.append(f'<h{level} id="{anchor(heading[2])}">{inline(heading[2], link)}</h{level}>')
            i += 1
        elif line.startswith("|"):
            i = _table(lines, i, made, link)
        elif _ITEM.match(line):
            i = _list(lines, i, made, link)
        elif line.strip():
            end = _paragraph_end(lines, i)
            made.append(f"<p>{inline(' '.join(part.strip() for part in lines[i:end]), link)}</p>")
            i = end
        else:
            i += 1
    return "\n".join(made)


def _code(lines: list[str], i: int, made: list[str]) -> int:
    fence = _FENCE.match(lines[i])
    end = next(k for k in range(i + 1, len(lines)) if lines[k].startswith("```"))
    made.append(f'<pre class="{fence[1] if fence else ""}"><code>{escape(chr(10).join(lines[i + 1 : end]))}</code></pre>')
    return end + 1


def _table(lines: list[str], i: int, made: list[str], link: Link) -> int:
    end = next((k for k in range(i, len(lines)) if not lines[k].startswith("|")), len(lines))
    rows = [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row.strip()[1:].removesuffix("|"))] for row in lines[i:end]]
    body = ["".join(f"<td>{inline(cell, link)}</td>" for cell in row) for row in rows[2:]]
    head = "".join(f"<th>{inline(cell, link)}</th>" for cell in rows[0])
    made.append(f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in body)}</table>")
    return end


def _list(lines: list[str], i: int, made: list[str], link: Link) -> int:
    first = _ITEM.match(lines[i])
    assert first is not None
    kind, items = ("ol" if first[2][0].isdigit() else "ul"), []
    while i < len(lines) and (item := _ITEM.match(lines[i])):
        text, i = [item[3]], i + 1
        while i < len(lines) and lines[i].strip() and not _ITEM.match(lines[i]) and not _FENCE.match(lines[i]) and not lines[i].startswith(("#", "|")):
            text.append(lines[i].strip())
            i += 1
        items.append(f"<li>{inline(' '.join(text), link)}</li>")
        if i + 1 < len(lines) and not lines[i].strip() and _ITEM.match(lines[i + 1]):
            i += 1
    made.append(f"<{kind}>{''.join(items)}</{kind}>")
    return i


def _paragraph_end(lines: list[str], i: int) -> int:
    end = i + 1
    while end < len(lines) and lines[end].strip() and not lines[end].startswith(("#", "|", "```")) and not _ITEM.match(lines[end]):
        end += 1
    return end
