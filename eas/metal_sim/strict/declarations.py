"""Variables in memory where Metal has none, functions that are no plain functions, function constants."""

from __future__ import annotations

import re

from eas.metal_sim.strict.text import (
    ATOMIC_TYPE,
    SPACES,
    Found,
    Text,
    index_of,
    is_builtin_type,
    is_member,
    locals_of,
)
from eas.metal_sim.tokens import Token, closing, closing_angle

_CONSTANT_TYPE = re.compile(r"(?:bool|u?char|u?short|u?int|u?long|half|float|bfloat|size_t|u?int(?:8|16|32|64)_t)[234]?$")
MAX_FUNCTION_CONSTANT = 65535


def program_scope(text: Text) -> Found:
    for variable in text.outline.variables:
        words = {t.text for t in variable.tokens}
        if variable.is_template or "constant" in words or len(variable.tokens) < 2:
            continue
        yield _named(variable.tokens), "a variable at program scope must be in the constant address space"


def static_members(text: Text) -> Found:
    for member in text.outline.members:
        words = {t.text for t in member.tokens}
        if "static" in words and "constant" not in words:
            yield _named(member.tokens), "a static member must be in the constant address space"


def uninitialised_constant(text: Text) -> Found:
    for variable in text.outline.variables:
        words = [t.text for t in variable.tokens]
        if variable.has_value or "constant" not in words or variable.is_template or "::" in words or "extern" in words:
            continue  # `constant T S::member[8];` only repeats what the class says
        if "function_constant" not in variable.attributes.split():
            yield _named(variable.tokens), "a constant at program scope needs a value or [[function_constant(index)]]"


def _named(tokens: tuple[Token, ...]) -> Token:
    """The token that names what a declaration declares."""
    for i, token in enumerate(tokens):
        if token.text in ("=", "[", "{", ","):
            return tokens[max(i - 1, 0)]
    return tokens[-1]


def local_variables(text: Text) -> Found:
    """Variables of functions in threadgroup, device and constant memory, and static ones."""
    lambdas, classes = _lambda_bodies(text.tokens), _without_threadgroup_constructor(text.tokens)
    for local in locals_of(text):
        name, words = local.name, local.words
        if "static" in words and "constant" not in words:
            yield name, f"the static variable {name.text} must be in the constant address space"
        elif local.is_pointer:
            continue
        elif "device" in words:
            yield name, f"{name.text} cannot be declared in device memory: device variables are the arguments of kernels"
        elif "threadgroup" in words and (not local.function.is_kernel or any(a < name.start < b for a, b in lambdas)):
            yield name, f"the threadgroup variable {name.text} must be declared in a kernel"
        elif "threadgroup" in words and words & classes:
            yield name, f"{next(iter(words & classes))} has a constructor for thread memory only, and {name.text} is in threadgroup memory"
        elif "threadgroup" in words and local.has_value and not local.is_zeroed:
            yield name, f"the threadgroup variable {name.text} cannot have a value from the start"
        elif "constant" in words and not local.has_value:
            yield name, f"the constant {name.text} needs a value"


def _lambda_bodies(tokens: list[Token]) -> list[tuple[int, int]]:
    """Where the bodies of lambda expressions begin and end in the text."""
    found = []
    for i in range(1, len(tokens) - 2):
        if tokens[i].text != "[" or tokens[i + 1].text == "[" or tokens[i - 1].text not in ("=", "(", ",", "return", ";", "{", "}"):
            continue
        at = closing(tokens, i) + 1
        if at < len(tokens) and tokens[at].text == "(":
            at = closing(tokens, at) + 1
        while at < len(tokens) and (tokens[at].kind == "word" or tokens[at].text in ("-", ">", "->", "::", "&", "*")):  # mutable, -> type
            at += 1
        if at < len(tokens) and tokens[at].text == "{":
            found.append((tokens[at].start, tokens[closing(tokens, at)].start))
    return found


def _without_threadgroup_constructor(tokens: list[Token]) -> set[str]:
    """Classes of which no default constructor makes an object in threadgroup memory, because there are others."""
    found = set()
    for i in range(len(tokens) - 2):
        if tokens[i].text not in ("struct", "class") or tokens[i + 1].kind != "word":
            continue
        brace = next((k for k in range(i + 2, min(i + 40, len(tokens))) if tokens[k].text in ("{", ";", "(", ")", ">", ",", "=")), len(tokens))
        if brace == len(tokens) or tokens[brace].text != "{":
            continue
        ends = _constructor_ends(tokens, brace, tokens[i + 1].text)
        if ends and not any({"threadgroup", "default"} & set(words) for words in ends):
            found.add(tokens[i + 1].text)
    return found


def _constructor_ends(tokens: list[Token], brace: int, name: str) -> list[list[str]]:
    """What stands behind the parameters of each constructor of a class that is no template, up to its initialisers or body."""
    ends, at, last = [], brace + 1, closing(tokens, brace)
    while at < last:
        token = tokens[at]
        if token.text == "{":
            at = closing(tokens, at)
        elif token.text == name and tokens[at + 1].text == "(" and tokens[at - 1].text not in ("~", ".", "->", "::", "return", "=", ","):
            at = closing(tokens, at + 1)
            stop = next(k for k in range(at, len(tokens)) if tokens[k].text in ("{", ";") or (tokens[k].text == ":" and tokens[k - 1].text != ":"))
            ends.append([t.text for t in tokens[at:stop]])
            while tokens[stop].text not in ("{", ";"):
                stop = closing(tokens, stop) + 1 if tokens[stop].text == "(" else stop + 1
            at = closing(tokens, stop) if tokens[stop].text == "{" else stop
        at += 1
    return ends


def function_pointers(text: Text) -> Found:
    """`int (*p)(int)` and variables of such types; a function may be a template's argument, and visible ones have tables."""
    tokens = text.tokens
    if any(t.text in ("visible", "visible_function_table") for t in tokens):
        return
    templates = _template_lists(tokens)
    aliases: set[str] = set()
    for i in range(1, len(tokens) - 4):
        if tokens[i].text in aliases:
            end = closing_angle(tokens, i + 1) if tokens[i + 1].text == "<" else i
            named = tokens[end + 1] if tokens[end + 1].kind == "word" else None
        elif tokens[i].text == "(" and _is_function_pointer(text, i):
            alias = _alias(tokens, i)
            aliases |= {alias} if alias else set()
            named = None if alias else tokens[i + 1]
        else:
            continue
        if named is not None and not any(first < i < last for first, last in templates):
            yield named, "this is a function pointer: Metal has them for [[visible]] functions only"


def _is_function_pointer(text: Text, at: int) -> bool:
    """Whether a `(` opens the declarator in `int (*p)(int)`, `int (*)(int)` or `int (*p[2])(int)`."""
    tokens = text.tokens
    end = closing(tokens, at)
    inside, before = tokens[at + 2 : end], tokens[at - 1]
    if tokens[at + 1].text != "*" or end + 1 >= len(tokens) or tokens[end + 1].text != "(":
        return False
    is_declarator = not inside or (inside[0].kind == "word" and (len(inside) == 1 or inside[1].text == "["))
    return is_declarator and (is_builtin_type(before.text) or before.text in text.outline.type_names or before.text in ("*", "&", ">", "auto"))


def _alias(tokens: list[Token], at: int) -> str | None:
    """The name that `using F = int (*)(int)` or `typedef int (*F)(int)` gives."""
    first = at
    while first > 0 and tokens[first - 1].text not in (";", "{", "}") and tokens[first - 1].kind != "directive":
        first -= 1
        if tokens[first].text == "using":
            return tokens[first + 1].text
        if tokens[first].text == "typedef":
            return tokens[at + 2].text
    return None


def _template_lists(tokens: list[Token]) -> list[tuple[int, int]]:
    return [(i + 1, closing_angle(tokens, i + 1)) for i, t in enumerate(tokens[:-1]) if t.text == "template" and tokens[i + 1].text == "<"]


def variadic(text: Text) -> Found:
    for function in text.outline.functions:
        opening, end = function.parameters
        if end - opening > 3 and [t.text for t in text.tokens[end - 3 : end]] == ["."] * 3 and text.tokens[end - 4].text in (",", "("):
            yield text.tokens[end - 3], f"{function.name} takes any number of arguments: Metal has no variadic functions but templates"


def function_constants(text: Text) -> Found:
    """[[function_constant(index)]]: a number of its own below 65536, a scalar or vector, no value."""
    taken: dict[int, str] = {}
    for variable in text.outline.variables:
        if "function_constant" not in variable.attributes.split():
            continue
        name, words = _named(variable.tokens), [t.text for t in variable.tokens]
        types = [w for w in words[: words.index(name.text)] if w not in ("constant", "const", "constexpr", "static", "metal", "::", "extern", "unsigned", "signed")]
        if variable.has_value:
            yield name, f"the function constant {name.text} gets its value when a pipeline is made, not here"
        if types and not _CONSTANT_TYPE.match(types[-1]) and types[-1] not in text.outline.typedefs:
            yield name, f"the function constant {name.text} must be a scalar or a vector, not {types[-1]}"
        if "[" in words:
            yield name, f"the function constant {name.text} cannot be an array"
        index = re.search(r"function_constant ((?:[0-9]{1,9}|[+* ])+)(?!\w)", variable.attributes)
        number = None if index is None else index_of(index[1])
        if number is None:  # a sum of names, which the preprocessor did not know
            continue
        if number > MAX_FUNCTION_CONSTANT:
            yield name, f"function_constant({number}) of {name.text} is above {MAX_FUNCTION_CONSTANT}"
        elif taken.setdefault(number, name.text) != name.text:
            yield name, f"function_constant({number}) is used twice, by {taken[number]} and {name.text}"


def private_atomics(text: Text) -> Found:
    """Atomic types live in device and threadgroup memory."""
    tokens = text.tokens
    bodies = [f.body for f in text.outline.functions]
    lists = [f.parameters for f in text.outline.functions]
    for i, token in enumerate(tokens):
        if not _is_atomic(token.text) or is_member(tokens, i):
            continue
        end = closing_angle(tokens, i + 1) if tokens[i + 1].text == "<" else i
        if token.text in ("atomic", "_atomic") and end == i:
            continue
        spaces = _spaces_before(tokens, i)
        after = tokens[end + 1].text if end + 1 < len(tokens) else ""
        if spaces & {"thread", "constant"}:
            yield token, f"{token.text} cannot be in {next(iter(spaces & {'thread', 'constant'}))} memory: atomics are in device or threadgroup memory"
        elif not spaces and tokens[end + 1].kind == "word" and after not in ("const", "volatile", *SPACES):
            inside = any(a < i < b for a, b in bodies) and _starts_here(tokens, i)
            if inside or any(a < i < b for a, b in lists):
                yield token, f"{after} is an atomic of the thread: atomics are in device or threadgroup memory"


def _is_atomic(word: str) -> bool:
    return word in ("atomic", "_atomic") or bool(ATOMIC_TYPE.match(word))


def _spaces_before(tokens: list[Token], at: int) -> set[str]:
    found: set[str] = set()
    at -= 1
    while at >= 0 and (tokens[at].text in SPACES or tokens[at].text in ("const", "volatile", "coherent", "metal", "::", "static", "struct")):
        found |= {tokens[at].text} & SPACES
        at -= 1
    return found


def _starts_here(tokens: list[Token], at: int) -> bool:
    at -= 1
    while tokens[at].text in ("const", "volatile", "metal", "::", "static"):
        at -= 1
    return tokens[at].text in (";", "{", "}", ")") or tokens[at].kind == "directive"
