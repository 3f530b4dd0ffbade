"""Small IR texts for tests of passes: what goes in, what must come out, to the letter."""

from __future__ import annotations

from textwrap import dedent, indent

from eas.ir import IRModule, verify
from eas.ir.text import parse_module, print_module
from eas.passes import Pass


def kernel(args: str, body: str, attrs: str = "") -> IRModule:
    """A verified spmd kernel; the last `yield` is added."""
    return verify(parse_module(f"kernel k({args}) spmd{attrs} {{\n{body}\nyield\n}}"))


def body_text(module: IRModule) -> str:
    lines = print_module(module).splitlines()[1:-1]
    assert lines[-1] == "  yield"
    return dedent("\n".join(lines[:-1]))


def check(run: Pass, args: str, before: str, after: str, attrs: str = "") -> None:
    """The pass turns `before` into exactly `after`, leaves its input alone, and then has nothing to do."""
    module = kernel(args, before, attrs)
    text = print_module(module)
    got = verify(run(module))
    assert print_module(module) == text
    assert body_text(got) == dedent(after).strip("\n"), "\n" + indent(body_text(got), "    ")
    assert run(got) is got


def check_same(run: Pass, args: str, body: str, attrs: str = "") -> None:
    """The pass finds nothing to do."""
    module = kernel(args, body, attrs)
    assert run(module) is module
