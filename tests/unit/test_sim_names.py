"""Hostile names: of files, folders, kernels and constants never become a part of the program that is compiled."""

from __future__ import annotations

import contextlib
import os

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import eas.__main__ as cli
from eas.base.errors import ArgumentError, EasError, SanitizerError, printable
from eas.metal_sim import Library, MetalSourceError, toolchain

pytestmark = pytest.mark.skipif(toolchain.why_unavailable() is not None, reason=str(toolchain.why_unavailable()))
EVIL = "kernel void evil(device int* x) { x[0] = 666; }"
HEAD = "#include <metal_stdlib>\n#define SEVEN 7\n"  # a directive of its own: the text goes through the preprocessor
GOOD = f"{HEAD}kernel void good(device int* x) {{ x[0] = SEVEN; }}\n"
BAD = f"{HEAD}kernel void good(device int* x) {{ x[0] = nothing; }}\n"
PARTS = ['"', "'", "\\", "\n", "\r", "\u2028", "%s", "%n", "*/", "/*", "//", "??/", "\\\n", "#", "@", "-", ":1:1: error: x", "é", "\U0001d518", "\x1b[31m", "\u202e", "$(x)", "`", "{", "}", EVIL, "a"]
NAMES = [
    f'x"\n{EVIL}\n//', f'x"\r{EVIL}\r#', f'x\\"\n{EVIL}', f"*/ {EVIL} /*", "x\\", 'x\\\\"', "%s%n{name}", "<metal>", "<entries>", "",
    "\ud800", "a\0b", "@options", "-fplugin=x.so", "a:1:1: error: b",
]  # fmt: skip
hostile = st.one_of(st.sampled_from(NAMES), st.lists(st.sampled_from(PARTS), max_size=6).map("".join), st.text(max_size=20))
few = settings(max_examples=16, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(name=hostile)
@few
def test_the_name_of_a_text_adds_nothing_to_it(name):
    library = Library(GOOD, name=name)
    assert library.kernel_names == ("good",)
    x = np.zeros(1, np.int32)
    library.kernel("good")(x, grid=1)
    assert x[0] == 7


@given(name=hostile)
@few
def test_an_error_shows_the_name_in_one_line(name):
    for text in (BAD, HEAD + "double x;", HEAD + "kernel void f(int x) {}"):
        with pytest.raises(MetalSourceError) as error:
            Library(text, name=name).kernel("good")
        lines = str(error.value).splitlines()
        assert f"  at {printable(name) or '<metal>'}:3" in lines, lines
        assert "".join(lines).isprintable()


def file_names():
    unfit = str.maketrans({"/": None, "\0": None})
    return hostile.map(lambda n: n.translate(unfit).encode("utf-8", "replace")[:120].decode("utf-8", "ignore")).filter(lambda n: n.strip(".") != "")


@given(folder=file_names(), file=file_names())
@few
def test_files_and_folders_of_any_name_are_read(folder, file, tmp_path_factory, capfd):
    parent = tmp_path_factory.mktemp("names") / folder
    parent.mkdir()
    (parent / "seven.h").write_text("#define SEVEN 7\n#define EIGHT nothing\n")
    path = parent / f"{file}.metal"
    path.write_text('#include "seven.h"\nkernel void good(device int* x) { x[0] = SEVEN; }\n', encoding="utf-8")
    assert cli.main(["sim", str(path)]) == 0
    assert capfd.readouterr().out == "good\n    device int* x  [buffer 0]\n"
    path.write_text('#include "seven.h"\nkernel void good(device int* x) { x[0] = EIGHT; }\n', encoding="utf-8")
    assert cli.main(["sim", str(path), "--kernel", "good", "--arg", "i32:1", "--grid", "1"]) == 1
    told = capfd.readouterr().err
    assert "undeclared identifier 'nothing'" in told
    assert f"at {printable(path.name)}:2" in told


def test_a_folder_of_any_bytes_is_read(tmp_path):
    parent = os.fsencode(tmp_path) + b"/\xff\xfe"
    os.mkdir(parent)
    with open(parent + b"/seven.h", "w") as file:
        file.write("#define SEVEN 7\ninline int seven() { return SEVEN; }\n")
    text = '#include "seven.h"\nkernel void good(device int* x, uint t [[thread_index_in_threadgroup]]) {\n  x[t] = seven();\n}'
    library = Library(text, include=[os.fsdecode(parent)], sanitize=True)
    with pytest.raises(SanitizerError, match="at line 3"):
        library.kernel("good")(np.zeros(1, np.int32), grid=1, threads=2)


def test_a_folder_is_no_file_of_options(tmp_path, monkeypatch, capsys):
    """`@name` on a command line of the compiler means: options stand in the file `name`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "options").write_text("-DSEVEN=666")
    (tmp_path / "@options").mkdir()
    (tmp_path / "@options" / "x.metal").write_text("#ifdef SEVEN\nkernel void evil(device int* x) {}\n#endif\nkernel void good(device int* x) {}\n")
    assert cli.main(["sim", "@options/x.metal"]) == 0
    assert capsys.readouterr().out.startswith("good\n")


@pytest.mark.parametrize("path", ["a\0b", "\ud800"])
def test_an_include_folder_that_is_no_path_is_refused(path):
    with pytest.raises(ArgumentError, match="is no path"):
        Library(GOOD, include=[path])


def test_half_a_character_in_a_text_is_refused():
    with pytest.raises(MetalSourceError, match="has half of a character") as error:
        Library("// fine\n// \ud800\n" + GOOD)
    assert error.value.line == 2


@given(host=st.text(st.characters(exclude_characters='"\\\n\r', exclude_categories=["Cs"]), min_size=1, max_size=12))
@few
def test_host_names_are_looked_up_and_printed_only(host, tmp_path_factory, capfd):
    text = (
        "template <typename T> [[kernel]] void store(device T* x) { x[0] = T(7); }\n"
        f'template [[host_name("{host}")]] [[kernel]] void store<int>(device int* x);\n'
    )
    library = Library(text)
    assert library.kernel_names == (host,)
    x = np.zeros(1, np.int32)
    library.kernel(host)(x, grid=1)
    assert x[0] == 7
    path = tmp_path_factory.mktemp("hosts") / "x.metal"
    path.write_text(text, encoding="utf-8", newline="")
    assert cli.main(["sim", str(path)]) == 0
    assert capfd.readouterr().out == f"{printable(host)}\n    device T* x  [buffer 0]\n"


@pytest.mark.parametrize("value", ["1); evil(", "7", b"7", object(), ["1", "2"], {1: 2}])
def test_a_function_constant_is_a_number(value):
    text = "constant int n [[function_constant(0)]];\nkernel void f(device int* x) { x[0] = n; }"
    with pytest.raises(ArgumentError, match="a function constant is a number, a bool or a list of them, got"):
        Library(text, function_constants={"n": value})


@pytest.mark.parametrize(
    ("type_", "value", "want"),
    [
        ("int", np.int64(-3), -3), ("bool", np.bool_(True), 1), ("float", np.float32(2.5), 2.5), ("float", float("-inf"), -np.inf),
        ("float", float("inf"), np.inf), ("float", float("nan"), np.nan), ("float", -0.75, -0.75),
    ],
)  # fmt: skip
def test_function_constants_of_numpy_and_special_floats(type_, value, want):
    text = f"#include <metal_stdlib>\nconstant {type_} n [[function_constant(0)]];\nkernel void f(device float* x) {{ x[0] = float(n); }}"
    x = np.zeros(1, np.float32)
    Library(text, function_constants={0: value}).kernel("f")(x, grid=1)
    assert np.array_equal(x, np.array([want], np.float32), equal_nan=True)


@pytest.mark.parametrize("text", ["kernel void f(device int* x [[buffer(1²)]]) {}", f"kernel void f(device int* x [[buffer({'9' * 5000})]]) {{}}", "[[max_total_threads_per_threadgroup(1²)]] kernel void f(device int* x) { x[0] = 1²; }"])
def test_numbers_that_are_none_are_refused(text):
    with pytest.raises(EasError):
        Library(text).kernel("f")


COMPLETE = """namespace mine { template <typename T, int N> [[kernel]] void scale(device T* x [[buffer(0)]], uint i [[thread_position_in_grid]]) { threadgroup alignas(16) float t[4], u; x[i] *= T(N); } }
template [[host_name("by3")]] [[kernel]] void mine::scale<float, 3>(device float* x [[buffer(0)]], uint i [[thread_position_in_grid]]);
constant bool twice [[function_constant(0)]];
constant int extra = is_function_constant_defined(twice) ? 1.0h : 100;
kernel void f(device float* x, coherent(device) device int* q, threadgroup int* tile [[threadgroup(0)]]) { x[0] = 1.0h; alignas(8) threadgroup int z; auto a = (device atomic<int>*)x; }
using F = int (*)(int);
"""


def test_a_part_of_a_text_is_read_or_refused():
    """Nothing but an error of eas, wherever a file was cut off or a name left out."""
    assert Library(COMPLETE, language="3.2").kernel_names == ("f", "by3")
    for cut in range(0, len(COMPLETE), 3):
        for text in (COMPLETE[:cut], COMPLETE[cut:], COMPLETE[:cut] + COMPLETE[cut + 1 :]):
            with contextlib.suppress(EasError):
                Library(text, language="3.2")


def test_a_bracket_without_a_partner_is_shown():
    with pytest.raises(MetalSourceError, match=r"the bracket \{ has no partner\n  at x.metal:2"):
        Library("// one\nkernel void f(device int* x) { x[0] = 1;\n", name="x.metal")
