"""Linked texts as markup: panes side by side whose lines are bound by keys."""

from __future__ import annotations

from collections.abc import Sequence

from eas.explain.linked import Listing, SourceBlock, Spot, TextLine
from eas.explain.svg import element, esc

_COLOURS = 8
HELP = (
    "Point at a line to see where it came from and what became of it; click, or <kbd>Enter</kbd>, keeps it, <kbd>↑</kbd> <kbd>↓</kbd> walk on, <kbd>Esc</kbd> lets go. "
    "The address of the page remembers the line."
)


class Keys:
    """A short name for every line of the user's that some text is from; `prefix` tells the kernels of a page apart."""

    def __init__(self, prefix: str, listings: Sequence[Listing]) -> None:
        spots = sorted({spot for listing in listings for line in listing.lines for spot in line.spots})
        self._keys = {spot: f"{prefix}{i + 1}" for i, spot in enumerate(spots)}
        self._colour = {spot: i % _COLOURS for i, spot in enumerate(spots)}

    def of(self, spots: Sequence[Spot]) -> str:
        return " ".join(self._keys[s] for s in spots if s in self._keys)

    def colour(self, spot: Spot) -> str:
        return f"c{self._colour[spot]}"

    def __contains__(self, spot: Spot) -> bool:
        return spot in self._keys

    def rules(self) -> str:
        """The same links for readers without scripts: a rule of style per key."""
        return "".join(f"body:has(.{k}:hover) .{k}{{background:var(--warm)}}body:has(#{k}:target) .{k}{{background:var(--hot)}}" for k in self._keys.values())


def panes(keys: Keys, sources: Sequence[SourceBlock], first: Sequence[Listing], more: Sequence[Listing]) -> str:
    """The user's lines and the first texts side by side, further ones below, folded."""
    return element("p", HELP, class_="keys") + listing_panes(keys, first, more, source_pane(keys, sources))


def listing_panes(keys: Keys, first: Sequence[Listing], more: Sequence[Listing], before: str = "") -> str:
    """Texts side by side, further ones below, folded; `before` is a pane that stands first."""
    shown = before + "".join(_pane(keys, listing) for listing in first)
    folded = "".join(_folded(keys, listing) for listing in more)
    return element("div", shown, class_="panes") + element("div", folded, class_="panes", style="margin-top:12px")


def source_pane(keys: Keys, sources: Sequence[SourceBlock]) -> str:
    """The user's lines."""
    body = "".join(element("div", esc(f"{b.shown_name}:{b.first}"), class_="file", title=b.filename) + _source(keys, b) for b in sources)
    empty = element("p", "The source of this kernel is not in a file.", class_="note")
    return framed("Python", element("div", body or empty, class_="scroll", tabindex="-1"))


def _source(keys: Keys, block: SourceBlock) -> str:
    lines = []
    for n, text in enumerate(block.lines, block.first):
        spot = (block.filename, n)
        if spot in keys:
            key = keys.of([spot])
            lines.append(element("a", esc(text) or " ", class_=f"l {keys.colour(spot)} {key}", id=key, href=f"#{key}", data_k=key, data_n=n))
        else:
            lines.append(element("span", esc(text) or " ", class_="l", data_n=n))
    return element("pre", "".join(lines))


def _pane(keys: Keys, listing: Listing) -> str:
    return framed(listing.name, _text(keys, listing), f"{len(listing.lines)} lines" if listing.lines else "")


def framed(name: str, body: str, about: str = "") -> str:
    """A pane with a heading."""
    head = element("header", element("h3", esc(name)) + element("span", esc(about), class_="soft"))
    return element("section", head + body, class_="pane", aria_label=name)


def _folded(keys: Keys, listing: Listing) -> str:
    about = f"{listing.name} ({len(listing.lines)} lines)" if listing.lines else listing.name
    return element("details", element("summary", esc(about)) + _text(keys, listing), class_="pane")


def _text(keys: Keys, listing: Listing) -> str:
    note = element("p", esc(listing.note), class_="note") if listing.note else ""
    if not listing.lines:
        return note
    body = element("pre", "".join(_line(keys, line) for line in listing.lines), class_="count")
    return element("div", body, class_="scroll", tabindex="-1") + note


def _line(keys: Keys, line: TextLine) -> str:
    found = keys.of(line.spots)
    if not found:
        return element("span", esc(line.text) or " ", class_="l")
    first = found.split(" ", 1)[0]
    return element("a", esc(line.text) or " ", class_=f"l {keys.colour(line.spots[0])} {found}", href=f"#{first}", data_k=found)
