"""Refuses Metal text that Apple's compiler refuses: the table of checks, and the checks that read tokens."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from eas.metal_sim import strict_pointers
from eas.metal_sim.errors import MetalSourceError
from eas.metal_sim.outline import Outline
from eas.metal_sim.strict_calls import recursive_call
from eas.metal_sim.tokens import Token, line_of, split_at_commas, tokenize

Found = Iterator[tuple[Token, str]]


@dataclass(frozen=True, slots=True)
class Text:
    """A preprocessed Metal text, with what the checks ask of it."""

    source: str
    tokens: list[Token]
    outline: Outline
    language: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that Metal refuses; `by` says which part of the software Metal refuses it."""

    name: str
    refuses: str
    by: str
    find: Callable[[Text], Found] | None = None
    hint: str = ""


def check(text: str, language: str = "3.1", file: str = "") -> None:
    """Raise `MetalSourceError` for the first thing in preprocessed text that Metal refuses."""
    tokens = tokenize(text)
    major, minor = language.split(".")
    seen = Text(text, tokens, Outline(tokens), (int(major), int(minor)))
    found = [
        (token.start, token, message, rule)
        for rule in CHECKS
        if rule.find is not None
        for token, message in rule.find(seen)
    ]
    if not found:
        return
    _, token, message, rule = min(found, key=lambda f: f[0])
    line, where = line_of(text, token.start)
    shown, column = _source_line(text, token.start)
    raise MetalSourceError(f"Metal: {message}", line=line, file=where or file, text=shown, column=column, hint=rule.hint)


def _source_line(text: str, at: int) -> tuple[str, int]:
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    return text[start : end if end >= 0 else len(text)], at - start + 1


# --- words that Metal does not have ---------------------------------------------------------------


def _words(message: str, *words: str) -> Callable[[Text], Found]:
    refused = frozenset(words)

    def find(text: Text) -> Found:
        for i, token in enumerate(text.tokens):
            if token.kind == "word" and token.text in refused and not _is_member(text.tokens, i):
                yield token, message.format(token.text)

    return find


def _is_member(tokens: list[Token], at: int) -> bool:
    """`x.name` and `attribute [[name]]` are not the keyword."""
    return at > 0 and tokens[at - 1].text in (".", "->")


def _long_long(text: Text) -> Found:
    for a, b in pairwise(text.tokens):
        if a.text == b.text == "long":
            yield a, "Metal has no long long"


def _new_delete(text: Text) -> Found:
    tokens = text.tokens
    for i, token in enumerate(tokens):
        if token.kind != "word" or _is_member(tokens, i) or token.text not in ("new", "delete"):
            continue
        if token.text == "delete" and i and tokens[i - 1].text == "=":  # a deleted function
            continue
        yield token, f"Metal has no {token.text}: there is no heap"


def _std(text: Text) -> Found:
    tokens = text.tokens
    if any(a.text == "namespace" and b.text == "std" for a, b in pairwise(tokens)):
        return
    for i, token in enumerate(tokens[:-1]):
        if token.text == "std" and tokens[i + 1].text == "::" and not (i and tokens[i - 1].text == "::" and tokens[i - 2].kind == "word"):
            yield token, "Metal has no C++ standard library"


# --- declarations ---------------------------------------------------------------------------------


def _program_scope(text: Text) -> Found:
    for variable in text.outline.variables:
        words = {t.text for t in variable.tokens}
        if variable.is_template or "constant" in words or len(variable.tokens) < 2:
            continue
        yield _named(variable.tokens), "a variable at program scope must be in the constant address space"


def _uninitialised_constant(text: Text) -> Found:
    for variable in text.outline.variables:
        words = [t.text for t in variable.tokens]
        if variable.has_value or "constant" not in words or variable.is_template or "::" in words:
            continue  # `constant T S::member[8];` only repeats what the class says
        if "function_constant" not in variable.attributes.split():
            yield _named(variable.tokens), "a constant at program scope needs a value or [[function_constant(index)]]"


def _named(tokens: tuple[Token, ...]) -> Token:
    """The token that names what a declaration declares."""
    for i, token in enumerate(tokens):
        if token.text in ("=", "[", "{", ","):
            return tokens[max(i - 1, 0)]
    return tokens[-1]


def _kernel_result(text: Text) -> Found:
    for kernel in text.outline.kernels():
        words = text.outline.head(kernel.start, kernel.parameters[0])
        plain = [t for t in words[:-1] if t.text not in ("kernel", "static", "inline", "extern", "constexpr") and t.kind != "string"]
        if [t.text for t in plain] != ["void"]:
            yield words[-1], f"kernel {kernel.name} must return void"


_POSITION = re.compile(r"(thread|threadgroup|simdgroup|quadgroup|dispatch|threads|threadgroups|simdgroups|quadgroups|grid)_\w+$")
_WRONG_POSITION = re.compile(r"(int|short|char|uchar|long|ulong|float|half|bfloat|bool|size_t|int\d+_t|uint8_t|uint64_t)[234]?$")


def _position_types(text: Text) -> Found:
    for kernel in text.outline.kernels():
        opening, end = kernel.parameters
        for part in split_at_commas(text.tokens[opening + 1 : end]):
            words = [t.text for t in part]
            if "[" not in words:
                continue
            first = words.index("[")
            attribute = next((w for w in words[first:] if _POSITION.fullmatch(w)), None)
            types = [t for t in part[:first] if t.text not in ("const", "unsigned", "metal", "::")]
            if attribute and types and "unsigned" not in words and _WRONG_POSITION.fullmatch(types[0].text):
                yield types[0], f"[[{attribute}]] needs a ushort or uint, or a vector of them, not {types[0].text}"


def _buffer_indices(text: Text) -> Found:
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


def _threadgroup_float_atomics(text: Text) -> Found:
    if text.language >= (4, 1):
        return
    tokens = text.tokens
    for i, token in enumerate(tokens[:-4]):
        following = [t.text for t in tokens[i + 1 : i + 8] if t.text not in ("metal", "::", "volatile", "const")]
        if token.text == "threadgroup" and (following[:1] == ["atomic_float"] or following[:4] in (["atomic", "<", "float", ">"], ["_atomic", "<", "float", ">"])):
            yield token, "atomic_float in threadgroup memory needs Metal 4.1"


def _address_spaces(text: Text) -> Found:
    yield from strict_pointers.unqualified(text.tokens, text.outline)


def _recursion(text: Text) -> Found:
    found = recursive_call(text.tokens, text.outline)
    if found is not None:
        token, path = found
        yield token, f"{path[0]} calls itself ({' -> '.join(path)}): Metal has no recursion"


TOKENS, COMPILER, SECOND, LAUNCH = "the text", "the shim and the compiler", "the address-space compile", "the launch"
CHECKS: tuple[Check, ...] = (
    Check("double", "the type double", TOKENS, _words("Metal has no double", "double"), "use float"),
    Check("long long", "long long", TOKENS, _long_long, "long is 64 bits wide"),
    Check("goto", "goto", TOKENS, _words("Metal has no goto", "goto")),
    Check("exceptions", "try, catch, throw", TOKENS, _words("Metal has no exceptions ({})", "try", "catch", "throw")),
    Check("heap", "new and delete", TOKENS, _new_delete),
    Check("type identification", "dynamic_cast, typeid", TOKENS, _words("Metal has no {}", "dynamic_cast", "typeid")),
    Check("virtual", "virtual functions", TOKENS, _words("Metal has no virtual functions", "virtual")),
    Check("thread_local", "thread_local, register", TOKENS, _words("Metal has no {}", "thread_local", "register")),
    Check("standard library", "std::", TOKENS, _std, "metal_stdlib has metal::min, metal::numeric_limits and their kin"),
    Check("program scope", "variables at program scope outside of constant", TOKENS, _program_scope, "write `constant` before the type"),
    Check("constants without value", "constant variables without a value", TOKENS, _uninitialised_constant),
    Check("kernel result", "kernels that return a value", TOKENS, _kernel_result),
    Check("position types", "positions that are not ushort or uint", TOKENS, _position_types),
    Check("buffer indices", "[[buffer(n)]] above 30 or used twice", TOKENS, _buffer_indices),
    Check("threadgroup float atomics", "atomic_float in threadgroup memory before Metal 4.1", TOKENS, _threadgroup_float_atomics, "add through an atomic_uint and compare-exchange"),
    Check("pointers without space", "pointers and references without an address space", TOKENS, _address_spaces, "write device, constant, threadgroup or thread before the type"),
    Check("recursion", "functions that call themselves", TOKENS, _recursion, "use a loop"),
    Check("address spaces", "a pointer of one address space used as another", SECOND),
    Check("writes to constant", "assignment through a constant pointer", COMPILER),
    Check("bfloat conversions", "implicit conversion of float or half to bfloat", COMPILER),
    Check("bfloat functions", "a float function's result stored as bfloat", COMPILER),
    Check("bfloat before 3.1", "bfloat before Metal 3.1", COMPILER),
    Check("simd types", "simd_ and quad_ functions on bool, bfloat and 64-bit types", COMPILER),
    Check("simd bit types", "simd_and, simd_or, simd_xor on floats", COMPILER),
    Check("vector conversions", "implicit conversion between vectors of different types", COMPILER),
    Check("ambiguous calls", "max(float, int) and other calls that fit two overloads", COMPILER),
    Check("matrix shapes", "simdgroup_matrix other than 8x8 of float, half or bfloat", COMPILER),
    Check("atomic types", "atomic<T> of types without atomics, atomic functions on plain pointers", COMPILER),
    Check("atomic float min", "atomic_fetch_min, max, and, or, xor on atomic_float", COMPILER),
    Check("memory orders", "atomic functions with an order other than relaxed before Metal 4.1", COMPILER),
    Check("variable-length arrays", "arrays whose length is not constant", COMPILER),
    Check("as_type sizes", "as_type between types of different size", COMPILER),
    Check("threadgroup memory", "more than 32 KB of threadgroup memory", LAUNCH),
    Check("function constants", "a kernel that uses a function constant without a value", LAUNCH),
    Check("threads", "more than 1024 threads in a threadgroup", LAUNCH),
    Check("bytes", "more than 4 KB passed by value", LAUNCH),
)


def table() -> str:
    """The checks as a page of the documentation."""
    rows = "".join(f"| {c.name} | {c.refuses} | {c.by} | {c.hint} |\n" for c in CHECKS)
    return (
        "# What the software Metal refuses\n\n"
        "Generated from `eas/metal_sim/strict.py`; `tests/sim/test_sim_strict.py` has a text for each row and texts that must pass.\n"
        "A text is refused with its line. Nothing outside of this table is refused on purpose: a kernel that Apple's compiler takes runs here.\n\n"
        "| check | refuses | found by | next step |\n|---|---|---|---|\n" + rows + "\n"
        "The address-space compile reads the text as C++ for OpenCL, which has real address spaces. What that language cannot\n"
        "express gives errors that do not count; only an error that names two different spaces does. It does not see into\n"
        "templates that are never instantiated there. Recursion is found among functions that have a name of their own and are no\n"
        "templates; an implicit conversion of bfloat to half is not found.\n"
    )
