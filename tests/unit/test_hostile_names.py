"""Names, files and messages of any characters: generated text keeps its meaning, and gives them back."""

import re
from types import FunctionType

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import eas
from eas import mk
from eas.codegen.msl.text import comment
from eas.ir.text import parse_module, print_module
from eas.metal_sim.library import Library

HOSTILE = [
    "a\nb", 'quote"; }', "back\\", "back\\\nslash", "*/ kernel void planted() {} /*", "// comment", "trigraph??/", "%s%n%d",
    "größe", "\u2028line", "\x85", "nul\0", "\r\n#define device", "\ud800", '# 1 "x"', "😀", "", " ", "1st", "kernel", "<lambda>", "@main", "\x1b[2J",
]  # fmt: skip
EVIL = "\n}\nkernel void planted(device float *x [[buffer(0)]]) { x[0] = 666; }\n//"
ANY_TEXT = st.one_of(st.sampled_from([*HOSTILE, EVIL]), st.text(max_size=20), st.text('\n\r\\"/*?%#\0{};', max_size=12))


def with_names(name, filename, message):
    def body(x, N, BLOCK: eas.constexpr = 4):
        offs = mk.arange(BLOCK)
        mk.device_assert(N < 100, message)
        mk.store(x + offs, mk.load(x + offs) * 2.0)

    code = body.__code__.replace(co_filename=filename) if filename is not None else body.__code__
    made = FunctionType(code, body.__globals__, body.__name__, body.__defaults__, body.__closure__)
    made.__annotations__ = body.__annotations__
    made.__name__ = made.__qualname__ = name
    return eas.Kernel(made)


def check_texts(kernel):
    compiled = kernel.compile(np.zeros(4, np.float32), 4)
    for module in (compiled.traced, compiled.ir):
        text = print_module(module)
        again = parse_module(text)
        assert again.name == module.name
        assert [a.name for a in again.args] == [a.name for a in module.args]
        assert print_module(again) == text
    plain = PLAIN.compile(np.zeros(4, np.float32), 4)
    code = [line for line in compiled.msl.split("\n") if not line.startswith("//")]
    wanted = [line for line in plain.msl.split("\n") if not line.startswith("//")]
    assert len(compiled.msl.splitlines()) == len(plain.msl.splitlines())
    assert compiled.msl.isascii()
    name = next(re.search(r"kernel void (\w+)\(", line) for line in code if "kernel void" in line)[1]
    assert [re.sub(rf"\b{name}_args\b", "plain_args", line.replace(f"void {name}(", "void plain(")) for line in code] == wanted
    assert compiled.llvm == plain.llvm


PLAIN = with_names("plain", None, "message")


@settings(max_examples=60, deadline=None)
@given(name=ANY_TEXT, filename=st.one_of(st.none(), ANY_TEXT), message=ANY_TEXT)
@example(name=EVIL, filename=EVIL, message=EVIL)
def test_generated_texts_keep_their_lines(name, filename, message):
    check_texts(with_names(name, filename, message))


@pytest.mark.parametrize("text", [*HOSTILE, EVIL])
@pytest.mark.parametrize("where", ["cpu", "interp"])
def test_launches_and_messages_are_as_with_plain_names(monkeypatch, where, text):
    monkeypatch.setenv("EAS_BACKEND", where)
    kernel = with_names(text, text, text)
    x = np.ones(4, np.float32)
    kernel(x, 4, _grid=1)
    assert (x == 2).all()
    with pytest.raises(eas.KernelError) as caught:
        kernel(x, 100, _grid=1)
    assert text in str(caught.value)


@pytest.mark.parametrize("text", [EVIL, 'quote"\n#error'])
def test_software_metal_runs_a_kernel_of_that_name(monkeypatch, text):
    monkeypatch.setenv("EAS_BACKEND", "sim")
    kernel = with_names(text, text, text)
    x = np.ones(4, np.float32)
    kernel(x, 4, _grid=1)
    assert (x == 2).all()


def test_parameters_of_any_alphabet(monkeypatch):
    names = ("größe", "x·y", "値", "ªº", "Ω")
    space = {"mk": mk}
    filename = "<alphabet>"
    source = f"def body({', '.join(names)}):\n    mk.store(größe, mk.load(x·y) + mk.load(値) + ªº + Ω)\n"
    exec(compile(source, filename, "exec"), space)
    x, y, z = (np.full(1, n, np.float32) for n in (0, 1, 2))
    for where in ("interp", "cpu", "sim"):
        monkeypatch.setenv("EAS_BACKEND", where)
        kernel = eas.Kernel(space["body"])
        kernel(x, y, z, 3, 4.5, _grid=1)
        assert x[0] == 10.5
        compiled = kernel.compile(x, y, z, 3, 4.5)
        text = print_module(compiled.traced)
        assert print_module(parse_module(text)) == text
        assert [a.name for a in parse_module(text).args] == [a.name for a in compiled.traced.args]
        assert compiled.msl.isascii()


@given(ANY_TEXT)
def test_comment_is_one_line_that_joins_no_other(text):
    made = comment(text)
    assert made.isascii()
    assert made.isprintable()
    assert not made.endswith("\\")
    assert "??" not in made


def test_library_of_the_software_metal_has_the_kernels_that_were_written():
    kernel = with_names(EVIL, EVIL, EVIL)
    text = kernel.to_msl(np.zeros(4, np.float32), 4)
    assert len(Library(text).kernel_names) == 1
