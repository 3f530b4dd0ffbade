"""The software Metal refuses what Apple's compiler refuses, and takes the valid twin of each refused text."""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

import pytest

from eas.base.errors import EasError
from eas.metal_sim import Library, toolchain
from tests.unit import refused_texts, refused_types
from tests.unit.refused_texts import HEAD, Row, whole

pytestmark = pytest.mark.skipif(toolchain.why_unavailable() is not None, reason=str(toolchain.why_unavailable()))

TABLES: dict[str, list[Row]] = {
    "words": refused_texts.WORDS, "declarations": refused_texts.DECLARATIONS, "kernels": refused_texts.KERNELS, "spaces": refused_types.SPACES,
    "vectors": refused_types.VECTORS, "conversions": refused_types.CONVERSIONS, "atomics": refused_types.ATOMICS, "simdgroups": refused_types.SIMDGROUPS,
}  # fmt: skip


def language_of(row: Row) -> str:
    return row[3] if len(row) > 3 else "3.1"


def refusal(text: str, language: str = "3.1") -> str:
    """What a text is refused with; "" if it is taken."""
    try:
        Library(text, language=language).check()
    except EasError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("table", TABLES)
def test_texts_are_refused(table):
    def said(row: Row) -> str:
        return refusal(whole(row[1]), language_of(row))

    with ThreadPoolExecutor(2) as pool:
        told = dict(zip([row[0] for row in TABLES[table]], pool.map(said, TABLES[table]), strict=True))
    assert [name for name, text in told.items() if not text] == []
    # In words of Metal, with the place in the text.
    wrong = [text for text in told.values() if "eas_" in text.replace("_eas_h", "") or "__global" in text or "BackendUnavailable" in text]
    assert wrong == []


def together(texts: list[str]) -> str:
    """Many texts as one: each in a namespace of its own."""
    return HEAD + "".join(f"namespace n{i} {{\n{text.removeprefix(HEAD)}\n}}\n" for i, text in enumerate(texts))


def alone(text: str) -> bool:
    """Whether a text cannot share a library: indices of function constants are the library's."""
    return "function_constant" in text or "#" in text.removeprefix(HEAD)


def test_their_valid_twins_are_taken():
    by_language: dict[str, list[str]] = defaultdict(list)
    for row in (row for table in TABLES.values() for row in table):
        by_language[language_of(row)].append(whole(row[2]))
    for language, texts in by_language.items():
        unique = list(dict.fromkeys(texts))
        with ThreadPoolExecutor(2) as pool:
            told = list(pool.map(lambda t, level=language: refusal(t, level), filter(alone, unique)))
        assert [text for text in told if text] == []
        assert refusal(together([t for t in unique if not alone(t)]), language) == ""


def test_there_are_many_texts():
    assert sum(map(len, TABLES.values())) >= 400
    for rows in TABLES.values():
        assert len({row[0] for row in rows}) == len(rows)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("threadgroup float x = 1;", "the threadgroup variable x cannot have a value from the start", "write its part before a barrier"),
        ("long x = 0LL;", "0LL has the suffix LL", "write 0L"),
        ("float* p = f;", "a pointer type must name its address space", "write device, constant, threadgroup or thread"),
        ("atomic_int x;", "x is an atomic of the thread", ""),
        ("simdgroup_float8x8 m; simdgroup_load(m, c, 8);", "a constant pointer cannot be used as a device pointer", "copy the value"),
        ("float4 v = 1; thread float* p = &v[1];", "a vector's component has no address", ""),
        ("bfloat b = 1; b += f[i];", "deleted operator '+='", "write bfloat(x), float(x) or half(x)"),
        ("bfloat b = 1; half h = b;", "deleted function", "write bfloat(x), float(x) or half(x)"),
        ("int x{f[i]};", "type 'float' cannot be narrowed to 'int' in initializer list", ""),
    ],
)
def test_a_refusal_names_the_line_and_the_next_step(text, message, hint):
    told = refusal(whole(text))
    assert message in told
    assert "kernel.metal:6" in told
    assert text in told
    assert hint in told


def test_the_library_checks_kernels_without_making_code():
    Library("kernel void k(device float* f) { f[0] = 1; }\nkernel void j(device float* f) { f[0] = 2; }").check()
    wrong = Library("kernel void k(device float* f) { f[0] = 1; }\nkernel void j(device float* f) { f[0] = g(); }")
    with pytest.raises(EasError, match="undeclared identifier 'g'"):
        wrong.check()
