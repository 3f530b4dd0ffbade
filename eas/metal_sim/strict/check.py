"""Refuses Metal text that Apple's compiler refuses: the table of checks, and the checks that read tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from eas.metal_sim.errors import MetalSourceError
from eas.metal_sim.outline import Outline
from eas.metal_sim.strict import declarations, kernels, words
from eas.metal_sim.strict import pointers as strict_pointers
from eas.metal_sim.strict.calls import recursive_call
from eas.metal_sim.strict.text import Found, Text
from eas.metal_sim.tokens import line_of, tokenize


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
    try:
        found = [(token.start, token, message, rule) for rule in CHECKS if rule.find is not None for token, message in rule.find(seen)]
    except IndexError:  # the text ends inside of a declaration
        raise MetalSourceError("Metal: the text has a declaration that is not complete", file=file) from None
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
    Check("double", "the type double", TOKENS, words.words("Metal has no double", "double"), "use float"),
    Check("long long", "long long", TOKENS, words.long_long, "long is 64 bits wide"),
    Check("types of C", "__int128, _Float16, __fp16, __bf16, wchar_t, _Complex", TOKENS,
          words.words("Metal has no {}", "__int128", "__int128_t", "__uint128_t", "_Float16", "__fp16", "__bf16", "__float128", "wchar_t", "char16_t", "char32_t", "_Complex", "_BitInt"), "use half, bfloat, short or long"),
    Check("literals", "suffixes as in 0LL, 1.0L, 1.0f16 and 1h", TOKENS, words.literals, "write 0L, 1.0f, 1.0h or 1.0bf"),
    Check("names", "words of the language as names", TOKENS, words.reserved_names, "choose another name"),
    Check("main", "a function called main", TOKENS, words.main_function, "choose another name"),
    Check("goto", "goto", TOKENS, words.words("Metal has no goto", "goto")),
    Check("exceptions", "try, catch, throw", TOKENS, words.words("Metal has no exceptions ({})", "try", "catch", "throw")),
    Check("noexcept", "the operator noexcept", TOKENS, words.noexcept_operator),
    Check("heap", "new and delete", TOKENS, words.new_delete),
    Check("type identification", "dynamic_cast, typeid", TOKENS, words.words("Metal has no {}", "dynamic_cast", "typeid")),
    Check("virtual", "virtual functions", TOKENS, words.words("Metal has no virtual functions", "virtual")),
    Check("thread_local", "thread_local, register", TOKENS, words.words("Metal has no {}", "thread_local", "register")),
    Check("asm", "inline assembly", TOKENS, words.words("Metal has no inline assembly", "asm", "__asm", "__asm__")),
    Check("standard library", "std::", TOKENS, words.std, "metal_stdlib has metal::min, metal::numeric_limits and their kin"),
    Check("headers", "headers for textures, ray tracing and tensors", TOKENS, words.headers),
    Check("coherent before 3.2", "coherent before Metal 3.2", TOKENS, words.coherent, 'language="3.2"'),
    Check("long before 2.2", "64-bit integers before Metal 2.2", TOKENS, words.long_integers),
    Check("program scope", "variables at program scope outside of constant", TOKENS, declarations.program_scope, "write `constant` before the type"),
    Check("static members", "static members outside of constant", TOKENS, declarations.static_members, "write `static constant constexpr`, or an enum"),
    Check("constants without value", "constant variables without a value", TOKENS, declarations.uninitialised_constant),
    Check("local variables", "static and device variables of functions, threadgroup variables of helpers, with a value, or of a class with constructors for thread memory", TOKENS, declarations.local_variables,
          "pass a pointer, and let each thread write its part before a barrier"),
    Check("function pointers", "pointers to functions that are not visible", TOKENS, declarations.function_pointers, "make the function a template argument"),
    Check("variadic functions", "functions of any number of arguments", TOKENS, declarations.variadic, "use a template with a parameter pack"),
    Check("function constant declarations", "function constants of one index, with values, of structs, matrices or arrays, above 65535", TOKENS, declarations.function_constants),
    Check("kernel result", "kernels that return a value", TOKENS, kernels.kernel_result),
    Check("kernel methods", "kernels that are methods", TOKENS, kernels.kernel_methods),
    Check("kernel calls", "functions that call a kernel", TOKENS, kernels.kernel_calls, "move the common part into a function"),
    Check("bindings", "kernel parameters whose memory and attribute do not fit", TOKENS, kernels.bindings),
    Check("position types", "positions that are not ushort or uint, or of different dimensions", TOKENS, kernels.position_types),
    Check("buffer indices", "[[buffer(n)]] above 30 or used twice", TOKENS, kernels.buffer_indices),
    Check("local attributes", "attributes of kernel parameters on local variables", TOKENS, kernels.local_attributes),
    Check("thread limits", "[[max_total_threads_per_threadgroup(n)]] without a positive number, or not at a kernel", TOKENS, kernels.thread_limits),
    Check("private atomics", "atomics in thread or constant memory", TOKENS, declarations.private_atomics),
    Check("threadgroup float atomics", "atomic_float in threadgroup memory before Metal 4.1", TOKENS, _threadgroup_float_atomics, "add through an atomic_uint and compare-exchange"),
    Check("pointers without space", "pointers and references without an address space", TOKENS, _address_spaces, "write device, constant, threadgroup or thread before the type"),
    Check("recursion", "functions that call themselves", TOKENS, _recursion, "use a loop"),
    Check("references", "device, constant and threadgroup references to values of other spaces, or to temporaries", SECOND),
    Check("kernel names", "two kernels of one host name, a host name that is no string, static kernels, functions defined twice, or called and never defined", TOKENS),
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
        "Generated from `eas/metal_sim/strict/check.py`; `tests/sim/test_sim_strict.py` has a text for each row and texts that must pass.\n"
        "A text is refused with its line. Nothing outside of this table is refused on purpose: a kernel that Apple's compiler takes runs here.\n\n"
        "| check | refuses | found by | next step |\n|---|---|---|---|\n" + rows + "\n"
        "The address-space compile reads the text as C++ for OpenCL, which has real address spaces. What that language cannot\n"
        "express gives errors that do not count; only an error that names two different spaces does. It does not see into\n"
        "templates that are never instantiated there. Recursion is found among functions that have a name of their own and are no\n"
        "templates; an implicit conversion of bfloat to half is not found.\n"
    )
