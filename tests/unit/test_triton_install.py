"""`import triton` finds eas where it was told so, and never takes the place of a real Triton by itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

PROGRAM = """
import sys
import triton
import triton.language as tl
import triton.language.extra.libdevice
from triton.language.extra import libdevice
from triton.runtime.jit import JITFunction
import importlib.util, pathlib
import eas.triton

assert triton is eas.triton and tl is eas.triton.language
assert triton.runtime.jit.JITFunction is JITFunction is eas.triton.JITFunction
assert importlib.util.find_spec("triton") is not None and triton.__spec__.name == "eas.triton"
assert importlib.util.find_spec("triton.nothing") is None
print(sys.argv[1:], __name__)
"""


def _run(code_or_args, cwd=ROOT):
    args = ["-c", code_or_args] if isinstance(code_or_args, str) else code_or_args
    return subprocess.run([sys.executable, *args], cwd=cwd, env={"PYTHONPATH": str(ROOT), "PATH": ""}, capture_output=True, text=True, check=False)


def test_install_registers_triton():
    done = _run("import eas; eas.triton.install(); eas.triton.install()\n" + PROGRAM)
    assert (done.stdout, done.stderr) == ("[] __main__\n", "")


def test_a_program_runs_with_triton_from_eas(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(PROGRAM)
    done = _run(["-m", "eas", "triton", str(script), "--flag", "x"], tmp_path)
    assert (done.stdout, done.stderr) == ("['--flag', 'x'] __main__\n", "")


def test_a_real_triton_is_replaced_only_if_told(tmp_path):
    (tmp_path / "triton").mkdir()
    (tmp_path / "triton" / "__init__.py").write_text("real = True\n")
    code = f"""
import sys; sys.path.insert(0, {str(tmp_path)!r})
import eas.triton
try:
    eas.triton.install()
except eas.errors.EasError as error:
    print(str(error).splitlines()[0][:27], "|", "replace=True" in str(error))
import triton
print(triton.real)
eas.triton.install(replace=True)
import triton
print(triton is eas.triton)
eas.triton.uninstall()
import triton
print(triton.real)
"""
    done = _run(code)
    assert done.stdout.splitlines()[1:] == ["True", "True", "True"]
    assert done.stdout.startswith("there is a Triton already")
    assert "| True" in done.stdout
    assert done.stderr == ""
