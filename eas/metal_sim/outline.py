"""What a Metal text declares, found by its brackets: functions, program-scope variables, names of types."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from eas.metal_sim.tokens import OPENING, Token, closing, closing_angle, split_at_commas

_CLASS_WORDS = frozenset(("struct", "class", "union"))
_NOT_VARIABLES = frozenset(
    ["using", "typedef", "namespace", "static_assert", "friend", "template", "enum", "struct", "class", "union", "asm", "__asm", "sampler"]
)


@dataclass(frozen=True, slots=True)
class Function:
    """A function with a body; indices are into the tokens of the text."""

    name: str
    start: int
    parameters: tuple[int, int]  # the brackets of the parameter list
    body: tuple[int, int]  # the braces
    template_names: frozenset[str]
    in_class: bool
    is_template: bool
    is_kernel: bool


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable at program scope or a member: its tokens without attributes, and whether it has a value."""

    tokens: tuple[Token, ...]
    attributes: str
    has_value: bool
    is_template: bool


class Outline:
    """One walk over the declarations of a text."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.functions: list[Function] = []
        self.variables: list[Variable] = []
        self.members: list[Variable] = []
        self.type_names: set[str] = set()
        self.typedefs: set[str] = set()
        """Those of `type_names` that `using` or `typedef` made."""
        self.template_names: set[str] = set()
        self._walk(0, len(tokens), frozenset(), in_class=False)

    def _walk(self, at: int, end: int, template_names: frozenset[str], *, in_class: bool) -> None:
        while at < end:
            token = self.tokens[at]
            if token.kind == "directive" or token.text in (";", "}"):
                at += 1
            elif token.text in ("public", "private", "protected"):
                at += 2
            else:
                at = self._declaration(at, end, template_names, in_class=in_class)

    def _declaration(self, start: int, end: int, outer: frozenset[str], *, in_class: bool) -> int:
        at, has_value = start, False
        while at < end:
            text = self.tokens[at].text
            if text == ";":
                self._statement(start, at, has_value, in_class=in_class)
                return at + 1
            if text == "{":
                if not has_value:
                    return self._braced(start, at, outer, in_class=in_class)
                at = closing(self.tokens, at)
            elif text == "template" and at + 1 < end and self.tokens[at + 1].text == "<":
                at = closing_angle(self.tokens, at + 1)
            elif text in OPENING:
                at = closing(self.tokens, at)
            elif text == "operator":
                at = self._operator_name(at)
            elif text == "=":
                has_value = True
            at += 1
        return end

    def _statement(self, start: int, end: int, has_value: bool, *, in_class: bool) -> None:
        head = self.head(start, end)
        words = [t.text for t in head]
        if words[:1] in (["using"], ["typedef"]):
            self.typedefs.add(words[1] if words[0] == "using" else words[-1])
            self.type_names |= self.typedefs
        elif words[:1] and words[0] in _CLASS_WORDS and len(words) == 2:
            self.type_names.add(words[1])
        is_template = self.tokens[start].text == "template"
        if not head or _NOT_VARIABLES & set(words):
            return
        before_value = words[: words.index("=")] if "=" in words else words
        if "(" in before_value:  # a function, or an explicit instantiation
            return
        (self.members if in_class else self.variables).append(Variable(tuple(head), self._attributes(start, end), has_value, is_template))

    def _braced(self, start: int, brace: int, outer: frozenset[str], *, in_class: bool) -> int:
        close = closing(self.tokens, brace)
        head = self.head(start, brace)
        words = [t.text for t in head]
        names = outer | self._template_names(start, brace)
        self.template_names |= names
        if "namespace" in words or words[:1] == ["extern"]:
            self._walk(brace + 1, close, outer, in_class=False)
            return close + 1
        if "enum" in words or ("(" not in words and _CLASS_WORDS & set(words)):
            self.type_names |= set(words[1:2]) if words[0] in _CLASS_WORDS or words[0] == "enum" else set()
            if "enum" not in words:
                self._walk(brace + 1, close, names, in_class=True)
            at = close + 1
            while at < len(self.tokens) and self.tokens[at].text != ";":
                at += 1
            self._behind_class(start, close, at, words, in_class=in_class)
            return at + 1
        if "(" in words:
            self._function(start, brace, close, names, in_class=in_class)
        elif head and not in_class and not _NOT_VARIABLES & set(words):
            self.variables.append(Variable(tuple(head), self._attributes(start, brace), True, self.tokens[start].text == "template"))
        return close + 1

    def _behind_class(self, start: int, close: int, end: int, words: list[str], *, in_class: bool) -> None:
        """What `struct S {...} name;` declares: a variable, or a type's name behind `typedef`."""
        names = self.head(close + 1, end)
        if words[:1] == ["typedef"]:
            self.type_names |= {t.text for t in names[-1:]}
        elif names and not in_class:
            tokens = (*self.head(start, close)[: len(words)], *names)
            self.variables.append(Variable(tokens, self._attributes(close + 1, end), True, is_template=False))

    def _function(self, start: int, brace: int, close: int, names: frozenset[str], *, in_class: bool) -> None:
        opening = self._parameter_list(start, brace)
        if opening is None:
            return
        words = [t.text for t in self.head(start, opening)]
        name = words[-1] if words else ""
        self.functions.append(
            Function(
                name="operator" if "operator" in words else name,
                start=start,
                parameters=(opening, closing(self.tokens, opening)),
                body=(brace, close),
                template_names=names,
                in_class=in_class,
                is_template=self.tokens[start].text == "template",
                is_kernel="kernel" in words or "kernel" in self._attributes(start, opening).split(),
            )
        )

    def _parameter_list(self, start: int, brace: int) -> int | None:
        at = start
        while at < brace:
            text = self.tokens[at].text
            if text == "template" and self.tokens[at + 1].text == "<":
                at = closing_angle(self.tokens, at + 1)
            elif text == "[" and self.tokens[at + 1].text == "[":
                at = closing(self.tokens, at)
            elif text == "__attribute__" or text == "alignas":
                at = closing(self.tokens, at + 1)
            elif text == "operator":
                at = self._operator_name(at)
            elif text == "(":
                return at
            at += 1
        return None

    def _operator_name(self, at: int) -> int:
        """The last token of `operator+=`, `operator()` or `operator float`."""
        if self.tokens[at + 1].text in OPENING:
            return closing(self.tokens, at + 1)
        while at + 1 < len(self.tokens) and self.tokens[at + 1].text != "(":
            at += 1
        return at

    def _template_names(self, start: int, end: int) -> frozenset[str]:
        """Names of template parameters declared in a head."""
        found: set[str] = set()
        at = start
        while at < end:
            if self.tokens[at].text == "template" and self.tokens[at + 1].text == "<":
                last = closing_angle(self.tokens, at + 1)
                for part in split_at_commas(self.tokens[at + 2 : last]):
                    words = [t.text for t in part if t.kind == "word"]
                    before = [t.text for t in part]
                    cut = before.index("=") if "=" in before else len(before)
                    named = [t.text for t in part[:cut] if t.kind == "word"]
                    found |= set(named[-1:] or words[-1:])
                at = last
            at += 1
        return frozenset(found)

    def head(self, start: int, end: int) -> list[Token]:
        """The tokens of a range without template lists and attributes."""
        kept: list[Token] = []
        at = start
        while at < end:
            text = self.tokens[at].text
            if text == "template" and at + 1 < end and self.tokens[at + 1].text == "<":
                at = closing_angle(self.tokens, at + 1)
            elif text == "[" and at + 1 < end and self.tokens[at + 1].text == "[":
                at = closing(self.tokens, at)
            elif text in ("__attribute__", "alignas", "decltype") and self.tokens[at + 1].text == "(":
                at = closing(self.tokens, at + 1)
            else:
                kept.append(self.tokens[at])
            at += 1
        return kept

    def _attributes(self, start: int, end: int) -> str:
        """The words, numbers and sums inside [[...]] of a range."""
        words: list[str] = []
        at = start
        while at < end:
            if self.tokens[at].text == "[" and self.tokens[at + 1].text == "[":
                last = closing(self.tokens, at)
                words += [t.text for t in self.tokens[at:last] if t.kind in ("word", "number") or t.text in ("+", "*")]
                at = last
            at += 1
        return " ".join(words)

    def kernels(self) -> Iterator[Function]:
        """The functions that a program can launch."""
        return (f for f in self.functions if f.is_kernel)
