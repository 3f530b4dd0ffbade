"""Kernels and their parameters: where each is bound, what type a position has, who calls whom."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from eas.metal_sim.outline import Function
from eas.metal_sim.strict.text import SPACES, VECTOR_TYPE, Found, Text, is_builtin_type, is_member
from eas.metal_sim.tokens import Token, closing, split_at_commas

# All of one kernel have one dimension.
GRID_POSITIONS = frozenset(
    ["thread_position_in_grid", "thread_position_in_threadgroup", "threadgroup_position_in_grid", "threads_per_grid", "threads_per_threadgroup",
     "threadgroups_per_grid", "dispatch_threads_per_threadgroup", "grid_size", "grid_origin"]
)  # fmt: skip
_POSITION = re.compile(r"(thread|threadgroup|simdgroup|quadgroup|dispatch|threads|threadgroups|simdgroups|quadgroups|grid)_\w+$")
_UNSIGNED = re.compile(r"(?:ushort|uint|uint16_t|uint32_t|unsigned)([234]?)$")
_ENDS = frozenset(["=", ",", ")", "[", ";"])
_LIMIT = "max_total_threads_per_threadgroup"


@dataclass(frozen=True, slots=True)
class _Parameter:
    """A kernel's parameter: its tokens before the attributes, and the attributes."""

    plain: list[Token]
    attributes: list[str]
    """Words, numbers and brackets of [[...]]."""

    @property
    def name(self) -> Token:
        return next((t for t in reversed(self.plain) if t.kind == "word"), self.plain[-1])

    @property
    def spaces(self) -> set[str]:
        return {t.text for t in self.plain} & SPACES

    @property
    def is_pointer(self) -> bool:
        return any(t.text in ("*", "&", "[") for t in self.plain)

    @property
    def position(self) -> str | None:
        return next((w for w in self.attributes if _POSITION.fullmatch(w) and w not in ("threadgroup_imageblock",)), None)


def _parameters(text: Text, kernel: Function) -> Iterator[_Parameter]:
    opening, end = kernel.parameters
    for part in split_at_commas(text.tokens[opening + 1 : end]):
        first = next((i for i in range(len(part) - 1) if part[i].text == part[i + 1].text == "["), len(part))
        if first:
            yield _Parameter(part[:first], [t.text for t in part[first:]])


def kernel_result(text: Text) -> Found:
    for kernel in text.outline.kernels():
        words = text.outline.head(kernel.start, kernel.parameters[0])
        if any(t.text == "static" for t in words):
            yield words[-1], f"kernel {kernel.name} cannot be static: the host would not find it"
        plain = [t for t in words[:-1] if t.text not in ("kernel", "static", "inline", "extern", "constexpr") and t.kind != "string"]
        if [t.text for t in plain] != ["void"]:
            yield words[-1], f"kernel {kernel.name} must return void"


def kernel_methods(text: Text) -> Found:
    for kernel in text.outline.kernels():
        if kernel.in_class:
            yield text.tokens[kernel.parameters[0] - 1], f"kernel {kernel.name} cannot be a method"


def kernel_calls(text: Text) -> Found:
    """Kernels are launched, not called; a name that something else has, too, is not looked at."""
    entries = {f.name: f for f in text.outline.functions if f.is_kernel or _is_drawn(text, f)}
    plain = {f.name for f in text.outline.functions if f is not entries.get(f.name) and not f.is_kernel} | text.outline.type_names
    names = entries.keys() - plain
    for function in text.outline.functions:
        yield from _entries_used(text, function, {n: entries[n] for n in names})


def _entries_used(text: Text, function: Function, entries: Mapping[str, Function]) -> Found:
    tokens = text.tokens
    places = [i for i in range(function.parameters[0] + 1, function.body[1]) if tokens[i].text in entries and not is_member(tokens, i)]
    # A parameter or a variable may have the name.
    own = {tokens[i].text for i in places if (tokens[i - 1].text in ("*", "&") and tokens[i + 1].text in _ENDS) or _is_type_word(tokens[i - 1])}
    for i in places:
        if tokens[i].text in own or i < function.body[0]:
            continue
        is_call = tokens[i + 1].text == "(" or (tokens[i + 1].text == "<" and entries[tokens[i].text].is_template)
        if is_call or tokens[i - 1].text == "&":
            what = "calls" if is_call else "takes the address of"
            yield tokens[i], f"{function.name} {what} {tokens[i].text}: kernels are launched by the host"


def _is_type_word(token: Token) -> bool:
    return token.kind == "word" and token.text not in ("return", "else", "do", "case")


def _is_drawn(text: Text, function: Function) -> bool:
    """Whether it is a vertex or a fragment function."""
    return any(t.text in ("vertex", "fragment") for t in text.tokens[function.start : function.parameters[0]])


def bindings(text: Text) -> Found:
    """Which memory each attribute of a parameter asks for."""
    constants = {t.text for v in text.outline.variables for t in v.tokens}
    for kernel in text.outline.kernels():
        for p in _parameters(text, kernel):
            yield from _binding(p)
            yield from _condition(p, constants | kernel.template_names)


def _condition(p: _Parameter, constants: set[str]) -> Found:
    """[[function_constant(name)]] of a parameter that a pipeline may leave out."""
    at = p.attributes.index("function_constant") if "function_constant" in p.attributes else -1
    named = p.attributes[at + 2] if 0 <= at < len(p.attributes) - 2 else None
    if named is not None and named.isidentifier() and named not in constants:
        yield p.name, f"{p.name.text} depends on the function constant {named}, which is not declared"


def local_attributes(text: Text) -> Found:
    """Attributes of arguments on what is no parameter."""
    tokens = text.tokens
    for function in text.outline.functions:
        for i in range(function.body[0] + 1, function.body[1] - 2):
            word = tokens[i + 2]
            if tokens[i].text == tokens[i + 1].text == "[" and (word.text in ("buffer", "texture", "sampler", "threadgroup", "function_constant") or _POSITION.fullmatch(word.text)):
                yield word, f"[[{word.text}]] is for parameters of kernels"


def _binding(p: _Parameter) -> Found:
    name = p.name
    if p.position is not None:
        if p.attributes[p.attributes.index(p.position) + 1] == "(":
            yield name, f"[[{p.position}]] of {name.text} takes no argument"
        elif "buffer" in p.attributes:
            yield name, f"{name.text} cannot be a buffer and [[{p.position}]]"
        elif p.is_pointer:
            yield name, f"[[{p.position}]] is a value: {name.text} cannot be a pointer or a reference"
        return
    if p.is_pointer and "thread" in p.spaces:
        yield name, f"{name.text} cannot be in thread memory: a kernel's arguments are in device, constant or threadgroup memory"
    elif "buffer" in p.attributes and not (p.is_pointer and p.spaces & {"device", "constant"}):
        yield name, f"[[buffer(n)]] needs a device or constant pointer or reference, which {name.text} is not"
    elif "threadgroup" in p.attributes and not (p.is_pointer and "threadgroup" in p.spaces):
        yield name, f"[[threadgroup(n)]] needs a threadgroup pointer or reference, which {name.text} is not"
    texts = [t.text for t in p.plain]
    if any(a == b == "*" for a, b in itertools.pairwise(texts)):
        yield name, f"{name.text} points to pointers without an address space"
    for word in ("buffer", "threadgroup"):
        if word in p.attributes and p.attributes[p.attributes.index(word) + 1] != "(":
            yield name, f"[[{word}]] of {name.text} needs an index"


def position_types(text: Text) -> Found:
    for kernel in text.outline.kernels():
        first: tuple[str, str] | None = None
        for p in _parameters(text, kernel):
            if p.position is None or p.is_pointer:
                continue
            words = [t.text for t in p.plain if t.text not in ("const", "metal", "::", "int", "short")]
            if len(words) < 2 or "<" in words:  # a type that only the compiler knows, or `int` alone
                yield from _signed_position(p)
                continue
            yield from _position_type(p, words[0])
            match = _UNSIGNED.fullmatch(words[0])
            if match is None or p.position not in GRID_POSITIONS:
                continue
            if first is not None and first[1] != match[1]:
                yield p.name, f"[[{p.position}]] and [[{first[0]}]] of kernel {kernel.name} must have one dimension"
            first = first or (p.position, match[1])


def _position_type(p: _Parameter, told: str) -> Found:
    match = _UNSIGNED.fullmatch(told)
    if match is None and (is_builtin_type(told) or VECTOR_TYPE.match(told)):
        yield p.plain[0], f"[[{p.position}]] needs a ushort or uint, or a vector of them, not {told}"
    elif match is not None and match[1] == "4":
        yield p.plain[0], f"[[{p.position}]] has three components at most"
    elif match is not None and match[1] and p.position not in GRID_POSITIONS:
        yield p.plain[0], f"[[{p.position}]] is one number, not {told}"


def _signed_position(p: _Parameter) -> Found:
    words = [t.text for t in p.plain if t.text not in ("const", "metal", "::")]
    if words[0] in ("int", "short"):
        yield p.plain[0], f"[[{p.position}]] needs a ushort or uint, or a vector of them, not {words[0]}"


def buffer_indices(text: Text) -> Found:
    for kernel in text.outline.kernels():
        taken: set[tuple[str, int]] = set()
        for i in range(*kernel.parameters):
            name, number = text.tokens[i], text.tokens[i + 2]
            if name.text not in ("buffer", "threadgroup") or text.tokens[i + 1].text != "(" or not re.fullmatch(r"[0-9]{1,9}", number.text):
                continue
            if text.tokens[i - 1].text not in ("[", ","):
                continue
            key = (name.text, int(number.text))
            if key[1] > 30:
                yield number, f"[[{name.text}({key[1]})]] is above 30: Metal has 31 {name.text} entries per kernel"
            elif key in taken:
                yield number, f"[[{name.text}({key[1]})]] is used twice in kernel {kernel.name}"
            taken.add(key)


def thread_limits(text: Text) -> Found:
    """[[max_total_threads_per_threadgroup(n)]] stands at a kernel, with a positive constant."""
    tokens = text.tokens
    for function in text.outline.functions:
        for i in range(function.start, function.parameters[0]):
            if tokens[i].text != _LIMIT:
                continue
            if not function.is_kernel:
                yield tokens[i], f"[[{_LIMIT}]] is for kernels, and {function.name} is none"
            elif tokens[i + 1].text != "(":
                yield tokens[i], f"[[{_LIMIT}]] needs the number of threads"
            else:
                yield from _limit(text, function, i)


def _limit(text: Text, kernel: Function, at: int) -> Found:
    argument = text.tokens[at + 2 : closing(text.tokens, at + 1)]
    known = kernel.template_names | {t.text for v in text.outline.variables for t in v.tokens} | {t.text for m in text.outline.members for t in m.tokens}
    unknown = [t for t in argument if t.kind == "word" and t.text not in known | text.outline.type_names]
    if not argument or argument[0].text == "-" or (len(argument) == 1 and argument[0].kind == "number" and not re.fullmatch("[1-9][0-9]*[uU]?", argument[0].text)) or _has_new_names(unknown, text.tokens):
        shown = "".join(t.text for t in argument)
        yield text.tokens[at], f"[[{_LIMIT}({shown})]] of kernel {kernel.name} needs a positive constant"


def _has_new_names(unknown: Sequence[Token], tokens: Sequence[Token]) -> bool:
    """Whether a word stands nowhere else in the text, so that nothing can declare it."""
    return any(sum(t.text == word.text for t in tokens) == 1 for word in unknown)
